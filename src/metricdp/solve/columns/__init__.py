"""Decomposition by columns: every column of a mechanism lives in one cone, and they meet only in N unit sums."""

from metricdp.solve.columns.loop import solve_by_columns, solve_by_kernels
from metricdp.solve.columns.options import ColumnOptions

__all__ = ["ColumnOptions", "solve_by_columns", "solve_by_kernels"]
