"""The closure of THEORY: the smallest matrix above a given one whose columns satisfy every mDP row.

For a column v, ``closure(v)_j = max_i exp(-epsilon D_ij) v_i`` with D the path distance in the mDP graph. It is
computed on the sparse graph by alternating max-passes; no N x N matrix is formed. The result is the least fixed point
of a monotone map, so it does not depend on the order of the passes or on the number of threads.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from numba import config, get_num_threads, njit, prange, set_num_threads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

COLUMNS_PER_TASK = 16


@contextmanager
def kernel_threads(threads: int | None) -> Iterator[None]:
    """Run kernels with at most ``threads`` threads in this block; None leaves the number as it is."""
    before = get_num_threads()
    set_num_threads(before if threads is None else min(threads, config.NUMBA_NUM_THREADS))
    try:
        yield
    finally:
        set_num_threads(before)


@njit(parallel=True, cache=True, nogil=True)
def close_columns(
    V: NDArray[np.float64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    decay: NDArray[np.float64],
    whole: bool,
) -> int:
    """Raise ``V`` in place until ``V[j] >= decay * V[i]`` on all edges; give the most passes that a column needed.

    With ``whole`` the bound is rounded up to a whole number: the closure among integer tables.
    """
    n, K = V.shape
    n_tasks = (K + COLUMNS_PER_TASK - 1) // COLUMNS_PER_TASK
    passes = np.zeros(max(n_tasks, 1), dtype=np.int64)
    for task in prange(n_tasks):
        low = task * COLUMNS_PER_TASK
        high = min(low + COLUMNS_PER_TASK, K)
        changed_in = np.zeros(n, dtype=np.int64)  # the pass in which a row last rose
        step = 0
        rising = True
        while rising:
            rising = False
            step += 1
            for position in range(n):
                j = position if step % 2 == 1 else n - 1 - position
                risen = False
                for e in range(indptr[j], indptr[j + 1]):
                    i = indices[e]
                    if changed_in[i] < step - 1:
                        continue
                    w = decay[e]
                    for k in range(low, high):
                        bound = w * V[i, k]
                        if whole:
                            bound = np.ceil(bound)
                        if bound > V[j, k]:
                            V[j, k] = bound
                            risen = True
                if risen:
                    changed_in[j] = step
                    rising = True
        passes[task] = step
    return passes.max()
