"""What it costs to report an output in place of a record: losses that are computed where they are needed.

With every record an output there are N x N of them, which for a whole city fit into no memory. So a problem holds how
its losses are made, and whoever needs them asks for blocks. Each kind shows what a solver's kernel needs to compute
them itself: `DistanceLosses` its metric and coordinates, `TravelLosses` the ways to the destinations.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast

import numpy as np
from scipy.sparse.csgraph import connected_components

from metricdp.data.frozen import FrozenArrays, frozen, refuse_masked
from metricdp.errors import InputError
from metricdp.metric.directions import DirectionMetric
from metricdp.metric.distances import CHUNK_ENTRIES, LARGEST_FOR_TREE, CoordinateMetric
from metricdp.metric.given import FunctionMetric, StreetMetric, street_matrix
from metricdp.problem.destinations import destination_rows, weighted_destinations
from metricdp.problem.memory_model import check_matrix_memory, matrix_fits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import ArrayLike, NDArray

    from metricdp.data.records import Records
    from metricdp.metric.distances import Metric
    from metricdp.problem.outputs import Outputs

    Index = NDArray[np.integer[Any]] | slice
    LossFunction = Callable[[NDArray[np.float64], NDArray[np.float64]], ArrayLike]

WEIGHTED_TRAVEL = "travel to weighted destinations"
ENTRIES_AT_ONCE = 1 << 15  # of a temporary array, which then stays in a core's cache
EVERYTHING = slice(None)


class Losses(FrozenArrays, ABC):
    """The losses ``c_ik`` of N records and K outputs, finite and not negative; they never change.

    A kind has a ``name``, a ``shape`` (N, K) and a way to compute a block.
    """

    name: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]} records x {self.shape[1]} outputs, {self.name})"

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of copies and pickles, which does not include the whole matrix where it can be made."""
        return {key: value for key, value in self.__dict__.items() if key != "_made"}

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Number of records and number of outputs."""

    @abstractmethod
    def block(self, rows: Index, outputs: Index) -> NDArray[np.float64]:
        """Return the losses of some records and outputs (numbers or slices), shape (len(rows), len(outputs)).

        It may be a read-only part of a given matrix.
        """

    def named(self, name: str) -> Self:
        """Return the same losses under another name."""
        return self if name == self.name else replace(cast("Any", self), name=name)

    def fits(self, *, memory_limit: float | None = None) -> bool:
        """Return whether there is memory for the matrix of all losses, or it has been made already."""
        return "_made" in self.__dict__ or matrix_fits(self.shape, limit=memory_limit)

    def whole(self, *, memory_limit: float | None = None) -> NDArray[np.float64]:
        """Return all losses as a frozen matrix (N, K), made once; one that does not fit into memory is refused.

        ``memory_limit`` are gigabytes for the whole process; by default what is available counts.
        """
        if "_made" not in self.__dict__:
            check_matrix_memory(self.shape, limit=memory_limit)
            object.__setattr__(self, "_made", frozen(self.block(EVERYTHING, EVERYTHING)))
        made: NDArray[np.float64] = self.__dict__["_made"]
        return made


@dataclass(frozen=True, eq=False, repr=False)
class DistanceLosses(Losses):
    """The distance from each record to each output, in the metric's unit."""

    records: Records
    outputs: Outputs
    metric: Metric
    name: str = "distance"

    @property
    def shape(self) -> tuple[int, int]:
        return self.records.n, self.outputs.n

    def block(self, rows: Index, outputs: Index) -> NDArray[np.float64]:
        if type(self.metric) in (CoordinateMetric, DirectionMetric):
            return cast("CoordinateMetric", self.metric).between(
                self.records.coordinates[rows], self.outputs.coordinates[outputs]
            )
        chosen, wanted = np.arange(self.records.n)[rows], np.arange(self.outputs.n)[outputs]
        found = np.empty((len(chosen), len(wanted)))
        # other metrics measure from all records at once
        for part in _parts(len(wanted), self.records.n):
            found[:, part] = self._from_all(wanted[part])[chosen]
        return found

    def _from_all(self, outputs: NDArray[np.int64]) -> NDArray[np.float64]:
        if self.outputs.rows is not None:
            return self.metric.to_rows(self.records, self.outputs.rows[outputs])
        return self.metric.to_points(self.records, self.outputs.coordinates[outputs])

    def check(self) -> None:
        """Check that no distance is infinite, in bounded memory."""
        if type(self.metric) in (CoordinateMetric, DirectionMetric) and self._is_far_from_overflow():
            return
        if type(self.metric) is StreetMetric and self.outputs.rows is not None:
            streets, nodes = self.metric.network(self.records)
            if math.isfinite(len(streets.lengths) * float(streets.lengths.max(initial=0.0))):  # so is every path
                _, part = connected_components(street_matrix(streets), directed=False)
                _check_connected(part[nodes], part[nodes[self.outputs.rows]])
                return
        for part in _parts(self.outputs.n, self.records.n):
            _check_finite(self.block(EVERYTHING, part), first_output=part.start)

    def _is_far_from_overflow(self) -> bool:
        if self.metric.name in ("haversine", *DirectionMetric.NAMES):
            return True
        largest = max(np.abs(self.records.coordinates).max(), np.abs(self.outputs.coordinates).max())
        return bool(largest < LARGEST_FOR_TREE)


