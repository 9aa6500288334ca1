"""Column generation: master, pricing, bounds, until they meet. Every iterate is a mechanism in the cone."""

from __future__ import annotations

import math
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from metricdp.errors import SolverError, StoppedError
from metricdp.mechanism.mechanism import relative_gap
from metricdp.mechanism.repair import repair
from metricdp.solve.bounds import lower_bound
from metricdp.solve.contract import Ended, Incumbent, Solver, ended_by, register
from metricdp.solve.solvers.columns.checkpointing import restore, store
from metricdp.solve.solvers.columns.kernels import starting_columns
from metricdp.solve.solvers.columns.master import ColumnMaster
from metricdp.solve.solvers.columns.options import ColumnOptions
from metricdp.solve.solvers.columns.patches import Patch, solve_patch
from metricdp.solve.solvers.columns.pool import ColumnPool
from metricdp.solve.solvers.columns.pricing import ConeDuals, PriceAnswer, cone_of, price_output, price_tasks
from metricdp.solve.solvers.columns.room import columns_bytes, kernel_bytes
from metricdp.solve.solvers.columns.tight import tight_mechanism
from metricdp.solve.warm import begin_run, end_run

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.component import Component
    from metricdp.solve.contract import Context, Load
    from metricdp.solve.executor import Workers
    from metricdp.solve.result import Trace
    from metricdp.solve.stop import Stop

FIRST_RADIUS = 0.02  # of the mean unit-sum dual
NEAR_RADIUS = 0.005  # around duals that another solver found
GROW, SHRINK = 1.5, 0.5
PURE_EVERY = 3  # rounds between masters without slack, which cost the most and give upper bounds only
LITTLE_SLACK = 1e-2
UNUSED_ROUNDS = 7
IMPROVES = 1e-12  # relative to the scale: a reduced cost below minus this is an improvement


@dataclass
class Progress:
    """Bounds, the best private matrix, and the best dual."""

    lower_bound: float = 0.0
    upper_bound: float = math.inf
    Z: NDArray[np.float64] | None = None
    y: NDArray[np.float64] | None = None
    round: int = -1
    proof: ConeDuals | None = None  # of the lower bound
    known_bound: float = 0.0  # of another solver: it counts for the gap, and not for what a round gained

    @property
    def best_bound(self) -> float:
        """The better of both lower bounds."""
        return max(self.lower_bound, self.known_bound)

    @property
    def gap(self) -> float:
        """The relative gap."""
        return 1.0 if self.Z is None else relative_gap(self.upper_bound, self.best_bound)


@register
class Columns(Solver):
    """Column generation.

    It starts from pieces of the component that are solved apart, or around the unit-sum duals of another solver; and
    from the columns of what that solver found.
    """

    name: ClassVar[str] = "columns"
    options_type: ClassVar[type] = ColumnOptions
    limits: ClassVar[tuple[str, ...]] = ("max_rounds",)
    is_checkpointed: ClassVar[bool] = True

    def bytes_beyond(self, load: Load) -> float:
        """Return the bytes of pool, masters and pricing programs before mDP rows come in."""
        return columns_bytes(load)

    def run(self, component: Component, incumbent: Incumbent, context: Context) -> Incumbent:
        """Generate columns until the bounds meet."""
        options, gap, trace, stop, checkpoint = (
            self.options,
            context.gap,
            context.trace,
            context.stop,
            context.checkpoint,
        )
        run = ColumnRun(component, options, context.workers, stop)
        progress = Progress(known_bound=incumbent.lower_bound)
        error, is_over = None, False
        begin_run(run.name, stop)
        try:
            if incumbent.rows is not None:
                run.try_mechanism(incumbent.rows, progress)
            if checkpoint is None or not restore(checkpoint, run, progress):
                n_pieces = 0
                if incumbent.unit_duals is None:
                    pieces = context.division.pieces(component, max(1, round(component.n / options.records_per_patch)))
                    n_pieces = len(pieces)
                    run.start(pieces, progress)
                else:
                    run.start_around(incumbent.unit_duals, progress)
                trace.add(stage="patches", component=component.number, patches=n_pieces, **run.figures(progress))
                if checkpoint is not None:
                    store(checkpoint, run, progress, 0)
            while progress.gap > gap and progress.round + 1 < options.max_rounds and not stop.is_due and not is_over:
                known = len(run.pool)
                is_over = not run.iterate(progress, trace)
                if checkpoint is not None and not is_over:
                    store(checkpoint, run, progress, known)
                run.purge_if_crowded()
        except SolverError as trouble:  # what was found so far is private and its gap is known
            error = trouble
        except StoppedError:
            pass  # while something was being built
        finally:
            end_run(run.name)
        return Incumbent(
            progress.best_bound,
            run.raw if progress.Z is None else progress.Z,
            run.ended(progress, gap, error),
            is_private=progress.Z is not None,
            iterations=incumbent.iterations + progress.round + 1,
            cuts=len(run.pool),
            reason="" if error is None else str(error),
        )


