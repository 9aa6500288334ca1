"""Exact sampling from sparse tables: one 63-bit whole number per draw, the same work whatever the record and outcome.

A draw below the sum of the row's stored weights is the output whose cumulative weight it reaches. Above, less that sum,
it lies among ``scale_i`` copies of the common background: exact, since ``floor(v / s) >= c`` means ``v >= s c``, and
not even a division is needed.

For every draw from a table, both searches are made, and the result is chosen by arithmetic. The same for all records
and outcomes are: the number of stored weights that are added up and compared (as many as the longest row stores; those
of other rows are read and counted as 0), the number of steps through the background (the binary digits of K), and all
operations of each step (additions, comparisons, multiplications; no division, no branch on secret data, no early exit).
Not the same are addresses in memory (the row's place, the places of the search, the one output that is read), and so
what a processor's caches hold: who can observe the caches of this machine can learn something, as with a dense table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit, prange

from metricdp.data.frozen import frozen
from metricdp.mechanism.sample import draw_parts, system_bits

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from metricdp.mechanism.sparse import SparseTable


class SparseSteps(NamedTuple):
    """What draws from a sparse table need: its arrays, and the cumulative background."""

    indptr: NDArray[np.int64]
    columns: NDArray[np.int32]
    weights: NDArray[np.uint64]
    totals: NDArray[np.uint64]  # of each row's stored weights
    scale: NDArray[np.uint64]
    background: NDArray[np.uint64]  # cumulative, shape (K,)
    longest: int  # stored weights of the longest row, which are compared for every record
    first_digit: int  # the largest power of two that is at most K

    @property
    def n_compared(self) -> int:
        """Number of comparisons of each draw."""
        return self.longest + self.first_digit.bit_length()


def sparse_steps(table: SparseTable) -> SparseSteps:
    """Return what draws from ``table`` need; the stored weights are those of the table, without a copy."""
    K = table.shape[1]
    has_none = table.n_stored == 0  # kernels read at least one stored weight, of which nothing is made
    return SparseSteps(
        table.indptr,
        np.zeros(1, dtype=np.int32) if has_none else table.columns,
        np.zeros(1, dtype=np.uint64) if has_none else table.weights,
        table.stored_totals,
        table.scale,
        frozen(np.cumsum(table.background, dtype=np.uint64)),
        table.longest,
        1 << (K.bit_length() - 1),
    )


def draw_sparse(
    steps: SparseSteps,
    rows: NDArray[np.int64],
    *,
    bits: Callable[[int], NDArray[np.uint64]] = system_bits,
) -> NDArray[np.int64]:
    """Draw one output for each record in ``rows``."""
    return draw_parts(_each, _each_in_parallel, steps, rows, len(steps.scale), steps.n_compared, bits)


def output_of(table: SparseTable, row: int, u: int) -> int:
    """Return the output that record ``row`` reports when the random whole number is ``u``, below 2^63.

    Examples
    --------
    >>> from metricdp.mechanism.sparse import SparseTable
    >>> half = SparseTable.from_dense([[3 << 61, 1 << 61], [1 << 61, 3 << 61]])
    >>> [output_of(half, 0, u) for u in (0, 2**62 - 1, 2**62, 2**62 + 2**61 - 1, 2**62 + 2**61)]
    [0, 0, 0, 0, 1]
    """
    return int(draw_sparse(sparse_steps(table), np.array([row]), bits=lambda _: np.array([u], dtype=np.uint64))[0])


@njit(cache=True, nogil=True)
def _output(steps: SparseSteps, row: Any, u: Any) -> Any:
    begin, total = steps.indptr[row], steps.totals[row]
    length = steps.indptr[row + 1] - begin
    # as many stored weights as the longest row has, wherever the row is: the last rows read some before their own
    shift = max(begin + steps.longest - len(steps.weights), 0)
    first, reached, sum_so_far = begin - shift, 0, np.uint64(0)
    for t in range(steps.longest):
        is_own = (t >= shift) & (t < shift + length)
        sum_so_far += steps.weights[first + t] * np.uint64(is_own)
        reached += is_own & (u >= sum_so_far)
    last = len(steps.columns) - 1
    stored = np.int64(steps.columns[min(begin + reached, last)])
    # the background: the number of cumulative sums c with scale c <= u - total, digit by digit
    is_beyond = np.uint64(u >= total)
    v, scale, K = (u - total) * is_beyond, steps.scale[row], len(steps.background)
    shared: Any = 0
    digit = steps.first_digit
    while digit > 0:
        place = shared + digit
        is_within = np.int64(place <= K)
        c = steps.background[place * is_within - is_within]
        shared += digit * (is_within & np.int64(v >= scale * c))
        digit >>= 1
    return stored + np.int64(is_beyond) * (shared - stored)


@njit(cache=True, nogil=True)
def _each(steps: SparseSteps, rows: NDArray[np.int64], u: NDArray[np.uint64], result: NDArray[np.int64]) -> None:
    for m in range(len(rows)):
        result[m] = _output(steps, rows[m], u[m])


@njit(parallel=True, cache=True, nogil=True)
def _each_in_parallel(
    steps: SparseSteps, rows: NDArray[np.int64], u: NDArray[np.uint64], result: NDArray[np.int64]
) -> None:
    for m in prange(len(rows)):
        result[m] = _output(steps, rows[m], u[m])
