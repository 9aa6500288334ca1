"""One more column of a file of records: a number for each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.data.readers.features import features, is_number
from metricdp.data.readers.files import existing_file, format_of
from metricdp.data.readers.streams import BYTES_PER_NUMBER, MAX_UNPACK_RATIO, Allowance, TextSource
from metricdp.data.readers.tables import csv_tables
from metricdp.errors import InputError

if TYPE_CHECKING:
    from os import PathLike

    from numpy.typing import NDArray


def read_column(path: str | PathLike[str], name: str, *, memory_limit: float | None = None) -> NDArray[np.float64]:
    """Return the numbers of one column of a CSV file, or of one property of GeoJSON, a number for each record.

    Parameters
    ----------
    path
        A file that `read_csv` or `read_geojson` reads: the numbers are in the order of its records.
    name
        The column's name as it is written there.
    memory_limit
        Gigabytes that reading may take; by default half of the free memory.
    """
    existing_file(path)
    suffix = format_of(path)
    if suffix not in (".csv", ".geojson", ".json"):
        raise InputError(f"{path} has no columns to name: {name!r:.80} can be read from .csv, .geojson and .json")
    allowance = Allowance(path, memory_limit)
    parts: list[NDArray[np.float64]] = []
    with TextSource(path, newline="", most_ratio=MAX_UNPACK_RATIO, is_secret=False) as source:
        if suffix == ".csv":
            for table in csv_tables(source):
                if table.names.count(name) != 1:
                    raise InputError(f"{path} has {table.names.count(name)} columns named {name!r:.80}: name one of it")
                allowance.take(BYTES_PER_NUMBER * table.n_rows)
                parts.append(table.numbers(table.names.index(name)))
            return np.concatenate(parts)
        for feature in features(source):
            value: Any = feature.properties.get(name)
            if not is_number(value):
                raise InputError(f"{feature.where} has no number as its property {name!r:.80}: give all features one")
            allowance.take(BYTES_PER_NUMBER)
            parts.append(np.array([float(value)]))
    return np.concatenate(parts)
