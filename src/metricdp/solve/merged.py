"""The problem with records at distance 0 merged, and its components."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
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
    problem: Problem

    @classmethod
    def of(cls, problem: Problem) -> Merged:
        """Merge the records of ``problem``."""
        return cls(*problem.graph.merged(), problem)

    @property
    def epsilon(self) -> float:
        """The budget."""
        return self.problem.epsilon

    @property
    def is_same(self) -> bool:
        """Whether no two records had to be merged."""
        return self.graph.n == self.problem.n_records

    @cached_property
    def costs(self) -> NDArray[np.float64]:
        """The sums of the costs of each group's records, made when they are first asked for."""
        if self.is_same:
            return self.problem.costs
        costs = np.zeros((self.graph.n, self.problem.n_outputs))
        np.add.at(costs, self.group, self.problem.costs)
        return costs

    @cached_property
    def cost_roundings(self) -> int:
        """How many roundings each cost may carry."""
        return 2 if self.is_same else 1 + int(np.bincount(self.group).max())

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
