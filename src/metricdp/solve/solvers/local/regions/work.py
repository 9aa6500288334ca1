"""What is done where a region's columns are: steps, completion, closure, and whole numbers.

Each function takes states and a message, changes neither, and returns the new state and an answer of plain arrays and
numbers. So a task that is lost is done again, anywhere, with the same result.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.metric.closure import never
from metricdp.metric.simd import WIDTH
from metricdp.solve.solvers.local.bounds import least_inside, node_bounds
from metricdp.solve.solvers.local.close import GRAIN
from metricdp.solve.solvers.local.complete import complete, kernel_prices
from metricdp.solve.solvers.local.grow import radius_by_prices, too_small
from metricdp.solve.solvers.local.integers import rows_of
from metricdp.solve.solvers.local.iterate import Iteration
from metricdp.solve.solvers.local.network import network_of
from metricdp.solve.solvers.local.repair import Columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from metricdp.solve.solvers.local.network import Network
    from metricdp.solve.solvers.local.regions.part import StepPart, TablePart

    IsOver = Callable[[], bool]
    Answer = dict[str, Any]

SWEEPS = 3  # of a completion for the bound
STEPS_PER_CLOCK = 5


@dataclass(frozen=True, eq=False)
class Steps:
    """A region between two calls: rows and multipliers on its network."""

    part: StepPart
    network: Network
    Z: NDArray[np.float32]
    Y: NDArray[np.float32]
    theta: NDArray[np.float32]
    steps: int
    product: float

    @classmethod
    def of(cls, part: StepPart, iteration: Iteration) -> Steps:
        """Return what must be kept of an iteration."""
        return cls(
            part, iteration.network, iteration.Z, iteration.Y, iteration.theta, iteration.steps, iteration.product
        )

    def resumed(self) -> Iteration:
        """Return an iteration that goes on from here; a new epoch begins."""
        iteration = Iteration(self.network, self.product)
        iteration.Z[:], iteration.Y[:], iteration.theta[:], iteration.ahead[:] = self.Z, self.Y, self.theta, self.Z
        iteration.steps = self.steps
        iteration.take_multipliers()
        return iteration


@dataclass(frozen=True, eq=False)
class Rows:
    """Columns of a region while they are closed, and the background of its outputs."""

    H: NDArray[np.float64]
    background: NDArray[np.float64]


def start(message: tuple[StepPart, dict[str, Any] | None], is_over: IsOver) -> tuple[Steps, Answer]:
    """Make the windows, and multipliers from prices or from before; answer with the radii that prices ask for."""
    part, saved = message
    network = network_of(part.nodes, part.radius, part.stretch, is_over=is_over, nearest=part.nearest)
    iteration = Iteration(network)
    prices = kernel_prices(iteration)
    wider = radius_by_prices(iteration, prices, part.gap, may_fill=False)[part.owned]
    complete(network, iteration.Y, prices, sweeps=1, is_large=iteration.is_large, is_over=is_over)
    counts = {"entries": network.windows.n_slots * WIDTH, "multipliers": network.edges.n * WIDTH}
    state = Steps.of(part, iteration)
    if saved is not None and all(saved[name].shape == getattr(state, name).shape for name in ("Z", "Y", "theta")):
        state = replace(state, **saved)
    return state, {"radius": wider, **counts}


def plain(state: Steps, _: None, __: IsOver) -> tuple[Answer, Answer]:
    """Return what steps go on from, for a checkpoint."""
    return {"Z": state.Z, "Y": state.Y, "theta": state.theta, "steps": state.steps}, {}


def advance(state: Steps, message: tuple[int, float], is_over: IsOver) -> tuple[Steps, Answer]:
    """Step on; answer with the prices of the region's own nodes, and which of their windows are too small.

    The message says after how many steps to end, and after how many seconds at the latest.
    """
    due, seconds = message
    end = time.monotonic() + seconds
    iteration = state.resumed()
    while iteration.steps < due:
        iteration.advance()
        if iteration.steps % STEPS_PER_CLOCK == 0 and (is_over() or time.monotonic() > end):
            break
    means = iteration.mean_prices()
    least = node_bounds(iteration.network, iteration.Y, is_large=iteration.is_large)
    small = too_small(iteration, means, state.part.gap)
    owned = state.part.owned
    answer = {"prices": (0.5 * (least + means))[owned], "is_small": small[owned], "steps": iteration.steps}
    return Steps.of(state.part, iteration), answer


def bound(state: Steps, prices: NDArray[np.float64], is_over: IsOver) -> tuple[None, Answer]:
    """Complete the multipliers of the region's own outputs; answer with the least reduced cost of each node."""
    network, core = state.network, state.part.core
    Y = state.Y.copy()
    complete(network, Y, prices, sweeps=SWEEPS, is_large=True, groups=core, is_over=is_over)
    least = least_inside(network, Y, core, is_large=True)
    start_of = network.windows.group_start
    members = network.windows.member[start_of[core.start] : start_of[core.stop]]
    return None, {"least": least, "slots": np.bincount(members, minlength=network.nodes.n).astype(np.int32)}


@dataclass(frozen=True, eq=False)
class Table:
    """The large windows of a region."""

    part: TablePart
    columns: Columns


def open_table(part: TablePart, is_over: IsOver) -> tuple[Table, Answer]:
    """Make the large windows."""
    columns = Columns.of(part.nodes, part.radius, is_over=is_over)
    return Table(part, columns.watched(never)), {"entries": columns.windows.n_slots * WIDTH}


def spread(state: Steps, table: Table, _: None, is_over: IsOver) -> tuple[Rows, Answer]:
    """Put the rows of the steps on the large windows."""
    core = state.part.core
    columns = table.columns.watched(is_over)
    windows = state.network.windows
    group_start = windows.group_start[core.start : core.stop + 1]
    H = columns.of_rows(state.Z, group_start, windows.member, table.part.target, table.part.share)
    return Rows(H, np.zeros(0)), {}


def close(
    rows: Rows, table: Table, message: tuple[NDArray[np.float64] | None, float, bool], is_over: IsOver
) -> tuple[Rows, Answer]:
    """Divide, close, and answer with row sums: see `metricdp.solve.solvers.local.repair.Balance`."""
    divisor, kappa, is_new = message
    columns, H = table.columns.watched(is_over), rows.H.copy()
    if divisor is not None:
        columns.divide(H, divisor)
    b = columns.background_of(H, kappa) if is_new else rows.background
    sums = columns.close(H, b, kappa)
    return Rows(H, b), {"sums": sums, "background": float(b.sum())}


def whole(rows: Rows, table: Table, factor: NDArray[np.float64], is_over: IsOver) -> tuple[Answer, Answer]:
    """Round to whole numbers; the state is what the table is put together from, the answer its sizes."""
    columns = table.columns.watched(is_over)
    start_of, outputs, weights = rows_of(rows.H, rows.background, columns, factor, table.part.outputs)
    piece = {"start": start_of, "outputs": outputs, "weights": weights}
    grains = np.rint(rows.background / GRAIN).astype(np.uint64)[: len(table.part.outputs)]
    return piece, {"counts": np.diff(start_of).astype(np.int32), "grains": grains}
