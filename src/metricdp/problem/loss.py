"""What it costs to report an output in place of a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from metricdp.data.frozen import frozen
from metricdp.errors import InputError
from metricdp.metric.given import StreetMetric

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from metricdp.data.records import Records
    from metricdp.metric.distances import Metric
    from metricdp.problem.outputs import Outputs

DEFAULT_DESTINATIONS = 100


def distance_loss(records: Records, outputs: Outputs, metric: Metric) -> NDArray[np.float64]:
    """Return the distance from each record to each output in the metric's unit, shape (N, K)."""
    if outputs.rows is not None:
        return metric.to_rows(records, outputs.rows)
    return metric.to_points(records, outputs.coordinates)


def travel_loss(
    records: Records,
    outputs: Outputs,
    metric: Metric,
    *,
    destinations: int | ArrayLike | None = None,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Return the mean error of travel costs when the output replaces the record, shape (N, K).

    ``c_ik = mean over destinations q of |D(i, q) - D(o_k, q)|`` (the paper's appendix D.1), with D along the streets
    where the records have a street network, and by the metric where not. Destinations are rows of the records: a
    count (100 by default, drawn with ``seed``) or row numbers.
    """
    rows = _destination_rows(destinations, records, seed)
    way = StreetMetric() if records.streets is not None and outputs.rows is not None else metric
    from_records = way.to_rows(records, rows)
    if not np.isfinite(from_records).all():
        i, q = (int(v) for v in np.argwhere(~np.isfinite(from_records))[0])
        raise InputError(
            f"there is no way from record {records.ids[i]} to destination {records.ids[rows[q]]}: "
            "keep one connected part of the street network, or use loss='distance' with another metric"
        )
    if outputs.rows is not None:
        from_outputs = from_records[outputs.rows]
    else:
        from_outputs = metric.to_points(records, outputs.coordinates)[rows].T
    loss = np.empty((records.n, outputs.n))
    for k in range(outputs.n):
        loss[:, k] = np.abs(from_records - from_outputs[k]).mean(axis=1)
    return loss


def _destination_rows(destinations: int | ArrayLike | None, records: Records, seed: int) -> NDArray[np.int64]:
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


def given_loss(matrix: ArrayLike, n_records: int, n_outputs: int) -> NDArray[np.float64]:
    """Return the user's loss matrix as a frozen copy, checked: N x K, finite, not negative."""
    try:
        loss = frozen(matrix, np.float64)
    except InputError:  # a masked array
        raise
    except (TypeError, ValueError):
        raise InputError("the loss matrix must be numbers in rows of equal length") from None
    if loss.shape != (n_records, n_outputs):
        raise InputError(
            f"the loss matrix must have one row per record and one column per output, "
            f"({n_records}, {n_outputs}), got shape {loss.shape}"
        )
    bad = ~(np.isfinite(loss) & (loss >= 0))
    if bad.any():
        i, k = (int(v) for v in np.argwhere(bad)[0])
        raise InputError(
            f"losses must be finite and not negative, got {loss[i, k]} for record {i} and output {k} "
            f"({int(bad.sum())} such entries): add a constant to a row, which does not change the optimal mechanism"
        )
    return loss
