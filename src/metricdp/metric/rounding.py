"""Distances that are certainly not longer than the true ones.

A stored distance that is longer than the true one, by however little, would allow more than was promised. So what is
stored is the float distance less a margin. With r a bound on the relative error of the float formula on any machine,
the float d and the true distance t satisfy ``d (1 - r) <= t (1 + r)(1 - r) <= t``. A *writer* subtracts
`STORED_MARGIN` times r, a *checker* subtracts `CHECKED_MARGIN` times r from its own float d': with 4 and 1,
``d (1 - 4r) <= d' (1 + r)/(1 - r) (1 - 4r) <= d' (1 - r) <= t``. Every machine can prove what another one writes,
though their sines differ in the last digits. Membership follows the same rule: a pair counts as within eta when its
rounded-down distance is, so none that truly is can be missed.

Distances of coordinates with few digits (whole numbers, halves, ...) that come out even are kept as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

STORED_MARGIN, CHECKED_MARGIN = 4, 1  # multiples of the error bound
UNIT_ROUNDOFF = 2.0**-53  # relative error of one operation on floats
LARGEST, TINIEST = float(np.finfo(np.float64).max), float(np.nextafter(0.0, 1.0))
SHORT_BITS = 26  # whole numbers of so many bits have exact squares
EVEN_TOLERANCE = 2.0**-8  # in units of a distance's 26th bit: one that is farther from a whole number is not even


def lowered(distances: NDArray[np.float64], room: float) -> NDArray[np.float64]:
    """Return ``distances`` less the relative ``room``, finite, and not rounded up where numbers run out of digits."""
    # a true distance beyond the largest float is rounded down to it
    return np.maximum(np.minimum(distances, LARGEST) * (1.0 - room) - TINIEST, 0.0)


def keep_even(
    below: NDArray[np.float64],
    distances: NDArray[np.float64],
    a: NDArray[np.float64],
    b: NDArray[np.float64],
    *,
    power: int,
) -> None:
    """Put the true distance into ``below`` wherever whole numbers prove it, shapes (M,) and (M, D).

    In units of the 26th bit of the distance, coordinates that are whole numbers below 2^52 have exact differences, and
    sums of their powers (1: Manhattan, 2: Euclidean) that come to at most 2^52 are exact in any order. If such a sum
    is that power of a whole number, this number is the distance.
    """
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        _, exponent = np.frexp(distances * (1.0 + 2.0**-40))  # a power of two that came out a hair short is one
        unit = np.ldexp(1.0, exponent - SHORT_BITS)
        whole = np.rint(distances / unit)
        even = np.flatnonzero(
            (distances > 1e-200) & (distances < 1e200) & (np.abs(distances / unit - whole) < EVEN_TOLERANCE)
        )
        unit, whole = unit[even], whole[even]
        first, second = (np.rint(side[even] / unit[:, None]) for side in (a, b))
        is_whole = [
            ((side[even] == units * unit[:, None]) & (np.abs(units) < 2.0**52)).all(axis=1)
            for side, units in ((a, first), (b, second))
        ]
        total = (np.abs(first - second) ** power).sum(axis=1)
    proved = is_whole[0] & is_whole[1] & (total == whole**power)
    below[even[proved]] = whole[proved] * unit[proved]
