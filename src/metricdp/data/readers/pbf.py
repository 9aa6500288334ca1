"""Reader of OpenStreetMap extracts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from metricdp.data.drivable import is_drivable
from metricdp.data.intersections import contract
from metricdp.data.readers.files import existing_file, stem
from metricdp.data.readers.streams import Allowance
from metricdp.data.records import Records
from metricdp.errors import FileFormatError, InputError, MissingExtraError

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    from numpy.typing import NDArray

BYTES_PER_NODE = 500  # as Python's numbers in lists, and as rows that are contracted
BYTES_PER_SEGMENT = 300


def read_pbf(path: str | PathLike[str], *, memory_limit: float | None = None) -> Records:
    """Read the intersections and streets for cars from an OpenStreetMap extract (.osm.pbf).

    Streets are the ways that ``metricdp.data.drivable`` names, contracted to intersections and dead ends by
    ``metricdp.data.intersections``; the largest connected component is kept. Ids are OpenStreetMap's node ids. It needs
    the package osmium (``pip install "metricdp[geo]"``).

    Parameters
    ----------
    path
        The extract, for example from download.geofabrik.de.
    memory_limit
        Gigabytes that reading may take; by default half of the free memory.
    """
    found = existing_file(path)
    node_ids, coordinates, segments = _read_segments(found, Allowance(path, memory_limit))
    if not len(segments):
        raise InputError(f"{path} has no streets for cars: give an extract with roads and their nodes")
    streets, kept = contract(coordinates, segments)
    return Records(
        streets.coordinates,
        ids=node_ids[kept].tolist(),
        name=stem(path),
        streets=streets,
        street_nodes=np.arange(streets.n_nodes),
    )


def _read_segments(
    path: Path, allowance: Allowance
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Return node ids, their coordinates, and the segments between them as rows."""
    try:
        import osmium  # noqa: PLC0415  an optional dependency
    except ImportError:
        raise MissingExtraError("osmium", "geo", "reading OpenStreetMap extracts") from None
    row: dict[int, int] = {}
    places: list[tuple[float, float]] = []
    segments: list[tuple[int, int]] = []
    try:
        ways = (
            osmium.FileProcessor(osmium.io.File(str(path), "pbf"), osmium.osm.NODE | osmium.osm.WAY)
            .with_locations()
            .with_filter(osmium.filter.EntityFilter(osmium.osm.WAY))
            .with_filter(osmium.filter.KeyFilter("highway"))
        )
        for way in ways:
            if not is_drivable(dict(way.tags)):
                continue
            before = None  # a node outside the extract has no location and interrupts the street
            for node in way.nodes:
                if not node.location.valid():
                    before = None
                    continue
                here = row.setdefault(node.ref, len(row))
                if here == len(places):
                    allowance.take(BYTES_PER_NODE)
                    places.append((node.lat, node.lon))
                if before is not None:
                    allowance.take(BYTES_PER_SEGMENT)
                    segments.append((before, here))
                before = here
    except RuntimeError as error:
        raise FileFormatError(f"{path} is not an OpenStreetMap extract in PBF ({error}): get it again") from None
    ids = np.fromiter(row, dtype=np.int64, count=len(row))
    return ids, np.array(places).reshape(len(places), 2), np.array(segments, dtype=np.int64).reshape(len(segments), 2)
