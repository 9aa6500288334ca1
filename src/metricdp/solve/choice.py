"""Which method `auto` takes for a component: from its size, density and privacy, and from the gap.

The numbers come from ``python -m benchmarks auto``; docs/benchmarks.md has the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from metricdp.solve.components import Component

SMALL = 5_000  # records times outputs
SPARSE, VERY_SPARSE = 8.0, 5.0  # pairs per record
WEAK = 3.5  # median epsilon d: above it few mDP rows bind
LARGE = 100_000  # records times outputs: too many for one LP
FINE = 5e-4  # gaps down to it are for first-order iterations; below, they hand over to column generation
TIGHT = 1e-5  # gaps below it are for a simplex method: column generation has a long tail
FEW, OWN = 300, 0.95  # records, and the share with an output of their own: kernels alone may be enough


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

    "kernel" is a first try, after which ``after_kernels`` asks for the next; "columns" stands for first-order
    iterations and then column generation.
    """
    own = Features.of(component)
    if gap < TIGHT:
        return "direct", f"a gap of {gap:g} is for a simplex method"
    if gap < FINE:
        return _for_fine_gap(own, gap)
    is_weak = own.exponent >= WEAK
    if is_weak and not after_kernels and component.n <= FEW and own.own_outputs >= OWN:
        return "kernel", f"{own}, and nearly every record has an output of its own"
    if is_weak and own.size <= SMALL and own.density <= VERY_SPARSE:
        return "direct", f"small: {own}"
    return "first-order", str(own)


def _for_fine_gap(own: Features, gap: float) -> tuple[str, str]:
    if own.size <= SMALL and own.density <= SPARSE:
        return "direct", f"small and sparse: {own}"
    if own.exponent >= WEAK and own.density <= SPARSE and own.size <= LARGE:
        return "direct", f"weak privacy, few mDP rows bind: {own}"
    return "columns", f"{own}, and a gap of {gap:g}: first-order, then column generation"
