"""Mechanism files of regions: the format ``metricdp-3``, in the same container, certified again when loaded.

Readers that know only records refuse it by its format.
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from metricdp.data.region import Region
from metricdp.data.weights import KINDS
from metricdp.data.writing import check_writable
from metricdp.errors import CertificationError, FileFormatError, InputError, UnmetError
from metricdp.mechanism.certificate import Optimality, as_claimed
from metricdp.mechanism.container import (
    Kinds,
    check_tensors,
    metadata_hash,
    read_header,
    read_tensors,
    short,
    tensor_hash,
    write,
)
from metricdp.mechanism.layout import PLANE
from metricdp.mechanism.plane import PlaneMechanism
from metricdp.problem.outputs import Outputs

if TYPE_CHECKING:
    from metricdp.data.records import Kind

DOMAIN = "plane"
BOX = ("low", "high", "outer_low", "outer_high")
METADATA = {
    "format", "domain", "weights", "kind", "epsilon", *BOX, "cells", "solver", "created", "sha256", "metadata_sha256",
}  # fmt: skip
BOUNDS, NAMES = {"loss", "lower_bound"}, "output_names"
OPTIONAL_METADATA = {*BOUNDS, NAMES}
TENSORS: dict[str, Kinds] = {
    "table": frozenset({("U64", 2)}),
    "outputs": frozenset({("I32", 1), ("F64", 2)}),  # rows of the nodes, or other points
}


def save_plane(mechanism: PlaneMechanism, path: str | Path) -> None:
    """Write a region's mechanism to ``path``, completely or not at all."""
    target = Path(path)
    check_writable(target)
    mechanism.recheck()
    region, outputs, best = mechanism.region, mechanism.outputs, mechanism.optimality
    metadata = {
        "format": PLANE,
        "domain": DOMAIN,
        "weights": region.weights,
        "kind": region.kind,
        "epsilon": mechanism.epsilon.hex(),
        **{name: json.dumps([value.hex() for value in getattr(region, name)]) for name in BOX},
        "cells": json.dumps(region.cells),
        "solver": mechanism.solver,
        "created": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }
    if best is not None:
        metadata |= {"loss": best.loss.hex(), "lower_bound": best.lower_bound.hex()}
    if outputs.names is not None:
        metadata[NAMES] = json.dumps(outputs.names)
    places = outputs.coordinates if outputs.rows is None else outputs.rows.astype(np.int32)
    write(target, {"table": mechanism.table, "outputs": places}, metadata)


def is_plane_file(path: str | Path) -> bool:
    """Return whether a file says that it is a mechanism of a region; a file that cannot be read is not."""
    try:
        metadata = read_header(Path(path))[0].get("__metadata__")
    except (OSError, FileFormatError):
        return False
    return isinstance(metadata, dict) and metadata.get("format") == PLANE


def load_plane(path: str | Path, *, require: str | None = None) -> PlaneMechanism:
    """Read the mechanism of a region, check its sizes and hashes, and certify it again.

    Parameters
    ----------
    require
        Conditions beyond the file's claims, such as ``"epsilon<=10, metric=haversine"``: see `PlaneGuarantee.unmet`. A
        mechanism that does not meet it raises a CertificationError.
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


def _load(source: Path) -> PlaneMechanism:
    header, offset = read_header(source)
    metadata = header.pop("__metadata__", None)
    _check_metadata(source, metadata)
    check_tensors(source, header, offset, TENSORS, {})
    tensors = read_tensors(source, header, offset)
    if metadata["metadata_sha256"] != metadata_hash(metadata) or metadata["sha256"] != tensor_hash(tensors):
        raise FileFormatError(f"{source} was changed after it was written: its hash does not match")
    try:
        box: dict[str, Any] = {name: _pair(metadata[name]) for name in BOX}
        rows, columns = _two(metadata["cells"], int, float)
        epsilon = _exact(metadata["epsilon"])
        optimality = None
        if BOUNDS & set(metadata):
            optimality = Optimality(_exact(metadata["loss"]), _exact(metadata["lower_bound"]))
        names = _names(metadata[NAMES]) if NAMES in metadata else None
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise FileFormatError(f"{source} is damaged: its metadata cannot be read ({short(error)})") from None
    kind = cast("Kind", metadata["kind"])
    region = Region(**box, cells=(rows, columns), kind=kind, weights=metadata["weights"])
    n = region.n_nodes
    if len(tensors["table"]) != n:  # before the lattice is made, which follows from the metadata alone
        raise FileFormatError(f"{source} is damaged: its table has {len(tensors['table'])} rows, its region {n} nodes")
    outputs = Outputs.of(tensors["outputs"], region.records, seed=0)
    if names is not None:
        outputs = replace(outputs, names=names)
    return as_claimed(PlaneMechanism(tensors["table"], region, outputs, epsilon, optimality, metadata["solver"]))


def _check_metadata(source: Path, metadata: Any) -> None:
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise FileFormatError(f"{source} is not a mechanism file: it has no metadata")
    if metadata.get("format") != PLANE:
        raise FileFormatError(
            f"{source} has format {short(repr(metadata.get('format')))}, a region's mechanism has {PLANE}: load other "
            "mechanisms with metricdp.load"
        )
    missing, unknown = sorted(METADATA - set(metadata)), sorted(set(metadata) - METADATA - OPTIONAL_METADATA)
    if missing or unknown:
        raise FileFormatError(f"{source} is damaged: metadata missing {missing}, unknown {short(unknown)}")
    if metadata["domain"] != DOMAIN or metadata["weights"] not in KINDS:
        raise FileFormatError(
            f"{source} has weights {short(metadata['weights'])} over a {short(metadata['domain'])}, this version knows "
            f"{' and '.join(KINDS)} over a {DOMAIN}: use a matching metricdp"
        )


def _pair(text: str) -> tuple[float, float]:
    first, second = _two(text, str)
    return _exact(first), _exact(second)


def _two(text: str, *kinds: type) -> list[Any]:
    """Return a list of two values of these kinds; an object or a text with two parts is none."""
    found = json.loads(text)
    if not (isinstance(found, list) and len(found) == 2 and all(type(one) in kinds for one in found)):
        raise ValueError(f"{short(repr(text))} is not a list of two")
    return found


def _names(text: str) -> tuple[Any, ...]:
    """Return the names of outputs; an object or a text is none."""
    found = json.loads(text)
    if type(found) is not list:
        raise ValueError(f"{short(repr(text))} is not a list")
    return tuple(found)


def _exact(text: str) -> float:
    """Read a hexadecimal float; other notations are refused."""
    value = float.fromhex(text)
    if value.hex() != text:
        raise ValueError(f"{short(repr(text))} is not a hexadecimal float as float.hex writes it")
    return value
