"""CSV tables: parsing, with errors that name the line, the column and (unless it is secret) the value."""

from __future__ import annotations

import csv
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.data.readers.streams import LONGEST_LINE
from metricdp.errors import LONGEST_SHOWN, FileFormatError, InputError, revealed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from metricdp.data.readers.streams import ReadyLines, TextSource

ROWS_AT_ONCE = 4096
CELLS_AT_ONCE = 1 << 18


@dataclass(frozen=True, repr=False)
class Table:
    """The cells of some rows of a CSV file as text, column by column; errors show a cell unless they are secret."""

    source: str
    names: tuple[str, ...]
    columns: tuple[Sequence[str], ...]
    lines: Sequence[int]
    is_secret: bool = False

    def __repr__(self) -> str:
        return f"Table({self.source!r}: {self.n_rows} rows, {len(self.columns)} columns)"

    @property
    def n_rows(self) -> int:
        """Number of rows below the header."""
        return len(self.lines)

    def label(self, column: int) -> str:
        """Return the name of the column that is meant."""
        return f"column {self.names[column]!r}" if self.names else f"column {column + 1}"

    def values(self, column: int) -> Sequence[Any]:
        """Return the cells of a column."""
        return self.columns[column]

    def texts(self, column: int) -> Sequence[str]:
        """Return the cells of a column as texts, which these are."""
        return self.columns[column]

    def numbers(self, column: int, *, is_finite: bool = True) -> NDArray[np.float64]:
        """Return a column as numbers, which must be finite if ``is_finite``."""
        cells = self.columns[column]
        values: NDArray[np.float64] | None = None
        with suppress(ValueError):  # whose message shows the cell
            refuse_underscores(cells)
            values = np.fromiter(map(float, cells), dtype=np.float64, count=len(cells))
        if values is None:
            raise self._fault(column, next(row for row, cell in enumerate(cells) if not is_number(cell)))
        bad = ~np.isfinite(values)
        if is_finite and bad.any():
            raise self._fault(column, int(np.flatnonzero(bad)[0]), what="a finite number")
        return values

    def whole_numbers(self, column: int) -> NDArray[np.int64]:
        """Return a column as whole numbers."""
        cells = self.columns[column]
        try:
            refuse_underscores(cells)
            return np.fromiter(map(int, cells), dtype=np.int64, count=len(cells))
        except (ValueError, OverflowError):
            row = next(row for row, cell in enumerate(cells) if not _is_whole(cell))
            raise self._fault(column, row, what="a whole number") from None

    def _fault(self, column: int, row: int, *, what: str = "a number") -> InputError:
        cell = self.columns[column][row]
        if not cell.strip():
            found = f" is empty: it must be {what}"
        elif self.is_secret:
            found = f"{revealed(cell)} is not {what}"
        else:
            shown = cell if len(cell) <= LONGEST_SHOWN else cell[:LONGEST_SHOWN] + "..."
            found = f" is {shown!r}: it must be {what}"
        return InputError(
            f"{self.source}, line {self.lines[row]}, {self.label(column)}{found}; correct or remove the line"
        )


def csv_tables(source: TextSource, *, has_header: bool = True, lines: ReadyLines | None = None) -> Iterator[Table]:
    """Yield the rows of a CSV file in tables of a few thousand each, at least one; blank lines are skipped.

    With ``lines``, those of ``source``, a table ends as well where its next row would have to be waited for.
    """
    lines_of_row = _LinesOfRow(source, source.lines() if lines is None else lines)
    reader = csv.reader(lines_of_row, strict=True)  # quotes that do not close would swallow rows
    names: list[str] = []
    width = 0
    cells: list[str] = []  # row after row: a list for each row would keep the garbage collector busy
    numbers: list[int] = []
    n_tables = 0
    try:
        for row in reader:
            lines_of_row.n_characters = 0
            if not row or not (width or "".join(row).strip()):
                continue
            if not width:
                width, first_line = len(row), reader.line_num
                rows_at_once = max(1, min(ROWS_AT_ONCE, CELLS_AT_ONCE // width))
                if has_header:
                    names = [name.strip() for name in row]
                    continue
            if len(row) != width:
                raise FileFormatError(
                    f"{source.path}, line {reader.line_num} has {len(row)} cells, but line {first_line} has {width}: "
                    "give every line the same number of cells"
                )
            cells += row
            numbers.append(reader.line_num)
            if len(numbers) == rows_at_once or (lines is not None and not lines.is_ready()):
                yield _table(source, names, width, cells, numbers)
                n_tables += 1
                cells, numbers = [], []
    except csv.Error as error:
        raise FileFormatError(f"{source.path}, line {reader.line_num} is not CSV ({error}): correct the line") from None
    _check_content(source, width, n_tables + len(numbers))
    if numbers:
        yield _table(source, names, width, cells, numbers)


def _table(source: TextSource, names: list[str], width: int, cells: list[str], numbers: list[int]) -> Table:
    columns = tuple(tuple(cells[column::width]) for column in range(width))
    return Table(str(source.path), tuple(names), columns, numbers, is_secret=source.is_secret)


def _check_content(source: TextSource, width: int, n_rows: int) -> None:
    if not width:
        raise InputError(f"{source.path} is empty: give a file with at least one record")
    if not n_rows:
        raise InputError(f"{source.path} has a header but no rows: give at least one record")


class _LinesOfRow:
    """The lines of a file; quotes may join lines to one row, up to a limit."""

    def __init__(self, source: TextSource, lines: Iterable[str]) -> None:
        self._source, self._lines = source, lines
        self.n_characters = 0

    def __iter__(self) -> Iterator[str]:
        for number, line in enumerate(self._lines, start=1):
            self.n_characters += len(line)
            if self.n_characters > LONGEST_LINE:
                raise FileFormatError(
                    f"{self._source.path}, line {number} is part of a row of more than {LONGEST_LINE:,} characters: "
                    "close the quotes"
                )
            yield line


def refuse_underscores(cells: Sequence[str]) -> None:
    """Raise ValueError if there are any: Python reads 1_000 as a number; in a file it is a mistake."""
    if "_" in "".join(cells):
        raise ValueError


def is_number(cell: str) -> bool:
    """Return whether a cell is a number, finite or not."""
    try:
        refuse_underscores(cell)
        float(cell)
    except ValueError:
        return False
    return True


def _is_whole(cell: str) -> bool:
    try:
        refuse_underscores(cell)
        value = int(cell)
    except ValueError:
        return False
    return -(2**63) <= value < 2**63
