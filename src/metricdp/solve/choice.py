"""Which method `auto` takes for a component: from its size, density and privacy, and from the gap.

The numbers come from ``python -m benchmarks auto``; docs/benchmarks.md has the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse.csgraph import breadth_first_order

from metricdp.solve.columns.patches import patch_members

if TYPE_CHECKING:
    from metricdp.solve.components import Component

SMALL, RATHER_SMALL = 5_000, 7_000  # records times outputs
SPARSE, VERY_SPARSE = 8.0, 5.0  # pairs per record
WEAK, VERY_WEAK = 3.5, 10.0  # median epsilon d: above it few mDP rows bind, or hardly any
MEDIUM, LARGE = 35_000, 100_000  # records times outputs: too many for column generation to be fast, and at all
ROUGH = 3e-3  # gaps from it on are for first-order iterations also at weak privacy
FINE = 5e-4  # gaps down to it are for first-order iterations; below, they may hand over to column generation
TIGHT = 1e-5  # gaps below it are for a simplex method: column generation has a long tail
FEW, OWN = 300, 0.95  # records, and the share with an output of their own: kernels alone may be enough
BALL, FILLS = 45, 0.65  # records of a patch, and the share of all that it and its neighbours may be
STEPS_PER_ENTRY = 5.0  # steps for every record and output that first-order iterations may need, or they hand over


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
        if not after_kernels and component.n <= FEW and own.own_outputs >= OWN:
            return "kernel", f"{own}, and nearly every record has an output of its own"
        return _at_weak_privacy(component, own, gap)
    if gap >= FINE:
        return "first-order", str(own)
    if own.size <= SMALL and own.density <= SPARSE:
        return "direct", f"small and sparse: {own}"
    return "first-order, columns", f"{own}, and a gap of {gap:g}"


def steps_worth(component: Component) -> float:
    """Give the number of first-order steps that column generation, which grows faster with the size, is worth."""
    return STEPS_PER_ENTRY * component.costs.size


def _at_weak_privacy(component: Component, own: Features, gap: float) -> tuple[str, str]:
    if own.size <= RATHER_SMALL and own.density <= VERY_SPARSE:
        return "direct", f"small: {own}"
    is_crowded = own.own_outputs < OWN  # several records share an output: first-order iterations are faster then
    if gap >= ROUGH or (is_crowded and gap >= FINE) or own.size > (MEDIUM if is_crowded else LARGE):
        return "first-order", str(own)
    if own.exponent >= VERY_WEAK and own.density <= SPARSE:
        return "direct", f"hardly any mDP rows bind: {own}"
    if is_crowded and _fills_all(component):
        return "first-order", f"{own}, and every patch with its neighbours is nearly all"
    return "columns", f"few mDP rows bind: {own}"


def _fills_all(component: Component) -> bool:
    """Whether patches are no smaller than the whole, as in many dimensions: column generation starts slowly then."""
    near = breadth_first_order(component.graph.adjacency, 0, directed=False, return_predecessors=False)[:BALL]
    return component.n > 2 * BALL and len(patch_members(component, near)) > FILLS * component.n
