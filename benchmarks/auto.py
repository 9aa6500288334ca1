"""`auto` against the best single method of ours.

The first round gives every method a limit of a few times the best so far, since a method that is slower than that is
not the best one. `auto` and those that came near it are then run again in turn. In one thread the time on the processor
is measured beside the time on the clock: it suffers less when the machine is shared.
"""

from __future__ import annotations

import itertools
import json
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks import methods
from benchmarks.instances import DATASETS, Instance

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SIZES = (100, 300, 500, 1_000)
EXPONENTS = (0.2, 1.0, 4.0)
CONTESTANTS = ("kernel", "first-order", "auto", "direct", "columns", "benders metis")
ALLOWED = 1.3
CUT_OFF, CUT_OFF_AUTO, GRACE = 1.5, 4.0, 0.5  # a method gets so many times the best so far, and seconds on top
NEAR = 2.0  # contestants within so many times the best are run again


@dataclass
class Runs:
    """What one method did on one instance: seconds on the clock and on the processor."""

    clock: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    reached: bool = True
    gap: float = 1.0
    choices: list[str] = field(default_factory=list)
    stages: dict[str, int] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return statistics.median(self.processor)


def run_once(instance: Instance, name: str, runs: Runs, *, gap: float, limit: float) -> None:
    """Run one method once, without the making of the problem."""
    problem = instance.problem()
    clock, processor = time.perf_counter(), time.process_time()
    result = methods.solve(problem, name, gap=gap, time_limit=limit, threads=1)
    runs.processor.append(time.process_time() - processor)
    runs.clock.append(time.perf_counter() - clock)
    runs.gap = result.gap
    runs.reached = runs.reached and result.status.value == "optimal"
    runs.choices = [
        f"{row.get('records', 'all')}: {row['method']} ({row['reason']})"
        for row in result.trace.rows
        if row["stage"] == "choice"
    ]
    runs.stages = {}
    for row in result.trace.rows:
        runs.stages[row["stage"]] = runs.stages.get(row["stage"], 0) + 1


def compare(instance: Instance, *, gap: float, limit: float, repetitions: int) -> dict[str, Any]:
    """Run all contestants on one instance; give the row of the table."""
    problem = instance.problem()
    graph = problem.graph
    found: dict[str, Runs] = {}
    best = best_clock = limit
    for name in CONTESTANTS:
        runs = found[name] = Runs()
        times = CUT_OFF_AUTO if name == "auto" else CUT_OFF
        run_once(instance, name, runs, gap=gap, limit=min(limit, times * best_clock + GRACE))
        if runs.reached:
            best, best_clock = min(best, runs.seconds), min(best_clock, runs.clock[0])
    near = [name for name, runs in found.items() if runs.reached and runs.seconds <= NEAR * best]
    again = [name for name in CONTESTANTS if name in near or name == "auto"]
    for _ in range(repetitions - 1) if best < limit else ():
        for name in again:
            run_once(instance, name, found[name], gap=gap, limit=limit)
    reached = {name: runs.seconds for name, runs in found.items() if runs.reached and name != "auto"}
    winner = min(reached, key=lambda name: reached[name]) if reached else None
    ratio = found["auto"].seconds / reached[winner] if winner and found["auto"].reached else None
    lengths = graph.distances
    return {
        "instance": instance.name,
        "dataset": instance.dataset,
        "n": instance.n,
        "outputs": instance.n_outputs,
        "exponent": instance.exponent,
        "seed": instance.seed,
        "gap": gap,
        "pairs": graph.n_pairs,
        "pairs_per_record": graph.n_pairs / graph.n,
        "largest_component": max(len(rows) for rows in graph.components),
        "components": graph.n_components,
        "exponents": [float(problem.epsilon * lengths.min()), float(problem.epsilon * lengths.max())],
        "winner": winner,
        "ratio": ratio,
        "methods": {name: vars(runs) for name, runs in found.items()},
    }


def registry(seed: int, sizes: Iterable[int] = SIZES) -> list[Instance]:
    """All instances up to 1,000 records, small ones first."""
    return [Instance(*parts, seed) for parts in _parts(sizes)]


def _parts(sizes: Iterable[int]) -> Iterable[tuple[str, int, int, float]]:
    for n, exponent, dataset in itertools.product(sizes, EXPONENTS, DATASETS):
        yield dataset, n, 100, exponent


def markdown(rows: list[dict[str, Any]]) -> str:
    """The table: seconds on the processor of each method, and auto over the best."""
    names = CONTESTANTS
    lines = [
        "| instance | pairs / record | gap | " + " | ".join(names) + " | auto / best |",
        "|---" * (len(names) + 4) + "|",
    ]
    for row in rows:
        cells = []
        for name in names:
            runs = row["methods"][name]
            seconds = statistics.median(runs["processor"])
            cells.append(f"{seconds:.2f}" if runs["reached"] else f"> {seconds:.1f} ({100 * runs['gap']:.2g} %)")
        ratio = "none reached it" if row["winner"] is None else f"{row['ratio']:.2f}" if row["ratio"] else "not reached"
        lines.append(
            f"| {row['instance']} | {row['pairs_per_record']:.0f} | {100 * row['gap']:g} % | "
            + " | ".join(cells)
            + f" | {ratio} |"
        )
    return "\n".join(lines) + "\n"


def measure(
    instances: list[Instance], *, gap: float, limit: float, repetitions: int, save: Path | None = None
) -> list[dict[str, Any]]:
    """Run the comparison on all instances; print and save each row as it comes."""
    methods.warm_up()
    rows = []
    for instance in instances:
        row = compare(instance, gap=gap, limit=limit, repetitions=repetitions)
        rows.append(row)
        times = ", ".join(
            f"{name} {statistics.median(runs['processor']):.2f}{'' if runs['reached'] else ' (not reached)'}"
            for name, runs in row["methods"].items()
        )
        ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
        print(f"{row['instance']}: auto / best = {ratio}, best {row['winner']}; {times}", flush=True)
        if save is not None:
            save.write_text(json.dumps(rows, indent=1) + "\n")
            save.with_suffix(".md").write_text(markdown(rows))
    return rows
