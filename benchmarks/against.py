"""`auto` against its best single method, and against another version of the library, in one run.

    python -m benchmarks.against --old PATH [--seeds 21 22] [--sizes 30 100 300 500] [--out FILE]

PATH is a checkout of the other version. Each version has a process of its own that stays warm; they solve in turn, on
one core, and processor seconds count. A single method gets half of the seconds that `auto` took, and a little more:
what does not reach the gap by then is not twice as fast.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

DATASETS, EXPONENTS, GAPS = ("road", "grid", "text", "synthetic"), (0.2, 1.0, 4.0), (0.01, 0.001, 0.0001)
SINGLE = ("interior", "first-order", "direct", "columns", "kernel")
LIMIT = 60.0  # seconds
HALF, LEAST = 0.55, 0.25  # of the seconds of `auto`, and seconds, for single methods


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker", action="store_true")
    parser.add_argument("--old", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[21, 22])
    parser.add_argument("--sizes", type=int, nargs="+", default=[30, 100, 300, 500])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/against.jsonl"))
    arguments = parser.parse_args()
    if arguments.worker:
        work()
    else:
        compare(arguments)


def work() -> None:
    """Answer one question a line: solve an instance, and say how long it took."""
    import metricdp as mdp
    from benchmarks.instances import Instance

    for line in sys.stdin:
        question = json.loads(line)
        problem = Instance(**question["instance"]).problem()
        options = {"method": question["method"], "gap": question["gap"], "time_limit": question["limit"], "threads": 1}
        clock, begin = time.perf_counter(), time.process_time()
        result = mdp.solve(problem, **options)
        answer = {"seconds": time.process_time() - begin, "clock": time.perf_counter() - clock}
        print(json.dumps({**answer, "is_reached": result.status.value == "optimal"}), flush=True)


class Worker:
    """A process with one version of the library."""

    def __init__(self, root: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--worker"]
        self.process = subprocess.Popen(
            command, cwd=root, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, instance: dict[str, Any], method: str, gap: float, limit: float) -> dict[str, Any]:
        question = {"instance": instance, "method": method, "gap": gap, "limit": limit}
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def compare(arguments: argparse.Namespace) -> None:
    root = Path(__file__).resolve().parents[1]
    new = Worker(root)
    old = Worker(arguments.old.resolve()) if arguments.old else None
    warm = {"dataset": "grid", "n": 36, "n_outputs": 12, "exponent": 1.0, "seed": 0}
    for method in ("auto", *SINGLE):
        new.ask(warm, method, 0.01, 10.0)
        if old is not None and method != "interior":
            old.ask(warm, method, 0.01, 10.0)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    with arguments.out.open("a") as out:
        for seed in arguments.seeds:
            for n in arguments.sizes:
                for instance in instances(n, seed):
                    for gap in GAPS:
                        rows.append(row(new, old, instance, gap))
                        out.write(json.dumps(rows[-1]) + "\n")
                        out.flush()
    print(summary(rows))


def instances(n: int, seed: int) -> list[dict[str, Any]]:
    return [
        {"dataset": dataset, "n": n, "n_outputs": min(n, 100), "exponent": exponent, "seed": seed}
        for exponent in EXPONENTS
        for dataset in DATASETS
    ]


def row(new: Worker, old: Worker | None, instance: dict[str, Any], gap: float) -> dict[str, Any]:
    auto = new.ask(instance, "auto", gap, LIMIT)
    before = old.ask(instance, "auto", gap, LIMIT) if old is not None else None
    # limits are those of the clock, which runs faster than the processor's where others use it, too
    limit = max(LEAST, HALF * auto["seconds"]) * max(1.0, 1.2 * auto["clock"] / auto["seconds"])
    single = {method: new.ask(instance, method, gap, limit) for method in SINGLE}
    return {**instance, "gap": gap, "auto": auto, "before": before, "single": single}


def summary(rows: list[dict[str, Any]]) -> str:
    """How often a single method was twice as fast, and the sums of both versions."""
    lost = []
    for found in rows:
        reached = {name: one["seconds"] for name, one in found["single"].items() if one["is_reached"]}
        best = min(reached, key=reached.__getitem__, default=None)
        if best is not None and reached[best] > 0.2 and found["auto"]["seconds"] > 2.0 * reached[best]:
            ratio = found["auto"]["seconds"] / reached[best]
            name = f"{found['dataset']} {found['n']}, epsilon d = {found['exponent']}, gap {found['gap']}"
            lost.append(f"  {name}, seed {found['seed']}: {ratio:.2f} times {best}")
    total = sum(found["auto"]["seconds"] for found in rows)
    before = sum(found["before"]["seconds"] for found in rows if found["before"])
    kinds = [[found[kind]["is_reached"] for found in rows if found[kind]] for kind in ("auto", "before")]
    unsolved = [len(kind) - sum(kind) for kind in kinds]
    return "\n".join(
        [
            f"{len(rows)} comparisons: {len(lost)} in which a single method was twice as fast and took more than 0.2 s",
            *lost,
            f"all together {total:.1f} s, the other version {before:.1f} s; not solved in {LIMIT:g} s: {unsolved}",
        ]
    )


if __name__ == "__main__":
    main()
