"""Which doors are for mechanisms of records: those of regions take points without snapping, by doors of their own."""

from __future__ import annotations

from typing import Any

from metricdp.errors import InputError
from metricdp.mechanism.plane import PlaneMechanism


def check_of_records(mechanism: Any, instead: str) -> None:
    """Refuse the mechanism of a region where records are named or points are snapped to them."""
    if isinstance(mechanism, PlaneMechanism):
        raise InputError(
            f"this mechanism is of a region, not of records: use {instead}, which takes points as they are"
        )
