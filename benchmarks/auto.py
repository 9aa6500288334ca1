"""`auto` against the best single method of ours.

The first round gives every method the time of the best so far, since one that is slower is not the best; who had less
time on the processor than would clear `auto` of a loss is given more. `auto` and those that came near it are then run
again in turn. In one thread the time on the processor is measured beside the time on the clock: it suffers less when
the machine is shared.
"""

from __future__ import annotations

import itertools
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks import methods
from benchmarks.tables import table

if TYPE_CHECKING:
    from benchmarks.instances import Instance
    from benchmarks.registry import Keep, Registry

CONTESTANTS = (
    "kernel",
    "first-order",
    "auto",
    "direct",
    "columns",
    *(f"benders {name}" for name in methods.PARTITIONERS),
)
ALLOWED_RATIO = 1.3  # of auto's seconds to those of the best single method
CUT_OFF, CUT_OFF_AUTO, GRACE = 1.0, 4.0, 0.5  # a method gets so many times the best so far, and seconds on top
RETRY_FACTOR = 3.0  # times the limit, for methods that had too little processor time to decide the comparison
RERUN_RATIO = 2.0  # contestants within so many times the best are run again
LONG_SECONDS = 20.0  # longer runs are done once, since their processor time varies little


@dataclass
class Runs:
    """The runs of one method on one instance: wall time and processor time in seconds."""

    clock: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    reached: bool = True
    gap: float = 1.0
    is_cut_off: bool = False
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
    # a run that the limit stopped may be close enough by chance, but the method itself would have continued
    runs.is_cut_off = runs.is_cut_off or runs.clock[-1] >= limit or result.status.value == "limit"
    runs.reached = runs.reached and result.status.value == "optimal" and not runs.is_cut_off
    runs.choices = [
        f"{row.get('records', 'all')}: {row['method']} ({row['reason']})"
        for row in result.trace.rows
        if row["stage"] == "choice"
    ]
    runs.stages = {}
    for row in result.trace.rows:
        runs.stages[row["stage"]] = runs.stages.get(row["stage"], 0) + 1


def compare(
    instance: Instance, contestants: tuple[str, ...], *, gap: float, limit: float, repetitions: int
) -> dict[str, Any]:
    """Run all contestants on one instance; return the row of the table."""
    found, best, best_clock = _first_round(instance, contestants, gap=gap, limit=limit)
    near = [name for name, runs in found.items() if runs.reached and runs.seconds <= RERUN_RATIO * best]
    for name in undecided(found):  # once more, with enough time to decide on a busy machine
        found[name] = Runs()
        run_once(instance, name, found[name], gap=gap, limit=min(limit, RETRY_FACTOR * CUT_OFF * best_clock + GRACE))
    singles = {name: runs.seconds for name, runs in found.items() if runs.reached and name != "auto"}
    first = min(singles, key=lambda name: singles[name], default="auto")
    # auto and the best single method are among them: one slow first call must not make auto look good
    again = [name for name in contestants if name in (*near, "auto", first)]
    for _ in range(repetitions - 1) if best < min(limit, LONG_SECONDS) else ():
        for name in again:
            run_once(instance, name, found[name], gap=gap, limit=limit)
    winner, ratio = _winner(found)
    outcome = {"gap": gap, "winner": winner, "undecided": undecided(found), "ratio": ratio}
    return _features(instance) | outcome | {"methods": {name: vars(runs) for name, runs in found.items()}}


def _first_round(
    instance: Instance, contestants: tuple[str, ...], *, gap: float, limit: float
) -> tuple[dict[str, Runs], float, float]:
    """Run all contestants once with the time of the best so far; return also its processor and wall time."""
    found: dict[str, Runs] = {}
    best = best_clock = limit
    for name in contestants:
        runs = found[name] = Runs()
        times = CUT_OFF_AUTO if name == "auto" else CUT_OFF
        run_once(instance, name, runs, gap=gap, limit=min(limit, times * best_clock + GRACE))
        if runs.reached:
            best, best_clock = min(best, runs.seconds), min(best_clock, runs.clock[0])
    return found, best, best_clock


def _winner(found: dict[str, Runs]) -> tuple[str | None, float | None]:
    """Return the best single method, and how many times its seconds auto took."""
    reached = {name: runs.seconds for name, runs in found.items() if runs.reached and name != "auto"}
    if not reached and found["auto"].reached:  # of the others only a lower bound on their time is known
        cut_off = [runs.seconds for name, runs in found.items() if name != "auto" and runs.is_cut_off]
        reached = {"auto": min(cut_off, default=found["auto"].seconds)}
    winner = min(reached, key=lambda name: reached[name]) if reached else None
    return winner, found["auto"].seconds / reached[winner] if winner and found["auto"].reached else None


def _features(instance: Instance) -> dict[str, Any]:
    problem = instance.problem()
    graph = problem.graph
    return {
        "instance": instance.name,
        "dataset": instance.dataset,
        "n": instance.n,
        "outputs": instance.n_outputs,
        "exponent": instance.exponent,
        "seed": instance.seed,
        "pairs": graph.n_pairs,
        "pairs_per_record": graph.n_pairs / graph.n,
        "largest_component": max(len(rows) for rows in graph.components),
        "components": graph.n_components,
        "exponents": [float(problem.epsilon * end) for end in (graph.distances.min(), graph.distances.max())],
    }


