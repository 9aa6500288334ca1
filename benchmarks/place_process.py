"""One task on contiguous places in a process of its own, also with another version of the library.

The file is started by its path, with the library of a checkout before all others (`ask`): it must not use what older
versions do not have. A small problem of the same kind is solved first, so that imports and compiled code are loaded;
seconds and peak memory are those of the task alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CENTRES = {"rome": (41.8955, 12.4823), "gothenburg": (57.7072, 11.9668)}
WARM_UP_RECORDS = 60
DRAW_ROUNDS = 5


def ask(task: dict[str, Any], *, root: Path = ROOT, seconds: float = 7200.0) -> dict[str, Any]:
    """Do a task with the library of the checkout ``root``: what was measured, or ``failed`` and why."""
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}"}
    # -P: the folder of this file has a module named statistics, which must not stand before Python's own
    words = [sys.executable, "-P", "-W", "ignore", str(Path(__file__).resolve()), json.dumps(task)]
    try:
        done = subprocess.run(
            words, cwd=root, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"not done in {seconds:g} s"}
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"ended with code {done.returncode}"]
        return {"failed": lines[-1][-200:]}
    return json.loads(done.stdout.splitlines()[-1])


def contiguous(city: str, n: int) -> Any:
    """Return the ``n`` intersections nearest to the centre of a city, or None if there is no data of it."""
    import numpy as np

    import metricdp as mdp
    from benchmarks.instances import rome_nodes
    from metricdp.data.geodesy import haversine_km

    records = rome_nodes() if city == "rome" else mdp.data.road(city)
    if records is None or n >= records.n:
        return records
    away = haversine_km(records.coordinates, np.array(CENTRES[city]))
    return records.select(np.sort(np.argsort(away, kind="stable")[:n]))


class Clock:
    """Wall and processor seconds since it was made."""

    def __init__(self) -> None:
        self._wall, self._processor = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        return {"seconds": time.perf_counter() - self._wall, "processor": time.process_time() - self._processor}


def solve_places(task: dict[str, Any]) -> dict[str, Any]:
    """Solve with every place an output; the table is saved where the task asks for it."""
    import metricdp as mdp
    from benchmarks.processes import forget_peak, held_mb, peak_mb

    options = {"method": task["method"], "gap": task["gap"], "time_limit": task.get("limit")}
    if task["method"] == "direct":
        options["options"] = mdp.DirectOptions(**task["options"])
    mdp.solve(_problem(contiguous(task["city"], WARM_UP_RECORDS), task), **options)
    records = contiguous(task["city"], task["n"])
    forget_peak()
    before, clock = held_mb(), Clock()
    problem = _problem(records, task)
    made = clock.read()
    result = mdp.solve(problem, **options)
    taken, peak, table = clock.read(), peak_mb(), result.mechanism.table
    check = next(row for row in result.trace.rows if row["stage"] == "certificate")
    stored = table.n_stored if hasattr(table, "n_stored") else table.size
    answer = {
        **taken,
        "problem_seconds": made["seconds"],
        "certificate_seconds": check["check_seconds"],
        "before_mb": before,
        "peak_mb": peak,
        "pairs": problem.graph.n_pairs,
        "components": problem.graph.n_components,
        "status": result.status.value,
        "solver": result.mechanism.solver,
        "steps": result.iterations,
        "loss": result.loss,
        "lower_bound": result.lower_bound,
        "gap": result.gap,
        "stored": stored,
        "stages": [row for row in result.trace.rows if row["stage"] in ("windows", "local", "repair", "grown")],
    }
    if "file" in task:
        clock = Clock()
        result.mechanism.save(task["file"])
        answer["save_seconds"] = clock.read()["seconds"]
        answer["file_mb"] = Path(task["file"]).stat().st_size / 1e6
    return answer


def _problem(records: Any, task: dict[str, Any]) -> Any:
    import metricdp as mdp

    return mdp.Problem(records, epsilon=task["epsilon"], eta=task["eta"], outputs=range(records.n), loss="distance")


def load_places(task: dict[str, Any]) -> dict[str, Any]:
    """Load a file, which certifies it again, and draw reports of random records from it."""
    import numpy as np

    import metricdp as mdp
    from benchmarks.processes import forget_peak, held_mb, peak_mb

    small = mdp.solve(_problem(contiguous(task["city"], WARM_UP_RECORDS), task), method="local", gap=0.1).mechanism
    small_file = Path(task["file"]).with_suffix(".small.mdp")
    small.save(small_file)
    mdp.load(small_file).perturb_rows(np.arange(WARM_UP_RECORDS))
    small_file.unlink()
    forget_peak()
    before, clock = held_mb(), Clock()
    mechanism = mdp.load(task["file"])
    answer = {f"load_{name}": value for name, value in clock.read().items()}
    answer |= {"load_peak_mb": peak_mb() - before, "held_mb": held_mb() - before}
    rows = np.random.default_rng(0).integers(0, mechanism.records.n, task["n_draws"])
    rounds = []
    for _ in range(DRAW_ROUNDS):  # the first makes the sums that draws are compared with
        clock = Clock()
        reports = mechanism.perturb_rows(rows, allow_unprotected=True)
        rounds.append(clock.read()["seconds"])
    answer |= {"draw_seconds": rounds, "draws_per_second": len(reports) / sorted(rounds)[len(rounds) // 2]}
    return answer | {"held_after_draws_mb": held_mb() - before}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps({"solve": solve_places, "load": load_places}[given["kind"]](given)))
