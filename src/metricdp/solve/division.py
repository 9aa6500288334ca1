"""Dividing the records, for solvers that work on pieces."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from metricdp.partition import make_partition

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.metric.graph import MdpGraph
    from metricdp.partition import Partition
    from metricdp.problem.problem import Problem
    from metricdp.solve.component import Component
    from metricdp.solve.merged import Merged
    from metricdp.solve.stop import Stop

MAX_METIS_PAIRS = 500_000  # METIS cannot be interrupted: of more pairs only the shortest are passed to it


@dataclass(frozen=True)
class Division:
    """Divides the merged records of a problem by any partitioner."""

    problem: Problem
    merged: Merged
    stop: Stop

    def partition(self, *, method: str, n_blocks: int | None, seed: int, separator: str) -> Partition:
        """Divide all records."""
        graph = self.merged.graph
        return self._divided(
            np.arange(graph.n), graph, method=method, n_blocks=n_blocks, seed=seed, separator=separator
        )

    def pieces(self, component: Component, n_pieces: int) -> list[NDArray[np.int64]]:
        """Divide a component into about ``n_pieces``; the choice of pieces matters little."""
        if n_pieces == 1:
            return [np.arange(component.n)]
        method = "metis" if find_spec("pymetis") is not None else "k-m-rec"
        graph = component.graph if component.graph.n_pairs <= MAX_METIS_PAIRS else component.graph.skeleton
        return self._divided(component.members, graph, method=method, n_blocks=n_pieces).blocks

    def _divided(
        self,
        groups: NDArray[np.int64],
        graph: MdpGraph,
        *,
        method: str,
        n_blocks: int | None,
        seed: int = 0,
        separator: str = "one-sided",
    ) -> Partition:
        return self.stop.waiting_for(
            lambda: make_partition(
                self.problem.records,
                self.problem.metric,
                graph,
                rows=self.merged.first[groups],
                method=method,
                n_blocks=n_blocks,
                seed=seed,
                separator=separator,
            )
        )
