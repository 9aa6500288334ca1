"""Neighbour pairs made from coordinates alone, in parts and up to a limit: what a file need not hold.

The rule is that of `CoordinateMetric.pairs_within`: all pairs whose rounded-down distance is within eta, with that
distance. Files by machines whose sines differ in the last digit stay valid, because a reader may take a smaller margin
than a writer: see `metricdp.metric.rounding`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import InputError
from metricdp.metric.distances import sorted_pairs
from metricdp.metric.graph import MdpGraph
from metricdp.metric.rounding import STORED_MARGIN

if TYPE_CHECKING:
    from metricdp.data.records import Records
    from metricdp.metric.distances import CoordinateMetric


def remade(records: Records, eta: float, metric: CoordinateMetric, *, margin: int, most: int) -> MdpGraph:
    """Return the graph of all pairs of ``records`` within ``eta``; refuse more than ``most`` before they are listed.

    ``margin`` is the multiple of the error bound by which distances are rounded down.
    """
    pairs, distances, count = [np.zeros((0, 2), dtype=np.int32)], [np.zeros(0)], 0
    for found, below in metric.within_in_parts(records, eta, margin=margin):
        count += len(found)
        if count > most:
            raise InputError(
                f"more than {most:,} pairs of records are within eta = {eta:g}: so many must be in the file"
            )
        pairs.append(found.astype(np.int32))
        distances.append(below)
    return MdpGraph(records.n, *sorted_pairs(np.concatenate(pairs), np.concatenate(distances), eta))


def can_be_remade(records: Records, eta: float, metric: CoordinateMetric, graph: MdpGraph, *, most: int) -> bool:
    """Return whether `remade` with a writer's margin gives ``graph`` to the last bit, with at most ``most`` pairs."""
    if graph.n_pairs > most:
        return False
    stored = graph.pairs[:, 0].astype(np.int64) * graph.n + graph.pairs[:, 1]  # sorted, as graphs are
    count = 0
    for found, below in metric.within_in_parts(records, eta, margin=STORED_MARGIN):
        count += len(found)
        if count > graph.n_pairs:
            return False
        keys = found[:, 0] * graph.n + found[:, 1]
        place = np.minimum(np.searchsorted(stored, keys), graph.n_pairs - 1)
        if (stored[place] != keys).any() or (graph.distances[place] != below).any():
            return False
    return count == graph.n_pairs
