"""One run in a process of its own: ``python -m benchmarks.worker TASK.json ANSWER.json``; only benchmarks call it.

The answer says how long it took and how much memory the process held before and at most. A peer's matrix and
multipliers go to the .npz file that the task names.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.processes import forget_peak, held_mb, peak_mb


def run_peer(task: dict) -> dict:
    from benchmarks.peers import PEERS, Program

    with np.load(task["problem"]) as data:
        program = Program(data["costs"], data["pairs"], data["distances"], float(data["epsilon"]))
    PEERS[task["method"]](_tiny(Program), task["tolerance"])  # imports and first calls are not timed, nor are ours
    forget_peak()
    before = held_mb()
    Path(task["started"]).touch()
    begin = time.perf_counter()
    Z, multipliers, word = PEERS[task["method"]](program, task["tolerance"])
    seconds = time.perf_counter() - begin
    answer = {"seconds": seconds, "before_mb": before, "peak_mb": peak_mb(), "word": word}
    arrays = {"Z": Z} if multipliers is None else {"Z": Z, "multipliers": multipliers}
    np.savez(task["matrix"], scale=program.scale, **arrays)
    return answer


def _tiny(program: type) -> Any:
    pairs = np.array([[0, 1], [1, 2]])
    return program(np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]]), pairs, np.ones(2), 1.0)


def run_ours(task: dict) -> dict:
    import metricdp as mdp
    from benchmarks import methods
    from benchmarks.instances import Instance
    from benchmarks.stages import hot_functions, shares

    problem = Instance(**task["instance"]).problem()
    small = mdp.Problem(mdp.data.grid(6, 6), epsilon=1.0, eta=1.5, outputs="random:12")
    for name in {task["method"], "first-order", "direct"}:  # compile; what auto chooses as well
        methods.solve(small, name, gap=0.05, time_limit=10.0)
    forget_peak()
    before = held_mb()
    Path(task["started"]).touch()
    begin = time.perf_counter()
    options = {"gap": task["gap"], "time_limit": task["limit"], "threads": task.get("threads")}
    if task.get("profile"):
        result, functions = hot_functions(lambda: methods.solve(problem, task["method"], **options))
    else:
        result, functions = methods.solve(problem, task["method"], **options), []
    return {
        "seconds": time.perf_counter() - begin,
        "before_mb": before,
        "peak_mb": peak_mb(),
        "word": result.status.value,
        "gap": result.gap,
        "loss": result.loss,
        "lower_bound": result.lower_bound,
        "is_certified": result.mechanism.certificate.privacy.certified,
        "iterations": result.iterations,
        "shares": shares(result),
        "functions": functions,
    }


def main() -> None:
    task = json.loads(Path(sys.argv[1]).read_text())
    try:
        answer = run_peer(task) if task["kind"] == "peer" else run_ours(task)
    except ImportError as error:
        answer = {"missing": str(error)}
    except Exception as error:  # noqa: BLE001  (whatever a peer does is reported)
        answer = {"failed": f"{type(error).__name__}: {error}"}
    Path(sys.argv[2]).write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
