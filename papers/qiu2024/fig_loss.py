"""Expected loss against epsilon, ours and the exponential mechanism (the paper's appendix D.1)."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from papers.qiu2024.averages import markdown_table, mean_spread, shown
from papers.qiu2024.datasets import ONE_DESTINATION
from papers.qiu2024.experiment import Experiment, Findings
from papers.qiu2024.figures import COLOURS, NAMES, TITLES, legend_below, panels
from papers.qiu2024.needs import best_task
from papers.qiu2024.published import DATASETS, REDUCTION

if TYPE_CHECKING:
    from papers.qiu2024.bench import Bench
    from papers.qiu2024.published import Figure
    from papers.qiu2024.store import Task

VARIANTS = ("road" + ONE_DESTINATION, "grid" + ONE_DESTINATION)
CURVES = {"ours": "loss", "exponential": "exponential_loss", "without privacy": "cheapest_loss"}
UNITS = {"road": "km", "grid": "km", "text": "distance", "synthetic": "distance"}


def tasks(bench: Bench) -> list[Task]:
    """Return every dataset, instance and budget."""
    return [
        best_task(bench, dataset, instance, epsilon=epsilon)
        for dataset in (*DATASETS, *VARIANTS)
        for instance in range(bench.scale.instances)
        for epsilon in bench.scale.epsilons
    ]


def _answers(bench: Bench, dataset: str, epsilon: float) -> list[dict[str, Any]]:
    return [bench.answer(best_task(bench, dataset, i, epsilon=epsilon)) for i in range(bench.scale.instances)]


def _reduction(answers: list[dict[str, Any]], key: str) -> Figure:
    """Return by how many percent a loss is below the exponential mechanism's."""
    return mean_spread([100.0 * (1.0 - answer[key] / answer["exponential_loss"]) for answer in answers])


def present(bench: Bench) -> Findings:
    """Make table and picture."""
    epsilons = bench.scale.epsilons
    curves = {
        (dataset, curve): [mean_spread([a[key] for a in _answers(bench, dataset, e)]) for e in epsilons]
        for dataset in DATASETS
        for curve, key in CURVES.items()
    }
    everything = (*DATASETS, *VARIANTS)
    gaps = {(d, e): max(a["gap"] for a in _answers(bench, d, e)) for d in everything for e in epsilons}
    below = {(d, e): _reduction(_answers(bench, d, e), "loss") for d in everything for e in epsilons}
    most = {d: fmean(_reduction(_answers(bench, d, e), "cheapest_loss")[0] for e in epsilons) for d in everything}
    average = {d: fmean(below[d, e][0] for e in epsilons) for d in everything}
    header = ["percent below the exponential mechanism", *(f"epsilon {e:g}" for e in epsilons)]
    rows = [
        [
            TITLES.get(dataset, dataset),
            *(shown(below[dataset, e]) for e in epsilons),
            f"{average[dataset]:.1f}",
            f"{REDUCTION[dataset.split()[0]]:.2f}",
            f"{most[dataset]:.1f}",
            f"{100 * max(gaps[dataset, e] for e in epsilons):.2g} %",
        ]
        for dataset in everything
    ]
    text = [
        "By how many percent the expected loss of our certified mechanism is below that of the exponential mechanism.",
        markdown_table([*header, "mean", "the paper's mean", "most possible", "largest gap to the optimum"], rows),
        (
            "*Most possible*: the mean reduction if nothing had to be kept private and everybody reported the cheapest "
            "output. No mechanism can go beyond it on these instances. *With one destination*: the loss of the paper's "
            "published code, where one output among many has nearly the record's own distance to the destination."
        ),
        "Expected losses:\n\n" + _losses(bench, curves),
    ]

    def draw() -> Any:
        figure, axes = panels(1, 4, width=3.1, height=2.9)
        worst = max(gaps[dataset, e] for dataset in DATASETS for e in epsilons)
        looks = {
            "ours": (COLOURS["auto"], "o", "-", f"metricdp (certified, within {100 * worst:.2g} % of the optimum)"),
            "exponential": (COLOURS["exponential"], "s", "-", NAMES["exponential"]),
            "without privacy": ("#777777", "", ":", "no privacy at all: cheapest output"),
        }
        for panel, dataset in zip(axes.ravel(), DATASETS, strict=True):
            for curve, (colour, marker, line, label) in looks.items():
                means, spreads = zip(*curves[dataset, curve], strict=True)
                panel.errorbar(
                    epsilons,
                    means,
                    spreads,
                    color=colour,
                    marker=marker,
                    linestyle=line,
                    label=label,
                    capsize=2,
                    markersize=4,
                    linewidth=1.4,
                    elinewidth=0.8,
                )
            unit = "km" if UNITS[dataset] == "km" else "unit"
            panel.set_title(f"{TITLES[dataset]}: {average[dataset]:.1f} % less\n(paper: {REDUCTION[dataset]:.1f} %)")
            panel.set_xlabel(f"epsilon (1 / {unit})")
            panel.set_ylabel(f"expected loss ({UNITS[dataset]})")
            panel.set_ylim(0, 1.12 * max(mean + spread for mean, spread in curves[dataset, "exponential"]))
            panel.set_xticks(epsilons)
        legend_below(figure, axes, columns=3)
        return figure

    summary = {
        dataset: {
            "reduction_percent": {f"{e:g}": below[dataset, e] for e in epsilons},
            "mean_reduction_percent": average[dataset],
            "paper_mean_reduction_percent": REDUCTION[dataset.split()[0]],
            "most_possible_percent": most[dataset],
            "largest_gap": {f"{e:g}": gaps[dataset, e] for e in epsilons},
            **{curve: curves[dataset, curve] for curve in CURVES if dataset in DATASETS},
        }
        for dataset in everything
    }
    return Findings(summary, "\n\n".join(text), draw)


def _losses(bench: Bench, curves: dict[tuple[str, str], list[Figure]]) -> str:
    rows = [
        [TITLES[dataset], curve, *(shown(figure, decimals=3) for figure in curves[dataset, curve])]
        for dataset in DATASETS
        for curve in CURVES
    ]
    return markdown_table(["dataset", "mechanism", *(f"epsilon {e:g}" for e in bench.scale.epsilons)], rows)


EXPERIMENT = Experiment("fig-loss", "Expected loss against epsilon", tasks, present)
