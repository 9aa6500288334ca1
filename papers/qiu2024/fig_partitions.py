"""What the partitions look like (the paper's appendix D.4, pictures)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from papers.qiu2024.averages import markdown_table
from papers.qiu2024.experiment import Experiment, Findings
from papers.qiu2024.figures import BLOCK_COLOURS, NAMES, TITLES, panels
from papers.qiu2024.needs import base
from papers.qiu2024.published import DATASETS
from papers.qiu2024.store import Task

if TYPE_CHECKING:
    from papers.qiu2024.bench import Bench

AXES = {
    "road": ("longitude (degrees)", "latitude (degrees)"),
    "grid": ("across rows (km)", "across columns (km)"),
    "text": ("first principal axis", "second principal axis"),
    "synthetic": ("first principal axis", "second principal axis"),
}


def picture_task(bench: Bench, dataset: str, method: str) -> Task:
    """Return the first instance, divided by one partitioner."""
    return Task.of("picture", **base(bench, dataset, 0), method=method, n_blocks=bench.scale.blocks)


def tasks(bench: Bench) -> list[Task]:
    """Return every dataset and partitioner."""
    return [picture_task(bench, dataset, method) for dataset in DATASETS for method in bench.partitioners]


def present(bench: Bench) -> Findings:
    """Make table and picture."""
    found = {(d, m): bench.answer(picture_task(bench, d, m)) for d in DATASETS for m in bench.partitioners}
    rows = [
        [TITLES[d], *(f"{sum(found[d, m]['is_boundary'])} of {len(found[d, m]['block'])}" for m in bench.partitioners)]
        for d in DATASETS
    ]
    text = (
        "The first instance of each dataset. Colours tell blocks apart (they repeat after 20); filled dots are "
        "internal records, rings are boundary records. Words and vectors are projected on their two principal axes. "
        "Boundary records:\n\n" + markdown_table(["boundary records", *(NAMES[m] for m in bench.partitioners)], rows)
    )

    def draw() -> Any:
        figure, axes = panels(len(DATASETS), len(bench.partitioners), width=2.6, height=2.4)
        for row, dataset in enumerate(DATASETS):
            for column, method in enumerate(bench.partitioners):
                panel, one = axes[row, column], found[dataset, method]
                # neighbours in number are not neighbours on the map, so a block and the next one differ well
                own = [BLOCK_COLOURS[(7 * block) % len(BLOCK_COLOURS)] for block in one["block"]]
                faces = ["white" if rim else colour for colour, rim in zip(own, one["is_boundary"], strict=True)]
                panel.scatter(one["x"], one["y"], s=9, c=faces, edgecolors=own, linewidths=0.9)
                panel.set_title(f"{TITLES[dataset]}: {NAMES[method]}", fontsize=8.5)
                panel.tick_params(labelsize=6.5)
                panel.set_xlabel(AXES[dataset][0], fontsize=7)
                if column == 0:
                    panel.set_ylabel(AXES[dataset][1], fontsize=7)
                panel.grid(visible=False)
                if dataset == "grid":
                    panel.set_aspect("equal")
        return figure

    summary = {
        f"{d}, {m}": {"blocks": one["n_blocks"], "boundary": sum(one["is_boundary"]), "records": len(one["block"])}
        for (d, m), one in found.items()
    }
    return Findings(summary, text, draw)


EXPERIMENT = Experiment("fig-partitions", "Examples of partitions", tasks, present)
