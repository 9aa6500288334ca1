"""pandas and GeoPandas in and out, by the mechanism of a region."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.apply.frames import check_kept, checked_index, points_of, refuse_copies, values_of
from metricdp.budget.charging import name_of_person
from metricdp.errors import InputError
from metricdp.mechanism.plane import check_of_region, check_outside
from metricdp.mechanism.snap import as_points

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metricdp.budget.ledger import Ledger
    from metricdp.mechanism.plane import PlaneMechanism


def perturb_region_frame(
    mechanism: PlaneMechanism,
    frame: Any,
    *,
    outside: str = "refuse",
    keep: Sequence[str] = (),
    keep_index: bool = False,
    ledger: Ledger | None = None,
    person: str | None = None,
) -> Any:
    """Draw a report for each row of a DataFrame or GeoDataFrame of points of a region.

    The answer has the columns of coordinates (or the geometry) with the reports' coordinates, the column ``report`` and
    those named by ``keep``, and nothing else of the frame.

    Parameters
    ----------
    frame
        With columns ``lat`` and ``lon``, or ``x`` and ``y`` (a DataFrame), or with a geometry of Points.
    outside
        ``"refuse"`` the frame if any point is outside the region, or move such points to its ``"border"``.
    keep, keep_index
        Columns, or the index, to keep unchanged and unprotected. What visibly holds the true place is refused; no check
        finds every copy.
    ledger, person
        Charge the person named in this column for each row first: everyone, or no one if any budget does not suffice.
        A frame that is refused costs nothing.
    """
    check_of_region(mechanism, "perturb_frame")
    check_outside(outside)
    if (ledger is None) != (person is None):
        raise InputError("a ledger and the column of the persons to charge go together: give both")
    # what is read here of a mechanism (records and outputs) both kinds have
    like: Any = mechanism
    points, write = points_of(like, frame)
    points = as_points(points, mechanism.records)
    check_kept(frame, keep, write)
    rows, true = mechanism.region.nearest_nodes(points), np.hstack((points, write.given))
    kept = frame[list(keep)]
    refuse_copies(like, keep, [kept[name] for name in keep], rows, true)
    index = checked_index(like, kept.index, write.names, rows, true) if keep_index else None
    asked = None if person is None else _asked(frame, person, write.names)
    outputs = mechanism.perturb(points, outside=outside)  # refuses what is outside, in the time of a report
    if ledger is not None and asked is not None:
        ledger.charge_many(mechanism, asked)
        outputs = mechanism.perturb(points, outside=outside)
    names = np.array(mechanism.outputs.ids(mechanism.records), dtype=object)[outputs]
    return write.reports({name: values_of(kept[name]) for name in keep}, index, outputs, names)


def _asked(frame: Any, person: str, secret: Sequence[Any]) -> Counter[str]:
    """Return how many rows each person has."""
    if list(frame.columns).count(person) != 1 or person in secret:
        raise InputError(f"the column of the persons, {person!r}, must be one column of the frame beside the points")
    cells = frame[person].tolist()
    return Counter(name_of_person(cell, f"row {row}", person) for row, cell in enumerate(cells, start=1))
