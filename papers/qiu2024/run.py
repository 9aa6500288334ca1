"""Run one experiment or all of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from metricdp.data.writing import write_whole
from metricdp.errors import InputError
from papers.qiu2024 import (
    fig_blocks,
    fig_boundary_convergence,
    fig_convergence,
    fig_loss,
    fig_outputs,
    fig_partitions,
    fig_related,
    fig_scaling,
    fig_size_convergence,
    fig_times,
    table_iterations,
    table_master,
    table_subproblems,
    table_time,
)
from papers.qiu2024.bench import Bench, open_folder
from papers.qiu2024.datasets import Datasets
from papers.qiu2024.experiment import CAVEAT, describe
from papers.qiu2024.figures import check_plotting

if TYPE_CHECKING:
    from collections.abc import Callable

    from papers.qiu2024.experiment import Experiment
    from papers.qiu2024.scale import Scale

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        table_subproblems,
        table_master,
        table_time,
        table_iterations,
        fig_scaling,
        fig_loss,
        fig_outputs,
        fig_size_convergence,
        fig_boundary_convergence,
        fig_times,
        fig_blocks,
        fig_partitions,
        fig_convergence,
        fig_related,
    )
}
ALL = "all"
REPORT = "report.md"


def run_paper(
    name: str,
    *,
    scale: Scale,
    out: str | Path,
    data: str | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Reproduce a table or figure of the paper, or all of them; return the files that were written.

    Parameters
    ----------
    name
        One of ``EXPERIMENTS``, or ``all``.
    scale
        How large: ``QUICK`` or ``FULL`` of ``papers.qiu2024.scale``, or one of your own.
    out
        Folder for the results; made if it is not there. Finished instances are kept in it and are not run again.
    data
        For the road network: a file of places or a folder, see Datasets; the shipped city if left out.
    tell
        Called with one line for each step.
    """
    if name != ALL and name not in EXPERIMENTS:
        raise InputError(f"there is no experiment {name!r} in the paper: choose all or one of {', '.join(EXPERIMENTS)}")
    check_plotting()
    bench = Bench(scale, Datasets(data), Path(out), tell)
    open_folder(bench.out)
    chosen = list(EXPERIMENTS.values()) if name == ALL else [EXPERIMENTS[name]]
    bench.run(task for experiment in chosen for task in experiment.tasks(bench))
    paths = []
    for experiment in chosen:
        written = experiment.write(bench)
        paths += written
        tell(f"{experiment.name}: {', '.join(path.name for path in written)}")
    if name == ALL:
        paths.append(_report(bench, chosen))
    return paths


def _report(bench: Bench, chosen: list[Experiment]) -> Path:
    """Write one page that links everything."""
    lines = ["# The paper, reproduced", "", describe(bench), "", CAVEAT, ""]
    for experiment in chosen:
        lines += [
            f"## {experiment.title}",
            "",
            f"[tables]({experiment.name}.md) · [JSON]({experiment.name}.json) · [SVG]({experiment.name}.svg)",
            "",
            f"![{experiment.title}]({experiment.name}.png)",
            "",
        ]
    path = bench.out / REPORT
    write_whole(path, "\n".join(lines).encode())
    return path
