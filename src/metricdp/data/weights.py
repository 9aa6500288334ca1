"""Kinds of weights: at each point of a box a few nodes of a lattice have a weight, and the weights sum to 1.

A report for a point is drawn from the row of a node that is drawn by its weight. A kind of weights says where its nodes
are, which weights they have at a point, how one of them is drawn exactly, and **which inequalities** make a table
private at all points: with z the column of an output and whole numbers a, b, c,

    w (a . z)² + w' (b . z)² <= (c . z)²,    w = 1 / (epsilon h)²,  w' = 1 / (epsilon h')²

for cells of sides h and h'. docs/plane.md has the proofs. A new kind is a class here, with a line in `KINDS`.
Coordinates are whole steps: a cell has 2^31 of them each way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Bits = Callable[[int], NDArray[np.uint64]]
    Shape = tuple[int, int]

SUB_BITS = 31  # a cell is divided into 2^31 steps each way: the weights of a step are whole numbers of 2^-126
STEPS = 1 << SUB_BITS
NUMBER_BITS = 63  # of the whole numbers that draws use


@dataclass(frozen=True)
class Inequalities:
    """The nodes of each inequality, and its whole numbers a, b and c: shapes (n, m) and (n, 3, m).

    Where fewer than m nodes take part, the others have zeros.
    """

    nodes: NDArray[np.int64]
    factors: NDArray[np.int64]


class Weights(Protocol):
    """What a kind of weights must define."""

    name: str

    def shape(self, cells: Shape) -> Shape:
        """Return the number of nodes each way; nodes are numbered row by row."""

    def positions(self, cells: Shape) -> NDArray[np.float64]:
        """Return where the nodes are, in cells from the low corner, shape (nodes, 2)."""

    def inner(self, cells: Shape) -> NDArray[np.int64]:
        """Return the numbers of the nodes inside the box that serve as places and outputs by default."""

    def at(self, steps: NDArray[np.int64], cells: Shape) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the nodes of each point and their weights in floats, shapes (n, m)."""

    def draw(self, steps: NDArray[np.int64], cells: Shape, bits: Bits) -> NDArray[np.int64]:
        """Draw a node for each point, with exactly these weights, from whole numbers below 2^63."""

    def inequalities(self, cells: Shape) -> Inequalities:
        """Return the inequalities that a table must satisfy, for each output."""


