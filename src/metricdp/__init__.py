"""metricdp: optimal metric differential privacy that is proved, not promised."""

from metricdp import apply, budget, data, extras, metric
from metricdp.budget import BudgetExceededError, BudgetsExceededError, Ledger, LedgerError, Memoized, memoize
from metricdp.data import Records
from metricdp.errors import CertificationError, FileFormatError, InputError, MetricDPError, MissingExtraError
from metricdp.extras import MetricPrivacy
from metricdp.mechanism import Certificate, Mechanism, RandomnessError, SnappedReports, exponential, load
from metricdp.problem import Problem
from metricdp.report.notebook import attach as _attach
from metricdp.solve import (
    BendersOptions,
    Cluster,
    ColumnOptions,
    DirectOptions,
    FirstOrderOptions,
    Result,
    Status,
    solve,
)

__version__ = "0.1.0"

_attach()  # plots and HTML for classes that cannot import the room that draws them

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
    "Ledger",
    "LedgerError",
    "Mechanism",
    "Memoized",
    "MetricDPError",
    "MetricPrivacy",
    "MissingExtraError",
    "Problem",
    "RandomnessError",
    "Records",
    "Result",
    "SnappedReports",
    "Status",
    "__version__",
    "apply",
    "budget",
    "data",
    "exponential",
    "extras",
    "load",
    "memoize",
    "metric",
    "solve",
]
