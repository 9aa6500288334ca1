"""From any non-negative matrix to an integer table that is exactly epsilon-mDP, losing as little as possible.

The closure (``MdpGraph.closure``) raises entries until every mDP row holds; then row sums differ from 1. Two things
bring them back without leaving the cone of private columns: alternating closure and normalisation while it helps, and
mixing ``alpha H + (1 - alpha s_i) q`` with one fixed distribution q, which is private for

    alpha <= 1 / max over pairs of [ s_j + max(0, s_j - s_i) / (exp(epsilon d_ij) - 1) ],   s = row sums of H.

Integers are closed once more among integers, and what is missing to 2^63 goes to one output. Every step errs on the
side of privacy by a relative 2^-40; the exact check has the last word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import CertificationError, InputError
from metricdp.metric.closure import close_columns

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from metricdp.metric.graph import MdpGraph

TOTAL = 2.0**63
SLACK = 2.0**-40  # every row is kept with this relative room, far above the rounding of floats
FIRST_RESERVE = 2.0**-36  # of the mass, kept back so that whole numbers can be topped up
LARGEST_EXPONENT = 600.0  # a larger factor than exp(600) is as good as none, and floats would overflow
GOOD_ENOUGH = 1e-8  # mixed mass that is not worth another round
LADDER = (0.002, 0.001, 0.0005, 0.0002, 0.0001, 0.00005, 0.00002, 0.0)  # shares of epsilon held back for row sums
ROUNDS_PER_RUNG = 4


@dataclass(frozen=True)
class _Closed:
    """A closed matrix, its row sums, and how much of it each component may keep."""

    H: NDArray[np.float64]
    sums: NDArray[np.float64]
    keep: NDArray[np.float64]  # alpha of each record's component

    @property
    def mixed(self) -> float:
        """The largest share of a row that mixing replaces."""
        return float((1.0 - self.keep * self.sums).max())


def repair(
    Z: NDArray[np.float64],
    graph: MdpGraph,
    epsilon: float,
    *,
    costs: NDArray[np.float64] | None = None,
    is_due: Callable[[], bool] = lambda: False,
) -> NDArray[np.uint64]:
    """Give an exactly private integer table near ``Z``, rows summing to 2^63.

    Parameters
    ----------
    Z
        Any finite non-negative matrix, shape (N, K); rows need not sum to 1.
    graph
        The neighbour pairs to protect.
    epsilon
        The budget.
    costs
        Prior-weighted losses, shape (N, K): used to choose where to put mass that must go somewhere.
    is_due
        Says when to stop polishing: the table is then private as ever, and as near as the time allowed.
    """
    start = _normalised(_checked(Z, graph.n), costs)
    best = _close(start, graph, epsilon)
    if best.mixed > GOOD_ENOUGH and graph.n_pairs:
        best = _alternate(start, best, graph, epsilon, costs=costs, is_due=is_due)
    return _to_integers(best, _fallback_outputs(best.H, graph, costs), graph, epsilon)


def _checked(Z: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    matrix = np.array(Z, dtype=np.float64, order="C")
    if matrix.ndim != 2 or len(matrix) != n or matrix.shape[1] == 0:
        raise InputError(f"a mechanism's matrix needs one row for each of the {n} records, got shape {matrix.shape}")
    bad = ~(np.isfinite(matrix) & (matrix >= 0))
    if bad.any():
        i, k = (int(v) for v in np.argwhere(bad)[0])
        raise InputError(
            f"probabilities must be finite and not negative, got {matrix[i, k]} for record {i} and output {k} "
            f"({int(bad.sum())} such entries)"
        )
    return matrix


def _normalised(Z: NDArray[np.float64], costs: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Scale rows to sum to 1; a row of zeros goes to its cheapest output."""
    largest = Z.max(axis=1)
    empty = largest == 0
    if empty.any():
        cheapest = np.zeros(len(Z), dtype=np.int64) if costs is None else costs.argmin(axis=1)
        Z[empty, cheapest[empty]] = 1.0
        largest[empty] = 1.0
    Z /= largest[:, None]  # first, so that huge entries cannot overflow the sum
    Z /= Z.sum(axis=1, keepdims=True)
    return Z


def _close(Z: NDArray[np.float64], graph: MdpGraph, epsilon: float, *, held_back: float = 0.0) -> _Closed:
    """Close ``Z`` at ``epsilon (1 - held_back)`` and find how much may be kept at ``epsilon``."""
    H = graph.closure(Z, epsilon * (1.0 - held_back), slack=SLACK)
    sums = H.sum(axis=1)
    return _Closed(H, sums, _keep(sums, graph, epsilon))


