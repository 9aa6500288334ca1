"""Mechanisms: repair, exact certificate, exact sampling, files, baselines."""

from metricdp.mechanism.baselines import exponential
from metricdp.mechanism.certificate import Certificate, Optimality
from metricdp.mechanism.certify import PrivacyCheck, check_privacy
from metricdp.mechanism.files import save
from metricdp.mechanism.mechanism import Mechanism
from metricdp.mechanism.opening import load
from metricdp.mechanism.plane import PlaneCertificate, PlaneGuarantee, PlaneMechanism
from metricdp.mechanism.plane_certify import PlaneCheck, check_plane
from metricdp.mechanism.plane_files import is_plane_file, load_plane
from metricdp.mechanism.plane_inequalities import check_inequalities, check_region
from metricdp.mechanism.promise import Promise, epsilon_for
from metricdp.mechanism.repair import repair
from metricdp.mechanism.sample import RandomnessError
from metricdp.mechanism.snap import SnappedReports
from metricdp.mechanism.sparse import SparseTable

__all__ = [
    "Certificate",
    "Mechanism",
    "Optimality",
    "PlaneCertificate",
    "PlaneCheck",
    "PlaneGuarantee",
    "PlaneMechanism",
    "PrivacyCheck",
    "Promise",
    "RandomnessError",
    "SnappedReports",
    "SparseTable",
    "check_inequalities",
    "check_plane",
    "check_privacy",
    "check_region",
    "epsilon_for",
    "exponential",
    "is_plane_file",
    "load",
    "load_plane",
    "repair",
    "save",
]
