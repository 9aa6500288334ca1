"""How much memory kernels and column generation take at least, in bytes, before mDP rows come in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metricdp.solve.lp import SOLVER_BYTES, lp_bytes
from metricdp.solve.solvers.columns.tight import UP_TO

if TYPE_CHECKING:
    from metricdp.solve.contract import Load

POOL_ENTRY = 36.0  # bytes of a kernel's entry: 12, three times while the pool grows
DENSE_ENTRY = 40.0  # bytes of a kernel's entry in closed form: paths, kernels, both systems and a copy to solve
PRICING_ENTRY = 24.0  # bytes of a record and output while prices are found: objectives, one output's at a time, columns


def pricing_bytes(load: Load) -> float:
    """Return the bytes of one program for each output with a column for each record, and a flag for each row."""
    return load.sizes.n_outputs * (lp_bytes(load.n, 0.0, 0.0) + PRICING_ENTRY * load.n + 2.0 * load.n_pairs)


def master_bytes(load: Load) -> float:
    """Return the bytes of one master: slack both ways, and columns of which all are kernels or like them."""
    return lp_bytes(3.0 * load.n, load.n, 2.0 * load.n + load.kernel_entries)


def kernel_bytes(load: Load) -> float:
    """Return the bytes of the best mixture of kernels, in closed form for few records, and of one pricing."""
    dense = DENSE_ENTRY * load.n * load.n if load.n <= UP_TO else 0.0
    mixture = POOL_ENTRY * load.kernel_entries + master_bytes(load)
    return SOLVER_BYTES + max(dense, mixture) + pricing_bytes(load)


def columns_bytes(load: Load) -> float:
    """Return the bytes of the pool, two masters, and a program for each output."""
    return SOLVER_BYTES + POOL_ENTRY * load.kernel_entries + 2.0 * master_bytes(load) + pricing_bytes(load)
