"""Parts of a table, dense or sparse, in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import InputError
from metricdp.mechanism.choice import chosen, count_of
from metricdp.mechanism.exact import TOTAL_BITS
from metricdp.mechanism.sparse import SparseTable
from metricdp.problem.memory_model import available_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from metricdp.mechanism.choice import Choice

BLOCK_BYTES = 2.0**26  # of one block: 1,500 outputs of 5,600 records


def weights_of(
    table: NDArray[np.uint64] | SparseTable, rows: Choice = None, outputs: Choice = None
) -> NDArray[np.uint64]:
    """Return the whole-number weights of ``rows`` and ``outputs`` as a dense block."""
    if isinstance(table, SparseTable):
        return table.block(rows, outputs)
    n, K = table.shape
    return table[chosen(rows, n, "rows")][:, chosen(outputs, K, "outputs")]


def row_blocks(table: NDArray[np.uint64] | SparseTable, max_bytes: float) -> Iterator[tuple[slice, NDArray[np.uint64]]]:
    """Yield the rows of a table a part at a time, as slices and dense blocks of at most ``max_bytes`` (or one row)."""
    n, K = table.shape
    at_once = count_of(K, max_bytes)
    for start in range(0, n, at_once):
        part = slice(start, min(start + at_once, n))
        yield part, weights_of(table, part)


def probabilities_of(table: NDArray[np.uint64] | SparseTable) -> NDArray[np.float64]:
    """Return the whole table as floats, rounded; refuse what does not fit into the memory that is available."""
    n, K = table.shape
    needed = (8.0 if isinstance(table, np.ndarray) else 16.0) * n * K  # a sparse table is made dense first
    available = available_bytes()
    if needed > available:
        raise InputError(
            f"all probabilities of {n} records and {K} outputs at once need {needed / 1e9:.3g} GB, and "
            f"{available / 1e9:.3g} GB are available: use mechanism.block(rows) for some rows, or "
            "mechanism.row_blocks() for all, a part at a time"
        )
    return weights_of(table) / 2.0**TOTAL_BITS
