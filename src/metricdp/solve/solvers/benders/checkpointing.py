"""Cuts and the proof of the lower bound to and from a checkpoint.

Nothing that was stored is trusted. A cut is stored as multipliers of its block's rows and made again from them, which
gives a true cut whatever they are. The lower bound is computed again from the weights of cuts and from multipliers of
rows among boundary records, no row of which may be tighter than the graph says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.errors import InputError, SolverError
from metricdp.solve.answers import array_of
from metricdp.solve.bounds import RowDuals
from metricdp.solve.checkpoint import State
from metricdp.solve.solvers.benders.cuts import Cut, cut_from_rows
from metricdp.solve.solvers.benders.master import Proof

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from metricdp.solve.checkpoint import Checkpoint
    from metricdp.solve.component import Component
    from metricdp.solve.solvers.benders.blocks import Block
    from metricdp.solve.solvers.benders.loop import Progress, Run

ROWS = {"tail": np.int64, "head": np.int64, "output": np.int64, "y": np.float64}  # of a cut
SOURCES_AT_ONCE = 256
PATH_MARGIN = 1.0 + 5e-13  # above the rounding of a path's length, and below the margin that rows are made with


def store(checkpoint: Checkpoint, run: Run, progress: Progress) -> None:
    """Write the cuts of an iteration, the best matrix and the proof."""
    cuts = run.master.cuts
    arrays, notes = _written(cuts[progress.n_stored :])
    progress.n_stored, progress.stored = len(cuts), progress.iteration
    checkpoint.save(run.component.number, _state(run, progress), arrays, notes)


def store_bounds(checkpoint: Checkpoint, run: Run, progress: Progress) -> None:
    """Write only the matrix and the proof: the results of an interrupted iteration, which is done again later."""
    checkpoint.save_state(run.component.number, _state(run, progress))


def _state(run: Run, progress: Progress) -> State:
    """Return the state, with the cuts that no iteration has stored yet but the proof may use."""
    Z = np.zeros((0, 0)) if progress.Z is None else progress.Z
    proof, (more, kinds) = progress.proof, _written(run.master.cuts[progress.n_stored :])
    if proof is not None:
        rows = {name: getattr(proof.rows, name) for name in ("tail", "head", "output", "exponent", "y")}
        more = {**rows, "weights": proof.weights, **{f"cuts-{name}": value for name, value in more.items()}}
    notes = {"feasible_since": list(progress.feasible_since.items()), "cuts": kinds if proof is not None else []}
    return State(progress.stored, progress.lower_bound, progress.upper_bound, Z, more, notes)


def restore(checkpoint: Checkpoint, run: Run, progress: Progress) -> None:
    """Restore the master's cuts, and the bounds as far as they can be proved; do nothing if nothing was saved."""
    component, master = run.component, run.master
    saved = checkpoint.load(component.number)
    if saved is None:
        return
    for step in saved.steps:
        with step.checked():
            _add(run, _read(step.arrays, step.notes, run.blocks))
    progress.iteration = progress.stored = saved.iteration
    progress.n_stored = len(master.cuts)
    stored, proof = saved.state, saved.state.proof
    with stored.checked():
        progress.feasible_since = _feasible_since(stored.notes.get("feasible_since"), len(run.blocks))
        if "weights" in proof:
            more = {name.removeprefix("cuts-"): value for name, value in proof.items() if name.startswith("cuts-")}
            _add(run, _read(more, stored.notes.get("cuts"), run.blocks))
            weights = array_of(proof, "weights", np.float64, (None,), low=0.0)
            if len(weights) > len(master.cuts):
                raise InputError(f"there are weights of {len(weights)} cuts, and {len(master.cuts)} cuts")
            run.prove(Proof(weights, _true_rows(proof, component)), progress)
    Z = stored.arrays.get("Z")
    if Z is not None and component.is_private(Z):
        run.keep(Z, progress)


def _add(run: Run, cuts: list[Cut]) -> None:
    try:
        run.master.add(cuts)
    except SolverError as error:
        raise InputError(str(error)) from None


def _written(cuts: list[Cut]) -> tuple[dict[str, NDArray[Any]], list[tuple[str, int]]]:
    """Return all cuts' multipliers one after the other and where each ends, and the cuts' kinds and blocks."""
    ends = np.cumsum([len(cut.duals.y) for cut in cuts], dtype=np.int64)
    arrays = {
        name: np.concatenate([getattr(cut.duals, name) for cut in cuts]) if cuts else np.zeros(0, dtype=kind)
        for name, kind in ROWS.items()
    }
    return {"ends": ends, **arrays}, [(cut.kind, cut.block) for cut in cuts]


def _read(stored: Mapping[str, NDArray[Any]], notes: Any, blocks: list[Block]) -> list[Cut]:
    """Make the cuts again."""
    rows = {name: stored[name] for name in ROWS if name in stored and stored[name].ndim == 1}
    size = min((len(values) for values in rows.values()), default=0)
    ends = array_of(stored, "ends", np.int64, (None,), low=0, high=size)
    if not isinstance(notes, list) or len(notes) != len(ends) or (np.diff(ends) < 0).any():
        raise InputError(f"there must be one note for each of the {len(ends)} cuts, in their order")
    cuts, first = [], 0
    for note, end in zip(notes, ends.tolist(), strict=True):
        kind, number = note if isinstance(note, list) and len(note) == 2 else (None, None)
        if not isinstance(kind, str) or not isinstance(number, int) or not 0 <= number < len(blocks):
            raise InputError(f"a note must name the kind of a cut and one of {len(blocks)} blocks, got {note!r:.50}")
        cuts.append(cut_from_rows(kind, blocks[number], {name: all_[first:end] for name, all_ in rows.items()}))
        first = end
    return cuts


def _true_rows(stored: Mapping[str, NDArray[Any]], component: Component) -> RowDuals:
    """Return stored multipliers, their rows made no tighter than the graph's: by its edges or its paths."""
    graph, epsilon, n = component.graph, component.epsilon, component.n
    tail = array_of(stored, "tail", np.int64, (None,), low=0, high=n - 1)
    head = array_of(stored, "head", np.int64, tail.shape, low=0, high=n - 1)
    output = array_of(stored, "output", np.int64, tail.shape, low=0, high=component.n_outputs - 1)
    exponent = array_of(stored, "exponent", np.float64, tail.shape)
    y = array_of(stored, "y", np.float64, tail.shape)
    sources, row = np.unique(tail, return_inverse=True)
    least = np.empty(len(tail))
    for first in range(0, len(sources), SOURCES_AT_ONCE):
        some = sources[first : first + SOURCES_AT_ONCE]
        own = np.flatnonzero((row >= first) & (row < first + len(some)))
        paths = epsilon * PATH_MARGIN * graph.path_distances(some)
        edges = graph.adjacency[some].toarray()
        np.putmask(paths, edges > 0.0, np.minimum(paths, epsilon * edges))
        least[own] = paths[row[own] - first, head[own]]
    return RowDuals(tail, head, output, np.maximum(exponent, least), y)


def _feasible_since(found: Any, n_blocks: int) -> dict[int, int]:
    """Check the note on since when blocks have been feasible, which is for display only."""
    pairs = [tuple(pair) for pair in found if isinstance(pair, list)] if isinstance(found, list) else []
    if any(len(pair) != 2 or not all(isinstance(value, int) for value in pair) for pair in pairs):
        raise InputError("the note on feasible blocks must be pairs of whole numbers")
    return {block: since for block, since in pairs if 0 <= block < n_blocks}
