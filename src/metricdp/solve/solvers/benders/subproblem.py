"""The problem of one block given the boundary: a small LP that is kept warm between iterations."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.errors import InputError, OutOfRoomError, SolverError
from metricdp.solve import warm
from metricdp.solve.answers import array_of, number_of, text_of
from metricdp.solve.bounds import RowDuals
from metricdp.solve.lazy_rows import LARGEST_GROWTH, DirectedPairs, LazyRows
from metricdp.solve.lp import LinearProgram
from metricdp.solve.solvers.benders.cuts import Cut, bound_duals, cut_from_rows
from metricdp.solve.stop import StoppedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.solvers.benders.blocks import Block, Bounds
    from metricdp.solve.stop import Stop

FEASIBLE = 1e-7  # unit sums missed by less count as met
ANOTHER_ALGORITHM = "ipx"
KINDS = ("optimality", "feasibility")


@dataclass(frozen=True)
class BlockTask:
    """Everything a worker needs: the block itself, so that it can be rebuilt anywhere, and the boundary's rows.

    ``run`` and the block's number name its model: a worker that has seen it before goes on with its warm model.
    ``seconds`` are those left until the run's deadline.
    """

    run: str
    block: Block
    z: NDArray[np.float64]
    scale: float
    penalty: float
    floor: float
    tolerance: float
    is_elastic: bool
    seconds: float


@dataclass(frozen=True)
class BlockAnswer:
    """Internal rows, how much of the unit sums they miss, and the cut that the multipliers give.

    ``trouble`` says what the LP solver failed at if it took another algorithm.
    """

    number: int
    Z: NDArray[np.float64]
    missed: float
    cut: Cut
    trouble: str

    @classmethod
    def of(cls, task: BlockTask, answer: dict[str, Any]) -> BlockAnswer:
        """Check what `solve_block` answered, maybe elsewhere, and make the cut here: nothing of it is trusted."""
        block = task.block
        Z = array_of(answer, "Z", np.float64, block.costs.shape, low=0.0)
        kind = text_of(answer, "kind")
        if kind not in KINDS:
            raise InputError(f"a block's answer cannot be a cut of the kind {kind!r:.50}")
        cut = cut_from_rows(kind, block, answer)
        return cls(block.number, Z, number_of(answer, "missed"), cut, text_of(answer, "trouble"))


class BlockModel:
    """The warm LP of a block: entries z_ik within bounds, unit sums with slack at a penalty, lazy internal edges."""

    def __init__(self, task: BlockTask, algorithm: str = "simplex") -> None:
        block = task.block
        self.n, self.K = block.costs.shape
        # a constant may leave each row: small numbers keep their digits
        self.offset = block.costs.min(axis=1, keepdims=True)
        self.objective = (block.costs - self.offset) / task.scale
        size = self.n * self.K
        self.program = LinearProgram(
            np.concatenate((self.objective.ravel(), np.full(2 * self.n, task.penalty))),
            np.zeros(size + 2 * self.n),
            np.concatenate((np.ones(size), np.full(2 * self.n, np.inf))),
            algorithm=algorithm,
            tolerance=task.tolerance,
        )
        columns = np.concatenate(
            (
                np.arange(size).reshape(self.n, self.K),
                size + np.arange(2 * self.n).reshape(self.n, 2),
            ),
            axis=1,
        )
        values = np.tile(np.concatenate((np.ones(self.K), [1.0, -1.0])), self.n)
        starts = np.arange(0, columns.size, self.K + 2, dtype=np.int32)
        self.program.add_rows(np.ones(self.n), np.ones(self.n), starts, columns.ravel(), values)
        edges = DirectedPairs(block.tail, block.head, block.edge_exponents)
        edges = edges.below(min(1.0 / task.floor, LARGEST_GROWTH))
        self.rows = LazyRows(self.program, edges, columns[:, : self.K], task.tolerance)

    def solve(self, task: BlockTask, stop: Stop) -> dict[str, Any]:
        """Solve for the boundary's rows ``task.z``; the answer is made of arrays, numbers and texts only."""
        block, size = task.block, self.n * self.K
        bounds = block.bounds(task.z, task.floor)
        lower = np.maximum(bounds.lower, task.floor)
        self.program.set_bounds(lower.ravel(), np.maximum(bounds.upper, lower).ravel())
        missed = 0.0
        penalty, is_ray = task.penalty, False
        while True:
            costs = self.objective.ravel() if not is_ray else np.zeros(size)
            slack = penalty if not is_ray else 1.0
            self.program.set_costs(np.concatenate((costs, np.full(2 * self.n, slack))))
            found = self.rows.solve(stop)
            if not found.is_optimal:
                raise StoppedError(f"block {block.number} was broken off")
            missed = float(found.solution.x[size:].sum())
            if task.is_elastic or is_ray or missed <= FEASIBLE:
                break
            is_ray = True  # the paper's case C1: a ray of the dual, found as the dual of the least missed sum
        reduced = (np.zeros((self.n, self.K)) if is_ray else self.objective) - found.solution.row_dual[: self.n, None]
        rows = _rows(task, bounds, reduced, self.rows.duals(found.solution.row_dual))
        return {
            "Z": found.Z,
            "missed": missed,
            "trouble": "",
            "kind": "feasibility" if is_ray else "optimality",
            "tail": rows.tail,
            "head": rows.head,
            "output": rows.output,
            "y": rows.y if is_ray else task.scale * rows.y,
        }


