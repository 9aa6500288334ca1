"""The first-order iteration to and from a checkpoint: the rows, the multipliers in use, and what proves the bound.

Nothing that was stored is trusted: any multipliers of the graph's pairs give a lower bound that holds, and it is
computed again from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.errors import InputError
from metricdp.solve.answers import array_of
from metricdp.solve.bounds import lower_bound
from metricdp.solve.checkpoint import State
from metricdp.solve.solvers.columns.pricing import ConeDuals, cone_of
from metricdp.solve.solvers.firstorder.bounds import certified_bound
from metricdp.solve.solvers.firstorder.iterate import Iteration
from metricdp.solve.solvers.firstorder.network import Network
from metricdp.solve.solvers.firstorder.tiles import WIDTH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from metricdp.solve.checkpoint import Checkpoint
    from metricdp.solve.component import Component
    from metricdp.solve.solvers.firstorder.loop import Progress

MULTIPLIERS = ("tile", "edge", "multipliers", "chosen", "order")
MOST_STEPS = 2**31
LARGEST_ROW, LARGEST_MULTIPLIER = 1e6, 1e9  # iterates are of the order of 1: beyond, they have run away


def store(checkpoint: Checkpoint, iteration: Iteration, progress: Progress) -> None:
    """Write the current point (as the anchor of a new epoch), the best matrix, and what proves the bound.

    That is the current point itself if the bound is its own; otherwise it is kept in memory since then.
    """
    tile, edge = np.nonzero(iteration.Y.any(axis=2))
    arrays: dict[str, NDArray[Any]] = {
        "rows": iteration.Z,
        "tile": tile,
        "edge": edge,
        "multipliers": iteration.Y[tile, edge],
        "chosen": np.sort(iteration.network.chosen).astype(np.int64),
        "order": iteration.network.order,
        "steps": np.array([iteration.steps, progress.checks, progress.extensions, progress.polishes]),
    }
    Z = np.zeros((0, 0)) if progress.Z is None else progress.Z
    state = State(0, progress.lower_bound, progress.upper_bound, Z, progress.proof or {})
    checkpoint.save(iteration.network.component.number, state, arrays, [])
    if progress.proof is None:
        progress.proof = {name: arrays[name] for name in MULTIPLIERS}


def restore(checkpoint: Checkpoint, iteration: Iteration, progress: Progress) -> bool:
    """Give the iteration its point back, and bounds as far as they can be proved again; False if nothing was saved."""
    component = iteration.network.component
    saved = checkpoint.load(component.number)
    if saved is None or not saved.steps:
        return False
    last, state = saved.steps[-1], saved.state
    with last.checked():
        shape = iteration.Z.shape
        rows = array_of(last.arrays, "rows", np.float32, shape, low=-LARGEST_ROW, high=LARGEST_ROW)
        counts = array_of(last.arrays, "steps", np.int64, (4,), low=0, high=MOST_STEPS)
        iteration.network, Y = _multipliers(last.arrays, component)
    done, progress.checks, progress.extensions, progress.polishes = (int(value) for value in counts)
    iteration.resume(np.array(rows), Y, done)
    progress.lower_bound = max(progress.lower_bound, certified_bound(iteration))
    progress.proof = {name: last.arrays[name] for name in MULTIPLIERS}
    if state.proof:
        with state.checked():
            bound = _bound(state.proof, iteration)
        if bound > progress.lower_bound:
            progress.lower_bound, progress.proof = bound, state.proof
    Z = state.arrays.get("Z")
    if Z is not None and component.is_private(Z):
        progress.upper_bound, progress.Z = component.loss(Z), Z
    return True


def _bound(proof: Mapping[str, NDArray[Any]], iteration: Iteration) -> float:
    """Return the bound that other multipliers prove: those of a polish, or of an earlier point."""
    component = iteration.network.component
    if "multipliers" not in proof:
        cone = cone_of(component)
        duals = ConeDuals.read(proof, cone, component.n_outputs).rows_of(cone)
        return lower_bound(component.costs, duals, cost_roundings=component.cost_roundings)
    network, Y = _multipliers(proof, component)
    earlier = Iteration(network, float(iteration.weight))
    earlier.resume(earlier.Z, Y, 0)
    return certified_bound(earlier)


def _multipliers(stored: Mapping[str, Any], component: Component) -> tuple[Network, NDArray[np.float32]]:
    """Check stored multipliers; return the network of their pairs, and the multipliers in its tiles."""
    n = component.n
    chosen = array_of(stored, "chosen", np.int64, (None,), low=0, high=component.graph.n_pairs - 1)
    order = array_of(stored, "order", np.int64, (n,), low=0, high=n - 1)
    if (np.diff(chosen) <= 0).any() or len(np.unique(order)) < n:
        raise InputError("every pair may be chosen once, and every record has one place in the order")
    network = Network(component, chosen, order)
    tile = array_of(stored, "tile", np.int64, (None,), low=0, high=network.tiles - 1)
    edge = array_of(stored, "edge", np.int64, tile.shape, low=0, high=network.m - 1)
    values = array_of(
        stored, "multipliers", np.float32, (len(tile), WIDTH), low=-LARGEST_MULTIPLIER, high=LARGEST_MULTIPLIER
    )
    Y = np.zeros((network.tiles, network.m, WIDTH), dtype=np.float32)
    Y[tile, edge] = values
    return network, Y
