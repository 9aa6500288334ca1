"""Losses as matrices, for problems that are small enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metricdp.problem.losses import EVERYTHING, TravelLosses

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from metricdp.data.records import Records
    from metricdp.metric.distances import Metric
    from metricdp.problem.outputs import Outputs


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
    """Return the mean error of travel costs when the output replaces the record, shape (N, K): see `TravelLosses`."""
    losses = TravelLosses.of(records, outputs, metric, destinations=destinations, seed=seed)
    return losses.block(EVERYTHING, EVERYTHING)
