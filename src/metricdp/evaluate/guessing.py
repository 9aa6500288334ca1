"""The best guess after each report of a sparse mechanism: exact, without any matrix.

After output k, record i has the weight ``q_i n_ik = q_i (scale_i b_k + l_ik)``, so guess g costs
``F(g) + b_k Q(g)``, with ``F(g) = sum_i q_i l_ik d(i, g)`` over the few stored weights and
``Q(g) = sum_i q_i scale_i d(i, g)``, which is the same for all outputs. By the triangle inequality
``F(g) >= M d(g, h) - F(h)`` for any other guess h, with ``M = sum_i q_i l_ik``: only guesses for which
``max(0, M d(g, h) - F(h)) + b_k Q(g)`` is below the best cost so far need be looked at, and they are few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit, prange

from metricdp.mechanism.exact import TOTAL_BITS
from metricdp.mechanism.sparse import SparseTable
from metricdp.metric.space import distance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.mechanism.sparse import ByOutput
    from metricdp.metric.space import Space

PRUNING_ROUNDING = 1e-9  # relative, far more than sums of distances are off


class Likely(NamedTuple):
    """The most likely record after each output, and how likely it is together with the output, by the true prior."""

    rows: NDArray[np.int64]
    joint: NDArray[np.float64]


def most_likely(table: SparseTable, belief: NDArray[np.float64], prior: NDArray[np.float64]) -> Likely:
    """Return the record that ``belief`` finds most likely after each output: exact, from the stored weights.

    Where nothing is stored, records differ by their scale alone; the likeliest of those is the same for all outputs.
    """
    by = table.by_output
    scale = table.scale.astype(np.float64)
    common = int(np.argmax(belief * scale))
    rows, joint = np.empty(table.shape[1], dtype=np.int64), np.empty(table.shape[1])
    _most_likely(by.indptr, by.rows, by.weights, table.background.astype(np.float64), scale, belief, common, rows)
    _joint(by.indptr, by.rows, by.weights, table.background.astype(np.float64), scale, prior, rows, joint)
    return Likely(rows, joint / 2.0**TOTAL_BITS)


def output_chances(table: NDArray[np.uint64] | SparseTable, prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how often each output is reported, ``sum_i p_i n_ik / 2^63``, shape (K,)."""
    if not isinstance(table, SparseTable):
        return prior @ (table / 2.0**TOTAL_BITS)
    by = table.by_output
    found = float(prior @ table.scale.astype(np.float64)) * table.background.astype(np.float64)
    _add_columns(by.indptr, by.rows, by.weights, prior, found)
    return found / 2.0**TOTAL_BITS


def background_share(table: SparseTable, prior: NDArray[np.float64]) -> float:
    """Return which share of all reports comes from the background, ``sum_i p_i scale_i sum_k b_k / 2^63``."""
    return float(prior @ table.scale.astype(np.float64)) * table.background_total / 2.0**TOTAL_BITS


