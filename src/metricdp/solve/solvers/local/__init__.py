"""First-order steps on windows, for problems in which (nearly) every record is an output."""

from metricdp.solve.solvers.local.method import Local
from metricdp.solve.solvers.local.options import LocalOptions

__all__ = ["Local", "LocalOptions"]
