"""What a windowed solve would take, counted before anything large is allocated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.metric.simd import WIDTH
from metricdp.metric.thin import sampled_edges
from metricdp.problem.memory_model import GIGABYTE, PROGRAM_BYTES
from metricdp.solve.forecast import in_words
from metricdp.solve.solvers.local.geometry import near_groups
from metricdp.solve.solvers.local.options import SMALLEST_GAP, LocalOptions
from metricdp.solve.solvers.local.problem import nodes_within
from metricdp.solve.solvers.local.windows import distance_blocks, radius_for

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.solvers.local.problem import LocalProblem, Nodes

SAMPLED_NODES = 256
# rows, anchors, the reflected point, reduced costs, costs and weights of the steps, float32; their scratch
STEP_BYTES_PER_ENTRY = 7 * 4.0
BYTES_PER_MULTIPLIER = 2 * 4.0 + 8.0 / WIDTH  # with its anchor; positions and number of the edge
# Per entry of the table's windows, at the second look: columns in float64 and their temporary sums (14), weights and
# outputs of the table by nodes and by records (24), the best table so far (12), order and distance to the rim (2).
TABLE_BYTES_PER_ENTRY = 52.0
BYTES_PER_PAIR = 60.0
OTHER_BYTES = 45e6  # compiled code, in a process that has not solved on windows before
# The background of an output, times exp of the reach: 0.05 (3,000 records) to 0.14 (a whole city) where it was looked
# at; and the share of the gap that the background of all outputs may cost.
BACKGROUND_FACTOR, BACKGROUND_SHARE = 0.15, 0.05
MOST_BACKGROUND = 4.0  # times that share: a fifth of the gap
USUAL_LOSS = 1.6  # epsilon times the optimal loss in the plane
REACHES = (12.0, 24.0)
USUAL_GAP, USUAL_STEPS = 0.03, 300.0  # the gap that so many steps usually reach
FALL = 0.8  # the power of the steps with which the gap falls
MOST_UNEVEN = 30.0  # the likeliest record against the least likely: beyond, steps are slow
UNEVEN_STEPS = 4.0  # times as many, between what was seen: to 2 %, 500 words took 498 (epsilon 2) and 3,156 (epsilon 1)
REPAIR_SECONDS = 1.2e-7  # for each slot of the table's windows and neighbour: 20 rounds of 6 nanoseconds
USUAL_LOOKS = 2.0
SECOND_LOOK = 2.0  # times the usual steps, if the first look is not enough: 882 to 1,307 in Rome, not 498
FULL = 0.9  # of all entries: windows that hold more leave next to nothing out
TENS = 10.0  # percent, from which no more digits are shown
COSTS_LESS = "fewer outputs, a larger epsilon or a larger gap cost less"


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
    steps
        That the gap usually takes.
    seconds_of_looks
        Processor seconds of repairs.
    n_bytes
        At the peak.
    """

    entries: float
    multipliers: float
    table_entries: float
    full_entries: float
    seconds_per_step: float
    steps: float
    seconds_of_looks: float
    n_bytes: float

    @property
    def seconds(self) -> float:
        """Processor seconds of the whole solve, roughly: 0.64 to 1.05 times those measured in Rome."""
        return SECOND_LOOK * self.seconds_per_step * self.steps + self.seconds_of_looks

    @property
    def is_full(self) -> bool:
        """Whether windows hold nearly all entries, as at strong privacy: there is nothing to save."""
        return self.entries >= FULL * self.full_entries

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
    slots, table_slots = (
        slots_within(nodes, radius_for(nodes, reach)) for reach in (options.reach_for(gap), table_reach)
    )
    multipliers = slots * sampled_edges(nodes.graph, options.stretch_for(gap)) / nodes.n * WIDTH
    entries, table_entries = slots * WIDTH, table_slots * WIDTH
    n_bytes = (
        OTHER_BYTES
        + BYTES_PER_PAIR * problem.graph.n_pairs
        + STEP_BYTES_PER_ENTRY * entries
        + BYTES_PER_MULTIPLIER * multipliers
        + TABLE_BYTES_PER_ENTRY * table_entries
    )
    neighbours = 2.0 * nodes.graph.n_pairs / nodes.n + 1.0
    is_uneven = problem.prior.min() * MOST_UNEVEN < problem.prior.max()
    return LocalCounts(
        entries=entries,
        multipliers=multipliers,
        table_entries=table_entries,
        full_entries=float(problem.n_records) * problem.n_outputs,
        seconds_per_step=SECONDS_PER_MULTIPLIER * multipliers,
        steps=(UNEVEN_STEPS if is_uneven else 1.0) * expected_steps(gap),
        seconds_of_looks=USUAL_LOOKS * REPAIR_SECONDS * table_slots * neighbours,
        n_bytes=n_bytes,
    )


