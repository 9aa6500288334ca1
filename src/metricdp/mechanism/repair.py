"""From any non-negative matrix to an integer table that is exactly epsilon-mDP, losing as little as possible.

The closure (``MdpGraph.closure``) raises entries until every mDP row holds; then row sums differ from 1. Two things
bring them back without leaving the cone of private columns: alternating closure and normalisation while it helps, and
mixing ``alpha H + (1 - alpha s_i) q`` with one fixed distribution q, which is private for

    alpha <= 1 / max over pairs of [ s_j + max(0, s_j - s_i) / (exp(epsilon d_ij) - 1) ],   s = row sums of H.

Integers are closed once more among integers, and what is missing to 2^63 goes to one output. Every step errs on the
side of privacy by a relative 2^-40; the exact check decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import pdist

from metricdp.errors import CertificationError, InputError
from metricdp.metric.closure import close_columns, never
from metricdp.metric.graph import MdpGraph
from metricdp.metric.thin import thin_edges

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

TOTAL = 2.0**63
ROW_SLACK = 2.0**-40  # relative slack kept in every row, far above the rounding of floats
FIRST_RESERVE_SHARE = 2.0**-36  # of the mass, reserved so that whole numbers can be topped up
FLOOR_PROBABILITY = 2.0**-62  # every entry of a record with neighbours is at least 2^-63
LARGEST_EXPONENT = 600.0  # of a factor exp(.): a larger one constrains nothing, and floats would overflow
PAIRS_AT_ONCE = 1 << 20
NEGLIGIBLE_MIXED_SHARE = 1e-8  # of the mass: mixing in less is not worth another round
# shares of epsilon reserved for row sums, one rung after the other
RESERVE_LADDER = (0.002, 0.001, 0.0005, 0.0002, 0.0001, 0.00005, 0.00002, 0.0)
ROUNDS_PER_RUNG = 4
RUNG_PER_TOLERANCE = 4.0
QUICK_LADDER = (1.0, 1.0, 1.0, 1.0, 0.5, 0.25, 0.1, 0.0)  # shares of the first rung
THIN_GRAPH_FROM = 20_000_000  # pairs times outputs from which a thin graph is closed first
SORT_OUTPUTS_UP_TO, SAMPLED_RECORDS = 4_000, 2_000  # outputs that are sorted, and records that they are compared at
MAX_COMPARED = 400_000_000  # numbers: pairs of outputs times sampled records; half a second
LARGEST_STRETCH, STRETCH_PER_TOLERANCE = 0.01, 10.0
THIN_ROUNDS, THIN_RUNGS = 6, 3  # rounds on the thin graph, and rungs that they replace


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
    tolerance: float = 0.0,
    is_near: bool = False,
    is_due: Callable[[], bool] = never,
    is_over: Callable[[], bool] = never,
) -> NDArray[np.uint64]:
    """Return an exactly private integer table near ``Z``, rows summing to 2^63.

    Parameters
    ----------
    Z
        Any finite non-negative matrix, shape (N, K); rows need not sum to 1.
    graph
        The neighbour pairs to protect.
    epsilon
        The budget.
    costs
        Prior-weighted losses, shape (N, K): used to choose the outputs that take left-over mass.
    tolerance
        The share of the expected loss (of a row, when no losses are known) that mixing may cost: polishing ends there.
    is_near
        Whether ``Z`` is private up to rounding, as returned by `private_matrix`: one closure is then enough.
    is_due
        Returns whether to stop polishing: the table is then still private, and as near as the time allowed.
    is_over
        Returns whether to stop altogether: StoppedError is raised, and there is no table.
    """
    best = _best_closed(
        Z, graph, epsilon, costs=costs, tolerance=tolerance, is_near=is_near, is_due=is_due, is_over=is_over
    )
    return _to_integers(best, _fallback_outputs(best.H, graph, costs), graph, epsilon, is_over=is_over)


def private_matrix(
    Z: NDArray[np.float64],
    graph: MdpGraph,
    epsilon: float,
    *,
    costs: NDArray[np.float64],
    tolerance: float = 0.0,
    is_due: Callable[[], bool] = never,
    is_over: Callable[[], bool] = never,
) -> NDArray[np.float64]:
    """Return a float matrix near ``Z`` that is private up to rounding: the first step of `repair`, before integers."""
    best = _best_closed(Z, graph, epsilon, costs=costs, tolerance=tolerance, is_due=is_due, is_over=is_over)
    matrix = best.H * best.keep[:, None]
    left = np.maximum(1.0 - best.keep * best.sums, 0.0)
    matrix[np.arange(graph.n), _fallback_outputs(best.H, graph, costs)] += left
    return matrix


def _best_closed(
    Z: NDArray[np.float64],
    graph: MdpGraph,
    epsilon: float,
    *,
    costs: NDArray[np.float64] | None,
    tolerance: float,
    is_near: bool = False,
    is_due: Callable[[], bool],
    is_over: Callable[[], bool],
) -> _Closed:
    start = _floored(_normalised(checked_matrix(Z, graph.n), costs), graph)
    if graph.n_pairs * start.shape[1] > THIN_GRAPH_FROM and tolerance > 0.0 and not is_near:
        return _closed_thinly_first(
            start, graph, epsilon, costs=costs, tolerance=tolerance, is_due=is_due, is_over=is_over
        )
    best = _close(start, graph, epsilon, is_over=is_over)
    is_good = best.mixed <= NEGLIGIBLE_MIXED_SHARE or (
        tolerance > 0.0 and _mixing_cost(best, graph, costs) <= tolerance
    )
    if graph.n_pairs and not is_good:
        best = _alternate(start, best, graph, epsilon, costs=costs, tolerance=tolerance, is_due=is_due, is_over=is_over)
    return best


def checked_matrix(Z: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    """Return a copy of a finite, non-negative matrix with ``n`` rows; refuse anything else."""
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
    empty = ~Z.any(axis=1)
    if empty.any():
        cheapest = np.zeros(len(Z), dtype=np.int64) if costs is None else costs.argmin(axis=1)
        Z[empty, cheapest[empty]] = 1.0
    Z /= Z.max(axis=1, keepdims=True)  # first, so that huge entries cannot overflow the sum
    Z /= Z.sum(axis=1, keepdims=True)
    return Z


def _floored(Z: NDArray[np.float64], graph: MdpGraph) -> NDArray[np.float64]:
    """Raise entries to about the smallest positive whole number; records without neighbours may keep their zeros."""
    return np.where(_is_alone(graph)[:, None], Z, np.maximum(Z, FLOOR_PROBABILITY))


def _close(
    Z: NDArray[np.float64],
    graph: MdpGraph,
    epsilon: float,
    *,
    held_back: float = 0.0,
    is_over: Callable[[], bool] = never,
) -> _Closed:
    """Close ``Z`` at ``epsilon (1 - held_back)`` and find how much may be kept at ``epsilon``."""
    H = graph.closure(Z, epsilon * (1.0 - held_back), slack=ROW_SLACK, is_over=is_over)
    sums = H.sum(axis=1)
    return _Closed(H, sums, _keep(sums, graph, epsilon))


def _keep(sums: NDArray[np.float64], graph: MdpGraph, epsilon: float) -> NDArray[np.float64]:
    """Return alpha of each record's component: the most of H that mixing can keep."""
    need = np.zeros(graph.n_components)
    np.maximum.at(need, graph.labels, sums)
    _raise_need(need, graph.labels, graph.pairs, graph.distances, epsilon, sums)
    return (1.0 / need)[graph.labels]


