"""Lower bounds that hold for any dual point, evaluated with a rigorous rounding margin.

For multipliers y >= 0 on rows ``z_i - g z_j <= 0`` (g at least the true exp(epsilon d_ij): a weaker row), every
mechanism has expected loss at least ``L(y) = sum_i min_k (C + A'y)_ik``, where A'y adds y at (i, k) and subtracts
g y at (j, k). Any y gives a valid bound, so a solver's duals need not be right, only their sign is enforced here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNIT = 2.0**-53
ROUND_UP = 2.0**-46  # relative; above the rounding of epsilon d (up to 64 * 2^-53) and of numpy's exp
LARGEST_EXPONENT = 64.0  # what ROUND_UP is made for
SMALLEST_MULTIPLIER = 1e-290  # below, products are rounded by more than a unit in the last place
TOO_LARGE = 1e290  # sums beyond may overflow


@dataclass(frozen=True)
class RowDuals:
    """Multipliers of mDP rows: ``y[r]`` of the row ``z[tail, output] <= exp(exponent) z[head, output]``."""

    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    output: NDArray[np.int64]
    exponent: NDArray[np.float64]  # epsilon d
    y: NDArray[np.float64]

    @classmethod
    def none(cls) -> RowDuals:
        """Give no multipliers at all."""
        empty = np.zeros(0, dtype=np.int64)
        return cls(empty, empty, empty, np.zeros(0), np.zeros(0))

    def scaled(self, factor: float) -> RowDuals:
        """Return ``factor`` times the multipliers."""
        return replace(self, y=factor * self.y)

    @classmethod
    def joined(cls, parts: list[RowDuals]) -> RowDuals:
        """Return all multipliers together; those of the same row add up in the bound."""
        if not parts:
            return cls.none()
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))


def growth_rounded_up(exponent: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give a float that is at least ``exp(epsilon d)`` where ``exponent`` is the rounded product epsilon d <= 64."""
    return np.exp(exponent) * (1.0 + ROUND_UP)


def lower_bound(costs: NDArray[np.float64], duals: RowDuals, *, cost_roundings: int = 1) -> float:
    """Give a number that is never above the optimum: L(y) less everything that rounding can have added.

    Parameters
    ----------
    costs
        Prior-weighted losses, shape (n, K).
    duals
        Multipliers; those that are negative, no numbers or of rows beyond the exponent 64 count as 0. Whoever makes
        them answers for the rows: each must be a true one, with an exponent that is at least its own.
    cost_roundings
        How many roundings each cost itself may carry (products with the prior, sums over merged records).
    """
    counts = (duals.y > SMALLEST_MULTIPLIER) & (duals.exponent <= LARGEST_EXPONENT)
    y = np.where(counts, duals.y, 0.0)
    value, size = costs.copy(), np.abs(costs)
    terms = np.full(costs.shape, float(cost_roundings))
    with np.errstate(over="ignore", invalid="ignore"):
        given = growth_rounded_up(np.fmin(duals.exponent, LARGEST_EXPONENT)) * y  # finite, so that 0 stays 0
        for record, amount, sign in ((duals.tail, y, 1.0), (duals.head, given, -1.0)):
            place = (record, duals.output)
            np.add.at(value, place, sign * amount)
            np.add.at(size, place, amount)
            np.add.at(terms, place, 1.0)
        # n additions of terms that carry a rounding each are wrong by at most (n + 2) u sum|terms|, to first order
        margin = (terms + 4.0) * (1.001 * UNIT) * size
        least = (value - margin).min(axis=1)
        if not np.abs(least).sum() < TOO_LARGE:  # multipliers that have run away prove nothing
            return 0.0
    # losses are not negative, so neither is any expected loss
    return max(0.0, math.nextafter(math.fsum(least), -math.inf))
