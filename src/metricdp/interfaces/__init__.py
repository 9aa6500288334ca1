"""Interfaces that people already know: scikit-learn, pandas, GeoPandas, OpenDP, and files of places and words."""

from metricdp.interfaces.estimator import MetricPrivacy
from metricdp.interfaces.files import FileSummary, perturb_file
from metricdp.interfaces.frames import perturb_column, perturb_frame, snap_distances
from metricdp.interfaces.measurement import make_measurement
from metricdp.interfaces.text import TextSummary, perturb_text

__all__ = [
    "FileSummary",
    "MetricPrivacy",
    "TextSummary",
    "make_measurement",
    "perturb_column",
    "perturb_file",
    "perturb_frame",
    "perturb_text",
    "snap_distances",
]
