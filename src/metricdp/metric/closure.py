"""The closure (docs/theory.md): the smallest matrix above a given one whose columns satisfy every mDP row.

For a column v, ``closure(v)_j = max_i exp(-epsilon D_ij) v_i`` with D the path distance in the mDP graph. It is
computed on the sparse graph by alternating max-passes; no N x N matrix is formed. The result is the least fixed point
of a monotone map, so it does not depend on the order of the passes or on the number of threads.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from numba import config, get_num_threads, njit, set_num_threads

from metricdp.errors import StoppedError
from metricdp.metric.simd import WIDTH, raise_to, raise_to_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

COLUMNS_PER_TASK = 8  # a cache line of each row
PARALLEL_FROM = 500_000  # entries of work; below it starting threads costs more than it saves
INTERRUPTIBLE_FROM = 20_000_000  # entries of work from which several calls are made, so that it can be interrupted
_first_process: int | None = None


@contextmanager
def kernel_threads(threads: int | None) -> Iterator[None]:
    """Run kernels with at most ``threads`` threads in this block; None leaves the number as it is."""
    before = get_num_threads()
    set_num_threads(before if threads is None else min(threads, config.NUMBA_NUM_THREADS))
    try:
        yield
    finally:
        set_num_threads(before)


def never() -> bool:
    """Return False, for work without a time limit."""
    return False


def parallel_is_safe() -> bool:
    """Return whether this process may run parallel kernels; a child forked after its parent ran some may not."""
    global _first_process  # noqa: PLW0603
    if _first_process is None:
        _first_process = os.getpid()
    return _first_process == os.getpid()


def close_columns(
    V: NDArray[np.float64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    decay: NDArray[np.float64],
    *,
    whole: bool,
    order: NDArray[np.int64] | None = None,
    is_over: Callable[[], bool] = never,
) -> None:
    """Raise ``V`` in place until ``V[j] >= decay * V[i]`` on all edges.

    With ``whole`` the bound is rounded up to a whole number: the closure among integer tables. ``order`` is the order
    in which passes go through the rows; one in which neighbours are near makes them fewer and changes nothing else.
    ``is_over`` is called now and then: if it returns True, StoppedError is raised and ``V`` is incomplete.
    """
    rows = np.arange(len(V)) if order is None else order
    K, work = V.shape[1], len(indices) * V.shape[1]
    is_small = work < PARALLEL_FROM or not parallel_is_safe()
    close = _close_one_by_one if is_small else _close_in_parallel
    # columns do not depend on one another, so a part of them at a time gives the same
    at_once = COLUMNS_PER_TASK * get_num_threads() if work >= INTERRUPTIBLE_FROM else max(K, 1)
    for low in range(0, K, at_once):
        if is_over():
            raise StoppedError("a closure was interrupted")
        close(V, indptr, indices, decay, rows, whole, low, min(low + at_once, K))


def _close_in_parallel(  # noqa: PLR0917  (as `_close_one_by_one`)
    V: NDArray[np.float64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    decay: NDArray[np.float64],
    order: NDArray[np.int64],
    whole: bool,
    first: int,
    last: int,
) -> None:
    """Close the columns in threads: numba's own take a second longer to compile, and this kernel needs no lock."""

    def close(low: int) -> None:
        _close_one_by_one(V, indptr, indices, decay, order, whole, low, min(low + COLUMNS_PER_TASK, last))

    with ThreadPoolExecutor(get_num_threads()) as pool:
        list(pool.map(close, range(first, last, COLUMNS_PER_TASK)))


# Kernels are compiled at the first solve after an installation, so they are written for the compiler as well: loops in
# place of slices with methods, and few arrays made inside, each of which costs a tenth of a second or more.


@njit(cache=True, nogil=True)
def _raise(V: NDArray[np.float64], i: int, j: int, w: float, whole: bool, low: int, high: int) -> bool:  # noqa: PLR0917
    """Raise row j to ``w`` times row i in the columns from ``low`` to ``high``; return whether anything rose."""
    K = V.shape[1]
    risen = False
    k = low
    while k + WIDTH <= high:
        if whole:
            risen |= raise_to_whole(V, j * K + k, i * K + k, w)
        else:
            risen |= raise_to(V, j * K + k, i * K + k, w)
        k += WIDTH
    while k < high:
        bound = np.ceil(w * V[i, k]) if whole else w * V[i, k]
        if bound > V[j, k]:
            V[j, k] = bound
            risen = True
        k += 1
    return risen


@njit(cache=True, nogil=True)
def _range_of(V: NDArray[np.float64], row: int, low: int, high: int) -> tuple[float, float]:
    """Return the largest and the smallest entry of a row between two columns."""
    top = bottom = V[row, low]
    for k in range(low + 1, high):
        top, bottom = max(top, V[row, k]), min(bottom, V[row, k])
    return top, bottom


@njit(cache=True, nogil=True)
def _close_range(  # noqa: PLR0917  (one loop nest; numba takes positions)
    V: NDArray[np.float64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    decay: NDArray[np.float64],
    order: NDArray[np.int64],
    whole: bool,
    low: int,
    high: int,
) -> None:
    """Close the columns from ``low`` to ``high``."""
    n = V.shape[0]
    changed_in = np.empty(n, np.int64)  # the pass in which a row last rose
    top, bottom = np.empty(n), np.empty(n)  # the largest and the smallest entry of each row
    for i in range(n):
        changed_in[i] = 0
        top[i], bottom[i] = _range_of(V, i, low, high)
    step = 0
    rising = True
    while rising:
        rising = False
        step += 1
        for position in range(n):
            j = order[position if step % 2 == 1 else n - 1 - position]
            risen = False
            for e in range(indptr[j], indptr[j + 1]):
                i = indices[e]
                if changed_in[i] < step - 1:
                    continue
                # far from an output all entries are small, and nothing there can raise anything
                if decay[e] * top[i] > bottom[j] and _raise(V, i, j, decay[e], whole, low, high):
                    risen = True
                    _, bottom[j] = _range_of(V, j, low, high)
            if risen:
                top[j], _ = _range_of(V, j, low, high)
                changed_in[j] = step
                rising = True


@njit(cache=True, nogil=True)
def _close_one_by_one(  # noqa: PLR0917
    V: NDArray[np.float64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    decay: NDArray[np.float64],
    order: NDArray[np.int64],
    whole: bool,
    first: int,
    last: int,
) -> None:
    for low in range(first, last, COLUMNS_PER_TASK):
        _close_range(V, indptr, indices, decay, order, whole, low, min(low + COLUMNS_PER_TASK, last))
