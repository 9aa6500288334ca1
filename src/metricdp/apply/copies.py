"""Kept columns that hold the secret under another name: found by comparing them with it, row by row."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from metricdp.mechanism.mechanism import Mechanism

ROWS_AT_ONCE = 4096
ROWS_LOOKED_AT = 512  # the first of each 4,096: enough to find a copy in half of them, in an eighth of the time
MAX_NUMBERS = 8  # of one cell
SAME_NUMBER_TOLERANCE = 1e-6  # relative: a few metres in degrees
SCALES = (1.0, 1e6, 1e7)  # plain degrees, and the whole numbers that phones store
NUMBER = re.compile(r"[-+]?[0-9]+(?:\.([0-9]+))?(?:[eE][-+]?[0-9]+)?")
WORD = re.compile(r"[^\s,;:|/=()\[\]{}\"']+")


class Copies:
    """Counts for each kept column in how many rows it holds the true id or one of the true coordinates.

    A cell holds an id if it is the id or one of its words is, whatever the case. It holds a coordinate if one of its
    numbers is the coordinate, also rounded to the decimals that are shown or in millionths: so also in
    ``57.7, 11.97`` or ``POINT (11.97 57.7)``. A column is refused if at least half of its cells do so beyond those that
    would by chance (compared with the secrets of other rows). **No check finds every copy**: a geohash, a postcode,
    another projection or an encrypted id passes.
    """

    def __init__(self, mechanism: Mechanism, names: Sequence[object]) -> None:
        self._records = mechanism.records
        self._names = list(names)
        self._filled = np.zeros(len(self._names), dtype=np.int64)
        self._found: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)] * len(self._names)
        self._by_chance = list(self._found)

    def look(
        self,
        kept: Sequence[Sequence[Any]],
        rows: NDArray[np.int64],
        points: NDArray[np.float64] | None = None,
        *,
        text_of: Callable[[Any], str] = str,
    ) -> None:
        """Compare rows of the kept columns with the true records and, if there are any, the true points.

        Of many rows only some are examined.
        """
        for start in range(0, len(rows) if self._names else 0, ROWS_AT_ONCE):
            part = slice(start, start + ROWS_LOOKED_AT)
            numbers = self._records.coordinates[rows[part]]
            if points is not None:
                numbers = np.hstack((numbers, points[part]))
            ids = [self._records.ids[row].strip().casefold() for row in rows[part].tolist()]
            half = len(ids) // 2
            for column, cells in enumerate(zip(*kept[part], strict=True)):
                texts = [text_of(cell).strip().casefold() for cell in cells]
                self._filled[column] += sum(map(bool, texts))
                looked = _Cells(texts)
                self._found[column] = _sum(self._found[column], looked.matches(ids, numbers))
                shifted = looked.matches(ids[half:] + ids[:half], np.roll(numbers, -half, axis=0))
                self._by_chance[column] = _sum(self._by_chance[column], shifted)

    def refuse_if_any(self) -> None:
        """Refuse the kept columns if one of them holds the secret."""
        for name, filled, found, by_chance in zip(
            self._names, self._filled.tolist(), self._found, self._by_chance, strict=True
        ):
            copied = found[2 * found >= filled + by_chance].max(initial=0)
            if copied:
                raise InputError(
                    f"the kept column {name!r} holds the true record under another name (in {copied} of {filled} "
                    "examined rows): leave it out; harmless columns can be added to the reports afterwards"
                )


def _sum(counts: NDArray[np.int64], matches: NDArray[np.bool_]) -> NDArray[np.int64]:
    return matches.sum(axis=0) + (counts if counts.size else 0)


class _Cells:
    """The cells of a column, with the numbers in them and how many decimals each number shows."""

    def __init__(self, texts: list[str]) -> None:
        found = [[(match[0], match[1] or "") for match in NUMBER.finditer(text)][:MAX_NUMBERS] for text in texts]
        shape = len(texts), max(map(len, found), default=0)
        self._texts = texts
        self._values, self._decimals = np.full(shape, np.nan), np.zeros(shape)
        for row, numbers in enumerate(found):
            self._values[row, : len(numbers)] = [float(number) for number, _ in numbers]
            self._decimals[row, : len(numbers)] = [len(fraction) for _, fraction in numbers]

    def matches(self, ids: list[str], numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return for each row whether its cell holds the id (first column) and each of the numbers."""
        is_id = np.array([_holds(text, name) for text, name in zip(self._texts, ids, strict=True)], dtype=bool)
        is_number = np.zeros(numbers.shape, dtype=bool)
        for value, digits in zip(self._values.T, self._decimals.T, strict=True):
            for scale in SCALES:
                true = scale * numbers
                # rounded or cut off after its digits; a whole number alone is rounded only if it counts millionths
                shown = np.where((digits > 0) | (scale > 1.0), 10.0**-digits, 0.0)
                is_number |= np.abs(value[:, None] - true) <= SAME_NUMBER_TOLERANCE * np.abs(true) + shown[:, None]
        return np.column_stack((is_id, is_number))


def _holds(text: str, name: str) -> bool:
    if name in text and (text == name or name in WORD.findall(text)):
        return True
    # a number that is written in another way
    is_number = name[-1:].isdecimal() and NUMBER.fullmatch(text) and NUMBER.fullmatch(name)
    return bool(is_number) and float(text) == float(name)
