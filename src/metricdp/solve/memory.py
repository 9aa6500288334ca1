"""How much memory each method takes, estimated before it begins, and how much it may take.

Every method has the problem and the pairs (`metricdp.problem.memory_model`): 60 bytes per pair, of which 40 are in use
when it begins. Methods that work on whole matrices have losses, costs, the last repair and the certificate: 88 bytes
per entry (record and output), of which 16 are in use when it begins; where these alone do not fit, the method is
refused before any matrix is made. In addition:

- ``interior``: a *prediction*. The factors' entries are counted in the order of elimination.
- ``first-order``, and ``auto`` until it switches: a *prediction*. Iterations have as many edges as their budget
  allows (`metricdp.solve.solvers.firstorder.room`), so only the number of tiles that are never touched is unknown.
- linear programs (``direct``, ``benders``, ``columns``, ``kernel``): the *least* that they take, and a *cap*. A program
  has a column per entry of its component and, to begin with, the rows that are violated when every record reports its
  cheapest output: two for each pair with different ones. How many more are added cannot be known in advance (1 to 20
  times as many were seen). So a method is refused if even the least does not fit, and a program checks before it grows
  (`metricdp.solve.lp`): if the addition would exceed the limit, or the memory that the machine has left, the method
  ends and the best mechanism so far is certified.

Each method states its own memory (`Solver.bytes_beyond`), from sizes and counts only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.metric.thin import sampled_edges
from metricdp.problem.memory_model import (
    BYTES_PER_ENTRY,
    ENTRIES_CHECKED_FROM,
    RECORDS_CHECKED_FROM,
    Sizes,
    most_bytes,
    refuse_if_too_large,
)
from metricdp.solve.contract import Load, Solver, WholeMethod, methods, solver_for
from metricdp.solve.solvers.columns.pool import NEGLIGIBLE_ENTRY
from metricdp.solve.solvers.firstorder import FirstOrderOptions, stretch_for
from metricdp.solve.solvers.firstorder.room import most_edges
from metricdp.solve.solvers.interior.elimination import Elimination

if TYPE_CHECKING:
    from collections.abc import Callable

    from metricdp.metric.graph import MdpGraph
    from metricdp.problem.problem import Problem

# while solving, and when it begins: with the adjacency, and factors or rates
SOLVING_BYTES_PER_PAIR, HELD_BYTES_PER_PAIR = 60.0, 40.0
HELD_BYTES_PER_ENTRY = 16.0  # losses and costs
MORE_KERNELS_BYTES = 15e6  # compiled code and libraries that are loaded while solving
ENDING_BYTES = 20e6  # reserve: compiled code of the last repair and certificate, and memory freed in small pieces
PAIRS_CHECKED_FROM = 1_000_000  # smaller problems fit anywhere
SAMPLED_KERNELS, SAMPLED_PAIRS = 16, 2_000_000  # kernels that are examined, and pairs up to which they are


@dataclass(frozen=True)
class Counts:
    """Counts of a problem, as shares, so that smaller problems of the same kind can be estimated.

    Parameters
    ----------
    edges
        Of the pairs: those that may take part in first-order iterations.
    records, pairs
        Of all of them: those in the largest component.
    torn
        Of the largest component's pairs: those whose records have different cheapest outputs.
    reach
        Of the largest component's records: those that a kernel reaches.
    filled
        Of the square of the largest component's records: entries of an inverse factor, half of it by default.
    """

    edges: float = 1.0
    records: float = 1.0
    pairs: float = 1.0
    torn: float = 1.0
    reach: float = 1.0
    filled: float = 0.5

    @classmethod
    def of(
        cls,
        problem: Problem,
        *,
        gap: float,
        first_order: FirstOrderOptions,
        has_factors: bool = False,
        has_costs: bool = True,
    ) -> Counts:
        """Count pairs, and paths from a few records; find an order of elimination if ``has_factors``.

        Without costs, which are a whole matrix, any pair may have different cheapest outputs.
        """
        graph = problem.graph
        if graph.n_pairs == 0:
            return cls(edges=0.0, records=1.0 / problem.n_records, pairs=0.0, torn=0.0)
        # first of all, since matrices that are made among temporary arrays keep their memory from being returned
        cheapest = problem.costs.argmin(axis=1) if has_costs else np.arange(problem.n_records)
        first = sampled_edges(graph, stretch_for(gap, first_order))
        edges = most_edges(first, graph.n_pairs, first_order.max_iterations)
        largest = int(np.bincount(graph.labels).argmax())
        is_inside = graph.labels[graph.pairs[:, 0]] == largest
        own = graph.pairs[is_inside]
        torn = np.count_nonzero(cheapest[own[:, 0]] != cheapest[own[:, 1]])
        members = np.flatnonzero(graph.labels == largest)
        return cls(
            edges / graph.n_pairs,
            len(members) / problem.n_records,
            len(own) / graph.n_pairs,
            float(torn) / max(len(own), 1),
            _reach(graph, members, problem.epsilon),
            Elimination.of(graph.subgraph(members)).entries / len(members) ** 2 if has_factors else 0.5,
        )

    def load(self, sizes: Sizes) -> Load:
        """Return the load on solvers for a problem of this kind and of given sizes."""
        n, pairs = self.records * sizes.n_records, self.pairs * sizes.n_pairs
        return Load(
            sizes,
            n,
            pairs,
            edges=self.edges * sizes.n_pairs,
            torn_pairs=self.torn * pairs,
            kernel_entries=self.reach * n * n,
            factor_entries=self.filled * n * n,
        )


def _reach(graph: MdpGraph, members: np.ndarray, epsilon: float) -> float:
    """Return the share of a component's records that a kernel reaches, from a few kernels; 1 if that takes long."""
    if graph.n_pairs > SAMPLED_PAIRS:
        return 1.0
    some = members[np.unique(np.linspace(0, len(members) - 1, SAMPLED_KERNELS).astype(np.int64))]
    limit = -np.log(NEGLIGIBLE_ENTRY) / epsilon
    paths = graph.path_distances(some, limit=limit)
    return float(np.count_nonzero(paths <= limit)) / (len(some) * len(members))


