"""Times of single solves of the master and of subproblems (the paper's appendix D.3)."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from papers.qiu2024.averages import beside, markdown_table, mean_spread, shown
from papers.qiu2024.experiment import Experiment, Findings
from papers.qiu2024.figures import COLOURS, NAMES, PAPER_COLOUR, TITLES, legend_below, log_axis, panels
from papers.qiu2024.needs import decompose_task, decompose_tasks
from papers.qiu2024.published import DATASETS, MASTER_SECONDS, SUBPROBLEM_SECONDS

if TYPE_CHECKING:
    from papers.qiu2024.bench import Bench
    from papers.qiu2024.store import Task

PARTS = {"master": MASTER_SECONDS, "subproblem": SUBPROBLEM_SECONDS}


def tasks(bench: Bench) -> list[Task]:
    """Return the plain form, where every iteration has a whole solve of the master."""
    return decompose_tasks(bench, "plain")


def seconds(bench: Bench, dataset: str, method: str, part: str) -> list[float]:
    """Return the seconds of every solve; of subproblems, which run one after another, the mean of each iteration."""
    found = []
    for instance in range(bench.scale.instances):
        answer = bench.answer(decompose_task(bench, dataset, method, "plain", instance))
        counts = {row["component"]: len(row["sizes"]) for row in answer["blocks"]}
        for step in answer["steps"]:
            if part == "master":
                found.append(step["master_seconds"])
            elif counts.get(step["component"]):
                found.append(step["block_seconds"] / counts[step["component"]])
    return found


def present(bench: Bench) -> Findings:
    """Make tables and picture."""
    found = {
        (part, dataset, method): seconds(bench, dataset, method, part)
        for part in PARTS
        for dataset in DATASETS
        for method in bench.partitioners
    }
    overall = {
        part: fmean(values)
        for part in PARTS
        if (values := [v for dataset in DATASETS for v in found[part, dataset, "k-m-dv"]])
    }
    text = [
        "Seconds of one solve in the plain form, exact rows: of the master, and of one subproblem. The paper's means "
        f"over all datasets for k-m-DV are {MASTER_SECONDS} s and {SUBPROBLEM_SECONDS} s; ours "
        + " and ".join(f"{value:.3g} s" for value in overall.values())
        + " (hot starts: only bounds and new cuts change from one iteration to the next)."
    ]
    for part in PARTS:
        rows = [[TITLES[d], *(_cell(found[part, d, m]) for m in bench.partitioners)] for d in DATASETS]
        text.append(
            f"**{part.capitalize()}: mean ± 1.96 standard deviations (median)**\n\n"
            + markdown_table(["", *(NAMES[m] for m in bench.partitioners)], rows)
        )

    def draw() -> Any:
        figure, axes = panels(2, 4, width=3.1, height=2.6, sharey="row")
        for row, (part, published) in enumerate(PARTS.items()):
            for column, dataset in enumerate(DATASETS):
                _boxes(axes[row, column], {m: found[part, dataset, m] for m in bench.partitioners})
                axes[row, column].axhline(
                    published,
                    color=PAPER_COLOUR,
                    linestyle=":",
                    linewidth=1.2,
                    label="the paper's mean over all datasets, k-m-DV",
                )
                axes[row, column].set_title(f"{TITLES[dataset]}: {part}")
            axes[row, 0].set_ylabel(f"seconds of one {part} solve")
        legend_below(figure, axes)
        return figure

    summary = {
        f"{part}, {dataset}, {method}": {"ours": mean_spread(values) if values else None, "solves": len(values)}
        for (part, dataset, method), values in found.items()
    }
    return Findings({**summary, "k-m-dv mean": overall, "paper k-m-dv mean": PARTS}, "\n\n".join(text), draw)


def _cell(values: list[float]) -> str:
    if not values:
        return "no iteration finished"
    return beside(shown(mean_spread(values)), f"{sorted(values)[len(values) // 2]:.2g}")


def _boxes(panel: Any, values: dict[str, list[float]]) -> None:
    for place, (method, own) in enumerate(values.items()):
        shown_values = [max(v, 1e-4) for v in own]  # rounded to 0.1 ms
        if shown_values:
            panel.boxplot(
                [shown_values],
                positions=[place],
                widths=0.6,
                patch_artist=True,
                boxprops={"facecolor": COLOURS[method], "alpha": 0.75},
                medianprops={"color": "black" if len(own) > 1 else COLOURS[method], "linewidth": 1.4},
                flierprops={"marker": ".", "markersize": 2.5, "markeredgecolor": COLOURS[method]},
            )
    log_axis(panel, "y")
    panel.set_xticks(range(len(values)), [NAMES[method] for method in values], rotation=30)
    panel.set_xlim(-0.6, len(values) - 0.4)
    panel.grid(axis="x", visible=False)


EXPERIMENT = Experiment("fig-times", "Times of master and subproblem solves", tasks, present)
