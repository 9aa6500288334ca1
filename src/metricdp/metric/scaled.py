"""The graph of records with epsilons of their own, for solvers that know one epsilon."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from metricdp.metric.budgets import pair_budgets
from metricdp.metric.graph import MdpGraph

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROUNDINGS = 3  # floats upwards: more than two roundings of half a float each


def scaled_graph(graph: MdpGraph, epsilons: NDArray[np.float64]) -> MdpGraph:
    """Return the graph whose distances times the largest epsilon are ``min(epsilon_i, epsilon_j) d_ij``, rounded up.

    Solvers know one epsilon. A bound of theirs on this graph holds for the true rule, since no row is tighter; tables
    keep far more room than the rounding (2^-40), and the exact check decides by the true rule.
    """
    share = pair_budgets(epsilons, graph.pairs) / epsilons.max()
    above = graph.distances * share
    for _ in range(ROUNDINGS):
        above = np.nextafter(above, np.inf)
    # at distance 0 rows are equal at any budget, and no product is above the distance itself
    return MdpGraph(graph.n, graph.pairs, np.minimum(above, graph.distances))
