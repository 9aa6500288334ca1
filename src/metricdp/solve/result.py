"""The result of a run: status, bounds, the certified mechanism, and the trace."""

from __future__ import annotations

import enum
import json
import math
import resource
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metricdp.mechanism.mechanism import relative_gap

if TYPE_CHECKING:
    from collections.abc import Callable

    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.partition import Partition
    from metricdp.problem.problem import Problem


class Status(enum.Enum):
    """How a run ended. A mechanism that comes with any of these is certified private."""

    OPTIMAL = "optimal"  # the gap that was asked for is closed
    LIMIT = "limit"  # stopped by a limit or by the user: the best mechanism so far, with its honest gap
    INFEASIBLE = "infeasible"  # there is no such mechanism
    FAILED = "failed"  # the gap could not be reached; the mechanism is the best one found


@dataclass
class Trace:
    """The rows of a run's log; ``listener`` is called with each new row."""

    listener: Callable[[dict[str, Any]], None] | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    begin: float = field(default_factory=time.perf_counter)

    def add(self, **fields: Any) -> None:
        """Add one step of the run."""
        row = {"seconds": 0.0, **fields}
        row["seconds"] = round(time.perf_counter() - self.begin, 4)  # the clock's, whatever the fields are called
        self.rows.append(row)
        if self.listener is not None:
            self.listener(row)

    def json_lines(self) -> str:
        """Return the log as JSON lines."""
        return "\n".join(json.dumps({key: _finite(value) for key, value in row.items()}) for row in self.rows)


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The outcome of a run.

    ``loss`` is that of the certified integer table; ``lower_bound`` comes from a dual point by a formula that is valid
    for any dual, and is for the true problem. ``method`` is what was asked for, and ``solver`` what ran: for ``"auto"``
    the solvers that it chose, in their order, with commas between. ``is_interrupted`` says that Ctrl-C or SIGTERM ended
    the search before the gap was reached.
    """

    status: Status
    problem: Problem
    mechanism: Mechanism
    lower_bound: float
    loss: float
    method: str
    solver: str
    iterations: int
    seconds: float
    peak_mb: float
    trace: Trace
    partition: Partition | None = None
    cuts: int | None = None
    is_interrupted: bool = False

    @property
    def gap(self) -> float:
        """The relative gap ``(loss - lower_bound) / loss``."""
        return relative_gap(self.loss, self.lower_bound)

    def __repr__(self) -> str:
        return (
            f"Result({self.status.value}: loss {self.loss:.6g}, lower bound {self.lower_bound:.6g}, gap "
            f"{100 * self.gap:.3g} %, {self.solver}, {self.seconds:.2f} s)"
        )

    def _repr_html_(self) -> str:
        from metricdp.report.notebook import result_html  # noqa: PLC0415

        return result_html(self)

    def plot(self, *, axes: Any = None) -> Any:
        """Draw how the bounds closed in; return matplotlib's axes (extra ``plot``)."""
        from metricdp.report.plots import plot_result  # noqa: PLC0415

        return plot_result(self, axes=axes)


def peak_megabytes() -> float:
    """Return the largest memory that this process has held so far, in MB.

    Linux keeps it in /proc; the resource usage that it reports counts what a parent held when it started the process.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = (line.split() for line in status.read_text().splitlines())
        peak = next((float(parts[1]) for parts in lines if parts and parts[0] == "VmHWM:"), 0.0)
        if peak > 0.0:
            return peak / 1e3
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak) / (1e6 if sys.platform == "darwin" else 1e3)


def _finite(value: Any) -> Any:
    """Return None for infinity (a bound that is not known yet), which JSON cannot represent."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