@njit(cache=True, nogil=True)
def _raise_need(  # noqa: PLR0917  (numba takes positions)
    need: NDArray[np.float64],
    labels: NDArray[np.int32],
    pairs: NDArray[np.int32],
    distances: NDArray[np.float64],
    epsilon: float,
    sums: NDArray[np.float64],
) -> None:
    """Raise each component's need to that of its pairs."""
    for p in range(len(pairs)):
        a, b = sums[pairs[p, 0]], sums[pairs[p, 1]]
        # rows at distance 0 are equal up to the order of summation; integers settle the rest
        if a == b or distances[p] == 0.0:
            continue
        gain = np.expm1(min(epsilon * distances[p], LARGEST_EXPONENT))
        own = max(a, b) + abs(a - b) / gain
        label = labels[pairs[p, 0]]
        need[label] = max(need[label], own)


def _closed_thinly_first(
    Z: NDArray[np.float64],
    graph: MdpGraph,
    epsilon: float,
    *,
    costs: NDArray[np.float64] | None,
    tolerance: float,
    is_due: Callable[[], bool],
    is_over: Callable[[], bool],
) -> _Closed:
    """Alternate on a thin graph at a budget that allows for its detours; then few rounds on all pairs remain.

    Similar outputs are placed together: closing then leaves most entries unchanged.
    """
    columns = _column_order(Z)
    Z, within = Z[:, columns], None if costs is None else costs[:, columns]
    stretch = min(LARGEST_STRETCH, STRETCH_PER_TOLERANCE * tolerance)
    edges = thin_edges(graph, stretch, is_over=is_over)
    thin = MdpGraph(graph.n, graph.pairs[edges], graph.distances[edges])
    held_back = 1.0 - (1.0 - min(RESERVE_LADDER[0], RUNG_PER_TOLERANCE * tolerance)) / (1.0 + stretch)
    for _ in range(THIN_ROUNDS):
        if is_due():
            break
        H = thin.closure(Z, epsilon * (1.0 - held_back), slack=ROW_SLACK, is_over=is_over)
        Z = H / H.sum(axis=1, keepdims=True)
    nothing = Z[:0]
    best = _alternate(
        Z,
        _Closed(nothing, nothing, nothing),
        graph,
        epsilon,
        costs=within,
        tolerance=tolerance,
        is_due=is_due,
        is_over=is_over,
        skip=THIN_RUNGS,
    )
    return _Closed(np.ascontiguousarray(best.H[:, np.argsort(columns)]), best.sums, best.keep)


