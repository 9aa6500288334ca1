"""Readers of CSV files: records, streets, row numbers and matrices."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from metricdp.data.contract import merge_parallel
from metricdp.data.geodesy import haversine_km
from metricdp.data.readers.columns import find_columns, listed
from metricdp.data.readers.files import existing_file, stem
from metricdp.data.readers.tables import read_table
from metricdp.data.records import Records
from metricdp.data.streets import StreetNetwork
from metricdp.errors import FileFormatError, InputError

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    from numpy.typing import NDArray

_NPY_MAGIC = b"\x93NUMPY"


def read_csv(path: str | PathLike[str]) -> Records:
    """Read records from a CSV file, gzip or not.

    Parameters
    ----------
    path
        A UTF-8 file with a header. Columns ``lat`` and ``lon`` (degrees; also latitude, longitude, lng, long) make
        places; ``x``, ``y``, ``z`` or ``x1``, ``x2``, ... make vectors. Optional: ``id`` (or osmid; row numbers if
        there is none) and ``weight`` (or prior; uniform if there is none). Other columns are ignored.
    """
    table = read_table(path)
    layout = find_columns(table.names, path)
    return Records(
        np.column_stack([table.numbers(column) for column in layout.coordinates]),
        ids=None if layout.id is None else [cell.strip() for cell in table.columns[layout.id]],
        prior=None if layout.weight is None else table.numbers(layout.weight),
        kind=layout.kind,
        name=stem(path),
    )


def read_streets(path: str | PathLike[str], nodes: Records) -> StreetNetwork:
    """Read the streets between places from a CSV file, gzip or not.

    Parameters
    ----------
    path
        A file with columns ``u`` and ``v``, rows of ``nodes`` counted from 0, and optionally ``length`` in km.
        Without it a street is as long as the great-circle distance between its ends. Streets have no direction; of
        parallel ones the shortest stays, and one from a node to itself is dropped.
    nodes
        The intersections.
    """
    if nodes.kind != "places":
        raise InputError(f"streets join places, but {nodes.name} holds {nodes.kind}: give nodes with lat and lon")
    table = read_table(path)
    names = [name.lower() for name in table.names]
    if not {"u", "v"} <= set(names):
        raise InputError(
            f"{path} has the columns {listed(table.names)}, but streets need u and v "
            "(rows of the nodes, from 0) and may have length (km): rename them"
        )
    edges = np.column_stack([table.whole_numbers(names.index(end)) for end in "uv"])
    outside = ((edges < 0) | (edges >= nodes.n)).any(axis=1)
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        raise InputError(
            f"{path}, line {table.lines[row]} joins nodes {edges[row, 0]} and {edges[row, 1]}, "
            f"but {nodes.name} has rows 0 to {nodes.n - 1}: u and v are row numbers, not ids"
        )
    if "length" in names:
        lengths = table.numbers(names.index("length"))
    else:
        lengths = haversine_km(nodes.coordinates[edges[:, 0]], nodes.coordinates[edges[:, 1]])
    edges, lengths = merge_parallel(edges, lengths)
    return StreetNetwork(nodes.coordinates, edges.astype(np.int32), lengths)


def read_rows(path: str | PathLike[str]) -> NDArray[np.int64]:
    """Read row numbers, one per line, gzip or not; a header that is no number is passed over."""
    table = read_table(path, has_header=False)
    if len(table.columns) != 1:
        raise FileFormatError(f"{path} has {len(table.columns)} columns: give one row number per line")
    cells = table.columns[0]
    try:
        float(cells[0])
    except ValueError:
        if len(cells) == 1:
            raise InputError(f"{path} has a header but no rows: give one row number per line") from None
        table = replace(table, columns=(cells[1:],), lines=table.lines[1:])
    return table.whole_numbers(0)


def read_matrix(path: str | PathLike[str]) -> NDArray[np.float64]:
    """Read a matrix from a CSV file of numbers without a header (gzip or not) or from a NumPy file (.npy).

    Only the shape and the numbers are read here; what they must satisfy is for the caller to say.
    """
    found = existing_file(path)
    with found.open("rb") as file:
        is_npy = file.read(len(_NPY_MAGIC)) == _NPY_MAGIC
    if is_npy:
        return _read_npy(found)
    table = read_table(path, has_header=False)
    columns = range(len(table.columns))
    return np.column_stack([table.numbers(column, is_finite=False) for column in columns])


def _read_npy(path: Path) -> NDArray[np.float64]:
    try:
        # mapped, so that a header cannot claim more than the file holds
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError, OverflowError) as error:
        raise FileFormatError(f"{path} is not a NumPy file of numbers ({error}): save it with numpy.save") from None
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "fiub":
        raise FileFormatError(
            f"{path} holds {array.dtype} of shape {array.shape}: give a matrix of numbers with rows and columns"
        )
    return np.array(array, dtype=np.float64)
