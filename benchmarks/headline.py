"""The headline figures of docs/figures.md: the paper's instance to three gaps, and Rome from file to mechanism.

    METRICDP_BENCH_PARTS="paper city" python -m benchmarks headline

``paper``: processor seconds of `auto` on one core, compiled code loaded before, the median of three; then HiGHS IPX on
all rows, once, with METRICDP_BENCH_LIMIT seconds of the clock. ``city``: each run in a process of its own.
"""

from __future__ import annotations

import os
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import metricdp as mdp
from benchmarks.instances import ROME_CITY, ROME_SEED, Instance, rome_nodes, rome_problem
from benchmarks.interior import IPX, seconds_of
from benchmarks.scaling import limit, one_city
from benchmarks.tables import table

EPSILONS, GAPS = (10.0, 5.0, 2.0, 1.0), (0.01, 0.001, 0.0001)
IPX_EPSILONS = (5.0, 2.0)
REPETITIONS = 3
CITY = ((5_000, 10.0, 0.01), (5_000, 5.0, 0.01), (5_000, 2.0, 0.01), (ROME_CITY, 10.0, 0.005))


def run() -> dict[str, Any]:
    if rome_nodes() is None:
        raise FileNotFoundError("the headline figures need the data of Rome: METRICDP_ROME names its folder")
    wanted = os.environ.get("METRICDP_BENCH_PARTS", "paper city").split()
    parts = [part() for name, part in (("paper", paper), ("city", city)) if name in wanted]
    return {"rows": [row for rows, _ in parts for row in rows], "markdown": "\n".join(text for _, text in parts)}


def paper() -> tuple[list[dict[str, Any]], str]:
    """Return seconds of `auto` on the paper's instance, and of HiGHS IPX for two budgets."""
    mdp.solve(Instance("road", 100, 100, 1.0).problem(), method="first-order", gap=0.1)  # compiled code is loaded
    rows = []
    for epsilon in EPSILONS:
        problem = rome_problem(ROME_SEED, epsilon=epsilon)
        mdp.solve(problem, gap=GAPS[0], threads=1)
        for gap in GAPS:
            runs = [seconds_of(lambda p=problem, g=gap: mdp.solve(p, gap=g, threads=1)) for _ in range(REPETITIONS)]
            reached = max(result.gap for _, result in runs)
            rows.append({"epsilon": epsilon, "asked": gap, "gap": reached, "seconds": [taken for taken, _ in runs]})
            print(f"auto, epsilon {epsilon:g}, {100 * gap:g} %: {rows[-1]}", flush=True)
        if epsilon in IPX_EPSILONS:
            most = limit(200.0)
            taken, theirs = seconds_of(
                lambda p=problem, m=most: mdp.solve(p, method="direct", options=IPX, gap=1e-4, threads=1, time_limit=m)
            )
            rows.append({"epsilon": epsilon, "ipx": taken, "gap": theirs.gap, "ended": theirs.status.value})
            print(f"HiGHS IPX: {rows[-1]}", flush=True)
    return rows, table(("epsilon", *(f"{100 * gap:g} %" for gap in GAPS), "HiGHS IPX"), _cells(rows))


def _cells(rows: list[dict[str, Any]]) -> list[list[str]]:
    cells = []
    for epsilon in EPSILONS:
        own = [row for row in rows if row["epsilon"] == epsilon]
        ours = [f"{statistics.median(row['seconds']):.2f} s" for row in own if "asked" in row]
        theirs = [f"{row['ipx']:.0f} s ({row['ended']}, gap {100 * row['gap']:.2g} %)" for row in own if "ipx" in row]
        cells.append([f"{epsilon:g}", *ours, *(theirs or ["not run"])])
    return cells


def city() -> tuple[list[dict[str, Any]], str]:
    """Return Rome with 100 outputs, from the file to the saved mechanism."""
    rows = []
    for n, epsilon, gap in CITY:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
            rows.append({"n": n, "epsilon": epsilon, **alone.submit(_measured, n, epsilon, gap).result()})
        print(rows[-1], flush=True)
    head = ("records (pairs)", "epsilon", "gap %", "wall s", "processor s", "certificate s", "steps", "peak MB")
    cells = [
        [
            f"{row['n']:,} ({row['pairs']:,})",
            f"{row['epsilon']:g}",
            f"{100 * row['gap']:.2f}",
            f"{row['seconds']:.1f}",
            f"{row['processor']:.1f}",
            f"{row['certificate_seconds']:.1f}",
            f"{row['iterations']:,}",
            f"{row['peak_mb']:.0f}",
        ]
        for row in rows
    ]
    return rows, table(head, cells)


def _measured(n: int, epsilon: float, gap: float) -> dict[str, Any]:
    begin = time.process_time()
    found = one_city(n, epsilon, gap)
    return {**found, "processor": time.process_time() - begin}
