"""Columns, duals and bounds to and from a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from metricdp.solve.checkpoint import State

if TYPE_CHECKING:
    from metricdp.solve.checkpoint import Checkpoint


def store(checkpoint: Checkpoint, run: Any, progress: Any, known: int) -> None:
    """Write the columns that came after the first ``known`` ones, the dual, the box and the bounds."""
    new = csr_array(run.pool.V[known:])
    nothing = np.zeros(0)
    arrays = {
        "indptr": new.indptr.astype(np.int64),
        "indices": new.indices.astype(np.int64),
        "data": new.data,
        "outputs": run.pool.outputs[known:],
        "y": nothing if progress.y is None else progress.y,
        "radius": run.radius,
    }
    Z = np.zeros((0, 0)) if progress.Z is None else progress.Z
    state = State(progress.round + 1, progress.lower_bound, progress.upper_bound, Z)
    checkpoint.save(run.component.number, state, arrays, [])


def restore(checkpoint: Checkpoint, run: Any, progress: Any) -> bool:
    """Give the run its columns, dual and bounds back; False if nothing was saved."""
    saved = checkpoint.load(run.component.number)
    if saved is None:
        return False
    state, steps = saved
    for arrays, _ in steps:
        shape = (len(arrays["outputs"]), run.component.n)
        run.pool.add(csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape), arrays["outputs"])
    last = steps[-1][0]
    run.radius = last["radius"]
    progress.y = last["y"] if len(last["y"]) == run.component.n else None
    progress.round, progress.lower_bound = state.iteration - 1, state.lower_bound
    if state.Z.shape == run.component.costs.shape:
        progress.upper_bound, progress.Z = state.upper_bound, state.Z
    run.build_programs()
    return True
