"""The shipped words, every word a report: time to a certified gap, and what reports look like."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

import metricdp as mdp
from benchmarks.processes import peak_mb
from benchmarks.tables import table

if TYPE_CHECKING:
    from benchmarks.registry import Keep

ETA, METHOD = 5.0, "auto"  # 97 % of the words are in one component
# Neighbours are 3.5 apart: at 2 the optimum reports most words as they are, and at 4 there is nothing left to optimise.
BUDGETS = ((1.0, 0.05), (2.0, 0.03))  # epsilon and the gap
TIME_LIMIT = 1_800.0  # seconds
SHOWN = ("doctor", "money", "london", "happy", "monday")
N_LIKELY, N_DRAWS = 4, 6


def run(keep: Keep, *, n: int | None = None) -> tuple[list[dict[str, Any]], str]:
    """Return a run for each budget, and a line for each word that is shown."""
    words = mdp.data.words() if n is None else mdp.data.words().select(range(n))
    rows = []
    for epsilon, gap in BUDGETS:
        problem = mdp.Problem(words, epsilon=epsilon, eta=ETA)
        clock, processor = time.perf_counter(), time.process_time()
        result = mdp.solve(problem, method=METHOD, gap=gap, time_limit=TIME_LIMIT)
        row = {
            "n": words.n,
            "epsilon": epsilon,
            "seconds": time.perf_counter() - clock,
            "processor": time.process_time() - processor,
            "peak_mb": peak_mb(),
            "pairs": problem.graph.n_pairs,
            "components": problem.graph.n_components,
            "alone": int((np.bincount(problem.graph.labels)[problem.graph.labels] == 1).sum()),
            "solver": result.mechanism.solver,
            "status": result.status.value,
            "gap": result.gap,
            "loss": result.loss,
            "certified": result.mechanism.certificate.privacy.certified,
            "reports": [reports(result.mechanism, word) for word in shown(words)],
        }
        rows.append(row)
        keep(rows[-1:])
        print("  ".join(cells(row)), flush=True)
        print("\n".join("  ".join(line) for line in report_cells(row)), flush=True)
    head = ("words = outputs", "epsilon", "solver", "gap %", "wall s", "processor s", "peak MB", "loss", "kept")
    text = table(head, [cells(row) for row in rows])
    head = ("epsilon", "word", "most likely reports", "six draws")
    return rows, text + "\n" + table(head, [line for row in rows for line in report_cells(row)])


def shown(words: mdp.Records) -> list[str]:
    """Return the words to show: those of the list that there are, or the first ones."""
    return [word for word in SHOWN if word in words.ids] or list(words.ids[: len(SHOWN)])


def reports(mechanism: mdp.Mechanism, word: str) -> dict[str, Any]:
    """Return what a word is likely to be reported as, and a few reports."""
    row = mechanism.records.ids.index(word)
    chances = mechanism.block([row])[0]
    likely = np.argsort(-chances, kind="stable")[:N_LIKELY]
    drawn = mechanism.perturb([word] * N_DRAWS, allow_unprotected=True)
    named = [(mechanism.records.ids[k], float(chances[k])) for k in likely]
    return {"word": word, "likely": named, "kept": float(chances[row]), "drawn": [str(report) for report in drawn]}


def cells(row: dict[str, Any]) -> list[str]:
    """Return a run as cells."""
    gap = f"{100 * row['gap']:.2f}" if row["status"] == "optimal" else f"{row['status']}: {100 * row['gap']:.2f}"
    kept = " to ".join(f"{100 * f(one['kept'] for one in row['reports']):.0f}" for f in (min, max))
    numbers = [f"{row['seconds']:.1f}", f"{row['processor']:.1f}", f"{row['peak_mb']:.0f}", f"{row['loss']:.3f}"]
    return [f"{row['n']:,}", f"{row['epsilon']:g}", row["solver"], gap, *numbers, f"{kept} %"]


def report_cells(row: dict[str, Any]) -> list[list[str]]:
    """Return a line for each word."""
    return [
        [
            f"{row['epsilon']:g}",
            one["word"],
            ", ".join(f"{name} {100 * chance:.1f} %" for name, chance in one["likely"]),
            ", ".join(one["drawn"]),
        ]
        for one in row["reports"]
    ]
