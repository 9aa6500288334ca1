"""Sizes against the number of blocks M (the paper's appendix D.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from papers.qiu2024.averages import markdown_table, mean_spread, shown
from papers.qiu2024.experiment import Experiment, Findings
from papers.qiu2024.figures import COLOURS, TITLES, legend_below, log_axis, panels
from papers.qiu2024.needs import size_task
from papers.qiu2024.published import DATASETS

if TYPE_CHECKING:
    from papers.qiu2024.bench import Bench
    from papers.qiu2024.published import Figure
    from papers.qiu2024.store import Task

METHOD = "k-m-dv"
CURVES = {
    "internal_mean": ("o", "-", "subproblem (internal records)"),
    "cross_mean": ("s", "--", "master component, pairs across blocks only"),
    "master_mean": ("^", ":", "master component, all pairs"),
}


def tasks(bench: Bench) -> list[Task]:
    """Return every dataset, instance and number of blocks."""
    return [
        size_task(bench, dataset, METHOD, instance, n_blocks)
        for dataset in DATASETS
        for instance in range(bench.scale.instances)
        for n_blocks in bench.scale.more_blocks
    ]


def present(bench: Bench) -> Findings:
    """Make table and picture."""
    counts = bench.scale.more_blocks
    found: dict[tuple[str, str], list[Figure]] = {
        (dataset, key): [
            mean_spread(
                [
                    float(bench.answer(size_task(bench, dataset, METHOD, i, m))[key])
                    for i in range(bench.scale.instances)
                ]
            )
            for m in counts
        ]
        for dataset in DATASETS
        for key in CURVES
    }
    rows = [
        [TITLES[dataset], CURVES[key][2], *(shown(figure) for figure in found[dataset, key])]
        for dataset in DATASETS
        for key in CURVES
    ]
    text = (
        "Average sizes with k-m-DV. The paper finds that subproblems shrink as M grows, and that master components "
        "need not.\n\n" + markdown_table(["dataset", "size of", *(f"M = {m}" for m in counts)], rows)
    )

    def draw() -> Any:
        figure, axes = panels(1, 4, width=3.1, height=2.9)
        for panel, dataset in zip(axes.ravel(), DATASETS, strict=True):
            for key, (marker, line, label) in CURVES.items():
                means, spreads = zip(*found[dataset, key], strict=True)
                low = [min(spread, 0.9 * mean) for mean, spread in zip(means, spreads, strict=True)]
                panel.errorbar(
                    counts,
                    means,
                    (low, spreads),
                    color=COLOURS[METHOD],
                    marker=marker,
                    linestyle=line,
                    label=label,
                    markersize=4,
                    linewidth=1.3,
                    elinewidth=0.6,
                    capsize=2,
                )
            log_axis(panel, "y")
            panel.set_title(TITLES[dataset])
            panel.set_xlabel("number of blocks M")
            panel.set_ylabel("average size (records)")
            panel.set_xticks([m for m in counts if (m - counts[0]) % 3 == 0])
        legend_below(figure, axes, columns=3)
        return figure

    summary = {
        dataset: {key: dict(zip(map(str, counts), found[dataset, key], strict=True)) for key in CURVES}
        for dataset in DATASETS
    }
    return Findings(summary, text, draw)


EXPERIMENT = Experiment("fig-blocks", "Sizes against the number of blocks", tasks, present)
