"""What an experiment is, and the files that it writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from metricdp.data.writing import write_whole
from papers.qiu2024.bench import machine
from papers.qiu2024.datasets import REFERENCE_RECORDS
from papers.qiu2024.figures import rendered
from papers.qiu2024.store import to_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from papers.qiu2024.bench import Bench
    from papers.qiu2024.store import Task

CAVEAT = (
    "Ours is for the exact problem: every mDP row holds exactly and every mechanism is certified. The paper's figures "
    "are from its own text; its published code slackens every mDP row by 0.01, so it solves an easier problem whose "
    "answer is not epsilon-mDP, with MATLAB's linprog on 16 cores. Times show the order of magnitude and no more."
)


@dataclass(frozen=True)
class Findings:
    """What an experiment has to say.

    Parameters
    ----------
    summary
        The figures of the tables and pictures, with the paper's beside them.
    text
        Markdown: tables and what there is to say about them.
    draw
        Makes the picture.
    """

    summary: dict[str, Any]
    text: str
    draw: Callable[[], Any]


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    Parameters
    ----------
    name
        As on the command line.
    title
        What it shows.
    tasks
        The work it needs; experiments share what they can.
    present
        What comes of it once the work is done.
    """

    name: str
    title: str
    tasks: Callable[[Bench], list[Task]]
    present: Callable[[Bench], Findings]

    def write(self, bench: Bench) -> list[Path]:
        """Write JSON with every raw figure, a Markdown page, and the picture as PNG and SVG."""
        found = self.present(bench)
        about = describe(bench)
        whole = {
            "experiment": self.name,
            "title": self.title,
            "machine": machine(),
            "scale": bench.scale.fields(),
            "road": bench.data.road_name,
            "summary": found.summary,
            "instances": [
                {"kind": task.kind, "task": dict(task.fields), "result": bench.answer(task)}
                for task in dict.fromkeys(self.tasks(bench))
            ],
        }
        page = f"# {self.title}\n\n{about}\n\n{found.text}\n\n![{self.title}]({self.name}.png)\n\n{CAVEAT}\n"
        contents = {"json": to_json(whole), "md": page.encode(), **rendered(found.draw)}
        paths = []
        for suffix, content in contents.items():
            path = bench.out / f"{self.name}.{suffix}"
            write_whole(path, content)
            paths.append(path)
        return paths


def describe(bench: Bench) -> str:
    """Return the settings in a sentence."""
    scale = bench.scale
    smaller = (
        "" if scale.records == REFERENCE_RECORDS else f" **The paper's figures are for {REFERENCE_RECORDS} records.**"
    )
    return (
        f"{scale.name.capitalize()} run: {scale.records:,} records, {scale.outputs} outputs, {scale.blocks} blocks, "
        f"{scale.instances} instance{'s' if scale.instances > 1 else ''}, mean ± 1.96 standard deviations; epsilon 10 "
        f"and a relative gap of 1 % where nothing else is said. Road: {bench.data.road_title}, eta "
        f"{bench.data.eta('road', scale.records):.3g} km. One thread per solve.{smaller}"
    )
