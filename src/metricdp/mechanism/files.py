"""Mechanism files (``.mdp``): safetensors, no code inside, certified again when they are loaded."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from safetensors.numpy import save as to_safetensors

from metricdp.data.records import Records
from metricdp.data.writing import check_writable, write_whole
from metricdp.errors import CertificationError, FileFormatError, InputError
from metricdp.mechanism.mechanism import Mechanism, Optimality
from metricdp.mechanism.scope import rounded_down
from metricdp.metric.graph import MdpGraph
from metricdp.problem.losses import given_losses
from metricdp.problem.outputs import Outputs

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from metricdp.data.records import Kind
    from metricdp.problem.losses import Losses

FORMAT = "metricdp-1"
MAX_HEADER_BYTES = 32_000_000  # room for the ids of a million records
LONGEST_SHOWN = 200  # characters of what a damaged file holds, in a message
DTYPES: dict[str, np.dtype[Any]] = {"U64": np.dtype("<u8"), "I32": np.dtype("<i4"), "F64": np.dtype("<f8")}
# name: (type, number of dimensions)
TENSORS = {
    "table": ("U64", 2),
    "pairs": ("I32", 2),
    "distances": ("F64", 1),
    "records": ("F64", 2),
    "prior": ("F64", 1),
}
OPTIONAL_TENSORS = {"losses": ("F64", 2)}  # what each report costs each record: for evaluation, privacy needs none
OUTPUT_TENSORS = {"I32": 1, "F64": 2}  # rows of the records, or other points
METADATA = (
    "format",
    "epsilon",
    "eta",
    "metric",
    "kind",
    "name",
    "ids",
    "solver",
    "created",
    "sha256",
    "metadata_sha256",
)
OPTIONAL_METADATA = ("loss", "lower_bound", "loss_name")


def save(
    mechanism: Mechanism, path: str | Path, *, losses: Losses | ArrayLike | None = None, loss_name: str = "given"
) -> None:
    """Write ``mechanism`` to ``path``: first beside it, then moved into place, so that no partial file is ever seen.

    The file holds the losses that the mechanism was made for, if there is memory for a matrix of them, so that it can
    be evaluated from the file alone; ``losses`` (shape (N, K), not weighted by the prior) and ``loss_name`` replace
    them if given.
    """
    if losses is None and mechanism.losses is not None and mechanism.losses.fits():
        losses, loss_name = mechanism.losses, mechanism.loss_name
    target = Path(path)
    check_writable(target)
    mechanism.recheck()  # only a table that passes is written, whatever happened to the object since it was made
    outputs = mechanism.outputs
    tensors: dict[str, NDArray[Any]] = {
        "table": mechanism.dense_table,
        "pairs": mechanism.graph.pairs,
        "distances": mechanism.graph.distances,
        "outputs": outputs.coordinates if outputs.rows is None else outputs.rows.astype(np.int32),
        "records": mechanism.records.coordinates,
        "prior": mechanism.records.prior,
    }
    if losses is not None:
        tensors["losses"] = given_losses(losses, mechanism.records.n, outputs.n).whole()
    metadata = {
        "format": FORMAT,
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
    if losses is not None:
        metadata["loss_name"] = loss_name
    metadata["sha256"] = tensor_hash(tensors)
    metadata["metadata_sha256"] = metadata_hash(metadata)
    data = to_safetensors(tensors, metadata=metadata)
    header_bytes = int.from_bytes(data[:8], "little")
    if header_bytes > MAX_HEADER_BYTES:
        raise InputError(
            f"the record ids take {header_bytes:,} bytes, but a mechanism file has room for {MAX_HEADER_BYTES:,}: "
            "shorten them"
        )
    write_whole(target, data)


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
        raise CertificationError(f"{source} does not meet the requirement: {unmet}")
    return mechanism


def _load(source: Path) -> Mechanism:
    header, offset = _read_header(source)
    metadata = header.pop("__metadata__", None)
    tensors = _map_tensors(source, header, offset)
    fields = _checked_metadata(source, metadata, tensors)
    try:
        ids = json.loads(fields["ids"])
        epsilon, eta = _exact(fields["epsilon"]), _exact(fields["eta"])
        optimality = None
        if "loss" in fields or "lower_bound" in fields:
            optimality = Optimality(_exact(fields["loss"]), _exact(fields["lower_bound"]))
    except (KeyError, ValueError, OverflowError, RecursionError) as error:
        raise FileFormatError(f"{source} is damaged: its metadata cannot be read ({_short(error)})") from None
    if not isinstance(ids, list) or not all(isinstance(name, str) for name in ids):
        raise FileFormatError(f"{source} is damaged: its record ids are not a list of texts")
    records = Records(
        tensors["records"], ids=ids, prior=tensors["prior"], kind=cast("Kind", fields["kind"]), name=fields["name"]
    )
    graph = MdpGraph(len(tensors["table"]), tensors["pairs"], tensors["distances"])
    graph = rounded_down(records, graph, fields["metric"])
    outputs = Outputs.of(tensors["outputs"], records, seed=0)
    loss_name = fields.get("loss_name", "given")
    given = tensors.get("losses")
    losses = None if given is None else given_losses(given, records.n, outputs.n, name=loss_name)
    mechanism = Mechanism(
        np.array(tensors["table"]),
        records,
        outputs,
        graph,
        epsilon,
        eta,
        fields["metric"],
        optimality,
        fields["solver"],
        losses,
        loss_name,
    )
    object.__setattr__(mechanism, "certificate", replace(mechanism.certificate, is_from_file=True))
    return mechanism


def _exact(text: str) -> float:
    """Read a hexadecimal float; other notations are refused."""
    value = float.fromhex(text)
    if value.hex() != text:
        raise ValueError(f"{_short(repr(text))} is not a hexadecimal float as float.hex writes it")
    return value


def _read_header(source: Path) -> tuple[dict[str, Any], int]:
    if source.exists() and not source.is_file():
        raise FileFormatError(f"{source} is not a file: name a mechanism file")
    size = source.stat().st_size
    with source.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if length > min(size - 8, MAX_HEADER_BYTES):
            raise FileFormatError(f"{source} is not a mechanism file, or it is cut short ({size} bytes)")
        text = stream.read(length)
    try:
        header = json.loads(text, object_pairs_hook=_without_doubles)
    except _NamedTwiceError as error:
        raise FileFormatError(f"{source} is damaged: its header names {error} twice") from None
    except (ValueError, RecursionError):
        raise FileFormatError(f"{source} is not a mechanism file: its header cannot be read") from None
    if not isinstance(header, dict):
        raise FileFormatError(f"{source} is not a mechanism file: its header is not a table of tensors")
    return header, 8 + length


class _NamedTwiceError(ValueError):
    """A name occurs twice in one JSON object: readers may differ in which one they use."""


def _without_doubles(items: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in items:
        if name in found:
            raise _NamedTwiceError(_short(repr(name)))
        found[name] = value
    return found


def _short(text: object) -> str:
    """Return a shortened text for a message: a damaged file may hold values of any length."""
    words = str(text)
    return words if len(words) <= LONGEST_SHOWN else f"{words[:LONGEST_SHOWN]}..."


def _map_tensors(source: Path, header: dict[str, Any], offset: int) -> dict[str, NDArray[Any]]:
    """Map the tensors into memory after checking their names, types, shapes and extents against the file's size."""
    expected = {*TENSORS, "outputs"}
    if set(header) - set(OPTIONAL_TENSORS) != expected:
        raise FileFormatError(
            f"{source} has the tensors {_short(', '.join(sorted(header)))}, expected {', '.join(sorted(expected))}"
        )
    size = source.stat().st_size - offset
    extents, plans = [], {}
    for name, entry in header.items():
        try:
            dtype, shape = DTYPES[entry["dtype"]], tuple(entry["shape"])
            begin, end = entry["data_offsets"]
        except (KeyError, TypeError, ValueError):
            raise FileFormatError(f"{source} is damaged: tensor {name} is not described properly") from None
        outputs_may_be = (entry["dtype"], OUTPUT_TENSORS.get(entry["dtype"]))
        kind, dimensions = {**TENSORS, **OPTIONAL_TENSORS}.get(name, outputs_may_be)
        whole = all(type(v) is int and v >= 0 for v in (*shape, begin, end))
        if entry["dtype"] != kind or len(shape) != dimensions or not whole:
            raise FileFormatError(f"{source} is damaged: tensor {name} is {entry['dtype']} of shape {_short(shape)}")
        if end - begin != math.prod(shape) * dtype.itemsize or end > size:
            raise FileFormatError(f"{source} is cut short or damaged: tensor {name} does not fit into the file")
        extents.append((begin, end))
        plans[name] = (dtype, shape, begin)
    position = 0
    for begin, end in sorted(extents):
        if begin != position:
            raise FileFormatError(f"{source} is damaged: its tensors overlap or leave gaps")
        position = end
    if position != size:
        raise FileFormatError(f"{source} is damaged: it holds {size - position} bytes that belong to no tensor")
    _check_shapes(source, {name: shape for name, (_, shape, _) in plans.items()})
    return {
        name: np.memmap(source, dtype, "r", offset + begin, shape) if math.prod(shape) else np.empty(shape, dtype)
        for name, (dtype, shape, begin) in plans.items()
    }


