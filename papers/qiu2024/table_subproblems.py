"""Sizes of the subproblems (the paper's Table 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from papers.qiu2024.averages import beside, markdown_table, mean_spread, shown
from papers.qiu2024.experiment import Experiment, Findings
from papers.qiu2024.figures import NAMES, TITLES, grouped_bars, legend_below, panels
from papers.qiu2024.needs import SIZED_DATASETS, size_task, size_tasks
from papers.qiu2024.published import SUBPROBLEM_MAX, SUBPROBLEM_MEAN

if TYPE_CHECKING:
    from papers.qiu2024.bench import Bench
    from papers.qiu2024.published import Cells, Figure

PARTS = {"average": ("internal_mean", SUBPROBLEM_MEAN), "maximum": ("internal_max", SUBPROBLEM_MAX)}


def collect(bench: Bench, key: str) -> dict[tuple[str, str], Figure]:
    """Return mean and spread of one figure of every partition, by dataset and method."""
    return {
        (dataset, method): mean_spread(
            [float(bench.answer(size_task(bench, dataset, method, i))[key]) for i in range(bench.scale.instances)]
        )
        for dataset in SIZED_DATASETS
        for method in bench.partitioners
    }


def size_table(bench: Bench, found: dict[tuple[str, str], Figure], paper: Cells) -> str:
    """Return a table of datasets by methods, the paper's figure in brackets."""
    rows = [
        [TITLES[dataset]]
        + [beside(shown(found[dataset, method]), _published(paper, dataset, method)) for method in bench.partitioners]
        for dataset in SIZED_DATASETS
    ]
    return markdown_table(["ours (paper's)", *(NAMES[method] for method in bench.partitioners)], rows)


def _published(paper: Cells, dataset: str, method: str) -> str | None:
    cell = paper.get(dataset.split(maxsplit=1)[0], {}).get(method)
    return None if cell is None else shown(cell)


def paper_marks(paper: Cells) -> dict[tuple[str, str], Figure]:
    """Return the paper's figures by dataset and method, for both kinds of grid."""
    return {
        (dataset, method): cell
        for dataset in SIZED_DATASETS
        for method, cell in paper[dataset.split()[0]].items()
        if cell is not None
    }


def present(bench: Bench) -> Findings:
    """Make tables and picture."""
    found = {part: collect(bench, key) for part, (key, _) in PARTS.items()}
    text = [
        (
            "Internal records per block: the rows that a subproblem determines. The row *1.5 km cells* is the grid of "
            "the paper's published code; the paper's text has 1 km."
        ),
        *(
            f"**{part.capitalize()} size**\n\n{size_table(bench, found[part], paper)}"
            for part, (_, paper) in PARTS.items()
        ),
    ]

    def draw() -> Any:
        figure, axes = panels(2, 1, width=9.5, height=3.0)
        for panel, (part, (_, paper)) in zip(axes.ravel(), PARTS.items(), strict=True):
            bars = {cell: (*value, True) for cell, value in found[part].items()}
            grouped_bars(panel, SIZED_DATASETS, bench.partitioners, bars, paper_marks(paper))
            panel.set_ylabel(f"{part} subproblem\n(internal records)")
        legend_below(figure, axes, columns=6)
        return figure

    summary = {
        part: {f"{dataset}, {method}": {"ours": value} for (dataset, method), value in cells.items()}
        for part, cells in found.items()
    }
    return Findings({**summary, "paper": {part: paper for part, (_, paper) in PARTS.items()}}, "\n\n".join(text), draw)


EXPERIMENT = Experiment("table-subproblems", "Table 1: size of the subproblems", size_tasks, present)
