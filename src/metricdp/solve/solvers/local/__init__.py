"""Windowed first-order solver, for problems in which (nearly) every record is an output."""

from metricdp.solve.solvers.local.counts import LocalCounts, local_counts
from metricdp.solve.solvers.local.loop import LocalFound, solve_windows
from metricdp.solve.solvers.local.options import LocalOptions
from metricdp.solve.solvers.local.problem import LocalProblem, Losses

__all__ = ["LocalCounts", "LocalFound", "LocalOptions", "LocalProblem", "Losses", "local_counts", "solve_windows"]
