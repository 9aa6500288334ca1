"""Rows of a CSV file or features of a GeoJSON file, a few thousand at a time."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.data.readers.columns import Layout, find_columns, listed, not_one_column
from metricdp.data.readers.features import features
from metricdp.data.readers.tables import ROWS_AT_ONCE, csv_tables
from metricdp.data.writing import NUMBER, plain_cell
from metricdp.errors import InputError, revealed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from metricdp.data.readers.features import Feature
    from metricdp.data.readers.streams import TextSource
    from metricdp.data.readers.tables import Table
    from metricdp.mechanism.mechanism import Mechanism

USUAL_NAMES = frozenset(("id", "lat", "latitude", "lon", "lng", "long", "longitude", "x", "x0", "x1"))


@dataclass(frozen=True, repr=False)
class Batch:
    """Some rows of a file: the record that each names or the point that each is, and the columns to be kept."""

    rows: NDArray[np.int64] | None
    points: NDArray[np.float64] | None
    kept: Sequence[Sequence[Any]]

    def __repr__(self) -> str:
        return f"Batch({len(self.kept)} rows)"


def csv_batches(source: TextSource, mechanism: Mechanism, keep: Sequence[str], *, are_places: bool) -> Iterator[Batch]:
    """Yield the rows of a CSV file, by their column id or by their coordinates."""
    return table_batches(csv_tables(source), mechanism, keep, are_places=are_places)


def table_batches(
    tables: Iterable[Table], mechanism: Mechanism, keep: Sequence[str], *, are_places: bool
) -> Iterator[Batch]:
    """Yield the rows of tables with the same columns, by their column id or by their coordinates."""
    known = frozenset(mechanism.records.ids)
    columns: _Columns | None = None
    for table in tables:
        if columns is None:
            columns = _Columns.of(table, mechanism, keep, are_places=are_places)
        kept = [table.values(column) for column in columns.kept]
        rows = list(zip(*kept, strict=True)) if kept else [()] * table.n_rows
        if are_places:
            points = np.column_stack([table.numbers(column) for column in columns.coordinates])
            yield Batch(None, points, rows)
        else:
            cells = table.texts(columns.coordinates[0])
            ids = [_known(cell, known) for cell in cells]
            unknown = next((row for row, name in enumerate(ids) if name not in known), None)
            if unknown is not None:
                where = f"{table.source}, line {table.lines[unknown]}, {table.label(columns.coordinates[0])}"
                raise _no_record(where, cells[unknown])
            yield Batch(mechanism.rows_of(ids), None, rows)


def geojson_batches(
    source: TextSource, mechanism: Mechanism, keep: Sequence[str], *, are_places: bool
) -> Iterator[Batch]:
    """Yield the Point features of a GeoJSON file, by their id or by their coordinates."""
    found = features(source)
    blocks = iter(lambda: list(islice(found, ROWS_AT_ONCE)), [])
    return feature_batches(blocks, source.path, mechanism, keep, are_places=are_places)


def feature_batches(
    blocks: Iterable[list[Feature]], path: Path, mechanism: Mechanism, keep: Sequence[str], *, are_places: bool
) -> Iterator[Batch]:
    """Yield blocks of Point features, by their id or by their coordinates."""
    if are_places and mechanism.records.kind != "places":
        raise InputError(
            f"{path} holds places, but the mechanism's records are vectors with "
            f"{mechanism.records.dimension} coordinates: give them as columns of a CSV file"
        )
    if "id" in keep and not are_places:
        raise InputError("the kept column id would write the true record beside its report: leave it out")
    known = frozenset(mechanism.records.ids)
    for batch in blocks:
        rows = [_properties_of(feature, keep) for feature in batch]
        if are_places:
            yield Batch(None, np.array([feature.place() for feature in batch]), rows)
        else:
            ids = [_known(feature.id(), known) for feature in batch]
            unknown = next((row for row, name in enumerate(ids) if name not in known), None)
            if unknown is not None:
                raise _no_record(batch[unknown].where, ids[unknown])
            yield Batch(mechanism.rows_of(ids), None, rows)


@dataclass(frozen=True)
class _Columns:
    """Which columns hold the coordinates (or the one with the ids) and which are kept."""

    coordinates: tuple[int, ...]
    kept: tuple[int, ...]

    @classmethod
    def of(cls, table: Table, mechanism: Mechanism, keep: Sequence[str], *, are_places: bool) -> _Columns:
        _check_header(table, mechanism)
        coordinates = _coordinates(table, mechanism) if are_places else (_id_column(table),)
        kept = tuple(_kept_column(table, name) for name in keep)
        true = next((table.names[column] for column in kept if column in coordinates), None)
        if true is not None:
            raise InputError(f"the kept column {true} would write the true record beside its report: leave it out")
        return cls(coordinates, kept)


def _check_header(table: Table, mechanism: Mechanism) -> None:
    """Refuse a first line that is a row: messages about its columns would show the true record."""
    known = frozenset(mechanism.records.ids)
    row = next((name for name in table.names if name in known or NUMBER.fullmatch(name)), None)
    if row is not None and USUAL_NAMES.isdisjoint(name.lower() for name in table.names):
        raise InputError(
            f"the first line of {table.source} holds a record or a number{revealed(row)}, not only names of columns: "
            "begin the file with a line of names"
        )


def columns_of_secrets(names: Sequence[object], source: str) -> Layout:
    """Find the columns of coordinates; a first line that is not a header is not shown: it may be a true place."""
    with suppress(InputError):  # whose message shows the names
        return find_columns(names, source)
    raise InputError(
        f"{source} has {len(names)} columns{revealed(listed(names))}, but needs lat and lon (places) or x, y, ... or "
        "x1, x2, ... (vectors): name them in the first line, with commas between"
    )


def _coordinates(table: Table, mechanism: Mechanism) -> tuple[int, ...]:
    records, layout = mechanism.records, columns_of_secrets(table.names, table.source)
    if layout.kind != records.kind or len(layout.coordinates) != records.dimension:
        names = "lat, lon" if records.kind == "places" else f"x, y, ... or x1, x2, ... ({records.dimension} of them)"
        raise InputError(
            f"{table.source} has {len(table.names)} columns{revealed(listed(table.names))}, but the mechanism's "
            f"records are {records.kind}: give the columns {names}"
        )
    return layout.coordinates


def _id_column(table: Table) -> int:
    columns = [column for column, name in enumerate(table.names) if name.lower() == "id"]
    if len(columns) != 1:
        many = f"{len(columns)} columns" if columns else "no column"
        raise InputError(
            f"{table.source} has {many} id{revealed(listed(table.names))}: one is needed, or a snap limit, to use lat "
            "and lon (or x, y, ...) instead"
        )
    return columns[0]


def _kept_column(table: Table, name: str) -> int:
    if table.names.count(name) != 1:
        raise not_one_column(table.source, name, table.names)
    return table.names.index(name)


def _properties_of(feature: Any, keep: Sequence[str]) -> list[Any]:
    properties = feature.properties
    missing = next((name for name in keep if name not in properties), None)
    if missing is not None:
        raise InputError(f"{feature.where} has no property {missing!r}: it is needed in every feature")
    return [properties[name] for name in keep]


def _known(cell: str, known: frozenset[str]) -> str:
    # spaces around an id belong to it only if the record's own id has them; likewise the apostrophe for spreadsheets
    return next((name for name in (cell, cell.strip(), plain_cell(cell)) if name in known), cell.strip())


def _no_record(where: str, value: str) -> InputError:
    return InputError(f"{where}{revealed(value)} is not a record of this mechanism: use one of its record ids")
