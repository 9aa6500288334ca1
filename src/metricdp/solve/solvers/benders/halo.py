"""Halo cuts: solve a block together with its surroundings once, with everything free, and keep the duals that touch it.

The surroundings are the attached boundary records and their neighbours. Away from the rim such a dual is nearly that of
the whole problem, so the first lower bound is nearly the optimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.solve.solvers.benders.cuts import Cut, cut_from_rows
from metricdp.solve.solvers.benders.options import SMALLEST_FLOOR
from metricdp.solve.solvers.direct import DirectOptions, solve_lp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.component import Component
    from metricdp.solve.solvers.benders.blocks import Block
    from metricdp.solve.solvers.benders.options import BendersOptions
    from metricdp.solve.stop import Stop


@dataclass(frozen=True)
class Halo:
    """The cut of a block, and the rows of its surroundings if they were a problem of their own."""

    cut: Cut
    members: NDArray[np.int64]
    Z: NDArray[np.float64]


def solve_halo(component: Component, block: Block, options: BendersOptions, stop: Stop) -> Halo:
    """Solve the linear program of a block and its surroundings."""
    graph = component.graph
    matrix = graph.adjacency
    rim = [matrix.indices[matrix.indptr[b] : matrix.indptr[b + 1]] for b in block.attached]
    members = np.unique(np.concatenate((block.internal, block.attached, *rim)).astype(np.int64))
    found = solve_lp(
        component.costs[members],
        graph.subgraph(members),
        component.epsilon,
        options=DirectOptions(floor=options.floor or SMALLEST_FLOOR, tolerance=options.tolerance),
        stop=stop,
    )
    duals = found.duals
    is_internal = np.isin(members, block.internal)
    touching = is_internal[duals.tail] | is_internal[duals.head]
    rows = {
        "tail": members[duals.tail[touching]],
        "head": members[duals.head[touching]],
        "output": duals.output[touching],
        "y": duals.y[touching],
    }
    return Halo(cut_from_rows("halo", block, rows), members, found.Z)


def combined(halos: list[Halo], blocks: list[Block], n: int) -> NDArray[np.float64]:
    """Combine the surroundings' rows: each internal record from its own block, boundary records averaged."""
    K = halos[0].Z.shape[1]
    total, count = np.zeros((n, K)), np.zeros(n)
    for halo, block in zip(halos, blocks, strict=True):
        # rows at the rim ignore what is beyond it: only rows in or next to the block are used
        used = np.isin(halo.members, np.concatenate((block.internal, block.attached)))
        total[halo.members[used]] += halo.Z[used]
        count[halo.members[used]] += 1
    return total / np.maximum(count, 1)[:, None]
