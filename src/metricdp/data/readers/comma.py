"""Readers of CSV files: records, streets, row numbers and matrices."""

from __future__ import annotations

from dataclasses import replace
from tokenize import TokenError
from typing import TYPE_CHECKING

import numpy as np

from metricdp.data.geodesy import haversine_km
from metricdp.data.intersections import merge_parallel
from metricdp.data.readers.columns import find_columns, listed
from metricdp.data.readers.files import stem
from metricdp.data.readers.streams import BYTES_PER_NUMBER, BYTES_PER_RECORD, MAX_UNPACK_RATIO, Allowance, TextSource
from metricdp.data.readers.tables import csv_tables
from metricdp.data.records import Records
from metricdp.data.streets import StreetNetwork
from metricdp.errors import FileFormatError, InputError

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    from numpy.typing import NDArray

    from metricdp.data.readers.tables import Table

_NPY_MAGIC = b"\x93NUMPY"
# errors that numpy's parsing of a header may raise
_NPY_FAULTS = (ValueError, OSError, EOFError, OverflowError, TypeError, KeyError, IndexError, SyntaxError, TokenError)


def read_csv(path: str | PathLike[str], *, memory_limit: float | None = None) -> Records:
    """Read records from a CSV file, plain or gzipped.

    Parameters
    ----------
    path
        A UTF-8 file with a header. Columns ``lat`` and ``lon`` (degrees; also latitude, longitude, lng, long) make
        places; ``x``, ``y``, ``z`` or ``x1``, ``x2``, ... make vectors. Optional: ``id`` (or osmid; row numbers if
        there is none) and ``weight`` (or prior; uniform if there is none). Other columns are ignored.
    memory_limit
        Gigabytes that reading may take; by default half of the free memory.
    """
    allowance = Allowance(path, memory_limit)
    points: list[NDArray[np.float64]] = []
    weights: list[NDArray[np.float64]] = []
    ids: list[str] = []
    with TextSource(path, newline="", most_ratio=MAX_UNPACK_RATIO, is_secret=False) as source:
        for table in csv_tables(source):
            layout = find_columns(table.names, path)
            allowance.take(table.n_rows * (BYTES_PER_RECORD + BYTES_PER_NUMBER * len(layout.coordinates)))
            points.append(np.column_stack([table.numbers(column) for column in layout.coordinates]))
            if layout.id is not None:
                names = [cell.strip() for cell in table.columns[layout.id]]
                allowance.take(sum(map(len, names)))
                ids += names
            if layout.weight is not None:
                weights.append(table.numbers(layout.weight))
    return Records(
        np.concatenate(points),
        ids=ids or None,
        prior=np.concatenate(weights) if weights else None,
        kind=layout.kind,
        name=stem(path),
    )


def read_streets(path: str | PathLike[str], nodes: Records, *, memory_limit: float | None = None) -> StreetNetwork:
    """Read the streets between places from a CSV file, plain or gzipped.

    Parameters
    ----------
    path
        A file with columns ``u`` and ``v``, rows of ``nodes`` counted from 0, and optionally ``length`` in km.
        Without it a street is as long as the great-circle distance between its ends. Streets have no direction; of
        parallel ones the shortest stays, and one from a node to itself is dropped.
    nodes
        The intersections.
    memory_limit
        Gigabytes that reading may take; by default half of the free memory.
    """
    if nodes.kind != "places":
        raise InputError(f"streets join places, but {nodes.name} holds {nodes.kind}: give nodes with lat and lon")
    allowance = Allowance(path, memory_limit)
    parts: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []
    with TextSource(path, newline="", most_ratio=MAX_UNPACK_RATIO, is_secret=False) as source:
        for table in csv_tables(source):
            allowance.take(5 * BYTES_PER_NUMBER * table.n_rows)
            parts.append(_streets_of(table, nodes))
    edges = np.concatenate([ends for ends, _ in parts])
    lengths = np.concatenate([length for _, length in parts])
    edges, lengths = merge_parallel(edges, lengths)
    return StreetNetwork(nodes.coordinates, edges.astype(np.int32), lengths)


