"""Private rows from any rows: closure on large windows over a background that all records share.

Column k is ``H_ik`` on its window and ``b_k`` elsewhere. With ``T_i`` the path distance from node i to the outside of
the window, ``b_k exp(e T_i)`` is the most that privacy at the budget e allows; columns below it that are closed on the
window are private on all pairs. Where no member can leave its window (components end inside), ``b_k`` is 0: the column
is then positive on whole components, and zero on the others. Rows are divided by their sums F. ``H / F`` is private at
epsilon if H is at ``e = epsilon (1 - kappa)`` and ``|ln F_i - ln F_j| <= kappa epsilon d`` on all pairs. So closure and
division alternate, with a kappa that falls as far as the sums allow.

Everything is kept in whole numbers' reach: ``b_k`` is a multiple of 2^-37 and no positive entry is below 2^-37, so that
rounding to multiples of 2^-63 (see `integers`) changes no entry by more than a share of 2^-26. `ROUNDING` is four times
what two entries and two scales can be off together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from metricdp.errors import CertificationError, StoppedError
from metricdp.metric.closure import never
from metricdp.metric.simd import WIDTH
from metricdp.solve.solvers.firstorder.threads import in_threads
from metricdp.solve.solvers.local.close import GRAIN, close_some, rim_some, spread_some
from metricdp.solve.solvers.local.costs import distances_of
from metricdp.solve.solvers.local.windows import windows_within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from metricdp.solve.solvers.local.problem import LocalProblem, Nodes
    from metricdp.solve.solvers.local.windows import Windows

ROUNDING = 2.0**-22  # of ln(z_i / z_j), reserved for whole numbers
# epsilon d below which records share a row: kappa epsilon d must stay above ROUNDING down to the last rung
SHARED_ROW = 2e-3
RAN_AWAY = 2.0**20  # of a row sum, which is at most K: entries are at most the largest of their column
HEADROOM = 1.15  # of the background over what reaches the rim: normalising moves entries a little
LARGEST_EXPONENT = 600.0
# A kappa costs about itself times epsilon d of one step from neighbour to neighbour, or of 1 / epsilon if that is more:
# the first is a fifth of the gap. If the sums do not come together the next ones follow. With the last one round is
# enough: sums of columns that are closed at epsilon (1 - kappa) differ by no more than that.
KAPPA_PER_GAP = 0.2
KAPPAS = (0.004, 0.016, 0.064, 0.25, 0.51)
ROUNDS_PER_RUNG = 6
NEXT_RUNG = 0.5
LEAST_KAPPA = 2e-4
GROUPS_AT_ONCE = 512  # between two looks at the clock


class Close(Protocol):
    """A round of closure: see `Balance.reached_by`."""

    def __call__(self, divisor: NDArray[np.float64] | None, kappa: float, *, is_new: bool) -> NDArray[np.float64]:
        """Divide, close and return the row sums."""


@dataclass(frozen=True, eq=False)
class Closed:
    """Columns that are private at ``epsilon (1 - kappa)``, and row sums with which they may be divided.

    Parameters
    ----------
    H
        8 entries per slot, at least ``background`` there.
    background
        b_k of each output in kd order.
    sums
        F of each node.
    """

    H: NDArray[np.float64]
    background: NDArray[np.float64]
    sums: NDArray[np.float64]
    kappa: float
    rounds: int


@dataclass(frozen=True, eq=False)
class Columns:
    """The large windows of some outputs, which stay the same from one repair to the next.

    Parameters
    ----------
    nodes, windows
        Nodes that share a row, and which of them may report an output.
    order, to_rim
        Of each slot: the members of a group by their distance, and the path distance to the outside of the window.
    is_over
        Says when work must be interrupted.
    """

    nodes: Nodes
    windows: Windows
    order: NDArray[Any]
    to_rim: NDArray[np.float64]
    is_over: Callable[[], bool] = never

    @classmethod
    def of(cls, nodes: Nodes, radius: NDArray[np.float64], *, is_over: Callable[[], bool]) -> Columns:
        """Return the windows of nodes with a radius each."""
        windows = windows_within(nodes, radius)
        order: NDArray[Any] = np.empty(windows.n_slots, dtype=windows.position_type)
        made = cls(nodes, windows, order, np.empty(windows.n_slots), is_over)
        made._in_groups(made._measure_rim(distances_of(nodes, windows)))
        return made

    @cached_property
    def _links(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        """Where each node's neighbours begin, the neighbours, and their distances."""
        matrix = self.nodes.graph.adjacency
        return matrix.indptr.astype(np.int64), matrix.indices, matrix.data

    def watched(self, is_over: Callable[[], bool]) -> Columns:
        """Return the same windows, whose work ends when something else is over."""
        return replace(self, is_over=is_over)

    @property
    def problem(self) -> LocalProblem:
        """What the windows are made for."""
        return self.nodes.problem

    def _check(self) -> None:
        if self.is_over():
            raise StoppedError("a repair was interrupted")

    def _in_groups(self, work: Callable[[int, int], None]) -> None:
        """Do the work for all groups, some at a time, so that it can be interrupted."""
        for low in range(0, self.windows.n_groups, GROUPS_AT_ONCE):
            self._check()
            high = min(low + GROUPS_AT_ONCE, self.windows.n_groups)
            in_threads(lambda a, b, low=low: work(low + a, low + b), high - low, is_large=True)  # type: ignore[misc]

    def _measure_rim(self, far: NDArray[np.float32]) -> Callable[[int, int], None]:
        windows = self.windows

        def some(first: int, last: int) -> None:
            place = np.full(windows.n_nodes, -1, dtype=np.int32)
            rim_some(
                first,
                last,
                windows.group_start,
                windows.member,
                *self._links,
                far,
                place,
                np.empty(windows.largest, np.int64),
                np.empty(windows.largest),
                self.order,
                self.to_rim,
            )

        return some

    def of_rows(
        self,
        Z: NDArray[np.float32],
        group_start: NDArray[np.int64],
        member: NDArray[np.int32],
        target: NDArray[np.int64],
        share: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return rows on other windows of the same outputs as columns on the large windows, and copies put together.

        The other windows have slots from ``group_start`` on with a ``member`` each. Node i of the rows adds the part
        ``share[i]`` to the node ``target[i]``; a negative target is left out.
        """
        H = np.zeros(self.windows.n_slots * WIDTH)

        def some(first: int, last: int) -> None:
            place = np.full(self.nodes.n, -1, dtype=np.int64)
            mine = self.windows
            spread_some(
                first,
                last,
                group_start,
                member,
                mine.group_start,
                mine.member,
                target,
                share,
                place,
                Z,
                H,
            )

        self._in_groups(some)
        n_copies = len(self.problem.output_order) - self.problem.n_outputs
        if n_copies:
            low = self.windows.group_start[-2] * WIDTH
            last = H[low:].reshape(-1, WIDTH)
            last[:, WIDTH - n_copies - 1] = last[:, WIDTH - n_copies - 1 :].sum(axis=1)
            last[:, WIDTH - n_copies :] = 0.0
        return H

    def background_of(self, H: NDArray[np.float64], kappa: float) -> NDArray[np.float64]:
        """Return b_k: what reaches the rim of the window along paths, as a multiple of the grain."""
        windows, epsilon = self.windows, self.problem.epsilon
        fade = np.exp(-epsilon * (1.0 - kappa) * self.to_rim)
        leaves = np.isfinite(self.to_rim)
        b = np.zeros((windows.n_groups, WIDTH))
        some = np.flatnonzero(np.diff(windows.group_start) > 0)
        rows = H.reshape(-1, WIDTH)
        at = windows.group_start[some]
        for k in range(WIDTH):
            b[some, k] = np.maximum.reduceat(rows[:, k] * fade, at)
        is_open = np.zeros(windows.n_groups, dtype=bool)
        is_open[some] = np.logical_or.reduceat(leaves, at)
        grains = np.where(is_open[:, None], np.maximum(np.ceil(HEADROOM / GRAIN * b), 1.0), 0.0).ravel()
        grains[self.problem.n_outputs :] = 0.0  # copies
        return grains * GRAIN

    def close(self, H: NDArray[np.float64], b: NDArray[np.float64], kappa: float) -> NDArray[np.float64]:
        """Close H in place at ``epsilon (1 - kappa)`` over the background; return the row sums beyond it."""
        e = self.problem.epsilon * (1.0 - kappa)
        start, head, length = self._links
        decay = np.exp(-e * length)
        cap = np.exp(np.minimum(e * self.to_rim, LARGEST_EXPONENT))
        windows = self.windows

        def some(first: int, last: int) -> None:
            place = np.full(windows.n_nodes, -1, dtype=np.int32)
            close_some(
                first,
                last,
                windows.group_start,
                windows.member,
                self.order,
                start,
                head,
                decay,
                cap,
                self.to_rim,
                self.nodes.graph.labels,
                b,
                place,
                np.empty(windows.largest, np.bool_),
                np.zeros(self.nodes.graph.n_components, np.bool_),
                np.empty((2, windows.largest)),
                H,
            )

        self._in_groups(some)
        return self._sums_of(H, b)

    def divide(self, H: NDArray[np.float64], sums: NDArray[np.float64]) -> None:
        """Divide each node's row, in place."""
        rows = H.reshape(-1, WIDTH)
        rows /= sums[self.windows.member, None]

    def _sums_of(self, H: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
        windows = self.windows
        own = H.reshape(-1, WIDTH).sum(axis=1)
        covered = b.reshape(-1, WIDTH).sum(axis=1)
        own -= np.repeat(covered, np.diff(windows.group_start))
        return np.asarray(np.bincount(windows.member, weights=own, minlength=windows.n_nodes))


def put_together(fine: Nodes, coarse: Nodes) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the coarse node of each fine one, and its share in it: by weight, or equal shares where there is none."""
    target = coarse.of_record[fine.first].astype(np.int64)
    with np.errstate(invalid="ignore"):
        share = fine.weight / coarse.weight[target]
    even = np.bincount(target, minlength=coarse.n)[target]
    return target, np.where(coarse.weight[target] > 0.0, share, 1.0 / even)


@dataclass(frozen=True, eq=False)
class Balance:
    """When rows may be divided by their sums: all pairs of nodes, ``epsilon d`` of each, and the first kappa."""

    tail: NDArray[np.int32]
    tip: NDArray[np.int32]
    exponent: NDArray[np.float64]
    first_kappa: float

    @classmethod
    def of(cls, nodes: Nodes, gap: float) -> Balance:
        """Return the balance of nodes; the first kappa follows from the gap that is wanted."""
        epsilon, pairs = nodes.problem.epsilon, nodes.graph.pairs
        step = epsilon * float(np.median(nodes.nearest_neighbour))
        first_kappa = min(max(KAPPA_PER_GAP * gap / max(step, 1.0), LEAST_KAPPA), KAPPAS[0])
        return cls(pairs[:, 0], pairs[:, 1], epsilon * nodes.graph.distances, first_kappa)

    def need(self, sums: NDArray[np.float64]) -> float:
        """Return the kappa at which rows with these sums may be divided by them."""
        logs = np.log(sums)
        if not len(self.exponent):
            return 0.0
        return float(((np.abs(logs[self.tail] - logs[self.tip]) + ROUNDING) / self.exponent).max())

    def reached_by(self, close: Close) -> tuple[NDArray[np.float64], float, int]:
        """Close and divide until rows may be divided by their sums; return these, kappa and the number of rounds.

        ``close(divisor, kappa, is_new=...)`` divides all rows, begins with a new background where asked, closes the
        columns at ``epsilon (1 - kappa)`` and returns the row sums.
        """
        sums, rounds = None, 0
        for first in (self.first_kappa, *KAPPAS):
            for number, kappa in enumerate(_rungs(first)):
                sums = close(sums, kappa, is_new=number == 0)
                if not (sums <= RAN_AWAY).all():
                    raise CertificationError(
                        "the rows could not be made private: the steps ran away; take another method"
                    )
                rounds += 1
                if self.need(sums) <= kappa:
                    return sums, kappa, rounds
        raise CertificationError("the rows could not be made private: every share of the budget was tried")


def _rungs(first: float) -> Iterator[float]:
    kappa = first
    while kappa >= LEAST_KAPPA:
        for _ in range(ROUNDS_PER_RUNG):
            yield kappa
        kappa *= NEXT_RUNG
