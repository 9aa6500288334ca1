"""The claims of a mechanism for two inputs, in nats, which an audit tries to refute."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from metricdp.mechanism.snap import as_points, nearest_records
from metricdp.metric.distances import CoordinateMetric

if TYPE_CHECKING:
    from metricdp.evaluate.auditor.auditor import Claim
    from metricdp.mechanism.mechanism import Mechanism


def record_claim(mechanism: Mechanism) -> Claim:
    """Return the claim for two record ids: epsilon times their path distance, infinite without a path."""
    row_of = {name: row for row, name in enumerate(mechanism.records.ids)}
    return lambda x, y: mechanism.guarantee.bound(row_of[x], row_of[y])


def point_claim(mechanism: Mechanism, *, limit: float) -> Claim:
    """Return the claim for two points that are snapped to their nearest records, at most ``limit`` away.

    It is the promise for points that far apart, or the promise for their records, whichever is less. Two
    points beyond the limit must be refused alike; nothing is claimed for one within and one beyond.
    """
    metric, promise = CoordinateMetric(mechanism.metric), mechanism.guarantee.for_points(limit)

    def of_points(x: Any, y: Any) -> float:
        points = as_points([x, y], mechanism.records)
        rows, distances = nearest_records(points, mechanism.records, metric)
        n_beyond = int((distances > limit).sum())
        if n_beyond:
            return 0.0 if n_beyond == 2 else math.inf
        apart = float(metric.elementwise(points[0], points[1]))
        return min(promise.bound(apart), mechanism.guarantee.bound(int(rows[0]), int(rows[1])))

    return of_points


def word_claim(mechanism: Mechanism) -> Claim:
    """Return the claim for two words of a text: case does not matter, and all unknown words must look the same.

    Nothing is claimed for a word of the vocabulary and one outside of it.
    """
    row_of = {name: row for row, name in enumerate(mechanism.records.ids)}

    def row(word: str) -> int | None:
        return row_of.get(word, row_of.get(word.lower()))

    def of_words(x: str, y: str) -> float:
        i, j = row(x), row(y)
        if i is None or j is None:
            return 0.0 if i is None and j is None else math.inf
        return mechanism.guarantee.bound(i, j)

    return of_words
