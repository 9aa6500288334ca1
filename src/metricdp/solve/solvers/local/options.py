"""Options of the windowed solver."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral

from metricdp.errors import InputError
from metricdp.partition import PARTITIONERS

OUTSIDE_SHARE = 0.25  # of the gap, for what lies outside of the windows of the steps
SMALLEST_REACH, REACH_STEP = 6.0, 0.25  # in units of 1 / epsilon
SMALLEST_GAP = 1e-4  # that is reckoned with
STRETCH_PER_GAP = 0.5
STRETCHES = (0.001, 0.03)
KD = "kd"  # regions are ranges of the outputs in kd order


@dataclass(frozen=True)
class LocalOptions:
    """How far windows reach, and when to give up.

    Parameters
    ----------
    reach
        Radius of the windows of the steps, in units of 1 / epsilon, beyond the nearest output; None follows from the
        gap: what lies outside is worth a quarter of it.
    table_reach
        Radius of the windows of the table; None follows from the gap: the background costs a small part of it.
    stretch
        Detours that may replace a pair in the steps, as a share of its distance; None follows from the gap: the bound
        loses about a third of it.
    max_iterations
        Steps after which to give up.
    regions
        Into how many regions the outputs are divided, solved one after the other or on workers; None: one, or as many
        as the memory and the workers ask for.
    partition
        What makes the regions: ``"kd"``, equal ranges of the outputs in kd order, or one of the partitioners of the
        records (`metricdp.partition`), which needs the number of ``regions``.
    halo
        How far around its own outputs a region sees others, in units of 1 / epsilon; None is 6.
    """

    reach: float | None = None
    table_reach: float | None = None
    stretch: float | None = None
    max_iterations: int = 100_000
    regions: int | None = None
    partition: str = KD
    halo: float | None = None

    def __post_init__(self) -> None:
        regions = self.regions
        if regions is not None and (isinstance(regions, bool) or not isinstance(regions, Integral) or regions < 1):
            raise InputError(f"regions must be a whole number of at least 1, got {regions!r}")
        if self.partition not in (KD, *PARTITIONERS):
            raise InputError(
                f"unknown partitioner {self.partition!r}: choose one of {', '.join((KD, *PARTITIONERS))} for regions"
            )
        if self.partition != KD and regions is None:
            raise InputError(
                f"partition={self.partition!r} divides into a given number of regions: give regions, such as "
                "regions=4, or leave partition out"
            )
        for name in ("reach", "table_reach"):
            given = getattr(self, name)
            if given is not None and not 0.0 < given < math.inf:
                raise InputError(f"{name} must be positive, got {given!r}: it is in units of 1 / epsilon, 9 is usual")
        if self.halo is not None and not self.halo >= 0.0:
            raise InputError(f"halo must be zero or positive, got {self.halo!r}: 6 is usual")

    def reach_for(self, gap: float) -> float:
        """Return the reach for a gap: cutting off at R costs about R^2 exp(-R) / 2 of the loss."""
        if self.reach is not None:
            return self.reach
        reach = SMALLEST_REACH
        while reach * reach * math.exp(-reach) / 2.0 > OUTSIDE_SHARE * max(gap, SMALLEST_GAP):
            reach += REACH_STEP
        return reach

    def stretch_for(self, gap: float) -> float:
        """Return the stretch for a gap."""
        if self.stretch is not None:
            return self.stretch
        return min(max(STRETCH_PER_GAP * gap, STRETCHES[0]), STRETCHES[1])
