"""How far reports are from the truth, counted by distance, without holding all distances at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit, prange

from metricdp.metric.space import distance
from metricdp.problem.loss_space import loss_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.mechanism.sparse import SparseTable
    from metricdp.metric.space import Space
    from metricdp.problem.losses import Losses

MANTISSA_BITS = 12  # of a distance that are kept: quantiles are rounded up by a relative 2^-12 at most
EXPONENTS = 40  # powers of 2 below the largest distance that are told apart
SHIFT = 52 - MANTISSA_BITS
N_BINS = EXPONENTS << MANTISSA_BITS
DISTANCES_AT_ONCE = 1024
N_PARTS = 8  # of the rows, counted side by side


class Spread:
    """The weight of each distance, in bins that are a relative 2^-12 wide."""

    def __init__(self, largest: float) -> None:
        """Prepare for distances of at most ``largest``."""
        self.base = int(np.float64(max(largest, 1e-300)).view(np.int64) >> SHIFT) + 2 - N_BINS
        self.weights = np.zeros(N_BINS)

    def add(self, distances: NDArray[np.float64], weights: NDArray[np.float64]) -> None:
        """Count some distances with their weights."""
        bins = np.clip((distances.ravel().view(np.int64) >> SHIFT) - self.base, 0, N_BINS - 1)
        self.weights += np.bincount(bins, weights=weights.ravel(), minlength=N_BINS)

    def add_sparse(self, table: SparseTable, space: Space, prior: NDArray[np.float64]) -> None:
        """Count the distances of all entries of a sparse table, stored and background."""
        parts = np.zeros((N_PARTS, N_BINS))
        _count(
            space.here,
            space.there,
            space.kind,
            space.unit,
            table.indptr,
            table.columns,
            table.weights,
            table.background.astype(np.float64),
            table.scale.astype(np.float64),
            prior,
            self.base,
            parts,
        )
        self.weights += parts.sum(axis=0)

    def quantiles(self, levels: Sequence[float]) -> dict[float, float]:
        """Return the least upper end of a bin up to which there is at least each level's share of the weight."""
        reached = np.cumsum(self.weights)
        places = np.searchsorted(reached, np.asarray(levels) * reached[-1] * (1.0 - 1e-12))
        return {level: self._upper(min(int(p), N_BINS - 1)) for level, p in zip(levels, places, strict=True)}

    def _upper(self, place: int) -> float:
        return 0.0 if place == 0 else float(np.int64((place + self.base + 1) << SHIFT).view(np.float64))


def spread_by_blocks(mechanism: Mechanism, losses: Losses) -> Spread:
    """Return the spread of a mechanism's losses, computed in blocks."""
    largest = max(float(block.max()) for _, _, block in loss_blocks(losses))
    found = Spread(largest)
    for rows, outputs, block in loss_blocks(losses):
        found.add(block, mechanism.records.prior[rows, None] * mechanism.block(rows, outputs))
    return found


def spread_in_space(table: SparseTable, space: Space, prior: NDArray[np.float64]) -> Spread:
    """Return the spread of the distances from records to reports of a sparse table."""
    low, high = (np.vstack((f(space.here, axis=0), f(space.there, axis=0))) for f in (np.min, np.max))
    corners = np.vstack((low.min(axis=0), high.max(axis=0)))
    found = Spread(float(2.0 * space.unit * np.abs(corners[1] - corners[0]).sum()))  # an arc is below 2 chords
    found.add_sparse(table, space, prior)
    return found


@njit(cache=True, nogil=True, inline="always")
def _bin(value: float, base: int) -> int | np.int64:
    place = (np.float64(value).view(np.int64) >> SHIFT) - np.int64(base)
    return 0 if place < 0 else N_BINS - 1 if place >= N_BINS else place


@njit(cache=True, nogil=True, parallel=True)
def _count(  # noqa: PLR0917
    here: NDArray[np.float64],
    there: NDArray[np.float64],
    kind: int,
    unit: float,
    indptr: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.uint64],
    background: NDArray[np.float64],
    scale: NDArray[np.float64],
    prior: NDArray[np.float64],
    base: int,
    parts: NDArray[np.float64],
) -> None:
    for part in prange(len(parts)):
        counts, away = parts[part], np.empty(DISTANCES_AT_ONCE)
        for i in range(part, len(here), len(parts)):
            if prior[i] == 0.0:
                continue
            for e in range(indptr[i], indptr[i + 1]):
                apart = distance(kind, unit, here[i], there[columns[e]])
                counts[_bin(apart, base)] += prior[i] * float(weights[e])
            if scale[i] == 0.0:
                continue
            each = prior[i] * scale[i]
            for first in range(0, len(there), len(away)):
                # distances first, several at a time, and then their bins
                some = min(len(away), len(there) - first)
                for k in range(some):
                    away[k] = distance(kind, unit, here[i], there[first + k])
                for k in range(some):
                    counts[_bin(away[k], base)] += each * background[first + k]