def prediction(counts: LocalCounts, n: int, K: int, gap: float) -> str:
    """Return one sentence: how much the windows hold, and what the solve will cost."""
    cost = f"a gap of {100 * gap:.2g} % takes about {in_words(counts.seconds)} of one core"
    n_bytes = PROGRAM_BYTES - OTHER_BYTES + counts.n_bytes
    sentence = f"{what_is_held(counts, n, K)}: {cost} and {n_bytes / GIGABYTE:.1f} GB"
    return f"{sentence}; {COSTS_LESS}" if counts.is_full else sentence


def what_is_held(counts: LocalCounts, n: int, K: int) -> str:
    """Return how much the windows hold, and what it means if that is nearly everything."""
    share = 100.0 * min(counts.entries / counts.full_entries, 1.0)
    held = f"windows hold {share:.{0 if share >= TENS else 1}f} % of {n:,} x {K:,} entries"
    return f"{held}, so hardly anything can be left out at this epsilon" if counts.is_full else held


def expected_steps(gap: float) -> float:
    """Return how many steps a gap usually takes: it falls like a power of them."""
    return USUAL_STEPS * (USUAL_GAP / max(gap, SMALLEST_GAP)) ** (1.0 / FALL)


def slots_within(nodes: Nodes, radius: NDArray[np.float64], among: NDArray[np.int64] | None = None) -> float:
    """Return about how many slots the windows of all nodes have, or those of some nodes, from every few of them."""
    problem = nodes.problem
    all_of_them = np.arange(nodes.n) if among is None else among
    some = all_of_them[:: max(1, len(all_of_them) // SAMPLED_NODES)]
    reach = radius[some]
    geometry = problem.geometry
    if geometry.kind is None:
        found = 0
        for _, block in distance_blocks(problem, nodes.first[some]):
            near = block.reshape(len(some), -1, WIDTH).min(axis=2) <= reach[:, None]
            found += int(near.sum())
    else:
        points = np.ascontiguousarray(geometry.record_points[nodes.first[some]])
        outputs = np.ascontiguousarray(geometry.output_points[problem.output_order])
        found = int(near_groups(points, geometry.reach(reach), outputs, geometry.kind)[0][-1])
    return found * len(all_of_them) / max(len(some), 1)


def table_reach_for(problem: LocalProblem, gap: float, options: LocalOptions) -> float:
    """Return how far the table's windows reach, in units of 1 / epsilon.

    The background of each output falls like exp(-reach), so the logarithms of the number of outputs and of what the
    background may hold decide.
    """
    if options.table_reach is not None:
        return options.table_reach
    wanted = math.log(BACKGROUND_FACTOR * problem.n_outputs / background_for(problem, gap))
    return min(max(wanted, REACHES[0]), REACHES[1])


def background_for(problem: LocalProblem, gap: float) -> float:
    """Return what a row's background may hold: it costs about the distance across all records."""
    points = problem.geometry.record_points
    across = problem.epsilon * float(np.abs(points - points.mean(axis=0)).max(axis=1).mean())
    return BACKGROUND_SHARE * max(gap, SMALLEST_GAP) * USUAL_LOSS / max(across, 1.0)


def reach_beyond(problem: LocalProblem, gap: float, options: LocalOptions, background: float) -> float:
    """Return how much farther the table's windows must reach where the background holds too much, or 0.

    The usual reach is for rows that fall like exp(-epsilon d). With uneven priors those of unlikely records follow what
    likely ones report, and more of them reaches the rim.
    """
    ratio = background / background_for(problem, gap)
    return math.log(ratio) if options.table_reach is None and ratio > MOST_BACKGROUND else 0.0