def shared_bytes(sizes: Sizes) -> float:
    """Return the bytes that methods on whole matrices share: the pairs, costs, last repair and certificate."""
    return SOLVING_BYTES_PER_PAIR * sizes.n_pairs + BYTES_PER_ENTRY * sizes.entries


def held_at_begin(sizes: Sizes, *, has_costs: bool = True) -> float:
    """Return those of the shared bytes that are in use before a method begins: of whole matrices, if they were made."""
    return HELD_BYTES_PER_PAIR * sizes.n_pairs + (HELD_BYTES_PER_ENTRY * sizes.entries if has_costs else 0.0)


def method_bytes(solver: Solver, sizes: Sizes, counts: Counts) -> float:
    """Return the bytes of a method, with the problem and without the program itself: at its peak, or at least."""
    return shared_bytes(sizes) + solver.bytes_beyond(counts.load(sizes))


def cap_bytes(problem: Problem) -> float:
    """Return the bytes that this process may hold while solvers run: the last repair needs the rest."""
    sizes = _sizes(problem)
    rest = shared_bytes(sizes) - held_at_begin(sizes)
    return most_bytes(problem.memory_limit) - (ENDING_BYTES + rest)


def check_method_memory(problem: Problem, solver: Solver, *, gap: float) -> None:
    """Refuse a method that would not fit into memory, and say what would; small problems are not checked."""
    n, K, P = problem.n_records, problem.n_outputs, problem.graph.n_pairs
    is_small = n < RECORDS_CHECKED_FROM and n * K < ENTRIES_CHECKED_FROM and P < PAIRS_CHECKED_FROM
    if problem.memory_limit is not None or not is_small:
        expected_peak(problem, solver, gap=gap)


def expected_peak(problem: Problem, solver: Solver, *, gap: float) -> float:
    """Return the bytes that this process will hold at the peak of a method, or at least; refuse what would not fit."""
    options = solver.options if isinstance(solver.options, FirstOrderOptions) else FirstOrderOptions()

    def counts(*, has_costs: bool) -> Counts:
        has_factors = solver.name == "interior" and has_costs
        return Counts.of(problem, gap=gap, first_order=options, has_factors=has_factors, has_costs=has_costs)

    # what all such methods share must fit before costs are made
    _fitting(problem, solver, gap, shared_bytes, lambda: counts(has_costs=False))
    known = counts(has_costs=True)
    return _fitting(problem, solver, gap, lambda one: method_bytes(solver, one, known), lambda: known)


def _fitting(
    problem: Problem, solver: Solver, gap: float, peak: Callable[[Sizes], float], counts: Callable[[], Counts]
) -> float:
    """Return the bytes of this process if the method's ``peak`` fits; if not, raise an error that says what would."""
    graph, sizes = problem.graph, _sizes(problem)
    there = held_at_begin(sizes, has_costs=problem.has_costs)

    def more_bytes(bytes_in_all: float) -> float:
        return MORE_KERNELS_BYTES + max(bytes_in_all - there, 0.0)

    def others(room: float) -> list[str]:
        known = counts()
        rest = [solver_for(name) for name in methods() if name != solver.name]
        dense = [other for other in rest if isinstance(other, Solver)]
        whole = [other for other in rest if isinstance(other, WholeMethod)]
        return [
            *(other.name for other in dense if more_bytes(method_bytes(other, sizes, known)) <= room),
            *(other.name for other in whole if other.bytes_for(problem, gap) <= room),
        ]

    def eta_for(pairs: float) -> float | None:
        return float(np.partition(graph.distances, int(pairs) - 1)[int(pairs) - 1]) if pairs >= 1 else None

    return refuse_if_too_large(
        sizes,
        lambda one: more_bytes(peak(one)),
        eta=problem.eta,
        limit=problem.memory_limit,
        eta_for=eta_for,
        method=solver.name,
        others=others,
    )


def _sizes(problem: Problem) -> Sizes:
    return Sizes(problem.n_records, problem.n_outputs, problem.graph.n_pairs)