def _alternate(
    Z: NDArray[np.float64],
    best: _Closed,
    graph: MdpGraph,
    epsilon: float,
    *,
    costs: NDArray[np.float64] | None,
    tolerance: float,
    is_due: Callable[[], bool],
    is_over: Callable[[], bool],
    skip: int = 0,
) -> _Closed:
    """Alternate closure and normalisation down the ladder of reserved shares; return the best matrix seen."""
    best_score = _score(best, graph, costs) if len(best.H) else np.inf
    done = np.inf
    for held_back in _rungs(tolerance)[skip:]:
        if is_due() and len(best.H):
            return best
        if held_back >= done:
            continue
        closed = _close(Z, graph, epsilon, held_back=held_back, is_over=is_over)
        score = _score(closed, graph, costs)
        if score < best_score:
            best, best_score = closed, score
        Z = closed.H / closed.sums[:, None]
        if closed.mixed <= NEGLIGIBLE_MIXED_SHARE:
            done = held_back
        if tolerance > 0.0 and _mixing_cost(closed, graph, costs) <= tolerance:
            return best
    return best


def _rungs(tolerance: float) -> list[float]:
    """Return the shares to reserve, one closure each; few and fast where a tolerance allows it."""
    if tolerance == 0.0:
        return [held_back for held_back in RESERVE_LADDER for _ in range(ROUNDS_PER_RUNG)]
    first = min(RESERVE_LADDER[0], RUNG_PER_TOLERANCE * tolerance)
    quick = [first * part for part in QUICK_LADDER]
    return quick + [0.5 * part for part in quick] + [0.25 * part for part in quick]


