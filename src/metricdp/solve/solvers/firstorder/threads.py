"""Rows shared out among threads: numba's own take a second longer to compile for each kernel, and no less to run."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING

from numba import get_num_threads

if TYPE_CHECKING:
    from collections.abc import Callable

PARTS_PER_THREAD = 4  # rows take unequally long, and each part costs some 20 microseconds


def in_threads(work: Callable[[int, int], None], n: int, *, is_large: bool) -> None:
    """Do ``work(first, last)`` for parts that make up the rows 0 to n, in threads if there are many.

    The work is a kernel that lets other threads run, and writes each row from that row's part alone.
    """
    threads = get_num_threads() if is_large else 1
    if threads == 1:
        work(0, n)
        return
    size = max(1, -(-n // (threads * PARTS_PER_THREAD)))

    def part(first: int) -> None:
        work(first, min(first + size, n))

    list(_pool(os.getpid(), threads).map(part, range(0, n, size)))


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:  # noqa: ARG001  (a forked process has no threads)
    """Return the threads of this process: making new ones for each step would take a tenth of its time."""
    return ThreadPoolExecutor(threads)
