"""How the bounds of the decomposition come together (the paper's appendix D.5)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from papers.qiu2024.averages import markdown_table
from papers.qiu2024.experiment import Experiment, Findings
from papers.qiu2024.figures import COLOURS, NAMES, TITLES, legend_below, log_axis, panels
from papers.qiu2024.needs import decompose_task
from papers.qiu2024.published import DATASETS

if TYPE_CHECKING:
    from papers.qiu2024.bench import Bench
    from papers.qiu2024.store import Task


def tasks(bench: Bench) -> list[Task]:
    """Return the first instance by every partitioner, in both forms."""
    return [
        decompose_task(bench, dataset, method, preset, 0)
        for dataset in DATASETS
        for method in bench.partitioners
        for preset in ("plain", "ours")
    ]


def largest_component_steps(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the iterations of the largest component that was decomposed."""
    if not answer["blocks"]:
        return []
    largest = max(answer["blocks"], key=lambda row: sum(row["sizes"]) + row["boundary"])["component"]
    return [step for step in answer["steps"] if step["component"] == largest]


def present(bench: Bench) -> Findings:
    """Make table and picture."""
    answers = {
        (preset, d, m): bench.answer(decompose_task(bench, d, m, preset, 0))
        for preset in ("plain", "ours")
        for d in DATASETS
        for m in bench.partitioners
    }
    plain = {(d, m): largest_component_steps(answers["plain", d, m]) for d in DATASETS for m in bench.partitioners}
    rows = [
        [TITLES[d], NAMES[m], len(plain[d, m]), *_last(plain[d, m]), _ours(answers["ours", d, m])]
        for d in DATASETS
        for m in bench.partitioners
    ]
    header = [
        "dataset",
        "partitioner",
        "iterations",
        "first upper bound in",
        "lower bound",
        "upper bound",
        "gap",
        "ours",
    ]
    text = (
        "Both bounds of the plain form on the exact rows, first instance, largest component. Until every subproblem is "
        "feasible in one iteration there is no upper bound (the paper draws 9 for such a subproblem). The last column "
        "is our decomposition on the whole problem.\n\n" + markdown_table(header, rows)
    )

    def draw() -> Any:
        figure, axes = panels(1, 4, width=3.2, height=3.0)
        for panel, dataset in zip(axes.ravel(), DATASETS, strict=True):
            curves = {method: _percent(plain[dataset, method]) for method in bench.partitioners}
            for method, (lower, upper) in curves.items():
                mark = "." if len(lower) < 4 else ""
                panel.plot(*zip(*lower, strict=True), "--", color=COLOURS[method], linewidth=1.2, marker=mark)
                # a curve without points is for the legend
                points = zip(*upper, strict=True) if upper else ([], [])
                panel.plot(*points, "-", color=COLOURS[method], linewidth=1.4, marker=mark, label=NAMES[method])
            panel.axhline(1.0, color="#777777", linestyle=":", linewidth=1, label="1 %: the end")
            panel.set_title(TITLES[dataset])
            panel.set_xlabel("iteration")
            panel.set_xlim(0.8, max(12.0, 1.1 * max(len(plain[dataset, method]) for method in bench.partitioners)))
            panel.set_ylim(top=max(2.0, panel.get_ylim()[1]))
            log_axis(panel, "x")
        axes[0, 0].set_ylabel("% above the last lower bound")
        axes[0, 0].plot([], [], "-", color="#555555", label="upper bound")
        axes[0, 0].plot([], [], "--", color="#555555", label="lower bound")
        legend_below(figure, axes, columns=8)
        return figure

    summary = {f"{d}, {m}": {"steps": plain[d, m]} for d in DATASETS for m in bench.partitioners}
    return Findings(summary, text, draw)


def _percent(steps: list[dict[str, Any]]) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
    """Return both bounds by iteration, in percent above the last lower bound."""
    last = steps[-1]["lower_bound"] if steps else 1.0
    lower = [(step["iteration"] + 1, 100 * (step["lower_bound"] / last - 1)) for step in steps] or [(1, math.nan)]
    upper = [(s["iteration"] + 1, 100 * (s["upper_bound"] / last - 1)) for s in steps if s["upper_bound"]]
    return lower, upper


def _last(steps: list[dict[str, Any]]) -> list[str]:
    if not steps:
        return ["–", "–", "–", "no iteration finished"]
    first = next((str(step["iteration"] + 1) for step in steps if step["upper_bound"]), "none")
    last = steps[-1]
    if not last["upper_bound"]:
        return [first, f"{last['lower_bound']:.5g}", "none", "–"]
    return [first, f"{last['lower_bound']:.5g}", f"{last['upper_bound']:.5g}", f"{100 * last['gap']:.2g} %"]


def _ours(answer: dict[str, Any]) -> str:
    return f"{answer['iterations']} iterations, {answer['seconds']:.1f} s, gap {100 * answer['gap']:.2g} %"


EXPERIMENT = Experiment("fig-convergence", "Convergence of the bounds", tasks, present)