def _streets_of(table: Table, nodes: Records) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the ends and lengths of the streets in some rows."""
    names = [name.lower() for name in table.names]
    if not {"u", "v"} <= set(names):
        raise InputError(
            f"{table.source} has the columns {listed(table.names)}, but streets need u and v "
            "(rows of the nodes, from 0) and may have length (km): rename them"
        )
    edges = np.column_stack([table.whole_numbers(names.index(end)) for end in "uv"])
    outside = ((edges < 0) | (edges >= nodes.n)).any(axis=1)
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        raise InputError(
            f"{table.source}, line {table.lines[row]} joins nodes {edges[row, 0]} and {edges[row, 1]}, "
            f"but {nodes.name} has rows 0 to {nodes.n - 1}: u and v are row numbers, not ids"
        )
    if "length" in names:
        return edges, table.numbers(names.index("length"))
    return edges, haversine_km(nodes.coordinates[edges[:, 0]], nodes.coordinates[edges[:, 1]])


def read_rows(path: str | PathLike[str], *, memory_limit: float | None = None) -> NDArray[np.int64]:
    """Read row numbers, one per line, plain or gzipped; a header that is not a number is skipped."""
    allowance = Allowance(path, memory_limit)
    parts: list[NDArray[np.int64]] = []
    with TextSource(path, newline="", most_ratio=MAX_UNPACK_RATIO, is_secret=False) as source:
        for table in csv_tables(source, has_header=False):
            if len(table.columns) != 1:
                raise FileFormatError(f"{path} has {len(table.columns)} columns: give one row number per line")
            allowance.take(BYTES_PER_NUMBER * table.n_rows)
            parts.append((table if parts else _without_header(table)).whole_numbers(0))
    rows = np.concatenate(parts)
    if not rows.size:
        raise InputError(f"{path} has a header but no rows: give one row number per line")
    return rows


def _without_header(table: Table) -> Table:
    """Return the table without its first row if that is not a number."""
    (cells,) = table.columns
    try:
        float(cells[0])
    except ValueError:
        return replace(table, columns=(cells[1:],), lines=table.lines[1:])
    return table


def read_matrix(path: str | PathLike[str], *, memory_limit: float | None = None) -> NDArray[np.float64]:
    """Read a matrix from a CSV file of numbers without a header (plain or gzipped) or from a NumPy file (.npy).

    The caller checks what the numbers must satisfy. Reading may take
    ``memory_limit`` gigabytes, by default half of the free memory.
    """
    allowance = Allowance(path, memory_limit)
    parts: list[NDArray[np.float64]] = []
    with TextSource(path, newline="", most_ratio=MAX_UNPACK_RATIO, is_secret=False) as source:
        if source.start.startswith(_NPY_MAGIC):
            return _read_npy(source.path, allowance)
        for table in csv_tables(source, has_header=False):
            columns = range(len(table.columns))
            allowance.take(BYTES_PER_NUMBER * table.n_rows * len(columns))
            parts.append(np.column_stack([table.numbers(column, is_finite=False) for column in columns]))
    return np.concatenate(parts)


def _read_npy(path: Path, allowance: Allowance) -> NDArray[np.float64]:
    if not path.is_file():
        raise InputError(f"{path} is a pipe or device: save the NumPy array to a file and name that")
    try:
        # mapped, so that a header cannot claim more than the file holds
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except _NPY_FAULTS as error:
        raise FileFormatError(
            f"{path} is not a NumPy file of numbers ({str(error)[:100]!r}): save it with numpy.save"
        ) from None
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "fiub":
        raise FileFormatError(
            f"{path} holds {str(array.dtype)[:60]} of shape {array.shape}: give a matrix of numbers with rows and "
            "columns"
        )
    allowance.take(array.size * 8)
    return np.array(array, dtype=np.float64, order="C")
