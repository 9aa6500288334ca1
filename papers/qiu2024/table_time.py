"""Seconds to a gap of 1 % (the paper's Table 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from papers.qiu2024.averages import beside, markdown_table, shown
from papers.qiu2024.experiment import Experiment, Findings
from papers.qiu2024.figures import NAMES, TITLES, grouped_bars, legend_below, panels
from papers.qiu2024.needs import (
    CLASSIC_METHODS,
    best_task,
    classic_task,
    classic_tasks,
    decompose_task,
    decompose_tasks,
)
from papers.qiu2024.published import DATASETS, METHODS, SECONDS
from papers.qiu2024.reached import Reached

if TYPE_CHECKING:
    from papers.qiu2024.bench import Bench
    from papers.qiu2024.published import Cells, Figure
    from papers.qiu2024.store import Task

Found = dict[tuple[str, str], Reached]


def tasks(bench: Bench) -> list[Task]:
    """Return the decomposition in both forms, single linear programs, and the method that metricdp would choose."""
    chosen = [best_task(bench, dataset, i) for dataset in DATASETS for i in range(bench.scale.instances)]
    return [*decompose_tasks(bench, "plain", "ours"), *classic_tasks(bench), *chosen]


def decomposed(bench: Bench, preset: str, key: str) -> Found:
    """Return a figure of the decomposition by dataset and partitioner."""
    return {
        (dataset, method): Reached.of(
            [bench.answer(decompose_task(bench, dataset, method, preset, i)) for i in range(bench.scale.instances)],
            key,
        )
        for dataset in DATASETS
        for method in bench.partitioners
    }


def as_one_program(bench: Bench, key: str) -> Found:
    """Return a figure of single linear programs by dataset and method."""
    return {
        (dataset, method): Reached.of(
            [bench.answer(classic_task(bench, dataset, method, i)) for i in range(bench.scale.instances)], key
        )
        for dataset in DATASETS
        for method in CLASSIC_METHODS
    }


def chosen(bench: Bench, key: str) -> Found:
    """Return a figure of the chosen method by dataset."""
    return {
        (dataset, "auto"): Reached.of(
            [bench.answer(best_task(bench, dataset, i)) for i in range(bench.scale.instances)], key
        )
        for dataset in DATASETS
    }


def table(found: Found, methods: tuple[str, ...], paper: Cells | None, missing: str) -> str:
    """Return a table of datasets by methods, with the paper's figure in brackets where there is one."""
    rows = []
    for dataset in DATASETS:
        cells = []
        for method in methods:
            has_paper = paper is not None and method in METHODS
            published = shown(paper[dataset][method], missing=missing) if paper is not None and has_paper else None
            cells.append(beside(str(found[dataset, method]), published))
        rows.append([TITLES[dataset], *cells])
    corner = "ours" if paper is None else "ours (paper's)"
    return markdown_table([corner, *(NAMES[method] for method in methods)], rows)


def present(bench: Bench) -> Findings:
    """Make tables and picture."""
    plain, ours = decomposed(bench, "plain", "seconds"), decomposed(bench, "ours", "seconds")
    single = {**as_one_program(bench, "seconds"), **chosen(bench, "seconds")}
    methods = (*CLASSIC_METHODS, "auto")
    text = [
        (
            "Seconds of whole solves, with repair and certificate, to a relative gap of 1 %; at most "
            f"{bench.scale.plain_limit:g} s for the plain form and {bench.scale.limit:g} s for the others."
        ),
        "**The paper's decomposition in its plain form** (two-sided boundary, all path rows at the start, feasibility "
        'and optimality cuts; upper bounds only when every subproblem is feasible), on the exact rows. "not '
        "converged\": the paper's run ended after 500 iterations.\n\n"
        + table(plain, bench.partitioners, SECONDS, "not converged"),
        "**Our decomposition**\n\n" + table(ours, bench.partitioners, SECONDS, "not converged"),
        "**One linear program.** The paper reports that dual simplex and interior point exceeded 10,000 iterations on "
        'every dataset. "All rows" hands all of them to HiGHS as the paper does to linprog; a run counts only if HiGHS '
        "itself came to its end, whatever the gap of the mechanism that is certified then.\n\n"
        + table(single, methods, None, ""),
    ]

    def draw() -> Any:
        figure, axes = panels(3, 1, width=9.5, height=2.7, sharey=True)
        marks = {(dataset, method): cell for dataset in DATASETS for method, cell in SECONDS[dataset].items() if cell}
        titles = (
            "the paper's plain form, exact rows",
            "our decomposition",
            "one linear program, and the method chosen",
        )
        groups: tuple[tuple[Found, tuple[str, ...], dict[tuple[str, str], Figure]], ...] = (
            (plain, bench.partitioners, marks),
            (ours, bench.partitioners, marks),
            (single, methods, {}),
        )
        for panel, title, (found, names, paper) in zip(axes.ravel(), titles, groups, strict=True):
            bars = {cell: (*value.figure, value.is_whole) for cell, value in found.items()}
            grouped_bars(panel, DATASETS, names, bars, paper, is_log=True)
            panel.set_title(title)
            panel.set_ylabel("seconds")
        legend_below(figure, axes, columns=4)
        return figure

    parts = {"plain": plain, "ours": ours, "one program": single}
    summary = {
        part: {f"{dataset}, {method}": value.fields() for (dataset, method), value in found.items()}
        for part, found in parts.items()
    }
    return Findings({**summary, "paper": SECONDS}, "\n\n".join(text), draw)


EXPERIMENT = Experiment("table-time", "Table 3: computation time", tasks, present)