class Splines:
    """Products of quadratic B-splines: nine nodes at a point. Nodes are the centres of cells and one ring outside."""

    name = "bspline2"

    def shape(self, cells: Shape) -> Shape:
        """Return the number of nodes each way, with the ring."""
        return cells[0] + 2, cells[1] + 2

    def positions(self, cells: Shape) -> NDArray[np.float64]:
        """Return the centres of the cells and of the ring's."""
        return _grid(np.arange(cells[0] + 2) - 0.5, np.arange(cells[1] + 2) - 0.5)

    def inner(self, cells: Shape) -> NDArray[np.int64]:
        """Return the nodes that are centres of cells."""
        return _numbers(self.shape(cells))[1:-1, 1:-1].ravel()

    def places(self, steps: NDArray[np.int64], cells: Shape) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
        """Return the cell of each point and its weights each way: shapes (n, 2), (n, 2, 3), whole numbers of 2^-63.

        With t steps of T = 2^31 inside the cell, the nodes before, at and after it have the weights (T - t)², the
        rest, and t², of 2 T² = 2^63.
        """
        cell = np.minimum(steps >> SUB_BITS, np.array(cells) - 1)
        after = (steps - (cell << SUB_BITS)).astype(np.uint64)
        before = np.uint64(STEPS) - after
        first, last = before * before, after * after
        return cell, np.stack([first, np.uint64(1 << NUMBER_BITS) - first - last, last], axis=-1)

    def at(self, steps: NDArray[np.int64], cells: Shape) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the nine nodes of each point and their weights."""
        cell, ways = self.places(steps, cells)
        shares = ways / 2.0**NUMBER_BITS
        weights = shares[:, 0, :, None] * shares[:, 1, None, :]
        columns = self.shape(cells)[1]
        rows = (cell[:, 0, None] + np.arange(3))[:, :, None] * columns + (cell[:, 1, None] + np.arange(3))[:, None]
        return rows.reshape(len(cell), 9), weights.reshape(len(cell), 9)

    def draw(self, steps: NDArray[np.int64], cells: Shape, bits: Bits) -> NDArray[np.int64]:
        """Draw the node each way by a number of its own."""
        node, weights = self.places(steps, cells)
        node = node.copy()
        for way in range(2):
            u = bits(len(steps))
            node[:, way] += (u >= weights[:, way, 0]).astype(np.int64)
            node[:, way] += (u >= weights[:, way, 0] + weights[:, way, 1]).astype(np.int64)
        return np.asarray(node[:, 0] * self.shape(cells)[1] + node[:, 1])

    def inequalities(self, cells: Shape) -> Inequalities:
        """Return one for each coefficient of the half lattice, four times as large as in the proof."""
        lines = [[_line(place) for place in range(2 * n + 1)] for n in cells]
        columns, widest = self.shape(cells)[1], 6
        n = len(lines[0]) * len(lines[1])
        nodes, factors = np.zeros((n, widest), dtype=np.int64), np.zeros((n, 3, widest), dtype=np.int64)
        for number, (first, second) in enumerate((a, b) for a in lines[0] for b in lines[1]):
            terms = [
                (i * columns + j, (slope * other, value * slant, value * other))
                for i, value, slope in first
                for j, other, slant in second
                if slope * other or value * slant or value * other
            ]
            nodes[number] = [node for node, _ in terms] + [terms[0][0]] * (widest - len(terms))
            factors[number, :, : len(terms)] = np.transpose([three for _, three in terms])
        return Inequalities(nodes, factors)


class Triangles:
    """Barycentric weights: three nodes at a point, the corners of its triangle.

    Rows of nodes lie on the borders of cells; every other row is moved by half a cell, so triangles are equilateral
    where cells are as high as an equilateral triangle of their width. Node (i, j) is at the height i, and at j - 1/4
    in even rows, j - 3/4 in odd ones, each in cells.
    """

    name = "triangles"

    def shape(self, cells: Shape) -> Shape:
        """Return the number of nodes each way."""
        return cells[0] + 1, cells[1] + 2

    def positions(self, cells: Shape) -> NDArray[np.float64]:
        """Return the corners of the triangles."""
        points = _grid(np.arange(cells[0] + 1), np.arange(cells[1] + 2) - 0.25)
        points[points[:, 0] % 2 == 1, 1] -= 0.5
        return points

    def inner(self, cells: Shape) -> NDArray[np.int64]:
        """Return the corners in the box."""
        return _numbers(self.shape(cells))[:, 1:-1].ravel()

    def places(self, steps: NDArray[np.int64], cells: Shape) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the row and column of a corner of each point, whether it leans left, and the two shares in its cell.

        Shapes (n, 3) and (n, 2), shares in whole numbers of 2^-32. A parallelogram of two triangles has its corners at
        (row, column) and one more each way; the shares are those of the way up and along it.
        """
        row = np.minimum(steps[:, 0] >> SUB_BITS, cells[0] - 1)
        up = (steps[:, 0] - (row << SUB_BITS)) << 1
        leans = row & 1
        half = up >> 1
        along = (steps[:, 1] << 1) + (1 << 30) + half + leans * ((1 << 31) - (half << 1))
        column = along >> 32
        return np.stack([row, column, leans], axis=1), np.stack([up, along - (column << 32)], axis=1)

    def at(self, steps: NDArray[np.int64], cells: Shape) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the four corners of each point's parallelogram and their weights, one of which is zero."""
        corner, shares = self.places(steps, cells)
        columns = self.shape(cells)[1]
        start = corner[:, 0] * columns + corner[:, 1]
        rows = start[:, None] + np.array([0, 1, columns, columns + 1])
        up, along = shares[:, 0], shares[:, 1]
        # how often a number below 2^32 goes both up and along: the two are drawn by the same number
        both = np.where(corner[:, 2] == 0, np.minimum(up, along), np.maximum(up + along - (1 << 32), 0))
        weights = np.stack([(1 << 32) - up - along + both, along - both, up - both, both], axis=1)
        return rows, weights / 2.0**32

    def draw(self, steps: NDArray[np.int64], cells: Shape, bits: Bits) -> NDArray[np.int64]:
        """Draw the corner by one number: low ones go up, and along; where the cell leans left, high ones go along."""
        corner, shares = self.places(steps, cells)
        u = (bits(len(steps)) >> np.uint64(NUMBER_BITS - 32)).astype(np.int64)
        other = u + corner[:, 2] * ((1 << 32) - 1 - 2 * u)
        row = corner[:, 0] + (u < shares[:, 0])
        return np.asarray(row * self.shape(cells)[1] + corner[:, 1] + (other < shares[:, 1]))

    def inequalities(self, cells: Shape) -> Inequalities:
        """Return three for each triangle, twice as large as in the proof: its slope against each of its corners."""
        columns = self.shape(cells)[1]
        row, column = (one.ravel() for one in np.indices((cells[0], cells[1] + 1)))
        at = row * columns + column
        low, high = at, at + columns
        leans = (row & 1).astype(bool)
        # a flat side from left to right, and the corner above or below its middle, with the way to it
        flat_low = np.stack([low, low + 1, np.where(leans, high, high + 1)], axis=1)
        flat_high = np.stack([high, high + 1, np.where(leans, low + 1, low)], axis=1)
        nodes = np.vstack([flat_low, flat_high])
        way = np.repeat([1, -1], len(at))
        factors = np.zeros((len(nodes), 3, 3, 3), dtype=np.int64)  # triangle, corner, a b c, node
        factors[:, :, 0, :2] = -way[:, None, None]
        factors[:, :, 0, 2] = 2 * way[:, None]
        factors[:, :, 1, :] = [-2, 2, 0]
        factors[:, np.arange(3), 2, np.arange(3)] = 2
        return Inequalities(np.repeat(nodes, 3, axis=0), factors.reshape(-1, 3, 3))


def _line(place: int) -> list[tuple[int, int, int]]:
    """Return the nodes of one line that take part in a coefficient, with twice their factors in u and its slope."""
    first = place // 2
    if place % 2 == 0:
        return [(first, 1, -2), (first + 1, 1, 2)]
    return [(first, 0, -1), (first + 1, 2, 0), (first + 2, 0, 1)]


def _grid(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.float64]:
    return np.stack(np.meshgrid(first, second, indexing="ij"), axis=-1).reshape(-1, 2).astype(np.float64)


def _numbers(shape: Shape) -> NDArray[np.int64]:
    return np.arange(shape[0] * shape[1]).reshape(shape)


KINDS: dict[str, Weights] = {kind.name: kind for kind in (Splines(), Triangles())}
