"""Outputs: what a mechanism may report, rows of the records or other points."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.data.frozen import FrozenArrays, frozen, refuse_masked
from metricdp.errors import InputError
from metricdp.problem.spread import spread_rows

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from metricdp.data.records import Records
    from metricdp.metric.distances import Metric

LONGEST_NAME = 1000  # characters
HALF_CHARACTER = re.compile("[\\ud800-\\udfff]")  # of a surrogate pair
SPREAD, RANDOM = "spread", "random"


@dataclass(frozen=True, eq=False)
class Outputs(FrozenArrays):
    """The K things that can be reported, in read-only arrays of its own.

    Parameters
    ----------
    coordinates
        Shape (K, D).
    rows
        The record that each output is, or None when the outputs are other points.
    names
        Names of their own, such as postcodes, each once; by default the records' ids, or their numbers.
    """

    coordinates: NDArray[np.float64]
    rows: NDArray[np.int64] | None = None
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.names is not None:
            object.__setattr__(self, "names", _checked_names(self.names, len(self.coordinates)))
        object.__setattr__(self, "coordinates", frozen(self.coordinates))
        if self.rows is not None:
            object.__setattr__(self, "rows", frozen(self.rows))

    @property
    def n(self) -> int:
        """Number of outputs."""
        return len(self.coordinates)

    def ids(self, records: Records) -> tuple[str, ...]:
        """Return the outputs' names: their own, the records' ids, or their numbers for other points."""
        if self.names is not None:
            return self.names
        if self.rows is None:
            return tuple(f"output {k}" for k in range(self.n))
        return tuple(records.ids[row] for row in self.rows)

    @classmethod
    def of(
        cls, outputs: int | str | ArrayLike | None, records: Records, *, seed: int, metric: Metric | None = None
    ) -> Outputs:
        """Make outputs from a count, ``"spread:K"``, ``"random:K"``, row numbers, or points.

        ``spread``, and a plain count, take records that are well spread, as ``metric`` measures; ``random`` draws them
        with ``seed``. One-dimensional whole numbers are rows; a table with the records' number of columns is points. By
        default every record is an output.
        """
        if outputs is None:
            return cls(records.coordinates, np.arange(records.n))
        if isinstance(outputs, (int, np.integer)) and not isinstance(outputs, bool):
            outputs = f"{SPREAD}:{_count(int(outputs), records)}"
        if isinstance(outputs, str):
            how, count = _asked(outputs, records)
            if how == RANDOM:
                return cls._drawn(count, records, seed)
            rows = spread_rows(records, count, metric)
            return cls(records.coordinates[rows], rows)
        refuse_masked(outputs)
        try:
            given = np.asarray(outputs)
        except ValueError as error:
            raise InputError(f"outputs must be a count, row numbers or points: {error}") from None
        if given.ndim == 1 and given.size and np.issubdtype(given.dtype, np.integer):
            return cls._rows(given.astype(np.int64), records)
        if given.ndim == 2 and given.size and np.issubdtype(given.dtype, np.number):
            return cls._points(given.astype(np.float64), records)
        raise InputError(
            f"outputs must be a count, a list of row numbers, or a table of points, got {given.dtype} "
            f"of shape {given.shape}"
        )

    @classmethod
    def _drawn(cls, count: int, records: Records, seed: int) -> Outputs:
        rows = np.sort(np.random.default_rng([seed, 1]).choice(records.n, size=count, replace=False))
        return cls(records.coordinates[rows], rows)

    @classmethod
    def _rows(cls, rows: NDArray[np.int64], records: Records) -> Outputs:
        outside = (rows < 0) | (rows >= records.n)
        if outside.any():
            raise InputError(
                f"output row {rows[outside][0]} does not exist: there are {records.n} records (rows 0 to "
                f"{records.n - 1})"
            )
        if len(np.unique(rows)) < len(rows):
            values, counts = np.unique(rows, return_counts=True)
            raise InputError(f"output row {values[counts > 1][0]} is named more than once: name each output once")
        return cls(records.coordinates[rows], rows)

    @classmethod
    def _points(cls, points: NDArray[np.float64], records: Records) -> Outputs:
        if points.shape[1] != records.dimension:
            raise InputError(
                f"output points must have the records' {records.dimension} coordinates, got {points.shape[1]}"
            )
        if not np.isfinite(points).all():
            row = int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])
            raise InputError(f"output points must be finite, got {points[row].tolist()} in row {row}")
        outside = (np.abs(points) > [90.0, 180.0]).any(axis=1) if records.kind == "places" else np.zeros(len(points))
        if outside.any():
            row = int(np.flatnonzero(outside)[0])
            raise InputError(
                f"output points must have a latitude between -90 and 90 and a longitude between -180 and 180 degrees, "
                f"got {points[row].tolist()} in row {row} ({int(outside.sum())} such rows): check the order of the "
                "columns and the unit"
            )
        return cls(points, None)


def _checked_names(names: tuple[str, ...], n: int) -> tuple[str, ...]:
    """Return the names of outputs after checking that each output has one, and that they differ."""
    if not all(type(name) is str and 0 < len(name) <= LONGEST_NAME for name in names):
        raise InputError(f"names of outputs must be texts of 1 to {LONGEST_NAME} characters")
    if any(HALF_CHARACTER.search(name) for name in names):
        raise InputError("names of outputs must be whole characters: one has half of a surrogate pair")
    if len(names) != n or len(set(names)) != n:
        raise InputError(
            f"{n} outputs need {n} names, each once, got {len(names)}, {len(set(names))} of them different"
        )
    return tuple(names)


def _count(count: int, records: Records) -> int:
    if not 1 <= count <= records.n:
        raise InputError(
            f"outputs must be between 1 and the number of records {records.n}, got {count}: "
            "ask for fewer, or give other points as outputs"
        )
    return count


def _asked(outputs: str, records: Records) -> tuple[str, int]:
    """Return how the outputs are chosen, and their number."""
    how, _, count = outputs.partition(":")
    if how not in (SPREAD, RANDOM) or not count.isdecimal():
        raise InputError(f"outputs must be a count, spread:COUNT or random:COUNT, got {outputs!r}")
    return how, _count(int(count), records)
