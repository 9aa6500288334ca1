"""Records: shipped data sets, and readers for other data."""

from metricdp.data.gaussian import gaussian
from metricdp.data.grid import grid
from metricdp.data.people import publication_warning
from metricdp.data.readers import (
    Raster,
    as_records,
    read_column,
    read_csv,
    read_geojson,
    read_graphml,
    read_matrix,
    read_pbf,
    read_raster,
    read_records,
    read_rows,
    read_streets,
    read_word_vectors,
)
from metricdp.data.records import Records
from metricdp.data.region import Region, region, region_around
from metricdp.data.region_priors import places_in_hull, places_of_counts, read_places, region_of_polygon
from metricdp.data.road import road
from metricdp.data.streets import StreetNetwork
from metricdp.data.words import WORDS_ETA, words

__all__ = [
    "WORDS_ETA",
    "Raster",
    "Records",
    "Region",
    "StreetNetwork",
    "as_records",
    "gaussian",
    "grid",
    "places_in_hull",
    "places_of_counts",
    "publication_warning",
    "read_column",
    "read_csv",
    "read_geojson",
    "read_graphml",
    "read_matrix",
    "read_pbf",
    "read_places",
    "read_raster",
    "read_records",
    "read_rows",
    "read_streets",
    "read_word_vectors",
    "region",
    "region_around",
    "region_of_polygon",
    "road",
    "words",
]
