"""A subproblem's iterations to feasibility against its boundary (the paper's appendix D.2, second figure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from papers.qiu2024.experiment import Experiment, Findings
from papers.qiu2024.feasibility import present as present_feasibility
from papers.qiu2024.feasibility import tasks

if TYPE_CHECKING:
    from papers.qiu2024.bench import Bench


def present(bench: Bench) -> Findings:
    """Make table and picture; the paper gives no coefficients here, it says that they are positive."""
    return present_feasibility(bench, "boundary", "boundary records around it", None)


EXPERIMENT = Experiment("fig-boundary-convergence", "Boundary of subproblems against their convergence", tasks, present)
