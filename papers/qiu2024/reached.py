"""Figures of runs that may have hit a limit: reached ones are averaged, the others are marked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from papers.qiu2024.averages import mean_spread, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from papers.qiu2024.published import Figure


@dataclass(frozen=True)
class Reached:
    """One figure over the instances of a cell.

    Parameters
    ----------
    figure
        Mean and spread of the runs that reached the gap; of all runs, and so too small, if none did.
    n_reached, n_runs
        How many reached it, of how many.
    worst_gap
        The largest gap of those that did not; 1 means that there was no upper bound.
    n_failed
        How many ended before their limit without reaching it: the LP solver gave up.
    """

    figure: Figure
    n_reached: int
    n_runs: int
    worst_gap: float
    n_failed: int = 0

    @classmethod
    def of(cls, answers: Sequence[dict[str, Any]], key: str) -> Reached:
        """Gather the figure ``key`` of runs."""
        done = [answer for answer in answers if answer["is_reached"]]
        gaps = [answer.get("own_gap", answer["gap"]) for answer in answers if not answer["is_reached"]]
        failed = sum(answer["status"] == "failed" for answer in answers if not answer["is_reached"])
        values = [float(answer[key]) for answer in (done or answers)]
        return cls(mean_spread(values), len(done), len(answers), max(gaps, default=0.0), failed)

    @property
    def is_whole(self) -> bool:
        """Whether every run reached the gap."""
        return self.n_reached == self.n_runs

    def __str__(self) -> str:
        if self.is_whole:
            return shown(self.figure)
        how_far = "no upper bound" if self.worst_gap >= 1.0 else f"gap up to {_percent(self.worst_gap)}"
        if self.n_failed:
            how_far = f"{self.n_failed} failed, {how_far}"
        if self.n_reached == 0 and self.n_failed == self.n_runs:
            return f"{how_far} (after {shown(self.figure)})"
        if self.n_reached == 0:
            return f"not reached: > {shown(self.figure).split(' ')[0]}, {how_far}"
        return f"{self.n_reached} of {self.n_runs} runs: {shown(self.figure)}; the others: {how_far}"

    def fields(self) -> dict[str, Any]:
        """Return everything for the files."""
        return {
            "ours": self.figure,
            "reached": self.n_reached,
            "runs": self.n_runs,
            "failed": self.n_failed,
            "worst_gap": self.worst_gap,
        }


def _percent(gap: float) -> str:
    return f"{100 * gap:.2g} %"
