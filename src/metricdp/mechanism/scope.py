"""Check that the list of protected pairs is complete: for metrics of coordinates it is computed again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metricdp.metric.directions import COORDINATE_NAMES, coordinate_metric
from metricdp.metric.recount import recount_fault, shortened

if TYPE_CHECKING:
    from metricdp.data.records import Records
    from metricdp.metric.graph import MdpGraph

OTHER_METRICS = ("street", "matrix", "mahalanobis")
FUNCTION_PREFIX = "function "


def is_known(metric: str) -> bool:
    """Return whether this version knows a metric of that name."""
    return can_be_recomputed(metric) or metric in OTHER_METRICS or metric.startswith(FUNCTION_PREFIX)


def can_be_recomputed(metric: str) -> bool:
    """Return whether the pairs follow from the coordinates; of others they do not."""
    return metric in COORDINATE_NAMES


def scope_fault(records: Records, graph: MdpGraph, eta: float, metric: str) -> str:
    """Return what is wrong with ``graph`` as the list of all pairs within ``eta``; empty if nothing, or if unknown.

    A pair left out, or a distance longer than the true one by any amount, would protect less than is claimed.
    """
    if graph.n_pairs and not graph.distances.max() <= eta:
        return f"a neighbour distance {float(graph.distances.max())!r} exceeds eta = {eta!r}"
    return recount_fault(records, graph, eta, coordinate_metric(metric)) if can_be_recomputed(metric) else ""


def rounded_down(records: Records, graph: MdpGraph, metric: str) -> MdpGraph:
    """Return the ``graph`` of a file with distances that are certainly not above the true ones.

    Files of earlier versions hold distances rounded to the nearest float. Their tables were made with room enough
    (2^-40) to hold at the shorter ones too, and are certified there.
    """
    return shortened(records, graph, coordinate_metric(metric)) if can_be_recomputed(metric) else graph
