"""metricdp: optimal metric differential privacy that is proved, not promised.

Every name below is imported when it is first used: ``import metricdp`` alone takes almost no time.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from metricdp.errors import CertificationError, FileFormatError, InputError, MetricDPError, MissingExtraError

if TYPE_CHECKING:
    from metricdp import (
        apply,
        budget,
        data,
        evaluate,
        extras,
        mechanism,
        metric,
        partition,
        problem,
        report,
        statistics,
    )
    from metricdp.budget import BudgetExceededError, BudgetsExceededError, Ledger, LedgerError, Memoized, memoize
    from metricdp.data import Records
    from metricdp.evaluate import Plan, RegionPlan, Tracker, audit, plan
    from metricdp.extras import MetricPrivacy
    from metricdp.mechanism import (
        Certificate,
        Mechanism,
        PlaneMechanism,
        RandomnessError,
        SnappedReports,
        epsilon_for,
        exponential,
        load,
        load_plane,
    )
    from metricdp.problem import PlaneProblem, Problem
    from metricdp.solve import (
        BendersOptions,
        Cluster,
        ColumnOptions,
        DirectOptions,
        FirstOrderOptions,
        InteriorOptions,
        LocalOptions,
        PlaneResult,
        Result,
        Room,
        Status,
        solve_plane,
    )
    from metricdp.statistics import PopulationEstimate, estimate

    solve: Room  # a room that can be called: metricdp/solve/__init__.py says why

__version__ = "0.1.0"

ROOMS = (
    "apply",
    "budget",
    "data",
    "evaluate",
    "extras",
    "mechanism",
    "metric",
    "partition",
    "problem",
    "report",
    "solve",
    "statistics",
)
# the room that each name comes from
ROOM_OF = {
    "BendersOptions": "solve",
    "BudgetExceededError": "budget",
    "BudgetsExceededError": "budget",
    "Certificate": "mechanism",
    "Cluster": "solve",
    "ColumnOptions": "solve",
    "DirectOptions": "solve",
    "FirstOrderOptions": "solve",
    "InteriorOptions": "solve",
    "LocalOptions": "solve",
    "Ledger": "budget",
    "LedgerError": "budget",
    "Mechanism": "mechanism",
    "Memoized": "budget",
    "MetricPrivacy": "extras",
    "Plan": "evaluate",
    "PlaneMechanism": "mechanism",
    "PlaneProblem": "problem",
    "PlaneResult": "solve",
    "PopulationEstimate": "statistics",
    "Problem": "problem",
    "RandomnessError": "mechanism",
    "Records": "data",
    "RegionPlan": "evaluate",
    "Result": "solve",
    "SnappedReports": "mechanism",
    "Status": "solve",
    "Tracker": "evaluate",
    "audit": "evaluate",
    "epsilon_for": "mechanism",
    "estimate": "statistics",
    "exponential": "mechanism",
    "load": "mechanism",
    "load_plane": "mechanism",
    "memoize": "budget",
    "plan": "evaluate",
    "solve_plane": "solve",
}

__all__ = [
    "BendersOptions",
    "BudgetExceededError",
    "BudgetsExceededError",
    "Certificate",
    "CertificationError",
    "Cluster",
    "ColumnOptions",
    "DirectOptions",
    "FileFormatError",
    "FirstOrderOptions",
    "InputError",
    "InteriorOptions",
    "Ledger",
    "LedgerError",
    "LocalOptions",
    "Mechanism",
    "Memoized",
    "MetricDPError",
    "MetricPrivacy",
    "MissingExtraError",
    "Plan",
    "PlaneMechanism",
    "PlaneProblem",
    "PlaneResult",
    "PopulationEstimate",
    "Problem",
    "RandomnessError",
    "Records",
    "RegionPlan",
    "Result",
    "SnappedReports",
    "Status",
    "Tracker",
    "__version__",
    "apply",
    "audit",
    "budget",
    "data",
    "epsilon_for",
    "estimate",
    "evaluate",
    "exponential",
    "extras",
    "load",
    "load_plane",
    "mechanism",
    "memoize",
    "metric",
    "partition",
    "plan",
    "problem",
    "report",
    "solve",
    "solve_plane",
    "statistics",
]


def __getattr__(name: str) -> Any:
    if name in ROOMS:
        return importlib.import_module(f"metricdp.{name}")
    if name in ROOM_OF:
        value = getattr(importlib.import_module(f"metricdp.{ROOM_OF[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'metricdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
