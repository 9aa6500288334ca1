"""The rows of a stream, as many at a time as are there: CSV, JSON lines, sequences of features, and Parquet.

A batch ends when it is full, or earlier when the next row would have to be waited for: what a slow writer sends is
reported at once, and what a fast one sends is reported in large batches.
"""

from __future__ import annotations

import io
import json
import shutil
import stat
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from os import fstat
from typing import IO, TYPE_CHECKING, Any, Self

import numpy as np

from metricdp.apply.batches import feature_batches, table_batches
from metricdp.apply.writers import RECORD_SEPARATOR, arrow, cell_of
from metricdp.data.readers.features import Feature, is_number
from metricdp.data.readers.streams import LONGEST_LINE, ReadyLines, TextSource
from metricdp.data.readers.tables import ROWS_AT_ONCE, Table, csv_tables
from metricdp.errors import FileFormatError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from metricdp.apply.batches import Batch
    from metricdp.mechanism.mechanism import Mechanism

FORMATS = ("csv", "jsonl", "geojsonl", "geojsonseq", "parquet")
INPUT_NAME = "standard input"
PARQUET_MAGIC = b"PAR1"
GZIP_MAGIC = b"\x1f\x8b"
ROWS_OF_GROUP = 1 << 16  # of Parquet at one time


def check_format(name: str | None) -> None:
    """Refuse a format that is not known."""
    if name is not None and name not in FORMATS:
        raise InputError(f"unknown format {name!r}: choose one of {', '.join(FORMATS)}")


def format_of_start(start: bytes) -> str:
    """Return the format of a stream that begins with ``start``.

    Examples
    --------
    >>> format_of_start(b"id,lat,lon"), format_of_start(b'{"lat": 57.7'), format_of_start(b'{"type": "Feature"')
    ('csv', 'jsonl', 'geojsonl')
    """
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not text:
        raise InputError(f"{INPUT_NAME} is empty: give at least one record")
    if start.startswith(PARQUET_MAGIC):
        return "parquet"
    if start.startswith(GZIP_MAGIC):
        raise InputError(f"{INPUT_NAME} is packed, so its format cannot be told: name it with format (csv, jsonl, ...)")
    if text.startswith(RECORD_SEPARATOR.encode()):
        return "geojsonseq"
    if text[:1] in (b"{", b"["):
        packed = b"".join(text.split())
        if text[:1] == b"[" or b'"type":"FeatureCollection"' in packed:
            raise InputError(
                f"{INPUT_NAME} is one JSON text, which is not a stream of rows: give one object per line, or name the "
                "file as the input in place of the stream"
            )
        return "geojsonl" if b'"type":"Feature"' in packed else "jsonl"
    return "csv"


class StreamRows:
    """The rows of a stream in one of the `FORMATS`, told from its first bytes if it is not given.

    Attributes
    ----------
    format
        What the stream is.
    source
        Its text; None for Parquet.
    types
        The types of the columns of Parquet; None for the others.
    """

    def __init__(self, stream: IO[bytes], format: str | None = None) -> None:  # noqa: A002  the option's name
        check_format(format)
        raw: Any = stream
        buffered: io.BufferedReader[Any] = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(raw)
        self.format = format_of_start(buffered.peek()) if format is None else format
        self.source: TextSource | None = None
        self.types: dict[str, Any] | None = None
        self._ends = ExitStack()
        if self.format == "parquet":
            with ExitStack() as opened:
                self._file = _parquet_file(buffered, opened)
                self._ends = opened.pop_all()
            self.types = {field.name: field.type for field in self._file.schema_arrow}
        else:
            self.source = TextSource(INPUT_NAME, newline="" if self.format == "csv" else None, stream=buffered)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._ends.close()

    def batches(self, mechanism: Mechanism, keep: Sequence[str], *, are_places: bool) -> Iterator[Batch]:
        """Yield the rows by their column (or property) id, or by their coordinates."""
        if self.source is None:
            return table_batches(self._parquet_tables(), mechanism, keep, are_places=are_places)
        lines = ReadyLines(self.source)
        if self.format == "csv":
            return table_batches(csv_tables(self.source, lines=lines), mechanism, keep, are_places=are_places)
        blocks = _blocks(lines, has_separators=self.format == "geojsonseq")
        if self.format == "jsonl":
            return table_batches(_json_tables(blocks), mechanism, keep, are_places=are_places)
        return feature_batches(_features(blocks), self.source.path, mechanism, keep, are_places=are_places)

    def _parquet_tables(self) -> Iterator[Table]:
        pyarrow, _ = arrow()
        names, n_before = tuple(self._file.schema_arrow.names), 0
        try:
            for group in self._file.iter_batches(batch_size=ROWS_OF_GROUP):
                lines = range(n_before + 1, n_before + group.num_rows + 1)
                if group.num_rows:
                    yield _Values(INPUT_NAME, names, tuple(group.columns), lines, is_secret=True)
                n_before += group.num_rows
        except (pyarrow.ArrowException, OSError) as error:
            raise FileFormatError(f"{INPUT_NAME} is damaged Parquet ({type(error).__name__}): get it again") from None
        if not n_before:
            raise InputError(f"{INPUT_NAME} has no rows: give at least one record")


