"""The paper's decomposition: a master over the boundary records, a subproblem per block, cuts between them."""

from metricdp.solve.solvers.benders.loop import solve_by_benders
from metricdp.solve.solvers.benders.options import BendersOptions

__all__ = ["BendersOptions", "solve_by_benders"]
