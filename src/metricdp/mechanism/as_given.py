"""A float matrix as a table without repair, and how far a table is from the matrix that it was made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import InputError
from metricdp.mechanism.exact import TOTAL, TOTAL_BITS
from metricdp.mechanism.repair import checked_matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROW_SUM_TOLERANCE = 1e-6  # a row that is farther from 1 is no distribution, whatever the rounding


@dataclass(frozen=True)
class Moved:
    """How far the rows of a table are from those of the matrix that it was made of, in total variation.

    That is the share of the reports that come out differently: 0 if none, 1 if all. ``mean`` is over the prior,
    ``farthest`` is the largest of all records, and ``row`` that record.

    Examples
    --------
    >>> str(Moved(0.012, 0.001, 3))
    'rows were moved by 0.1 % of their reports on average, by 1.2 % at most (record 3)'
    """

    farthest: float
    mean: float
    row: int

    def __str__(self) -> str:
        return (
            f"rows were moved by {100 * self.mean:.3g} % of their reports on average, by {100 * self.farthest:.3g} % "
            f"at most (record {self.row})"
        )


def moved(Z: NDArray[np.float64], table: NDArray[np.uint64], prior: NDArray[np.float64]) -> Moved:
    """Return how far ``table`` is from the matrix ``Z``, whose rows are scaled to sum to 1.

    A row of zeros, which stands for no distribution, counts as moved entirely.
    """
    rows = checked_matrix(Z, len(table))
    largest = rows.max(axis=1, keepdims=True)
    np.divide(rows, largest, out=rows, where=largest > 0)  # first, so that huge entries cannot overflow the sum
    sums = rows.sum(axis=1, keepdims=True)
    np.divide(rows, sums, out=rows, where=sums > 0)
    away = np.where(sums[:, 0] > 0, 0.5 * np.abs(rows - table / 2.0**TOTAL_BITS).sum(axis=1), 1.0)
    row = int(away.argmax())
    return Moved(float(away[row]), float(prior @ away), row)


def rounded_table(Z: NDArray[np.float64], n: int) -> NDArray[np.uint64]:
    """Return probabilities as whole numbers that sum to 2^63 in each row: rounded, and not repaired.

    Positive entries stay positive and zeros stay zero; what is missing to 2^63, a few units of the last place, goes to
    the largest entry of the row.
    """
    rows = checked_matrix(Z, n)
    sums = rows.sum(axis=1)
    wrong = ~(np.abs(sums - 1.0) <= ROW_SUM_TOLERANCE)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"row {row + 1} of the matrix sums to {float(sums[row])!r} ({int(wrong.sum())} such rows), and "
            "probabilities sum to 1: divide each row by its sum, or let the matrix be repaired"
        )
    whole = np.maximum(np.floor(rows / sums[:, None] * 2.0**TOTAL_BITS), rows > 0)
    table = np.minimum(whole, 2.0**TOTAL_BITS).astype(np.uint64)
    for row in table:
        # in Python's whole numbers, which do not overflow
        place = int(row.argmax())
        row[place] = np.uint64(int(row[place]) + TOTAL - sum(map(int, row)))
    return table
