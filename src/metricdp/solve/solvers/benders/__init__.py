"""The paper's decomposition: a master over the boundary records, a subproblem per block, cuts between them."""

from metricdp.solve.solvers.benders.loop import Benders
from metricdp.solve.solvers.benders.options import BendersOptions

__all__ = ["Benders", "BendersOptions"]
