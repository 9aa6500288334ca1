"""One function for every kind of file: the name of the file determines the reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metricdp.data.readers.comma import read_csv
from metricdp.data.readers.files import existing_file, format_of
from metricdp.data.readers.geojson import read_geojson
from metricdp.data.readers.graphml import read_graphml
from metricdp.data.readers.pbf import read_pbf
from metricdp.data.readers.word_vectors import read_word_vectors
from metricdp.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from metricdp.data.records import Records

_READERS: dict[str, Callable[..., Records]] = {
    ".csv": read_csv,
    ".geojson": read_geojson,
    ".json": read_geojson,
    ".graphml": read_graphml,
    ".pbf": read_pbf,
    ".txt": read_word_vectors,
    ".vec": read_word_vectors,
}


def read_records(path: str | PathLike[str], *, memory_limit: float | None = None) -> Records:
    """Read records from a file of any kind that metricdp knows.

    Parameters
    ----------
    path
        ``.csv`` (places or vectors), ``.geojson`` or ``.json`` (Points), ``.graphml`` (streets saved by osmnx),
        ``.osm.pbf`` (OpenStreetMap), ``.txt`` or ``.vec`` (word vectors). All but the extracts may be packed: ``.gz``.
    memory_limit
        Gigabytes that reading may take; by default half of the free memory. A packed file is also refused if it unpacks
        to more than 50 times its size (16 MB are always allowed): unpack it first if the file is right.
    """
    existing_file(path)
    suffix = format_of(path)
    if suffix not in _READERS:
        raise InputError(f"{path} has an unknown suffix: metricdp reads {', '.join(_READERS)} (also packed as .gz)")
    return _READERS[suffix](path, memory_limit=memory_limit)
