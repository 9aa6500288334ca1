"""The shipped words, every word a report: time to a certified gap, and what reports look like; and 10,000 words.

The 10,000 words are not shipped: `tools/make_words.py --words 10000` makes their file, which METRICDP_WORDS names.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import load

import metricdp as mdp
from benchmarks.processes import peak_mb
from benchmarks.tables import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.registry import Keep

ETA, METHOD = 5.0, "auto"  # 97 % of the words are in one component
# Neighbours are 3.5 apart: at 2 the optimum reports most words as they are, and at 4 there is nothing left to optimise.
BUDGETS = ((1.0, 0.05), (2.0, 0.03))  # epsilon and the gap
# Rarer words have nearer neighbours, and windows of all 10,000 would not fit below a budget of 3.
MANY_ETA, MANY_BUDGETS = 4.0, ((4.0, 0.02),)
STEPS_PER_UNIT = 8192  # of the file's vectors
TIME_LIMIT = float(os.environ.get("METRICDP_BENCH_LIMIT", "1800"))  # seconds
SHOWN = ("doctor", "money", "london", "happy", "monday")
N_LIKELY, N_DRAWS = 4, 6


def run(keep: Keep, *, n: int | None = None) -> tuple[list[dict[str, Any]], str]:
    """Return a run for each budget, and a line for each word that is shown."""
    words = mdp.data.words() if n is None else mdp.data.words().select(range(n))
    return runs(words, BUDGETS, keep)


def run_many(keep: Keep, *, n: int | None = None) -> tuple[list[dict[str, Any]], str]:
    """Return the run of all words of the file that METRICDP_WORDS names, or of its first ``n``."""
    file = os.environ.get("METRICDP_WORDS")
    if file is None:
        text = "many-words: skipped, METRICDP_WORDS names no file of tools/make_words.py --words 10000\n"
        print(text, flush=True)
        return [], text
    words = words_of(Path(file))
    return runs(words if n is None else words.select(range(n)), MANY_BUDGETS, keep, eta=MANY_ETA, method="local")


def words_of(path: Path) -> mdp.Records:
    """Return the words of a file of `tools/make_words.py`, the most frequent first."""
    tensors = load(path.read_bytes())
    return mdp.Records(
        tensors["vectors"].astype(np.float64) / STEPS_PER_UNIT,
        ids=tensors["words"].tobytes().decode().split("\n"),
        prior=10.0 ** (-tensors["centibels"].astype(np.float64) / 100),
        kind="vectors",
        name="words",
    )


def runs(
    words: mdp.Records,
    budgets: Sequence[tuple[float, float]],
    keep: Keep,
    *,
    eta: float = ETA,
    method: str = METHOD,
) -> tuple[list[dict[str, Any]], str]:
    """Return a run for each budget, with every word an output."""
    rows = []
    for epsilon, gap in budgets:
        problem = mdp.Problem(words, epsilon=epsilon, eta=eta)
        clock, processor = time.perf_counter(), time.process_time()
        result = mdp.solve(problem, method=method, gap=gap, time_limit=TIME_LIMIT)
        row = {
            "n": words.n,
            "epsilon": epsilon,
            "seconds": time.perf_counter() - clock,
            "processor": time.process_time() - processor,
            "peak_mb": peak_mb(),
            "pairs": problem.graph.n_pairs,
            "components": problem.graph.n_components,
            "alone": int((np.bincount(problem.graph.labels)[problem.graph.labels] == 1).sum()),
            "stored": result.mechanism.table.n_stored if result.mechanism.is_sparse else None,
            "steps": result.iterations,
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