def _check_shapes(source: Path, shapes: dict[str, tuple[int, ...]]) -> None:
    n, K = shapes["table"]
    P, D = shapes["pairs"][0], shapes["records"][1]
    fits = (
        n > 0
        and K > 0
        and D > 0
        and shapes["pairs"] == (P, 2)
        and shapes["distances"] == (P,)
        and shapes["records"] == (n, D)
        and shapes["prior"] == (n,)
        and shapes["outputs"] in ((K,), (K, D))
        and shapes.get("losses", (n, K)) == (n, K)
    )
    if not fits:
        raise FileFormatError(f"{source} is damaged: the shapes of its tensors do not fit together: {_short(shapes)}")


def _checked_metadata(source: Path, metadata: object, tensors: dict[str, NDArray[Any]]) -> dict[str, str]:
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise FileFormatError(f"{source} is not a mechanism file: it has no metadata")
    if metadata.get("format") != FORMAT:
        raise FileFormatError(
            f"{source} has format {_short(repr(metadata.get('format')))}, this version reads {FORMAT!r}: use a "
            "matching metricdp"
        )
    missing = [key for key in METADATA if key not in metadata]
    unknown = sorted(set(metadata) - {*METADATA, *OPTIONAL_METADATA})
    if missing or unknown:
        raise FileFormatError(f"{source} is damaged: metadata missing {missing}, unknown {_short(unknown)}")
    if metadata["metadata_sha256"] != metadata_hash(metadata) or metadata["sha256"] != tensor_hash(tensors):
        raise FileFormatError(f"{source} was changed after it was written: its hash does not match")
    return metadata


def tensor_hash(tensors: dict[str, NDArray[Any]]) -> str:
    """Return the SHA-256 of all tensors: name, type, shape and bytes, in the order of their names."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        value = np.ascontiguousarray(tensors[name])
        digest.update(f"{name} {value.dtype.str} {value.shape}\n".encode())
        digest.update(value.ravel().view(np.uint8).data if value.size else b"")
    return digest.hexdigest()


def metadata_hash(metadata: dict[str, str]) -> str:
    """Return the SHA-256 of all other metadata, as JSON with sorted keys."""
    rest = {key: value for key, value in metadata.items() if key != "metadata_sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
