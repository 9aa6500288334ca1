"""Time and iterations against the number of records (the paper's Figure on larger datasets), and on from there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from papers.qiu2024.averages import markdown_table
from papers.qiu2024.experiment import Experiment, Findings
from papers.qiu2024.figures import COLOURS, NAMES, PAPER_COLOUR, TITLES, legend_below, log_axis, panels, symlog_axis
from papers.qiu2024.needs import best_task, classic_task, decompose_task
from papers.qiu2024.published import DATASETS, MOST_ITERATIONS, SECONDS_AT_1000
from papers.qiu2024.reached import Reached

if TYPE_CHECKING:
    from papers.qiu2024.bench import Bench
    from papers.qiu2024.store import Task

LINES = {
    "plain": ("k-m-dv", "--", "k-m-DV, the paper's plain form"),
    "ours": ("k-m-dv", "-", "k-m-DV, our decomposition"),
    "dual simplex": ("dual simplex", "-", NAMES["dual simplex"]),
    "auto": ("auto", "-", NAMES["auto"]),
}
FASTER_LINES = ("ours", "auto")


def line_task(bench: Bench, line: str, dataset: str, n: int, instance: int) -> Task:
    """Return one run."""
    if line == "auto":
        return best_task(bench, dataset, instance, n=n)
    if line == "dual simplex":
        return classic_task(bench, dataset, line, instance, n=n)
    return decompose_task(bench, dataset, "k-m-dv", line, instance, n=n)


def sizes_of(bench: Bench, dataset: str, line: str) -> list[int]:
    """Return the numbers of records of a line: the faster methods go on beyond the paper's, where there are records."""
    more = tuple(bench.scale.more_sizes) if line in FASTER_LINES else ()
    return [n for n in (*bench.scale.sizes, *more) if n <= bench.data.largest(dataset)]


def tasks(bench: Bench) -> list[Task]:
    """Return every dataset, size, instance and method."""
    return [
        line_task(bench, line, dataset, n, instance)
        for dataset in DATASETS
        for n in sizes_of(bench, dataset, "auto")
        for instance in range(bench.scale.instances)
        for line in LINES
        if n in sizes_of(bench, dataset, line)
    ]


def gathered(bench: Bench, dataset: str, line: str, n: int, key: str) -> Reached:
    """Return one figure of one point."""
    return Reached.of([bench.answer(line_task(bench, line, dataset, n, i)) for i in range(bench.scale.instances)], key)


def present(bench: Bench) -> Findings:
    """Make tables and picture."""
    points = {
        (dataset, line): {n: gathered(bench, dataset, line, n, "seconds") for n in sizes_of(bench, dataset, line)}
        for dataset in DATASETS
        for line in LINES
    }
    steps = {
        (dataset, line): {n: gathered(bench, dataset, line, n, "iterations") for n in sizes_of(bench, dataset, line)}
        for dataset in DATASETS
        for line in ("plain", "ours")
    }
    everything = (*bench.scale.sizes, *bench.scale.more_sizes)
    text = [
        (
            "Seconds to a relative gap of 1 %, 20 records per block. Text has 2,000 words in all. The paper says of "
            "1,000 records: below 6 minutes on grid, text and synthetic, about 30 minutes on road, up to "
            f"{MOST_ITERATIONS} iterations."
        ),
        *(
            f"**{what.capitalize()}**\n\n{_table(found, everything)}"
            for what, found in (("seconds", points), ("iterations of the decomposition", steps))
        ),
    ]

    def draw() -> Any:
        figure, axes = panels(2, 4, width=3.2, height=2.7, sharex="col")
        for column, dataset in enumerate(DATASETS):
            for row, found in enumerate((points, steps)):
                panel = axes[row, column]
                for line, (method, style, label) in LINES.items():
                    if (dataset, line) in found:
                        _curve(panel, found[dataset, line], COLOURS[method], style, label)
                panel.set_xscale("log")
                panel.set_xticks(everything, [f"{n:,}" if n in _few(everything) else "" for n in everything])
                panel.minorticks_off()
                if row == 0:
                    panel.set_title(TITLES[dataset])
                    panel.set_yscale("log")
                    if max(everything) >= 1_000:
                        panel.plot(
                            1_000,
                            SECONDS_AT_1000[dataset],
                            "D",
                            color="white",
                            markeredgecolor=PAPER_COLOUR,
                            markersize=5,
                            label="the paper at 1,000 (about, or at most)",
                        )
                    log_axis(panel, "y")
                else:
                    symlog_axis(panel)
                    panel.set_xlabel("records N")
                panel.set_ylabel("seconds" if row == 0 else "iterations")
        axes[0, 0].plot(
            [], [], "v", color="white", markeredgecolor="#555555", label="limit hit: not all runs reached 1 %"
        )
        legend_below(figure, axes, columns=3)
        return figure

    summary = {
        what: {
            f"{dataset}, {line}": {str(n): value.fields() for n, value in cells.items()}
            for (dataset, line), cells in found.items()
        }
        for what, found in (("seconds", points), ("iterations", steps))
    }
    return Findings({**summary, "paper_seconds_at_1000": SECONDS_AT_1000}, "\n\n".join(text), draw)


def _few(sizes: tuple[int, ...]) -> set[int]:
    """Return the sizes that get a label: each at least 1.4 times the one before."""
    chosen: list[int] = []
    for n in sizes:
        if not chosen or n >= 1.4 * chosen[-1]:
            chosen.append(n)
    return set(chosen)


def _curve(panel: Any, cells: dict[int, Reached], colour: str, style: str, label: str) -> None:
    sizes = list(cells)
    means = [cells[n].figure[0] for n in sizes]
    panel.plot(sizes, means, style, color=colour, linewidth=1.4, label=label)
    for n, mean in zip(sizes, means, strict=True):
        whole = cells[n].is_whole
        panel.plot(
            n,
            mean,
            "o" if whole else "v",
            color=colour if whole else "white",
            markeredgecolor=colour,
            markersize=4 if whole else 6,
        )


def _table(found: dict[tuple[str, str], dict[int, Reached]], sizes: tuple[int, ...]) -> str:
    rows = [
        [TITLES[dataset], LINES[line][2], *(str(cells[n]) if n in cells else "–" for n in sizes)]
        for (dataset, line), cells in found.items()
    ]
    return markdown_table(["dataset", "method", *(f"N = {n:,}" for n in sizes)], rows)


EXPERIMENT = Experiment("fig-scaling", "Time and iterations against the number of records", tasks, present)