def _column_order(Z: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return an order of the outputs in which those reported by the same records are adjacent."""
    if not 2 < Z.shape[1] <= SORT_OUTPUTS_UP_TO:
        return np.arange(Z.shape[1])
    # comparing all outputs with one another must not take longer than the repair itself
    step = max(1, len(Z) // min(SAMPLED_RECORDS, MAX_COMPARED // Z.shape[1] ** 2))
    sample = np.add.reduceat(Z, np.arange(0, len(Z), step), axis=0)
    return leaves_list(linkage(pdist(np.sqrt(sample).T), "average")).astype(np.int64)


def _mixing_cost(closed: _Closed, graph: MdpGraph, costs: NDArray[np.float64] | None) -> float:
    """Return what mixing costs beyond scaling the rows, as a share of the loss."""
    if costs is None:
        return closed.mixed
    score = _score(closed, graph, costs)
    scaled = float(((costs * closed.H).sum(axis=1) / closed.sums).sum())
    return (score - scaled) / score if score > 0 else 0.0


def _score(closed: _Closed, graph: MdpGraph, costs: NDArray[np.float64] | None) -> float:
    """Return the expected loss after mixing, or the mixed share when no losses are known."""
    if costs is None:
        return closed.mixed
    left = np.maximum(1.0 - closed.keep * closed.sums, 0.0)
    kept = (costs * closed.H).sum(axis=1) @ closed.keep
    return float(kept + left @ costs[np.arange(graph.n), _fallback_outputs(closed.H, graph, costs)])


def _fallback_outputs(H: NDArray[np.float64], graph: MdpGraph, costs: NDArray[np.float64] | None) -> NDArray[np.int64]:
    """Return the output that takes the left-over mass, one per component: the best for all its records."""
    worth = H if costs is None else -costs
    total = np.zeros((graph.n_components, H.shape[1]))
    np.add.at(total, graph.labels, worth)
    output = total.argmax(axis=1)[graph.labels]
    # records without neighbours put the left-over mass on their largest entry
    return np.where(_is_alone(graph), H.argmax(axis=1), output)


def _is_alone(graph: MdpGraph) -> NDArray[np.bool_]:
    return (np.bincount(graph.labels) == 1)[graph.labels]


def _to_integers(
    closed: _Closed,
    outputs: NDArray[np.int64],
    graph: MdpGraph,
    epsilon: float,
    *,
    is_over: Callable[[], bool] = never,
) -> NDArray[np.uint64]:
    """Round to whole numbers, close among these, and add what is missing to 2^63 to one output per component."""
    indptr, indices, decay = graph.decays(epsilon, slack=ROW_SLACK)
    reserve = np.where(np.bincount(graph.labels) == 1, 0.0, FIRST_RESERVE_SHARE)
    while True:
        share = closed.keep * (1.0 - reserve[graph.labels])
        whole = np.floor(closed.H * (share * TOTAL)[:, None])
        whole = np.maximum(whole, closed.H > 0)  # positive entries stay positive
        close_columns(whole, indptr, indices, decay, whole=True, order=graph.sweep, is_over=is_over)
        table = whole.astype(np.uint64)
        left = (np.uint64(1 << 63) - table.sum(axis=1, dtype=np.uint64)).astype(np.int64)
        broken = left < 0
        for start in range(0, graph.n_pairs, PAIRS_AT_ONCE):
            part = slice(start, start + PAIRS_AT_ONCE)
            broken[_unfit(left, graph.pairs[part], graph.distances[part], epsilon)] = True
        if not broken.any():
            table[np.arange(graph.n), outputs] += left.astype(np.uint64)
            return table
        failing = np.unique(graph.labels[broken])
        reserve[failing] = np.maximum(2.0 * reserve[failing], FIRST_RESERVE_SHARE)
        if (reserve > 0.5).any():
            raise CertificationError("the matrix could not be made private by mixing: every share was tried")


def _unfit(
    left: NDArray[np.int64], pairs: NDArray[np.int32], distances: NDArray[np.float64], epsilon: float
) -> NDArray[np.int32]:
    """Return a record of each pair on which the left-over mass is not private: r_i <= g r_j, g rounded down."""
    growth = np.maximum(np.exp(np.minimum(epsilon * distances, LARGEST_EXPONENT)) * (1.0 - ROW_SLACK), 1.0)
    i, j = pairs[:, 0], pairs[:, 1]
    a, b = left[i].astype(np.float64), left[j].astype(np.float64)
    return i[(left[i] != left[j]) & ((a > growth * b) | (b > growth * a))]
