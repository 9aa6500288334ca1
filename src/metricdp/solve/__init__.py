"""Solvers: they search; what they find is repaired and certified before anyone gets it."""

from metricdp.solve.contract import Context, Ended, Incumbent, Solver, register
from metricdp.solve.executor import Cluster
from metricdp.solve.result import Result, Status, Trace
from metricdp.solve.solve import METHODS, solve
from metricdp.solve.solvers.benders import BendersOptions
from metricdp.solve.solvers.columns import ColumnOptions
from metricdp.solve.solvers.direct import DirectOptions
from metricdp.solve.solvers.firstorder import FirstOrderOptions
from metricdp.solve.solvers.interior import InteriorOptions

__all__ = [
    "METHODS",
    "BendersOptions",
    "Cluster",
    "ColumnOptions",
    "Context",
    "DirectOptions",
    "Ended",
    "FirstOrderOptions",
    "Incumbent",
    "InteriorOptions",
    "Result",
    "Solver",
    "Status",
    "Trace",
    "register",
    "solve",
]
