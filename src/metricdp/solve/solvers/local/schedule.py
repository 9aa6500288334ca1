"""When to look at bound and loss: a look costs as much as a hundred steps or more.

The next look is made when the gap should be reached: the gap falls like a power of the steps, and the power follows
from the looks so far.
"""

from __future__ import annotations

import math

from metricdp.solve.solvers.local.counts import FALL, expected_steps

FALLS = (0.4, 1.3)
FEWEST_STEPS = 40
NEXT_LOOK = (1.08, 2.5)  # times the steps of the look before, at least and at most
BEYOND = 1.05  # times the steps that the forecast asks for
MOST_STUCK = 3  # looks in a row without progress
STUCK = 0.2  # a power with which the gap must fall at least


class Schedule:
    """The looks so far, and the next one."""

    def __init__(self, gap: float) -> None:
        self.gap = gap
        self.looks: list[tuple[int, float]] = []  # steps and the gap that they reached
        self._stuck_for = 0  # looks in a row

    def add(self, steps: int, gap: float) -> None:
        """Take note of a look."""
        self.looks.append((max(steps, 1), gap))
        self._stuck_for = self._stuck_for + 1 if self.is_stuck else 0

    @property
    def next(self) -> int:
        """The steps after which the gap should be reached, from how it fell between the last two looks."""
        if not self.looks:
            return max(FEWEST_STEPS, int(expected_steps(self.gap)))
        steps, gap = self.looks[-1]
        fall = FALL if len(self.looks) == 1 else min(max(self._fall(), FALLS[0]), FALLS[1])
        wanted = steps * BEYOND * (gap / max(self.gap, 1e-9)) ** (1.0 / fall)
        return int(min(max(wanted, NEXT_LOOK[0] * steps), NEXT_LOOK[1] * steps))

    def seconds_left(self, seconds: float) -> float:
        """Return about how much longer it will take, if the steps so far took ``seconds``."""
        steps, gap = self.looks[-1]
        return 0.0 if gap <= self.gap else seconds * (self.next / steps - 1.0)

    def _fall(self) -> float:
        """Return the power of the steps with which the gap fell between the last two looks."""
        (before, wider), (steps, gap) = self.looks[-2:]
        return math.log(max(wider, 1e-12) / max(gap, 1e-12)) / math.log(max(steps, before + 1) / before)

    @property
    def is_stuck(self) -> bool:
        """Whether the last look brought no progress."""
        return len(self.looks) > 1 and self._fall() < STUCK

    @property
    def is_hopeless(self) -> bool:
        """Whether several looks in a row brought no progress."""
        return self.is_stuck and self._stuck_for > MOST_STUCK
