"""Regions on a real Dask cluster of this machine: a city against one process, and a synthetic country that grows.

    METRICDP_BENCH_PARTS="city country" python -m benchmarks country [--sizes N ...]

``city`` is all of Rome on 2 workers of 2 GB each, and in one process. ``country`` are places of
`tools/make_country.py` on 2 workers of 3 GB each, and what its growth says of 1.7 million.
"""

from __future__ import annotations

import json
import math
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.places import growth_line
from benchmarks.tables import fit_exponent, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.registry import Keep

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("city", "country")
ETA, EPSILON = 0.3, 10.0
CITY_GAP, COUNTRY_GAP = 0.02, 0.05
CITY_GB, COUNTRY_GB = 2.0, 3.0  # of each worker
N_WORKERS = 2
SIZES = (10_000, 50_000, 250_000)
POSTCODES = 1_700_000
HEAD = (
    "places = outputs",
    "where",
    "regions",
    "gap %",
    "wall s",
    "processor s, all processes",
    "moved MB",
    "peak MB here",
    "peak MB of a worker",
    "stored entries",
    "certificate s",
    "steps",
)


def run(*, keep: Keep, sizes: Sequence[int] | None = None) -> dict[str, Any]:
    """Run the parts that METRICDP_BENCH_PARTS names, all by default."""
    wanted = os.environ.get("METRICDP_BENCH_PARTS", " ".join(PARTS)).split()
    tasks: list[dict[str, Any]] = []
    if "city" in wanted:
        rome = {"places": "rome", "n": 43_160, "gap": CITY_GAP}
        tasks += [{**rome, "workers": N_WORKERS, "worker_gb": CITY_GB}, {**rome, "workers": 0}]
    if "country" in wanted:
        made = {"places": "country", "gap": COUNTRY_GAP, "workers": N_WORKERS, "worker_gb": COUNTRY_GB}
        tasks += [{**made, "n": n} for n in sizes or SIZES]
    rows = []
    for task in tasks:
        words = [sys.executable, "-W", "ignore", "-m", "benchmarks.country", json.dumps(task)]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        answer = json.loads(lines[-1]) if done.returncode == 0 and lines else {"failed": done.stderr.strip()[-300:]}
        rows.append({**task, **answer})
        keep(rows[-1:])
        print("  ".join(cells(rows[-1])), flush=True)
    text = table(HEAD, [cells(row) for row in rows])
    own = [row for row in rows if row["places"] == "country" and "failed" not in row]
    if len(own) > 1:
        for what in ("seconds", "processor", "moved_mb", "stored"):
            sizes_, values = [row["n"] for row in own], [row[what] for row in own]
            fit = fit_exponent(sizes_, values)
            text += "\n" + growth_line(what, sizes_, values)
            if fit is not None:
                value = values[-1] * math.exp(fit["exponent"] * math.log(POSTCODES / sizes_[-1]))
                text += f"; {value:.3g} at {POSTCODES:,}"
    return {"rows": rows, "markdown": text}


def cells(row: dict[str, Any]) -> list[str]:
    """Return a run as cells."""
    where = f"{row['workers']} workers of {row['worker_gb']:g} GB" if row["workers"] else "one process"
    if "failed" in row:
        return [f"{row['n']:,}", where, row["failed"], *[""] * (len(HEAD) - 3)]
    return [
        f"{row['n']:,}",
        where,
        str(row["regions"]),
        f"{100 * row['gap']:.2f}",
        f"{row['seconds']:.0f}",
        f"{row['processor']:.0f}",
        f"{row['moved_mb']:.0f}",
        f"{row['peak_mb']:.0f}",
        f"{row['worker_peak_mb']:.0f}" if row["workers"] else "",
        f"{row['stored']:,}",
        f"{row['certificate_seconds']:.1f}",
        f"{row['steps']:,}",
    ]


def solve_task(task: dict[str, Any]) -> dict[str, Any]:
    """Solve in this process, or on a cluster of its own."""
    import distributed

    import metricdp as mdp
    from benchmarks.place_process import Clock, contiguous
    from benchmarks.processes import peak_mb

    records = contiguous("rome", task["n"]) if task["places"] == "rome" else mdp.Records(country_places(task["n"]))
    problem = mdp.Problem(records, epsilon=EPSILON, eta=ETA, loss="distance")
    usage: dict[str, Any] = {"processor": 0.0, "worker_peak_mb": 0.0}

    def show(row: dict[str, Any]) -> None:
        if row["stage"] in ("windows", "local", "regions"):
            print(row, file=sys.stderr, flush=True)

    clock = Clock()
    if not task["workers"]:
        result = mdp.solve(problem, method="local", gap=task["gap"], listener=show)
    else:
        with distributed.LocalCluster(
            n_workers=task["workers"],
            threads_per_worker=1,
            memory_limit=f"{task['worker_gb']}GB",
            dashboard_address=":0",
        ) as cluster:
            result = mdp.solve(
                problem, method="local", gap=task["gap"], cluster=cluster.scheduler_address, listener=show
            )
            with distributed.Client(cluster, set_as_default=False) as client:
                for seconds, peak in client.run(_used).values():
                    usage["processor"] += seconds
                    usage["worker_peak_mb"] = max(usage["worker_peak_mb"], peak)
    taken = clock.read()
    rows = result.trace.rows
    last = [row for row in rows if row["stage"] == "local"][-1]
    return {
        **usage,
        "seconds": taken["seconds"],
        "processor": taken["processor"] + usage["processor"],
        "regions": last.get("regions", 1),
        "moved_mb": last.get("bytes_moved", 0) / 1e6,
        "lost": last.get("lost", 0),
        "peak_mb": peak_mb(),
        "gap": result.gap,
        "loss": result.loss,
        "status": result.status.value,
        "stored": result.mechanism.table.n_stored,
        "certificate_seconds": next(row for row in rows if row["stage"] == "certificate")["check_seconds"],
        "steps": result.iterations,
        "pairs": problem.graph.n_pairs,
    }


def _used() -> tuple[float, float]:
    """Return the processor seconds of a worker, and its peak of memory in MB."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    # not ru_maxrss: a process inherits that from the one that started it
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    peak = next(float(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return used.ru_utime + used.ru_stime, peak / 1e3


def country_places(n: int) -> Any:
    """Return places of the synthetic country."""
    return runpy.run_path(str(ROOT / "tools" / "make_country.py"))["country"](n)


if __name__ == "__main__":
    print(json.dumps(solve_task(json.loads(sys.argv[1]))))
