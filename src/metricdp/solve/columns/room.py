"""How much memory kernels and column generation take at least, in bytes, before mDP rows come in."""

from __future__ import annotations

from metricdp.solve.columns.tight import UP_TO
from metricdp.solve.lp import lp_bytes

POOL_ENTRY = 36.0  # bytes of a kernel's entry: 12, three times while the pool grows
DENSE_ENTRY = 40.0  # bytes of a kernel's entry in closed form: paths, kernels, both systems and a copy to solve
PRICING_ENTRY = 24.0  # bytes of a record and output while prices are found: objectives, one output's at a time, columns


def pricing_bytes(n: float, n_outputs: int, n_pairs: float) -> float:
    """Return the bytes of one program for each output with a column for each record, and a flag for each row."""
    return n_outputs * (lp_bytes(n, 0.0, 0.0) + PRICING_ENTRY * n + 2.0 * n_pairs)


def master_bytes(n: float, kernel_entries: float, columns: float) -> float:
    """Return the bytes of one master: slack both ways, and columns of which all are kernels or like them."""
    return lp_bytes(2.0 * n + columns, n, 2.0 * n + kernel_entries)


def kernel_bytes(n: float, n_outputs: int, n_pairs: float, kernel_entries: float) -> float:
    """Return the bytes of the best mixture of kernels, in closed form for few records, and of one pricing."""
    dense = DENSE_ENTRY * n * n if n <= UP_TO else 0.0
    mixture = POOL_ENTRY * kernel_entries + master_bytes(n, kernel_entries, n)
    return max(dense, mixture) + pricing_bytes(n, n_outputs, n_pairs)


def columns_bytes(n: float, n_outputs: int, n_pairs: float, kernel_entries: float) -> float:
    """Return the bytes of the pool, two masters, and a program for each output."""
    pool = POOL_ENTRY * kernel_entries
    return pool + 2.0 * master_bytes(n, kernel_entries, n) + pricing_bytes(n, n_outputs, n_pairs)
