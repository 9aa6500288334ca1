"""Options of the windowed solver."""

from __future__ import annotations

from dataclasses import dataclass

STRETCH_PER_GAP = 0.5
STRETCHES = (0.001, 0.03)


@dataclass(frozen=True)
class LocalOptions:
    """How far windows reach, and when to give up.

    Parameters
    ----------
    reach
        Radius of the windows of the steps, in units of 1 / epsilon, beyond the nearest output.
    table_reach
        Radius of the windows of the table; None follows from the gap: the background costs a small part of it.
    stretch
        Detours that may replace a pair in the steps, as a share of its distance; None follows from the gap: the bound
        loses about a third of it.
    max_iterations
        Steps after which to give up.
    """

    reach: float = 9.0
    table_reach: float | None = None
    stretch: float | None = None
    max_iterations: int = 100_000

    def stretch_for(self, gap: float) -> float:
        """Return the stretch for a gap."""
        if self.stretch is not None:
            return self.stretch
        return min(max(STRETCH_PER_GAP * gap, STRETCHES[0]), STRETCHES[1])
