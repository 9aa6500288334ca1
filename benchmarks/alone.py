"""One solve in a process of its own: ``python -m benchmarks.alone CASE``; how long it took, and its memory.

The process is a user's: nothing is warmed up in it. Compiled kernels come from the cache, which the first run fills.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.processes import ROOT, forget_peak, held_mb, peak_mb

CENTRE = (57.7072, 11.9668)  # of Gothenburg: degrees


@dataclass(frozen=True)
class Case:
    """A method on records drawn from a dataset, with a limit in seconds, in iterations or in gigabytes.

    "centre" are the records nearest to the middle of Gothenburg, all of them outputs, with distances as losses; in the
    "uneven centre" some are a million times as likely as others.
    """

    method: str
    dataset: str
    n: int
    n_outputs: int
    eta: float
    epsilon: float
    gap: float = 0.001
    limit: float | None = None
    max_iterations: int = 200_000
    memory_limit: float | None = None
    seed: int = 0

    @property
    def name(self) -> str:
        sizes = f"{self.dataset} {self.n:,} x {self.n_outputs:,}, eta {self.eta:g}, epsilon {self.epsilon:g}"
        return f"{sizes}, seed {self.seed}" if self.seed else sizes


def run_alone(case: Case, *, seconds: float = 3600.0) -> dict[str, Any]:
    """Run a case in a new process and return what it measured; ``failed`` says why if there is nothing."""
    words = [sys.executable, "-W", "ignore", "-m", "benchmarks.alone", json.dumps(asdict(case))]
    try:
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"not done in {seconds:g} s"}
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"ended with code {done.returncode}"]
        return {"failed": lines[-1][-200:]}
    return json.loads(done.stdout.splitlines()[-1])


def problem_of(case: Case) -> Any:
    import numpy as np

    import metricdp as mdp
    from benchmarks.instances import rome_nodes

    if case.dataset == "rome":
        nodes = rome_nodes()
        records = nodes if case.n >= nodes.n else nodes.sample(case.n, seed=case.seed)
    elif case.dataset in ("centre", "uneven centre"):
        records = mdp.data.road("gothenburg").nearest(CENTRE, case.n)
        if case.dataset == "uneven centre":
            records = records.with_prior(np.random.default_rng(case.seed).exponential(size=case.n) ** 2)
        return mdp.Problem(records, epsilon=case.epsilon, eta=case.eta, loss="distance", memory_limit=case.memory_limit)
    elif case.dataset == "gothenburg":
        records = mdp.data.road("gothenburg", n=case.n, seed=case.seed)
    else:
        records = {"words": mdp.data.words, "gaussian": mdp.data.gaussian}[case.dataset](n=case.n, seed=case.seed)
    return mdp.Problem(
        records, epsilon=case.epsilon, eta=case.eta, outputs=case.n_outputs, memory_limit=case.memory_limit
    )


def main() -> None:
    import metricdp as mdp
    from metricdp.solve.contract import WholeMethod, solver_for
    from metricdp.solve.memory import expected_peak

    case = Case(**json.loads(sys.argv[1]))
    problem = problem_of(case)
    built = peak_mb()
    kinds = {"first-order": mdp.FirstOrderOptions, "local": mdp.LocalOptions}
    options = kinds[case.method](max_iterations=case.max_iterations) if case.method in kinds else None
    before = held_mb()
    method = solver_for(case.method, options)
    if isinstance(method, WholeMethod):
        predicted = 1e6 * before + method.bytes_for(problem, case.gap)
    else:
        predicted = expected_peak(problem, method, gap=case.gap)
    forget_peak()
    clock, processor = time.perf_counter(), time.process_time()
    result = mdp.solve(problem, method=case.method, gap=case.gap, time_limit=case.limit, options=options)
    answer = {
        "taken": time.perf_counter() - clock,
        "processor": time.process_time() - processor,
        "pairs": problem.graph.n_pairs,
        "built_mb": built,
        "before_mb": before,
        "predicted_mb": predicted / 1e6,
        "peak_mb": max(peak_mb(), built),
        "status": result.status.value,
        "solver": result.mechanism.solver,
        "gap": result.gap,
        "gave_up": [row["reason"] for row in result.trace.rows if row["stage"] == "gave up"],
        "trouble": [row["trouble"] for row in result.trace.rows if "trouble" in row],
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
