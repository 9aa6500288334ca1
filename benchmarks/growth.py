"""How time and memory grow with the number of records: exponents of a log-log fit, with their range."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from benchmarks.figures import growth_figure
from benchmarks.runs import Outcome, run_instance
from benchmarks.tables import fit_exponent, memory_cell, table, time_cell

if TYPE_CHECKING:
    from benchmarks.instances import Instance
    from benchmarks.registry import Keep, Registry


def run(registry: Registry, *, seed: int, keep: Keep, profile: bool = False) -> dict[str, Any]:
    """Run small sizes first; a method that missed the gap at one size is not run at larger ones."""
    fits, rows, cells = [], [], []
    for dataset in registry.datasets:
        for exponent in registry.exponents:
            found = _family(registry, dataset, exponent, seed, keep=keep, profile=profile)
            rows += [_row(instance, o) for instance, o in found]
            for method in dict.fromkeys(o.method for _, o in found):
                own = [(instance.n, o) for instance, o in found if o.method == method]
                fits.append(_fit(dataset, exponent, method, own))
                cells += [_cells(dataset, exponent, method, n, o) for n, o in own]
    markdown = table(("dataset", "epsilon d", "method", "N", "seconds", "MB on top"), cells) + "\n" + _fit_table(fits)
    return {"rows": rows, "fits": fits, "markdown": markdown, "figure": growth_figure(_lines(rows))}


def _lines(rows: list[dict[str, Any]]) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Return the runs that reached the gap: a panel for each dataset and privacy, a line for each method."""
    panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in rows:
        own = panels.setdefault(f"{row['dataset']}, epsilon d = {row['exponent']:g}", {}).setdefault(row["method"], [])
        if row["is_reached"]:
            own.append((row["n"], statistics.median(row["seconds"])))
    return panels


def _family(
    registry: Registry, dataset: str, exponent: float, seed: int, *, keep: Keep, profile: bool
) -> list[tuple[Instance, Outcome]]:
    found: list[tuple[Instance, Outcome]] = []
    given_up: set[str] = set()
    for instance in registry.instances(seed):
        if instance.dataset != dataset or instance.exponent != exponent:
            continue
        outcomes = run_instance(
            instance,
            ours=tuple(name for name in registry.ours if name not in given_up),
            peers=tuple(name for name in registry.peers_of(instance) if name not in given_up),
            gaps=registry.gaps[:1],
            limit=registry.limit,
            repetitions=registry.repetitions,
            profile=profile,
        )
        found += [(instance, o) for o in outcomes]
        keep([_row(instance, o) for o in outcomes])
        given_up |= {o.method for o in outcomes if not o.is_reached}
        for o in outcomes:
            print(f"{instance.name}, {o.method}: {time_cell(o)}, {memory_cell(o)} MB", flush=True)
    return found


def _row(instance: Instance, outcome: Outcome) -> dict[str, Any]:
    return dict(outcome.as_dict(), n=instance.n, dataset=instance.dataset, exponent=instance.exponent)


def _fit(dataset: str, exponent: float, method: str, own: list[tuple[int, Outcome]]) -> dict[str, Any]:
    reached = [(n, o) for n, o in own if o.is_reached]
    sizes = [n for n, _ in reached]
    return {
        "dataset": dataset,
        "exponent": exponent,
        "method": method,
        "time": fit_exponent(sizes, [o.median for _, o in reached]),
        "memory": fit_exponent(sizes, [o.peak_mb or 0.0 for _, o in reached]),
    }


def _cells(dataset: str, exponent: float, method: str, n: int, outcome: Outcome) -> tuple[str, ...]:
    return dataset, f"{exponent:g}", method, f"{n:,}", time_cell(outcome), memory_cell(outcome)


def _fit_table(fits: list[dict[str, Any]]) -> str:
    def cell(fit: dict[str, Any] | None) -> str:
        if fit is None:
            return "fewer than two sizes"
        low, high = fit["range"]
        return f"{fit['exponent']:.2f} ({low:.2f} to {high:.2f}), N = {fit['sizes'][0]:,} to {fit['sizes'][1]:,}"

    head = ("dataset", "epsilon d", "method", "time grows like N to the", "memory grows like N to the")
    rows = [(f["dataset"], f"{f['exponent']:g}", f["method"], cell(f["time"]), cell(f["memory"])) for f in fits]
    return table(head, rows)
