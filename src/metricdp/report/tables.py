"""Summaries for the terminal."""

from __future__ import annotations

import math
import re
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Self, cast

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console
    from rich.status import Status as Spinner

    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.mechanism.sparse import SparseTable
    from metricdp.solve.result import Result


SHOWN_FIELDS = (
    "start",
    "choice",
    "kernel",
    "trouble",
    "checkpoint",
    "windows",
    "steps",
    "local",
    "gave up",
    "infeasible",
    "certificate",
    "certified",
)
ITERATING = ("benders", "columns", "first-order", "interior", "direct", "regions", "plane")
WIDTH = 100  # columns of a line of progress
# in the reason for a choice: what the solve will cost; where hardly anything can be left out also why, and what helps
PREDICTED = re.compile(r"(windows hold [^;:]*, so hardly [^;]*)?a gap of [^;]* GB(; fewer outputs[^;]*)?")
SECONDS_PER_LINE = 1.0  # of the rows of iterations
LARGE_COMPONENT_RECORDS = 100  # records from which on the steps of the direct method are worth a line each
HEADERS = {
    "local": "       time            iteration  lower bound  upper bound     gap %        stored  time left  moved MB",
    "interior": "       time            iteration  lower bound  upper bound     gap %      step",
    "benders": "       time            iteration  lower bound  upper bound     gap %    cuts  infeasible     rows"
    "    master    blocks",
    "columns": "       time                round  lower bound  upper bound     gap %  columns      new    master"
    "   pricing      pure",
    "first-order": "       time            iteration  lower bound  upper bound     gap %     edges     steps    bounds"
    "    repair  time left",
}


def printable(text: str) -> str:
    r"""Return ``text`` as a terminal may show it: unprintable characters are escaped.

    Examples
    --------
    >>> printable("home \x1b[2J")
    'home \\x1b[2J'
    """
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in text)


def print_line(console: Console, text: str) -> None:
    """Print one line as it is: names from files hold no markup, no emoji codes and no control characters."""
    console.print(printable(text), markup=False, emoji=False, highlight=False, soft_wrap=True)


class LiveLine:
    """A line at the bottom of a terminal that changes as work goes on; nothing elsewhere."""

    def __init__(self, console: Console, title: str) -> None:
        self.console, self.title = console, title
        self._spinner: Spinner | None = None

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._spinner = self.console.status(Text(self.title))
            self._spinner.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._spinner is not None:
            self._spinner.stop()

    def update(self, text: str) -> bool:
        """Show ``text`` in the line; False where there is none."""
        if self._spinner is None:
            return False
        self._spinner.update(Text(text))
        return True


class ProgressLine(LiveLine):
    """Shows the rows of a trace as they come: the main ones as lines, and on a terminal each in turn as a live line.

    Lines are at most 100 columns wide and say how far the run is; with ``is_verbose`` they say all that the solver
    does.
    """

    def __init__(self, console: Console, title: str, *, is_verbose: bool = False) -> None:
        super().__init__(console, title)
        self.is_verbose = is_verbose
        self._header = ""
        self._shown_at = 0.0  # seconds of the run

    def __call__(self, row: dict[str, Any]) -> None:
        """Show one row."""
        if not self.is_verbose:
            self._show_plainly(row)
            return
        line = f"{row['seconds']:8.2f} s  {row['stage']:<10} {_fields(row)}"
        if self._is_shown(row):
            self._shown_at = row["seconds"]
            self._show_header(HEADERS.get(row["stage"], self._header))
            print_line(self.console, line)
        self.update(f"{self.title}  {printable(line)}")

    def _show_plainly(self, row: dict[str, Any]) -> None:
        text = in_words(row)
        if text is None:
            return
        head = f"{row['seconds']:8.2f} s  "
        lines = wrap(printable(text), WIDTH, initial_indent=head, subsequent_indent=" " * len(head))
        if self._is_shown(row):
            self._shown_at = row["seconds"]
            for line in lines:
                print_line(self.console, line)
        self.update(f"{self.title}  {lines[0].strip()}")

    def _is_shown(self, row: dict[str, Any]) -> bool:
        """Return whether a row is worth a line: those of iterations once a second."""
        if row["stage"] in ITERATING:
            is_worth_it = row["stage"] != "direct" or row["records"] >= LARGE_COMPONENT_RECORDS
            return is_worth_it and row["seconds"] >= self._shown_at + SECONDS_PER_LINE
        return row["stage"] in SHOWN_FIELDS

    def _show_header(self, header: str) -> None:
        if header != self._header:
            self._header = header
            print_line(self.console, header)


