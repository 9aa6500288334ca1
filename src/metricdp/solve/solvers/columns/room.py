"""The least memory of kernels and column generation, in bytes, before mDP rows are added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metricdp.solve.lp import SOLVER_BYTES, lp_bytes
from metricdp.solve.solvers.columns.tight import MAX_RECORDS

if TYPE_CHECKING:
    from metricdp.solve.contract import Load

POOL_ENTRY_BYTES = 36.0  # for a kernel's entry: 12, three times while the pool grows
DENSE_ENTRY_BYTES = 40.0  # for a kernel's entry in closed form: paths, kernels, both systems and a copy to solve
PRICING_ENTRY_BYTES = 24.0  # for a record and output during pricing: objectives, one output's at a time, and columns


def pricing_bytes(load: Load) -> float:
    """Return the bytes of one program for each output with a column for each record, and a flag for each row."""
    return load.sizes.n_outputs * (lp_bytes(load.n, 0.0, 0.0) + PRICING_ENTRY_BYTES * load.n + 2.0 * load.n_pairs)


def master_bytes(load: Load) -> float:
    """Return the bytes of one master: slack both ways, and columns of which all are kernels or like them."""
    return lp_bytes(3.0 * load.n, load.n, 2.0 * load.n + load.kernel_entries)


def kernel_bytes(load: Load) -> float:
    """Return the bytes of the best mixture of kernels, in closed form for few records, and of one pricing."""
    dense = DENSE_ENTRY_BYTES * load.n * load.n if load.n <= MAX_RECORDS else 0.0
    mixture = POOL_ENTRY_BYTES * load.kernel_entries + master_bytes(load)
    return SOLVER_BYTES + max(dense, mixture) + pricing_bytes(load)


def columns_bytes(load: Load) -> float:
    """Return the bytes of the pool, two masters, and a program for each output."""
    return SOLVER_BYTES + POOL_ENTRY_BYTES * load.kernel_entries + 2.0 * master_bytes(load) + pricing_bytes(load)
