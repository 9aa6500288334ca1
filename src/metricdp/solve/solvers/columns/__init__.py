"""Decomposition by columns: every column of a mechanism lives in one cone, and they meet only in N unit sums."""

from metricdp.solve.solvers.columns.combine import best_combination
from metricdp.solve.solvers.columns.loop import solve_by_columns, solve_by_kernels
from metricdp.solve.solvers.columns.options import ColumnOptions

__all__ = ["ColumnOptions", "best_combination", "solve_by_columns", "solve_by_kernels"]
