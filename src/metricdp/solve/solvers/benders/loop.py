"""The decomposition: master and subproblems in turn until the bounds meet (the paper's Section 3.2)."""

from __future__ import annotations

import math
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from metricdp.errors import InfeasibleError, OutOfRoomError, SolverError, StoppedError
from metricdp.mechanism.mechanism import relative_gap
from metricdp.mechanism.repair import repair
from metricdp.partition import Partition
from metricdp.solve.bounds import lower_bound
from metricdp.solve.contract import Ended, Incumbent, Solver, register
from metricdp.solve.solvers.benders.blocks import make_blocks
from metricdp.solve.solvers.benders.checkpointing import restore, store, store_bounds
from metricdp.solve.solvers.benders.halo import Halo, combined, solve_halo
from metricdp.solve.solvers.benders.master import Master
from metricdp.solve.solvers.benders.options import BendersOptions
from metricdp.solve.solvers.benders.subproblem import UNIT_SUM_TOLERANCE, BlockAnswer, BlockTask, solve_block
from metricdp.solve.solvers.direct import Direct, program_bytes
from metricdp.solve.warm import begin_run, end_run

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from metricdp.solve.component import Component
    from metricdp.solve.contract import Context, Load
    from metricdp.solve.executor import Workers
    from metricdp.solve.result import Trace
    from metricdp.solve.solvers.benders.blocks import Block
    from metricdp.solve.solvers.benders.cuts import Cut
    from metricdp.solve.solvers.benders.master import MasterPoint, Proof
    from metricdp.solve.stop import Stop

VIOLATION_TOLERANCE = 1e-9  # relative to the scale of the losses
PENALTY_FACTOR = 4.0  # by which the penalty of missed unit sums grows when no cut is new
MASTER = -1  # in place of a block's number
DIVIDED_FROM_RECORDS = 30  # records: smaller components are one small linear program


@dataclass
class Progress:
    """What is known so far: bounds, the best private matrix, and which blocks have been feasible when."""

    lower_bound: float = 0.0
    upper_bound: float = math.inf
    Z: NDArray[np.float64] | None = None
    iteration: int = -1
    proof: Proof | None = None  # of the lower bound
    stored: int = -1  # the last iteration that the checkpoint holds
    n_stored: int = 0  # cuts that its iterations hold
    feasible_since: dict[int, int] = field(default_factory=dict)
    trouble: str = ""  # what ended the run
    is_out_of_room: bool = False

    @property
    def gap(self) -> float:
        """The relative gap."""
        return 1.0 if self.Z is None else relative_gap(self.upper_bound, self.lower_bound)


@register
class Benders(Solver):
    """The paper's decomposition: blocks of records that meet in their boundary."""

    name: ClassVar[str] = "benders"
    options_type: ClassVar[type] = BendersOptions
    limits: ClassVar[tuple[str, ...]] = ("max_iterations",)
    is_checkpointed: ClassVar[bool] = True

    @property
    def libraries(self) -> tuple[str, ...]:
        """Modules that make blocks: all partitioners but one end with k-means."""
        return () if self.options.partition == "metis" else ("sklearn.cluster",)

    def prepare(self, context: Context) -> None:
        """Divide all records; components take their part."""
        own = self.options
        self.partition = context.division.partition(
            method=own.partition, n_blocks=own.n_blocks, seed=own.seed, separator=own.separator
        )

    def identity(self) -> Any:
        """Return the options and the blocks that were made."""
        return super().identity(), None if self.partition is None else self.partition.block_of.tolist()

    def bytes_beyond(self, load: Load) -> float:
        """Return the bytes of one program of everything: blocks and boundary together have as many columns."""
        return program_bytes(load)

    def run(self, component: Component, incumbent: Incumbent, context: Context) -> Incumbent:
        """Solve by blocks; a component that the partition does not divide is one linear program."""
        if self.partition is None:
            return incumbent  # there was no time to divide anything
        block_of = self.partition.block_of[component.members]
        part = Partition(component.graph, block_of, self.partition.name, separator=self.options.separator)
        if part.n_blocks == 1 or component.n < DIVIDED_FROM_RECORDS:
            return Direct().run(component, incumbent, context)
        return self._by_blocks(component, part, incumbent, context)

    def _by_blocks(  # noqa: C901  (one handler for each way to end)
        self, component: Component, part: Partition, incumbent: Incumbent, context: Context
    ) -> Incumbent:
        gap, trace, stop, checkpoint = context.gap, context.trace, context.stop, context.checkpoint
        run = Run(component, part, self.options.with_floor_for(component, gap), context.workers, stop)
        progress = Progress(incumbent.lower_bound)
        begin_run(run.name, stop)
        try:
            if incumbent.rows is not None:
                run.try_matrix(incumbent.rows, progress)
            if checkpoint is not None:
                restore(checkpoint, run, progress)
            if not run.master.cuts and self.options.halo_cuts:
                run.add_halos(progress, trace)
            while progress.gap > gap and progress.iteration + 1 < self.options.max_iterations and not stop.is_due:
                if not run.iterate(progress, gap, trace):
                    break
                if checkpoint is not None:
                    store(checkpoint, run, progress)
        except StoppedError:
            pass  # during set-up
        except OutOfRoomError as error:
            progress.trouble, progress.is_out_of_room = str(error), True
        except InfeasibleError as error:
            # the paper's case C3; every true problem has a solution, so the LP solver's claim is wrong
            progress.trouble = f"the master: {error}"
        finally:
            end_run(run.name)
        if checkpoint is not None:
            store_bounds(checkpoint, run, progress)
        trace.add(
            stage="blocks",
            component=component.number,
            blocks=len(run.blocks),
            boundary=run.master.n,
            sizes=[len(block.internal) for block in run.blocks],
            attached=[len(block.attached) for block in run.blocks],
            iterations_to_feasibility=[progress.feasible_since.get(block.number, -1) for block in run.blocks],
            lost_tasks=context.workers.n_lost,
        )
        return Incumbent(
            progress.lower_bound,
            progress.Z,
            _ended(progress, gap, stop),
            is_private=progress.Z is not None,
            iterations=progress.iteration + 1,
            cuts=len(run.master.cuts),
            reason=progress.trouble,
        )


