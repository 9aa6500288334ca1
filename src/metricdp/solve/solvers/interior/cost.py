"""The cost of the interior point method in operations, known before it begins."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from metricdp.solve.solvers.interior.elimination import Elimination
from metricdp.solve.solvers.interior.factors import N_GROUPS

if TYPE_CHECKING:
    from metricdp.metric.graph import MdpGraph

ITERATIONS_PER_DIGIT = 9.0  # of the gap: 14 to 24 were seen for 1 %, 20 to 56 for 0.01 %; docs/performance.md
SMALLEST_GAP = 1e-8  # that is reckoned with: floats end the iterations near it
ROW_OPERATIONS = 1_500.0  # of an iteration for each pair and output: some sixty passes at the speed of memory; measured
MAX_OPERATIONS = 1e13  # operations: about twenty minutes of one core; beyond, it is refused
N_ROW_VECTORS, N_ENTRY_VECTORS = 20, 12  # of one number for each row, and for each record and output, at one time
OPERATIONS_PER_SECOND = 1e10  # of one core; for messages and time limits


def interior_bytes(n: float, n_outputs: int, n_pairs: float, factor_entries: float) -> float:
    """Return the bytes of a run: inverse factors, matrices of the unit sums, and vectors as long as all rows."""
    vectors = N_ROW_VECTORS * 2.0 * n_pairs * n_outputs + N_ENTRY_VECTORS * n * n_outputs
    return 8.0 * (factor_entries * n_outputs + (N_GROUPS + 2) * n * n + vectors)


def bytes_of_all(graph: MdpGraph, n_outputs: int) -> float:
    """Return the bytes of a run on the largest of the components; 0 if no record has a neighbour."""
    parts = (graph.subgraph(rows) for rows in graph.components if len(rows) > 1)
    return max((interior_bytes(g.n, n_outputs, g.n_pairs, Elimination.of(g).entries) for g in parts), default=0.0)


def expected_iterations(gap: float) -> float:
    """Return how many iterations a gap usually takes: as many for each of its digits."""
    return ITERATIONS_PER_DIGIT * max(1.0, -math.log10(max(gap, SMALLEST_GAP)))


def least_operations(graph: MdpGraph, n_outputs: int, gap: float) -> float:
    """Return the operations that no order of elimination avoids: those of the rows, and of the unit sums' matrix."""
    rows = ROW_OPERATIONS * graph.n_pairs * n_outputs
    return expected_iterations(gap) * (rows + float(graph.n) ** 3 / 3.0)


def total_operations(graph: MdpGraph, n_outputs: int, elimination: Elimination, gap: float) -> float:
    """Return the operations of a whole run in an order of elimination."""
    factors = expected_iterations(gap) * elimination.operations(n_outputs)
    return least_operations(graph, n_outputs, gap) + factors


def interior_operations(graph: MdpGraph, n_outputs: int, gap: float) -> float:
    """Return the operations of a whole run; infinity where it would be refused, or where parts do not meet."""
    if least_operations(graph, n_outputs, gap) > MAX_OPERATIONS or graph.n_components > 1:
        return math.inf
    total = total_operations(graph, n_outputs, Elimination.of(graph), gap)
    return total if total <= MAX_OPERATIONS else math.inf


def operations_of_all(graph: MdpGraph, n_outputs: int, gap: float) -> float:
    """Return the operations of runs on all components; infinity where one would be refused."""
    if least_operations(graph, n_outputs, gap) > MAX_OPERATIONS:
        return math.inf
    parts = (graph.subgraph(rows) for rows in graph.components if len(rows) > 1)
    return sum(interior_operations(part, n_outputs, gap) for part in parts)
