"""What the steps run on: nodes, windows, costs, and a thin graph's edges within each window."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import StoppedError
from metricdp.metric.thin import thin_edges
from metricdp.solve.solvers.firstorder.network import LARGEST_EXPONENT, ROUND_DOWN
from metricdp.solve.solvers.local.costs import window_costs
from metricdp.solve.solvers.local.paths import path_lengths
from metricdp.solve.solvers.local.windows import edges_within, nearest_outputs, windows_within

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from metricdp.solve.solvers.local.costs import WindowCosts
    from metricdp.solve.solvers.local.problem import Nodes
    from metricdp.solve.solvers.local.windows import Edges, Windows


@dataclass(frozen=True, eq=False)
class Network:
    """Windows of nodes with the edges of a thin graph.

    Parameters
    ----------
    radius
        Of each node's windows, in the metric's unit.
    tail, head, exponent
        The edges' nodes and epsilon d, shape (m,). A bound from some of the pairs holds for all of them.
    a, b
        An edge's row is ``a z_i <= b z_j`` (and the other way round), ``a^2 + b^2 = 1``.
    decay
        Not above ``exp(-epsilon d)``, for bounds.
    """

    nodes: Nodes
    radius: NDArray[np.float64]
    windows: Windows
    costs: WindowCosts
    edges: Edges
    tail: NDArray[np.int32]
    head: NDArray[np.int32]
    exponent: NDArray[np.float64]
    a: NDArray[np.float32]
    b: NDArray[np.float32]
    decay: NDArray[np.float64]

    @property
    def m(self) -> int:
        """Number of edges."""
        return len(self.tail)


def network_of(
    nodes: Nodes,
    radius: NDArray[np.float64],
    stretch: float,
    *,
    is_over: Callable[[], bool],
    nearest: NDArray[np.float64] | None = None,
) -> Network:
    """Return the network of windows with the given radii, its edges thinned by ``stretch``.

    ``is_over`` is asked between the parts. ``nearest`` are the distances to the nearest outputs, if these are not all
    among the problem's.
    """
    graph = nodes.graph
    chosen = thin_edges(graph, stretch, is_over=is_over) if stretch > 0.0 else np.arange(graph.n_pairs)
    exponent = nodes.problem.epsilon * graph.distances[chosen]
    is_felt = exponent <= LARGEST_EXPONENT
    chosen, exponent = chosen[is_felt], exponent[is_felt]
    tail, head = (np.ascontiguousarray(graph.pairs[chosen, side]) for side in (0, 1))
    start = np.searchsorted(tail, np.arange(nodes.n + 1)).astype(np.int64)
    _go_on(is_over)
    windows = windows_within(nodes, radius)
    edges = edges_within(windows, start, head)
    _go_on(is_over)
    costs = window_costs(nodes, windows, radius, nearest_outputs(nodes) if nearest is None else nearest)
    decay = np.exp(-exponent)
    norm = np.sqrt(1.0 + decay * decay)
    return Network(
        nodes=nodes,
        radius=radius,
        windows=windows,
        costs=replace(costs, far=path_lengths(nodes, windows, edges, exponent, costs.far)),
        edges=edges,
        tail=tail,
        head=head,
        exponent=exponent,
        a=(decay / norm).astype(np.float32),
        b=(1.0 / norm).astype(np.float32),
        decay=decay * ROUND_DOWN,
    )


def _go_on(is_over: Callable[[], bool]) -> None:
    """Raise StoppedError between two parts of the work if it is time to stop."""
    if is_over():
        raise StoppedError("the windows were interrupted")
