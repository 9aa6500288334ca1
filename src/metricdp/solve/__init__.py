"""Solvers: they search for a matrix, which is repaired and certified before it is returned.

``metricdp.solve`` is this room and can be called: ``metricdp.solve(problem)`` is `metricdp.solve.solve.solve`, so that
neither the function hides the room nor the room the function.
"""

import importlib
import inspect
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from metricdp.errors import InputError
from metricdp.problem.plane import PlaneProblem
from metricdp.solve.contract import Context, Ended, Incumbent, Solver, register
from metricdp.solve.executor import Cluster
from metricdp.solve.plane import PlaneResult, solve_plane
from metricdp.solve.result import Result, Status, Trace
from metricdp.solve.solve import METHODS, solve
from metricdp.solve.solvers.benders import BendersOptions
from metricdp.solve.solvers.columns import ColumnOptions
from metricdp.solve.solvers.direct import DirectOptions
from metricdp.solve.solvers.firstorder import FirstOrderOptions
from metricdp.solve.solvers.interior import InteriorOptions
from metricdp.solve.solvers.local import LocalOptions

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
    "LocalOptions",
    "PlaneResult",
    "Result",
    "Solver",
    "Status",
    "Trace",
    "register",
    "solve",
    "solve_plane",
]


class Room(ModuleType):
    """The module of this room, with the function of its name as its call; problems of regions go to `solve_plane`."""

    if TYPE_CHECKING:
        __call__ = staticmethod(solve)
    else:

        def __call__(self, problem: Any, **options: Any) -> Result | PlaneResult:
            """Solve a problem of records or of a region: each kind takes its own options."""
            if not isinstance(problem, PlaneProblem):
                return solve(problem, **options)
            known = [name for name in inspect.signature(solve_plane).parameters if name != "problem"]
            unknown = sorted(set(options) - set(known))
            if unknown:
                raise InputError(
                    f"a region is not solved with the option {unknown[0]!r}: use {', '.join(known[:-1])} or {known[-1]}"
                )
            return solve_plane(problem, **options)

    __signature__ = inspect.signature(solve)

    def __reduce__(self) -> tuple[Any, ...]:
        # a function can be sent to another process, so the room can be
        return importlib.import_module, (self.__name__,)


sys.modules[__name__].__class__ = Room
__doc__ = solve.__doc__ or ""  # what help(metricdp.solve) shows first
