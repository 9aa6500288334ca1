"""The inequalities of a region as cones: ``|(g, g')| <= theta u`` for each coefficient of the half lattice.

Derivatives are scaled by the mean side of a cell over its sides, so that lattices need not be square.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.data.region import Region

WIDEST = 6  # nodes that a coefficient depends on at most


@dataclass(frozen=True)
class Cones:
    """Which nodes take part in a cone, with which factors, in (g, g', u).

    ``shape`` is the number of nodes each way, ``side`` the mean of the two ``sides`` of a cell.
    """

    shape: tuple[int, int]
    sides: tuple[float, float]
    side: float

    @cached_property
    def kinds(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The nodes, relative to the first, and factors of the four kinds of cones: shapes (4, 6, 2), (4, 3, 6).

        Kind 2 (p mod 2) + q mod 2 is that of the coefficient (p, q) of the half lattice, whose first node is
        (p div 2, q div 2).
        """
        nodes, factors = np.zeros((4, WIDEST, 2), np.int64), np.zeros((4, 3, WIDEST))
        ratios = self.side / self.sides[0], self.side / self.sides[1]
        for kind in range(4):
            terms = [
                ((i, j), (slope * other * ratios[0], value * slant * ratios[1], value * other))
                for i, value, slope in _line(kind // 2)
                for j, other, slant in _line(kind % 2)
                if slope * other or value * slant or value * other
            ]
            for place, (node, three) in enumerate(terms):
                nodes[kind, place], factors[kind, :, place] = node, three
            nodes[kind, len(terms) :] = terms[0][0]
        return nodes, factors

    @classmethod
    def of(cls, region: Region) -> Cones:
        """Return the cones of a region's lattice, with splines as weights."""
        sides = float(region.sides[0]), float(region.sides[1])
        return cls(region.shape, sides, math.sqrt(sides[0] * sides[1]))


def _line(place: int) -> list[tuple[int, float, float]]:
    """Return the nodes of one line that take part in a coefficient, with their factors in u and in its derivative."""
    first = place // 2
    if place % 2 == 0:
        return [(first, 0.5, -1.0), (first + 1, 0.5, 1.0)]
    return [(first, 0.0, -0.5), (first + 1, 1.0, 0.0), (first + 2, 0.0, 0.5)]
