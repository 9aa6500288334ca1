"""The least eta that joins all records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree

from metricdp.errors import InputError
from metricdp.metric.given import as_metric

if TYPE_CHECKING:
    from metricdp.data.records import Records
    from metricdp.metric.distances import Metric

MAX_RECORDS = 10_000  # all distances are held at one time


def connecting_eta(records: Records, metric: str | Metric | None = None) -> float:
    """Return the least neighbour distance that joins all records: the longest edge of a minimum spanning tree.

    Examples
    --------
    >>> from metricdp.data import Records
    >>> round(connecting_eta(Records([[0.0], [1.0], [4.0]], kind="vectors")), 6)
    3.0
    """
    if records.n > MAX_RECORDS:
        raise InputError(f"eta cannot be chosen for {records.n} records (limit {MAX_RECORDS}): give eta")
    distances = np.array(as_metric(metric, records).to_rows(records, np.arange(records.n)))
    # zero means no edge to the tree: records in one place are joined by the smallest positive number
    np.maximum(distances, np.nextafter(0.0, 1.0), out=distances)
    longest = float(minimum_spanning_tree(distances).data.max(initial=0.0))
    # a hair more, so that rounding cannot cut the edge; any reach will do for a single place
    return longest * (1.0 + 1e-9) or 1.0
