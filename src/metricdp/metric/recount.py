"""Check from the coordinates that a list of neighbour pairs is complete and that no distance in it is too long."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from metricdp.metric.distances import CHUNK_ENTRIES
from metricdp.metric.graph import MdpGraph
from metricdp.metric.rounding import CHECKED_MARGIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from metricdp.data.records import Records
    from metricdp.metric.distances import CoordinateMetric


def shortened(records: Records, graph: MdpGraph, metric: CoordinateMetric) -> MdpGraph:
    """Return ``graph`` with distances that were rounded to the nearest float, maybe up, rounded down instead.

    Earlier versions stored such distances, and people's own programs compute them. A table must then hold at the
    shorter ones. Distances longer than rounding explains are not changed: `recount_fault` refuses them.
    """
    rounding = metric.rounding(records.dimension)
    distances = graph.distances
    for part, below in _measured(records, graph, metric):
        longer = distances[part] > below
        if longer.any():
            # one such bound for the machine that computed the stored distance, and one for this machine
            a, b = records.coordinates[graph.pairs[part].T]
            by_rounding = longer & (distances[part] <= metric.elementwise(a, b) * (1.0 + 2.0 * rounding))
            distances = distances if distances.flags.writeable else distances.copy()
            distances[part][by_rounding] = below[by_rounding]
    return graph if distances is graph.distances else MdpGraph(graph.n, graph.pairs, distances)


def recount_fault(records: Records, graph: MdpGraph, eta: float, metric: CoordinateMetric) -> str:
    """Return what is wrong with ``graph`` as the list of all pairs within ``eta``; empty if nothing.

    A pair left out, or a distance longer than the true one, would protect less than is claimed.
    """
    for part, below in _measured(records, graph, metric):
        longer = np.flatnonzero(graph.distances[part] > below)
        if longer.size:
            p = int(longer[0])
            i, j = (int(v) for v in graph.pairs[part][p])
            stored, true = float(graph.distances[part][p]), float(below[p])
            return f"records {i} and {j} are {true!r} apart (rounded down), but {stored!r} is stored"
    stored_keys = graph.pairs[:, 0].astype(np.int64) * graph.n + graph.pairs[:, 1]  # sorted, as graphs are
    # in parts, and only until one is missing: a file that stores too few could ask for any amount of memory
    for pairs in metric.needed_in_parts(records, eta):
        keys = pairs[:, 0] * graph.n + pairs[:, 1]
        place = np.searchsorted(stored_keys, keys)
        is_stored = np.zeros(len(keys), dtype=bool)
        is_stored[place < graph.n_pairs] = stored_keys[place[place < graph.n_pairs]] == keys[place < graph.n_pairs]
        for i, j in pairs[~is_stored]:  # mostly none, and one is enough
            if _may_be_within(records.coordinates[i], records.coordinates[j], eta, metric.name):
                return f"records {i} and {j} are within eta = {eta!r} but not among the protected pairs"
    return ""


def _measured(
    records: Records, graph: MdpGraph, metric: CoordinateMetric
) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Yield the pairs in blocks and their distances, certainly not above the true ones."""
    metric.check_fits(records)
    block = max(1, CHUNK_ENTRIES // records.dimension)
    for start in range(0, graph.n_pairs, block):
        part = slice(start, start + block)
        a, b = records.coordinates[graph.pairs[part].T]
        yield part, metric.rounded_down(a, b, margin=CHECKED_MARGIN)


def _may_be_within(a: NDArray[np.float64], b: NDArray[np.float64], eta: float, name: str) -> bool:
    """Return whether two records are within ``eta``: exactly, by fractions, for Euclidean and Manhattan distances."""
    if name not in ("euclidean", "manhattan") or eta == np.inf:
        return True
    differences = [abs(Fraction(x) - Fraction(y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    if name == "manhattan":
        return sum(differences) <= Fraction(eta)
    return sum(d * d for d in differences) <= Fraction(eta) ** 2
