"""metricdp: optimal metric differential privacy that is proved, not promised."""

from metricdp import data, interfaces, metric
from metricdp.data import Records
from metricdp.errors import CertificationError, FileFormatError, InputError, MetricDPError, MissingExtraError
from metricdp.interfaces import MetricPrivacy
from metricdp.mechanism import (
    BudgetExceededError,
    BudgetsExceededError,
    Certificate,
    Ledger,
    LedgerError,
    Mechanism,
    Memoized,
    RandomnessError,
    SnappedReports,
    exponential,
    load,
    memoize,
)
from metricdp.problem import Problem
from metricdp.report.notebook import attach as _attach
from metricdp.solve import (
    BendersOptions,
    Cluster,
    ColumnOptions,
    DirectOptions,
    FirstOrderOptions,
    InteriorOptions,
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
    "InteriorOptions",
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
    "data",
    "exponential",
    "interfaces",
    "load",
    "memoize",
    "metric",
    "solve",
]
