"""Planar Laplace noise as it is used: drawn on the plane, then moved to the nearest output or remapped by the prior.

The density of the noise is proportional to ``exp(-epsilon d(x, y))``, here on the nodes of a fine grid around all
records, so that it becomes a table that can be certified. What follows the noise looks at the noisy point only. Unlike
ours, this noise protects all pairs at their straight distance, and not only neighbours and chains of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from metricdp.data.geodesy import EARTH_RADIUS_KM
from metricdp.errors import InputError
from metricdp.evaluate.problem_of_file import StoredMetric
from metricdp.evaluate.remap import remap
from metricdp.mechanism.mechanism import Mechanism
from metricdp.metric.distances import CoordinateMetric
from metricdp.metric.space import Space

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from metricdp.problem.problem import Problem

    Choose = Callable[[slice, NDArray[np.float64]], NDArray[np.int64]]

MARGIN, FINE_STEP, COARSE_STEP = 12.0, 0.2, 0.5  # in units of 1 / epsilon: beyond the records, between nodes
MAX_NODES = 500_000
MAX_ENTRIES = 1e8  # records times nodes: some seconds
MAX_PRODUCTS = 2e11  # nodes times records times outputs: some 20 s
ENTRIES_AT_ONCE = 4_000_000
TOO_WIDE = "planar noise would need too many nodes: the records are too far apart for this epsilon, or too many"


def planar_metric(problem: Problem) -> CoordinateMetric:
    """Return the metric of a problem in the plane or on the Earth; an error for all others."""
    metric = problem.metric.base if isinstance(problem.metric, StoredMetric) else problem.metric
    if type(metric) is not CoordinateMetric or problem.records.dimension != 2:
        raise InputError("planar noise needs places or points with two coordinates, and a metric of coordinates")
    return metric


def snapped_noise(problem: Problem) -> tuple[Mechanism, str]:
    """Return planar Laplace noise moved to the nearest output, and how fine its grid is."""
    noise = _Noise(problem)
    made = noise.mechanism(noise.nearest, "planar Laplace, snapped")
    return made, f"guarantees epsilon on all pairs; noise {noise.words}, moved to the nearest output"


def remapped_noise(problem: Problem) -> tuple[Mechanism, str]:
    """Return planar Laplace noise with Bayes remap: the output that is best on average for each noisy point.

    Where there are too many points for that, they are moved to their nearest output first, and outputs are remapped.
    """
    noise = _Noise(problem)
    if float(len(noise.nodes)) * problem.n_records * problem.n_outputs <= MAX_PRODUCTS:
        made = noise.mechanism(noise.best, "planar Laplace, remapped")
        return made, f"guarantees epsilon on all pairs; noise {noise.words}, each point remapped to its best output"
    made = remap(noise.mechanism(noise.nearest, "planar Laplace, snapped"), problem)
    return (
        made,
        f"guarantees epsilon on all pairs; noise {noise.words}, moved to the nearest output, which is then remapped",
    )


class _Noise:
    """The grid, and how likely each of its nodes is from each record."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.metric = problem, planar_metric(problem)
        self.nodes, self.step = _grid(problem, self.metric)
        space = Space.of(self.metric, problem.records.coordinates, self.nodes)
        outputs = Space.of(self.metric, problem.outputs.coordinates, self.nodes)
        if space is None or outputs is None:
            raise InputError(TOO_WIDE)
        self.space, self.outputs = space, cKDTree(outputs.here)
        self.totals = np.zeros(problem.n_records)
        for _, weights in self.parts():
            self.totals += weights.sum(axis=1)

    @property
    def words(self) -> str:
        return f"on {len(self.nodes):,} nodes {self.step:.2g} / epsilon apart"

    def parts(self) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield some nodes and their weights for all records, before they are normalised."""
        size = max(1, ENTRIES_AT_ONCE // self.problem.n_records)
        for start in range(0, len(self.nodes), size):
            part = slice(start, min(start + size, len(self.nodes)))
            yield part, np.exp(-self.problem.epsilon * self.space.part(slice(None), part).matrix())

    def nearest(self, part: slice, _weights: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the output that is nearest to each node."""
        norm = 1.0 if self.metric.name == "manhattan" else 2.0
        return np.asarray(self.outputs.query(self.space.there[part], p=norm)[1], dtype=np.int64)

    def best(self, _part: slice, weights: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the output with the least expected loss after each node."""
        return (weights.T @ self.problem.costs).argmin(axis=1)

    def mechanism(self, choose: Choose, solver: str) -> Mechanism:
        """Return the mechanism that reports what is chosen for each node, at the problem's budget."""
        Z = np.zeros((self.problem.n_records, self.problem.n_outputs))
        for part, weights in self.parts():
            shares = weights / self.totals[:, None]
            to = choose(part, shares)
            moved = csr_array((np.ones(len(to)), (np.arange(len(to)), to)), shape=(len(to), Z.shape[1]))
            Z += shares @ moved
        return Mechanism.from_matrix(self.problem, Z, solver=solver)


def _grid(problem: Problem, metric: CoordinateMetric) -> tuple[NDArray[np.float64], float]:
    """Return the nodes, and how far apart they are in units of 1 / epsilon."""
    points = problem.records.coordinates
    low, high = points.min(axis=0), points.max(axis=0)
    unit = np.ones(2)  # lengths of one step of the coordinates
    if metric.name == "haversine":
        per_degree = np.radians(1.0) * EARTH_RADIUS_KM
        unit = per_degree * np.array([1.0, np.cos(np.radians(np.abs(points[:, 0]).max()))])
    length = 1.0 / problem.epsilon
    sides = (high - low) * unit / length + 2.0 * MARGIN
    most = min(MAX_NODES, MAX_ENTRIES / problem.n_records)
    step = max(FINE_STEP, float(np.sqrt(sides.prod() / most)))
    is_around = metric.name == "haversine" and (
        (np.abs(low) + MARGIN * length / unit > [89.0, 180.0]).any()
        or (np.abs(high) + MARGIN * length / unit > [89.0, 180.0]).any()
    )
    if step > COARSE_STEP or is_around:
        raise InputError(TOO_WIDE)
    axes = [
        np.arange(a - MARGIN * length / u, b + MARGIN * length / u + step * length / u, step * length / u)
        for a, b, u in zip(low, high, unit, strict=True)
    ]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2), step
