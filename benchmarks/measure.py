"""Interleaved timing: each contestant in turn, several rounds, medians and spread."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Timing:
    """Seconds of one contestant over the rounds, and what it returned last."""

    seconds: tuple[float, ...]
    value: Any

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def __str__(self) -> str:
        return f"{self.median:.4g} s ({min(self.seconds):.4g} to {max(self.seconds):.4g}, n = {len(self.seconds)})"


def interleaved(contestants: dict[str, Callable[[], Any]], *, rounds: int = 3) -> dict[str, Timing]:
    """Run the contestants in turn ``rounds`` times; the first call of each is a warm-up that does not count."""
    for run in contestants.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    values: dict[str, Any] = {}
    for _ in range(rounds):
        for name, run in contestants.items():
            begin = time.perf_counter()
            values[name] = run()
            seconds[name].append(time.perf_counter() - begin)
    return {name: Timing(tuple(seconds[name]), values[name]) for name in contestants}
