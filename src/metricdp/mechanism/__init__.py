"""Mechanisms: repair, exact certificate, exact sampling, files, baselines."""

from metricdp.mechanism.baselines import exponential
from metricdp.mechanism.certify import PrivacyCheck, check_privacy
from metricdp.mechanism.files import load, save
from metricdp.mechanism.ledger import BudgetExceededError, BudgetsExceededError, Ledger
from metricdp.mechanism.mechanism import Certificate, Mechanism, Optimality
from metricdp.mechanism.memoize import Memoized, memoize
from metricdp.mechanism.repair import repair
from metricdp.mechanism.sample import RandomnessError
from metricdp.mechanism.snap import SnappedReports
from metricdp.mechanism.store import LedgerError

__all__ = [
    "BudgetExceededError",
    "BudgetsExceededError",
    "Certificate",
    "Ledger",
    "LedgerError",
    "Mechanism",
    "Memoized",
    "Optimality",
    "PrivacyCheck",
    "RandomnessError",
    "SnappedReports",
    "check_privacy",
    "exponential",
    "load",
    "memoize",
    "repair",
    "save",
]
