"""What a region's mechanism is to be good at: a region, a budget, outputs, and where people are in it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from metricdp.data.frozen import frozen
from metricdp.data.records import Records
from metricdp.data.region import Region, number_of
from metricdp.errors import InputError
from metricdp.metric.distances import CoordinateMetric
from metricdp.problem.outputs import Outputs

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

LARGEST_EXPONENT = 2.0  # epsilon times the side of a cell: coarser lattices tell nearly nothing
MAX_ENTRIES = 40_000_000  # nodes times outputs
SMALLEST = 1e-100  # below it, and above 1 / it, squares of floats would be lost


@dataclass(frozen=True, eq=False, repr=False)
class PlaneProblem:
    """The least expected loss over a region, for all points of which the promise is to hold.

    Parameters
    ----------
    region
        The box and its lattice.
    epsilon
        The budget per km (or per unit of vectors).
    outputs
        What can be reported: `Records` (their ids become the outputs' names), points, shape (K, 2), or numbers of
        nodes; the nodes inside the box if left out.
    places
        Where people are: points of the region with a prior (`Records`). Uniform over the centres of cells if left out.
    losses
        The cost of each output at each of the places, shape (places, K); the distance if left out.

    Examples
    --------
    >>> from metricdp.data import region
    >>> problem = PlaneProblem(region(0.0, 0.0, 3.0, 2.0, spacing=0.5, kind="vectors"), epsilon=0.5)
    >>> problem.n_nodes, problem.n_outputs, problem.costs.shape
    (48, 24, (48, 24))
    """

    region: Region
    epsilon: float
    outputs: Outputs
    places: Records
    losses: NDArray[np.float64]

    def __init__(
        self,
        region: Region,
        *,
        epsilon: float,
        outputs: ArrayLike | Records | None = None,
        places: Records | None = None,
        losses: ArrayLike | None = None,
    ) -> None:
        if not isinstance(region, Region):
            raise InputError(f"region must be a Region, got {type(region).__name__}: make it with metricdp.data.region")
        epsilon = number_of(epsilon, "epsilon")
        if not (math.isfinite(epsilon) and epsilon > 0):
            raise InputError(f"epsilon must be positive and finite, got {epsilon}")
        sides = [float(side) for side in region.sides]
        sizes = [*sides, *(epsilon * side for side in sides), epsilon]
        if not all(SMALLEST <= size <= 1.0 / SMALLEST for size in sizes):
            raise InputError(
                f"epsilon, the sides of the cells, and their product must be from {SMALLEST:g} to {1.0 / SMALLEST:g}, "
                f"got epsilon {epsilon:g} and sides of {sides[0]:.3g} and {sides[1]:.3g}: use another unit of length"
            )
        widest = epsilon * max(sides)
        if widest > LARGEST_EXPONENT:
            raise InputError(
                f"epsilon times the spacing is {widest:.3g}, more than {LARGEST_EXPONENT:g}: use a finer lattice, "
                f"about 0.25 / epsilon = {0.25 / epsilon:.3g} apart"
            )
        places = region.records.select(region.inner) if places is None else places
        if places.kind != region.kind or places.dimension != 2:
            raise InputError(f"the places must be {region.kind} with two coordinates, as the region is")
        n_outside = int(region.is_outside(places.coordinates).sum())
        if n_outside:
            raise InputError(
                f"{n_outside} of {places.n} places are outside the region: leave them out, or take a larger region"
            )
        made = _outputs(region, outputs)
        n_entries = region.n_nodes * made.n
        if n_entries > MAX_ENTRIES:
            raise InputError(
                f"{region.n_nodes:,} nodes times {made.n:,} outputs are {n_entries:,} entries, more "
                f"than {MAX_ENTRIES:,}: use a coarser lattice, fewer outputs or a smaller region"
            )
        metric = CoordinateMetric(region.metric)
        if losses is None:
            losses = metric.between(places.coordinates, made.coordinates)
        matrix = _checked_losses(losses, (places.n, made.n))
        values = {"region": region, "epsilon": epsilon, "outputs": made, "places": places, "losses": frozen(matrix)}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        rows, columns = self.region.cells
        return f"PlaneProblem({rows} x {columns} cells, {self.n_outputs} outputs, epsilon {self.epsilon:g})"

    @property
    def n_nodes(self) -> int:
        """Number of nodes, with the ring outside."""
        return self.region.n_nodes

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return self.outputs.n

    @cached_property
    def costs(self) -> NDArray[np.float64]:
        """What a unit of each entry of the table costs, shape (nodes, K): losses by prior and weights of the nodes."""
        rows, weights = self.region.weights_at(self.places.coordinates)
        start = np.arange(self.places.n + 1) * rows.shape[1]
        spread = csr_array((weights.ravel(), rows.ravel(), start), shape=(self.places.n, self.n_nodes))
        return frozen(spread.T @ (self.places.prior[:, None] * self.losses))


def _checked_losses(losses: ArrayLike, shape: tuple[int, int]) -> NDArray[np.float64]:
    try:
        matrix = np.asarray(losses, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"losses must be a table of numbers, of shape {shape}") from None
    if matrix.shape != shape or not np.isfinite(matrix).all() or (matrix < 0).any():
        raise InputError(f"losses must be finite and not negative, of shape {shape}, got shape {matrix.shape}")
    return matrix


def _outputs(region: Region, outputs: ArrayLike | Records | None) -> Outputs:
    """Return the outputs, with the ids of records as names."""
    if not isinstance(outputs, Records):
        return Outputs.of(region.inner if outputs is None else outputs, region.records, seed=0)
    if outputs.kind != region.kind:
        raise InputError(f"the outputs must be {region.kind} with two coordinates, as the region is")
    points = Outputs.of(outputs.coordinates, region.records, seed=0)
    return Outputs(points.coordinates, None, tuple(outputs.ids))
