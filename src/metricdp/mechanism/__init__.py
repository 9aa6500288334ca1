"""Mechanisms: repair, exact certificate, exact sampling, files, baselines."""

from metricdp.mechanism.baselines import exponential
from metricdp.mechanism.certificate import Certificate, Optimality
from metricdp.mechanism.certify import PrivacyCheck, check_privacy
from metricdp.mechanism.files import load, save
from metricdp.mechanism.mechanism import Mechanism
from metricdp.mechanism.promise import Promise, epsilon_for
from metricdp.mechanism.repair import repair
from metricdp.mechanism.sample import RandomnessError
from metricdp.mechanism.snap import SnappedReports
from metricdp.mechanism.sparse import SparseTable

__all__ = [
    "Certificate",
    "Mechanism",
    "Optimality",
    "PrivacyCheck",
    "Promise",
    "RandomnessError",
    "SnappedReports",
    "SparseTable",
    "check_privacy",
    "epsilon_for",
    "exponential",
    "load",
    "repair",
    "save",
]
