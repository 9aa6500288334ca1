"""The memory model against measured peaks: each method and size in a process of its own.

The model counts on all multipliers being in use and on one mDP row per entry of a linear program; where fewer are, the
peak is lower. What must hold everywhere is that the peak is not higher, apart from linear programs that take more rows.
"""

from __future__ import annotations

from typing import Any

from benchmarks.alone import Case, run_alone
from benchmarks.instances import rome_nodes
from benchmarks.tables import table

STEPS = 60  # first-order steps after which all arrays are there, and a last repair
ROUGH = 0.2  # the gap: repairs are short then
SMALL = (
    Case("first-order", "words", 1_000, 1_000, 4.0, 1.0, gap=ROUGH, max_iterations=STEPS),
    Case("first-order", "gothenburg", 1_500, 800, 1.0, 5.0, gap=ROUGH, max_iterations=STEPS),
    Case("auto", "gothenburg", 6_239, 50, 2.0, 10.0, gap=ROUGH, max_iterations=STEPS),
)
LARGE = (
    Case("first-order", "gothenburg", 2_000, 1_000, 1.0, 5.0, gap=0.01, max_iterations=STEPS),
    Case("auto", "gothenburg", 6_239, 100, 2.0, 10.0, gap=0.01, max_iterations=STEPS),
    Case("first-order", "words", 2_000, 2_000, 4.0, 1.0, gap=0.01, max_iterations=STEPS),
    Case("auto", "words", 2_000, 2_000, 5.0, 1.0, gap=0.01, max_iterations=STEPS),
    Case("first-order", "gaussian", 2_000, 1_000, 2.0, 1.0, gap=0.002, max_iterations=STEPS),
    Case("first-order", "gaussian", 4_000, 1_000, 2.0, 1.0, max_iterations=STEPS),  # the model is too large here
    Case("direct", "gothenburg", 500, 100, 1.0, 10.0, limit=120.0),
    Case("direct", "gothenburg", 1_000, 100, 1.0, 2.0, limit=120.0),
    Case("direct", "words", 1_000, 300, 4.0, 2.0, limit=120.0),
    Case("columns", "gothenburg", 500, 100, 1.0, 10.0, limit=120.0),
    Case("kernel", "gothenburg", 1_000, 300, 1.0, 5.0, limit=120.0),
    Case("benders", "gothenburg", 1_000, 100, 1.0, 5.0, limit=120.0),
)
ROME = (
    Case("first-order", "rome", 43_160, 100, 2.0, 10.0, gap=0.005, max_iterations=STEPS),
    Case("first-order", "rome", 43_160, 100, 2.0, 2.0, gap=0.01, limit=600.0),
)


def run() -> dict[str, Any]:
    cases = SMALL + LARGE + (ROME if rome_nodes() is not None else ())
    rows = []
    for case in cases:
        found = run_alone(case)
        rows.append({"method": case.method, "case": case.name, **found})
        print(line(rows[-1]), flush=True)
    head = ("method", "size", "pairs", "predicted MB", "peak MB", "predicted / peak")
    return {"rows": rows, "markdown": table(head, [cells(row) for row in rows])}


def cells(row: dict[str, Any]) -> list[str]:
    if "failed" in row:
        return [row["method"], row["case"], "", "", row["failed"], ""]
    ratio = row["predicted_mb"] / row["peak_mb"]
    numbers = [f"{row['pairs']:,}", f"{row['predicted_mb']:.0f}", f"{row['peak_mb']:.0f}", f"{ratio:.2f}"]
    return [row["method"], row["case"], *numbers]


def line(row: dict[str, Any]) -> str:
    return "  ".join(cells(row))
