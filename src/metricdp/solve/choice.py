"""Which method `auto` takes for a component: from its size, density and privacy, and from the gap.

The numbers come from ``python -m benchmarks auto`` on four datasets with up to 1,000 records; docs/benchmarks.md has
the comparison, docs/performance.md what was measured for single rules.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse.csgraph import breadth_first_order

from metricdp.solve.solvers.columns.options import ColumnOptions
from metricdp.solve.solvers.columns.patches import patch_members
from metricdp.solve.solvers.columns.tight import guessed_gap

if TYPE_CHECKING:
    from metricdp.solve.components import Component

SMALL, RATHER_SMALL = 5_000, 7_000  # records times outputs
RATHER_SPARSE, SPARSE, VERY_SPARSE = 12.0, 8.0, 5.0  # pairs per record
WEAK = 3.5  # median epsilon d: above it few mDP rows bind
VERY_WEAK, VERY_WEAK_IF_CROWDED = 6.0, 5.0  # so few that a linear program with lazy rows is as good as any other way
MEDIUM, LARGE = 35_000, 100_000  # records times outputs: too many for column generation to be fast, and at all
LARGEST_LP = 50_000  # records times outputs: too many for one linear program with lazy rows
ROUGH = 3e-3  # gaps from it on are for first-order iterations also at weak privacy
FINE = 5e-4  # gaps down to it are for first-order iterations; below, they may hand over to column generation
TIGHT = 1e-5  # gaps below it are for a simplex method: column generation has a long tail
FEW, OWN = 300, 0.95  # records, and different cheapest outputs for each of them: kernels alone may be enough
STRONG = 0.5  # median epsilon d: below it many mDP rows bind, and column generation has a long tail
NOT_SMALL = 15_000  # records times outputs: from it on, column generation is of no help at strong privacy
FILLS = 0.5  # the share of all records that a patch with its neighbours may be: 0.1 to 0.34 in a plane, 0.6 for words
STEPS_PER_ENTRY, STEPS_IF_STRONG = 3.0, 10.0  # for each record and output: first-order steps that columns are worth
FEWEST_IF_STRONG = 100_000  # of them at strong privacy, where small problems take as many as larger ones
TINY = 1_500  # records times outputs: a linear program takes hardly longer than kernels, which often miss small gaps


@dataclass(frozen=True)
class Features:
    """What the choice looks at."""

    size: int  # records times outputs
    density: float  # pairs per record
    exponent: float  # median epsilon d
    own_outputs: float  # distinct cheapest outputs, per record

    @classmethod
    def of(cls, component: Component) -> Features:
        """Measure a component."""
        return cls(
            component.costs.size,
            component.graph.n_pairs / component.n,
            component.epsilon * float(np.median(component.graph.distances)),
            len(np.unique(component.costs.argmin(axis=1))) / component.n,
        )

    def __str__(self) -> str:
        return f"{self.density:.1f} pairs per record, median epsilon d = {self.exponent:.2g}"


def choose(component: Component, gap: float, *, after_kernels: bool = False) -> tuple[str, str]:
    """Choose a method for a component; give it and the reason.

    "kernel" is a first try, after which ``after_kernels`` asks for the next; "first-order, columns" stands for two
    methods in turn.
    """
    own = Features.of(component)
    if gap < TIGHT:
        return "direct", f"a gap of {gap:g} is for a simplex method"
    if own.exponent >= WEAK:
        is_worth_it = own.size >= TINY or gap >= ROUGH
        may_do = is_worth_it and not after_kernels and component.n <= FEW and own.own_outputs >= OWN
        if may_do and guessed_gap(component) <= gap:
            return "kernel", f"{own}, and nearly every record has an output of its own"
        return _at_weak_privacy(component, own, gap)
    if gap >= FINE or own.size > LARGE:
        return "first-order", str(own)
    if own.size <= SMALL and own.density <= SPARSE and own.exponent >= STRONG:
        return "direct", f"small and sparse: {own}"
    return "first-order, columns", f"{own}, and a gap of {gap:g}"


def most_first_order_steps(component: Component, max_iterations: int) -> float:
    """Give the number of steps that column generation, whose time grows faster with the size, is worth."""
    own = Features.of(component)
    is_strong = own.exponent < STRONG
    if is_strong and own.size > NOT_SMALL:
        return math.inf
    steps = max(STEPS_IF_STRONG * own.size, FEWEST_IF_STRONG) if is_strong else STEPS_PER_ENTRY * own.size
    return min(steps, max_iterations)


def _at_weak_privacy(component: Component, own: Features, gap: float) -> tuple[str, str]:
    if own.size <= RATHER_SMALL and own.density <= VERY_SPARSE:
        return "direct", f"small: {own}"
    is_crowded = own.own_outputs < OWN  # several records share an output: first-order iterations are faster then
    if gap >= (FINE if is_crowded else ROUGH):
        return "first-order", str(own)
    is_very_weak = own.exponent >= (VERY_WEAK_IF_CROWDED if is_crowded else VERY_WEAK)
    if own.size <= LARGEST_LP and is_very_weak and own.density <= SPARSE:
        return "direct", f"hardly any mDP rows bind: {own}"
    if own.size <= LARGEST_LP and is_crowded and _fills_all(component):  # columns start slowly then
        method = "direct" if own.density <= RATHER_SPARSE and not is_very_weak else "first-order"
        return method, f"{own}, and a patch with its neighbours is most of it"
    if own.size > (MEDIUM if is_crowded else LARGE):
        return "first-order", str(own)
    return "columns", f"few mDP rows bind: {own}"


def _fills_all(component: Component) -> bool:
    """Whether a patch with its neighbours is most of the whole, as in many dimensions."""
    size, graph = ColumnOptions().records_per_patch, component.graph
    if component.n <= 2 * size:
        return False
    grown = []
    for first in (0, component.n // 3, 2 * component.n // 3):
        ball = breadth_first_order(graph.adjacency, first, directed=False, return_predecessors=False)[:size]
        grown.append(len(patch_members(component, ball)))
    return float(np.median(grown)) > FILLS * component.n
