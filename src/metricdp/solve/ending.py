"""The last step of every run: repair the candidates and certify the best one, both in the time that is left.

The certificate is mandatory, and the best mechanism must be complete before it. So the seconds that both take are
estimated at the start and reserved before the solvers' deadline. Work that does not fit into the remaining time is
interrupted or not begun. Reporting one output for all records needs no repair: its rows are equal, which certifies it.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import InputError, SolverError, StoppedError
from metricdp.mechanism.baselines import constant_matrix, exponential_matrix
from metricdp.mechanism.certify import TOTAL, check_privacy
from metricdp.mechanism.mechanism import Mechanism, Optimality, relative_gap, table_loss
from metricdp.mechanism.repair import repair
from metricdp.solve.by_component import CHEAPEST_OUTPUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from metricdp.problem.problem import Problem
    from metricdp.solve.by_component import Found
    from metricdp.solve.merged import Merged
    from metricdp.solve.stop import Stop

REPAIR_TOLERANCE = 0.02  # share of the gap that mixing may cost in large problems
POLISHED_UP_TO = 10_000_000  # pairs times outputs: smaller ones are polished to the end
POLISH_SECONDS = 0.5  # for the repair after a limit or Ctrl-C
PRIVACY_TOLERANCE = 1e-9  # relative: above the rounding of sums and products of probabilities
# share of the loss of always reporting one output: smaller differences are near float precision and do not matter
NEGLIGIBLE_LOSS_SHARE = 1e-7
SAMPLED_PAIRS, SAMPLED_SHARE = 4_096, 0.01  # pairs, or share of all pairs, whose certificate is timed beforehand
SAMPLED_ROWS = 8_192  # records at most in the timed sample
N_TIMINGS = 3  # the shortest one counts
MAX_RESERVE_SHARE = 0.5  # of the time limit: solvers get the rest in any case
# Closing a matrix that is nearly private (once as floats, once as integers) goes over all pairs and outputs two to four
# times, and the certificate once; the skeleton of a dense graph comes on top. Measured: docs/scaling.md.
REPAIR_PER_CHECK = 4.0  # seconds of a repair for each second of the certificate
RAW_REPAIR_RATIO = 4.0  # times as long for a matrix that no solver has repaired: it needs several more passes
SAFETY_FACTOR = 1.5  # on estimated seconds: other programs may be running
ONE_OUTPUT = "one output"
BYTES_OF_SIMPLE = 80.0  # for each entry: losses, costs, the matrix, its repair, whole numbers
ALLOWANCE_SECONDS, ALLOWANCE_SHARE = 1.0, 0.025  # seconds, or share of the limit, by which a last repair may be late


@dataclass(frozen=True)
class Ending:
    """Seconds that the last step will take: repairing a matrix that is nearly private, and the certificate."""

    near: float = 0.0
    check: float = 0.0

    @classmethod
    def estimated(cls, problem: Problem) -> Ending:
        """Time the certificate of some pairs, and extrapolate."""
        graph, K = problem.graph, problem.n_outputs
        if graph.n_pairs == 0:
            return cls()
        wanted = max(SAMPLED_PAIRS, int(SAMPLED_SHARE * graph.n_pairs))
        some = np.arange(0, graph.n_pairs, max(1, graph.n_pairs // wanted))
        n = min(problem.n_records, SAMPLED_ROWS)
        table = np.full((n, K), TOTAL // K, dtype=np.uint64)
        table[:, 0] += np.uint64(TOTAL % K)
        table[::2, 0] += np.uint64(1)  # rows must differ: equal ones are certified faster
        table[::2, -1] -= np.uint64(1)
        pairs, distances = graph.pairs[some] % n, graph.distances[some]
        # the shortest of a few: other programs only make it longer
        seconds = min(check_privacy(table, pairs, distances, problem.epsilon).seconds for _ in range(N_TIMINGS))
        check = seconds * graph.n_pairs / len(some)
        return cls(REPAIR_PER_CHECK * check, check)

    def kept_back(self, time_limit: float) -> float:
        """Return the seconds of ``time_limit`` that are reserved for this step."""
        return min(SAFETY_FACTOR * (self.near + self.check), MAX_RESERVE_SHARE * time_limit)


@dataclass(frozen=True)
class _Candidate:
    """A mechanism to try, which may be costly to make."""

    name: str
    make: Callable[[], NDArray[np.float64]]
    is_near: bool  # private up to rounding, so its repair is fast


def certified(
    problem: Problem, merged: Merged, found: Found, solver: str, *, gap: float, stop: Stop, ending: Ending
) -> Mechanism:
    """Repair what was found and some simple mechanisms, take the best, and certify it; all within the time left."""
    bound = found.lower_bound
    is_large = problem.graph.n_pairs * problem.n_outputs > POLISHED_UP_TO
    name, table = ONE_OUTPUT, _constant_table(problem)
    loss = table_loss(table, problem)
    seconds = 0.0  # of the last repair
    for candidate in _candidates(problem, merged, found, solver):
        needed = ending.check + max(seconds, ending.near * (1.0 if candidate.is_near else RAW_REPAIR_RATIO))
        # a slightly late result is better than one output for all
        late = _allowance(stop.time_limit) if name == ONE_OUTPUT else 0.0
        # after Ctrl-C, there is no time limit for a matrix that a solver has already repaired
        is_sure = candidate.is_near and late > 0.0 and stop.deadline - time.monotonic() > ending.check
        if stop.seconds_to_the_end + late < needed and not is_sure:
            continue
        begin = time.monotonic()
        try:
            other = _repaired(candidate, problem, gap=gap, is_large=is_large, stop=stop, check=ending.check - late)
        except StoppedError:
            continue
        seconds, other_loss = time.monotonic() - begin, table_loss(other, problem)
        if other_loss < loss or (other_loss == loss and candidate.name == solver):
            table, loss, name = other, other_loss, candidate.name
        if is_large and relative_gap(loss, bound) <= gap:
            break
    return Mechanism.of(problem, table, optimality=proved(loss, bound, problem), solver=name)


def has_room_for_matrices(problem: Problem, stop: Stop) -> bool:
    """Return whether there is memory for a simple mechanism as a whole matrix, in place of one output for all."""
    return stop.has_room(BYTES_OF_SIMPLE * problem.n_records * problem.n_outputs)


def _allowance(time_limit: float) -> float:
    return max(ALLOWANCE_SECONDS, ALLOWANCE_SHARE * time_limit) if math.isfinite(time_limit) else ALLOWANCE_SECONDS


def _candidates(problem: Problem, merged: Merged, found: Found, solver: str) -> Iterator[_Candidate]:
    """Yield the solver's matrix, then simple ones, which are the best at very weak and very strong privacy."""
    if found.Z.any():
        yield _Candidate(solver, partial(np.take, found.Z, merged.group, axis=0), found.is_private)
    if found.unfinished.any():
        cut_off = found.unfinished[merged.group][:, None]

        def mixed() -> NDArray[np.float64]:
            return np.where(cut_off, _simple_matrix(problem), found.Z[merged.group])

        yield _Candidate(
            f"{solver}, cut off; exponential mechanism where unfinished", mixed, is_near=bool(found.unfinished.all())
        )

    def cheapest() -> NDArray[np.float64]:
        return _cheapest_matrix(merged, problem.epsilon)[merged.group]

    yield _Candidate(CHEAPEST_OUTPUT, cheapest, is_near=False)


