"""Outputs that are taken out after solving: their reports become reports of other outputs.

That looks at the report only, so it is post-processing: columns of the integer table are added up, which keeps every
row sum and every mDP row. Taking columns out and scaling the rows to 1 again would not: rows lose different amounts, so
the quotients of their entries change.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from metricdp.errors import InputError
from metricdp.mechanism.expected import record_losses
from metricdp.mechanism.sparse import SparseTable
from metricdp.problem.loss_space import loss_blocks
from metricdp.problem.losses import DistanceLosses, FunctionLosses, GivenLosses, TravelLosses
from metricdp.problem.outputs import Outputs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.problem.losses import Losses


def merged(
    table: NDArray[np.uint64] | SparseTable, outputs: NDArray[np.int64], n_outputs: int | None = None
) -> NDArray[np.uint64] | SparseTable:
    """Return a table of ``n_outputs`` whose column ``outputs[k]`` has column k added to it; a sparse one stays sparse.

    By default there are as many outputs as before.
    """
    n = len(outputs) if n_outputs is None else n_outputs
    if isinstance(table, SparseTable):
        background = np.zeros(n, dtype=np.uint64)
        np.add.at(background, outputs, table.background)  # they sum to 2^63 at most
        indptr, columns, weights = _merged_rows(table.indptr, table.columns, table.weights, outputs, n)
        return SparseTable(indptr, columns, weights, background, table.scale)
    added = np.zeros((len(table), n), dtype=np.uint64)
    for k, to in enumerate(outputs):
        added[:, to] += table[:, k]  # a row sums to 2^63: no overflow
    return added


@njit(cache=True, nogil=True)
def _merged_rows(
    indptr: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.uint64],
    outputs: NDArray[np.int64],
    n_outputs: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint64]]:
    starts = np.zeros_like(indptr)
    where, again = np.empty_like(columns), np.empty_like(weights)
    total = np.zeros(n_outputs, dtype=np.uint64)
    end = 0
    for i in range(len(indptr) - 1):
        begin = end
        for e in range(indptr[i], indptr[i + 1]):
            to = outputs[columns[e]]
            if total[to] == 0:
                where[end] = to
                end += 1
            total[to] += weights[e]
        where[begin:end] = np.sort(where[begin:end])
        for e in range(begin, end):
            again[e] = total[where[e]]
            total[where[e]] = 0
        starts[i + 1] = end
    return starts, where[:end].copy(), again[:end].copy()


def output_numbers(mechanism: Mechanism, outputs: Sequence[Any]) -> NDArray[np.int64]:
    """Return the numbers of outputs, which are whole numbers already, or the outputs' names."""
    number_of = {name: number for number, name in enumerate(mechanism.outputs.ids(mechanism.records))}
    found = []
    for one in outputs:
        is_number = isinstance(one, (int, np.integer)) and not isinstance(one, bool)
        number = int(one) if is_number else number_of.get(str(one), -1)
        if not 0 <= number < mechanism.outputs.n:
            raise InputError(
                f"{one!r:.40} is not an output of this mechanism: give its name, or its number from 0 to "
                f"{mechanism.outputs.n - 1}"
            )
        found.append(number)
    return np.array(found, dtype=np.int64)


def targets_of(mechanism: Mechanism, into: Mapping[Any, Any]) -> NDArray[np.int64]:
    """Return the output that each output becomes, shape (K,), from a mapping of some to others that stay."""
    gone, to = output_numbers(mechanism, list(into)), output_numbers(mechanism, list(into.values()))
    if len(np.unique(gone)) < len(gone):
        raise InputError("an output is merged into two others: name each output once")
    found = np.arange(mechanism.outputs.n)
    found[gone] = to
    lost = np.flatnonzero(found[to] != to)
    if lost.size:
        raise InputError("an output is merged into one that is itself merged or removed: name one that stays")
    return found


def best_targets(mechanism: Mechanism, outputs: Sequence[Any]) -> NDArray[np.int64]:
    """Return the output that each output becomes if some are removed: the best of those that stay, on average.

    A removed output k becomes ``argmin_l sum_i p_i z_ik c_il``: what costs least given that k was drawn.
    """
    gone = np.unique(output_numbers(mechanism, outputs))
    stays = np.setdiff1d(np.arange(mechanism.outputs.n), gone)
    if not stays.size:
        raise InputError("no output is left: keep at least one")
    if mechanism.losses is None:
        raise InputError(
            "this mechanism has no losses to choose replacements by: say which output each becomes, with merge"
        )
    cost = np.zeros((len(gone), mechanism.outputs.n))
    for rows, columns, block in loss_blocks(mechanism.losses):
        cost[:, columns] += (mechanism.records.prior[rows, None] * mechanism.block(rows, gone)).T @ block
    found = np.arange(mechanism.outputs.n)
    found[gone] = stays[cost[:, stays].argmin(axis=1)]
    return found


def kept_outputs(outputs: Outputs, stays: NDArray[np.int64]) -> Outputs:
    """Return some of the outputs."""
    return Outputs(outputs.coordinates[stays], None if outputs.rows is None else outputs.rows[stays])


def kept_losses(losses: Losses | None, outputs: Outputs, stays: NDArray[np.int64]) -> Losses | None:
    """Return the losses of some outputs; None for kinds that cannot be cut."""
    if isinstance(losses, (DistanceLosses, FunctionLosses)):
        return replace(losses, outputs=outputs)
    if isinstance(losses, TravelLosses):
        return replace(losses, from_outputs=losses.from_outputs[stays])
    if isinstance(losses, GivenLosses):
        return replace(losses, matrix=losses.matrix[:, stays])
    return None


def mean_loss(mechanism: Mechanism) -> float | None:
    """Return the expected loss of a mechanism, rounded up; None if it has no losses."""
    if mechanism.losses is None:
        return None
    each = record_losses(mechanism.table, mechanism.losses)
    # each is a sum of terms of at least 0 in blocks: fewer than 1,000 roundings
    return math.fsum(each * mechanism.records.prior) * (1.0 + 2.0**-42)


def after_merging(mechanism: Mechanism, to: NDArray[np.int64]) -> Mechanism:
    """Return the mechanism whose output k is reported as ``to[k]``, certified again."""
    stays = np.flatnonzero(to == np.arange(len(to)))
    outputs = kept_outputs(mechanism.outputs, stays)
    return mechanism.with_table(
        merged(mechanism.table, np.searchsorted(stays, to), len(stays)),
        solver=f"{mechanism.solver}, merged",
        outputs=outputs,
        losses=kept_losses(mechanism.losses, outputs, stays),
    )
