"""Solvers: they search; what they find is repaired and certified before anyone gets it."""

from metricdp.solve.benders import BendersOptions
from metricdp.solve.columns import ColumnOptions
from metricdp.solve.direct import DirectOptions
from metricdp.solve.executor import Cluster
from metricdp.solve.firstorder import FirstOrderOptions
from metricdp.solve.result import Result, Status, Trace
from metricdp.solve.solve import METHODS, solve

__all__ = [
    "METHODS",
    "BendersOptions",
    "Cluster",
    "ColumnOptions",
    "DirectOptions",
    "FirstOrderOptions",
    "Result",
    "Status",
    "Trace",
    "solve",
]