def undecided(found: dict[str, Runs]) -> list[str]:
    """Return the methods that the limit stopped before they had enough processor time to decide the comparison."""
    needed = found["auto"].seconds / ALLOWED_RATIO
    return [name for name, runs in found.items() if name != "auto" and runs.is_cut_off and runs.seconds < needed]


def markdown(rows: list[dict[str, Any]]) -> str:
    """Return processor seconds of each method and auto over the best; then where auto is too slow, and why."""
    names = list(dict.fromkeys(name for row in rows for name in row["methods"]))
    head = ("instance", "pairs / record", "gap", *names, "auto / best")
    cells = []
    for row in rows:
        times = [_cell(row["methods"].get(name)) for name in names]
        cells.append(
            (row["instance"], f"{row['pairs_per_record']:.1f}", f"{100 * row['gap']:g} %", *times, _ratio_cell(row))
        )
    return table(head, cells) + "\n" + "\n".join(losses(rows)) + "\n"


def verdict(row: dict[str, Any]) -> str:
    """Return "met", "slower", "undecided" (a rival had too little time) or "unsolved" (nobody reached the gap)."""
    if row["winner"] is None:
        return "unsolved"
    if row["ratio"] is None or row["ratio"] > ALLOWED_RATIO:
        return "slower"
    return "undecided" if row["undecided"] else "met"


def losses(rows: list[dict[str, Any]]) -> list[str]:
    """Return the comparisons that auto did not meet, with its choices; then how often it met them."""
    lines = []
    for row in rows:
        found = verdict(row)
        if found == "slower":
            why = "; ".join(row["methods"]["auto"]["choices"]) or "no component was large enough for a choice"
            text = f"auto / best = {_ratio_cell(row)}, best is {row['winner']}; auto took {why}"
        elif found == "undecided":
            text = f"auto / best = {_ratio_cell(row)}"
        else:
            text = "no method reached the gap" if row["methods"] else "not tried: nobody reached a larger gap"
        if found != "met":
            lines.append(f"- {_where(row)}: {text}")
    met = sum(verdict(row) == "met" for row in rows)
    unsolved = sum(verdict(row) == "unsolved" for row in rows)
    share = f"{met} of {len(rows) - unsolved} comparisons" + (f"; nobody solved {unsolved} more" if unsolved else "")
    rivals = ", ".join(dict.fromkeys(name for row in rows for name in row["methods"] if name != "auto"))
    return [*lines, f"- auto took at most {ALLOWED_RATIO} times the best of {rivals} in {share}"]


def _where(row: dict[str, Any]) -> str:
    return f"{row['instance']}, gap {100 * row['gap']:g} %"


def _cell(runs: dict[str, Any] | None) -> str:
    if runs is None:
        return "not run"
    seconds = statistics.median(runs["processor"])
    if runs["reached"]:
        return f"{seconds:.2f}"
    return f"> {seconds:.2f} (cut off)" if runs["is_cut_off"] else f"not reached: {100 * runs['gap']:.2g} %"


def _ratio_cell(row: dict[str, Any]) -> str:
    if row["winner"] is None:
        return "none reached it" if row["methods"] else "not tried"
    if row["ratio"] is not None:
        open_ones = row["undecided"]
        is_alone = row["winner"] == "auto"
        notes = ["only auto reached it"] if is_alone else []
        notes += [f"undecided: {', '.join(open_ones)} had too little time"] if open_ones else []
        return ("at most " if is_alone else "") + f"{row['ratio']:.2f}" + (f" ({'; '.join(notes)})" if notes else "")
    ours, best = row["methods"]["auto"], row["methods"][row["winner"]]
    lower = statistics.median(ours["processor"]) / statistics.median(best["processor"])
    return f"> {lower:.2f} (cut off)" if ours["is_cut_off"] else "not reached"


def run(registry: Registry, *, seed: int, keep: Keep, profile: bool = False) -> dict[str, Any]:  # noqa: ARG001  (the others' signature)
    """Compare on all instances of the registry."""
    methods.warm_up()
    contestants = tuple(name for name in CONTESTANTS if name == "auto" or name in registry.ours)
    if contestants == ("auto",):
        raise SystemExit("auto needs a method to be compared with: name other methods after --ours")
    rows: list[dict[str, Any]] = []
    for instance, gap in itertools.product(registry.instances(seed), sorted(registry.gaps, reverse=True)):
        last = rows[-1] if rows else None
        if last is not None and last["instance"] == instance.name and last["winner"] is None:
            row = last | {"gap": gap, "methods": {}}  # nobody reached a larger gap: not tried, and counted as unsolved
        else:
            row = compare(instance, contestants, gap=gap, limit=registry.limit, repetitions=registry.repetitions)
        rows.append(row)
        keep([row])
        print(f"{_where(row)}: auto / best = {_ratio_cell(row)}, best {row['winner']}", flush=True)
    if not rows:
        raise SystemExit("no instance is left to compare: choose other --datasets, --sizes or --exponents")
    print("\n".join(losses(rows)))
    return {"allowed": ALLOWED_RATIO, "rows": rows, "markdown": markdown(rows)}
