"""Results as Markdown, and log-log fits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.runs import Outcome


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell).replace("|", "/") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def time_cell(outcome: Outcome) -> str:
    """Return the median with spread, or the gap that was reached instead of the requested one."""
    if outcome.fault:
        return outcome.fault[:80]
    spread = ""
    if len(outcome.seconds) > 1:
        spread = f" ({min(outcome.seconds):.2f} to {max(outcome.seconds):.2f})"
    if outcome.is_reached:
        return f"{outcome.median:.2f}{spread}"
    if outcome.is_cut_off:
        return f"stopped by the limit after {outcome.median:.1f} s, gap {100 * (outcome.certified_gap or 1.0):.2g} %"
    return f"not reached: {100 * (outcome.certified_gap or 1.0):.2g} % after {outcome.median:.1f} s"


def memory_cell(outcome: Outcome) -> str:
    return "-" if outcome.peak_mb is None else f"{outcome.peak_mb:.0f}"


def epsilon_cell(outcome: Outcome) -> str:
    """Return the epsilon that a peer's answer satisfied before repair, as a multiple of the requested one."""
    if not outcome.is_peer:
        return "certified"
    if outcome.fault:
        return "-"
    ratios = [a["epsilon_before_repair"] / a["epsilon"] for a in outcome.answers]
    worst = max(ratios)
    if math.isinf(worst):
        return "none (0 beside a positive probability)"
    excess = worst - 1.0
    return "satisfied" if excess <= 0 else f"1 + {excess:.1e} times"


def fit_exponent(sizes: Sequence[float], values: Sequence[float]) -> dict[str, Any] | None:
    """Return the least-squares slope of log value over log size, with the range between neighbouring sizes."""
    points = [(n, v) for n, v in sorted(zip(sizes, values, strict=True)) if v > 0]
    if len(points) < 2:
        return None
    x, y = np.log(np.array(points)).T
    slopes = np.diff(y) / np.diff(x)
    slope = float(np.polyfit(x, y, 1)[0])
    return {
        "exponent": slope,
        "range": [float(slopes.min()), float(slopes.max())],
        "sizes": [int(points[0][0]), int(points[-1][0])],
    }


def ratio_cell(outcome: Outcome, ours: Sequence[Outcome]) -> str:
    """Return how many times the seconds of our best method on the same instance and gap were taken."""
    best = [o.median for o in ours if o.is_reached and o.gap == outcome.gap and o.instance == outcome.instance]
    if not best or not outcome.is_reached:
        return "-"
    return f"{outcome.median / min(best):.2f}"


def times_cell(outcome: Outcome, auto: Outcome) -> str:
    """Return how many times as long as `auto`; a lower bound for runs that were too late."""
    if outcome.is_reached:
        return _times(outcome.median / auto.median)
    late = next((answer["late"] for answer in outcome.answers if "late" in answer), None)
    if late is not None:
        return f"> {_times(late / auto.median)}"
    if outcome.fault:
        return outcome.fault[:60]
    if outcome.is_cut_off:
        return f"> {_times(outcome.median / auto.median)}"
    return f"not reached: {100 * (outcome.certified_gap or 1.0):.2g} %"


def _times(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}"


def shares_line(shares: dict[str, float]) -> str:
    return ", ".join(f"{name} {100 * share:.0f} %" for name, share in shares.items() if share >= 0.01)
