"""HTML tables of results, mechanisms and partitions for notebooks."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from metricdp.metric.units import per_unit, with_unit
from metricdp.report.tables import stored_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.partition.partition import Partition
    from metricdp.solve.result import Result


def mechanism_html(mechanism: Mechanism) -> str:
    """Return a small table: what it is, and both certificates in plain words."""
    metric = mechanism.metric
    rows = [
        ("records", f"{mechanism.records.n:,} ({mechanism.records.name})"),
        ("outputs", f"{mechanism.outputs.n:,}"),
        (
            "epsilon",
            f"{per_unit(mechanism.epsilon, metric)}, neighbours within {with_unit(mechanism.eta, metric)} ({metric})",
        ),
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
    cells = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in rows)
    words = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    listed = f"<ul>{words}</ul>" if words else ""
    return f"<div><strong>{html.escape(title)}</strong><table>{cells}</table>{listed}</div>"
