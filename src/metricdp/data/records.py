"""Records: what a person may want to hide, with coordinates and a prior."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from metricdp.data.frozen import FrozenArrays, frozen
from metricdp.data.geodesy import haversine_km
from metricdp.errors import Faults, InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from metricdp.data.streets import StreetNetwork

Kind = Literal["places", "vectors"]


@dataclass(frozen=True, eq=False, repr=False)
class Records(FrozenArrays):
    """The secret records: ids, coordinates and how likely each is, in read-only arrays of its own.

    Parameters
    ----------
    coordinates
        One row per record, shape (N, D). Places have latitude and longitude in degrees.
    ids
        Unique names; row numbers if left out.
    prior
        How likely each record is: not negative, scaled to sum to 1. Uniform if left out.
    kind
        ``"places"`` (latitude, longitude) or ``"vectors"``.
    name
        What the records are called in summaries.
    streets, street_nodes
        The street network that the records belong to and the intersection of each record in it.

    Examples
    --------
    >>> records = Records([[0.0, 0.0], [1.0, 0.0]], prior=[1, 3], kind="vectors")
    >>> records.n, records.prior.tolist()
    (2, [0.25, 0.75])
    """

    coordinates: NDArray[np.float64]
    ids: tuple[str, ...] = ()
    prior: NDArray[np.float64] = field(default=None)  # type: ignore[arg-type]
    kind: Kind = "places"
    name: str = "records"
    streets: StreetNetwork | None = None
    street_nodes: NDArray[np.int64] | None = None

    def __init__(
        self,
        coordinates: ArrayLike,
        *,
        ids: Iterable[object] | None = None,
        prior: ArrayLike | None = None,
        kind: Kind = "places",
        name: str = "records",
        streets: StreetNetwork | None = None,
        street_nodes: ArrayLike | None = None,
    ) -> None:
        points = _as_points(coordinates)
        n = len(points)
        faults = Faults("records")
        _check_coordinates(points, kind, faults)
        names = tuple(str(i) for i in (range(n) if ids is None else ids))
        if ids is not None:  # row numbers are unique, and looking takes as much memory as they do
            _check_ids(names, n, faults)
        weights = _as_prior(prior, n, faults)
        nodes = None if street_nodes is None else frozen(street_nodes, np.int64)
        if (streets is None) != (nodes is None):
            faults.add("streets and street_nodes go together: give both or neither")
        elif streets is not None and nodes is not None:
            fits = nodes.shape == (n,) and (n == 0 or (nodes.min() >= 0 and nodes.max() < streets.n_nodes))
            faults.check(
                fits,
                f"street_nodes must name one of the {streets.n_nodes} intersections for each of the {n} records",
            )
        faults.raise_if_any()
        for key, value in {
            "coordinates": points,
            "ids": names,
            "prior": weights,
            "kind": kind,
            # a file's name may hold bytes that are no text
            "name": name.encode("utf-8", "replace").decode("utf-8"),
            "streets": streets,
            "street_nodes": nodes,
        }.items():
            object.__setattr__(self, key, value)

    def __repr__(self) -> str:
        streets = f", {self.streets.n_edges} streets" if self.streets is not None else ""
        return f"Records({self.name!r}: {self.n} {self.kind}, {self.dimension} dimensions{streets})"

    def _repr_html_(self) -> str:
        from metricdp.report.notebook import records_html  # noqa: PLC0415

        return records_html(self)

    def __len__(self) -> int:
        return self.n

    @property
    def n(self) -> int:
        """Number of records."""
        return len(self.coordinates)

    @property
    def dimension(self) -> int:
        """Number of coordinates of a record."""
        return int(self.coordinates.shape[1])

    def select(self, rows: Sequence[int] | NDArray[np.integer[Any]]) -> Records:
        """Return the records in ``rows``, in that order, the prior scaled to sum to 1 again."""
        chosen = np.asarray(rows)
        if chosen.ndim != 1 or not np.issubdtype(chosen.dtype, np.integer):
            raise InputError(f"rows must be a list of whole numbers, got {chosen.dtype} of shape {chosen.shape}")
        outside = (chosen < 0) | (chosen >= self.n)
        if outside.any():
            raise InputError(
                f"row {int(chosen[outside][0])} does not exist: {self.name} has {self.n} records "
                f"(rows 0 to {self.n - 1})"
            )
        values, counts = np.unique(chosen, return_counts=True)
        if len(values) < len(chosen):
            raise InputError(f"row {values[counts > 1][0]} is named more than once: name each record once")
        if chosen.size == 0:
            raise InputError("no rows were chosen: name at least one record")
        prior = self.prior[chosen]
        if prior.sum() <= 0:
            raise InputError("the chosen records all have prior 0: choose at least one that can occur")
        return Records(
            self.coordinates[chosen],
            ids=[self.ids[i] for i in chosen],
            prior=prior,
            kind=self.kind,
            name=self.name,
            streets=self.streets,
            street_nodes=None if self.street_nodes is None else self.street_nodes[chosen],
        )

    def sample(self, n: int, *, seed: int = 0) -> Records:
        """Draw ``n`` different records, each equally likely, in their original order."""
        if not 1 <= n <= self.n:
            raise InputError(f"cannot draw {n} of the {self.n} records of {self.name}: ask for 1 to {self.n}")
        rows = np.sort(np.random.default_rng(seed).choice(self.n, size=n, replace=False))
        return self.select(rows)

    def nearest(self, point: ArrayLike, n: int) -> Records:
        """Return the ``n`` records nearest to ``point``, in their original order: a neighbourhood without gaps.

        Examples
        --------
        >>> from metricdp.data import grid
        >>> grid(3, 3).nearest([0.0, 0.0], 3).coordinates.tolist()
        [[0.5, 0.5], [0.5, 1.5], [1.5, 0.5]]
        """
        if not 1 <= n <= self.n:
            raise InputError(f"cannot take {n} of the {self.n} records of {self.name}: ask for 1 to {self.n}")
        centre = np.asarray(point, dtype=np.float64)
        if centre.shape != (self.dimension,) or not np.isfinite(centre).all():
            raise InputError(f"the point must have the records' {self.dimension} coordinates, all finite")
        if self.kind == "places":
            distances = haversine_km(self.coordinates, centre)
        else:
            distances = np.linalg.norm(self.coordinates - centre, axis=1)
        return self.select(np.sort(np.argsort(distances, kind="stable")[:n]))

    def with_prior(self, prior: ArrayLike) -> Records:
        """Return the same records with another prior."""
        return Records(
            self.coordinates,
            ids=self.ids,
            prior=prior,
            kind=self.kind,
            name=self.name,
            streets=self.streets,
            street_nodes=self.street_nodes,
        )

    def with_streets(self, streets: StreetNetwork) -> Records:
        """Return the same records as the intersections of ``streets``, row by row."""
        return Records(
            self.coordinates,
            ids=self.ids,
            prior=self.prior,
            kind=self.kind,
            name=self.name,
            streets=streets,
            street_nodes=np.arange(self.n),
        )


def _as_points(coordinates: ArrayLike) -> NDArray[np.float64]:
    try:
        points = frozen(coordinates, np.float64)
    except InputError:  # a masked array
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"coordinates must be numbers, one row per record: {error}") from None
    if points.ndim == 1 and points.size:
        points = points[:, None]
    if points.ndim != 2 or points.size == 0:
        raise InputError(
            f"coordinates must be a table with one row per record, got shape {points.shape}: give at least one record"
        )
    return points


def _check_coordinates(points: NDArray[np.float64], kind: Kind, faults: Faults) -> None:
    bad = ~np.isfinite(points)
    if bad.any():
        row, column = (int(v) for v in np.argwhere(bad)[0])
        faults.add(
            f"coordinates must be finite, got {points[row, column]} in row {row}, column {column} "
            f"({int(bad.any(axis=1).sum())} such rows): remove or correct them"
        )
        return
    if kind not in ("places", "vectors"):
        faults.add(f"kind must be 'places' or 'vectors', got {kind!r}")
        return
    if kind == "vectors":
        return
    if points.shape[1] != 2:
        faults.add(f"places need two coordinates (latitude, longitude), got {points.shape[1]}: use kind='vectors'")
        return
    for column, what, limit in ((0, "latitude", 90.0), (1, "longitude", 180.0)):
        outside = np.abs(points[:, column]) > limit
        if outside.any():
            row = int(np.flatnonzero(outside)[0])
            faults.add(
                f"{what} must be between -{limit:g} and {limit:g} degrees, got {points[row, column]} in row {row} "
                f"({int(outside.sum())} such rows): check the order of the columns and the unit"
            )


def _check_ids(names: tuple[str, ...], n: int, faults: Faults) -> None:
    if len(names) != n:
        faults.add(f"there are {n} records but {len(names)} ids: give one id per record")
        return
    if len(set(names)) < n:
        seen: set[str] = set()
        double = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        faults.add(f"ids must be unique, but {double!r} occurs more than once: rename or remove one of them")
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        broken = next(name for name in names if any("\ud800" <= sign <= "\udfff" for sign in name))
        faults.add(f"ids must be Unicode text, but {broken!r} holds half a character: rename it")


def _as_prior(prior: ArrayLike | None, n: int, faults: Faults) -> NDArray[np.float64]:
    uniform = frozen(np.full(n, 1.0 / n))
    if prior is None:
        return uniform
    try:
        weights = frozen(prior, np.float64)
    except InputError as error:  # a masked array
        faults.add(f"the prior cannot be used: {error}")
        return uniform
    except (TypeError, ValueError):
        weights = np.zeros(0)
    fault = _prior_fault(weights, n)
    if fault:
        faults.add(fault)
        return uniform
    if weights.max() < 2.0 and abs(weights.sum() - 1.0) <= 1e-12:
        return weights  # already scaled: a prior that is saved and loaded stays the same to the last bit
    weights = weights / weights.max()  # first, so that huge weights cannot overflow the sum
    return frozen(weights / weights.sum())


def _prior_fault(weights: NDArray[np.float64], n: int) -> str:
    if weights.shape != (n,):
        return f"the prior must be a list of numbers, one for each of the {n} records, got shape {weights.shape}"
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        return f"prior weights must be finite and not negative, got {weights[row]} in row {row}"
    if not weights.any():
        return "the prior is zero everywhere: at least one record needs a positive weight"
    return ""
