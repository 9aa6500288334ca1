"""What a region is given: a part of the problem, small enough to travel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.metric.graph import MdpGraph
from metricdp.solve.solvers.local.problem import LocalProblem, Nodes

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class StepPart:
    """What a region steps on: its own outputs, those around them, and all nodes whose windows hold one of its own.

    Parameters
    ----------
    nodes
        One node per record of the part.
    who
        Their numbers in the whole problem.
    radius, nearest
        Of the nodes' windows, and the distance to the nearest of all outputs.
    core
        The groups of outputs that the region owns.
    owned
        The nodes, as positions in ``who``, whose prices it sets: those nearest to one of its outputs.
    stretch
        Detours that may replace a pair.
    gap
        That is wanted.
    """

    nodes: Nodes
    who: NDArray[np.int64]
    radius: NDArray[np.float64]
    nearest: NDArray[np.float64]
    core: range
    owned: NDArray[np.int64]
    stretch: float
    gap: float


@dataclass(frozen=True, eq=False)
class TablePart:
    """What a region closes columns on: its own outputs, all nodes of their large windows, and the neighbours of these.

    Parameters
    ----------
    nodes, who, radius
        As in `StepPart`, but of nodes that share a row.
    outputs
        The numbers of the region's outputs in the whole problem.
    target, share
        The node to which each node of the steps adds a share of its row; -1 if it is not in the part.
    """

    nodes: Nodes
    who: NDArray[np.int64]
    radius: NDArray[np.float64]
    outputs: NDArray[np.int64]
    target: NDArray[np.int64]
    share: NDArray[np.float64]


def plain_nodes(problem: LocalProblem) -> Nodes:
    """Return nodes of one record each, in the order of the records."""
    each = np.arange(problem.n_records)
    return Nodes(problem, np.arange(problem.n_records + 1), each, each, problem.prior, problem.graph)


def graph_among(graph: MdpGraph, who: NDArray[np.int64]) -> MdpGraph:
    """Return the pairs among some nodes (ascending numbers), renumbered."""
    place = np.full(graph.n, -1, dtype=np.int32)
    place[who] = np.arange(len(who), dtype=np.int32)
    pairs = place[graph.pairs]
    inside = (pairs >= 0).all(axis=1)
    return MdpGraph(len(who), np.ascontiguousarray(pairs[inside]), graph.distances[inside])
