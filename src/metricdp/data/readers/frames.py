"""Records from data in memory: arrays, lists, DataFrames and GeoDataFrames."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.data.readers.columns import find_columns
from metricdp.data.records import Records
from metricdp.data.region import Region
from metricdp.errors import InputError

if TYPE_CHECKING:
    from metricdp.data.records import Kind


def as_records(obj: Any, *, kind: Kind | None = None) -> Records:
    """Return records from an array, a list of rows, a DataFrame or a GeoDataFrame; records pass through.

    Parameters
    ----------
    obj
        An array or list of rows makes vectors, unless it has two columns that could be latitude and longitude in
        degrees: then it is ambiguous and refused unless ``kind`` is given. A DataFrame has the columns
        that ``read_csv`` knows: ``lat`` and ``lon``, or ``x``, ``y``, ... or ``x1``, ``x2``, ...; optionally ``id`` and
        ``weight``. A GeoDataFrame of Points makes places, converted to degrees if it has another reference system, with
        the same optional columns.
    kind
        What an array holds: ``"places"`` (latitude, longitude) or ``"vectors"``. Names of columns say it themselves.

    Examples
    --------
    >>> as_records([[57.7, 11.97], [57.71, 11.98]], kind="places")
    Records('records': 2 places, 2 dimensions)
    >>> as_records([[0.0, 1.0, 5.0], [2.0, 3.0, 5.0]])
    Records('records': 2 vectors, 3 dimensions)
    """
    if isinstance(obj, Records):
        return obj
    if isinstance(obj, Region):
        raise InputError(
            "records cannot be made from a region: give it to metricdp.PlaneProblem, or take region.records"
        )
    if isinstance(obj, str | bytes | PathLike):
        raise InputError(f"records cannot be made from {obj!r:.80}: read a file with metricdp.data.read_records")
    if hasattr(obj, "columns") and hasattr(obj, "to_crs"):
        return _from_geo_frame(obj)
    if hasattr(obj, "columns") and hasattr(obj, "__getitem__"):
        return _from_frame(obj)
    return Records(obj, kind=array_kind(obj) if kind is None else kind)


def array_kind(points: Any) -> Kind:
    """Return ``"vectors"`` for a table of numbers without names; refuse one that could be degrees.

    Taking degrees for plain coordinates would give distances in degrees: a budget meant per kilometre would protect
    about a hundredth of what is meant, without any warning.
    """
    try:
        found = np.asarray(points, dtype=np.float64)
    except (TypeError, ValueError):
        return "vectors"  # the constructor of the records reports what is wrong
    if found.ndim == 2 and found.shape[1] == 2 and (np.abs(found) <= [90.0, 180.0]).all():
        raise InputError(
            "two columns of numbers within 90 and 180 could be latitude and longitude in degrees or plain coordinates: "
            "say which, kind='places' or kind='vectors', for example metricdp.Records(array, kind='places')"
        )
    return "vectors"


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
        found = kinds[wrong] if isinstance(kinds[wrong], str) else "without geometry"  # None or nan
        raise InputError(f"row {wrong} of the GeoDataFrame is {found}: records are Points")
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
