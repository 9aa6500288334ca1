"""The problem with records at distance 0 merged, and its components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.solve.component import Component

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.metric.graph import MdpGraph
    from metricdp.problem.problem import Problem


@dataclass(frozen=True)
class Merged:
    """The problem with records at distance 0 merged: they must have equal rows."""

    group: NDArray[np.int64]
    graph: MdpGraph
    costs: NDArray[np.float64]
    cost_roundings: int
    epsilon: float

    @classmethod
    def of(cls, problem: Problem) -> Merged:
        """Merge the records of ``problem``."""
        group, graph = problem.graph.merged()
        if graph.n == problem.n_records:
            return cls(group, graph, problem.costs, 2, problem.epsilon)
        costs = np.zeros((graph.n, problem.n_outputs))
        np.add.at(costs, group, problem.costs)
        return cls(group, graph, costs, 1 + int(np.bincount(group).max()), problem.epsilon)

    @property
    def first(self) -> NDArray[np.int64]:
        """The first record of each group."""
        return np.unique(self.group, return_index=True)[1]

    def component(self, number: int) -> Component:
        """Return one connected part."""
        rows = self.graph.components[number]
        graph = self.graph.subgraph(rows)
        return Component(self.costs[rows], graph, self.epsilon, self.cost_roundings, number, rows)

    def whole(self) -> Component:
        """Return all parts as one component, which copies no part of a large graph."""
        return Component(self.costs, self.graph, self.epsilon, self.cost_roundings)
