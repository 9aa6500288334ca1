"""Options of the windowed solver."""

from __future__ import annotations

from dataclasses import dataclass


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
        Detours that may replace a pair in the steps, as a share of its distance.
    max_iterations
        Steps after which to give up.
    """

    reach: float = 9.0
    table_reach: float | None = None
    stretch: float = 0.02
    max_iterations: int = 100_000
