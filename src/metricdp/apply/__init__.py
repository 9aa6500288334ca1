"""Applying a mechanism to data: files of places and ids, data frames, points, and texts."""

from metricdp.apply.files import FileSummary, perturb_file
from metricdp.apply.frames import perturb_column, perturb_frame, snap_distances
from metricdp.apply.text import TextSummary, perturb_text

__all__ = [
    "FileSummary",
    "TextSummary",
    "perturb_column",
    "perturb_file",
    "perturb_frame",
    "perturb_text",
    "snap_distances",
]
