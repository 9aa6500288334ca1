"""Iterations to a gap of 1 % (the paper's Table 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from papers.qiu2024.experiment import Experiment, Findings
from papers.qiu2024.figures import grouped_bars, legend_below, panels, symlog_axis
from papers.qiu2024.needs import CLASSIC_METHODS, classic_tasks, decompose_tasks
from papers.qiu2024.published import CLASSIC_MAX_ITERATIONS, DATASETS, ITERATIONS
from papers.qiu2024.table_time import as_one_program, decomposed, table

if TYPE_CHECKING:
    from papers.qiu2024.bench import Bench
    from papers.qiu2024.store import Task


def tasks(bench: Bench) -> list[Task]:
    """Return the same runs as for the times."""
    return [*decompose_tasks(bench, "plain", "ours"), *classic_tasks(bench)]


def present(bench: Bench) -> Findings:
    """Make tables and picture."""
    plain, ours = decomposed(bench, "plain", "iterations"), decomposed(bench, "ours", "iterations")
    single = as_one_program(bench, "lp_iterations")
    text = [
        (
            "Iterations of the slowest component. No iteration at all means that the blocks, each solved once with its "
            "surroundings, give bounds within 1 % before the first one."
        ),
        "**The paper's decomposition in its plain form**, on the exact rows\n\n"
        + table(plain, bench.partitioners, ITERATIONS, "≥ 500"),
        "**Our decomposition**\n\n" + table(ours, bench.partitioners, ITERATIONS, "≥ 500"),
        f"**Iterations of the LP solver** on the whole problem, all components together. The paper stopped both "
        f"classic methods at {CLASSIC_MAX_ITERATIONS:,}.\n\n" + table(single, CLASSIC_METHODS, None, ""),
    ]

    def draw() -> Any:
        figure, axes = panels(2, 1, width=9.5, height=3.0)
        marks = {
            (dataset, method): cell for dataset in DATASETS for method, cell in ITERATIONS[dataset].items() if cell
        }
        titles = ("the paper's plain form, exact rows", "our decomposition")
        for panel, title, found in zip(axes.ravel(), titles, (plain, ours), strict=True):
            bars = {cell: (*value.figure, value.is_whole) for cell, value in found.items()}
            grouped_bars(panel, DATASETS, bench.partitioners, bars, marks)
            panel.set_title(title)
            panel.set_ylabel("iterations")
            symlog_axis(panel)
        legend_below(figure, axes, columns=6)
        return figure

    parts = {"plain": plain, "ours": ours, "one program": single}
    summary = {
        part: {f"{dataset}, {method}": value.fields() for (dataset, method), value in found.items()}
        for part, found in parts.items()
    }
    return Findings({**summary, "paper": ITERATIONS}, "\n\n".join(text), draw)


EXPERIMENT = Experiment("table-iterations", "Table 4: iterations to converge", tasks, present)
