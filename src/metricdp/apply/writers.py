"""Reports as CSV, GeoJSON, JSON lines, sequences of features, and Parquet, some at a time."""

from __future__ import annotations

import csv
import io
import json
from datetime import date
from datetime import time as clock_time
from typing import TYPE_CHECKING, Any, Protocol

from metricdp.data.writing import spreadsheet_cell
from metricdp.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from metricdp.mechanism.mechanism import Mechanism

RECORD_SEPARATOR = "\x1e"  # before each text of a JSON sequence (RFC 7464, and RFC 8142 for GeoJSON)


class Sink(Protocol):
    """Takes text or bytes."""

    def write(self, data: str | bytes) -> object: ...


class Writer(Protocol):
    """Writes reports, some at a time."""

    def write(self, outputs: NDArray[np.int64], kept: Sequence[Sequence[Any]]) -> None: ...

    def end(self) -> None: ...


class CsvWriter:
    """Reports as rows: the output's name and coordinates, then the kept columns."""

    def __init__(self, mechanism: Mechanism, target: Sink, keep: Sequence[str]) -> None:
        names, points = mechanism.outputs.ids(mechanism.records), mechanism.outputs.coordinates
        cells = [[name, *map(repr, point)] for name, point in zip(names, points.tolist(), strict=True)]
        self._cells = [list(map(spreadsheet_cell, row)) for row in cells]
        self._target = target
        self._write_rows([list(map(spreadsheet_cell, ["report", *coordinate_names(mechanism), *keep]))])

    def write(self, outputs: NDArray[np.int64], kept: Sequence[Sequence[Any]]) -> None:
        """Write some reports."""
        self._write_rows(
            [
                [*self._cells[k], *(spreadsheet_cell(cell_of(value)) for value in values)] if values else self._cells[k]
                for k, values in zip(outputs.tolist(), kept, strict=True)
            ]
        )

    def end(self) -> None:
        """Write the end of the file: nothing for CSV."""

    def _write_rows(self, rows: list[list[str]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text).writerows(rows)
        self._target.write(text.getvalue())


class GeoJsonWriter:
    """Reports as Point features: the output's name and the kept properties are their properties."""

    def __init__(self, mechanism: Mechanism, target: Sink, keep: Sequence[str]) -> None:
        self._names = mechanism.outputs.ids(mechanism.records)
        self._points = mechanism.outputs.coordinates[:, ::-1].tolist()  # longitude first
        self._target, self._keep, self._is_first = target, keep, True
        target.write('{"type": "FeatureCollection", "features": [')

    def write(self, outputs: NDArray[np.int64], kept: Sequence[Sequence[Any]]) -> None:
        """Write some reports."""
        for k, values in zip(outputs.tolist(), kept, strict=True):
            feature = {
                "type": "Feature",
                "geometry": {"type": "Point", "coordinates": self._points[k]},
                "properties": {"report": self._names[k], **dict(zip(self._keep, values, strict=True))},
            }
            self._target.write(("\n" if self._is_first else ",\n") + json.dumps(feature, default=text_of))
            self._is_first = False

    def end(self) -> None:
        """Write the end of the collection."""
        self._target.write("\n]}\n")


class JsonLinesWriter:
    """Reports as JSON objects, one in each line: the output's name and coordinates, then the kept members."""

    def __init__(self, mechanism: Mechanism, target: Sink, keep: Sequence[str]) -> None:
        names, axes = mechanism.outputs.ids(mechanism.records), coordinate_names(mechanism)
        points = mechanism.outputs.coordinates.tolist()
        self._lines = _LineWriter(
            [
                json.dumps({"report": name, **dict(zip(axes, point, strict=True))})
                for name, point in zip(names, points, strict=True)
            ],
            target,
            keep,
            begin="",
            end="}\n",
        )

    def write(self, outputs: NDArray[np.int64], kept: Sequence[Sequence[Any]]) -> None:
        """Write some reports."""
        self._lines.write(outputs, kept)

    def end(self) -> None:
        """Write the end of the stream: nothing."""


class FeatureLinesWriter:
    """Reports as Point features, one in each line, each after a record separator if it is asked for (RFC 8142)."""

    def __init__(
        self, mechanism: Mechanism, target: Sink, keep: Sequence[str], *, has_separators: bool = False
    ) -> None:
        names = mechanism.outputs.ids(mechanism.records)
        points = mechanism.outputs.coordinates[:, ::-1].tolist()  # longitude first
        self._lines = _LineWriter(
            [
                '{"type": "Feature", "geometry": '
                f'{json.dumps({"type": "Point", "coordinates": point})}, "properties": {json.dumps({"report": name})}'
                for name, point in zip(names, points, strict=True)
            ],
            target,
            keep,
            begin=RECORD_SEPARATOR if has_separators else "",
            end="}}\n",
        )

    def write(self, outputs: NDArray[np.int64], kept: Sequence[Sequence[Any]]) -> None:
        """Write some reports."""
        self._lines.write(outputs, kept)

    def end(self) -> None:
        """Write the end of the stream: nothing."""


class _LineWriter:
    """Lines that begin with the text of an output and go on with the kept members of an object."""

    def __init__(self, texts: list[str], target: Sink, keep: Sequence[str], *, begin: str, end: str) -> None:
        self._starts = [begin + text.removesuffix("}") for text in texts]  # the object stays open
        self._target, self._keep, self._end = target, keep, end

    def write(self, outputs: NDArray[np.int64], kept: Sequence[Sequence[Any]]) -> None:
        lines: list[str] = []
        for k, values in zip(outputs.tolist(), kept, strict=True):
            kept_members = dict(zip(self._keep, values, strict=True))
            members = f", {json.dumps(kept_members, default=text_of)[1:-1]}" if values else ""
            lines += (self._starts[k], members, self._end)
        self._target.write("".join(lines))


class ParquetWriter:
    """Reports as a Parquet file: one row group for each call, and the footer at the end.

    Parameters
    ----------
    types
        The types of the kept columns, where they come from Parquet as well; other kept values are written as texts.
    """

    def __init__(
        self, mechanism: Mechanism, target: Any, keep: Sequence[str], *, types: Mapping[str, Any] | None = None
    ) -> None:
        pyarrow, parquet = arrow()
        names, axes = mechanism.outputs.ids(mechanism.records), coordinate_names(mechanism)
        self._names, self._points = pyarrow.array(list(names)), mechanism.outputs.coordinates
        self._types, self._arrow = types, pyarrow
        fields = [("report", pyarrow.string()), *((axis, pyarrow.float64()) for axis in axes)]
        fields += [(name, pyarrow.string() if types is None else types[name]) for name in keep]
        self._schema = pyarrow.schema(fields)
        self._writer = parquet.ParquetWriter(target, self._schema)

    def write(self, outputs: NDArray[np.int64], kept: Sequence[Sequence[Any]]) -> None:
        """Write some reports as a row group; none makes none."""
        if not len(outputs):
            return
        columns = [self._names.take(self._arrow.array(outputs)), *self._points[outputs].T]
        for number, field in enumerate(self._schema.names[len(columns) :]):
            values = [row[number] if self._types is not None else cell_of(row[number]) for row in kept]
            columns.append(self._arrow.array(values, type=self._schema.field(field).type))
        self._writer.write_table(self._arrow.table(columns, schema=self._schema))

    def end(self) -> None:
        """Write the footer, without which nobody can read the file."""
        self._writer.close()


def arrow() -> tuple[Any, Any]:
    """Return the modules pyarrow and pyarrow.parquet."""
    try:
        import pyarrow  # noqa: PLC0415, ICN001
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet", "reading and writing Parquet") from None
    return pyarrow, pyarrow.parquet


def coordinate_names(mechanism: Mechanism) -> list[str]:
    """Return the names of the columns of coordinates."""
    if mechanism.records.kind == "places":
        return ["lat", "lon"]
    return [f"x{axis + 1}" for axis in range(mechanism.records.dimension)]


def cell_of(value: Any) -> str:
    """Return a property as a cell of a table."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, (bool, int, float, list, dict)):
        return json.dumps(value, default=text_of)
    return text_of(value)


def text_of(value: Any) -> str:
    """Return the text of a value that JSON cannot hold: times by ISO 8601, bytes as the text that they are.

    Bytes that are no text are written in hexadecimal; others as by `str`.
    """
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.hex()
    return str(value.isoformat() if isinstance(value, (date, clock_time)) else value)
