"""A subproblem's iterations to feasibility against its size (the paper's appendix D.2, first figure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from papers.qiu2024.experiment import Experiment, Findings
from papers.qiu2024.feasibility import present as present_feasibility
from papers.qiu2024.feasibility import tasks
from papers.qiu2024.published import SIZE_CORRELATION

if TYPE_CHECKING:
    from papers.qiu2024.bench import Bench


def present(bench: Bench) -> Findings:
    """Make table and picture."""
    return present_feasibility(bench, "size", "internal records", SIZE_CORRELATION)


EXPERIMENT = Experiment("fig-size-convergence", "Size of subproblems against their convergence", tasks, present)
