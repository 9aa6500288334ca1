"""The method ``local``: first-order steps on a window around each output, and a sparse table over a background."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from metricdp.errors import InputError, StoppedError
from metricdp.metric.distances import MAX_TREE_DIMENSION
from metricdp.problem.losses import DistanceLosses
from metricdp.problem.memory_model import GIGABYTE, held_bytes, most_bytes
from metricdp.solve.contract import FoundTable, WholeMethod, register
from metricdp.solve.solvers.local.counts import local_counts, prediction
from metricdp.solve.solvers.local.geometry import geometry_of
from metricdp.solve.solvers.local.loop import solve_windows
from metricdp.solve.solvers.local.options import KD, LocalOptions
from metricdp.solve.solvers.local.problem import LocalProblem
from metricdp.solve.solvers.local.regions.kept import plan_fingerprint
from metricdp.solve.solvers.local.regions.loop import solve_regions
from metricdp.solve.solvers.local.regions.plan import Plan, can_be_divided
from metricdp.solve.solvers.local.regions.sizes import regions_for

if TYPE_CHECKING:
    from metricdp.problem.problem import Problem
    from metricdp.solve.contract import Context
    from metricdp.solve.executor import Workers
    from metricdp.solve.solvers.local.counts import LocalCounts

SEED = 0  # of the partitioners: the same regions in each run
SECONDS_PER_COMPARISON = 3e-9  # of the exact check: for each pair and stored weight of its two rows; measured


@register
class Local(WholeMethod):
    """First-order steps on windows, for problems in which thousands of records are outputs."""

    name: ClassVar[str] = "local"
    options_type: ClassVar[type] = LocalOptions
    is_checkpointed: ClassVar[bool] = True
    limits: ClassVar[tuple[str, ...]] = ("max_iterations",)
    n_regions: int = 1  # of the problem whose memory was checked

    @property
    def libraries(self) -> tuple[str, ...]:
        """Modules that make regions: all partitioners but one end with k-means."""
        is_plain = self.options.partition in (KD, "metis") or self.options.regions == 1
        return () if is_plain else ("sklearn.cluster",)

    def counts(self, problem: Problem, gap: float) -> LocalCounts:
        """Return the sizes of a solve, from a sample of windows."""
        return local_counts(local_problem(problem), gap=gap, options=self.options)

    def bytes_for(self, problem: Problem, gap: float) -> float:
        """Return the bytes of windows and table."""
        return self.counts(problem, gap).n_bytes

    def check_memory(self, problem: Problem, gap: float, workers: Workers) -> None:
        """Decide on the number of regions; refuse a problem whose windows would not fit, and say what would."""
        own = local_problem(problem)
        counts = local_counts(own, gap=gap, options=self.options)
        room = most_bytes(problem.memory_limit) - held_bytes()
        if can_be_divided(own):
            whole = Plan(own, gap, self.options, 1)
            self.n_regions = regions_for(whole, counts, workers, room)
            is_too_large = self.n_regions == 0
        else:
            self._refuse_regions(problem)
            is_too_large = counts.n_bytes > room
        if is_too_large:
            raise InputError(
                f"the method 'local' would need about {counts.n_bytes / GIGABYTE:.1f} GB for the windows of "
                f"{problem.n_records:,} records and {problem.n_outputs:,} outputs, which hold "
                f"{100 * counts.filled:.3g} % of all entries, more than the {room / GIGABYTE:.1f} GB that are left: a "
                "larger epsilon has smaller windows; or take fewer records or outputs"
            )

    def _refuse_regions(self, problem: Problem) -> None:
        if self.options.regions not in (None, 1):
            raise InputError(
                f"only problems with the metric's distance as loss, in up to {MAX_TREE_DIMENSION} coordinates, can be "
                f"divided into regions, and this one has the loss {problem.loss_name!r} and the metric "
                f"{problem.metric.name!r}: leave regions out, or take the loss 'distance'"
            )

    def prediction(self, problem: Problem, gap: float) -> str:
        """Return how much of all entries the windows hold, and what that costs."""
        return prediction(self.counts(problem, gap), problem.n_records, problem.n_outputs, gap)

    def seconds_of_check(self, problem: Problem, gap: float) -> float:
        """Return about how long the exact check will take, from the sizes of the windows."""
        per_row = self.counts(problem, gap).table_entries / problem.n_records
        return SECONDS_PER_COMPARISON * problem.graph.n_pairs * 2.0 * per_row

    def fingerprint(self, problem: Problem, gap: float) -> str:
        """Return what identifies a run: the problem, the gap, the regions and the options."""
        own = local_problem(problem)
        if not can_be_divided(own):
            raise InputError(
                f"the method 'local' writes checkpoints by regions, and a problem with the loss {problem.loss_name!r} "
                f"and the metric {problem.metric.name!r} cannot be divided: leave checkpoint out, or take the loss "
                "'distance'"
            )
        return plan_fingerprint(Plan(own, gap, self.options, self.n_regions), self.identity())

    def solve(self, problem: Problem, context: Context) -> FoundTable:
        """Return the best table on windows."""
        own, losses, options = local_problem(problem), problem.losses, self.options
        if self.alternative is not None:
            options = replace(options, max_iterations=min(options.max_iterations, self.alternative.steps))
        gap, stop, trace = context.gap, context.stop, context.trace
        if self.n_regions == 1 and context.checkpoint is None:
            return solve_windows(own, losses, gap=gap, stop=stop, trace=trace, options=options)
        plan = self._plan(own, context)
        return solve_regions(
            plan, losses, stop=stop, trace=trace, workers=context.workers, checkpoint=context.checkpoint
        )

    def _plan(self, own: LocalProblem, context: Context) -> Plan:
        """Return the regions: ranges of the outputs in kd order, or the blocks of a partitioner."""
        even = Plan(own, context.gap, self.options, self.n_regions)
        if self.options.partition == KD or self.n_regions == 1:
            return even
        division = context.division
        try:
            self.partition = division.partition(
                method=self.options.partition, n_blocks=self.n_regions, seed=SEED, separator="one-sided"
            )
        except StoppedError:
            return even  # no time is left for any regions
        block_of = self.partition.block_of[division.merged.group]
        return Plan.by_blocks(own, context.gap, self.options, block_of)


def local_problem(problem: Problem) -> LocalProblem:
    """Return a problem as the solver takes it; losses count as distances only if they are those of its own metric."""
    losses = problem.losses
    geometry = geometry_of(problem.records, problem.outputs, problem.metric)
    is_own = (
        type(losses) is DistanceLosses
        and losses.metric is problem.metric
        and losses.records is problem.records
        and losses.outputs is problem.outputs
    )
    prior = problem.records.prior
    return LocalProblem(
        geometry,
        problem.graph,
        problem.epsilon,
        prior,
        None if is_own else losses,
        output_rows=problem.outputs.rows,
    )
