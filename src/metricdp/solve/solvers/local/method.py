"""The method ``local``: first-order steps on a window around each output, and a sparse table over a background."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from metricdp.errors import InputError
from metricdp.problem.losses import DistanceLosses
from metricdp.problem.memory_model import GIGABYTE, held_bytes, most_bytes
from metricdp.solve.contract import FoundTable, WholeMethod, register
from metricdp.solve.solvers.local.counts import local_counts, prediction
from metricdp.solve.solvers.local.loop import solve_windows
from metricdp.solve.solvers.local.options import LocalOptions
from metricdp.solve.solvers.local.problem import LocalProblem

if TYPE_CHECKING:
    from metricdp.problem.problem import Problem
    from metricdp.solve.result import Trace
    from metricdp.solve.solvers.local.counts import LocalCounts
    from metricdp.solve.stop import Stop

SECONDS_PER_COMPARISON = 3e-9  # of the exact check: for each pair and stored weight of its two rows; measured


@register
class Local(WholeMethod):
    """First-order steps on windows, for problems in which thousands of records are outputs."""

    name: ClassVar[str] = "local"
    options_type: ClassVar[type] = LocalOptions
    limits: ClassVar[tuple[str, ...]] = ("max_iterations",)

    def counts(self, problem: Problem, gap: float) -> LocalCounts:
        """Return the sizes of a solve, from a sample of windows."""
        return local_counts(local_problem(problem), gap=gap, options=self.options)

    def bytes_for(self, problem: Problem, gap: float) -> float:
        """Return the bytes of windows and table."""
        return self.counts(problem, gap).n_bytes

    def check_memory(self, problem: Problem, gap: float) -> None:
        """Refuse a problem whose windows would not fit, and say what would."""
        counts, room = self.counts(problem, gap), most_bytes(problem.memory_limit) - held_bytes()
        if counts.n_bytes > room:
            raise InputError(
                f"the method 'local' would need about {counts.n_bytes / GIGABYTE:.1f} GB for the windows of "
                f"{problem.n_records:,} records and {problem.n_outputs:,} outputs, which hold "
                f"{100 * counts.filled:.2g} % of all entries, more than the {room / GIGABYTE:.1f} GB that are left: a "
                "larger epsilon has smaller windows; or take fewer records or outputs"
            )

    def prediction(self, problem: Problem, gap: float) -> str:
        """Return how much of all entries the windows hold, and what that costs."""
        return prediction(self.counts(problem, gap), problem.n_records, problem.n_outputs, gap)

    def seconds_of_check(self, problem: Problem, gap: float) -> float:
        """Return about how long the exact check will take, from the sizes of the windows."""
        per_row = self.counts(problem, gap).table_entries / problem.n_records
        return SECONDS_PER_COMPARISON * problem.graph.n_pairs * 2.0 * per_row

    def solve(self, problem: Problem, gap: float, stop: Stop, trace: Trace) -> FoundTable:
        """Return the best table on windows."""
        return solve_windows(local_problem(problem), gap=gap, stop=stop, trace=trace, options=self.options)


def local_problem(problem: Problem) -> LocalProblem:
    """Return a problem as the solver takes it; losses count as distances only if they are those of its own metric."""
    losses = problem.losses
    is_own = (
        type(losses) is DistanceLosses
        and losses.metric is problem.metric
        and losses.records is problem.records
        and losses.outputs is problem.outputs
    )
    if losses.name == "distance" and not is_own:
        losses = losses.named("given")
    prior = problem.records.prior
    return LocalProblem(problem.records, problem.outputs, problem.metric, problem.graph, problem.epsilon, losses, prior)