@dataclass(frozen=True, repr=False)
class _Values(Table):
    """Rows whose cells have types: those of JSON, or of Parquet, which are turned into Python's when they are used."""

    def values(self, column: int) -> Sequence[Any]:
        """Return the cells of a column."""
        cells: Any = self.columns[column]
        return cells.to_pylist() if hasattr(cells, "to_pylist") else cells

    def texts(self, column: int) -> Sequence[str]:
        """Return the cells of a column as texts."""
        return [cell_of(value) for value in self.values(column)]

    def numbers(self, column: int, *, is_finite: bool = True) -> NDArray[np.float64]:
        """Return a column as numbers."""
        cells = self.values(column)
        bad = next((row for row, value in enumerate(cells) if not is_number(value)), None)
        found: NDArray[np.float64] | None = None
        with suppress(OverflowError):  # a whole number that is too large
            found = np.array(cells, dtype=np.float64) if bad is None else None
        if found is None or (is_finite and not np.isfinite(found).all()):
            row = bad if bad is not None else 0 if found is None else int(np.flatnonzero(~np.isfinite(found))[0])
            raise InputError(
                f"{self.source}, row {self.lines[row]}, {self.label(column)} is not a finite number: correct or remove "
                "the row"
            )
        return found


def _parquet_file(stream: io.BufferedReader, opened: ExitStack) -> Any:
    """Open Parquet, whose index is at its end; a pipe is copied to a file without a name first, gone with us."""
    pyarrow, parquet = arrow()
    source: Any = stream
    is_file = False
    with suppress(io.UnsupportedOperation):
        is_file = stat.S_ISREG(fstat(stream.fileno()).st_mode)
    if not is_file:
        source = opened.enter_context(tempfile.TemporaryFile())  # noqa: SIM115  closed by the stack
        shutil.copyfileobj(stream, source)
        source.seek(0)
    try:
        return parquet.ParquetFile(source)
    except (pyarrow.ArrowException, OSError):
        raise FileFormatError(f"{INPUT_NAME} is not a whole Parquet file: save it again as Parquet") from None


Block = list[tuple[int, Any]]
"""Some JSON objects, each with the number of its line."""


def _blocks(lines: ReadyLines, *, has_separators: bool) -> Iterator[Block]:
    """Yield the JSON objects of a stream, as many at a time as are there."""
    block: Block = []
    is_empty = True
    for found in _objects(lines, has_separators=has_separators):
        block.append(found)
        is_empty = False
        if len(block) == ROWS_AT_ONCE or not lines.is_ready():
            yield block
            block = []
    if block:
        yield block
    if is_empty:
        raise InputError(f"{INPUT_NAME} is empty: give at least one record")


def _objects(lines: ReadyLines, *, has_separators: bool) -> Iterator[tuple[int, Any]]:
    """Yield each object with its line; after a record separator it may go on over several lines."""
    begun = ""
    for number, line in enumerate(lines, start=1):
        is_start = line.startswith(RECORD_SEPARATOR)
        if begun and is_start:
            raise _broken(number)
        begun += line.lstrip(RECORD_SEPARATOR) if is_start else line
        if not begun.strip():
            begun = ""
            continue
        value = _parsed(begun)
        if value is None and (not has_separators or len(begun) > LONGEST_LINE):
            raise _broken(number)
        if value is not None:
            yield number, value
            begun = ""
    if begun:
        raise InputError(f"{INPUT_NAME} ends within a JSON object: give it whole")


def _parsed(text: str) -> dict[str, Any] | None:
    """Return the object that a text is; None for anything else."""
    with suppress(ValueError, RecursionError):  # whose messages show the text
        value = json.loads(text, parse_constant=_refuse)
        return value if isinstance(value, dict) else None
    return None


def _refuse(constant: str) -> float:
    raise ValueError(constant)


def _broken(number: int) -> FileFormatError:
    return FileFormatError(f"{INPUT_NAME}, line {number} is not a JSON object: give one object in each line")


def _json_tables(blocks: Iterator[Block]) -> Iterator[Table]:
    """Yield tables with the members of the first object as columns."""
    names: tuple[str, ...] = ()
    for block in blocks:
        names = names or tuple(block[0][1])
        columns = tuple([value.get(name) for _, value in block] for name in names)
        yield _Values(INPUT_NAME, names, columns, [number for number, _ in block], is_secret=True)


def _features(blocks: Iterator[Block]) -> Iterator[list[Feature]]:
    for block in blocks:
        other = next((number for number, value in block if value.get("type") != "Feature"), None)
        if other is not None:
            raise FileFormatError(f"{INPUT_NAME}, line {other} is not a GeoJSON Feature: give one in each line")
        yield [Feature(value, f"{INPUT_NAME}, line {number}") for number, value in block]
