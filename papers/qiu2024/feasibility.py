"""How many iterations subproblems need to become feasible, and what that goes with (the paper's appendix D.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from papers.qiu2024.averages import correlation, markdown_table
from papers.qiu2024.experiment import Findings
from papers.qiu2024.figures import COLOURS, NAMES, TITLES, legend_below, log_axis, panels, whole_numbers
from papers.qiu2024.needs import decompose_task, decompose_tasks
from papers.qiu2024.published import DATASETS
from papers.qiu2024.scale import EPSILON

if TYPE_CHECKING:
    from papers.qiu2024.bench import Bench
    from papers.qiu2024.store import Task

STRONGER_METHOD = "k-m-dv"  # the paper's own; the stronger budget is run with it alone


@dataclass(frozen=True)
class Subproblem:
    """One block of one run: its internal records, the boundary records around it, and when it became feasible."""

    method: str
    size: int
    boundary: int
    iterations: int | None  # None: not before the run ended


def tasks(bench: Bench) -> list[Task]:
    """Return the plain form with the default budget and all partitioners, and with a stronger one."""
    return [*decompose_tasks(bench, "plain"), *_stronger(bench)]


def _stronger(bench: Bench) -> list[Task]:
    return [
        decompose_task(bench, dataset, STRONGER_METHOD, "plain", instance, epsilon=bench.scale.stronger)
        for dataset in DATASETS
        for instance in range(bench.scale.instances)
    ]


def subproblems(bench: Bench, dataset: str, epsilon: float) -> list[Subproblem]:
    """Return all subproblems of the runs of a dataset."""
    wanted = [task for task in tasks(bench) if task["dataset"] == dataset and task["epsilon"] == epsilon]
    return [
        Subproblem(task["method"], size, attached, since + 1 if since >= 0 else None)
        for task in wanted
        for row in bench.answer(task)["blocks"]
        for size, attached, since in zip(row["sizes"], row["attached"], row["iterations_to_feasibility"], strict=True)
    ]


def present(bench: Bench, quantity: str, label: str, paper: dict[str, float] | None) -> Findings:
    """Make table and picture of iterations against ``quantity``, ``size`` or ``boundary``."""
    budgets = (EPSILON, bench.scale.stronger)
    found = {(dataset, e): subproblems(bench, dataset, e) for dataset in DATASETS for e in budgets}
    coefficients = {
        (dataset, e, only): _coefficient(found[dataset, e], quantity, only)
        for dataset in DATASETS
        for e in budgets
        for only in (STRONGER_METHOD, None)
    }
    rows = [
        [
            TITLES[dataset],
            f"{e:g}",
            _number(coefficients[dataset, e, STRONGER_METHOD]),
            _number(coefficients[dataset, e, None]) if e == EPSILON else "–",
            _paper(paper, dataset, e),
            _count(found[dataset, e], lambda block: block.iterations is not None),
            _count(found[dataset, e], lambda block: block.iterations == 1),
            _count(found[dataset, e], lambda block: block.iterations is None),
        ]
        for dataset in DATASETS
        for e in budgets
    ]
    header = [
        "dataset",
        "epsilon",
        "correlation, k-m-DV",
        "all partitioners",
        "the paper's",
        "feasible subproblems",
        "of these at once",
        "never feasible in time",
    ]
    text = [
        (
            f"Pearson's correlation of a subproblem's {label} with the iteration from which on it is feasible, plain "
            "form, exact rows. Subproblems that were not feasible when the run ended are counted in the last column "
            "and are not part of the coefficient. *undefined*: all were feasible in the same iteration. Besides the "
            "paper's budget of 10 there is a stronger one, for with 10 most subproblems are feasible at once."
        ),
        markdown_table(header, rows),
    ]

    def draw() -> Any:
        figure, axes = panels(2, 4, width=3.1, height=2.6)
        for row, e in enumerate(budgets):
            for column, dataset in enumerate(DATASETS):
                panel = axes[row, column]
                _scatter(panel, found[dataset, e], quantity)
                r = coefficients[dataset, e, STRONGER_METHOD]
                panel.set_title(f"{TITLES[dataset]}, epsilon {e:g}\nk-m-DV: r = {_number(r)}")
                panel.set_xlabel(label)
                whole_numbers(panel)
                panel.set_ylabel("iterations until feasible")
        legend_below(figure, axes, columns=6)
        return figure

    summary = {
        f"{dataset}, epsilon {e:g}": {
            "correlation": coefficients[dataset, e, STRONGER_METHOD],
            "correlation_all": coefficients[dataset, e, None],
            "paper": paper[dataset] if paper and e == EPSILON else None,
            "points": [[b.method, getattr(b, quantity), b.iterations] for b in found[dataset, e]],
        }
        for dataset in DATASETS
        for e in budgets
    }
    return Findings(summary, "\n\n".join(text), draw)


def _coefficient(found: list[Subproblem], quantity: str, only: str | None) -> float | None:
    points = [
        (getattr(block, quantity), block.iterations)
        for block in found
        if block.iterations is not None and only in (None, block.method)
    ]
    return correlation([x for x, _ in points], [y for _, y in points])


def _scatter(panel: Any, found: list[Subproblem], quantity: str) -> None:
    last = max((block.iterations for block in found if block.iterations is not None), default=1)
    for method in dict.fromkeys(block.method for block in found):
        own = [block for block in found if block.method == method]
        done = [block for block in own if block.iterations is not None]
        never = [block for block in own if block.iterations is None]
        panel.plot(
            [getattr(block, quantity) for block in done],
            [block.iterations for block in done],
            "o",
            color=COLOURS[method],
            markersize=3.2,
            alpha=0.6,
            markeredgewidth=0,
            label=NAMES[method],
        )
        panel.plot(
            [getattr(block, quantity) for block in never],
            [last * 1.6] * len(never),
            "^",
            color="white",
            markeredgecolor=COLOURS[method],
            markersize=4,
            alpha=0.7,
        )
    if any(block.iterations is None for block in found):
        panel.plot([], [], "^", color="white", markeredgecolor="#555555", label="never feasible in time")
    panel.set_ylim(0.7, max(10.0, last * 2.2))
    log_axis(panel, "y")


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.2f}"


def _paper(paper: dict[str, float] | None, dataset: str, epsilon: float) -> str:
    if epsilon != EPSILON:
        return "–"
    return "positive" if paper is None else f"{paper[dataset]:.4g}"


def _count(found: list[Subproblem], is_wanted: Any) -> int:
    return sum(1 for block in found if is_wanted(block))
