"""Sizes of the master's components (the paper's Table 2), counted in two ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from papers.qiu2024.experiment import Experiment, Findings
from papers.qiu2024.figures import grouped_bars, legend_below, panels
from papers.qiu2024.needs import SIZED_DATASETS, size_tasks
from papers.qiu2024.published import MASTER_MAX, MASTER_MEAN
from papers.qiu2024.table_subproblems import collect, paper_marks, size_table

if TYPE_CHECKING:
    from papers.qiu2024.bench import Bench

COUNTS = {"all pairs": ("master_mean", "master_max"), "pairs across blocks only": ("cross_mean", "cross_max")}
PAPER = {"average": MASTER_MEAN, "maximum": MASTER_MAX}
EXPLANATION = (
    "Boundary records per component of the master. The paper does not say which pairs join two boundary records. **All "
    "pairs**: every mDP row among boundary records, which is what the master has to satisfy. **Pairs across blocks "
    "only**: as its published code counts, which leaves out pairs inside a block though the master needs them. The "
    "second count is the one to compare with the paper's; the first is what a correct master has to deal with. (With "
    "cuts, even components by the first count are coupled: see the documentation of the decomposition.)"
)


def present(bench: Bench) -> Findings:
    """Make tables and picture."""
    found = {
        (count, part): collect(bench, key)
        for count, keys in COUNTS.items()
        for part, key in zip(PAPER, keys, strict=True)
    }
    text = [EXPLANATION]
    for (count, part), cells in found.items():
        text.append(f"**{part.capitalize()} size, {count}**\n\n{size_table(bench, cells, PAPER[part])}")

    def draw() -> Any:
        figure, axes = panels(2, 2, width=7.0, height=3.0, sharey=True)
        for (count, part), cells in found.items():
            panel = axes[list(PAPER).index(part), list(COUNTS).index(count)]
            bars = {cell: (*value, True) for cell, value in cells.items() if value[0] > 0}
            grouped_bars(panel, SIZED_DATASETS, bench.partitioners, bars, paper_marks(PAPER[part]), is_log=True)
            panel.tick_params(axis="x", labelsize=7.5)
            panel.set_ylabel(f"{part} component\n(boundary records)")
            panel.set_title(count)
        legend_below(figure, axes, columns=6)
        return figure

    summary = {
        f"{part}, {count}": {f"{dataset}, {method}": {"ours": value} for (dataset, method), value in cells.items()}
        for (count, part), cells in found.items()
    }
    return Findings({**summary, "paper": PAPER}, "\n\n".join(text), draw)


EXPERIMENT = Experiment("table-master", "Table 2: size of the master's components", size_tasks, present)
