"""Which losses a mechanism file holds, and how they come back: for evaluation; privacy needs none of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.errors import InputError
from metricdp.mechanism.container import short
from metricdp.mechanism.scope import can_be_recomputed
from metricdp.metric.directions import DirectionMetric, coordinate_metric
from metricdp.metric.distances import CoordinateMetric
from metricdp.problem.losses import DistanceLosses, TravelLosses, distance_losses, given_losses

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.data.records import Records
    from metricdp.problem.losses import Losses
    from metricdp.problem.outputs import Outputs

    Parts = tuple[dict[str, NDArray[Any]], dict[str, str]]

MOST_GIVEN = 1 << 24  # entries of a matrix of losses in the file of a sparse table: 128 MB


def dense_losses(losses: Losses | None, name: str) -> Parts:
    """Return the tensors and metadata of losses beside a dense table: the matrix, where there is memory for it."""
    if losses is None or not losses.fits():
        return {}, {}
    return {"losses": losses.whole()}, {"loss_name": name}


def sparse_losses(losses: Losses | None, name: str, metric: str, outputs: Outputs) -> Parts:
    """Return the tensors and metadata of losses beside a sparse table: what they can be made from, if that is small."""
    if losses is None:
        return {}, {}
    tensors: dict[str, NDArray[Any]] = {}
    if isinstance(losses, DistanceLosses) and _is_same(losses.metric, metric):
        kind = "distance"
    elif isinstance(losses, TravelLosses) and outputs.rows is not None and _is_of_rows(losses, outputs.rows):
        kind, tensors = "travel", {"travel": losses.from_records}
    elif math.prod(losses.shape) <= MOST_GIVEN:
        kind, tensors = "given", {"losses": losses.whole()}
    else:
        kind = "absent"
    return tensors, {"loss_name": name, "loss_kind": kind}


def _is_same(metric: object, name: str) -> bool:
    """Return whether ``metric`` is the metric of coordinates called ``name``."""
    is_plain = type(metric) in (CoordinateMetric, DirectionMetric)
    return is_plain and isinstance(metric, CoordinateMetric) and metric.name == name


def _is_of_rows(losses: TravelLosses, rows: NDArray[np.int64]) -> bool:
    return np.array_equal(losses.from_outputs, losses.from_records[rows])


def read_losses(
    tensors: dict[str, NDArray[Any]], metadata: dict[str, str], records: Records, outputs: Outputs
) -> Losses | None:
    """Return the losses of a file; None if it has none."""
    name = metadata.get("loss_name", "given")
    kind = metadata.get("loss_kind", "given" if "losses" in tensors else "absent")
    held = {"given": "losses", "travel": "travel"}.get(kind)
    if {"losses", "travel"} & set(tensors) != ({held} if held else set()):
        raise InputError(f"its losses are {short(kind)!r}, and its tensors are those of others")
    if kind == "given":
        return given_losses(tensors["losses"], records.n, outputs.n, name=name)
    if kind == "absent":
        return None
    if kind == "distance" and can_be_recomputed(metadata["metric"]):
        return distance_losses(records, outputs, coordinate_metric(metadata["metric"])).named(name)
    if kind != "travel" or outputs.rows is None:
        raise InputError(f"losses of the kind {short(kind)!r} are not known for its metric and outputs")
    ways = tensors["travel"]
    if not np.isfinite(ways).all():
        raise InputError("its ways to destinations are not finite")
    return TravelLosses(ways, ways[outputs.rows]).named(name)
