"""What can be switched in the first-order method."""

from __future__ import annotations

from dataclasses import dataclass

from metricdp.errors import InputError

WEIGHTS = (1e-6, 1e6)
LARGEST_STRETCH, STRETCH_PER_GAP = 0.02, 2.0


@dataclass(frozen=True)
class FirstOrderOptions:
    """Options of the first-order method.

    Parameters
    ----------
    stretch
        A pair is left out of the iterations when a detour over other pairs is at most this much longer, relatively;
        by default twice the gap that is asked for, at most 2 %. Violated pairs come back later.
    weight
        The primal weight: larger ones move the multipliers faster and the rows more slowly; by default from epsilon d.
    polish_up_to
        Pairs times outputs up to which the lower bound is polished by one small linear program per output.
    max_iterations
        Iterations after which to give up.
    """

    stretch: float | None = None
    weight: float | None = None
    polish_up_to: int = 2_000_000
    max_iterations: int = 200_000

    def __post_init__(self) -> None:
        if self.stretch is not None and not 0 <= self.stretch <= 1:
            raise InputError(f"stretch must be between 0 and 1, got {self.stretch}: 0.02 leaves out short detours")
        if self.weight is not None and not WEIGHTS[0] <= self.weight <= WEIGHTS[1]:
            raise InputError(
                f"weight must be between {WEIGHTS[0]:g} and {WEIGHTS[1]:g}, got {self.weight}: 0.3 to 2 is usual"
            )
        if self.max_iterations < 1:
            raise InputError(f"max_iterations must be at least 1, got {self.max_iterations}")


def stretch_for(gap: float, options: FirstOrderOptions) -> float:
    """Return how much longer a detour may be that stands for a pair, relatively."""
    return min(LARGEST_STRETCH, STRETCH_PER_GAP * gap) if options.stretch is None else options.stretch
