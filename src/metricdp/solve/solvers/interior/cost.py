"""What the interior point method costs, in operations, known before it begins."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from metricdp.solve.solvers.interior.elimination import Elimination
from metricdp.solve.solvers.interior.factors import GROUPS

if TYPE_CHECKING:
    from metricdp.solve.component import Component

ITERATIONS = 40  # 7 to 60 were seen; docs/performance.md
ROW_OPERATIONS = 300.0  # of an iteration for each pair and output: some twenty products with both of its rows
LARGEST = 1e13  # operations: about twenty minutes of one core; beyond, it is refused
VECTORS, ENTRY_VECTORS = 20, 12  # of one number for each row, and for each record and output, at one time
OPERATIONS_PER_SECOND = 1e10  # of one core; for messages only


def interior_bytes(n: float, n_outputs: int, n_pairs: float, factor_entries: float) -> float:
    """Return the bytes of a run: inverse factors, matrices of the unit sums, and vectors as long as all rows."""
    vectors = VECTORS * 2.0 * n_pairs * n_outputs + ENTRY_VECTORS * n * n_outputs
    return 8.0 * (factor_entries * n_outputs + (GROUPS + 2) * n * n + vectors)


def least_operations(component: Component) -> float:
    """Return the operations that no order of elimination avoids: those of the rows, and of the unit sums' matrix."""
    rows = ROW_OPERATIONS * component.graph.n_pairs * component.n_outputs
    return ITERATIONS * (rows + float(component.n) ** 3 / 3.0)


def total_operations(component: Component, elimination: Elimination) -> float:
    """Return the operations of a whole run in an order of elimination."""
    return least_operations(component) + ITERATIONS * elimination.operations(component.n_outputs)


def interior_operations(component: Component) -> float:
    """Return the operations of a whole run; infinity where it would be refused, or where parts do not meet."""
    if least_operations(component) > LARGEST or component.graph.n_components > 1:
        return math.inf
    total = total_operations(component, Elimination.of(component.graph))
    return total if total <= LARGEST else math.inf
