"""metricdp: optimal metric differential privacy that is proved, not promised."""

from metricdp import data, metric
from metricdp.data import Records
from metricdp.errors import CertificationError, FileFormatError, InputError, MetricDPError, MissingExtraError
from metricdp.mechanism import Certificate, Mechanism, exponential, load
from metricdp.problem import Problem
from metricdp.solve import DirectOptions, Result, Status, solve

__version__ = "0.1.0"

__all__ = [
    "Certificate",
    "CertificationError",
    "DirectOptions",
    "FileFormatError",
    "InputError",
    "Mechanism",
    "MetricDPError",
    "MissingExtraError",
    "Problem",
    "Records",
    "Result",
    "Status",
    "__version__",
    "data",
    "exponential",
    "load",
    "metric",
    "solve",
]
