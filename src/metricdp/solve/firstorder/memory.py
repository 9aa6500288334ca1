"""The first-order iteration to and from a checkpoint: the rows, the multipliers in use, and the bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.solve.checkpoint import State
from metricdp.solve.firstorder.network import Network
from metricdp.solve.firstorder.tiles import WIDTH

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.checkpoint import Checkpoint
    from metricdp.solve.firstorder.iterate import Iteration
    from metricdp.solve.firstorder.loop import Progress


def store(checkpoint: Checkpoint, iteration: Iteration, progress: Progress) -> None:
    """Write the current point (as the anchor of a new epoch) and the bounds."""
    tile, edge = np.nonzero(iteration.Y.any(axis=2))
    arrays: dict[str, NDArray[Any]] = {
        "rows": iteration.Z,
        "tile": tile,
        "edge": edge,
        "multipliers": iteration.Y[tile, edge],
        "chosen": np.sort(iteration.network.chosen),
        "order": iteration.network.order,
        "steps": np.array([iteration.steps, progress.checks, progress.extensions, progress.polishes]),
    }
    Z = np.zeros((0, 0)) if progress.Z is None else progress.Z
    state = State(0, progress.lower_bound, progress.upper_bound, Z)
    checkpoint.save(iteration.network.component.number, state, arrays, [])


def restore(checkpoint: Checkpoint, iteration: Iteration, progress: Progress) -> bool:
    """Give the iteration its point and the bounds back; False if nothing was saved."""
    component = iteration.network.component
    saved = checkpoint.load(component.number)
    if saved is None:
        return False
    state, steps = saved
    arrays = steps[-1][0]
    iteration.network = Network(component, arrays["chosen"], arrays["order"])
    Y = np.zeros((iteration.network.tiles, iteration.network.m, WIDTH), dtype=np.float32)
    Y[arrays["tile"], arrays["edge"]] = arrays["multipliers"]
    done, progress.checks, progress.extensions, progress.polishes = (int(value) for value in arrays["steps"])
    iteration.resume(np.array(arrays["rows"]), Y, done)
    progress.lower_bound = state.lower_bound
    if state.Z.shape == component.costs.shape:
        progress.upper_bound, progress.Z = state.upper_bound, state.Z
    return True
