"""The first-order method: matrix-free primal-dual iterations with certified gaps, for whole cities."""

from metricdp.solve.solvers.firstorder.loop import solve_by_first_order
from metricdp.solve.solvers.firstorder.options import FirstOrderOptions, stretch_for

__all__ = ["FirstOrderOptions", "solve_by_first_order", "stretch_for"]
