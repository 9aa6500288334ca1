"""Windows: outputs in groups of 8 near one another, each with a rectangle of nodes around it.

A good mechanism falls like ``exp(-epsilon d)``, so entries far from their output hold nearly nothing. With a finite
``reach``, steps leave out those more than reach / epsilon farther than the node's nearest output, and the cones that
need them: with fewer rows the bound only becomes weaker. `solve_plane` takes everything, an infinite reach, where that
fits into memory, and otherwise the widest windows that do (`metricdp.solve.plane.memory.REACHES`). Everything is
stored by groups: 8 floats for each node of the rectangle, row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.metric.distances import CoordinateMetric
from metricdp.metric.simd import WIDTH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from metricdp.problem.plane import PlaneProblem

LEAST_SIDE = 3  # nodes, so that a rectangle has cones


@dataclass(frozen=True)
class Windows:
    """Where everything is.

    Attributes
    ----------
    members
        The outputs of each group, shape (groups, 8); -1 where there are fewer.
    low, shapes
        The first node and the number of nodes of each rectangle, each way.
    blocks, cones
        Where each group begins: among the floats of all nodes, and among the cones.
    starts, slots
        For each node, where its rows are: ``slots[starts[i] : starts[i + 1]]``, each the first of 8 floats.
    """

    shape: tuple[int, int]
    members: NDArray[np.int64]
    low: NDArray[np.int64]
    shapes: NDArray[np.int64]
    blocks: NDArray[np.int64]
    cones: NDArray[np.int64]
    starts: NDArray[np.int64]
    slots: NDArray[np.int64]

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.members)

    @property
    def n_entries(self) -> int:
        """Number of entries, padding included."""
        return int(self.blocks[-1])

    @property
    def n_cones(self) -> int:
        """Number of cones of 8 outputs each."""
        return int(self.cones[-1])

    @classmethod
    def of(cls, problem: PlaneProblem, away: NDArray[np.float64], *, reach: float) -> Windows:
        """Return the windows of a problem whose nodes and outputs are ``away`` from one another, times epsilon.

        ``reach`` is in the same unit; infinity takes all nodes into each window.
        """
        shape = problem.region.shape
        members = groups_of(problem)
        is_near = (away <= away.min(axis=1, keepdims=True) + reach).reshape(*shape, -1)
        low, shapes = np.zeros((len(members), 2), np.int64), np.zeros((len(members), 2), np.int64)
        for group, outputs in enumerate(members):
            near = is_near[:, :, outputs[outputs >= 0]].any(axis=2)
            for way in range(2):
                taken = np.flatnonzero(near.any(axis=1 - way))
                begin, end = (int(taken[0]), int(taken[-1]) + 1) if len(taken) else (0, 0)
                begin = max(0, min(begin, shape[way] - LEAST_SIDE))
                low[group, way], shapes[group, way] = begin, max(end - begin, LEAST_SIDE)
        blocks = np.concatenate(([0], np.cumsum(shapes.prod(axis=1) * WIDTH)))
        cones = np.concatenate(([0], np.cumsum((2 * shapes - LEAST_SIDE).prod(axis=1))))
        nodes = [_rectangle(a, b, shape).ravel() for a, b in zip(low, shapes, strict=True)]
        where = [block + WIDTH * np.arange(len(one)) for block, one in zip(blocks[:-1], nodes, strict=True)]
        node, place = np.concatenate(nodes), np.concatenate(where)
        order = np.argsort(node, kind="stable")
        starts = np.searchsorted(node[order], np.arange(shape[0] * shape[1] + 1))
        return cls(shape, members, low, shapes, blocks, cones, starts, place[order])

    def nodes(self, group: int) -> NDArray[np.int64]:
        """Return the numbers of a group's nodes, as a rectangle."""
        return _rectangle(self.low[group], self.shapes[group], self.shape)

    def outputs(self, group: int) -> NDArray[np.int64]:
        """Return a group's outputs without padding."""
        return self.members[group][self.members[group] >= 0]

    def gathered(self, values: NDArray[np.float64], padding: float) -> NDArray[np.float32]:
        """Return a matrix by nodes and outputs in the order of windows."""
        made = np.full(self.n_entries, padding, dtype=np.float32)
        for group, block in self.each(made):
            outputs = self.outputs(group)
            block[:, :, : len(outputs)] = values[self.nodes(group)[:, :, None], outputs]
        return made

    def each(self, values: NDArray[np.float32]) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yield every group with its part of ``values``, shape (rows, columns, 8)."""
        for group in range(self.n_groups):
            rows, columns = self.shapes[group]
            part = values[self.blocks[group] : self.blocks[group + 1]]
            yield group, part.reshape(int(rows), int(columns), WIDTH)


def _rectangle(low: NDArray[np.int64], shape: NDArray[np.int64], whole: tuple[int, int]) -> NDArray[np.int64]:
    rows, columns = (np.arange(a, a + n) for a, n in zip(low, shape, strict=True))
    return np.asarray(rows[:, None] * whole[1] + columns)


def groups_of(problem: PlaneProblem) -> NDArray[np.int64]:
    """Return the outputs in groups of 8 near one another, by halving the longer side again and again."""
    points = problem.outputs.coordinates * np.array([float(side) for side in problem.region.sides])
    points = points * problem.region.cells / np.subtract(problem.region.high, problem.region.low)
    parts, groups = [np.arange(problem.n_outputs)], []
    while parts:
        part = parts.pop()
        if len(part) <= WIDTH:
            groups.append(np.concatenate((part, np.full(WIDTH - len(part), -1))))
            continue
        way = int(np.ptp(points[part], axis=0).argmax())
        part = part[np.argsort(points[part, way], kind="stable")]
        half = WIDTH * max(1, round(len(part) / (2 * WIDTH)))
        parts += [part[half:], part[:half]]
    return np.array(groups, dtype=np.int64)


def distances(problem: PlaneProblem) -> NDArray[np.float64]:
    """Return epsilon times the distance of every node to every output."""
    metric = CoordinateMetric(problem.region.metric)
    between = metric.between(problem.region.records.coordinates, problem.outputs.coordinates)
    return np.asarray(problem.epsilon * between)
