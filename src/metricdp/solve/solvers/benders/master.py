"""The master program: the boundary records' rows, and w_l standing for the loss inside block l."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from metricdp.metric.graph import MdpGraph
from metricdp.metric.sparsify import prune_implied
from metricdp.solve.bounds import RowDuals
from metricdp.solve.lazy_rows import LARGEST_GROWTH, DirectedPairs, LazyRows, unit_sums
from metricdp.solve.lp import SMALLEST_COEFFICIENT, LinearProgram
from metricdp.solve.solvers.benders.blocks import PATH_ROUNDING
from metricdp.solve.solvers.benders.cuts import Cut, unit_sum_cuts
from metricdp.solve.solvers.benders.options import SMALLEST_FLOOR

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from metricdp.partition import Partition
    from metricdp.solve.component import Component
    from metricdp.solve.solvers.benders.blocks import Block
    from metricdp.solve.solvers.benders.options import BendersOptions
    from metricdp.solve.stop import Stop


@dataclass(frozen=True)
class MasterPoint:
    """The master's optimum: boundary rows in a matrix of all records, and the w_l."""

    Z: NDArray[np.float64]
    w: NDArray[np.float64]
    is_optimal: bool


@dataclass(frozen=True)
class Proof:
    """A dual of the master: weights of its first cuts, and multipliers of rows among boundary records."""

    weights: NDArray[np.float64]
    rows: RowDuals