def in_words(row: dict[str, Any]) -> str | None:  # noqa: PLR0911  one return for each kind of row
    """Return what a row of a trace says to a person who waits; None for what only the solver's author wants to know.

    Examples
    --------
    >>> in_words({"stage": "interior", "iteration": 7, "lower_bound": 0.9, "upper_bound": 1.0, "gap": 0.1})
    'loss 1, no mechanism can go below 0.9: within 10 %'
    """
    stage = row["stage"]
    if stage in ("start", "plane"):
        return _start_words(row)
    if stage == "choice":
        predicted = PREDICTED.search(str(row.get("reason", "")))
        size = f" for {row['records']:,} records" if "records" in row else ""
        return f"method {row.get('method', '')}{size}" + ("" if predicted is None else f": {predicted.group()}")
    if stage in ("regions", "windows", "steps"):
        return _before_a_look(row)
    if stage == "certificate":
        return f"{row['pairs']:,} pairs x {row['outputs']:,} outputs checked exactly in {row['check_seconds']:.2f} s"
    if stage == "certified":
        return f"certified: loss {row['loss']:.6g}, within {100 * row['gap']:.3g} % of the best possible"
    if "trouble" in row or stage in ("gave up", "infeasible"):
        return f"{stage}: {row.get('trouble', row.get('reason', ''))}"
    if stage == "direct":
        return f"linear program with {row['rows']:,} rows for {row['records']:,} records"
    if {"lower_bound", "upper_bound", "gap"} <= set(row):
        left = row.get("seconds_left")
        if math.isinf(row["upper_bound"]):  # nothing has been made private yet
            return f"no mechanism can go below {row['lower_bound']:.6g}; none is made yet"
        return (
            f"loss {row['upper_bound']:.6g}, no mechanism can go below {row['lower_bound']:.6g}: within "
            f"{100 * row['gap']:.3g} %" + ("" if left is None else f", about {left:.0f} s left")
        )
    return None


def _before_a_look(row: dict[str, Any]) -> str:
    """Return how far the local method is before it has a new mechanism to show."""
    if row["stage"] == "regions":
        return _local_fields(row)
    if row["stage"] == "steps":
        return f"step {row['iteration']:,} of {row['due']:,} before the next mechanism"
    known = f", no mechanism can go below {row['lower_bound']:.6g}" if "lower_bound" in row else ""
    return f"{row['entries']:,} entries in windows{known}"


def _start_words(row: dict[str, Any]) -> str:
    """Return what a run begins with, of records or of a region, or how far the steps of a region are."""
    if row["stage"] == "plane":
        loss = f"loss {row['loss']:.6g}, " if "loss" in row else ""
        return f"{row['iteration']:,} steps: {loss}no table over this lattice can go below {row['class_bound']:.6g}"
    if "nodes" in row:
        return f"{row['nodes']:,} nodes x {row['outputs']:,} outputs, about {row['forecast_mb']:,.0f} MB"
    parts = f" in {row['components']:,} components" if row["components"] > 1 else ""
    return f"{row['records']:,} records x {row['outputs']:,} outputs, {row['pairs']:,} neighbour pairs{parts}"


def _local_fields(row: dict[str, Any]) -> str:
    """Return the fields of a look at windows, or of how many regions are done."""
    if row["stage"] == "regions":
        return f"{row['what']}: {row['done']} of {row['regions']} regions"
    moved = f"  {row['bytes_moved'] / 1e6:8.1f}" if "bytes_moved" in row else ""
    return (
        f"{row['iteration']:9d}  {row['lower_bound']:11.6g}  {row['upper_bound']:11.6g}  {100 * row['gap']:8.4f}  "
        f"{row['stored']:12,}  {row['seconds_left']:7.0f} s{moved}"
    )