def _keep(sums: NDArray[np.float64], graph: MdpGraph, epsilon: float) -> NDArray[np.float64]:
    """Give alpha of each record's component: the most of H that mixing can keep."""
    need = np.zeros(graph.n_components)
    np.maximum.at(need, graph.labels, sums)
    if graph.n_pairs:
        i, j = graph.pairs[:, 0], graph.pairs[:, 1]
        difference = np.abs(sums[i] - sums[j])
        gain = np.expm1(np.minimum(epsilon * graph.distances, LARGEST_EXPONENT))
        with np.errstate(divide="ignore", invalid="ignore"):
            extra = np.where(difference > 0, difference / gain, 0.0)
        # rows at distance 0 are equal up to the order of summation: that is for the integers to settle
        extra[graph.distances == 0] = 0.0
        np.maximum.at(need, graph.labels[i], np.maximum(sums[i], sums[j]) + extra)
    return (1.0 / need)[graph.labels]


def _alternate(
    Z: NDArray[np.float64],
    best: _Closed,
    graph: MdpGraph,
    epsilon: float,
    *,
    costs: NDArray[np.float64] | None,
    is_due: Callable[[], bool],
) -> _Closed:
    """Alternate closure and normalisation down the ladder of held-back shares; give the best matrix seen."""
    best_score = _score(best, graph, costs)
    for held_back in LADDER:
        for _ in range(ROUNDS_PER_RUNG):
            if is_due():
                return best
            closed = _close(Z, graph, epsilon, held_back=held_back)
            score = _score(closed, graph, costs)
            if score < best_score:
                best, best_score = closed, score
            Z = closed.H / closed.sums[:, None]
            if closed.mixed <= GOOD_ENOUGH:
                break
    return best


def _score(closed: _Closed, graph: MdpGraph, costs: NDArray[np.float64] | None) -> float:
    """Give the expected loss after mixing, or the mixed share when no losses are known."""
    if costs is None:
        return closed.mixed
    left = np.maximum(1.0 - closed.keep * closed.sums, 0.0)
    kept = (costs * closed.H).sum(axis=1) @ closed.keep
    return float(kept + left @ costs[np.arange(graph.n), _fallback_outputs(closed.H, graph, costs)])


def _fallback_outputs(H: NDArray[np.float64], graph: MdpGraph, costs: NDArray[np.float64] | None) -> NDArray[np.int64]:
    """Give the output that takes what is left over of each row, one per component: the best that all could report."""
    worth = H if costs is None else -costs
    total = np.zeros((graph.n_components, H.shape[1]))
    np.add.at(total, graph.labels, worth)
    output = total.argmax(axis=1)[graph.labels]
    # who has no neighbours keeps what is left where most of it is
    return np.where(_is_alone(graph), H.argmax(axis=1), output)


def _is_alone(graph: MdpGraph) -> NDArray[np.bool_]:
    return (np.bincount(graph.labels) == 1)[graph.labels]


def _to_integers(closed: _Closed, outputs: NDArray[np.int64], graph: MdpGraph, epsilon: float) -> NDArray[np.uint64]:
    """Round to whole numbers, close among these, and give what is missing to 2^63 to one output per component."""
    indptr, indices, decay = graph.decays(epsilon, slack=SLACK)
    i, j = graph.pairs[:, 0], graph.pairs[:, 1]
    # what is left over must itself be private: r_i <= g r_j, with g rounded down
    growth = np.exp(np.minimum(epsilon * graph.distances, LARGEST_EXPONENT)) * (1.0 - SLACK)
    growth = np.where(growth < 1.0, 1.0, growth)
    reserve = np.where(np.bincount(graph.labels) == 1, 0.0, FIRST_RESERVE)
    while True:
        share = closed.keep * (1.0 - reserve[graph.labels])
        whole = np.floor(closed.H * (share * TOTAL)[:, None])
        whole = np.where((closed.H > 0) & (whole < 1.0), 1.0, whole)
        close_columns(whole, indptr, indices, decay, whole=True)
        table = whole.astype(np.uint64)
        left = (np.uint64(1 << 63) - table.sum(axis=1, dtype=np.uint64)).astype(np.int64)
        broken = left < 0
        if graph.n_pairs:
            a, b = left[i].astype(np.float64), left[j].astype(np.float64)
            equal = left[i] == left[j]
            unfit = ~equal & ((a > growth * b) | (b > growth * a))
            broken[i[unfit]] = True
        if not broken.any():
            table[np.arange(graph.n), outputs] += left.astype(np.uint64)
            return table
        failing = np.unique(graph.labels[broken])
        reserve[failing] = np.maximum(2.0 * reserve[failing], FIRST_RESERVE)
        if (reserve > 0.5).any():
            raise CertificationError("the matrix could not be made private by mixing: every share was tried")
