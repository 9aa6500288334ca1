"""Applying a mechanism to data: files of places and ids, data frames, streams, points, and texts."""

from metricdp.apply.batched import Batched, batched
from metricdp.apply.files import FileSummary, perturb_file
from metricdp.apply.frames import perturb_column, perturb_frame, snap_distances
from metricdp.apply.region_files import perturb_region_file
from metricdp.apply.region_frames import perturb_region_frame
from metricdp.apply.region_streams import perturb_region_stream
from metricdp.apply.streams import ReaderGoneError, StreamSummary, perturb_stream
from metricdp.apply.text import TextSummary, perturb_text

__all__ = [
    "Batched",
    "FileSummary",
    "ReaderGoneError",
    "StreamSummary",
    "TextSummary",
    "batched",
    "perturb_column",
    "perturb_file",
    "perturb_frame",
    "perturb_region_file",
    "perturb_region_frame",
    "perturb_region_stream",
    "perturb_stream",
    "perturb_text",
    "snap_distances",
]
