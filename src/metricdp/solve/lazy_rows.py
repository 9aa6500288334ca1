"""mDP rows that enter a linear program when they are violated: solve, add, solve again from the last basis.

A row says ``z[tail, k] <= growth z[head, k]``. It is handed over as it stands: the other scaling, with exp(-epsilon d)
on the left, loses privacy silently beyond epsilon d = 16.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import OutOfRoomError
from metricdp.solve.bounds import RowDuals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from metricdp.metric.graph import MdpGraph
    from metricdp.solve.lp import LinearProgram, LpSolution
    from metricdp.solve.stop import Stop

LARGEST_GROWTH = 1e14  # rows with a larger factor are left to the repair: the LP solver takes it for infinite
ENTRIES_AT_ONCE = 1 << 20  # of a block of rows that is looked at


@dataclass(frozen=True)
class DirectedPairs:
    """Both directions of pairs: ``z[tail] <= exp(exponent) z[head]`` for every output."""

    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    exponent: NDArray[np.float64]

    @classmethod
    def of(
        cls, graph: MdpGraph, epsilon: float, *, floor: float = 0.0, largest: float = LARGEST_GROWTH
    ) -> DirectedPairs:
        """Return those of a graph that can bind: with a floor f, rows with a factor above 1 / f always hold."""
        i, j = graph.pairs.T.astype(np.int64)
        both = cls(np.concatenate((i, j)), np.concatenate((j, i)), epsilon * np.tile(graph.distances, 2))
        return both.below(min(1.0 / floor if floor > 0 else np.inf, largest))

    def below(self, largest: float) -> DirectedPairs:
        """Return those whose factor is below ``largest``."""
        needed = self.exponent < np.log(largest)
        return DirectedPairs(self.tail[needed], self.head[needed], self.exponent[needed])

    @cached_property
    def growth(self) -> NDArray[np.float64]:
        """The factors ``exp(exponent)``, one array for all programs that these rows are for."""
        return np.exp(self.exponent)

    def __len__(self) -> int:
        return len(self.tail)


class LazyRows:
    """The mDP rows of a linear program: those that are in it, and those that may come.

    Parameters
    ----------
    program
        The linear program; other rows may come between those that are added here.
    pairs
        The rows of every output.
    variables
        The program's column of each record and output, shape (n, K); -1 where there is none, and so no row.
    tolerance
        By how much a row must be violated to come in.
    """

    def __init__(
        self, program: LinearProgram, pairs: DirectedPairs, variables: NDArray[np.int64], tolerance: float
    ) -> None:
        self.program, self.pairs, self.variables, self.tolerance = program, pairs, variables, tolerance
        self.is_absent = (variables[pairs.tail] >= 0) & (variables[pairs.head] >= 0)
        self._batches: list[tuple[int, NDArray[np.int64], NDArray[np.int64]]] = []  # the first row, edges and outputs

    def add_all(self, stop: Stop) -> None:
        """Bring in every row."""
        self.program.look_for_room(stop, int(np.count_nonzero(self.is_absent)))
        edges, outputs = np.nonzero(self.is_absent)
        self.add(edges, outputs, stop)

    def add(self, edges: NDArray[np.int64], outputs: NDArray[np.int64], stop: Stop) -> None:
        """Bring in the rows of ``edges`` for ``outputs``; OutOfRoomError is raised if they would not fit."""
        m = len(edges)
        if m == 0:
            return
        self.program.look_for_room(stop, m)
        first, tail, head = self.program.n_rows, self.pairs.tail[edges], self.pairs.head[edges]
        columns = np.column_stack((self.variables[tail, outputs], self.variables[head, outputs]))
        values = np.column_stack((np.ones(m), -self.pairs.growth[edges]))
        starts = np.arange(0, 2 * m, 2, dtype=np.int32)
        self.program.add_rows(
            np.full(m, -np.inf), np.zeros(m), starts, columns.ravel().astype(np.int32), values.ravel()
        )
        self.is_absent[edges, outputs] = False
        self._batches.append((first, edges, outputs))

    def violated(self, Z: NDArray[np.float64], stop: Stop) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the edges and outputs of rows that ``Z`` violates and that are not in yet; none if it is time to stop.

        A block at a time: for all rows at once, the differences alone would be larger than everything else.
        """
        edges, outputs = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        block = max(1, ENTRIES_AT_ONCE // Z.shape[1])
        for start in range(0, len(self.pairs), block):
            if stop.is_due:
                break
            part = slice(start, start + block)
            excess = Z[self.pairs.tail[part]] - self.pairs.growth[part, None] * Z[self.pairs.head[part]]
            e, k = np.nonzero((excess > self.tolerance) & self.is_absent[part])
            edges.append(e + start)
            outputs.append(k)
        return np.concatenate(edges), np.concatenate(outputs)

    def add_violated(self, Z: NDArray[np.float64], stop: Stop) -> int:
        """Bring in the rows that ``Z`` violates; return their number."""
        edges, outputs = self.violated(Z, stop)
        self.add(edges, outputs, stop)
        return len(edges)

    def matrix(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return a point of the program as a matrix of records and outputs, not below 0; 0 where there is no column."""
        return np.where(self.variables >= 0, np.maximum(x[self.variables], 0.0), 0.0)

    def multipliers(
        self, row_dual: NDArray[np.float64], scale: float = 1.0
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Return edges, outputs and multipliers that are not 0, with their sign put right and times ``scale``.

        Rows that the answer of the solver lacks have none.
        """
        parts = [(first, edges, k) for first, edges, k in self._batches if first + len(edges) <= len(row_dual)]
        if not parts:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)
        y = np.concatenate([np.maximum(-row_dual[first : first + len(edges)], 0.0) for first, edges, _ in parts])
        used = np.flatnonzero(y)
        edges = np.concatenate([edges for _, edges, _ in parts])[used]
        return edges, np.concatenate([k for _, _, k in parts])[used], y[used] * scale

    def duals(self, row_dual: NDArray[np.float64], scale: float = 1.0) -> RowDuals:
        """Return the multipliers with the rows that they belong to."""
        edges, outputs, y = self.multipliers(row_dual, scale)
        return RowDuals(self.pairs.tail[edges], self.pairs.head[edges], outputs, self.pairs.exponent[edges], y)

    def rounds(self, stop: Stop) -> Iterator[Round]:
        """Solve and add violated rows in turn, until none is violated or the solver is stopped; yield every round.

        The last round says in ``trouble`` if its violated rows would not fit into the memory.
        """
        while True:
            n_rows = self.program.n_rows
            solution = self.program.solve(stop=stop)
            Z, trouble = self.matrix(solution.x), ""
            edges, outputs = self.violated(Z, stop)
            try:
                if solution.is_optimal:
                    self.add(edges, outputs, stop)
            except OutOfRoomError as error:
                trouble = str(error)
            yield Round(solution, Z, n_rows, len(edges), trouble)
            if len(edges) == 0 or not solution.is_optimal or stop.is_due or trouble:
                return

    def solve(self, stop: Stop) -> Round:
        """Solve until no row is violated; return the last round. OutOfRoomError is raised if rows would not fit."""
        for found in self.rounds(stop):
            last = found
        if last.trouble:
            raise OutOfRoomError(last.trouble)
        return last


@dataclass(frozen=True)
class Round:
    """One solve: the solver's answer, the matrix in it, the rows that it had and violates, and why they are not in."""

    solution: LpSolution
    Z: NDArray[np.float64]
    n_rows: int
    n_violated: int
    trouble: str = ""

    @property
    def is_optimal(self) -> bool:
        """Whether the solver finished, and nothing is violated."""
        return self.solution.is_optimal and self.n_violated == 0


def unit_sums(program: LinearProgram, n: int, n_outputs: int) -> NDArray[np.int64]:
    """Add the rows that say that probabilities sum to 1 over the first n K columns; return these, shape (n, K)."""
    size = n * n_outputs
    starts = np.arange(0, size, n_outputs, dtype=np.int32)
    program.add_rows(np.ones(n), np.ones(n), starts, np.arange(size, dtype=np.int32), np.ones(size))
    return np.arange(size).reshape(n, n_outputs)
