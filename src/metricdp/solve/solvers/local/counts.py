"""What a windowed solve would take, counted before anything large is allocated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.metric.simd import WIDTH
from metricdp.metric.thin import sampled_edges
from metricdp.solve.solvers.local.geometry import near_groups
from metricdp.solve.solvers.local.options import SMALLEST_GAP, LocalOptions
from metricdp.solve.solvers.local.problem import nodes_within
from metricdp.solve.solvers.local.windows import distance_blocks, radius_for

if TYPE_CHECKING:
    from metricdp.solve.solvers.local.problem import LocalProblem, Nodes

SAMPLED_NODES = 256
# rows, anchors, the reflected point, reduced costs, costs and weights of the steps, float32; their scratch
STEP_BYTES_PER_ENTRY = 7 * 4.0
BYTES_PER_MULTIPLIER = 2 * 4.0 + 8.0 / WIDTH  # with its anchor; positions and number of the edge
# columns in float64 and their temporary sums; then weights and outputs of the table, and a frozen copy of both
TABLE_BYTES_PER_ENTRY = 8.0 + 2 * 12.0
BYTES_PER_PAIR = 60.0
OTHER_BYTES = 150e6  # libraries and compiled code
# The background of an output, times exp of the reach: 0.05 (3,000 records) to 0.14 (a whole city) where it was looked
# at; and the share of the gap that the background of all outputs may cost.
BACKGROUND_FACTOR, BACKGROUND_SHARE = 0.15, 0.05
USUAL_LOSS = 1.6  # epsilon times the optimal loss in the plane
REACHES = (12.0, 24.0)
USUAL_GAP, USUAL_STEPS = 0.03, 300.0  # the gap that so many steps usually reach
FALL = 0.8  # the power of the steps with which the gap falls


@dataclass(frozen=True)
class LocalCounts:
    """Sizes of a windowed solve.

    Parameters
    ----------
    entries, multipliers
        Of the steps.
    table_entries
        Of the table, at most: entries on the large windows.
    full_entries
        Records times outputs.
    seconds_per_step
        Processor seconds, from the multipliers.
    n_bytes
        At the peak.
    """

    entries: float
    multipliers: float
    table_entries: float
    full_entries: float
    seconds_per_step: float
    n_bytes: float

    @property
    def filled(self) -> float:
        """Share of all entries that the table may hold."""
        return self.table_entries / self.full_entries


SECONDS_PER_MULTIPLIER = 2.1e-9  # measured: 1.7 (in the cache) to 2.4


def local_counts(problem: LocalProblem, *, gap: float, options: LocalOptions | None = None) -> LocalCounts:
    """Return what a windowed solve would take, from the windows of a sample of nodes."""
    options = LocalOptions() if options is None else options
    nodes = nodes_within(problem, 0.0)
    table_reach = table_reach_for(problem, gap, options)
    slots, table_slots = (_slots(nodes, reach) for reach in (options.reach_for(gap), table_reach))
    multipliers = slots * sampled_edges(nodes.graph, options.stretch_for(gap)) / nodes.n * WIDTH
    entries, table_entries = slots * WIDTH, table_slots * WIDTH
    n_bytes = (
        OTHER_BYTES
        + BYTES_PER_PAIR * problem.graph.n_pairs
        + STEP_BYTES_PER_ENTRY * entries
        + BYTES_PER_MULTIPLIER * multipliers
        + TABLE_BYTES_PER_ENTRY * table_entries
    )
    full = float(problem.n_records) * problem.n_outputs
    return LocalCounts(entries, multipliers, table_entries, full, SECONDS_PER_MULTIPLIER * multipliers, n_bytes)


def expected_steps(gap: float) -> float:
    """Return how many steps a gap usually takes: it falls like a power of them."""
    return USUAL_STEPS * (USUAL_GAP / max(gap, SMALLEST_GAP)) ** (1.0 / FALL)


def _slots(nodes: Nodes, reach: float) -> float:
    """Return about how many slots the windows of a reach have, from every few nodes."""
    problem = nodes.problem
    some = np.arange(0, nodes.n, max(1, nodes.n // SAMPLED_NODES))
    radius = radius_for(nodes, reach)[some]
    geometry = problem.geometry
    if geometry.kind is None:
        found = 0
        for _, block in distance_blocks(problem):
            near = block[nodes.first[some]].reshape(len(some), -1, WIDTH).min(axis=2) <= radius[:, None]
            found += int(near.sum())
    else:
        points = np.ascontiguousarray(geometry.record_points[nodes.first[some]])
        outputs = np.ascontiguousarray(geometry.output_points[problem.output_order])
        found = int(near_groups(points, geometry.reach(radius), outputs, geometry.kind)[0][-1])
    return found * nodes.n / len(some)


def table_reach_for(problem: LocalProblem, gap: float, options: LocalOptions) -> float:
    """Return how far the table's windows reach, in units of 1 / epsilon.

    The background of each output falls like exp(-reach) and costs about the distance across all records, so the
    logarithms of that, of the number of outputs and of the gap decide.
    """
    if options.table_reach is not None:
        return options.table_reach
    points = problem.geometry.record_points
    across = problem.epsilon * float(np.abs(points - points.mean(axis=0)).max(axis=1).mean())
    total = BACKGROUND_FACTOR * problem.n_outputs * max(across, 1.0) / USUAL_LOSS
    wanted = math.log(total / (BACKGROUND_SHARE * max(gap, 1e-4)))
    return min(max(wanted, REACHES[0]), REACHES[1])
