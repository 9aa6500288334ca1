"""What a mechanism claims for two inputs, in nats: what an audit tries to refute."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.mechanism.snap import as_points, nearest_records
from metricdp.metric.distances import CoordinateMetric

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from metricdp.evaluate.auditor.auditor import Claim
    from metricdp.mechanism.mechanism import Mechanism

REMEMBERED = 256  # rows of path distances


def path_claim(mechanism: Mechanism) -> Callable[[int, int], float]:
    """Return the claim for two rows of records: epsilon times their path distance, infinite without a path."""

    @lru_cache(maxsize=REMEMBERED)
    def paths(row: int) -> NDArray[np.float64]:
        return np.asarray(mechanism.graph.path_distances(np.array([row]))[0])

    return lambda i, j: mechanism.epsilon * float(paths(i)[j])


def record_claim(mechanism: Mechanism) -> Claim:
    """Return the claim for two record ids."""
    claim = path_claim(mechanism)
    row_of = {name: row for row, name in enumerate(mechanism.records.ids)}
    return lambda x, y: claim(row_of[x], row_of[y])


def point_claim(mechanism: Mechanism, *, limit: float, bound: Callable[[float], float] | None = None) -> Claim:
    """Return the claim for two points that are snapped to their nearest records.

    Two points beyond the limit must be refused alike; nothing is claimed for one within and one beyond.

    Parameters
    ----------
    limit
        The farthest distance at which points are snapped.
    bound
        The claim as a function of the distance of the points; by default epsilon times the path distance of their
        records.
    """
    metric = CoordinateMetric(mechanism.metric)
    claim = path_claim(mechanism)

    def of_points(x: Any, y: Any) -> float:
        points = as_points([x, y], mechanism.records)
        rows, distances = nearest_records(points, mechanism.records, metric)
        n_beyond = int((distances > limit).sum())
        if n_beyond:
            return 0.0 if n_beyond == 2 else math.inf
        if bound is not None:
            return bound(float(metric.elementwise(points[0], points[1])))
        return claim(int(rows[0]), int(rows[1]))

    return of_points


def word_claim(mechanism: Mechanism) -> Claim:
    """Return the claim for two words of a text: case does not matter, and all unknown words must look the same.

    Nothing is claimed for a word of the vocabulary and one outside of it.
    """
    claim = path_claim(mechanism)
    row_of = {name: row for row, name in enumerate(mechanism.records.ids)}

    def row(word: str) -> int | None:
        return row_of.get(word, row_of.get(word.lower()))

    def of_words(x: str, y: str) -> float:
        i, j = row(x), row(y)
        if i is None or j is None:
            return 0.0 if i is None and j is None else math.inf
        return claim(i, j)

    return of_words
