"""The exact privacy check of a table over a lattice: for every point of the region, in integer arithmetic.

A table of integers z_ck whose rows sum to 2^63 has at a point x the probabilities ``u_k(x) = sum_c w_c(x) z_ck / 2^63``
with quadratic B-splines as weights. In every cell u and its two derivatives are polynomials of degree 2 each way. Let
u_j, g_j and g'_j be their Bernstein coefficients (derivatives per cell) on the half lattice, (2 n + 1) (2 m + 1) of
them, which neighbouring cells share. If for all of them

    w g_j² + w' g'_j² <= u_j²,    w >= 1 / (epsilon h)²,  w' >= 1 / (epsilon h')²,

with h and h' the sides of a cell, then |grad u| <= epsilon u at every point (Bernstein polynomials are not negative
and sum to 1; norms are convex), hence ``u(x) <= exp(epsilon |x - y|) u(y)`` for all points x, y: a box is convex.

Four times each coefficient is a whole number, so whole numbers decide. A float comparison with a guard wider than its
rounding errors clears the easy ones. This file trusts no solver and no repair, and imports neither.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from metricdp.mechanism.certify import row_sum_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

WEIGHT_BITS = 64  # of the fractions of w and w'
# the sums below take at most 8 roundings (conversion, additions; products by 2 are exact), each 2^-53 of the sum of
# absolute values
SUM_GUARD = 2.0**-48
PRODUCT_GUARD = 2.0**-46  # relative; squares, products by the weights, and their sum
EXACT_AT_ONCE = 100_000  # inequalities that are decided in whole numbers: some 100 MB


@dataclass(frozen=True)
class PlaneCheck:
    """The result of the exact check of a region's table.

    ``tightest_epsilon`` is about the smallest budget at which the table would pass, rounded up (infinite if a
    coefficient is 0 where its derivative is not). ``fault`` says in words why a table did not pass.
    """

    certified: bool
    epsilon: float
    n_nodes: int
    n_outputs: int
    n_coefficients: int
    tightest_epsilon: float
    n_decided_exactly: int
    seconds: float
    fault: str = ""

    @property
    def n_compared(self) -> int:
        """Number of inequalities: each coefficient and output."""
        return self.n_coefficients * self.n_outputs


def exact_weights(epsilon: float, sides: tuple[Fraction, Fraction]) -> tuple[int, int]:
    """Return w and w' times 2^64, rounded up.

    Examples
    --------
    >>> exact_weights(0.5, (Fraction(1, 2), Fraction(1))) == (16 << 64, 4 << 64)
    True
    """
    first, second = (math.ceil((1 << WEIGHT_BITS) / (Fraction(epsilon) * side) ** 2) for side in sides)
    return first, second


def check_plane(
    table: NDArray[np.uint64], shape: tuple[int, int], epsilon: float, sides: tuple[Fraction, Fraction]
) -> PlaneCheck:
    """Check that ``table`` satisfies epsilon-mDP at all points of a region exactly.

    Parameters
    ----------
    table
        Whole numbers, shape (nodes, K), each row summing to 2^63; nodes row by row with the ring outside.
    shape
        The number of nodes each way.
    epsilon
        The budget per unit of distance, as its exact binary value.
    sides
        The sides of a cell, at most their true lengths.
    """
    begin = time.perf_counter()
    fault = row_sum_fault(table)
    weights = exact_weights(epsilon, sides)
    nodes = table.reshape(*shape, -1)
    counts = 2 * (shape[0] - 2) + 1, 2 * (shape[1] - 2) + 1
    n_exact, steepest = 0, math.inf if fault else 0.0
    if not fault:
        values = nodes.astype(np.float64)
        for p in range(counts[0]):
            unsure, ratio = _filter(values, p, weights)
            steepest = max(steepest, ratio)
            if fault:  # the rest is only measured
                continue
            unsure = unsure[~is_nearly_flat(_blocks(nodes, p, unsure), weights)]
            n_exact += len(unsure)
            broken = first_broken(unsure, partial(_holds, nodes, p, weights))
            if broken is not None:
                fault = (
                    f"output {broken[1]} changes too fast at coefficient {p}, {broken[0]} of the half lattice "
                    f"(of {counts[0]}, {counts[1]})"
                )
    tightest = epsilon * steepest * (1.0 + 1e-9)
    return PlaneCheck(
        certified=not fault,
        epsilon=epsilon,
        n_nodes=len(table),
        n_outputs=table.shape[1],
        n_coefficients=counts[0] * counts[1],
        tightest_epsilon=tightest if fault else min(tightest, epsilon),
        n_decided_exactly=n_exact,
        seconds=time.perf_counter() - begin,
        fault=fault,
    )


def _filter(values: NDArray[np.float64], p: int, weights: tuple[int, int]) -> tuple[NDArray[np.int64], float]:
    """Return which coefficients of row ``p`` floats cannot clear, as (q, output), and the largest |grad u| / epsilon u.

    All quantities are four times their value.
    """
    first = p // 2  # the first node that takes part
    if p % 2 == 0:  # on the border between two nodes
        mean, slope = values[first] + values[first + 1], 2.0 * (values[first + 1] - values[first])
        size = 2.0 * mean
    else:
        mean, slope = 2.0 * values[first + 1], values[first + 2] - values[first]
        size = mean + values[first] + values[first + 2]
    u, along = _across(mean)
    across, _ = _across(slope)
    room = SUM_GUARD * _size_across(size)
    w, v = (as_float(weight) / 2.0**WEIGHT_BITS * (1.0 + 2.0**-50) for weight in weights)
    least = u - room
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # weights may be beyond all floats
        steep = w * (np.abs(across) + room) ** 2 + v * (np.abs(along) + room) ** 2
        is_sure = (steep <= least * least * (1.0 - PRODUCT_GUARD)) & (least > 0) | (room == 0)
        ratio = np.where(room == 0, 0.0, np.where(least > 0, np.sqrt(steep) / least, np.inf))
    return np.argwhere(~is_sure), float(ratio.max(initial=0.0))


def is_nearly_flat(values: NDArray[np.uint64], weights: tuple[int, int]) -> NDArray[np.bool_]:
    """Return which rows of whole numbers satisfy every inequality, because they hardly differ; shape (n, nodes).

    With d the largest difference, which is exact, no slope is above d and no value below the least one. So equal values
    need no whole numbers of any length, however small epsilon is.
    """
    if not len(values):
        return np.zeros(0, dtype=bool)
    least = values.min(axis=1)
    difference = values.max(axis=1) - least
    steepness = math.sqrt(as_float(weights[0]) + as_float(weights[1])) / 2.0 ** (WEIGHT_BITS // 2)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray((difference == 0) | (steepness * difference * (1.0 + 1e-9) <= least))


def _blocks(nodes: NDArray[np.uint64], p: int, places: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the values of all nodes that take part in some coefficients (q, output) of row ``p``, a row for each."""
    q, k = places.T
    first = np.array([p // 2, p // 2 + 1, p // 2 + 2 * (p % 2)])
    second = q[:, None] // 2 + np.stack([0 * q, 0 * q + 1, 2 * (q % 2)], axis=1)
    return nodes[first[None, :, None], second[:, None, :], k[:, None, None]].reshape(len(places), 9)


def as_float(weight: int) -> float:
    """Return a weight as a float; infinite beyond all floats, so that whole numbers decide."""
    try:
        return float(weight)
    except OverflowError:
        return math.inf


def _across(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return twice the coefficients, and twice those of the derivative, along the first axis."""
    n = 2 * (len(values) - 2) + 1
    mean, slope = np.empty((n, *values.shape[1:])), np.empty((n, *values.shape[1:]))
    mean[::2], mean[1::2] = values[:-1] + values[1:], 2.0 * values[1:-1]
    slope[::2], slope[1::2] = 2.0 * (values[1:] - values[:-1]), values[2:] - values[:-2]
    return mean, slope


def _size_across(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a bound on the sum of absolute values of all terms in both."""
    size = np.empty((2 * (len(values) - 2) + 1, *values.shape[1:]))
    size[::2] = 2.0 * (values[:-1] + values[1:])
    size[1::2] = 2.0 * values[1:-1] + values[2:] + values[:-2]
    return size


def first_broken(
    unsure: NDArray[np.int64], holds: Callable[[NDArray[np.int64]], NDArray[np.bool_]]
) -> tuple[int, int] | None:
    """Return the first of some pairs (place, output) that break their inequality; None if all hold."""
    for start in range(0, len(unsure), EXACT_AT_ONCE):
        part = unsure[start : start + EXACT_AT_ONCE]
        broken = part[~holds(part)]
        if len(broken):
            return int(broken[0, 0]), int(broken[0, 1])
    return None


def are_private(
    across: NDArray[np.object_], along: NDArray[np.object_], u: NDArray[np.object_], weights: tuple[int, int]
) -> NDArray[np.bool_]:
    """Decide inequalities in whole numbers of any length: ``w across² + w' along² <= 2^64 u²`` with u not negative."""
    steepness = weights[0] * across * across + weights[1] * along * along
    return np.asarray((u >= 0) & (steepness <= u * u << WEIGHT_BITS), dtype=bool)


def _holds(nodes: NDArray[np.uint64], p: int, weights: tuple[int, int], places: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Decide some coefficients (q, output) of row ``p``."""
    found, blocks = np.zeros(len(places), dtype=bool), _blocks(nodes, p, places)
    for parity in range(2):
        chosen = places[:, 0] % 2 == parity
        z = blocks[chosen].astype(object).reshape(-1, 3, 3)
        means, slopes = _exact_line([z[:, :, i] for i in range(3)], parity)
        u, across = _exact_line([means[:, i] for i in range(3)], p)
        along, _ = _exact_line([slopes[:, i] for i in range(3)], p)
        found[chosen] = are_private(across, along, u, weights)
    return found


def _exact_line(values: list[NDArray[np.object_]], place: int) -> tuple[NDArray[np.object_], NDArray[np.object_]]:
    """Return twice the coefficient at ``place``, and twice that of the derivative, from the nodes that take part."""
    if place % 2 == 0:
        return values[0] + values[1], 2 * (values[1] - values[0])
    return 2 * values[1], values[2] - values[0]
