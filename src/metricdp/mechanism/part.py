"""A part of a mechanism: the rows of some records, for devices that need not hold a whole country.

Rows are taken out and columns stay, so the probabilities are those of the whole mechanism, and every pair of records in
the part is protected at the same distance as before. Paths through records that were left out are gone: two records may
be farther apart along neighbours than before, or in groups that no path joins. The part is certified on its own.

Which part is taken must not depend on the secret.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import InputError
from metricdp.mechanism.mechanism import Mechanism
from metricdp.mechanism.merge import after_merging, best_targets
from metricdp.mechanism.sparse import SparseTable
from metricdp.problem.losses import DistanceLosses, FunctionLosses, GivenLosses, TravelLosses
from metricdp.problem.outputs import Outputs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.data.records import Records
    from metricdp.problem.losses import Losses


def part_of(mechanism: Mechanism, rows: NDArray[np.int64], *, merge_outputs: bool = False) -> Mechanism:
    """Return the mechanism of the records in ``rows``, certified again.

    Parameters
    ----------
    rows
        Records that stay, ascending, each once.
    merge_outputs
        Report an output that is a record outside the part as the best one inside, on average: smaller files, and a loss
        that `Mechanism.loss` shows. By default all outputs stay; those that are no longer records become points.

    Examples
    --------
    >>> import metricdp as mdp
    >>> whole = mdp.exponential(mdp.Problem(mdp.data.grid(2, 3), epsilon=1.0, eta=1.0))
    >>> part = part_of(whole, np.array([0, 1, 3]))
    >>> part.records.ids, part.outputs.n, part.graph.n_pairs
    (('r00c00', 'r00c01', 'r01c00'), 6, 2)
    """
    chosen = np.asarray(rows, dtype=np.int64)
    if not chosen.size or (np.diff(chosen) <= 0).any():
        raise InputError("a part needs records, in ascending order and each once")
    if chosen[0] < 0 or chosen[-1] >= mechanism.records.n:
        raise InputError(f"a part must be of the {mechanism.records.n} records: name rows from 0 on")
    records = mechanism.records.select(chosen)
    place = np.full(mechanism.records.n, -1, dtype=np.int64)
    place[chosen] = np.arange(len(chosen))
    own = None if mechanism.outputs.rows is None else place[mechanism.outputs.rows]
    outputs = _outputs(mechanism.outputs, own)
    largest, own_epsilons = _budget(mechanism, chosen)
    part = Mechanism(
        table=_rows_of(mechanism.table, chosen),
        records=records,
        outputs=outputs,
        graph=mechanism.graph.subgraph(chosen),
        epsilon=largest,
        eta=mechanism.eta,
        metric=mechanism.metric,
        epsilons=own_epsilons,
        solver=f"{mechanism.solver}, part".removeprefix(", "),
        losses=_losses(mechanism.losses, records, outputs, chosen),
        loss_name=mechanism.loss_name,
    )
    if not merge_outputs:
        return part
    if own is None:
        raise InputError("the outputs are points, not records: they cannot be merged by the region; leave that out")
    outside = np.flatnonzero(own < 0)
    if not outside.size:
        return part
    if len(outside) == len(own):
        raise InputError("no output is a record of the part, so none is left to merge into: leave that out")
    merged = after_merging(part, best_targets(part, outside.tolist()))
    inside = own[own >= 0]
    named = Outputs(records.coordinates[inside], inside)
    losses = replace(merged.losses, outputs=named) if isinstance(merged.losses, DistanceLosses) else merged.losses
    return merged.with_table(merged.table, solver=merged.solver, outputs=named, losses=losses)


def _budget(mechanism: Mechanism, rows: NDArray[np.int64]) -> tuple[float, NDArray[np.float64] | None]:
    """Return the largest epsilon of the records that stay, and each one's own, if they differ."""
    if mechanism.epsilons is None:
        return mechanism.epsilon, None
    own = mechanism.epsilons[rows]
    largest = float(own.max())
    return largest, None if float(own.min()) == largest else own


def _rows_of(table: NDArray[np.uint64] | SparseTable, rows: NDArray[np.int64]) -> NDArray[np.uint64] | SparseTable:
    if not isinstance(table, SparseTable):
        return table[rows]
    begin, end = table.indptr[rows], table.indptr[rows + 1]
    indptr = np.concatenate(([0], np.cumsum(end - begin)))
    entries = np.arange(indptr[-1]) + np.repeat(begin - indptr[:-1], end - begin)
    return SparseTable(indptr, table.columns[entries], table.weights[entries], table.background, table.scale[rows])


def _outputs(outputs: Outputs, own: NDArray[np.int64] | None) -> Outputs:
    """Return the outputs: records of the part, if all of them are, and points otherwise."""
    if own is None or (own < 0).any():
        return Outputs(outputs.coordinates)
    return Outputs(outputs.coordinates, own)


def _losses(losses: Losses | None, records: Records, outputs: Outputs, rows: NDArray[np.int64]) -> Losses | None:
    if isinstance(losses, (DistanceLosses, FunctionLosses)):
        return replace(losses, records=records, outputs=outputs)
    if isinstance(losses, TravelLosses):
        return replace(losses, from_records=losses.from_records[rows])
    if isinstance(losses, GivenLosses):
        return replace(losses, matrix=losses.matrix[rows])
    return None
