"""Records solved by each related work, by the paper and by us (the paper's first figure)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from papers.qiu2024.averages import markdown_table
from papers.qiu2024.experiment import Experiment, Findings
from papers.qiu2024.fig_scaling import line_task, sizes_of
from papers.qiu2024.figures import COLOURS, TITLES, panels
from papers.qiu2024.published import DATASETS, MOST_RELATED, PAPER_RECORDS, RELATED

if TYPE_CHECKING:
    from papers.qiu2024.bench import Bench
    from papers.qiu2024.store import Task

LINE = "auto"


def tasks(bench: Bench) -> list[Task]:
    """Return the runs of the scaling figure by the method that metricdp chooses."""
    return [
        line_task(bench, LINE, dataset, n, instance)
        for dataset in DATASETS
        for n in sizes_of(bench, dataset, LINE)
        for instance in range(bench.scale.instances)
    ]


def largest_solved(bench: Bench, dataset: str) -> tuple[int, float]:
    """Return the most records of which every instance was solved to 1 % and certified, and the longest time it took."""
    best = (0, 0.0)
    for n in sizes_of(bench, dataset, LINE):
        answers = [bench.answer(line_task(bench, LINE, dataset, n, i)) for i in range(bench.scale.instances)]
        if all(answer["is_reached"] and answer["certified"] for answer in answers):
            best = max(best, (n, max(answer["seconds"] for answer in answers)))
    return best


def present(bench: Bench) -> Findings:
    """Make table and picture."""
    ours = {dataset: largest_solved(bench, dataset) for dataset in DATASETS}
    rows = [
        [name, "–" if count is None else f"at most {count}" if count == MOST_RELATED else f"about {count}"]
        for name, count in RELATED.items()
    ]
    rows.append(["the paper (IJCAI 2024)", f"{PAPER_RECORDS:,}"])
    rows += [[f"metricdp, {TITLES[d]}", f"{n:,} in {seconds:.1f} s"] for d, (n, seconds) in ours.items()]
    text = (
        "Records of the secret dataset. The bars of the paper's figure are not in its text, which says \"up to 100 "
        'records" of most related works and "around 300" of two with constraints between all pairs; UAI 2022 gives '
        "up optimality. Ours: the largest size *tried here* of which every instance was solved to 1 % and certified; "
        f"{bench.scale.outputs} outputs.\n\n" + markdown_table(["work", "records"], rows)
    )

    def draw() -> Any:
        figure, axes = panels(1, 1, width=7.5, height=4.6)
        panel = axes[0, 0]
        names = [*RELATED, "the paper (IJCAI 2024)", *(f"metricdp, {TITLES[d]}" for d in DATASETS)]
        counts = [*RELATED.values(), PAPER_RECORDS, *(ours[d][0] for d in DATASETS)]
        for place, (name, count) in enumerate(zip(names, counts, strict=True)):
            is_ours, is_paper = name.startswith("metricdp"), "IJCAI" in name
            colour = COLOURS["auto"] if is_ours else COLOURS["k-m-dv"] if is_paper else "#BBBBBB"
            if count:
                panel.barh(place, count, color=colour, height=0.7)
            label = (
                "no number in the text"
                if not count
                else f"{count:,}"
                if is_ours or is_paper
                else (f"≤ {count}" if count == MOST_RELATED else f"≈ {count}")
            )
            panel.text(max(count or 0, 10) * 1.06, place, label, va="center", fontsize=8)
        panel.set_yticks(range(len(names)), names)
        panel.invert_yaxis()
        panel.set_xscale("log")
        panel.set_xlim(10, max(max(c or 0 for c in counts) * 3, 3000))
        panel.set_xlabel("records in the secret dataset")
        panel.grid(axis="y", visible=False)
        return figure

    summary = {
        "related": RELATED,
        "paper": PAPER_RECORDS,
        "ours": {d: {"records": n, "seconds": s} for d, (n, s) in ours.items()},
    }
    return Findings(summary, text, draw)


EXPERIMENT = Experiment("fig-related", "Records solved by related work", tasks, present)
