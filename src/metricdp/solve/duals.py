"""Combine multipliers of mDP rows."""

from __future__ import annotations

import numpy as np

from metricdp.solve.bounds import RowDuals


def scaled(duals: RowDuals, factor: float) -> RowDuals:
    """Return ``factor`` times the multipliers."""
    return RowDuals(duals.tail, duals.head, duals.output, duals.exponent, factor * duals.y)


def joined(parts: list[RowDuals]) -> RowDuals:
    """Return all multipliers together; those of the same row add up in the bound."""
    if not parts:
        return RowDuals.none()
    return RowDuals(
        *(np.concatenate([getattr(p, name) for p in parts]) for name in ("tail", "head", "output", "exponent", "y"))
    )
