"""Cuts and bounds to and from a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.solve.benders.cuts import Cut
from metricdp.solve.bounds import RowDuals
from metricdp.solve.checkpoint import State

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.benders.loop import Progress
    from metricdp.solve.benders.master import Master
    from metricdp.solve.checkpoint import Checkpoint
    from metricdp.solve.components import Component

DUALS = ("tail", "head", "output", "exponent", "y")
ARRAYS = ("records", "outputs", "coefficients")


def store(checkpoint: Checkpoint, component: Component, cuts: list[Cut], progress: Progress) -> None:
    """Write the cuts of an iteration and the bounds."""
    arrays: dict[str, NDArray[Any]] = {}
    notes = []
    for number, cut in enumerate(cuts):
        notes.append({"kind": cut.kind, "block": cut.block, "weight": cut.weight, "constant": cut.constant.hex()})
        for name in ARRAYS:
            arrays[f"{number}-{name}"] = getattr(cut, name)
        for name in DUALS:
            arrays[f"{number}-{name}"] = getattr(cut.duals, name)
    checkpoint.save(component.number, _state(progress), arrays, notes)


def store_bounds(checkpoint: Checkpoint, component: Component, progress: Progress) -> None:
    """Write the bounds alone: what an iteration that was broken off has proved."""
    checkpoint.save_state(component.number, _state(progress))


def _state(progress: Progress) -> State:
    Z = np.zeros((0, 0)) if progress.Z is None else progress.Z
    return State(progress.iteration, progress.lower_bound, progress.upper_bound, Z, progress.feasible_since)


def restore(checkpoint: Checkpoint, component: Component, master: Master, progress: Progress) -> None:
    """Give the master its cuts back, and the bounds; nothing happens if nothing was saved."""
    saved = checkpoint.load(component.number)
    if saved is None:
        return
    state, steps = saved
    for arrays, notes in steps:
        cuts = [
            Cut(
                note["kind"],
                int(note["block"]),
                float(note["weight"]),
                float.fromhex(note["constant"]),
                records=arrays[f"{number}-records"],
                outputs=arrays[f"{number}-outputs"],
                coefficients=arrays[f"{number}-coefficients"],
                duals=RowDuals(*(arrays[f"{number}-{name}"] for name in DUALS)),
            )
            for number, note in enumerate(notes)
        ]
        master.add(cuts)
    progress.iteration, progress.lower_bound = state.iteration, state.lower_bound
    progress.feasible_since = state.feasible_since
    if state.Z.shape == component.costs.shape:
        progress.upper_bound, progress.Z = state.upper_bound, state.Z
