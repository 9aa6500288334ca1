"""Readers that turn files and tables into records."""

from metricdp.data.readers.comma import read_csv, read_matrix, read_rows, read_streets
from metricdp.data.readers.dispatch import read_records
from metricdp.data.readers.frames import as_records
from metricdp.data.readers.geojson import read_geojson
from metricdp.data.readers.graphml import read_graphml
from metricdp.data.readers.pbf import read_pbf
from metricdp.data.readers.raster import Raster, read_raster
from metricdp.data.readers.values import read_column
from metricdp.data.readers.word_vectors import read_word_vectors

__all__ = [
    "Raster",
    "as_records",
    "read_column",
    "read_csv",
    "read_geojson",
    "read_graphml",
    "read_matrix",
    "read_pbf",
    "read_raster",
    "read_records",
    "read_rows",
    "read_streets",
    "read_word_vectors",
]
