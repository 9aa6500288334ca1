"""HTML tables of records, problems, results, mechanisms, comparisons and partitions for notebooks."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from metricdp.metric.units import per_unit, with_unit
from metricdp.report.tables import stored_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from metricdp.data.records import Records
    from metricdp.evaluate.compare import Comparison
    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.partition.partition import Partition
    from metricdp.problem.problem import Problem
    from metricdp.solve.result import Result

SHOWN_RECORDS, SHOWN_COORDINATES = 5, 4
# notebooks put everything to the right, where words are hard to read
LEFT, SHORT = ' style="text-align: left"', ' style="text-align: left; white-space: nowrap"'


def records_html(records: Records) -> str:
    """Return a small table: what they are, and the first of them."""
    rows = [("records", f"{records.n:,} {records.kind}, {records.dimension} dimensions")]
    if records.n:
        low, high = records.prior.min(), records.prior.max()
        rows.append(("prior", "uniform" if low == high else f"{low:.3g} to {high:.3g}"))
    if records.streets is not None:
        rows.append(("streets", f"{records.streets.n_edges:,}"))
    for name, place in zip(records.ids[:SHOWN_RECORDS], records.coordinates[:SHOWN_RECORDS], strict=True):
        more = ", …" if records.dimension > SHOWN_COORDINATES else ""
        rows.append((str(name), ", ".join(f"{number:.6g}" for number in place[:SHOWN_COORDINATES]) + more))
    if records.n > SHOWN_RECORDS:
        rows.append(("…", f"{records.n - SHOWN_RECORDS:,} more"))
    return _table(f"Records {records.name}", rows)


def problem_html(problem: Problem) -> str:
    """Return a small table: sizes, budget, and who is protected from whom."""
    metric, graph = problem.metric.name, problem.graph
    rows = [
        ("records", f"{problem.n_records:,} ({problem.records.name})"),
        ("outputs", f"{problem.n_outputs:,}"),
        ("epsilon", per_unit(problem.epsilon, metric, own=problem.epsilons)),
        ("neighbours", f"{graph.n_pairs:,} pairs within {with_unit(problem.eta, metric)} ({metric})"),
        ("components", f"{graph.n_components:,}"),
        ("loss", problem.loss_name),
    ]
    return _table("Problem", rows)


def comparison_html(comparison: Comparison) -> str:
    """Return the table of a comparison, ours first; those without a certificate are marked as such."""
    rows = [
        (
            row.name,
            f"{row.loss:.6g}",
            f"{row.loss_after_remap:.6g}",
            "–" if row.adversary_error is None else f"{row.adversary_error:.6g}",
            f"{100 * row.adversary_right:.3g} %",
            f"{row.tightest_epsilon:.6g}",
            "certified" if row.certified else "NOT certified",
            row.note,
        )
        for row in comparison.rows
    ]
    blank = ("",) * 4
    rows += [
        (one.name, f"{one.loss:.6g} ± {one.standard_error:.2g}", *blank, "NOT certified", one.note)
        for one in comparison.estimates
    ]
    heads = (
        "mechanism",
        "loss",
        "after remap",
        "adversary off by",
        "adversary right",
        "epsilon that holds",
        "certificate",
        "",
    )
    lines = [f"{name}: {reason}" for name, reason in comparison.unavailable.items()]
    return _grid("Comparison", heads, rows, lines)


def mechanism_html(mechanism: Mechanism) -> str:
    """Return a small table: what it is, and both certificates in plain words."""
    metric = mechanism.metric
    budget = per_unit(mechanism.epsilon, metric, own=mechanism.epsilons)
    rows = [
        ("records", f"{mechanism.records.n:,} ({mechanism.records.name})"),
        ("outputs", f"{mechanism.outputs.n:,}"),
        ("epsilon", f"{budget}, neighbours within {with_unit(mechanism.eta, metric)} ({metric})"),
    ]
    stored = stored_line(mechanism)
    return _table("Mechanism", rows, [*mechanism.certificate.lines(), *([] if stored is None else [stored])])


def result_html(result: Result) -> str:
    """Return a small table of how the run ended."""
    rows = [
        ("status", result.status.value),
        ("expected loss", f"{result.loss:.6g} ({result.problem.loss_name})"),
        ("lower bound", f"{result.lower_bound:.6g}"),
        ("gap", f"{100 * result.gap:.3g} %"),
        ("solver", f"{result.solver}, {result.seconds:.2f} s, {result.peak_mb:.0f} MB"),
    ]
    return _table("Result", rows, result.mechanism.certificate.lines())


def partition_html(partition: Partition) -> str:
    """Return a small table of the partition's figures."""
    quality = partition.quality
    rows = [
        ("blocks", f"{quality.n_blocks:,}, balance {quality.balance:.3g}"),
        ("internal records", f"{quality.internal_mean:.4g} per block, {quality.internal_max:,} at most"),
        ("boundary records", f"{quality.n_boundary:,} ({partition.separator})"),
        ("cut neighbour pairs", f"{quality.n_cut_edges:,}"),
    ]
    return _table(f"Partition by {partition.name}", rows)


def _table(title: str, rows: Iterable[tuple[str, str]], lines: Iterable[str] = ()) -> str:
    cells = "".join(
        f"<tr><th{SHORT}>{html.escape(name)}</th><td{LEFT}>{html.escape(value)}</td></tr>" for name, value in rows
    )
    return _shown(title, cells, lines)


def _grid(title: str, heads: Sequence[str], rows: Iterable[Iterable[str]], lines: Iterable[str]) -> str:
    """Return a table with names and words to the left, and between them numbers as notebooks show them."""
    styles = [SHORT, *[""] * (len(heads) - 3), SHORT, LEFT]
    head = "".join(f"<th{style}>{html.escape(name)}</th>" for style, name in zip(styles, heads, strict=True))
    body = "".join(f"<tr>{_cells(styles, row)}</tr>" for row in rows)
    return _shown(title, f"<tr>{head}</tr>{body}", lines)


def _cells(styles: Iterable[str], row: Iterable[str]) -> str:
    return "".join(f"<td{style}>{html.escape(cell)}</td>" for style, cell in zip(styles, row, strict=True))


def _shown(title: str, cells: str, lines: Iterable[str]) -> str:
    words = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    listed = f"<ul>{words}</ul>" if words else ""
    return f"<div><strong>{html.escape(title)}</strong><table>{cells}</table>{listed}</div>"
