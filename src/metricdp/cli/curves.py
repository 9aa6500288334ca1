"""What `metricdp evaluate` says beyond one budget and one loss: the privacy-utility curve and what a report tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Column, Table
from rich.text import Text

from metricdp.cli.app import out
from metricdp.errors import InputError
from metricdp.evaluate.leakage import Leakage, gain_within, leakage
from metricdp.evaluate.sweep import OPTIMAL, Sweep, sweep
from metricdp.metric.units import as_distance, in_words, unit_of
from metricdp.report.tables import print_line, printable

if TYPE_CHECKING:
    from metricdp.evaluate.problem_of_file import Rebuilt


def epsilons_of(text: str | None) -> list[float]:
    """Return the budgets of ``--sweep``, such as those of ``1,2,4``."""
    if text is None:
        return []
    try:
        found = [float(one) for one in text.split(",")]
    except ValueError:
        raise InputError(f"--sweep must be numbers, got {text!r}: give budgets such as 1,2,4") from None
    if len(set(found)) < len(found):
        raise InputError(f"--sweep has a budget twice: {text}: give each once")
    return found


def swept(
    found: Rebuilt, epsilons: list[float], names: list[str], own: dict[str, Any], time_limit: float
) -> Sweep | None:
    """Return the curve of the file's problem at ``epsilons``: an optimal mechanism, and those of ``names``."""
    if not epsilons:
        return None
    if own:
        raise InputError(
            f"--sweep makes mechanisms at each budget, and {next(iter(own))} is a file: leave it out of --against"
        )
    return sweep(found.problem, epsilons, [OPTIMAL, *names], time_limit=time_limit)


def told(found: Rebuilt, within: str | None) -> tuple[Leakage, float | None]:
    """Return what a report tells, with the gain of a guess ``within`` a distance, and that distance."""
    problem = found.problem
    distance = None if within is None else as_distance(within, problem.metric.name, what="--gain-within")
    gain = None if distance is None else gain_within(problem, distance)
    return leakage(found.mechanism, problem, gain=gain), distance


def print_told(found: Rebuilt, tells: Leakage, distance: float | None) -> None:
    """Print what a report tells in bits, and how often a guess comes near."""
    print_line(
        out,
        f"One report of this mechanism tells {tells.min_entropy_leakage:.3g} bits (min-entropy leakage), "
        f"{tells.mutual_information:.3g} bits by Shannon's entropy ({tells.entropy:.3g} before, "
        f"{tells.conditional_entropy:.3g} after)",
    )
    if tells.gain is not None and distance is not None:
        away = in_words(distance, found.problem.metric.name)
        print_line(
            out,
            f"  the best guess is within {away} of the truth with probability {tells.gain.after:.4g} "
            f"({tells.gain.before:.4g} without a report): {tells.gain.ratio:.3g} times as often (g-vulnerability)",
        )


def print_sweep(found: Rebuilt, curve: Sweep) -> None:
    """Print the privacy-utility curve, one row for each budget."""
    titles = ("epsilon", "any mechanism", *curve.names)
    table = Table(*(Column(printable(title)) for title in titles), box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    points = {(point.name, point.epsilon): point for point in curve.points}
    for epsilon, bound in curve.lower_bounds.items():
        cells = [_cell(points.get((name, epsilon))) for name in curve.names]
        table.add_row(f"{epsilon:g}", f">= {bound:.5g}", *map(Text, cells))
    metric = found.problem.metric.name
    unit = unit_of(metric)
    print_line(out, f"Privacy and utility, the expected loss at each epsilon (per {unit or 'unit of distance'}):")
    out.print(table)
    print_line(out, "  any mechanism: no mechanism that is private at this epsilon costs less; *: not certified there")
    for (name, epsilon), reason in curve.unavailable.items():
        print_line(out, f"  {name} could not be made at {epsilon:g}: {reason}")


def _cell(point: Any) -> str:
    return "–" if point is None else f"{point.loss:.5g}" + ("" if point.certified else " *")


def sweep_fields(curve: Sweep | None) -> dict[str, Any] | None:
    """Return the curve for ``--json``."""
    if curve is None:
        return None
    return {
        "points": [vars(point) for point in curve.points],
        "lower_bounds": [{"epsilon": e, "lower_bound": bound} for e, bound in curve.lower_bounds.items()],
        "unavailable": [{"name": n, "epsilon": e, "why": why} for (n, e), why in curve.unavailable.items()],
    }


def leakage_fields(tells: Leakage, distance: float | None) -> dict[str, Any]:
    """Return what a report tells for ``--json``."""
    gain = tells.gain
    return {
        "bayes_before": tells.bayes.before,
        "bayes_after": tells.bayes.after,
        "min_entropy_leakage": tells.min_entropy_leakage,
        "entropy": tells.entropy,
        "conditional_entropy": tells.conditional_entropy,
        "mutual_information": tells.mutual_information,
        "gain_within": distance,
        "gain_before": None if gain is None else gain.before,
        "gain_after": None if gain is None else gain.after,
    }
