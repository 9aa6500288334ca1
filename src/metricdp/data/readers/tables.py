"""CSV tables: parsing, with errors that name the line, the column and (unless it is secret) the value."""

from __future__ import annotations

import csv
import io
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.data.readers.files import read_text
from metricdp.errors import LONGEST_SHOWN, FileFormatError, InputError, revealed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from numpy.typing import NDArray


@dataclass(frozen=True, repr=False)
class Table:
    """The cells of a CSV file as text, column by column; errors show a cell unless the table is secret."""

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
        """Say which column is meant."""
        return f"column {self.names[column]!r}" if self.names else f"column {column + 1}"

    def numbers(self, column: int, *, is_finite: bool = True) -> NDArray[np.float64]:
        """Give a column as numbers, which must be finite unless told otherwise."""
        cells = self.columns[column]
        values: NDArray[np.float64] | None = None
        with suppress(ValueError):  # whose message shows the cell
            _refuse_underscores(cells)
            values = np.fromiter(map(float, cells), dtype=np.float64, count=len(cells))
        if values is None:
            raise self._fault(column, next(row for row, cell in enumerate(cells) if not _is_number(cell)))
        bad = ~np.isfinite(values)
        if is_finite and bad.any():
            raise self._fault(column, int(np.flatnonzero(bad)[0]), what="a finite number")
        return values

    def whole_numbers(self, column: int) -> NDArray[np.int64]:
        """Give a column as whole numbers."""
        cells = self.columns[column]
        try:
            _refuse_underscores(cells)
            return np.fromiter(map(int, cells), dtype=np.int64, count=len(cells))
        except (ValueError, OverflowError):
            row = next(row for row, cell in enumerate(cells) if not _is_whole(cell))
            raise self._fault(column, row, what="a whole number") from None

    def _fault(self, column: int, row: int, *, what: str = "a number") -> InputError:
        cell = self.columns[column][row]
        if not cell.strip():
            found = " is empty"
        elif self.is_secret:
            found = f"{revealed(cell)} is something else"
        else:
            found = f" is {cell if len(cell) <= LONGEST_SHOWN else cell[:LONGEST_SHOWN] + '...'!r}"
        return InputError(
            f"{self.source}, line {self.lines[row]}, {self.label(column)}{found}: it must be {what}; "
            "correct or remove the line"
        )


def read_table(path: str | PathLike[str], *, has_header: bool = True) -> Table:
    """Give the cells of a CSV file, gzip or not; blank lines are passed over."""
    rows: list[list[str]] = []
    lines: list[int] = []
    reader = csv.reader(io.StringIO(read_text(path), newline=""))
    try:
        for row in reader:
            if row:
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise FileFormatError(f"{path}, line {reader.line_num} is not CSV ({error}): correct the line") from None
    width = len(rows[0])
    for row, line in zip(rows, lines, strict=True):
        if len(row) != width:
            raise FileFormatError(
                f"{path}, line {line} has {len(row)} cells, but line {lines[0]} has {width}: "
                "give every line the same number of cells"
            )
    if not has_header:
        return Table(str(path), (), tuple(zip(*rows, strict=True)), lines)
    if len(rows) == 1:
        raise InputError(f"{path} has a header but no rows: give at least one record")
    names = tuple(name.strip() for name in rows[0])
    return Table(str(path), names, tuple(zip(*rows[1:], strict=True)), lines[1:])


def _refuse_underscores(cells: Sequence[str]) -> None:
    # Python reads 1_000 as a number; in a table it is a mistake
    if "_" in "".join(cells):
        raise ValueError


def _is_number(cell: str) -> bool:
    try:
        _refuse_underscores(cell)
        float(cell)
    except ValueError:
        return False
    return True


def _is_whole(cell: str) -> bool:
    try:
        _refuse_underscores(cell)
        value = int(cell)
    except ValueError:
        return False
    return -(2**63) <= value < 2**63
