"""The windowed solver: steps, looks at bound and loss, windows that grow, and a private table at the end.

A *look* completes the multipliers for the bound and repairs the rows for the loss. It costs as much as a hundred steps
or more, so the next one is made when the gap should be reached: the gap falls like a power of the steps, and the power
follows from the looks so far.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import StoppedError
from metricdp.mechanism.expected import expected_loss
from metricdp.mechanism.mechanism import relative_gap
from metricdp.problem.loss_space import mean_losses
from metricdp.problem.memory_model import held_bytes
from metricdp.solve.contract import Ended, FoundTable
from metricdp.solve.solvers.local.bounds import bound_of, certified_bound, node_bounds
from metricdp.solve.solvers.local.complete import complete, kernel_prices
from metricdp.solve.solvers.local.counts import FALL, REPAIR_SECONDS, expected_steps, table_reach_for
from metricdp.solve.solvers.local.grow import GROWTH, radius_by_prices, take_over, too_small
from metricdp.solve.solvers.local.integers import one_output, whole_table
from metricdp.solve.solvers.local.iterate import Iteration
from metricdp.solve.solvers.local.network import network_of
from metricdp.solve.solvers.local.options import LocalOptions
from metricdp.solve.solvers.local.problem import nodes_within
from metricdp.solve.solvers.local.repair import SHARED_ROW, Repair
from metricdp.solve.solvers.local.windows import radius_for

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.mechanism.sparse import SparseTable
    from metricdp.solve.result import Trace
    from metricdp.solve.solvers.local.network import Network
    from metricdp.solve.solvers.local.problem import LocalProblem, Nodes
    from metricdp.solve.stop import Stop

SWEEPS = 3  # of a completion for the bound
STEPS_PER_CLOCK = 5
FALLS = (0.4, 1.3)
FEWEST_STEPS = 40
NEXT_LOOK = (1.08, 2.5)  # times the steps of the look before, at least and at most
BEYOND = 1.05  # times the steps that the forecast asks for
MOST_GROWTHS = 8
FIRST_MEASURED = 25  # steps, and after twice as many each time: whether windows are large enough
MOST_STUCK = 3  # looks in a row without progress
STUCK = 0.2  # a power with which the gap must fall at least
GROWN_SHARE = 0.002  # of the nodes: fewer are not worth new windows
LAST_REPAIR = 1.3  # times what the last one took must be left, or there may be no other


def solve_windows(
    problem: LocalProblem, *, gap: float, stop: Stop, trace: Trace, options: LocalOptions | None = None
) -> FoundTable:
    """Return a private sparse table whose loss is within ``gap`` of a bound for the full problem, if time allows."""
    run = _Run(problem, gap, stop, trace, LocalOptions() if options is None else options)
    ended = Ended.STOPPED
    try:
        ended = run.solve()
    except StoppedError:
        run.insure()
    return FoundTable(run.table, run.loss, run.bound, run.steps, ended)


class _Run:
    """One run: the best table, the best bound, and when to look next."""

    def __init__(self, problem: LocalProblem, gap: float, stop: Stop, trace: Trace, options: LocalOptions) -> None:
        self.problem, self.gap, self.stop, self.trace, self.options = problem, gap, stop, trace, options
        self.table = one_output(problem, mean_losses(problem.losses, problem.prior))
        self.loss = self._loss_of(self.table)
        self.bound = 0.0
        self.steps = 0
        self.looks: list[tuple[int, float]] = []
        self.growths = 0
        self.stuck_for = 0  # looks in a row
        self.measured_at = FIRST_MEASURED  # steps
        self._repair: Repair | None = None
        self._repair_seconds = self._completion_seconds = 0.0
        self._iteration: Iteration | None = None

    def _is_over(self) -> bool:
        return self.stop.is_due

    def solve(self) -> Ended:
        """Step and look until the gap is reached or there is no time."""
        self.stop.check()
        iteration = self._begin()
        due = self._first_look()
        while True:
            iteration = self._look(self._advance(iteration, due))
            if relative_gap(self.loss, self.bound) <= self.gap:
                return Ended.REACHED
            if iteration.steps >= self.options.max_iterations:
                return Ended.USED_UP
            if not self._has_time():
                return Ended.STOPPED
            if self._is_stuck and self.stuck_for > MOST_STUCK:
                return Ended.STALLED
            due = self._next_look()

    def _begin(self) -> Iteration:
        """Make windows, and multipliers from prices."""
        nodes = nodes_within(self.problem, 0.0)
        radius = radius_for(nodes, self.options.reach_for(self.gap))
        self.stop.check()
        iteration = Iteration(self._network(nodes, radius))
        self.stop.check()
        prices = kernel_prices(iteration)
        self.stop.check()
        wider = radius_by_prices(iteration, prices)
        if (wider > radius).sum() > GROWN_SHARE * nodes.n:
            iteration = Iteration(self._network(nodes, wider))
            prices = kernel_prices(iteration)
        self._iteration = iteration
        net = iteration.network
        reach = table_reach_for(self.problem, self.gap, self.options)
        slots = min(
            net.windows.n_slots * (reach / self.options.reach_for(self.gap)) ** 2, nodes.n * net.windows.n_groups
        )
        self._repair_seconds = REPAIR_SECONDS * slots * (2.0 * nodes.graph.n_pairs / nodes.n + 1.0)
        begin = time.perf_counter()
        complete(net, iteration.Y, prices, sweeps=1, is_large=iteration.is_large, is_over=self._is_over)
        self._completion_seconds = SWEEPS * (time.perf_counter() - begin)
        iteration.take_multipliers()
        self.bound = certified_bound(iteration)[0]  # where neighbours are far apart it takes many steps to be better
        self.trace.add(
            stage="windows",
            nodes=nodes.n,
            pairs=nodes.graph.n_pairs,
            edges=net.m,
            entries=net.windows.n_slots * 8,
            multipliers=net.edges.n * 8,
            lower_bound=self.bound,
            bytes=held_bytes(),
        )
        return iteration

    def _network(self, nodes: Nodes, radius: NDArray[np.float64]) -> Network:
        return network_of(nodes, radius, self.options.stretch_for(self.gap), is_over=self._is_over)

    def _first_look(self) -> int:
        return max(FEWEST_STEPS, int(expected_steps(self.gap)))

    def _next_look(self) -> int:
        """Return when the gap should be reached, from how it fell between the last two looks."""
        steps, gap = self.looks[-1]
        fall = FALL
        if len(self.looks) > 1:
            fall = min(max(self._fall(), FALLS[0]), FALLS[1])
        wanted = steps * BEYOND * (gap / max(self.gap, 1e-9)) ** (1.0 / fall)
        return int(min(max(wanted, NEXT_LOOK[0] * steps), NEXT_LOOK[1] * steps))

    def _fall(self) -> float:
        """Return the power of the steps with which the gap fell between the last two looks."""
        (before, wider), (steps, gap) = self.looks[-2:]
        return math.log(max(wider, 1e-12) / max(gap, 1e-12)) / math.log(max(steps, before + 1) / before)

    @property
    def _is_stuck(self) -> bool:
        return len(self.looks) > 1 and self._fall() < STUCK

    def _has_time(self) -> bool:
        return self.stop.seconds_left > LAST_REPAIR * self._repair_seconds

    def _advance(self, iteration: Iteration, due: int) -> Iteration:
        """Step until the next look; see early whether windows are large enough."""
        due = min(due, self.options.max_iterations)
        while iteration.steps < due:
            iteration.advance()
            if iteration.steps >= self.measured_at:
                self.measured_at = 2 * iteration.steps
                iteration = self._grown(iteration, iteration.mean_prices())
            if iteration.steps % STEPS_PER_CLOCK == 0 and not self._has_time():
                break
        self.steps = iteration.steps
        return iteration

    def _look(self, iteration: Iteration) -> Iteration:
        """Bound from below, repair, report; return the iteration to go on with, on larger windows if need be."""
        begin = time.perf_counter()
        plain, least = certified_bound(iteration)
        prices = iteration.mean_prices()
        self.bound = max(self.bound, plain)
        # a better bound must not cost the table: a repair that is cut off leaves nothing
        if self.stop.seconds_left > LAST_REPAIR * self._repair_seconds + self._completion_seconds:
            self.bound = max(self.bound, self._completed(iteration, 0.5 * (least + prices)))
        between = time.perf_counter()
        self.repair(iteration)
        self._repair_seconds = time.perf_counter() - between
        gap = relative_gap(self.loss, self.bound)
        self.looks.append((max(iteration.steps, 1), gap))
        self.stuck_for = self.stuck_for + 1 if self._is_stuck else 0
        self.trace.add(
            stage="local",
            iteration=iteration.steps,
            lower_bound=self.bound,
            upper_bound=self.loss,
            gap=gap,
            raw_loss=iteration.raw_loss(),
            stored=self.table.n_stored,
            bound_seconds=round(between - begin, 3),
            repair_seconds=round(self._repair_seconds, 3),
            bytes=held_bytes(),
        )
        return self._grown(iteration, prices) if gap > self.gap and self._has_time() else iteration

    def _completed(self, iteration: Iteration, prices: NDArray[np.float64]) -> float:
        """Return the bound of completed multipliers; the anchors' memory holds them, so a new epoch begins."""
        np.copyto(iteration.Y0, iteration.Y)
        complete(iteration.network, iteration.Y0, prices, sweeps=SWEEPS, is_large=iteration.is_large)
        least = node_bounds(iteration.network, iteration.Y0, is_large=iteration.is_large)
        iteration.begin_epoch()
        return bound_of(iteration.network, least)

    def repair(self, iteration: Iteration) -> None:
        """Make the rows private, and keep them if they are the best."""
        if self._repair is None:
            nodes: Nodes = nodes_within(self.problem, SHARED_ROW)
            reach = table_reach_for(self.problem, self.gap, self.options)
            self._repair = Repair(self.problem, nodes, reach, gap=self.gap, is_over=self._is_over)
        network = iteration.network
        closed = self._repair.run(iteration.Z, network.windows, network.nodes)
        table = whole_table(closed, self._repair)
        loss = self._loss_of(table)
        self.trace.add(stage="repair", kappa=closed.kappa, rounds=closed.rounds, loss=loss)
        if loss < self.loss:
            self.table, self.loss = table, loss

    def _loss_of(self, table: SparseTable) -> float:
        return expected_loss(table, self.problem.losses, self.problem.prior)

    def insure(self) -> None:
        """Take the bound of what there is when time is out."""
        if self._iteration is not None and self.bound == 0.0 and self.stop.seconds_to_the_end > 0.0:
            self.bound = certified_bound(self._iteration)[0]

    def _grown(self, iteration: Iteration, prices: NDArray[np.float64]) -> Iteration:
        """Return the iteration on larger windows, if enough nodes need them."""
        net = iteration.network
        small = too_small(iteration, prices)
        if self._is_stuck:
            # steps no longer help: what is missing lies outside of the windows
            small = np.isfinite(net.costs.outside)
        if self.growths >= MOST_GROWTHS or small.sum() <= GROWN_SHARE * net.nodes.n:
            return iteration
        self.growths += 1
        radius = np.where(small, GROWTH * net.radius, net.radius)
        larger = Iteration(self._network(net.nodes, radius))
        take_over(iteration, larger)
        self._iteration = larger
        self.trace.add(stage="grown", nodes=int(small.sum()), entries=larger.network.windows.n_slots * 8)
        return larger
