"""Losses that are distances between points, so that compiled code computes them; and all others in blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from metricdp.metric.distances import CHUNK_ENTRIES, CoordinateMetric
from metricdp.metric.space import MANHATTAN, Space
from metricdp.problem.losses import EVERYTHING, DistanceLosses, TravelLosses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from metricdp.problem.losses import Losses

# losses up to which all are looked at to find one good output, and how many otherwise
MOST_LOSSES, SAMPLED_LOSSES = 4e9, 1e8


def space_of(losses: Losses) -> Space | None:
    """Return points whose distances are the losses from records to outputs; None if there are none.

    The travel loss is one: the Manhattan distance of the ways to the destinations, divided by their number.
    """
    if type(losses) is DistanceLosses:
        return Space.of(losses.metric, losses.records.coordinates, losses.outputs.coordinates)
    if type(losses) is TravelLosses:
        ways = losses.from_records, losses.from_outputs
        return Space(*ways, MANHATTAN, 1.0 / ways[0].shape[1])
    return None


def loss_blocks(losses: Losses, at_once: int = CHUNK_ENTRIES) -> Iterator[tuple[slice, slice, NDArray[np.float64]]]:
    """Yield all losses a part at a time: some rows, some outputs, and their block of at most ``at_once`` entries.

    Parts are rows, or outputs where the metric measures from all records at once.
    """
    n, K = losses.shape
    is_by_output = isinstance(losses, DistanceLosses) and not isinstance(losses.metric, CoordinateMetric)
    step = max(1, at_once // (n if is_by_output else K))
    for start in range(0, K if is_by_output else n, step):
        part = slice(start, min(start + step, K if is_by_output else n))
        rows, outputs = (slice(0, n), part) if is_by_output else (part, slice(0, K))
        yield rows, outputs, losses.block(rows, outputs if is_by_output else EVERYTHING)


def one_good_output(losses: Losses, prior: NDArray[np.float64]) -> int:
    """Return the output with the least mean loss; of very many outputs only every so many are looked at."""
    n, K = losses.shape
    if float(n) * K <= MOST_LOSSES:
        return int(mean_losses(losses, prior).argmin())
    some = np.linspace(0, K - 1, max(1, int(SAMPLED_LOSSES / n))).astype(np.int64)
    space = space_of(losses)
    if space is not None:
        mean = space.flipped.part(some, slice(None)).sums(prior)
    else:
        mean = np.array([prior @ losses.block(EVERYTHING, some[k : k + 1])[:, 0] for k in range(len(some))])
    return int(some[mean.argmin()])


def mean_losses(losses: Losses, prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean loss of each output under a prior, shape (K,), in bounded memory."""
    space = space_of(losses)
    if space is not None:
        return space.flipped.sums(prior)
    mean = np.zeros(losses.shape[1])
    for rows, outputs, block in loss_blocks(losses):
        mean[outputs] += prior[rows] @ block
    return mean
