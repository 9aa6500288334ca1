"""Records from what is already in memory: arrays, lists, DataFrames and GeoDataFrames."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from metricdp.data.readers.columns import find_columns
from metricdp.data.records import Records
from metricdp.errors import InputError


def as_records(obj: Any) -> Records:
    """Give records from an array, a list of rows, a DataFrame or a GeoDataFrame; records pass through.

    Parameters
    ----------
    obj
        An array or list of rows makes vectors. A DataFrame has the columns that ``read_csv`` knows: ``lat`` and
        ``lon``, or ``x``, ``y``, ... or ``x1``, ``x2``, ...; optionally ``id`` and ``weight``. A GeoDataFrame of Points
        makes places, converted to degrees if it has another reference system, with the same optional columns.

    Examples
    --------
    >>> as_records([[0.0, 1.0], [2.0, 3.0]])
    Records('records': 2 vectors, 2 dimensions)
    """
    if isinstance(obj, Records):
        return obj
    if isinstance(obj, str | bytes | PathLike):
        raise InputError(f"records cannot be made from {obj!r:.80}: read a file with metricdp.data.read_records")
    if hasattr(obj, "columns") and hasattr(obj, "to_crs"):
        return _from_geo_frame(obj)
    if hasattr(obj, "columns") and hasattr(obj, "__getitem__"):
        return _from_frame(obj)
    return Records(obj, kind="vectors")


def _from_frame(frame: Any) -> Records:
    names = list(frame.columns)
    layout = find_columns(names, "the DataFrame")
    return Records(
        np.column_stack([_numbers(frame, names[column]) for column in layout.coordinates]),
        ids=None if layout.id is None else list(frame[names[layout.id]]),
        prior=None if layout.weight is None else _numbers(frame, names[layout.weight]),
        kind=layout.kind,
    )


def _from_geo_frame(frame: Any) -> Records:
    geometry = frame.geometry
    kinds = list(geometry.geom_type)
    wrong = next((row for row, kind in enumerate(kinds) if kind != "Point"), None)
    if wrong is not None:
        raise InputError(f"row {wrong} of the GeoDataFrame is {kinds[wrong] or 'without geometry'}: records are Points")
    if geometry.crs is not None:
        geometry = geometry.to_crs("EPSG:4326")
    names = {str(name).lower(): name for name in frame.columns}
    id_name, weight_name = (next((names[key] for key in keys if key in names), None) for keys in _OPTIONAL)
    return Records(
        np.column_stack([np.asarray(geometry.y), np.asarray(geometry.x)]),
        ids=None if id_name is None else list(frame[id_name]),
        prior=None if weight_name is None else _numbers(frame, weight_name),
    )


_OPTIONAL = (("id", "osmid"), ("weight", "prior"))


def _numbers(frame: Any, name: Any) -> np.ndarray:
    try:
        return np.asarray(frame[name], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"column {name!r} of the DataFrame must hold numbers: {error}") from None
