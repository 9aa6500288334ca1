"""A solve by regions: steps where the columns are, and what must be known of all of them here.

What travels: each region's part of the problem once; N prices and as many least reduced costs for a bound; row sums in
each round of a repair; and at the end the columns, region by region, into the table.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.errors import InputError, StoppedError
from metricdp.mechanism.expected import expected_loss
from metricdp.mechanism.mechanism import relative_gap
from metricdp.metric.simd import WIDTH
from metricdp.problem.loss_space import one_good_output
from metricdp.problem.memory_model import held_bytes
from metricdp.solve.contract import Ended, FoundTable
from metricdp.solve.solvers.local.bounds import bound_of
from metricdp.solve.solvers.local.close import GRAIN
from metricdp.solve.solvers.local.costs import distance_base, distance_outside
from metricdp.solve.solvers.local.counts import REPAIR_SECONDS, reach_beyond
from metricdp.solve.solvers.local.grow import GROWTH, without_holes
from metricdp.solve.solvers.local.integers import Scales, one_output
from metricdp.solve.solvers.local.loop import GROWN_SHARE, LAST_REPAIR, MOST_GROWTHS
from metricdp.solve.solvers.local.regions import work
from metricdp.solve.solvers.local.regions.accept import Accepted
from metricdp.solve.solvers.local.regions.assemble import assembled
from metricdp.solve.solvers.local.regions.hold import InFiles
from metricdp.solve.solvers.local.regions.kept import save_regions, saved_regions
from metricdp.solve.solvers.local.regions.on_dask import OnDask
from metricdp.solve.solvers.local.regions.sizes import bytes_grown, room_of_region, table_bytes
from metricdp.solve.solvers.local.repair import Balance
from metricdp.solve.solvers.local.room import refusal
from metricdp.solve.solvers.local.schedule import NEXT_LOOK, Schedule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from metricdp.mechanism.sparse import SparseTable
    from metricdp.problem.losses import Losses
    from metricdp.solve.checkpoint import Checkpoint
    from metricdp.solve.executor import Workers
    from metricdp.solve.result import Trace
    from metricdp.solve.solvers.local.regions.hold import Held
    from metricdp.solve.solvers.local.regions.plan import Plan
    from metricdp.solve.stop import Stop

TINY = 1e-300
MARGIN_SECONDS = 1.0  # for each wave: messages and files of the rounds of a repair
STEPS, TABLE, ROWS, PIECE = "steps", "table", "rows", "piece"  # names of states
# what people see of the work that goes on
WORDS = {
    "start": "windows",
    "advance": "steps",
    "open_table": "table",
    "spread": "table",
    "close": "closure",
    "whole": "whole numbers",
    "plain": "checkpoint",
}


def solve_regions(
    plan: Plan,
    losses: Losses,
    *,
    stop: Stop,
    trace: Trace,
    workers: Workers,
    checkpoint: Checkpoint | None = None,
) -> FoundTable:
    """Return a private sparse table whose loss is within the plan's gap of a bound for the full problem, if possible.

    Regions are solved on workers, or one after the other in this process; the table is the same.
    """
    run = _Run(plan, losses, stop, trace, workers, checkpoint)
    ended = Ended.STOPPED
    try:
        with _held(plan.n_regions, stop, workers, trace) as held:
            ended = run.solve(held)
    except StoppedError:
        pass
    return FoundTable(run.table, run.loss, run.bound, run.steps, ended)


@contextmanager
def _held(n_regions: int, stop: Stop, workers: Workers, trace: Trace) -> Iterator[Held]:
    """Yield where states are kept: on the cluster, or in a folder that goes at the end."""

    def said(what: str, done: int) -> None:
        trace.add(stage="regions", what=WORDS.get(what, what), done=done, regions=n_regions)

    if workers.client is not None:
        yield OnDask(n_regions, stop, workers.client, said)
        return
    with tempfile.TemporaryDirectory(prefix="metricdp-", ignore_cleanup_errors=True) as folder:
        held = InFiles(n_regions, stop, workers, Path(folder), said)
        try:
            yield held
        finally:
            held.close()


class _Run:
    """One run: the best table, the best bound, and when to look next."""

    def __init__(  # noqa: PLR0917
        self,
        plan: Plan,
        losses: Losses,
        stop: Stop,
        trace: Trace,
        workers: Workers,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self.plan, self.losses, self.stop, self.trace, self.checkpoint = plan, losses, stop, trace, checkpoint
        self.workers = workers
        self.problem, self.gap, self.options = plan.problem, plan.gap, plan.options
        self.table = one_output(losses.shape, one_good_output(losses, self.problem.prior))
        self.loss = expected_loss(self.table, losses, self.problem.prior)
        self.bound = 0.0
        self.steps = 0
        self.schedule = Schedule(self.gap)
        self.growths = 0
        self._sizes: list[tuple[int, int]] = []  # entries and multipliers of each region
        self._is_refused = False  # whether windows wanted to grow and there was no memory
        self._has_tables = False
        self._repair_seconds = 0.0

    def solve(self, held: Held) -> Ended:
        """Step and look until the gap is reached or there is no time."""
        self.stop.check()
        self._begin(held)
        while True:
            due = max(self.schedule.next, int(NEXT_LOOK[0] * self.steps))
            is_small = self._advance(held, min(due, self.options.max_iterations))
            if self.checkpoint is not None:
                save_regions(self.checkpoint, held, self.plan, (self.bound, self.loss))
            self._repair(held)
            gap = relative_gap(self.loss, self.bound)
            self.schedule.add(self.steps, gap)
            self._tell(held, gap)
            if gap <= self.gap:
                return Ended.REACHED
            if self.steps >= self.options.max_iterations:
                return Ended.USED_UP
            if self.stop.seconds_left < LAST_REPAIR * self._repair_seconds:
                return Ended.STOPPED
            if self.schedule.is_hopeless:
                return Ended.USED_UP if self._is_refused else Ended.STALLED
            self._grow(held, is_small)

    @property
    def _accept(self) -> Accepted:
        return Accepted(self.plan)

    def _tell(self, held: Held, gap: float) -> None:
        self.trace.add(
            stage="local",
            iteration=self.steps,
            lower_bound=self.bound,
            upper_bound=self.loss,
            gap=gap,
            regions=self.plan.n_regions,
            stored=self.table.n_stored,
            bytes_moved=held.bytes_moved,
            lost=held.n_lost,
            seconds_left=self.schedule.seconds_left(time.perf_counter() - self.trace.begin),
            bytes=held_bytes(),
        )

    def _begin(self, held: Held) -> None:
        """Make windows, larger ones where the first prices ask for them."""
        saved: list[dict[str, Any] | None] = [None] * self.plan.n_regions
        if self.checkpoint is not None:
            self.plan, saved = saved_regions(self.checkpoint, self.plan)
        self.steps = min((one["steps"] for one in saved if one is not None), default=0)
        answers = self._started(held, saved)
        wider = self.plan.radius.copy()
        for part, answer in zip(self.plan.owned, answers, strict=True):
            wider[part] = np.maximum(wider[part], answer["radius"])
        if not self.steps and (wider > self.plan.radius).sum() > GROWN_SHARE * self.plan.nodes.n:
            wider = without_holes(self.plan.nodes, wider)
            if self._has_room(wider):
                self.plan = self.plan.with_radius(wider)
                answers = self._started(held, [None] * self.plan.n_regions)
        entries = sum(answer["entries"] for answer in answers)
        nodes, wider_by = self.plan.nodes, self.plan.table_radius.mean() / max(self.plan.radius.mean(), TINY)
        neighbours = 2.0 * nodes.graph.n_pairs / nodes.n + 1.0
        at_once = max(1.0, self.plan.n_regions / held.n_waves)
        self._repair_seconds = REPAIR_SECONDS * entries / WIDTH * wider_by**2 * neighbours / at_once
        self.trace.add(
            stage="windows",
            regions=self.plan.n_regions,
            nodes=self.plan.nodes.n,
            pairs=self.plan.nodes.graph.n_pairs,
            entries=entries,
            multipliers=sum(answer["multipliers"] for answer in answers),
            bytes=held_bytes(),
        )

    def _started(self, held: Held, saved: list[dict[str, Any] | None]) -> list[dict[str, Any]]:
        plan = self.plan

        def message(region: int) -> Any:
            return plan.step_part(region), saved[region]

        answers = held.ask(work.start, message, self._accept.start, writes=STEPS)
        self._sizes = [(answer["entries"], answer["multipliers"]) for answer in answers]
        return answers

    def _has_room(self, radius: NDArray[np.float64]) -> bool:
        """Return whether there is memory for windows of these radii where regions are worked on."""
        return self._is_granted(bytes_grown(self.plan, radius, self._sizes))

    def _is_granted(self, needed: float) -> bool:
        room = room_of_region(self.workers, self.stop.room)
        if needed <= room:
            return True
        if not self._is_refused:
            self._is_refused = True
            self.trace.add(stage="trouble", trouble=refusal(needed, room))
        return False

    def _advance(self, held: Held, due: int) -> NDArray[np.bool_]:
        """Step, and bound from below; return which nodes' windows are too small."""
        # a repair that is cut off leaves nothing
        left = self.stop.seconds_left - LAST_REPAIR * self._repair_seconds - MARGIN_SECONDS * held.n_waves
        message = due, max(0.0, left) / held.n_waves
        answers = held.ask(work.advance, lambda _: message, self._accept.advance, reads=[STEPS], writes=STEPS)
        self.steps = min(answer["steps"] for answer in answers)
        n = self.plan.nodes.n
        prices, is_small = np.empty(n), np.zeros(n, dtype=bool)
        for part, answer in zip(self.plan.owned, answers, strict=True):
            prices[part], is_small[part] = answer["prices"], answer["is_small"]
        seen = self.plan.seen
        answers = held.ask(work.bound, lambda region: prices[seen[region]], self._accept.bound, reads=[STEPS])
        inside, slots = np.full(n, np.inf), np.zeros(n, dtype=np.int64)
        for who, answer in zip(seen, answers, strict=True):
            inside[who] = np.minimum(inside[who], answer["least"])
            slots[who] += answer["slots"]
        covers_all = slots == self.plan.n_groups
        nearest = self.plan.nearest
        outside = distance_outside(self.plan.nodes, np.where(covers_all, 0.0, self.plan.radius), nearest)
        unit, base = distance_base(self.plan.nodes, nearest)
        least = np.minimum(inside, np.where(covers_all, np.inf, outside))
        self.bound = max(self.bound, bound_of(least, base, unit))
        return is_small

    def _repair(self, held: Held) -> None:
        """Make the rows private, once more where the background asks for larger windows of the table."""
        begin = time.perf_counter()
        more = reach_beyond(self.problem, self.gap, self.options, self._repair_once(held))
        if more > 0.0:
            wider = self.plan.reaching(self.plan.beyond + more)
            if self._is_granted(table_bytes(wider)):
                self.plan, self._has_tables = wider, False
                self._repair_once(held)
        self._repair_seconds = time.perf_counter() - begin

    def _repair_once(self, held: Held) -> float:
        """Make the rows private, and keep them if they are the best; return what the background holds of a row."""
        nodes = self.plan.table_nodes
        if not self._has_tables:
            held.ask(work.open_table, self.plan.table_part, self._accept.anything, writes=TABLE)
            self._has_tables = True
        held.ask(work.spread, lambda _: None, self._accept.anything, reads=[STEPS, TABLE], writes=ROWS)
        members = self.plan.members
        background = 0.0

        def close(divisor: NDArray[np.float64] | None, kappa: float, *, is_new: bool) -> NDArray[np.float64]:
            nonlocal background

            def message(region: int) -> Any:
                return None if divisor is None else divisor[members[region]], kappa, is_new

            answers = held.ask(work.close, message, self._accept.close, reads=[ROWS, TABLE], writes=ROWS)
            background = sum(answer["background"] for answer in answers)
            sums = np.full(nodes.n, background)
            for who, answer in zip(members, answers, strict=True):
                sums[who] += answer["sums"]
            return sums

        sums, kappa, rounds = Balance.of(nodes, self.gap).reached_by(close)
        scales = Scales.of(sums, round(background / GRAIN))
        table = self._table(held, scales, members)
        loss = expected_loss(table, self.losses, self.problem.prior)
        self.trace.add(stage="repair", kappa=kappa, rounds=rounds, background=background, loss=loss)
        if loss < self.loss:
            self.table, self.loss = table, loss
        return background

    def _table(self, held: Held, scales: Scales, members: list[NDArray[np.int64]]) -> SparseTable:
        def message(region: int) -> NDArray[np.float64]:
            return scales.factor[members[region]]

        answers = held.ask(work.whole, message, self._accept.whole, reads=[ROWS, TABLE], writes=PIECE)
        background = np.zeros(self.problem.n_outputs, dtype=np.uint64)
        for region, answer in enumerate(answers):
            background[self.plan.outputs_of(region)] = answer["grains"]
        counts = [(who, answer["counts"]) for who, answer in zip(members, answers, strict=True)]
        pieces = ((members[region], self._piece(held, region, counts[region][1])) for region in range(len(counts)))
        return assembled(self.plan.table_nodes, scales, background, counts, pieces)

    def _piece(self, held: Held, region: int, counts: NDArray[np.int32]) -> dict[str, Any]:
        """Return a region's part of the table, of the size that there is room for."""

        def accept(region: int, piece: dict[str, Any]) -> None:
            self._accept.piece(region, piece)
            if not np.array_equal(np.diff(piece["start"]), counts):
                raise InputError("a part of the table does not have the size that was told before")

        return held.fetch(PIECE, region, accept)

    def _grow(self, held: Held, is_small: NDArray[np.bool_]) -> None:
        """Begin again on larger windows, if enough nodes need them."""
        if self.schedule.is_stuck:
            # steps no longer help: what is missing lies outside of the windows
            is_small = np.ones_like(is_small)
        if self._is_refused or self.growths >= MOST_GROWTHS or is_small.sum() <= GROWN_SHARE * len(is_small):
            return
        radius = without_holes(self.plan.nodes, np.where(is_small, GROWTH, 1.0) * self.plan.radius)
        if not self._has_room(radius):
            return
        self.growths += 1
        self.plan = self.plan.with_radius(radius)
        self._started(held, [None] * self.plan.n_regions)
        held.ask(work.open_table, self.plan.table_part, self._accept.anything, writes=TABLE)
        self.trace.add(stage="grown", nodes=int(is_small.sum()))
