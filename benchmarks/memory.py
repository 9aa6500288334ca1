"""The memory model against measured peaks: each method and size in a process of its own.

- ``PREDICTED``: first-order iterations, and ``auto`` where it takes them. The model is at most 25 % above the peak and
  never below it.
- ``UNLIMITED_CASES``: linear programs without a limit. The model is the least that they take: how many mDP rows are
  added cannot be known in advance.
- ``LIMITED_CASES``: the same with a limit that they would exceed. The peak is near the limit and never above it.
- ``GROWING_CASES``: steps on windows that grow far beyond what was foretold, since some records are a million times as
  likely as others. The model is the least that they take; with a limit, windows stop growing and the peak is below it.

Constants were set on Gothenburg with seed 0; ``judged`` says of a case that it is another one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.alone import Case, run_alone
from benchmarks.instances import rome_nodes
from benchmarks.tables import table

N_STEPS = 60  # first-order steps after which all arrays exist and a last repair was made
LOCAL_STEPS = 300  # on windows, after which the gap of 5 % is usually reached
EXTENDED_STEPS = 1_700  # first-order steps after which edges have been added three times
ROUGH_GAP = 0.2  # relative; repairs are short at this gap
SMALL_CASES = (
    Case("first-order", "words", 1_000, 1_000, 4.0, 1.0, gap=ROUGH_GAP, max_iterations=N_STEPS),
    Case("first-order", "gothenburg", 1_500, 800, 1.0, 5.0, gap=ROUGH_GAP, max_iterations=N_STEPS),
    Case("auto", "gothenburg", 6_239, 50, 2.0, 10.0, gap=ROUGH_GAP, max_iterations=N_STEPS),
    Case("interior", "gothenburg", 500, 300, 1.0, 5.0, gap=ROUGH_GAP),
    Case("local", "centre", 4_000, 4_000, 0.25, 10.0, gap=0.05, max_iterations=LOCAL_STEPS),
)
LARGE_CASES = (
    Case("interior", "gothenburg", 1_500, 100, 1.0, 5.0, gap=ROUGH_GAP),
    Case("interior", "words", 500, 200, 5.0, 1.0, gap=ROUGH_GAP, seed=1),
    Case("interior", "gaussian", 500, 300, 2.0, 1.0, gap=ROUGH_GAP, seed=1),
    Case("first-order", "gothenburg", 1_500, 1_500, 1.0, 5.0, gap=ROUGH_GAP, max_iterations=N_STEPS),
    Case("first-order", "gothenburg", 3_000, 48, 1.0, 2.0, gap=0.003, max_iterations=EXTENDED_STEPS),
    Case("first-order", "gaussian", 3_000, 48, 2.0, 2.0, gap=0.003, max_iterations=EXTENDED_STEPS, seed=1),
    Case("first-order", "gothenburg", 2_000, 1_000, 1.0, 5.0, gap=0.01, max_iterations=N_STEPS),
    Case("auto", "gothenburg", 6_239, 100, 2.0, 10.0, gap=0.01, max_iterations=N_STEPS),
    Case("first-order", "words", 2_000, 2_000, 4.0, 1.0, gap=0.01, max_iterations=N_STEPS),
    Case("auto", "words", 2_000, 2_000, 5.0, 1.0, gap=0.01, max_iterations=N_STEPS),
    Case("first-order", "gaussian", 2_000, 1_000, 2.0, 1.0, gap=0.002, max_iterations=N_STEPS, seed=1),
    Case("first-order", "gaussian", 4_000, 1_000, 2.0, 1.0, max_iterations=N_STEPS),
)
ROME_CASES = (
    Case("first-order", "rome", 43_160, 100, 2.0, 10.0, gap=0.005, max_iterations=N_STEPS),
    Case("first-order", "rome", 43_160, 100, 2.0, 2.0, gap=0.01, limit=600.0),
)
UNLIMITED_CASES = (
    Case("direct", "gothenburg", 500, 100, 1.0, 10.0, limit=120.0),
    Case("direct", "words", 500, 500, 4.0, 2.0, limit=120.0, seed=1),
    Case("columns", "gothenburg", 500, 100, 1.0, 10.0, limit=120.0),
    Case("kernel", "gothenburg", 400, 400, 1.0, 10.0, limit=120.0),
    Case("benders", "gothenburg", 500, 100, 1.0, 10.0, limit=120.0),
)
LIMITS_GB = (0.29, 0.335, 0.29, 0.385, 0.305)  # one for each case, below its peak without a limit
LIMITED_CASES = tuple(replace(case, memory_limit=limit) for case, limit in zip(UNLIMITED_CASES, LIMITS_GB, strict=True))
GROWING = Case("local", "uneven centre", 2_000, 2_000, 0.25, 14.0, gap=0.05, max_iterations=N_STEPS)
GROWING_CASES = (GROWING, *(replace(GROWING, memory_limit=limit) for limit in (0.5, 0.42)))


def run() -> dict[str, Any]:
    predicted = SMALL_CASES + LARGE_CASES + (ROME_CASES if rome_nodes() is not None else ())
    rows = []
    kinds = (
        ("prediction", predicted),
        ("least", UNLIMITED_CASES + GROWING_CASES[:1]),
        ("limit", LIMITED_CASES + GROWING_CASES[1:]),
    )
    for kind, cases in kinds:
        for case in cases:
            found = run_alone(case)
            if kind == "limit" and "failed" not in found:
                found["predicted_mb"] = 1e3 * case.memory_limit
            judged = "" if case.dataset == "gothenburg" and case.seed == 0 else "judged"
            rows.append({"method": case.method, "case": case.name, "kind": kind, "judged": judged, **found})
            print(line(rows[-1]), flush=True)
    head = ("method", "size", "pairs", "kind", "MB", "peak MB", "MB / peak", "constants")
    return {"rows": rows, "markdown": table(head, [cells(row) for row in rows])}


def cells(row: dict[str, Any]) -> list[str]:
    if "failed" in row:
        return [row["method"], row["case"], "", row["kind"], "", row["failed"], "", row["judged"]]
    ratio = row["predicted_mb"] / row["peak_mb"]
    numbers = [f"{row['predicted_mb']:.0f}", f"{row['peak_mb']:.0f}", f"{ratio:.2f}"]
    return [row["method"], row["case"], f"{row['pairs']:,}", row["kind"], *numbers, row["judged"] or "set here"]


def line(row: dict[str, Any]) -> str:
    return "  ".join(cells(row))