def best_guesses_in(
    space: Space, table: SparseTable, belief: NDArray[np.float64], start: NDArray[np.int64], outputs: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the guess with the least expected distance after each of ``outputs``: exact up to rounding.

    ``space`` leads from records to guesses; ``start`` is a guess for each of the outputs, better if it is good.
    """
    common = space.flipped.sums(belief * table.scale.astype(np.float64))
    by = table.by_output
    found = np.empty(len(outputs), dtype=np.int64)
    _best(
        space.here,
        space.there,
        space.kind,
        space.unit,
        by.indptr,
        by.rows,
        by.weights,
        table.background.astype(np.float64),
        belief,
        common,
        start,
        outputs,
        found,
    )
    return found


def costs_in(
    space: Space,
    table: SparseTable,
    prior: NDArray[np.float64],
    guesses: NDArray[np.int64],
    outputs: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return the expected distance of ``guesses`` after ``outputs``, each together with its output's probability."""
    by, weight = table.by_output, prior * table.scale.astype(np.float64)
    asked, place = np.unique(guesses, return_inverse=True)
    to_asked = space.part(slice(None), asked).flipped
    found = table.background.astype(np.float64)[outputs] * to_asked.sums(weight)[place]
    _add_costs(space.here, space.there, space.kind, space.unit, by, prior, guesses, outputs, found)
    return found / 2.0**TOTAL_BITS


@njit(cache=True, nogil=True, parallel=True)
def _most_likely(  # noqa: PLR0917
    indptr: NDArray[np.int64],
    rows: NDArray[np.int32],
    weights: NDArray[np.uint64],
    background: NDArray[np.float64],
    scale: NDArray[np.float64],
    belief: NDArray[np.float64],
    common: int,
    found: NDArray[np.int64],
) -> None:
    for k in prange(len(found)):
        best, largest = common, belief[common] * scale[common] * background[k]
        for e in range(indptr[k], indptr[k + 1]):
            i = rows[e]
            value = belief[i] * (scale[i] * background[k] + float(weights[e]))
            if value > largest or (value == largest and i < best):
                best, largest = i, value
        found[k] = best


@njit(cache=True, nogil=True, parallel=True)
def _joint(  # noqa: PLR0917
    indptr: NDArray[np.int64],
    rows: NDArray[np.int32],
    weights: NDArray[np.uint64],
    background: NDArray[np.float64],
    scale: NDArray[np.float64],
    prior: NDArray[np.float64],
    chosen: NDArray[np.int64],
    found: NDArray[np.float64],
) -> None:
    for k in prange(len(found)):
        i = chosen[k]
        value = scale[i] * background[k]
        for e in range(indptr[k], indptr[k + 1]):
            if rows[e] == i:
                value += float(weights[e])
        found[k] = prior[i] * value


@njit(cache=True, nogil=True, parallel=True)
def _add_columns(
    indptr: NDArray[np.int64],
    rows: NDArray[np.int32],
    weights: NDArray[np.uint64],
    prior: NDArray[np.float64],
    found: NDArray[np.float64],
) -> None:
    for k in prange(len(found)):
        for e in range(indptr[k], indptr[k + 1]):
            found[k] += prior[rows[e]] * float(weights[e])


@njit(cache=True, nogil=True, parallel=True)
def _best(  # noqa: C901, PLR0917
    here: NDArray[np.float64],
    there: NDArray[np.float64],
    kind: int,
    unit: float,
    indptr: NDArray[np.int64],
    rows: NDArray[np.int32],
    weights: NDArray[np.uint64],
    background: NDArray[np.float64],
    belief: NDArray[np.float64],
    common: NDArray[np.float64],
    start: NDArray[np.int64],
    outputs: NDArray[np.int64],
    found: NDArray[np.int64],
) -> None:
    everywhere = np.argmin(common)
    for a in prange(len(outputs)):
        k, h = outputs[a], start[a]
        n, first = indptr[k + 1] - indptr[k], indptr[k]
        stored = np.empty(n)
        for e in range(n):
            stored[e] = -belief[rows[first + e]] * float(weights[first + e])
        order = np.argsort(stored)  # the heaviest first, so that a bad guess is given up early
        points, heavy = np.empty((n, here.shape[1])), np.empty(n)
        mass = 0.0
        for e in range(n):
            points[e], heavy[e] = here[rows[first + order[e]]], -stored[order[e]]
            mass += heavy[e]
        if mass == 0.0:
            found[a] = everywhere if background[k] > 0.0 else h
            continue
        local = 0.0
        for e in range(n):
            local += heavy[e] * distance(kind, unit, points[e], there[h])
        best, least = h, local + background[k] * common[h]
        for g in range(len(there)):
            cost = background[k] * common[g]
            near = mass * distance(kind, unit, there[g], there[h]) - local
            if cost + max(0.0, near) * (1.0 - PRUNING_ROUNDING) >= least:
                continue
            for e in range(n):
                cost += heavy[e] * distance(kind, unit, points[e], there[g])
                if cost >= least:
                    break
            if cost < least:
                best, least = g, cost
        found[a] = best


@njit(cache=True, nogil=True, parallel=True)
def _add_costs(  # noqa: PLR0917
    here: NDArray[np.float64],
    there: NDArray[np.float64],
    kind: int,
    unit: float,
    by: ByOutput,
    prior: NDArray[np.float64],
    guesses: NDArray[np.int64],
    outputs: NDArray[np.int64],
    found: NDArray[np.float64],
) -> None:
    for a in prange(len(outputs)):
        for e in range(by.indptr[outputs[a]], by.indptr[outputs[a] + 1]):
            i = by.rows[e]
            found[a] += prior[i] * float(by.weights[e]) * distance(kind, unit, here[i], there[guesses[a]])
