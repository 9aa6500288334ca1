"""Is the list of protected pairs complete? For metrics of coordinates this can be computed again, and is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from metricdp.metric.distances import CoordinateMetric

if TYPE_CHECKING:
    from metricdp.data.records import Records
    from metricdp.metric.graph import MdpGraph

TOLERANCE = 1e-9  # relative: another machine's sines may differ in the last digits


def can_be_recomputed(metric: str) -> bool:
    """Say whether the pairs follow from the coordinates; street, matrix and function distances do not."""
    return metric in CoordinateMetric.NAMES


def scope_fault(records: Records, graph: MdpGraph, eta: float, metric: str) -> str:
    """Say what is wrong with ``graph`` as the list of all pairs within ``eta``; empty if nothing, or if none can tell.

    A pair left out, or a distance longer than the true one, would protect less than is claimed.
    """
    if not can_be_recomputed(metric):
        return ""
    measure = CoordinateMetric(metric)
    pairs, distances = measure.pairs_within(records, eta)
    certain = distances <= eta * (1.0 - TOLERANCE)
    stored = graph.pairs[:, 0].astype(np.int64) * graph.n + graph.pairs[:, 1]
    wanted = (pairs[:, 0].astype(np.int64) * graph.n + pairs[:, 1])[certain]
    missing = wanted[~np.isin(wanted, stored, assume_unique=True)]
    if missing.size:
        i, j = divmod(int(missing[0]), graph.n)
        return f"records {i} and {j} are within eta = {eta!r} but not among the protected pairs ({missing.size} such)"
    true = measure.elementwise(records.coordinates[graph.pairs[:, 0]], records.coordinates[graph.pairs[:, 1]])
    longer = graph.distances > true * (1.0 + TOLERANCE) + np.finfo(np.float64).tiny
    if longer.any():
        p = int(np.flatnonzero(longer)[0])
        i, j = (int(v) for v in graph.pairs[p])
        return f"records {i} and {j} are {true[p]!r} apart, but {graph.distances[p]!r} is stored"
    return ""