@register
class Kernel(Solver):
    """The best mixture of kernels, plateaus and the constant column, at once, with its bound from one pricing."""

    name: ClassVar[str] = "kernel"

    def bytes_beyond(self, load: Load) -> float:
        """Return the bytes of the mixture and of the pricing programs before mDP rows come in."""
        return kernel_bytes(load)

    def run(self, component: Component, incumbent: Incumbent, context: Context) -> Incumbent:
        """Mix kernels."""
        stop = context.stop
        run = ColumnRun(component, ColumnOptions(), context.workers, stop)
        progress = Progress(known_bound=incumbent.lower_bound)
        error, is_done = None, False
        begin_run(run.name, stop)
        try:
            Z, duals = tight_mechanism(component) or run.best_mixture()
            run.try_mechanism(Z, progress)
            is_done = run.price(duals, progress) is not None
            context.trace.add(stage="kernel", component=component.number, **run.figures(progress))
        except SolverError as trouble:
            error = None if stop.is_due else trouble
        except StoppedError:
            pass  # while something was being built
        finally:
            end_run(run.name)
        ended = run.ended(progress, context.gap, error)
        own = Incumbent(
            progress.best_bound,
            run.raw if progress.Z is None else progress.Z,
            Ended.STALLED if is_done and ended is Ended.USED_UP else ended,
            is_private=progress.Z is not None,
            iterations=1,
            cuts=len(run.pool),
            reason="" if error is None else str(error),
        )
        return incumbent.followed_by(own, component)


