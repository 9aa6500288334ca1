"""The first-order method: matrix-free primal-dual iterations with certified gaps, for whole cities."""

from metricdp.solve.solvers.firstorder.loop import FirstOrder
from metricdp.solve.solvers.firstorder.options import FirstOrderOptions, stretch_for

__all__ = ["FirstOrder", "FirstOrderOptions", "stretch_for"]
