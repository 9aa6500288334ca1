"""Which rows or outputs of a table are asked for: a number, a slice, numbers, or all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from metricdp.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Choice: TypeAlias = int | np.integer | slice | Sequence[int] | NDArray[np.integer] | None


def chosen(which: Choice, n: int, what: str) -> slice | NDArray[np.int64]:
    """Return the places that are asked for among ``n``: a slice with explicit ends, or checked numbers.

    Examples
    --------
    >>> chosen(None, 5, "rows"), chosen(slice(2, 9), 5, "rows"), chosen(3, 5, "rows").tolist()
    (slice(0, 5, 1), slice(2, 5, 1), [3])
    """
    if which is None:
        return slice(0, n, 1)
    if isinstance(which, slice):
        start, stop, step = which.indices(n)
        if step == 1:
            return slice(start, max(start, stop), 1)
        return np.arange(start, stop, step, dtype=np.int64)
    numbers = np.atleast_1d(np.asarray(which))
    if numbers.size == 0:
        return np.zeros(0, dtype=np.int64)
    if numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.integer):
        raise InputError(f"{what} of a block must be whole numbers in one row, or a slice, got {numbers.dtype}")
    if numbers.min() < 0 or numbers.max() >= n:
        raise InputError(f"{what} of a block must be between 0 and {n - 1}")
    return numbers.astype(np.int64)


def count_of(n_entries: int, max_bytes: float) -> int:
    """Return how many rows of ``n_entries`` numbers of 8 bytes fit into ``max_bytes``: at least one."""
    return max(1, int(max_bytes // (8 * n_entries)))
