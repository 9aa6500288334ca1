"""Cuts, each with the mDP rows it is made of.

Every cut here is a sum of true mDP rows with non-negative multipliers y (a `RowDuals`), so it is valid whatever y is,
and a dual of the master translates into a dual of the whole problem: the master's lower bound is then evaluated by the
one rigorous formula of `bounds.py`, and no tolerance of the solver can break it.

**Optimality cut** (the paper's Section 3.2, case C2, for any dual). For rows that touch the internal records X_l,

    w_l >= sum_{i in X_l} min_k (c + A'y)_ik + sum over boundary entries of (A'y)_bk z_bk,

since adding ``y_r (z_tail - g_r z_head) <= 0`` to the loss of X_l only lowers it, and unit sums bound the rest.
**Feasibility cut** (case C1): the same with zero losses and without w_l.
**Unit-sum cuts**: ``sum_k max_b exp(-epsilon D_ib) z_bk <= 1 <= sum_k min_b exp(epsilon D_ib) z_bk`` for an internal
record i, with the maximisers of the current point in their places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.errors import InputError
from metricdp.solve.answers import array_of
from metricdp.solve.bounds import LARGEST_EXPONENT, RowDuals, growth_rounded_up

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from metricdp.solve.solvers.benders.blocks import Block, Bounds

WEIGHTS = {"halo": 1.0, "optimality": 1.0, "feasibility": 0.0, "unit sum": 0.0}  # of w_l, by the kind of cut
LARGEST_MULTIPLIER = 1e200  # its product with exp(64) is still finite


@dataclass(frozen=True)
class Cut:
    """``weight * w_block >= constant + sum coefficients * z[records, outputs]``, and the rows that prove it.

    ``weight`` is 1 for optimality cuts and 0 for the others.
    """

    kind: str
    block: int
    weight: float
    constant: float
    records: NDArray[np.int64]
    outputs: NDArray[np.int64]
    coefficients: NDArray[np.float64]
    duals: RowDuals

    def value(self, Z: NDArray[np.float64]) -> float:
        """Return the right-hand side at a matrix of all records."""
        return self.constant + float(self.coefficients @ Z[self.records, self.outputs])


def cut_from_rows(kind: str, block: Block, rows: Mapping[str, Any]) -> Cut:
    """Return the cut from multipliers of a worker or a file, which are not trusted.

    ``rows`` are arrays ``tail``, ``head``, ``output`` and ``y``, records of the component. Only rows of the block
    count, each with the exponent that is known here, and no multiplier is negative. So the cut is valid, whatever
    the multipliers are.
    """
    if kind not in WEIGHTS:
        raise InputError(f"unknown kind of cut {kind!r:.50}: known are {', '.join(WEIGHTS)}")
    tail = array_of(rows, "tail", np.int64, (None,), low=0)
    head = array_of(rows, "head", np.int64, tail.shape, low=0)
    output = array_of(rows, "output", np.int64, tail.shape, low=0, high=block.costs.shape[1] - 1)
    y = array_of(rows, "y", np.float64, tail.shape, low=-LARGEST_MULTIPLIER, high=LARGEST_MULTIPLIER)
    exponent = block.exponents_between(tail, head)
    if not (exponent <= LARGEST_EXPONENT).all():
        raise InputError(f"block {block.number} has no such rows: solve it again")
    return cut_from_duals(kind, block, RowDuals(tail, head, output, exponent, np.maximum(y, 0.0)))


def cut_from_duals(kind: str, block: Block, duals: RowDuals) -> Cut:
    """Make the cut of a block from multipliers of rows that touch its internal records (records of the component)."""
    weight = WEIGHTS[kind]
    costs = weight * block.costs
    K = costs.shape[1]
    largest = max(block.internal.max(), duals.tail.max(initial=0), duals.head.max(initial=0))
    position_of = np.full(int(largest) + 1, -1)
    position_of[block.internal] = np.arange(len(block.internal))
    reduced = costs
    given = growth_rounded_up(duals.exponent) * duals.y
    outer_records, outer_outputs, outer_amounts = [], [], []
    for record, amount in ((duals.tail, duals.y), (duals.head, -given)):
        inside = position_of[record]
        own = inside >= 0
        np.add.at(reduced, (inside[own], duals.output[own]), amount[own])
        outer_records.append(record[~own])
        outer_outputs.append(duals.output[~own])
        outer_amounts.append(amount[~own])
    records, outputs = np.concatenate(outer_records), np.concatenate(outer_outputs)
    keys, inverse = np.unique(records * K + outputs, return_inverse=True)
    amounts = np.concatenate(outer_amounts)
    coefficients = np.bincount(inverse, weights=amounts, minlength=len(keys)).astype(np.float64)
    return Cut(kind, block.number, weight, float(reduced.min(axis=1).sum()), keys // K, keys % K, coefficients, duals)


def bound_duals(block: Block, bounds: Bounds, reduced: NDArray[np.float64]) -> RowDuals:
    """Return the multipliers of the boundary's rows that cancel the reduced costs of entries at their bounds.

    A positive reduced cost rests on the lower bound ``z_b <= exp(s) z_i``, a negative one on ``z_i <= exp(s) z_b``.
    """
    i, k = np.nonzero((reduced > 0) & (bounds.from_below >= 0) & (bounds.lower > 0))
    below = bounds.from_below[i, k]
    s_below = block.exponents[i, below]
    y_below = reduced[i, k] * np.exp(-s_below)
    keep = y_below > 0
    i2, k2 = np.nonzero((reduced < 0) & (bounds.from_above >= 0))
    above = bounds.from_above[i2, k2]
    return RowDuals(
        tail=np.concatenate((block.attached[below[keep]], block.internal[i2])),
        head=np.concatenate((block.internal[i[keep]], block.attached[above])),
        output=np.concatenate((k[keep], k2)),
        exponent=np.concatenate((s_below[keep], block.exponents[i2, above])),
        y=np.concatenate((y_below[keep], -reduced[i2, k2])),
    )


def unit_sum_cuts(block: Block, bounds: Bounds, tolerance: float) -> list[Cut]:
    """Return the cuts for internal records whose bounds leave no room for a row that sums to 1."""
    cuts = []
    for i in np.flatnonzero(bounds.lower.sum(axis=1) > 1.0 + tolerance):
        reduced = np.zeros(block.costs.shape)
        reduced[i] = 1.0
        cuts.append(cut_from_duals("unit sum", block, bound_duals(block, bounds, reduced)))
    for i in np.flatnonzero((bounds.upper.sum(axis=1) < 1.0 - tolerance) & (bounds.from_above >= 0).all(axis=1)):
        reduced = np.zeros(block.costs.shape)
        reduced[i] = -1.0
        cuts.append(cut_from_duals("unit sum", block, bound_duals(block, bounds, reduced)))
    return cuts
