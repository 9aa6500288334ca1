"""The windowed solver: steps, looks at bound and loss, windows that grow, and a private table at the end.

A *look* completes the multipliers for the bound and repairs the rows for the loss.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import StoppedError
from metricdp.mechanism.expected import expected_loss
from metricdp.mechanism.mechanism import relative_gap
from metricdp.metric.simd import WIDTH
from metricdp.problem.loss_space import one_good_output
from metricdp.problem.memory_model import held_bytes
from metricdp.solve.contract import Ended, FoundTable
from metricdp.solve.solvers.local.bounds import bound_of, certified_bound, node_bounds
from metricdp.solve.solvers.local.complete import complete, kernel_prices
from metricdp.solve.solvers.local.counts import (
    REPAIR_SECONDS,
    TABLE_BYTES_PER_ENTRY,
    reach_beyond,
    slots_within,
    table_reach_for,
)
from metricdp.solve.solvers.local.grow import GROWTH, radius_by_prices, take_over, too_small, without_holes
from metricdp.solve.solvers.local.integers import one_output, whole_table
from metricdp.solve.solvers.local.iterate import Iteration
from metricdp.solve.solvers.local.network import network_of
from metricdp.solve.solvers.local.options import LocalOptions
from metricdp.solve.solvers.local.problem import nodes_within
from metricdp.solve.solvers.local.repair import SHARED_ROW, Balance, Closed, Columns, put_together
from metricdp.solve.solvers.local.room import bytes_to_grow, refusal
from metricdp.solve.solvers.local.schedule import Schedule
from metricdp.solve.solvers.local.windows import radius_for

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.mechanism.sparse import SparseTable
    from metricdp.problem.losses import Losses
    from metricdp.solve.result import Trace
    from metricdp.solve.solvers.local.network import Network
    from metricdp.solve.solvers.local.problem import LocalProblem, Nodes
    from metricdp.solve.stop import Stop

SWEEPS = 3  # of a completion for the bound
STEPS_PER_CLOCK = 5
SECONDS_PER_NOTE = 5.0  # between rows of the trace while no look is due
MOST_GROWTHS = 8
FIRST_MEASURED = 25  # steps, and after twice as many each time: whether windows are large enough
GROWN_SHARE = 0.002  # of the nodes: fewer are not worth new windows
LAST_REPAIR = 1.3  # times what the last one took must be left, or there may be no other
MARGIN_SECONDS = 0.25  # and so much more: short repairs are never equally long


def solve_windows(
    problem: LocalProblem, losses: Losses, *, gap: float, stop: Stop, trace: Trace, options: LocalOptions | None = None
) -> FoundTable:
    """Return a private sparse table whose loss is within ``gap`` of a bound for the full problem, if time allows."""
    run = _Run(problem, losses, gap, stop, trace, LocalOptions() if options is None else options)
    ended = Ended.STOPPED
    try:
        ended = run.solve()
    except StoppedError:
        run.insure()
    return FoundTable(run.table, run.loss, run.bound, run.steps, ended)


class _Run:
    """One run: the best table, the best bound, and when to look next."""

    def __init__(  # noqa: PLR0917
        self,
        problem: LocalProblem,
        losses: Losses,
        gap: float,
        stop: Stop,
        trace: Trace,
        options: LocalOptions,
    ) -> None:
        self.problem, self.losses, self.gap, self.stop, self.trace = problem, losses, gap, stop, trace
        self.options = options
        self.table = one_output(losses.shape, one_good_output(losses, problem.prior))
        self.loss = self._loss_of(self.table)
        self.bound = 0.0
        self.steps = 0
        self.schedule = Schedule(gap)
        self.growths = 0
        self.measured_at = FIRST_MEASURED  # steps
        self._noted_at = time.perf_counter()
        self._columns: Columns | None = None
        self._beyond = 0.0  # of the table's windows beyond the usual, in units of 1 / epsilon
        self._is_refused = False  # whether windows wanted to grow and there was no memory
        self._repair_seconds = self._completion_seconds = 0.0
        self._iteration: Iteration | None = None

    def _is_over(self) -> bool:
        return self.stop.is_due

    def _is_over_if_noted(self) -> bool:
        self._note(self.steps, self.schedule.next)
        return self.stop.is_due

    def _is_full(self, network: Network) -> bool:
        """Return whether windows hold all entries, so that none can grow."""
        return network.windows.n_slots >= network.nodes.n * math.ceil(self.losses.shape[1] / WIDTH)

    def solve(self) -> Ended:
        """Step and look until the gap is reached or there is no time."""
        self.stop.check()
        iteration = self._begin()
        while True:
            iteration = self._look(self._advance(iteration, self.schedule.next))
            if relative_gap(self.loss, self.bound) <= self.gap:
                return Ended.REACHED
            if iteration.steps >= self.options.max_iterations:
                return Ended.USED_UP
            if not self._has_time():
                return Ended.STOPPED
            if self.schedule.is_hopeless:
                return Ended.USED_UP if self._is_refused else Ended.STALLED

    def _begin(self) -> Iteration:
        """Make windows, and multipliers from prices."""
        nodes = nodes_within(self.problem, 0.0)
        radius = radius_for(nodes, self.options.reach_for(self.gap))
        self.stop.check()
        iteration = Iteration(self._network(nodes, radius))
        self._say_windows(iteration.network)
        self.stop.check()
        self._note(0, self.schedule.next)
        prices = kernel_prices(iteration)
        self.stop.check()
        wider = radius_by_prices(iteration, prices, self.gap)
        if (wider > radius).sum() > GROWN_SHARE * nodes.n and not self._is_full(iteration.network):
            wider = without_holes(nodes, wider)
            if self._has_room(iteration.network, wider):
                iteration = Iteration(self._network(nodes, wider))
                self._say_windows(iteration.network)
                prices = kernel_prices(iteration)
        self._iteration = iteration
        net = iteration.network
        slots = slots_within(net.nodes, self._table_radius(net.nodes))
        self._repair_seconds = REPAIR_SECONDS * slots * (2.0 * nodes.graph.n_pairs / nodes.n + 1.0) * self.stop.slowness
        begin = time.perf_counter()
        complete(net, iteration.Y, prices, sweeps=1, is_large=iteration.is_large, is_over=self._is_over_if_noted)
        self._completion_seconds = SWEEPS * (time.perf_counter() - begin)
        iteration.take_multipliers()
        self._note(0, self.schedule.next)
        self.bound = certified_bound(iteration)[0]  # where neighbours are far apart it takes many steps to be better
        self._say_windows(net, lower_bound=self.bound)
        return iteration

    def _say_windows(self, net: Network, **found: float) -> None:
        """Say how large the windows are: the first multipliers, and with them a bound, may take long."""
        self.trace.add(
            stage="windows",
            nodes=net.nodes.n,
            pairs=net.nodes.graph.n_pairs,
            edges=net.m,
            entries=net.windows.n_slots * WIDTH,
            multipliers=net.edges.n * WIDTH,
            bytes=held_bytes(),
            **found,
        )

    def _network(self, nodes: Nodes, radius: NDArray[np.float64]) -> Network:
        self._note(self.steps, self.schedule.next)
        return network_of(nodes, radius, self.options.stretch_for(self.gap), is_over=self._is_over_if_noted)

    def _has_time(self) -> bool:
        return self.stop.seconds_left > LAST_REPAIR * self._repair_seconds + MARGIN_SECONDS

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
            self._note(iteration.steps, due)
        self.steps = iteration.steps
        return iteration

    def _note(self, steps: int, due: int) -> None:
        """Say that steps are taken, now and then: the first look may come late."""
        now = time.perf_counter()
        if now >= self._noted_at + SECONDS_PER_NOTE:
            self._noted_at = now
            self.trace.add(stage="steps", iteration=steps, due=due, lower_bound=self.bound)

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
        self.schedule.add(iteration.steps, gap)
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
            seconds_left=self.schedule.seconds_left(time.perf_counter() - self.trace.begin),
            bytes=held_bytes(),
        )
        return self._grown(iteration, prices) if gap > self.gap and self._has_time() else iteration

    def _completed(self, iteration: Iteration, prices: NDArray[np.float64]) -> float:
        """Return the bound of completed multipliers; the anchors' memory holds them, so a new epoch begins."""
        np.copyto(iteration.Y0, iteration.Y)
        complete(iteration.network, iteration.Y0, prices, sweeps=SWEEPS, is_large=iteration.is_large)
        least = node_bounds(iteration.network, iteration.Y0, is_large=iteration.is_large)
        iteration.begin_epoch()
        costs = iteration.network.costs
        return bound_of(least, costs.base, costs.unit)

    def repair(self, iteration: Iteration) -> None:
        """Make the rows private, once more where the background asks for larger windows of the table."""
        background = self._repair_once(iteration)
        more = reach_beyond(self.problem, self.gap, self.options, background)
        if more > 0.0 and self._columns is not None:
            nodes = self._columns.nodes
            entries = WIDTH * slots_within(nodes, self._table_radius(nodes) + more / self.problem.epsilon)
            if self._is_granted(TABLE_BYTES_PER_ENTRY * entries):
                self._beyond, self._columns = self._beyond + more, None
                self._repair_once(iteration)

    def _repair_once(self, iteration: Iteration) -> float:
        """Make the rows private, and keep them if they are the best; return what the background holds of a row."""
        if self._columns is None:
            nodes: Nodes = nodes_within(self.problem, SHARED_ROW)
            self._columns = Columns.of(nodes, self._table_radius(nodes), is_over=self._is_over)
        closed = self._closed(iteration, self._columns)
        table = whole_table(closed, self._columns)
        loss, background = self._loss_of(table), float(closed.background.sum())
        self.trace.add(stage="repair", kappa=closed.kappa, rounds=closed.rounds, background=background, loss=loss)
        if loss < self.loss:
            self.table, self.loss = table, loss
        return background

    def _table_radius(self, nodes: Nodes) -> NDArray[np.float64]:
        return radius_for(nodes, table_reach_for(self.problem, self.gap, self.options) + self._beyond)

    def _has_room(self, network: Network, radius: NDArray[np.float64]) -> bool:
        """Return whether there is memory for windows of these radii, and for the repair that follows."""
        nodes = network.nodes
        table = WIDTH * slots_within(nodes, self._table_radius(nodes))
        return self._is_granted(bytes_to_grow(network, radius, table, has_table=self._columns is not None))

    def _is_granted(self, more: float) -> bool:
        if self.stop.has_room(more):
            return True
        if not self._is_refused:
            self._is_refused = True
            self.trace.add(stage="trouble", trouble=refusal(more, self.stop.room))
        return False

    def _closed(self, iteration: Iteration, columns: Columns) -> Closed:
        """Return private columns near the rows of the steps."""
        network = iteration.network
        H = columns.of_rows(
            iteration.Z,
            network.windows.group_start,
            network.windows.member,
            *put_together(network.nodes, columns.nodes),
        )
        b = np.zeros(0)

        def close(divisor: NDArray[np.float64] | None, kappa: float, *, is_new: bool) -> NDArray[np.float64]:
            nonlocal b
            if divisor is not None:
                columns.divide(H, divisor)
            if is_new:
                b = columns.background_of(H, kappa)
            return b.sum() + columns.close(H, b, kappa)

        sums, kappa, rounds = Balance.of(columns.nodes, self.gap).reached_by(close)
        return Closed(H, b, sums, kappa, rounds)

    def _loss_of(self, table: SparseTable) -> float:
        return expected_loss(table, self.losses, self.problem.prior)

    def insure(self) -> None:
        """Take the bound of what there is when time is out."""
        if self._iteration is not None and self.bound == 0.0 and self.stop.seconds_to_the_end > 0.0:
            self.bound = certified_bound(self._iteration)[0]

    def _grown(self, iteration: Iteration, prices: NDArray[np.float64]) -> Iteration:
        """Return the iteration on larger windows, if enough nodes need them."""
        net = iteration.network
        small = too_small(iteration, prices, self.gap)
        if self.schedule.is_stuck:
            # steps no longer help: what is missing lies outside of the windows
            small = np.isfinite(net.costs.outside)
        is_enough = small.sum() <= GROWN_SHARE * net.nodes.n or self._is_full(net)
        if self._is_refused or self.growths >= MOST_GROWTHS or is_enough:
            return iteration
        radius = without_holes(net.nodes, np.where(small, GROWTH * net.radius, net.radius))
        if not self._has_room(net, radius):
            return iteration
        self.growths += 1
        larger = Iteration(self._network(net.nodes, radius), iteration.product)
        take_over(iteration, larger)
        self._iteration = larger
        self.trace.add(stage="grown", nodes=int(small.sum()), entries=larger.network.windows.n_slots * WIDTH)
        return larger