class ColumnRun:
    """The pool, the master and the stabilisation."""

    def __init__(self, component: Component, options: ColumnOptions, workers: Workers, stop: Stop) -> None:
        self.component, self.options, self.workers, self.stop = component, options, workers, stop
        self.name = uuid.uuid4().hex
        self.scale = component.scale
        self.cone = cone_of(component)
        self.pool = ColumnPool(component)
        self.radius = np.zeros(component.n)
        self.last_pure = np.zeros(0)
        self.masters: list[ColumnMaster] = []
        self.raw = np.zeros(component.costs.shape)  # what was to be repaired last

    def ended(self, progress: Progress, gap: float, error: SolverError | None) -> Ended:
        """Return why the run ended; ``error`` is what broke down."""
        if progress.gap <= gap:
            return Ended.REACHED
        if error is not None:
            return ended_by(error)
        return Ended.STOPPED if self.stop.is_due else Ended.USED_UP

    def build_master(self, progress: Progress) -> None:
        """Fill the pool with kernels and the like, and with the columns of the best mechanism so far."""
        self.pool.add(starting_columns(self.component, self.stop))
        if progress.Z is not None:
            self.add_mechanism(progress.Z)
        self.stop.check()
        self.build_programs()

    def best_mixture(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Give the best mechanism of kernels and the like, and its unit-sum duals."""
        self.pool.add(starting_columns(self.component, self.stop))
        self.stop.check()
        point = ColumnMaster(self.pool, self.scale, has_slack=False).solve(self.stop)
        return self.pool.mechanism(point.x), point.y

    def build_programs(self) -> None:
        """Make both masters from the pool."""
        self.box = ColumnMaster(self.pool, self.scale, has_slack=True)
        self.pure = ColumnMaster(self.pool, self.scale, has_slack=False)
        self.masters = [self.box, self.pure]

    def add_mechanism(self, Z: NDArray[np.float64]) -> None:
        """Add the columns of a mechanism to the pool, each at its own output."""
        used = np.flatnonzero(Z.max(axis=0) > 0)
        self.pool.add(Z.T[used], used)

    def start(self, pieces: list[NDArray[np.int64]], progress: Progress) -> None:
        """Solve the patches, make the first mechanism, and price at their duals."""
        if self.options.patches:

            def make(own: NDArray[np.int64]) -> Patch:
                return solve_patch(self.component, own, self.stop)

            patches = self.workers.run_here(make, pieces, self.stop)
            if patches is not None:
                Z, y = np.zeros(self.component.costs.shape), np.zeros(self.component.n)
                for patch in patches:
                    Z[patch.own], y[patch.own] = patch.rows, patch.unit_duals
                self.try_mechanism(Z, progress)
                self.build_master(progress)
                self.price(y, progress)
                progress.y = y
                self.radius[:] = FIRST_RADIUS * np.abs(y).mean()
                return
        self.build_master(progress)
        progress.y = self.component.costs.min(axis=1)
        self.radius[:] = np.abs(self.component.costs).mean()

    def start_around(self, centre: NDArray[np.float64], progress: Progress) -> None:
        """Fill the pool, and price at duals that are known to be good."""
        self.build_master(progress)
        self.price(centre, progress)
        progress.y = centre
        self.radius[:] = NEAR_RADIUS * np.abs(centre).mean()

    def iterate(self, progress: Progress, trace: Trace) -> bool:
        """Do one round; give False if it had to be broken off or nothing improves."""
        begin = time.perf_counter()
        centre = self.component.costs.min(axis=1) if progress.y is None else progress.y
        point = self.box.solve(self.stop, centre=centre, radius=self.radius)
        if not point.is_optimal:
            return False
        y = point.y
        seconds = time.perf_counter() - begin
        begin = time.perf_counter()
        before = progress.lower_bound
        found = self.price(y, progress)
        if found is None:
            return False
        n_new, is_better = found, progress.lower_bound > before
        pricing_seconds = time.perf_counter() - begin
        at_edge = np.abs(np.abs(y - centre) - self.radius) <= 1e-9 * self.scale
        if is_better:
            progress.y = y
            self.radius = np.where(at_edge, GROW * self.radius, self.radius)
        else:
            self.radius = SHRINK * self.radius
        progress.round += 1
        begin = time.perf_counter()
        self.pool.note_use(point.x, self.last_pure)
        if progress.round % PURE_EVERY == 0:
            point = self.pure.solve(self.stop)
            self.last_pure = point.x
        if point.is_optimal and point.slack < LITTLE_SLACK:
            self.try_mechanism(self.pool.mechanism(point.x), progress)
        pure_seconds = time.perf_counter() - begin
        trace.add(
            stage="columns",
            component=self.component.number,
            round=progress.round,
            new_columns=n_new,
            master_seconds=round(seconds, 4),
            pricing_seconds=round(pricing_seconds, 4),
            pure_seconds=round(pure_seconds, 4),
            **self.figures(progress),
        )
        return True

    def price(self, y: NDArray[np.float64], progress: Progress) -> int | None:
        """Price all outputs at ``y``: a valid bound, and new columns for the pool; their number, None if stopped."""
        tasks = price_tasks(self.name, self.component, self.cone, y, self.stop)
        answers: list[PriceAnswer] | None = self.workers.run(price_output, tasks, self.stop, PriceAnswer.of)
        if answers is None:
            return None
        self.prove(ConeDuals.of(answers), progress)
        good = [a for a in answers if a.price < -IMPROVES * self.scale]
        if good:
            places = self.pool.add(np.array([a.column for a in good]), np.array([a.output for a in good]))
            for master in self.masters:
                master.extend(places)
        return len(good)

    def prove(self, proof: ConeDuals, progress: Progress) -> None:
        """Raise the lower bound to what the multipliers prove."""
        component = self.component
        bound = lower_bound(component.costs, proof.rows_of(self.cone), cost_roundings=component.cost_roundings)
        if bound > progress.lower_bound:
            progress.lower_bound, progress.proof = bound, proof

    def purge_if_crowded(self) -> None:
        """Drop columns that have long been without weight, and make the masters anew."""
        if len(self.pool) > self.options.crowded * self.component.n + self.component.n_outputs:
            self.pool.purge(UNUSED_ROUNDS)
            self.last_pure = np.zeros(0)
            self.build_programs()

    def try_mechanism(self, Z: NDArray[np.float64], progress: Progress) -> None:
        """Repair a matrix and keep it if it is the best; StoppedError is raised if there is no time for it."""
        costs = self.component.costs
        self.raw = Z
        table = repair(Z, self.component.graph, self.component.epsilon, costs=costs, is_over=lambda: self.stop.is_due)
        self.keep(table / 2.0**63, progress)

    def keep(self, Z: NDArray[np.float64], progress: Progress) -> None:
        """Keep a private matrix if it is the best."""
        loss = self.component.loss(Z)
        if loss < progress.upper_bound:
            progress.upper_bound, progress.Z = loss, Z

    def figures(self, progress: Progress) -> dict[str, float]:
        """Give what the trace shows of the bounds."""
        return {
            "lower_bound": progress.best_bound,
            "upper_bound": progress.upper_bound,
            "gap": progress.gap,
            "columns": len(self.pool),
        }
