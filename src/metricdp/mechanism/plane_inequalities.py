"""The exact privacy check of a table over a lattice with any kind of weights, from the inequalities of that kind.

For each inequality (whole numbers a, b, c of a few nodes) and each output z it decides, in whole numbers,

    w (a . z)² + w' (b . z)² <= 2^64 (c . z)²  and  c . z >= 0,

with w and w' as in `metricdp.mechanism.plane_certify`, which does the same for splines in a form of their own that is
faster. A float comparison with a guard wider than its rounding errors clears the easy ones.
"""

from __future__ import annotations

import math
import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from metricdp.data.weights import Splines
from metricdp.mechanism.certify import row_sum_fault
from metricdp.mechanism.plane_certify import (
    PRODUCT_GUARD,
    SUM_GUARD,
    WEIGHT_BITS,
    PlaneCheck,
    are_private,
    as_float,
    check_plane,
    exact_weights,
    first_broken,
    is_nearly_flat,
)

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from metricdp.data.region import Region
    from metricdp.data.weights import Inequalities

ENTRIES_AT_ONCE = 1_000_000


def check_region(table: NDArray[np.uint64], region: Region, epsilon: float) -> PlaneCheck:
    """Check that ``table`` satisfies epsilon-mDP at all points of ``region`` exactly, whatever its weights."""
    if region.weights == Splines.name:
        return check_plane(table, region.shape, epsilon, region.sides)
    return check_inequalities(table, region.lattice.inequalities(region.cells), epsilon, region.sides)


def check_inequalities(
    table: NDArray[np.uint64], inequalities: Inequalities, epsilon: float, sides: tuple[Fraction, Fraction]
) -> PlaneCheck:
    """Check all inequalities of a table of shape (nodes, K); ``sides`` of a cell are at most their true lengths."""
    begin = time.perf_counter()
    fault = row_sum_fault(table)
    weights = exact_weights(epsilon, sides)
    values = table.astype(np.float64)
    n, n_exact, steepest = len(inequalities.nodes), 0, math.inf if fault else 0.0
    block = max(1, ENTRIES_AT_ONCE // (table.shape[1] * inequalities.nodes.shape[1]))
    for start in range(0, 0 if fault else n, block):
        part = slice(start, start + block)
        nodes, factors = inequalities.nodes[part], inequalities.factors[part]
        unsure, ratio = _filter(values, nodes, factors, weights)
        steepest = max(steepest, ratio)
        if fault:  # the rest is only measured
            continue
        unsure = unsure[~is_nearly_flat(table[nodes[unsure[:, 0]], unsure[:, 1, None]], weights)]
        n_exact += len(unsure)
        broken = first_broken(unsure, partial(_holds, table, nodes, factors, weights))
        if broken is not None:
            fault = f"output {broken[1]} changes too fast: inequality {start + broken[0]} of {n} does not hold"
    tightest = epsilon * steepest * (1.0 + 1e-9)
    return PlaneCheck(
        certified=not fault,
        epsilon=epsilon,
        n_nodes=len(table),
        n_outputs=table.shape[1],
        n_coefficients=n,
        tightest_epsilon=tightest if fault else min(tightest, epsilon),
        n_decided_exactly=n_exact,
        seconds=time.perf_counter() - begin,
        fault=fault,
    )


def _filter(
    values: NDArray[np.float64], nodes: NDArray[np.int64], factors: NDArray[np.int64], weights: tuple[int, int]
) -> tuple[NDArray[np.int64], float]:
    """Return which of the inequalities floats cannot clear, as (number, output), and the largest slope / epsilon value.

    At most six terms with factors of at most 8, which are exact as floats, take at most 12 roundings each.
    """
    z = values[nodes]  # (inequalities, nodes, K)
    across, along, u = (np.einsum("cm,cmk->ck", factors[:, part].astype(np.float64), z) for part in range(3))
    room = SUM_GUARD * np.einsum("cm,cmk->ck", np.abs(factors).sum(axis=1).astype(np.float64), z)
    w, v = (as_float(weight) / 2.0**WEIGHT_BITS * (1.0 + 2.0**-50) for weight in weights)
    least = u - room
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        steep = w * (np.abs(across) + room) ** 2 + v * (np.abs(along) + room) ** 2
        is_sure = (steep <= least * least * (1.0 - PRODUCT_GUARD)) & (least > 0) | (room == 0)
        ratio = np.where(room == 0, 0.0, np.where(least > 0, np.sqrt(steep) / least, np.inf))
    return np.argwhere(~is_sure), float(ratio.max(initial=0.0))


def _holds(
    table: NDArray[np.uint64],
    nodes: NDArray[np.int64],
    factors: NDArray[np.int64],
    weights: tuple[int, int],
    pairs: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Decide some of the inequalities (number, output) in whole numbers."""
    c, k = pairs.T
    values, exact = table[nodes[c], k[:, None]].astype(object), factors[c].astype(object)
    across, along, u = ((exact[:, part] * values).sum(axis=1) for part in range(3))
    return are_private(across, along, u, weights)
