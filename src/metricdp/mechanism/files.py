"""Mechanism files (``.mdp``): safetensors, no code inside, certified again when they are loaded.

A dense table is written as ``metricdp-1``, a sparse one as ``metricdp-2``, with ``+epsilons`` after it where
records have epsilons of their own; docs/file-format.md is the norm for both.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from metricdp.data.records import Records
from metricdp.data.writing import check_writable
from metricdp.errors import CertificationError, FileFormatError, InputError, UnmetError
from metricdp.mechanism.certificate import as_claimed
from metricdp.mechanism.container import read_header, short, write
from metricdp.mechanism.layout import DENSE, OWN_BUDGETS, SPARSE, checked_tensors, layout_of
from metricdp.mechanism.mechanism import Mechanism, Optimality
from metricdp.mechanism.scope import can_be_recomputed, rounded_down
from metricdp.mechanism.sparse import SparseTable
from metricdp.mechanism.stored_losses import dense_losses, read_losses, sparse_losses
from metricdp.metric.directions import coordinate_metric
from metricdp.metric.graph import MdpGraph
from metricdp.metric.remade import can_be_remade, remade
from metricdp.metric.rounding import CHECKED_MARGIN, STORED_MARGIN
from metricdp.problem.losses import given_losses
from metricdp.problem.outputs import Outputs

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from metricdp.data.records import Kind
    from metricdp.problem.losses import Losses

SPARSE_TENSORS = ("indptr", "columns", "weights", "background", "scale")
# pairs are left out of a file, and made again, only up to so many for each record and stored weight: the work follows
# from a file's size; a reader takes more, because on another machine a few pairs at eta may be on the other side of it
WRITTEN_PAIRS_PER_ENTRY, READ_PAIRS_PER_ENTRY = 8, 16


def save(
    mechanism: Mechanism, path: str | Path, *, losses: Losses | ArrayLike | None = None, loss_name: str = "given"
) -> None:
    """Write ``mechanism`` to ``path``: first beside it, then moved into place, so that no partial file is ever seen.

    The file holds the losses that the mechanism was made for, unless they are a large matrix that cannot be made
    again, so that it can be evaluated from the file alone; ``losses`` (shape (N, K), not weighted by the prior) and
    ``loss_name`` replace them if given.
    """
    own = mechanism.losses
    if losses is None:
        loss_name = mechanism.loss_name
    else:
        own = given_losses(losses, mechanism.records.n, mechanism.outputs.n)
    target = Path(path)
    check_writable(target)
    mechanism.recheck()  # only a table that passes is written, whatever happened to the object since it was made
    outputs = mechanism.outputs
    tensors: dict[str, NDArray[Any]] = {
        "outputs": outputs.coordinates if outputs.rows is None else outputs.rows.astype(np.int32),
        "records": mechanism.records.coordinates,
        "prior": mechanism.records.prior,
    }
    metadata = {
        "epsilon": mechanism.epsilon.hex(),
        "eta": mechanism.eta.hex(),
        "metric": mechanism.metric,
        "kind": mechanism.records.kind,
        "name": mechanism.records.name,
        "ids": json.dumps(mechanism.records.ids),
        "solver": mechanism.solver,
        "created": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }
    if mechanism.optimality is not None:
        metadata["loss"] = mechanism.optimality.loss.hex()
        metadata["lower_bound"] = mechanism.optimality.lower_bound.hex()
    if isinstance(mechanism.table, SparseTable):
        metadata["format"] = SPARSE
        _add_sparse(mechanism, mechanism.table, tensors)
        more, words = sparse_losses(own, loss_name, mechanism.metric, outputs)
    else:
        metadata["format"] = DENSE
        tensors |= {"table": mechanism.table, "pairs": mechanism.graph.pairs, "distances": mechanism.graph.distances}
        more, words = dense_losses(own, loss_name)
    if mechanism.epsilons is not None:
        metadata["format"] += OWN_BUDGETS
        tensors["epsilons"] = mechanism.epsilons
    write(target, tensors | more, metadata | words)


def _add_sparse(mechanism: Mechanism, table: SparseTable, tensors: dict[str, NDArray[Any]]) -> None:
    """Put a sparse table into ``tensors``, and take out what follows from the rest."""
    tensors |= {name: getattr(table, name) for name in SPARSE_TENSORS}
    rows, records = mechanism.outputs.rows, mechanism.records
    if rows is not None and np.array_equal(rows, np.arange(records.n)):
        del tensors["outputs"]
    most = WRITTEN_PAIRS_PER_ENTRY * (records.n + table.n_stored)
    is_left_out = can_be_recomputed(mechanism.metric) and can_be_remade(
        records, mechanism.eta, coordinate_metric(mechanism.metric), mechanism.graph, most=most
    )
    if not is_left_out:
        tensors |= {"pairs": mechanism.graph.pairs, "distances": mechanism.graph.distances}


def load(path: str | Path, *, require: str | None = None) -> Mechanism:
    """Read a mechanism file, check its sizes and hashes, and certify it again.

    Parameters
    ----------
    require
        Conditions beyond the file's claims, such as ``"epsilon<=10, eta>=0.5, metric=haversine, records=HASH"``:
        see `Guarantee.unmet`. A mechanism that does not meet it raises a CertificationError.
    """
    source = Path(path)
    try:
        mechanism = _load(source)
    except CertificationError as error:
        raise CertificationError(f"{source} does not satisfy its claims: {error}") from None
    except FileFormatError:
        raise
    except InputError as error:
        raise FileFormatError(f"{source} is damaged: {error}") from None
    except (OSError, MemoryError) as error:
        raise FileFormatError(f"cannot read {source}: {error}") from None
    unmet = "" if require is None else mechanism.guarantee.unmet(require)
    if unmet:
        raise UnmetError(f"{source} does not meet the requirement: {unmet}")
    return mechanism


def _load(source: Path) -> Mechanism:
    header, offset = read_header(source)
    metadata = header.pop("__metadata__", None)
    layout = layout_of(source, metadata)
    tensors = checked_tensors(source, header, offset, metadata, layout)
    try:
        ids = json.loads(metadata["ids"])
        epsilon, eta = _exact(metadata["epsilon"]), _exact(metadata["eta"])
        optimality = None
        if "loss" in metadata or "lower_bound" in metadata:
            optimality = Optimality(_exact(metadata["loss"]), _exact(metadata["lower_bound"]))
    except (KeyError, ValueError, OverflowError, RecursionError) as error:
        raise FileFormatError(f"{source} is damaged: its metadata cannot be read ({short(error)})") from None
    if not isinstance(ids, list) or not all(isinstance(name, str) for name in ids):
        raise FileFormatError(f"{source} is damaged: its record ids are not a list of texts")
    records = Records(
        tensors["records"], ids=ids, prior=tensors["prior"], kind=cast("Kind", metadata["kind"]), name=metadata["name"]
    )
    outputs = Outputs.of(tensors.get("outputs", np.arange(records.n)), records, seed=0)
    fields = {
        "records": records,
        "outputs": outputs,
        "epsilon": epsilon,
        "epsilons": tensors.get("epsilons"),
        "eta": eta,
        "metric": metadata["metric"],
        "optimality": optimality,
        "solver": metadata["solver"],
        "losses": read_losses(tensors, metadata, records, outputs),
        "loss_name": metadata.get("loss_name", "given"),
    }
    return as_claimed(_certified(tensors, fields))


def _certified(tensors: dict[str, NDArray[Any]], fields: dict[str, Any]) -> Mechanism:
    """Return the mechanism, certified at the pairs of the file, or at those that follow from its coordinates."""
    table: Any = tensors.get("table")
    if table is None:
        table = SparseTable(*(tensors[name] for name in SPARSE_TENSORS))
    records, eta, name = fields["records"], fields["eta"], fields["metric"]
    if "pairs" in tensors:
        graph = MdpGraph(records.n, tensors["pairs"], tensors["distances"])
        if eta > 0 and graph.n_pairs and graph.distances.max() > eta:  # also where rounding down would put it right
            raise CertificationError(f"a neighbour distance {float(graph.distances.max())!r} exceeds eta = {eta!r}")
        graph = rounded_down(records, graph, name)
        return Mechanism(table=table, graph=graph, **fields)
    if not can_be_recomputed(name):
        raise InputError(
            f"it holds no pairs, and those of the metric {short(repr(name))} do not follow from its records"
        )
    metric, most = coordinate_metric(name), READ_PAIRS_PER_ENTRY * (records.n + table.n_stored)

    def made(margin: int) -> Mechanism:
        graph = remade(records, eta, metric, margin=margin, most=most)
        return Mechanism._made(is_scope_known=True, table=table, graph=graph, **fields)  # noqa: SLF001

    try:
        return made(STORED_MARGIN)
    except CertificationError:
        # a machine whose distances came out longer by a last digit may have made the file: those proved to be short
        # enough count, as for pairs that are in a file
        return made(CHECKED_MARGIN)


def _exact(text: str) -> float:
    """Read a hexadecimal float; other notations are refused."""
    value = float.fromhex(text)
    if value.hex() != text:
        raise ValueError(f"{short(repr(text))} is not a hexadecimal float as float.hex writes it")
    return value