def _fields(row: dict[str, Any]) -> str:
    if row["stage"] in ("local", "regions"):
        return _local_fields(row)
    if row["stage"] == "benders":
        return (
            f"{row['iteration']:9d}  {row['lower_bound']:11.6g}  {row['upper_bound']:11.6g}  {100 * row['gap']:8.4f}  "
            f"{sum(row['cuts'].values()):6d}  {row['infeasible_blocks']:10d}  {row['master_rows']:7d}  "
            f"{row['master_seconds']:8.2f}  {row['block_seconds']:8.2f}"
        )
    if row["stage"] == "columns":
        return (
            f"{row['round']:9d}  {row['lower_bound']:11.6g}  {row['upper_bound']:11.6g}  {100 * row['gap']:8.4f}  "
            f"{row['columns']:7d}  {row['new_columns']:7d}  {row['master_seconds']:8.2f}  "
            f"{row['pricing_seconds']:8.2f}  {row['pure_seconds']:8.2f}"
        )
    if row["stage"] == "interior":
        return (
            f"{row['iteration']:9d}  {row['lower_bound']:11.6g}  {row['upper_bound']:11.6g}  {100 * row['gap']:8.4f}  "
            f"{row['step']:8.4f}"
        )
    if row["stage"] == "first-order":
        left = "  unknown" if row["seconds_left"] is None else f"  about {row['seconds_left']:.0f} s"
        return (
            f"{row['iteration']:9d}  {row['lower_bound']:11.6g}  {row['upper_bound']:11.6g}  {100 * row['gap']:8.4f}  "
            f"{row['edges']:8d}  {row['step_seconds']:8.2f}  {row['bound_seconds']:8.2f}  "
            f"{row['repair_seconds']:8.2f}{left}"
        )
    return "  ".join(f"{key} {_short(value)}" for key, value in row.items() if key not in ("stage", "seconds"))


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, tuple):
        return "..".join(_short(v) for v in value)
    return str(value)


def print_result(console: Console, result: Result) -> None:
    """Print the result of a run, and both certificates."""
    from metricdp.metric.units import per_unit, with_unit  # noqa: PLC0415  (the help needs no metrics)

    problem, metric = result.problem, result.problem.metric.name
    ended = f"{result.status.value} (interrupted)" if result.is_interrupted else result.status.value
    print_line(
        console,
        f"{problem.records.name}: {problem.n_records} records x {problem.n_outputs} outputs, "
        f"epsilon {per_unit(problem.epsilon, metric, own=problem.epsilons)}, "
        f"eta {with_unit(problem.eta, metric)} ({metric}), "
        f"loss: {problem.loss_name}",
    )
    print_line(
        console,
        f"{ended} by {result.solver} in {result.seconds:.2f} s ({result.peak_mb:.0f} MB): expected loss "
        f"{result.loss:.6g}, lower bound {result.lower_bound:.6g}, gap {100 * result.gap:.3g} %",
    )
    print_certificate(console, result.mechanism)


def print_certificate(console: Console, mechanism: Mechanism) -> None:
    """Print a mechanism's certificate in plain words."""
    for line in mechanism.certificate.lines():
        print_line(console, f"  {line}")
    stored = stored_line(mechanism)
    if stored is not None:
        print_line(console, f"  {stored}")


def stored_line(mechanism: Mechanism) -> str | None:
    """Return how much of a sparse mechanism is stored, in one sentence; None for a dense one."""
    if not mechanism.is_sparse:
        return None
    from metricdp.evaluate.guessing import background_share  # noqa: PLC0415  (the help needs no compiled code)

    table = cast("SparseTable", mechanism.table)
    share, each = background_share(table, mechanism.records.prior), table.n_stored / mechanism.records.n
    return (
        f"Sparse table: {table.n_stored:,} stored weights, {each:.4g} for each record; {100 * share:.3g} % of all "
        "reports come from the background that all records share."
    )


def print_comparison(console: Console, losses: dict[str, float], unit: str) -> None:
    """Print expected losses side by side, the best first."""
    table = Table("mechanism", "expected loss", "against the best")
    best = min(losses.values())
    for name, loss in sorted(losses.items(), key=lambda item: item[1]):
        excess = "best" if loss == best else f"+{100 * (loss / best - 1):.1f} %" if best > 0 else "–"
        table.add_row(Text(printable(name)), Text(printable(f"{loss:.4f} {unit}".rstrip())), excess)
    console.print(table)
