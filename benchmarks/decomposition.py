"""The Benders decomposition: against the full LP, each acceleration switched off, more records, threads.

Seconds are of whole calls of `mdp.solve`, with repair and certificate. They depend on the machine and on what else it
does; ratios within this run do not, or less so.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace

import metricdp as mdp
from benchmarks.instances import rome_nodes, rome_or_gothenburg
from benchmarks.measure import interleaved
from metricdp.solve.solvers.benders import BendersOptions

BLOCKS = 25
PARTITIONERS = ("k-m-dv", "k-m-rec", "k-m-adj", "bsc", "metis")
ACCELERATIONS = (
    "halo cuts",
    "one-sided separator",
    "lazy master rows",
    "elastic subproblems",
    "unit-sum cuts",
    "in-out steps",
    "repair in every iteration",
)
GAPS = {"1 %": 0.01, "0.1 %": 0.001}
PAPER_SECONDS, PAPER_ITERATIONS = 290.7, 128  # k-m-DV on Rome, mean of ten instances
CAVEAT = (
    "the paper's time is of 16 cores and MATLAB, and its published code slackens every mDP row by 0.01, so it solves "
    "an easier problem whose answer is not epsilon-mDP: the ratio shows the order of magnitude and no more"
)
# seconds; less at epsilon 5, where what is not done after 20 was not done after 60 either
ABLATION_LIMIT = {10.0: 60.0, 5.0: 20.0}
MORE_RECORDS = ((1000, 10.0), (1000, 5.0), (2000, 10.0))


def run() -> dict:
    return {
        "full_lp": against_the_full_lp(),
        "ablation": {f"epsilon {epsilon:g}": ablation(epsilon) for epsilon in ABLATION_LIMIT},
        "ablation_without_halo": ablation_without_halo(),
        "more_records": more_records(),
        "threads": threads(),
    }


def against_the_full_lp() -> dict:
    """(a) All partitioners against HiGHS's dual simplex on all rows, and against our own direct solver."""
    name, problem = rome_or_gothenburg(epsilon=10.0)
    contestants = {
        f"{partitioner}, {label}": (lambda p=partitioner, g=gap: decompose(problem, p, g))
        for partitioner in PARTITIONERS
        for label, gap in GAPS.items()
    }
    full = "HiGHS dual simplex, all rows"
    contestants["direct, lazy rows, 0.1 %"] = lambda: mdp.solve(problem, method="direct", gap=0.001)
    contestants[full] = lambda: mdp.solve(
        problem, method="direct", gap=0.001, options=mdp.DirectOptions(all_rows=True, tolerance=1e-7)
    )
    timings = interleaved(contestants)
    slowest = timings[full].median
    rows = {}
    print(f"{name}, epsilon 10, {BLOCKS} blocks, against {full}: {timings[full]}")
    for contestant, timing in timings.items():
        result = timing.value
        rows[contestant] = {
            "seconds": timing.seconds,
            "iterations": iterations(result),
            "own_gap": own_gap(result),
            "certified_gap": result.gap,
            "full_lp_over_this": slowest / timing.median,
            "paper_over_this": PAPER_SECONDS / timing.median,
        }
        print(
            f"  {contestant}: {timing}, {iterations(result)} iterations, gap {own_gap(result):.1e} "
            f"(certified {result.gap:.1e}), {slowest / timing.median:.1f} times faster than the full LP"
        )
    if name.startswith("Rome"):
        ours = " and ".join(f"{PAPER_SECONDS / timings[f'k-m-dv, {label}'].median:.0f} ({label})" for label in GAPS)
        print(f"  the paper needed {PAPER_SECONDS} s ({PAPER_ITERATIONS} iterations) to 1 %: {ours} times k-m-DV here")
        print(f"  ({CAVEAT})")
    return {"instance": name, "paper_caveat": CAVEAT, "rows": rows}


def ablation(epsilon: float) -> dict:
    """(b) Everything on, each acceleration off in turn, and the textbook form; one run each, down to 0.1 %."""
    configurations = {"all on": BendersOptions()}
    configurations |= {f"without {name}": BendersOptions().without(name) for name in ACCELERATIONS}
    configurations["textbook"] = BendersOptions.textbook()
    return _ablation(epsilon, configurations, ("k-m-dv", "metis"))


def ablation_without_halo() -> dict:
    """(b) The effect of the others without halo cuts: a second acceleration is off as well."""
    base = BendersOptions().without("halo cuts")
    configurations = {"without halo cuts": base}
    configurations |= {f"and without {name}": base.without(name) for name in ACCELERATIONS if name != "halo cuts"}
    return _ablation(10.0, configurations, ("metis",))