def _ended(progress: Progress, gap: float, stop: Stop) -> Ended:
    if progress.gap <= gap:
        return Ended.REACHED
    if progress.trouble:
        return Ended.USED_UP if progress.is_out_of_room else Ended.FAILED
    return Ended.STOPPED if stop.is_due else Ended.USED_UP


class Run:
    """The master, the blocks and the position of the next step."""

    def __init__(
        self, component: Component, partition: Partition, options: BendersOptions, workers: Workers, stop: Stop
    ) -> None:
        self.component, self.options, self.workers, self.stop = component, options, workers, stop
        self.name = uuid.uuid4().hex
        self.blocks = make_blocks(component, partition, stop)
        self.master = Master(component, partition, self.blocks, options, stop)
        self.penalty = options.penalty
        self.is_damped = False  # the first step uses the master's point

    def add_halos(self, progress: Progress, trace: Trace) -> None:
        """Compute the master's first cuts, and a first private matrix, from the blocks with their surroundings."""

        def make(block: Block) -> Halo | str:
            try:
                return solve_halo(self.component, block, self.options, self.stop)
            except SolverError as error:  # one cut fewer: the blocks' own problems do not need it
                return str(error)

        found = self.workers.run_here(make, self.blocks, self.stop) or []
        halos = [halo for halo in found if isinstance(halo, Halo)]
        for block, halo in zip(self.blocks, found, strict=False):
            if isinstance(halo, str):
                self._report(trace, block.number, f"its surroundings: {halo}")
        try:
            self.master.add([halo.cut for halo in halos])
        except SolverError as error:
            self._report(trace, MASTER, f"cuts of the surroundings: {error}")
        if len(halos) == len(self.blocks):
            self.try_matrix(combined(halos, self.blocks, self.component.n), progress)
            self.is_damped = self.options.in_out < 1.0

    def iterate(self, progress: Progress, gap: float, trace: Trace) -> bool:
        """Do one iteration; return False if it was interrupted."""
        begin = time.perf_counter()
        point = self._solve_master(progress, gap)
        master_seconds = time.perf_counter() - begin
        if point is None or not point.is_optimal:
            return False
        Z = self._step(point, progress)
        begin = time.perf_counter()
        tasks = [self._task(block, Z) for block in self.blocks]
        answers = self.workers.run(solve_block, tasks, self.stop, BlockAnswer.of)
        if answers is None:
            return False
        block_seconds = time.perf_counter() - begin
        for answer in answers:
            if answer.trouble:
                self._report(trace, answer.number, answer.trouble)
        progress.iteration += 1
        is_refused, added = False, 0
        try:
            added = self._add_cuts(point, Z, answers)
        except OutOfRoomError:
            raise
        except SolverError as error:  # there is no next step without them, but this one may have improved the bounds
            progress.trouble = f"the master: {error}"
            is_refused = True
        n_infeasible = self._note_feasible(answers, progress)
        if self.options.repair_always or n_infeasible == 0:
            for answer in answers:
                Z[self.blocks[answer.number].internal] = answer.Z
            self.try_matrix(Z, progress)
        trace.add(
            stage="benders",
            component=self.component.number,
            iteration=progress.iteration,
            lower_bound=progress.lower_bound,
            upper_bound=progress.upper_bound,
            gap=progress.gap,
            new_cuts=added,
            cuts=dict(Counter(cut.kind for cut in self.master.cuts)),
            infeasible_blocks=n_infeasible,
            master_rows=self.master.program.n_rows,
            master_seconds=round(master_seconds, 4),
            block_seconds=round(block_seconds, 4),
        )
        return not is_refused

    def _solve_master(self, progress: Progress, gap: float) -> MasterPoint | None:
        """Solve the master, whose duals raise the lower bound; return None if the LP solver fails."""

        def is_enough(proof: Proof) -> bool:
            self.prove(proof, progress)
            return progress.gap <= gap

        try:
            return self.master.solve(self.stop, is_enough)
        except (InfeasibleError, OutOfRoomError):
            raise
        except SolverError as error:  # the bounds proved so far remain valid
            progress.trouble = f"the master: {error}"
            return None

    def prove(self, proof: Proof, progress: Progress) -> None:
        """Raise the lower bound to what a dual of the master proves."""
        component = self.component
        bound = lower_bound(component.costs, self.master.duals(proof), cost_roundings=component.cost_roundings)
        if bound > progress.lower_bound:
            progress.lower_bound, progress.proof = bound, proof

    def _report(self, trace: Trace, block: int, trouble: str) -> None:
        trace.add(stage="trouble", component=self.component.number, block=block, trouble=trouble)

    def _step(self, point: MasterPoint, progress: Progress) -> NDArray[np.float64]:
        """Return the boundary at which to solve the blocks: between the best private one and the master's."""
        Z = point.Z.copy()
        if self.is_damped and progress.Z is not None:
            boundary, step = self.master.boundary, self.options.in_out
            Z[boundary] = step * point.Z[boundary] + (1.0 - step) * progress.Z[boundary]
        return Z

    def _task(self, block: Block, Z: NDArray[np.float64]) -> BlockTask:
        return BlockTask(
            run=self.name,
            block=block,
            z=Z[block.attached],
            scale=self.component.scale,
            penalty=self.penalty,
            floor=self.master.floor,
            tolerance=self.options.tolerance,
            is_elastic=self.options.is_elastic,
            seconds=self.stop.seconds_left,
        )

    def _add_cuts(self, point: MasterPoint, Z: NDArray[np.float64], answers: list[BlockAnswer]) -> int:
        """Add the cuts that are violated at the master's point or at the point of the blocks."""
        small = VIOLATION_TOLERANCE * self.component.scale
        new, is_cut_off = [], False
        for answer in answers:
            cut = answer.cut
            excess = cut.value(point.Z) - cut.weight * point.w[answer.number]
            is_cut_off |= excess > small
            if excess > small or cut.value(Z) > self._known(answer.number, cut, Z) + small:
                new.append(cut)
        self.master.add(new)
        if not new and self.options.is_elastic and max(a.missed for a in answers) > UNIT_SUM_TOLERANCE:
            self.penalty *= PENALTY_FACTOR
        self.is_damped = self.options.in_out < 1.0 and is_cut_off
        return len(new)

    def _known(self, block: int, cut: Cut, Z: NDArray[np.float64]) -> float:
        """Return the bound on a block at ``Z`` from the master's present cuts."""
        if not cut.weight:
            return 0.0
        alone = float(self.blocks[block].costs.min(axis=1).sum())
        return max((c.value(Z) for c in self.master.cuts if c.weight and c.block == block), default=alone)

    def _note_feasible(self, answers: list[BlockAnswer], progress: Progress) -> int:
        """Note since when each block has been feasible; return the number of those that are not."""
        count = 0
        for answer in answers:
            if answer.missed > UNIT_SUM_TOLERANCE:
                count += 1
                progress.feasible_since.pop(answer.number, None)
            else:
                progress.feasible_since.setdefault(answer.number, progress.iteration)
        return count

    def try_matrix(self, Z: NDArray[np.float64], progress: Progress) -> None:
        """Repair a matrix and keep it if it is the best."""
        costs = self.component.costs
        table = repair(
            Z,
            self.component.graph,
            self.component.epsilon,
            costs=costs,
            is_due=lambda: self.stop.is_due,
            is_over=lambda: self.stop.is_due and progress.Z is not None,
        )
        self.keep(table / 2.0**63, progress)

    def keep(self, Z: NDArray[np.float64], progress: Progress) -> None:
        """Keep a private matrix if it is the best."""
        loss = self.component.loss(Z)
        if loss < progress.upper_bound:
            progress.upper_bound, progress.Z = loss, Z