class Master:
    """Boundary rows with unit sums, mDP rows (lazily), and cuts; hot-started from solve to solve."""

    def __init__(
        self,
        component: Component,
        partition: Partition,
        blocks: list[Block],
        options: BendersOptions,
        stop: Stop,
    ) -> None:
        self.component, self.blocks, self.options = component, blocks, options
        self.floor = min(options.floor or SMALLEST_FLOOR, 0.5 / component.n_outputs)
        self.boundary = partition.boundary
        self.n, self.K = len(self.boundary), component.n_outputs
        self.position = np.full(component.n, -1)
        self.position[self.boundary] = np.arange(self.n)
        self.scale = component.scale
        costs = component.costs[self.boundary]
        self.offset = costs.min(axis=1, keepdims=True) if self.n else np.zeros((0, 1))
        # a block's loss is at least what its records would have alone
        alone = np.array([block.costs.min(axis=1).sum() for block in blocks]) / self.scale
        # and never more than twice its dearest rows: a boxed variable, so that the solver cannot claim "unbounded"
        dearest = np.array([block.costs.max(axis=1).sum() for block in blocks]) / self.scale
        size = self.n * self.K
        self.program = LinearProgram(
            np.concatenate((((costs - self.offset) / self.scale).ravel(), np.ones(len(blocks)))),
            np.concatenate((np.full(size, self.floor), alone)),
            np.concatenate((np.ones(size), 2.0 * dearest + 1.0)),
            tolerance=options.tolerance,
        )
        self.program.be_impatient()
        variables = unit_sums(self.program, self.n, self.K)
        self.rows = LazyRows(self.program, self._boundary_rows(stop), variables, options.tolerance)
        self.cuts: list[Cut] = []
        self._cut_rows: list[int] = []  # of the program
        self._cut_factors: list[float] = []
        if not options.lazy_rows:
            self.rows.add_all(stop)

    def _boundary_rows(self, stop: Stop) -> DirectedPairs:
        """Give the rows among boundary records: their edges, and paths as the options say."""
        graph, epsilon = self.component.graph, self.component.epsilon
        direct = graph.subgraph(self.boundary)
        shortest = {tuple(pair): d for pair, d in zip(direct.pairs.tolist(), direct.distances.tolist(), strict=True)}
        reach = np.log(min(1.0 / self.floor, LARGEST_GROWTH)) / epsilon
        if self.options.path_rows == "initial":
            groups = [(self.boundary, graph.path_distances(self.boundary, limit=reach)[:, self.boundary])]
        elif self.options.path_rows == "lazy":
            groups = [self._around(block, stop) for block in self.blocks if len(block.attached) > 1]
        else:
            groups = []
        for records, paths in groups:
            stop.check()
            for a, b in zip(*np.nonzero(np.triu(paths < reach, k=1)), strict=True):
                pair = (int(self.position[records[a]]), int(self.position[records[b]]))
                length = float(paths[a, b]) * PATH_ROUNDING
                if length < shortest.get(pair, np.inf):
                    shortest[pair] = length
        if not shortest:
            return DirectedPairs(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))
        pairs = np.array(sorted(shortest), dtype=np.int32)
        rows = MdpGraph(self.n, pairs, np.array([shortest[tuple(p)] for p in pairs.tolist()]))
        if self.options.path_rows != "initial":
            rows = prune_implied(rows)
        return DirectedPairs.of(rows, epsilon, floor=self.floor)

    def _around(self, block: Block, stop: Stop) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        stop.check()
        members = np.sort(np.concatenate((block.internal, block.attached)))
        place = np.searchsorted(members, block.attached)
        return block.attached, self.component.graph.subgraph(members).path_distances(place)[:, place]

    def add(self, cuts: list[Cut]) -> None:
        """Add cuts; coefficients that the LP solver would drop are given away on the safe side."""
        columns, values, starts, lower, factors = [], [], [], [], []
        length = 0
        for cut in cuts:
            coefficients = -cut.coefficients / self.scale
            tiny = np.abs(coefficients) < SMALLEST_COEFFICIENT
            # a dropped term helped the left side by at most its size, since entries are at most 1
            constant = cut.constant / self.scale - np.maximum(coefficients[tiny], 0.0).sum()
            own = self.position[cut.records[~tiny]] * self.K + cut.outputs[~tiny]
            row = coefficients[~tiny]
            if cut.weight:
                own = np.append(own, self.n * self.K + cut.block)
                row = np.append(row, 1.0)
            factor = _row_scale(row)
            starts.append(length)
            columns.append(own)
            values.append(row * factor)
            length += len(own)
            lower.append(constant * factor)
            factors.append(factor)
        if cuts:
            self.program.add_rows(
                np.array(lower),
                np.full(len(cuts), np.inf),
                np.array(starts, dtype=np.int32),
                np.concatenate(columns).astype(np.int32),
                np.concatenate(values),
            )
            self.cuts += cuts  # those that the solver took
            self._cut_rows += range(self.program.n_rows - len(cuts), self.program.n_rows)
            self._cut_factors += factors

    def solve(self, stop: Stop, is_enough: Callable[[Proof], bool]) -> MasterPoint:
        """Solve, adding violated mDP rows and unit-sum cuts until there are none or the dual is good enough."""
        size = self.n * self.K
        unit_sum_rounds = self.options.unit_sum_rounds
        while True:
            solution = self.program.solve(stop=stop)
            if is_enough(self._proof(solution.row_dual)) or not solution.is_optimal or stop.is_due:
                break
            z = self.rows.matrix(solution.x)
            if self.rows.add_violated(z, stop):
                continue
            found = self._unit_sum_cuts(z) if unit_sum_rounds > 0 else []
            if not found:
                break
            self.add(found)
            unit_sum_rounds -= 1
        Z = np.zeros((self.component.n, self.K))
        Z[self.boundary] = np.minimum(self.rows.matrix(solution.x), 1.0)
        return MasterPoint(Z, solution.x[size:] * self.scale, solution.is_optimal)

    def _unit_sum_cuts(self, z: NDArray[np.float64]) -> list[Cut]:
        found: list[Cut] = []
        for block in self.blocks:
            if len(block.attached):
                found += unit_sum_cuts(block, block.bounds(z[self.position[block.attached]], self.floor), 1e-6)
        return found

    def duals(self, proof: Proof) -> RowDuals:
        """Translate the master's dual into multipliers of mDP rows of the whole problem."""
        used = np.flatnonzero(proof.weights > 0)
        scaled = (self.cuts[number].duals.scaled(float(proof.weights[number])) for number in used)
        return RowDuals.joined([proof.rows, *scaled])

    def _proof(self, row_dual: NDArray[np.float64]) -> Proof:
        """Sort the solver's row duals into those of cuts and those of mDP rows."""
        weights = np.zeros(len(self.cuts))
        if len(row_dual) == self.program.n_rows:
            weights = np.maximum(row_dual[self._cut_rows], 0.0) * self._cut_factors
        rows = self.rows.duals(row_dual, self.scale)
        return Proof(weights, replace(rows, tail=self.boundary[rows.tail], head=self.boundary[rows.head]))


def _row_scale(row: NDArray[np.float64]) -> float:
    """Give a power of 2 that brings a row's coefficients around 1.

    The solver scales the model it starts with, not rows that come later: unscaled cuts made hot starts stall.
    """
    size = np.abs(row[row != 0])
    if size.size == 0:
        return 1.0
    middle = 0.5 * (np.log2(size.min()) + np.log2(size.max()))
    smallest = np.log2(size.min() / SMALLEST_COEFFICIENT)
    return float(2.0 ** -np.floor(min(middle, smallest)))
