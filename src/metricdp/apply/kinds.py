"""Which doors are for mechanisms of records: those of regions take points without snapping, by doors of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.errors import InputError
from metricdp.mechanism.plane import PlaneMechanism

if TYPE_CHECKING:
    from numpy.typing import NDArray


def nearest_nodes(mechanism: PlaneMechanism, points: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the node of the largest weight at each point: what is compared with columns that may show the truth."""
    rows, weights = mechanism.region.weights_at(points)
    return rows[np.arange(len(rows)), weights.argmax(axis=1)]


def check_of_records(mechanism: Any, instead: str) -> None:
    """Refuse the mechanism of a region where records are named or points are snapped to them."""
    if isinstance(mechanism, PlaneMechanism):
        raise InputError(
            f"this mechanism is of a region, not of records: use {instead}, which takes points as they are"
        )
