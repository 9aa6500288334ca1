"""Exact sampling: one 63-bit whole number from the operating system per draw, compared with the whole row.

The outcome is the number of cumulative weights that the random number has reached. Every draw makes the same
comparisons whatever the record and the outcome (no early exit, no branch on secret data, no rejection).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit, prange

from metricdp.errors import InputError, MetricDPError
from metricdp.metric.closure import PARALLEL_FROM, parallel_is_safe

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

DRAWS_AT_ONCE = 1 << 20


class RandomnessError(MetricDPError):
    """The operating system returned no randomness; nothing is drawn, and there is no fallback."""


def system_bits(count: int) -> NDArray[np.uint64]:
    """Return ``count`` uniform whole numbers below 2^63 from the operating system."""
    try:
        raw = os.urandom(8 * count)
    except (OSError, NotImplementedError) as error:
        raise RandomnessError(
            f"the operating system's randomness is not available ({error}): nothing was drawn"
        ) from error
    if len(raw) != 8 * count:
        raise RandomnessError(f"the operating system gave {len(raw)} of {8 * count} random bytes: nothing was drawn")
    return np.frombuffer(raw, dtype=np.uint64) >> np.uint64(1)


def seeded_bits_for_experiments_only(seed: int) -> Callable[[int], NDArray[np.uint64]]:
    """Return a repeatable source of bits. Reports made with it protect nobody: the seed reveals the record."""
    generator = np.random.Generator(np.random.PCG64(seed))
    return lambda count: generator.integers(0, 1 << 63, size=count, dtype=np.uint64)


def cumulative(table: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the cumulative weights of each row; the last column is 2^63."""
    return np.cumsum(table, axis=1, dtype=np.uint64)


def draw(
    steps: NDArray[np.uint64],
    rows: NDArray[np.int64],
    *,
    bits: Callable[[int], NDArray[np.uint64]] = system_bits,
) -> NDArray[np.int64]:
    """Draw one output for each record in ``rows``, given the cumulative weights ``steps`` of the table."""
    return draw_parts(_count_one_by_one, _count_in_parallel, steps, rows, len(steps), steps.shape[1], bits)


def draw_parts(  # noqa: PLR0917
    one_by_one: Callable[..., None],
    in_parallel: Callable[..., None],
    steps: Any,
    rows: NDArray[np.int64],
    n_rows: int,
    n_compared: int,
    bits: Callable[[int], NDArray[np.uint64]],
) -> NDArray[np.int64]:
    """Draw by one of two kernels, a part of ``rows`` at a time; each draw makes ``n_compared`` comparisons."""
    if rows.ndim != 1 or (rows.size and (rows.min() < 0 or rows.max() >= n_rows)):
        raise InputError(f"rows must be between 0 and {n_rows - 1}")
    result = np.empty(len(rows), dtype=np.int64)
    for start in range(0, len(rows), DRAWS_AT_ONCE):
        part = slice(start, start + DRAWS_AT_ONCE)
        chosen = rows[part]
        is_small = chosen.size * n_compared < PARALLEL_FROM or not parallel_is_safe()
        kernel = one_by_one if is_small else in_parallel
        kernel(steps, chosen, bits(len(chosen)), result[part])
    return result


@njit(cache=True, nogil=True)
def _reached(steps: NDArray[np.uint64], row: int, u: int) -> int:
    """Count the steps that ``u`` has reached, comparing with all of them."""
    reached = 0
    for k in range(steps.shape[1]):
        reached += u >= steps[row, k]
    return reached


@njit(cache=True, nogil=True)
def _count_one_by_one(
    steps: NDArray[np.uint64], rows: NDArray[np.int64], u: NDArray[np.uint64], result: NDArray[np.int64]
) -> None:
    for m in range(len(rows)):
        result[m] = _reached(steps, rows[m], u[m])


@njit(parallel=True, cache=True, nogil=True)
def _count_in_parallel(
    steps: NDArray[np.uint64], rows: NDArray[np.int64], u: NDArray[np.uint64], result: NDArray[np.int64]
) -> None:
    for m in prange(len(rows)):
        result[m] = _reached(steps, rows[m], u[m])
