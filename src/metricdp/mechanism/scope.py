"""Is the list of protected pairs complete? For metrics of coordinates this can be computed again, and is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from metricdp.metric.distances import CoordinateMetric

if TYPE_CHECKING:
    from metricdp.data.records import Records
    from metricdp.metric.graph import MdpGraph

OTHER_METRICS = ("street", "matrix")
FUNCTION_PREFIX = "function "
# relative slack for distances computed on another machine: coordinates' differences are exact, sines are not
TOLERANCE = {"euclidean": 1e-15, "manhattan": 1e-15, "haversine": 1e-12}


def is_known(metric: str) -> bool:
    """Say whether this version knows a metric of that name."""
    return can_be_recomputed(metric) or metric in OTHER_METRICS or metric.startswith(FUNCTION_PREFIX)


def can_be_recomputed(metric: str) -> bool:
    """Say whether the pairs follow from the coordinates; street, matrix and function distances do not."""
    return metric in CoordinateMetric.NAMES


def scope_fault(records: Records, graph: MdpGraph, eta: float, metric: str) -> str:
    """Say what is wrong with ``graph`` as the list of all pairs within ``eta``; empty if nothing, or if none can tell.

    A pair left out, or a distance longer than the true one, would protect less than is claimed.
    """
    if graph.n_pairs and not graph.distances.max() <= eta:
        return f"a neighbour distance {float(graph.distances.max())!r} exceeds eta = {eta!r}"
    if not can_be_recomputed(metric):
        return ""
    measure = CoordinateMetric(metric)
    slack = TOLERANCE[metric] * max(1.0, records.dimension)
    true = measure.elementwise(records.coordinates[graph.pairs[:, 0]], records.coordinates[graph.pairs[:, 1]])
    longer = graph.distances > true * (1.0 + slack) + np.finfo(np.float64).tiny
    if longer.any():
        p = int(np.flatnonzero(longer)[0])
        i, j = (int(v) for v in graph.pairs[p])
        return f"records {i} and {j} are {float(true[p])!r} apart, but {float(graph.distances[p])!r} is stored"
    # counted first: listing the pairs of a file that stores too few could take any amount of memory
    within = measure.count_within(records, eta, most=graph.n_pairs)
    if within > graph.n_pairs:
        return f"more pairs are within eta = {eta!r} than the {graph.n_pairs} protected ones"
    pairs, _ = measure.pairs_within(records, eta)
    stored = graph.pairs[:, 0].astype(np.int64) * graph.n + graph.pairs[:, 1]
    wanted = pairs[:, 0].astype(np.int64) * graph.n + pairs[:, 1]
    missing = wanted[~np.isin(wanted, stored, assume_unique=True)]
    if missing.size:
        i, j = divmod(int(missing[0]), graph.n)
        return f"records {i} and {j} are within eta = {eta!r} but not among the protected pairs ({missing.size} such)"
    return ""
