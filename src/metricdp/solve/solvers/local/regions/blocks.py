"""Regions by a partitioner: blocks of records become blocks of outputs, and these become whole groups.

An output that is a record is in the block of this record, another point in that of its nearest record. Outputs are
worked on in groups of 8, and a region owns whole groups: so each block is filled up with the nearest outputs of the
blocks that follow, and only the last one may end within a group.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import cKDTree

from metricdp.metric.simd import WIDTH
from metricdp.metric.space import kd_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.solvers.local.problem import LocalProblem


def divided_by(problem: LocalProblem, block_of: NDArray[np.int64]) -> tuple[LocalProblem, NDArray[np.int64]]:
    """Return the problem with its outputs in the order of blocks of its records, and the group where each begins.

    The last number is that of all groups. Blocks without any outputs, or whose outputs all filled up others, are left
    out.
    """
    points, norm = problem.geometry.output_points, problem.geometry.norm
    parts = _filled_up(points, blocks_of_outputs(problem, block_of), norm)
    cuts = np.concatenate(([0], np.cumsum([-(-len(part) // WIDTH) for part in parts]))).astype(np.int64)
    order = np.concatenate([part[kd_order(points[part])] for part in parts])
    return replace(problem, order=order), cuts


def blocks_of_outputs(problem: LocalProblem, block_of: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the block of each output: that of its record, or of the record nearest to it."""
    rows, geometry = problem.output_rows, problem.geometry
    if rows is None:
        _, rows = cKDTree(geometry.record_points).query(geometry.output_points, p=geometry.norm)
    return block_of[rows]


def _filled_up(points: NDArray[np.float64], blocks: NDArray[np.int64], norm: int) -> list[NDArray[np.int64]]:
    """Return the outputs of each block, whole groups of them in all but the last."""
    rest = np.arange(len(points))
    parts = []
    for block in np.unique(blocks):
        is_own = blocks[rest] == block
        own, others = rest[is_own], rest[~is_own]
        missing = -len(own) % WIDTH
        if len(own) and missing:
            away = np.zeros(0) if not len(others) else cKDTree(points[own]).query(points[others], p=norm)[0]
            taken = np.argsort(away, kind="stable")[:missing]
            own, others = np.sort(np.concatenate((own, others[taken]))), np.delete(others, taken)
        if len(own):
            parts.append(own)
        rest = others
    return parts