def _repaired(
    candidate: _Candidate, problem: Problem, *, gap: float, is_large: bool, stop: Stop, check: float
) -> NDArray[np.uint64]:
    """Repair a candidate; StoppedError is raised when less than ``check`` seconds are left."""
    until = time.monotonic() + POLISH_SECONDS

    def is_due() -> bool:
        return stop.is_due and time.monotonic() > until

    def is_over() -> bool:
        left = stop.deadline - time.monotonic() if candidate.is_near else stop.seconds_to_the_end
        return left < check

    return repair(
        candidate.make(),
        problem.graph,
        problem.epsilon,
        costs=problem.costs,
        tolerance=REPAIR_TOLERANCE * gap if is_large else 0.0,
        is_near=candidate.is_near and is_large,
        is_due=is_due,
        is_over=is_over,
    )


def proved(loss: float, bound: float, problem: Problem) -> Optimality:
    """Return loss and lower bound as a statement of optimality; raise an error if they contradict each other."""
    if not bound <= loss * (1.0 + PRIVACY_TOLERANCE) + NEGLIGIBLE_LOSS_SHARE * constant_loss(problem):
        raise SolverError(
            f"the lower bound {bound:g} is above the loss {loss:g} of a certified mechanism: a fault of this program, "
            "please report it with the problem"
        )
    return Optimality(loss, min(bound, loss))


def _constant_table(problem: Problem) -> NDArray[np.uint64]:
    """Return the table of the one best output for all: whole numbers that need no repair."""
    return constant_matrix(problem).astype(np.uint64) * np.uint64(TOTAL)


def _cheapest_matrix(merged: Merged, epsilon: float) -> NDArray[np.float64]:
    """Return each record's cheapest output; records with prior 0 follow their neighbours."""
    Z = np.zeros(merged.costs.shape)
    cares = np.flatnonzero(np.ptp(merged.costs, axis=1) > 0)
    Z[cares, merged.costs[cares].argmin(axis=1)] = 1.0
    rest = np.setdiff1d(np.arange(len(Z)), cares)
    if len(rest):
        Z[rest] = merged.graph.closure(Z, epsilon)[rest]
    return Z


def _simple_matrix(problem: Problem) -> NDArray[np.float64]:
    try:
        return exponential_matrix(problem)
    except InputError:  # the metric cannot measure to these outputs
        return constant_matrix(problem)


def constant_loss(problem: Problem) -> float:
    """Return the loss of the best constant mechanism, which reports one output for all records."""
    return max(float(problem.costs.sum(axis=0).min()), float(problem.costs.mean()))


def is_reached(loss: float, lower_bound: float, problem: Problem, gap: float) -> bool:
    """Return whether the gap is closed, or negligible against the loss of the constant mechanism."""
    return relative_gap(loss, lower_bound) <= gap or loss - lower_bound <= NEGLIGIBLE_LOSS_SHARE * constant_loss(
        problem
    )


def reached_by(mechanism: Mechanism) -> Optimality:
    """Return the proven optimality of a mechanism; the trivial bound 0 if there is no proof."""
    return mechanism.optimality or Optimality(math.inf, 0.0)
