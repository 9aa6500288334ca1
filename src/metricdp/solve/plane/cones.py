"""The inequalities of a region as cones: ``|(g, g')| <= theta u`` for each coefficient of the half lattice.

Derivatives are scaled by the mean side of a cell over its sides, so that lattices need not be square.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from metricdp.data.weights import Splines
from metricdp.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.data.region import Region

WIDEST = 6  # nodes that a coefficient depends on at most


@dataclass(frozen=True)
class Cones:
    """The nodes and factors of each cone: ``factors[c] @ z[nodes[c]]`` is (g, g', u), shapes (n, 6) and (n, 3, 6).

    ``shape`` is the number of nodes each way, ``side`` the mean of the two ``sides`` of a cell.
    """

    nodes: NDArray[np.int64]
    factors: NDArray[np.float64]
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
        """Return the cones of a region's lattice."""
        if region.weights != Splines.name:
            raise InputError(f"solve_plane needs splines as weights: for {region.weights} take solve_{region.weights}")
        sides = [float(side) for side in region.sides]
        mean = math.sqrt(sides[0] * sides[1])
        lines = [[_line(place) for place in range(2 * n + 1)] for n in region.cells]
        n = len(lines[0]) * len(lines[1])
        nodes, factors = np.zeros((n, WIDEST), dtype=np.int64), np.zeros((n, 3, WIDEST))
        for number, (first, second) in enumerate((a, b) for a in lines[0] for b in lines[1]):
            terms = [
                (i * region.shape[1] + j, (slope * other, value * slant, value * other))
                for i, value, slope in first
                for j, other, slant in second
                if slope * other or value * slant or value * other
            ]
            nodes[number] = [node for node, _ in terms] + [terms[0][0]] * (WIDEST - len(terms))
            for place, (_, three) in enumerate(terms):
                factors[number, :, place] = three
        factors[:, 0] *= mean / sides[0]
        factors[:, 1] *= mean / sides[1]
        return cls(nodes, factors, region.shape, (sides[0], sides[1]), mean)

    def terms(self, Z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (g, g', u) of every cone and output, shape (n, 3, K)."""
        total = np.zeros((len(self.nodes), 3, Z.shape[1]))
        for place in range(WIDEST):
            total += self.factors[:, :, place, None] * Z[self.nodes[:, place]][:, None, :]
        return total


def _line(place: int) -> list[tuple[int, float, float]]:
    """Return the nodes of one line that take part in a coefficient, with their factors in u and in its derivative."""
    first = place // 2
    if place % 2 == 0:
        return [(first, 0.5, -1.0), (first + 1, 0.5, 1.0)]
    return [(first, 0.0, -0.5), (first + 1, 1.0, 0.0), (first + 2, 0.0, 0.5)]
