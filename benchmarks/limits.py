"""Are time limits kept? Every method on instances of several sizes, asked and taken, each in a process of its own.

The limit is to be kept within max(5 %, 2 s), the last repair and the exact certificate included. Compiled kernels come
from the cache; loading them is part of the time. Processor time stands beside the clock: on a machine that others use,
what is measured is theirs as well.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from benchmarks.alone import Case, run_alone
from benchmarks.instances import rome_nodes
from benchmarks.tables import table

METHODS = ("direct", "interior", "columns", "benders", "kernel", "first-order", "auto")
INSTANCES = (
    Case("", "gothenburg", 1_000, 100, 1.0, 2.0),
    Case("", "gothenburg", 1_000, 100, 2.0, 10.0),
    Case("", "gothenburg", 6_239, 100, 1.0, 2.0),
    Case("", "gothenburg", 6_239, 100, 2.0, 10.0),
    Case("", "words", 2_000, 100, 4.0, 1.0),
    Case("", "words", 1_000, 1_000, 4.0, 1.0),
)
LIMITS_SECONDS = (1.0, 4.0, 20.0, 60.0)  # time limits to test
ROME, ROME_METHODS, ROME_LIMITS = Case("", "rome", 43_160, 100, 2.0, 2.0), ("first-order", "auto"), (4.0, 60.0)


def allowed(limit: float) -> float:
    """Return the seconds that a run may take with a limit of ``limit`` seconds."""
    return limit + max(0.05 * limit, 2.0)


def run() -> dict[str, Any]:
    wanted = [float(word) for word in os.environ.get("METRICDP_BENCH_LIMITS", "").split()]
    cases = [
        replace(instance, method=method, limit=limit)
        for limit in wanted or LIMITS_SECONDS
        for instance in INSTANCES
        for method in METHODS
    ]
    if rome_nodes() is not None:
        cases += [replace(ROME, method=method, limit=limit) for limit in ROME_LIMITS for method in ROME_METHODS]
    rows = []
    for case in cases:
        rows.append({"method": case.method, "case": case.name, "asked": case.limit, **run_alone(case)})
        print("  ".join(cells(rows[-1])), flush=True)
    kept = sum("taken" in row and row["taken"] <= allowed(row["asked"]) for row in rows)
    print(f"{kept} of {len(rows)} limits were kept within max(5 %, 2 s)")
    head = ("method", "instance", "asked s", "taken s", "processor s", "kept", "gap %", "mechanism")
    return {"rows": rows, "kept": kept, "markdown": table(head, [cells(row) for row in rows])}


def cells(row: dict[str, Any]) -> list[str]:
    start = [row["method"], row["case"], f"{row['asked']:g}"]
    if "failed" in row:
        return [*start, row["failed"], "", "", "", ""]
    is_kept = "yes" if row["taken"] <= allowed(row["asked"]) else "NO"
    return [
        *start, f"{row['taken']:.1f}", f"{row['processor']:.1f}", is_kept, f"{100 * row['gap']:.2g}", row["solver"],
    ]  # fmt: skip
