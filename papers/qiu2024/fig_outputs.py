"""How far below the exponential mechanism one can be, against the number of outputs, which the paper never states."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING, Any

from papers.qiu2024.averages import markdown_table
from papers.qiu2024.experiment import Experiment, Findings
from papers.qiu2024.figures import TITLES, legend_below, panels
from papers.qiu2024.needs import base
from papers.qiu2024.published import DATASETS, REDUCTION
from papers.qiu2024.scale import GAP
from papers.qiu2024.store import Task

if TYPE_CHECKING:
    from papers.qiu2024.bench import Bench

SHARES = (0.1, 0.2, 0.4, 0.6, 1.0)  # outputs for each record: 50, 100, 200, 300 and 500 at the paper's size
NO_ANSWER = 0.5  # a gap above which a mechanism says nothing about the optimum
CURVES = {"loss": ("#000000", "o", "-", "ours"), "cheapest_loss": ("#777777", "", ":", "most possible")}


def counts(bench: Bench) -> list[int]:
    """Return the numbers of outputs."""
    return [max(1, round(share * bench.scale.records)) for share in SHARES]


def instances(bench: Bench) -> range:
    """Return the instances: not the first, whose records are the paper's own at one number of outputs only."""
    return range(1, bench.scale.instances + 1)


def task(bench: Bench, dataset: str, instance: int, n_outputs: int, epsilon: float) -> Task:
    """Return one run of the method that suits the problem."""
    fields = base(bench, dataset, instance, epsilon=epsilon) | {"outputs": n_outputs}
    return Task.of("best", **fields, gap=GAP, limit=bench.scale.limit)


def tasks(bench: Bench) -> list[Task]:
    """Return every dataset, instance, number of outputs and budget, small ones first."""
    return [
        task(bench, dataset, instance, n_outputs, epsilon)
        for n_outputs in counts(bench)
        for dataset in DATASETS
        for instance in instances(bench)
        for epsilon in bench.scale.epsilons
    ]


def present(bench: Bench) -> Findings:
    """Make table and picture."""
    found = {(d, k): _means(bench, d, k) for d in DATASETS for k in counts(bench)}
    header = ["percent below the exponential mechanism", *(f"K = {k:,}" for k in counts(bench)), "the paper's"]
    rows = [
        [
            TITLES[dataset],
            *(_shown(own) for own in _row(found, bench, dataset)),
            f"{REDUCTION[dataset]:.2f}",
        ]
        for dataset in DATASETS
    ]
    text = (
        f"Ours, and the most possible: the reduction with no privacy at all. Mean over epsilon "
        f"{', '.join(f'{e:g}' for e in bench.scale.epsilons)}; in brackets the largest gap where 1 % was not reached "
        f"in {bench.scale.limit:g} s. K = {counts(bench)[-1]:,} means that every record is an output.\n\n"
        + markdown_table(header, rows)
    )

    def draw() -> Any:
        figure, axes = panels(1, 4, width=3.1, height=2.9)
        for panel, dataset in zip(axes.ravel(), DATASETS, strict=True):
            for key, (colour, marker, line, label) in CURVES.items():
                values = [own[key] if _is_answer(own, key) else math.nan for own in _row(found, bench, dataset)]
                panel.plot(counts(bench), values, color=colour, marker=marker, linestyle=line, label=label)
            panel.axhline(REDUCTION[dataset], color="#D55E00", linewidth=1.2, label="the paper's")
            panel.set_title(TITLES[dataset])
            panel.set_xlabel("outputs K")
            panel.set_ylabel("% below the exponential")
            panel.set_ylim(0, 105)
        legend_below(figure, axes, columns=3)
        return figure

    summary = {
        dataset: {f"K {k}": found[dataset, k] for k in counts(bench)} | {"paper": REDUCTION[dataset]}
        for dataset in DATASETS
    }
    return Findings(summary, text, draw)


def _row(found: dict[tuple[str, int], dict[str, float]], bench: Bench, dataset: str) -> list[dict[str, float]]:
    return [found[dataset, k] for k in counts(bench)]


def _means(bench: Bench, dataset: str, n_outputs: int) -> dict[str, float]:
    """Return mean reductions in percent, and the largest gap."""
    answers = [
        bench.answer(task(bench, dataset, i, n_outputs, e)) for i in instances(bench) for e in bench.scale.epsilons
    ]
    means = {key: fmean(100.0 * (1.0 - a[key] / a["exponential_loss"]) for a in answers) for key in CURVES}
    return {**means, "largest_gap": max(answer["gap"] for answer in answers)}


def _is_answer(own: dict[str, float], key: str) -> bool:
    return key != "loss" or own["largest_gap"] <= NO_ANSWER


def _shown(own: dict[str, float]) -> str:
    """Return ours and the most possible; not ours where nothing near the optimum was found in time."""
    most, gap = f"{own['cheapest_loss']:.1f}", own["largest_gap"]
    if gap > NO_ANSWER:
        return f"not solved (gap {100 * gap:.2g} %) of {most}"
    return f"{own['loss']:.1f} of {most}" + ("" if gap <= GAP else f" (gap {100 * gap:.2g} %)")


EXPERIMENT = Experiment("fig-outputs", "Loss against the number of outputs", tasks, present)
