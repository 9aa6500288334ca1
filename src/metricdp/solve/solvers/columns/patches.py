"""A start from overlapping patches: pieces of the component, each extended by its neighbours and solved alone.

Away from its rim a patch's solution is nearly that of the whole problem. Its rows give a first mechanism; its unit-sum
duals, put together, give a centre at which pricing already yields a bound within about a percent at strong privacy.
(The duals of mDP rows do not fit together: they are far from unique. The unit-sum duals do.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.solve.solvers.direct import DirectOptions, solve_lp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.component import Component
    from metricdp.solve.stop import Stop

PATCH_LP = DirectOptions(floor=1e-7, tolerance=1e-9)


@dataclass(frozen=True)
class Patch:
    """The result of a piece for its own records."""

    own: NDArray[np.int64]
    rows: NDArray[np.float64]
    unit_duals: NDArray[np.float64]


def patch_members(component: Component, own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a piece's records with their neighbours."""
    matrix = component.graph.adjacency
    near = [matrix.indices[matrix.indptr[i] : matrix.indptr[i + 1]] for i in own]
    return np.unique(np.concatenate((own, *near)).astype(np.int64))


def solve_patch(component: Component, own: NDArray[np.int64], stop: Stop) -> Patch:
    """Solve a piece with its neighbours as one linear program."""
    members = patch_members(component, own)
    costs = component.costs[members]
    found = solve_lp(costs, component.graph.subgraph(members), component.epsilon, options=PATCH_LP, stop=stop)
    reduced = costs.copy()
    np.add.at(reduced, (found.duals.tail, found.duals.output), found.duals.y)
    np.add.at(reduced, (found.duals.head, found.duals.output), -np.exp(found.duals.exponent) * found.duals.y)
    is_own = np.isin(members, own)
    return Patch(own, found.Z[is_own], reduced.min(axis=1)[is_own])
