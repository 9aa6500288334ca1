"""The interior point method: K matrices with the graph's pattern, one dense matrix of the unit sums."""

from metricdp.solve.solvers.interior.loop import Interior
from metricdp.solve.solvers.interior.options import InteriorOptions

__all__ = ["Interior", "InteriorOptions"]
