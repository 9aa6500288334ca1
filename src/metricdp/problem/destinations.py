"""Destinations of the travel loss: which records are destinations, and how likely each is (the paper's p_dest)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from metricdp.data.records import Records

DEFAULT_DESTINATIONS = 100


def weighted_destinations(
    destinations: int | ArrayLike | None, prior: ArrayLike, records: Records
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the rows of the destinations and their weights, which are positive and sum to one."""
    if isinstance(destinations, (int, np.integer)):
        raise InputError("weighted destinations are not drawn: give their row numbers, or leave destinations out")
    rows = np.arange(records.n) if destinations is None else destination_rows(destinations, records, 0)
    try:
        weights = np.asarray(prior, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("the prior over destinations must be numbers") from None
    if weights.shape != rows.shape:
        raise InputError(
            f"the prior over destinations must have one weight for each of {len(rows)} destinations, got shape "
            f"{weights.shape}"
        )
    total = weights.sum()
    if not np.isfinite(weights).all() or (weights < 0).any() or not 0 < total < np.inf:
        raise InputError("the prior over destinations must be finite, not negative, and positive somewhere")
    is_one = weights > 0
    return rows[is_one], weights[is_one] / total


def destination_rows(destinations: int | ArrayLike | None, records: Records, seed: int) -> NDArray[np.int64]:
    """Return the rows of the destinations: those given, or as many as are asked for, drawn with the seed."""
    if destinations is None:
        destinations = min(DEFAULT_DESTINATIONS, records.n)
    if isinstance(destinations, (int, np.integer)):
        if not 1 <= destinations <= records.n:
            raise InputError(f"destinations must be between 1 and {records.n}, got {destinations}")
        drawn = np.random.default_rng([seed, 2]).choice(records.n, size=int(destinations), replace=False)
        return np.sort(drawn).astype(np.int64)
    rows = np.asarray(destinations)
    if rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer) or rows.size == 0:
        raise InputError(f"destinations must be a count or row numbers, got {rows.dtype} of shape {rows.shape}")
    if rows.min() < 0 or rows.max() >= records.n:
        raise InputError(f"destination rows must be between 0 and {records.n - 1}, got {rows.min()} to {rows.max()}")
    return rows.astype(np.int64)
