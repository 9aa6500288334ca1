"""What a solve would take: method, memory and seconds, from counts, before anything large is made."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.metric.thin import sampled_edges
from metricdp.problem.memory_model import GIGABYTE, PROGRAM_BYTES, Sizes
from metricdp.solve.contract import WholeMethod, solver_for
from metricdp.solve.memory import Counts, shared_bytes
from metricdp.solve.solvers.auto import CHEAP_OPERATIONS, STEP_OPERATIONS
from metricdp.solve.solvers.firstorder import FirstOrder, FirstOrderOptions, stretch_for
from metricdp.solve.solvers.firstorder.room import polish_bytes
from metricdp.solve.solvers.interior.cost import OPERATIONS_PER_SECOND, bytes_of_all, operations_of_all
from metricdp.solve.solvers.local import Local
from metricdp.solve.solvers.local.counts import OTHER_BYTES, expected_steps
from metricdp.solve.solvers.local.method import SECONDS_PER_COMPARISON

if TYPE_CHECKING:
    from metricdp.metric.graph import MdpGraph
    from metricdp.problem.problem import Problem

START_SECONDS = 1.0  # of any solve: libraries, pairs, repair and the exact check of a small table
STEPS_PER_WEIGHTED = 2.5  # steps on whole matrices for one of the weighted steps on windows


@dataclass(frozen=True)
class Prediction:
    """What a solve would take: right within a factor of a few, since the number of steps is not known beforehand.

    Parameters
    ----------
    method
        What ``auto`` would take: ``local``, ``interior`` or ``first-order``.
    n_bytes
        Of memory at the peak, with the program; at most, where steps come first: how many linear programs polish their
        bound, and whether the interior point takes over, is not known beforehand.
    seconds
        On the cores of this machine.
    window, window_share
        How far the windows of the method ``local`` reach around each output, in the metric's unit, and which share of
        all entries of the table they hold; None for other methods.
    """

    method: str
    n_bytes: float
    seconds: float
    window: float | None = None
    window_share: float | None = None

    @property
    def memory(self) -> str:
        """How much memory, in words: at most where steps come first, at least where windows hold everything."""
        is_full = self.window_share is not None and self.window_share >= 1.0
        how = "at least" if is_full else "up to" if self.method == "first-order" else "about"
        return f"{how} {self.n_bytes / GIGABYTE:.2g} GB"


def predict(problem: Problem, *, gap: float = 0.01) -> Prediction:
    """Return what solving ``problem`` within ``gap`` would take."""
    cores = os.cpu_count() or 1
    chosen = solver_for("auto").chosen_for(problem, gap)
    if isinstance(chosen, WholeMethod) and isinstance(chosen, Local):
        counts = chosen.counts(problem, gap)
        check = chosen.seconds_of_check(problem, gap)
        seconds = counts.seconds / cores + check
        reach = chosen.options.reach_for(gap) / problem.epsilon
        n_bytes = PROGRAM_BYTES - OTHER_BYTES + counts.n_bytes
        return Prediction(chosen.name, n_bytes, START_SECONDS + seconds, reach, counts.filled)
    graph, K = problem.graph, problem.n_outputs
    counted = Counts.of(problem, gap=gap, first_order=FirstOrderOptions(), has_costs=False)
    sizes = Sizes(problem.n_records, K, graph.n_pairs)
    ending = SECONDS_PER_COMPARISON * 2.0 * graph.n_pairs * K
    cost = operations_of_all(graph, K, gap)
    factors = bytes_of_all(graph, K) if math.isfinite(cost) else 0.0
    if cost <= CHEAP_OPERATIONS:
        n_bytes = PROGRAM_BYTES + shared_bytes(sizes) + factors
        return Prediction("interior", n_bytes, START_SECONDS + cost / OPERATIONS_PER_SECOND + ending)
    edges = sampled_edges(graph, stretch_for(gap, FirstOrderOptions())) if graph.n_pairs else 0.0
    steps = STEP_OPERATIONS * edges * K * STEPS_PER_WEIGHTED * expected_steps(gap)
    # the interior point takes over when steps have cost as much as it would
    operations = steps if steps <= cost or math.isinf(cost) else 2.0 * cost
    polished = FirstOrder().bytes_beyond(counted.load(sizes)) + _polish_bytes(graph, K)
    n_bytes = PROGRAM_BYTES + shared_bytes(sizes) + max(polished, factors)
    return Prediction("first-order", n_bytes, START_SECONDS + operations / OPERATIONS_PER_SECOND / cores + ending)


def _polish_bytes(graph: MdpGraph, n_outputs: int) -> float:
    """Return the bytes of the linear programs of the component that has most of them."""
    pairs = np.bincount(graph.labels[graph.pairs[:, 0]], minlength=1)
    return max(polish_bytes(float(count), n_outputs, FirstOrderOptions().polish_up_to) for count in pairs)
