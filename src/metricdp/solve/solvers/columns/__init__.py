"""Decomposition by columns: every column of a mechanism lives in one cone, and they meet only in N unit sums."""

from metricdp.solve.solvers.columns.combine import best_combination
from metricdp.solve.solvers.columns.loop import Columns, Kernel
from metricdp.solve.solvers.columns.options import ColumnOptions

__all__ = ["ColumnOptions", "Columns", "Kernel", "best_combination"]
