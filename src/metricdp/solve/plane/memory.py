"""How much memory a region takes, counted before anything large is made, and which windows fit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from metricdp.errors import InputError
from metricdp.metric.simd import WIDTH
from metricdp.problem.memory_model import GIGABYTE, KERNELS_BYTES, held_bytes, most_bytes

if TYPE_CHECKING:
    from metricdp.problem.plane import PlaneProblem

# per entry (node and output): costs, distances and their weights while steps are set up; then costs, the best table,
# and in the repair a matrix, its columns, whole numbers, what rounds them, and the copies of the exact check
BYTES_PER_ENTRY = 88.0
# per entry of the windows: seven arrays of rows, and for four cones each three multipliers, their anchors and a step
BYTES_PER_STEP = 4.0 * (7 + 4 * 7)
BYTES_PER_PLACE = 24.0  # and output: losses, and the product with the prior
REACHES = (math.inf, 16.0, 12.0, 9.0)  # of windows, in units of epsilon d: the widest that fit are taken


def filled(problem: PlaneProblem, reach: float) -> float:
    """Return the share of all entries that windows of this reach hold at most: squares around each output."""
    if not math.isfinite(reach):
        return 1.0
    widths = [float(side) * n for side, n in zip(problem.region.sides, problem.region.cells, strict=True)]
    # a window also reaches as far as the node that is farthest from all outputs; that is small beside the reach
    beside = math.sqrt(WIDTH * widths[0] * widths[1] / problem.n_outputs)  # the outputs of a group are side by side
    ways = [min(1.0, (2.0 * reach / problem.epsilon + beside) / width) for width in widths]
    return ways[0] * ways[1]


def bytes_needed(problem: PlaneProblem, reach: float) -> float:
    """Return the bytes of a solve with windows of this reach, beyond what the process holds."""
    entries = float(problem.n_nodes) * problem.n_outputs
    places = BYTES_PER_PLACE * float(problem.places.n) * problem.n_outputs
    return KERNELS_BYTES + places + entries * (BYTES_PER_ENTRY + BYTES_PER_STEP * filled(problem, reach))


def reach_within(problem: PlaneProblem, limit: float | None) -> float:
    """Return the reach of the widest windows that fit into ``limit`` gigabytes, by default into what is available."""
    if limit is not None and not limit > 0:
        raise InputError(f"memory_limit must be positive, got {limit}: give gigabytes such as 4")
    room = most_bytes(limit) - held_bytes()
    for reach in REACHES:
        if bytes_needed(problem, reach) <= room:
            return reach
    raise InputError(
        f"the region's table of {problem.n_nodes:,} nodes and {problem.n_outputs:,} outputs would need about "
        f"{bytes_needed(problem, REACHES[-1]) / GIGABYTE:.1f} GB, more than the {max(room, 0.0) / GIGABYTE:.1f} GB "
        "that are left: use a coarser lattice, fewer outputs or a smaller region, or raise memory_limit"
    )