@dataclass(frozen=True, eq=False, repr=False)
class TravelLosses(Losses):
    """The mean error of travel costs when the output replaces the record (the paper's appendix D.1).

    ``c_ik = mean over q of |from_records[i, q] - from_outputs[k, q]|``.

    Parameters
    ----------
    from_records, from_outputs
        The ways from each record and from each output to the destinations, shapes (N, Q) and (K, Q).
    """

    from_records: NDArray[np.float64]
    from_outputs: NDArray[np.float64]
    name: str = "travel"

    def __post_init__(self) -> None:
        for key in ("from_records", "from_outputs"):
            object.__setattr__(self, key, frozen(getattr(self, key), np.float64))

    @classmethod
    def of(
        cls,
        records: Records,
        outputs: Outputs,
        metric: Metric,
        *,
        destinations: int | ArrayLike | None = None,
        destination_prior: ArrayLike | None = None,
        seed: int = 0,
    ) -> TravelLosses:
        """Measure along the streets where the records have a street network, and by the metric where not.

        Destinations are rows of the records: a count (100 by default, drawn with ``seed``) or row numbers. With
        ``destination_prior`` they are weighted (the paper's p_dest): one weight for each of the row numbers, or,
        without ``destinations``, for each record; then all records with a positive weight are destinations.
        """
        if destination_prior is not None:
            rows, weights = weighted_destinations(destinations, destination_prior, records)
            plain = cls.of(records, outputs, metric, destinations=rows)
            # the mean over the destinations of ways that are this much longer is the weighted mean of the ways
            scale = len(rows) * weights
            return cls(plain.from_records * scale, plain.from_outputs * scale, WEIGHTED_TRAVEL)
        rows = destination_rows(destinations, records, seed)
        way = StreetMetric() if records.streets is not None and outputs.rows is not None else metric
        from_records = way.to_rows(records, rows)
        if not np.isfinite(from_records).all():
            i, q = (int(v) for v in np.argwhere(~np.isfinite(from_records))[0])
            raise InputError(
                f"there is no way from record {records.ids[i]} to destination {records.ids[rows[q]]}: "
                "keep one connected part of the street network, or use loss='distance' with another metric"
            )
        if outputs.rows is not None:
            return cls(from_records, from_records[outputs.rows])
        return cls(from_records, DistanceLosses(records, outputs, metric).block(rows, EVERYTHING).T)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.from_records), len(self.from_outputs)

    def block(self, rows: Index, outputs: Index) -> NDArray[np.float64]:
        from_rows, from_outputs = self.from_records[rows], self.from_outputs[outputs]
        found = np.empty((len(from_rows), len(from_outputs)))
        for part in _parts(len(from_rows), from_rows.shape[1], ENTRIES_AT_ONCE):
            here = from_rows[part]
            error = np.empty_like(here)
            for k, there in enumerate(from_outputs):
                np.subtract(here, there, out=error)
                found[part, k] = np.abs(error, out=error).mean(axis=1)
        return found


@dataclass(frozen=True, eq=False, repr=False)
class GivenLosses(Losses):
    """A matrix of losses, shape (N, K): a frozen copy, finite and not negative."""

    matrix: NDArray[np.float64]
    name: str = "given"

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "matrix", frozen(self.matrix, np.float64))
        except InputError:  # a masked array
            raise
        except (TypeError, ValueError):
            raise InputError("the loss matrix must be numbers in rows of equal length") from None
        if self.matrix.ndim != 2:
            raise InputError(
                f"the loss matrix must have one row per record and one column per output, got shape {self.matrix.shape}"
            )
        _check_values(self.matrix, EVERYTHING, EVERYTHING)

    @property
    def shape(self) -> tuple[int, int]:
        n, K = self.matrix.shape
        return n, K

    def block(self, rows: Index, outputs: Index) -> NDArray[np.float64]:
        return self.matrix[rows][:, outputs]

    def fits(self, *, memory_limit: float | None = None) -> bool:
        return True

    def whole(self, *, memory_limit: float | None = None) -> NDArray[np.float64]:
        return self.matrix


