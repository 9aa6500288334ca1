"""Columns, duals and the proof of the lower bound to and from a checkpoint.

Nothing that was stored is trusted: columns are only candidates for a mechanism that is repaired and certified, and the
lower bound is computed again from multipliers of the cone's rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

from metricdp.errors import InputError
from metricdp.solve.answers import array_of
from metricdp.solve.checkpoint import State
from metricdp.solve.solvers.columns.pool import NEGLIGIBLE
from metricdp.solve.solvers.columns.pricing import ConeDuals

if TYPE_CHECKING:
    from metricdp.solve.checkpoint import Checkpoint, Stored


def store(checkpoint: Checkpoint, run: Any, progress: Any, known: int) -> None:
    """Write the columns that came after the first ``known`` ones, the dual, the box and the proof."""
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
    proof = {} if progress.proof is None else progress.proof.arrays()
    state = State(progress.round + 1, progress.lower_bound, progress.upper_bound, Z, proof)
    checkpoint.save(run.component.number, state, arrays, [])


def restore(checkpoint: Checkpoint, run: Any, progress: Any) -> bool:
    """Give the run its columns and dual back, and bounds as far as they can be proved; False if nothing was saved."""
    saved = checkpoint.load(run.component.number)
    if saved is None or not saved.steps:
        return False
    for step in saved.steps:
        with step.checked():
            run.pool.add(*_columns(step, run.component.n, run.component.n_outputs))
    last, n = saved.steps[-1], run.component.n
    with last.checked():
        run.radius = array_of(last.arrays, "radius", np.float64, (n,), low=0.0)
        y = array_of(last.arrays, "y", np.float64, (None,))
        progress.y = y if len(y) == n else None
    progress.round = saved.iteration - 1
    with saved.state.checked():
        if saved.state.proof:
            run.prove(ConeDuals.read(saved.state.proof, run.cone, run.component.n_outputs), progress)
    Z = saved.state.arrays.get("Z")
    if Z is not None and run.component.is_private(Z):
        run.keep(Z, progress)
    run.build_programs()
    return True


def _columns(step: Stored, n: int, n_outputs: int) -> tuple[csr_array, Any]:
    """Check the columns of one iteration: a sparse matrix is only as sound as its three arrays."""
    outputs = array_of(step.arrays, "outputs", np.int64, (None,), low=0, high=n_outputs - 1)
    indices = array_of(step.arrays, "indices", np.int64, (None,), low=0, high=n - 1)
    data = array_of(step.arrays, "data", np.float64, indices.shape, low=NEGLIGIBLE, high=1.0)
    indptr = array_of(step.arrays, "indptr", np.int64, (len(outputs) + 1,), low=0, high=len(indices))
    if indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        raise InputError("indptr must rise from 0 to the number of entries")
    columns = csr_array((data, indices, indptr), shape=(len(outputs), n))
    columns.sum_duplicates()
    return columns, outputs
