"""Every place an output: time and memory to a certified gap, what rivals lose at the same guarantee, and words.

    METRICDP_BENCH_PARTS="growth city rivals words many-words" python -m benchmarks places [--sizes N ...] [--old PATH]

``growth`` solves contiguous intersections of Rome, each size in a process of its own; with ``--old`` the two smallest
are also given to `auto` of another checkout, and the smallest to HiGHS IPX (METRICDP_BENCH_LIMIT seconds, 600 by
default). ``city`` is all of Rome, saved, loaded and drawn from. ``rivals``, ``words`` and ``many-words`` are in
`benchmarks.rivals` and `benchmarks.place_words`. Without the data of Rome, or the file of many words, their parts are
skipped, and the tables say so.
"""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import place_words, rivals
from benchmarks.instances import ROME_CITY, rome_nodes
from benchmarks.place_process import ask
from benchmarks.tables import fit_exponent, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.registry import Keep

PARTS = ("growth", "city", "rivals", "words", "many-words")
ETA, GAP = 0.3, 0.02  # km
GROWTH_EPSILON = 7.0  # per km
SIZES = (300, 1_000, 3_000, 10_000)
DENSE_UP_TO, IPX_UP_TO = 1_000, 300  # records: a dense table of more takes hours, as does the linear program
CITY = ((10.0, 0.02), (6.9, 0.03))  # epsilon and gap
N_DRAWS = 1_000_000
DENSE_LIMIT = float(os.environ.get("METRICDP_BENCH_LIMIT", "600"))  # seconds
IPX = {"algorithm": "ipx", "all_rows": True, "tolerance": 1e-7}
HEAD = (
    "places = outputs",
    "epsilon",
    "method",
    "gap %",
    "wall s",
    "processor s",
    "certificate s",
    "peak MB",
    "stored entries",
    "per row",
    "steps",
)


def run(*, keep: Keep, sizes: Sequence[int] | None = None, old: Path | None = None) -> dict[str, Any]:
    """Run the parts that METRICDP_BENCH_PARTS names, all by default."""
    wanted = os.environ.get("METRICDP_BENCH_PARTS", " ".join(PARTS)).split()
    unknown = set(wanted) - set(PARTS)
    if unknown:
        raise ValueError(f"unknown part {', '.join(sorted(unknown))}: choose from {', '.join(PARTS)}")
    rows, texts = [], []
    for part in wanted:
        if part in ("growth", "city") and rome_nodes() is None:
            texts.append(f"{part}: skipped, there is no data of Rome (METRICDP_ROME names its folder)\n")
            print(texts[-1], flush=True)
            continue
        if part == "growth":
            found, text = growth(sizes or SIZES, old, keep)
        elif part == "city":
            found, text = city(keep)
        elif part == "rivals":
            found, text = rivals.run(sizes or rivals.SIZES, keep)
        elif part == "words":
            found, text = place_words.run(keep)
        else:
            found, text = place_words.run_many(keep)
        rows += found
        texts.append(text)
    return {"rows": rows, "markdown": "\n".join(texts)}


def growth(sizes: Sequence[int], old: Path | None, keep: Keep) -> tuple[list[dict[str, Any]], str]:
    """Return runs of growing size, and beside the small ones the dense way."""
    rows = []
    for n in sizes:
        rows.append(_solved("local", n, GROWTH_EPSILON, GAP))
        keep(rows[-1:])
        if old is not None and n <= DENSE_UP_TO:
            rows.append(_solved("auto", n, GROWTH_EPSILON, GAP, root=old.resolve(), limit=DENSE_LIMIT))
            keep(rows[-1:])
        if n <= IPX_UP_TO:
            rows.append(_solved("direct", n, GROWTH_EPSILON, GAP, limit=DENSE_LIMIT, options=IPX))
            keep(rows[-1:])
    own = [row for row in rows if row["method"] == "local" and "failed" not in row]
    text = table(HEAD, [cells(row) for row in rows])
    for what, words in (("seconds", "wall time"), ("processor", "processor time"), ("stored", "stored entries")):
        text += "\n" + growth_line(words, [row["n"] for row in own], [row[what] for row in own])
    return rows, text


def growth_line(what: str, sizes: Sequence[int], values: Sequence[float]) -> str:
    """Return how a figure grows between sizes that follow one another, and over all of them."""
    fit = fit_exponent(sizes, values)
    if fit is None:
        return f"- {what}: fewer than two sizes"
    pairs = zip(zip(sizes, values, strict=True), list(zip(sizes, values, strict=True))[1:], strict=False)
    steps = [f"{math.log(b[1] / a[1]) / math.log(b[0] / a[0]):.2f} from {a[0]:,} to {b[0]:,}" for a, b in pairs]
    return f"- {what} grows like N^{fit['exponent']:.2f} ({', '.join(steps)})"


def city(keep: Keep) -> tuple[list[dict[str, Any]], str]:
    """Return the whole city at two budgets, saved, loaded in a fresh process and drawn from."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for epsilon, gap in CITY:
            file = str(Path(folder) / f"city-{epsilon:g}.mdp")
            row = _solved("local", ROME_CITY, epsilon, gap, file=file)
            if "failed" not in row:
                task = {"kind": "load", "city": "rome", "file": file, "epsilon": epsilon, "eta": ETA}
                row |= ask({**task, "n_draws": N_DRAWS})
                Path(file).unlink()
            rows.append(row)
            keep(rows[-1:])
    head = ("epsilon", "save s", "file MB", "load s", "processor s", "peak MB", "held MB", "draws / s")
    return rows, table(HEAD, [cells(row) for row in rows]) + "\n" + table(head, [file_cells(row) for row in rows])


def _solved(
    method: str, n: int, epsilon: float, gap: float, *, root: Path | None = None, **more: Any
) -> dict[str, Any]:
    task = {"kind": "solve", "city": "rome", "n": n, "epsilon": epsilon, "eta": ETA, "gap": gap, "method": method}
    answer = ask(task | more) if root is None else ask(task | more, root=root)
    row = {**task, "is_other_version": root is not None, **answer}
    print("  ".join(cells(row)), flush=True)
    return row


def cells(row: dict[str, Any]) -> list[str]:
    """Return a run as cells."""
    name = {"local": "local", "auto": "auto, other version", "direct": "HiGHS IPX, all rows"}[row["method"]]
    first = [f"{row['n']:,}", f"{row['epsilon']:g}", name]
    if "failed" in row:
        return [*first, row["failed"], *[""] * (len(HEAD) - 4)]
    gap = f"{100 * row['gap']:.2f}" if row["status"] == "optimal" else f"{row['status']}: {100 * row['gap']:.2f}"
    return [
        *first,
        gap,
        f"{row['seconds']:.1f}",
        f"{row['processor']:.1f}",
        f"{row['certificate_seconds']:.2f}",
        f"{row['peak_mb']:.0f}",
        f"{row['stored']:,}",
        f"{row['stored'] / row['n']:,.0f}",
        f"{row['steps']:,}",
    ]


def file_cells(row: dict[str, Any]) -> list[str]:
    """Return what was measured on the file of a run."""
    if "load_seconds" not in row:
        return [f"{row['epsilon']:g}", row["failed"], *[""] * 6]
    names = ("save_seconds", "file_mb", "load_seconds", "load_processor", "load_peak_mb", "held_mb")
    numbers = [f"{row[name]:.1f}" if "mb" not in name else f"{row[name]:.0f}" for name in names]
    return [f"{row['epsilon']:g}", *numbers, f"{row['draws_per_second']:,.0f}"]