def _ablation(epsilon: float, configurations: dict[str, BendersOptions], partitioners: tuple[str, ...]) -> dict:
    name, problem = rome_or_gothenburg(epsilon=epsilon)
    limit = ABLATION_LIMIT[epsilon]
    print(f"{name}, epsilon {epsilon:g}, {BLOCKS} blocks, one run each, at most {limit:g} s")
    rows: dict[str, dict] = {}
    for title, options in configurations.items():
        for partitioner in partitioners:
            result = decompose(problem, partitioner, GAPS["0.1 %"], options, time_limit=limit)
            found = {label: Reached.of(result, gap) for label, gap in GAPS.items()}
            rows[f"{title}, {partitioner}"] = {label: vars(reached) for label, reached in found.items()}
            print(f"  {title}, {partitioner}: " + "; ".join(f"{label} {reached}" for label, reached in found.items()))
    return {"instance": name, "time_limit": limit, "rows": rows}


def more_records() -> dict:
    """(c) 1,000 and 2,000 records and 100 outputs to 0.1 %, about 20 records per block; one run each."""
    nodes = rome_nodes()
    rows: dict[str, dict] = {}
    for n, epsilon in MORE_RECORDS:
        if nodes is None:
            name, eta, records = "Gothenburg", 0.5, mdp.data.road("gothenburg", n=n, seed=0)
        else:
            name, eta, records = "Rome", 2.0, nodes.sample(n, seed=0)
        problem = mdp.Problem(records, epsilon=epsilon, eta=eta, outputs="random:100")
        results = {p: decompose(problem, p, 0.001, n_blocks=n // 20) for p in ("k-m-dv", "metis")}
        results["direct, lazy rows"] = mdp.solve(problem, method="direct", gap=0.001)
        for method, result in results.items():
            title = f"{name} {n:,} x 100, epsilon {epsilon:g}, {method}"
            rows[title] = {"seconds": result.seconds, "iterations": iterations(result), "own_gap": own_gap(result)}
            print(f"{title}: {result.seconds:.2f} s, {iterations(result)} iterations, gap {own_gap(result):.1e}")
    return rows


def threads() -> dict:
    """(d) Seconds in subproblems with one and two threads: 10 iterations without halo cuts, three rounds in turn."""
    name, problem = rome_or_gothenburg(epsilon=10.0)
    options = replace(BendersOptions().without("halo cuts"), max_iterations=10)
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(3):
        for count, spent in seconds.items():
            result = decompose(problem, "metis", 1e-6, options, threads=count)
            spent.append(sum(row["block_seconds"] for row in benders_rows(result)))
    ratio = statistics.median(seconds[1]) / statistics.median(seconds[2])
    for count, spent in seconds.items():
        print(f"{name}, subproblems with {count} thread(s): {statistics.median(spent):.3g} s in 10 iterations")
    print(f"two threads are {ratio:.2f} times as fast")
    return {"instance": name, "seconds": {str(count): spent for count, spent in seconds.items()}, "ratio": ratio}


def decompose(
    problem: mdp.Problem,
    partitioner: str,
    gap: float,
    options: BendersOptions | None = None,
    *,
    n_blocks: int = BLOCKS,
    time_limit: float | None = None,
    threads: int | None = None,
) -> mdp.Result:
    return mdp.solve(
        problem,
        method="benders",
        gap=gap,
        options=replace(options or BendersOptions(), partition=partitioner, n_blocks=n_blocks),
        time_limit=time_limit,
        threads=threads,
    )


def benders_rows(result: mdp.Result) -> list[dict]:
    return [row for row in result.trace.rows if row["stage"] == "benders"]


def iterations(result: mdp.Result) -> int:
    """Return the decomposition's iterations; rounds of lazy rows in directly solved components do not count."""
    return max((row["iteration"] + 1 for row in benders_rows(result)), default=0)


def own_gap(result: mdp.Result) -> float:
    """Return the gap by the decomposition's own bounds; the certified mechanism can be a simpler and better one."""
    rows = {row["component"]: row for row in benders_rows(result)}
    return max((row["gap"] for row in rows.values()), default=result.gap)


@dataclass(frozen=True)
class Reached:
    """When every decomposed component had a gap, by its own bounds; or how far the worst one got."""

    is_reached: bool
    iterations: int
    seconds: float
    gap: float

    @classmethod
    def of(cls, result: mdp.Result, gap: float) -> Reached:
        rows = benders_rows(result)
        numbers = sorted({row["component"] for row in rows})
        ends = []
        for number in numbers:
            own = [row for row in rows if row["component"] == number]
            ends.append(next((row for row in own if row["gap"] <= gap), own[-1]))
        if not ends:
            return cls(is_reached=False, iterations=0, seconds=result.seconds, gap=1.0)
        worst = max(row["gap"] for row in ends)
        steps, seconds = max(row["iteration"] + 1 for row in ends), max(row["seconds"] for row in ends)
        return cls(is_reached=worst <= gap, iterations=steps, seconds=seconds, gap=worst)

    def __str__(self) -> str:
        if self.is_reached:
            return f"{self.seconds:.2f} s ({self.iterations} iterations)"
        how_far = "no upper bound" if self.gap >= 1.0 else f"gap {100 * self.gap:.2g} %"
        return f"not reached ({self.iterations} iterations in {self.seconds:.0f} s, {how_far})"
