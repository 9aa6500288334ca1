"""Draw for points: each is snapped to its nearest record first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from metricdp.errors import InputError
from metricdp.mechanism.snap import as_points
from metricdp.mechanism.snap_index import snapped
from metricdp.metric.distances import CoordinateMetric
from metricdp.metric.units import with_unit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from metricdp.mechanism.mechanism import Mechanism

FAR_POLICIES = ("refuse", "drop")


@dataclass(frozen=True, repr=False)
class DrawnPoints:
    """The output drawn for each point, its nearest record, and the distance between them."""

    outputs: NDArray[np.int64]
    rows: NDArray[np.int64]
    distances: NDArray[np.float64]

    def __repr__(self) -> str:
        return f"DrawnPoints({len(self.outputs)} reports)"


def snap_points(
    mechanism: Mechanism, points: ArrayLike, *, fast_snap: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the nearest record of each point and its distance, in the mechanism's metric."""
    if mechanism.metric not in CoordinateMetric.NAMES:
        raise InputError(
            f"points cannot be snapped by the metric {mechanism.metric!r}: name records by their ids, or make a "
            f"mechanism with one of {', '.join(CoordinateMetric.NAMES)}"
        )
    records = mechanism.records
    return snapped(as_points(points, records), records, mechanism.metric, fast_snap=fast_snap)


def draw_points(
    mechanism: Mechanism, points: ArrayLike, *, limit: float, allow_unprotected: bool = False, fast_snap: bool = False
) -> DrawnPoints:
    """Draw for every point, also for those beyond ``limit``, which the caller has to handle.

    A mechanism that promises nothing for nearby points is refused, whatever the points are.
    """
    if not allow_unprotected:
        mechanism.guarantee.for_points(limit).check()
    rows, distances = snap_points(mechanism, points, fast_snap=fast_snap)
    return DrawnPoints(mechanism.perturb_rows(rows, allow_unprotected=True), rows, distances)


def check_limit(limit: float) -> None:
    """Refuse a limit that is not positive."""
    if not limit > 0:
        raise InputError(f"the snap limit must be positive, got {limit}: give the farthest distance at which to snap")


def check_far(far: str) -> None:
    """Refuse a policy that is not known."""
    if far not in FAR_POLICIES:
        raise InputError(f"unknown policy {far!r} for points beyond the snap limit: choose {' or '.join(FAR_POLICIES)}")


def far_from_all(limit: float | None, metric: str) -> str:
    """Return in words that points are beyond the limit, for errors."""
    return f"farther than {with_unit(limit or 0.0, metric)} from every record"


def hint(*, are_all_far: bool) -> str:
    """Return what to look at where no point at all is near."""
    return "; all of them are: check the order of the coordinates" if are_all_far else ""