def _rows(task: BlockTask, bounds: Bounds, reduced: NDArray[np.float64], duals: RowDuals) -> RowDuals:
    """Return internal rows' multipliers as they are, and boundary rows' from the reduced costs that they leave."""
    block = task.block
    np.add.at(reduced, (duals.tail, duals.output), duals.y)
    np.add.at(reduced, (duals.head, duals.output), -np.exp(duals.exponent) * duals.y)
    inner = RowDuals(block.internal[duals.tail], block.internal[duals.head], duals.output, duals.exponent, duals.y)
    return RowDuals.joined([inner, bound_duals(block, bounds, reduced)])


def solve_block(task: BlockTask) -> dict[str, Any]:
    """Solve a block, on its warm model if this process has one; by another algorithm if the LP solver fails.

    `BlockAnswer.of` reads the answer.
    """
    stop = warm.stop_of(task.run, task.seconds)
    model = warm.take(task.run, task.block.number)
    try:
        model = model or BlockModel(task)
        answer = model.solve(task, stop)
    except OutOfRoomError:
        raise  # another algorithm would need more
    except SolverError as error:
        return _by_another_algorithm(task, model, error, stop)
    warm.keep(task.run, task.block.number, model)
    return answer


def _by_another_algorithm(task: BlockTask, model: BlockModel | None, error: SolverError, stop: Stop) -> dict[str, Any]:
    """Write the LP that failed to a file, for the solver's maintainers, and try once more from scratch."""
    number, file = task.block.number, _written(task.block.number, model)
    try:
        answer = BlockModel(task, ANOTHER_ALGORITHM).solve(task, stop)
    except SolverError as again:
        raise SolverError(
            f"block {number} ({len(task.block.internal)} records) could not be solved: {error}; by "
            f"{ANOTHER_ALGORITHM}: {again}; its linear program is in {file}: please send it to the maintainers of HiGHS"
        ) from None
    return {**answer, "trouble": f"{error}; its linear program is in {file}"}


def _written(number: int, model: BlockModel | None) -> str:
    if model is None:
        return "no file"
    handle, name = tempfile.mkstemp(prefix=f"metricdp-block-{number}-", suffix=".mps")
    os.close(handle)
    try:
        model.program.write(Path(name))
    except SolverError as error:
        return f"no file ({error})"
    return name
