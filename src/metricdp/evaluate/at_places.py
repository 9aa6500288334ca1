"""A region's mechanism at some of its points, as a mechanism of records: what evaluation and estimates work with.

The file of a region holds neither where people are nor their losses. Taken at the centres of its cells, or at places
that are given, its distributions are the rows of an ordinary table, which is certified as one, and everything that
compares tables applies. What is said of these places is not proved of the others; the promise of the region is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from metricdp.errors import InputError
from metricdp.evaluate.problem_of_file import Rebuilt
from metricdp.mechanism.mechanism import Mechanism
from metricdp.problem.problem import CONNECT, Problem

if TYPE_CHECKING:
    from metricdp.data.records import Records
    from metricdp.mechanism.plane import PlaneMechanism

NEIGHBOURS = 1.6  # sides of a cell: the eight cells around it
MADE_FOR = "protects every point of its region, not only these places, and was made for its own prior and loss"


def at_places(mechanism: PlaneMechanism, places: Records | None = None) -> Rebuilt:
    """Return the mechanism of records that a region's mechanism is at ``places``, and the problem that it is one for.

    Parameters
    ----------
    places
        Points of the region with a prior; the centres of all cells, all alike, if left out. The loss is the distance.

    Examples
    --------
    >>> import metricdp as mdp
    >>> square = mdp.data.region(0.0, 0.0, 2.0, 2.0, spacing=0.5, kind="vectors")
    >>> result = mdp.solve_plane(mdp.PlaneProblem(square, epsilon=1.0), max_steps=50, bound=False)
    >>> found = at_places(result.mechanism)
    >>> found.mechanism.records.n, abs(found.mechanism.loss / result.loss - 1.0) < 1e-9
    (16, True)
    """
    region = mechanism.region
    who = f"the centres of its {region.inner.size:,} cells, all alike" if places is None else f"{places.n:,} places"
    eta: float | str = CONNECT
    if places is None:
        eta = NEIGHBOURS * max(float(side) for side in region.sides)
        places = region.records.select(region.inner)
    elif places.kind != region.kind or places.dimension != 2:
        raise InputError(f"the places must be {region.kind} with two coordinates, as the region is")
    n_outside = int(region.is_outside(places.coordinates).sum())
    if n_outside:
        raise InputError(
            f"{n_outside} of {places.n} places are outside the region: leave them out, or take a larger region"
        )
    problem = Problem(
        places,
        epsilon=mechanism.epsilon,
        eta=eta,
        outputs=mechanism.outputs.coordinates,
        loss="distance",
        metric=region.metric,
    )
    made = Mechanism.from_matrix(problem, mechanism.probabilities_at(places.coordinates), solver=mechanism.solver)
    return Rebuilt(made, problem, f"distance, for people at {who}", is_own_loss=False, made_for=MADE_FOR)
