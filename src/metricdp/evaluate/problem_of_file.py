"""The problem that a mechanism file belongs to: all but the loss is in every file, and the loss in some.

Where a file has no losses, the usual ones are tried, and one is taken only if the table's expected loss under it is
the figure that the file states. If none is, the distance is used unless the caller names the loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.data.records import Records
from metricdp.data.road import CITIES, road
from metricdp.errors import InputError
from metricdp.mechanism.files import load
from metricdp.mechanism.mechanism import table_loss
from metricdp.mechanism.scope import can_be_recomputed
from metricdp.metric.directions import coordinate_metric
from metricdp.metric.distances import Metric
from metricdp.metric.mahalanobis import MahalanobisMetric
from metricdp.problem.losses import TravelLosses, distance_losses, given_losses
from metricdp.problem.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.metric.distances import Pairs
    from metricdp.metric.graph import MdpGraph
    from metricdp.problem.losses import Losses

SAME_LOSS_TOLERANCE = 1e-9  # relative difference up to which two expected losses are the same
NAMED_LOSSES = ("travel", "distance")


class StoredMetric(Metric):
    """A metric of which the neighbour pairs are known; other distances only if coordinates or ``base`` give them."""

    def __init__(self, name: str, graph: MdpGraph, base: Metric | None = None) -> None:
        self.name, self.graph = name, graph
        self.base = coordinate_metric(name) if base is None and can_be_recomputed(name) else base

    def __repr__(self) -> str:
        return f"StoredMetric({self.name!r}, {self.graph.n_pairs} pairs)"

    def pairs_within(self, records: Records, eta: float) -> Pairs:
        near = self.graph.distances <= eta
        return self.graph.pairs[near], self.graph.distances[near]

    def to_rows(self, records: Records, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.known.to_rows(records, rows)

    def to_points(self, records: Records, points: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.known.to_points(records, points)

    @property
    def known(self) -> Metric:
        """The metric that gives all distances; an error where only those of neighbours are known."""
        if self.base is None:
            raise InputError(
                f"distances of the metric {self.name!r} beyond the neighbour pairs are not in the file: evaluate in "
                "Python with the problem at hand, or use a metric of coordinates"
            )
        return self.base


@dataclass(frozen=True, eq=False)
class Rebuilt:
    """A mechanism, its problem, and in words where the loss comes from.

    ``is_own_loss`` is False if the loss is a stand-in for the one that the mechanism was made for: then the mechanism
    need not be the best, and ``made_for`` says what it was made for.
    """

    mechanism: Mechanism
    problem: Problem
    loss_source: str
    is_own_loss: bool
    made_for: str = "was made for another loss"


def rebuild(path: str | Path, *, loss: str | ArrayLike | None = None) -> Rebuilt:
    """Load and certify a mechanism file, and return it with its problem.

    ``loss`` is ``"travel"`` (100 destinations drawn with seed 0), ``"distance"``, or a matrix (N, K); by default the
    file's own.
    """
    mechanism = load(path)
    if loss is not None:
        losses = _asked(mechanism, loss)
        source = f"{losses.name}, as asked for"
        return Rebuilt(mechanism, _problem(mechanism, losses), source, _is_own(mechanism, losses))
    if mechanism.losses is not None:
        source = f"{mechanism.losses.name}, from the file"
        return Rebuilt(mechanism, _problem(mechanism, mechanism.losses), source, True)
    for name, make in _candidates(mechanism):
        tried = _made(make)
        if tried is not None and _is_own(mechanism, tried):
            source = f"{name}, recognised: it gives the expected loss that the file states"
            return Rebuilt(mechanism, _problem(mechanism, tried), source, True)
    distances = _made(lambda: _distances(mechanism))
    if distances is None:
        raise InputError(
            f"{path} holds no losses, and for the metric {mechanism.metric!r} none can be computed: give the matrix "
            "of losses"
        )
    source = (
        "distance, IN PLACE OF the loss that it was made for, which the file does not hold: give its matrix of losses"
    )
    return Rebuilt(mechanism, _problem(mechanism, distances), source, False)


def with_graph(problem: Problem, graph: MdpGraph, epsilon: float) -> Problem:
    """Return the same problem with other neighbour pairs and another budget."""
    metric = StoredMetric("matrix", graph, problem.metric)
    return Problem(
        problem.records, epsilon=epsilon, eta=math.inf, outputs=_given(problem), loss=problem.losses, metric=metric
    )


def _problem(mechanism: Mechanism, losses: Losses, metric: Metric | None = None) -> Problem:
    return Problem(
        mechanism.records,
        epsilon=mechanism.epsilon if mechanism.epsilons is None else mechanism.epsilons,
        eta=mechanism.eta,
        outputs=_given(mechanism),
        loss=losses,
        metric=_metric(mechanism) if metric is None else metric,
    )


def _given(source: Problem | Mechanism) -> NDArray[np.int64] | NDArray[np.float64]:
    return source.outputs.coordinates if source.outputs.rows is None else source.outputs.rows


def _metric(mechanism: Mechanism) -> StoredMetric:
    # distances beyond the pairs matter for losses only: those of the records' own covariance can be computed again
    base = MahalanobisMetric.of_records(mechanism.records) if mechanism.metric == "mahalanobis" else None
    return StoredMetric(mechanism.metric, mechanism.graph, base)


def _distances(mechanism: Mechanism) -> Losses:
    return distance_losses(mechanism.records, mechanism.outputs, _metric(mechanism).known)


def _asked(mechanism: Mechanism, loss: str | ArrayLike) -> Losses:
    if not isinstance(loss, str):
        return given_losses(loss, mechanism.records.n, mechanism.outputs.n)
    if loss not in NAMED_LOSSES:
        raise InputError(f"unknown loss {loss!r}: choose travel, distance, or give a matrix")
    makers = [make for name, make in _candidates(mechanism) if name.split()[0] == loss]
    return makers[0]().named(loss)


def _candidates(mechanism: Mechanism) -> list[tuple[str, Callable[[], Losses]]]:
    """Return the losses that mechanisms are usually made for; those that cannot be made raise."""
    records, outputs, metric = mechanism.records, mechanism.outputs, _metric(mechanism)
    found: list[tuple[str, Callable[[], Losses]]] = []
    city, on_streets = _on_shipped_streets(records), "travel along the shipped streets"
    if city is not None:
        found.append((on_streets, lambda: TravelLosses.of(city, outputs, metric).named(on_streets)))
    found.append(("travel", lambda: TravelLosses.of(records, outputs, metric)))
    found.append(("distance", lambda: _distances(mechanism)))
    return found


def _made(make: Callable[[], Losses]) -> Losses | None:
    try:
        return make()
    except InputError:
        return None


def _is_own(mechanism: Mechanism, losses: Losses) -> bool:
    """Return whether the table's expected loss is the one that the file states."""
    if mechanism.optimality is None:
        return False
    # only the costs matter here: under the name of a matrix the pairs are not counted again
    problem = _problem(mechanism, losses, StoredMetric("matrix", mechanism.graph))
    loss = table_loss(mechanism.table, problem)
    return math.isclose(loss, mechanism.optimality.loss, rel_tol=SAME_LOSS_TOLERANCE)


def _on_shipped_streets(records: Records) -> Records | None:
    """Return the records with their streets if they are intersections of a shipped city; None if not."""
    if records.name not in CITIES:
        return None
    city = road(records.name)
    row_of = {name: row for row, name in enumerate(city.ids)}
    rows = [row_of.get(name, -1) for name in records.ids]
    if min(rows) < 0 or not np.array_equal(city.coordinates[rows], records.coordinates):
        return None
    return Records(
        records.coordinates,
        ids=records.ids,
        prior=records.prior,
        name=records.name,
        streets=city.streets,
        street_nodes=np.array(rows),
    )