@dataclass(frozen=True, eq=False, repr=False)
class FunctionLosses(Losses):
    """A user's function of the coordinates of some records and of some outputs.

    Parameters
    ----------
    function
        Called with two tables of coordinates, shapes (n, D) and (k, D); it must return the losses, shape (n, k). They
        are checked wherever they are computed.
    """

    function: LossFunction
    records: Records
    outputs: Outputs
    name: str = "function"

    def __post_init__(self) -> None:
        self.block(slice(0, 2), slice(0, 3))  # a function of the wrong kind is refused at once

    @property
    def shape(self) -> tuple[int, int]:
        return self.records.n, self.outputs.n

    def block(self, rows: Index, outputs: Index) -> NDArray[np.float64]:
        here, there = self.records.coordinates[rows], self.outputs.coordinates[outputs]
        found = np.empty((len(here), len(there)))
        for part in _parts(len(here), max(1, len(there))):
            found[part] = self._called(here[part], there)
        _check_values(found, rows, outputs)
        return found

    def _called(self, here: NDArray[np.float64], there: NDArray[np.float64]) -> NDArray[np.float64]:
        shape = (len(here), len(there))
        try:
            given = self.function(here, there)
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise InputError(
                f"the loss function failed for tables of {shape[0]} records and {shape[1]} outputs ({what}): it is "
                "called with two tables of coordinates and must give a matrix"
            ) from error
        refuse_masked(given)
        try:
            values = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            values = np.empty(0)
        if values.shape != shape:
            raise InputError(
                "the loss function must give numbers with one row per record and one column per output, "
                f"{shape}, got {type(given).__name__} of shape {np.shape(values)}"
            )
        return values


def as_losses(
    loss: str | Losses | LossFunction | ArrayLike | None,
    records: Records,
    outputs: Outputs,
    metric: Metric,
    *,
    destinations: int | ArrayLike | None = None,
    destination_prior: ArrayLike | None = None,
    seed: int = 0,
) -> Losses:
    """Return losses from a name, a matrix or a function; by default travel for places and distance for vectors."""
    if loss is None:
        loss = "travel" if records.kind == "places" else "distance"
    if destination_prior is not None and not (isinstance(loss, str) and loss == "travel"):
        raise InputError("a prior over destinations is for the loss travel: leave it out, or choose loss='travel'")
    if isinstance(loss, str):
        if loss == "travel":
            return TravelLosses.of(
                records, outputs, metric, destinations=destinations, destination_prior=destination_prior, seed=seed
            )
        if loss == "distance":
            return distance_losses(records, outputs, metric)
        raise InputError(f"unknown loss {loss!r}: choose travel, distance, or give a matrix or a function")
    if not isinstance(loss, Losses) and callable(loss):
        return FunctionLosses(loss, records, outputs)
    return given_losses(loss, records.n, outputs.n)


def distance_losses(records: Records, outputs: Outputs, metric: Metric) -> Losses:
    """Return the distances as losses, all finite; those of a user's function, which is slow, are measured once."""
    losses = DistanceLosses(records, outputs, metric)
    if not isinstance(metric, FunctionMetric):
        losses.check()
        return losses
    check_matrix_memory(losses.shape, limit=None)
    matrix = losses.block(EVERYTHING, EVERYTHING)
    _check_finite(matrix)
    return GivenLosses(matrix, losses.name)


def given_losses(
    loss: Losses | LossFunction | ArrayLike, n_records: int, n_outputs: int, *, name: str = "given"
) -> Losses:
    """Return losses or a matrix of them as losses, checked: one row per record and one column per output."""
    losses = loss if isinstance(loss, Losses) else GivenLosses(cast("Any", loss), name)
    if losses.shape != (n_records, n_outputs):
        raise InputError(
            f"the loss matrix must have one row per record and one column per output, "
            f"({n_records}, {n_outputs}), got shape {losses.shape}"
        )
    return losses


def _parts(n: int, entries: int, at_once: int = CHUNK_ENTRIES) -> Iterator[slice]:
    """Yield slices of ``n`` rows with so many entries each, which have at most ``at_once`` together."""
    step = max(1, at_once // max(1, entries))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def _check_values(losses: NDArray[np.float64], rows: Index, outputs: Index) -> None:
    """Check a block of losses, which are those of these rows and outputs."""
    bad = ~(np.isfinite(losses) & (losses >= 0))
    if bad.any():
        a, b = (int(v) for v in np.argwhere(bad)[0])
        i, k = (a if isinstance(chosen, slice) else int(chosen[a]) for a, chosen in ((a, rows), (b, outputs)))
        raise InputError(
            f"losses must be finite and not negative, got {losses[a, b]} for record {i} and output {k} "
            f"({int(bad.sum())} such entries): add a constant to a row, which does not change the optimal mechanism"
        )


def _check_finite(distances: NDArray[np.float64], first_output: int = 0) -> None:
    infinite = np.argwhere(~np.isfinite(distances))
    if len(infinite):
        _refuse_infinite(int(infinite[0, 0]), first_output + int(infinite[0, 1]))


def _check_connected(part_of_record: NDArray[np.int32], part_of_output: NDArray[np.int32]) -> None:
    """Check that all records and outputs are in one part of the street network."""
    part = part_of_record[0]
    if (part_of_output != part).any():
        _refuse_infinite(0, int(np.flatnonzero(part_of_output != part)[0]))
    if (part_of_record != part).any():
        _refuse_infinite(int(np.flatnonzero(part_of_record != part)[0]), 0)


def _refuse_infinite(record: int, output: int) -> NoReturn:
    raise InputError(
        f"record {record} and output {output} are infinitely far apart: give the loss as a matrix with finite entries"
    )
