"""What `metricdp perturb` writes for texts and files of rows, and what it prints of it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from metricdp.apply.files import perturb_file
from metricdp.apply.text import perturb_text
from metricdp.budget.spending import budget
from metricdp.cli.app import err, out, print_json
from metricdp.cli.counting import Counting
from metricdp.cli.streaming import saying_who_is_charged
from metricdp.data.writing import stream_number
from metricdp.mechanism.mechanism import Mechanism
from metricdp.metric.units import rounded_up, with_unit
from metricdp.report.tables import print_line

STANDARD_OUTPUT = 1  # its number among the open streams
POLICY_OUTCOMES = {"refuse": "refused", "drop": "dropped", "mask": "masked"}


def write_text(mechanism: Mechanism, source: Path, target: Path, options: dict[str, Any], *, as_json: bool) -> None:
    """Write a report for each word of a text, and print what was done."""
    with Counting(err, "words") as progress:
        summary = perturb_text(mechanism, source, target, progress=progress, **options)
    alone = 0 if options["allow_unprotected"] else summary.unprotected
    epsilon, spent = rounded_up(mechanism.epsilon), rounded_up(budget(mechanism, summary.words))
    lines = [
        f"{summary.words:,} words drawn, {summary.punctuation:,} punctuation marks taken out, written to {target}",
        (
            f"{summary.unknown + alone:,} words {POLICY_OUTCOMES[options['unknown']]}: {summary.unknown:,} outside the "
            f"vocabulary, {alone:,} without any neighbour in it"
        ),
        (
            f"Budget: the document spends {summary.words:,} words x epsilon {epsilon} = {spent} per "
            f"{mechanism.guarantee.unit}. Had one word been another at path distance d, this output would have been "
            f"at most exp({epsilon} d) times more or less likely; had several been others, d is the sum of their "
            "distances."
        ),
    ]
    fields = {**asdict(summary), "policy": options["unknown"]}
    _answer(
        mechanism,
        fields,
        lines,
        n_reports=summary.words,
        n_unprotected=summary.unprotected - alone,
        file=target,
        as_json=as_json,
    )


def write_rows(mechanism: Mechanism, source: Path, target: Path, options: dict[str, Any], *, as_json: bool) -> None:
    """Write a report for each row of a file, and print what was done."""
    with Counting(err, "rows") as progress, saying_who_is_charged(options["ledger"]):
        summary = perturb_file(mechanism, source, target, progress=progress, **options)
    lines = [f"{summary.reports} reports written to {target}"]
    if summary.largest_snap_distance is not None:
        lines.append(
            f"Places were up to {with_unit(summary.largest_snap_distance, mechanism.metric, digits='.6g')} from their "
            f"records (limit {with_unit(options['snap_limit'], mechanism.metric)}); "
            f"{summary.dropped:,} beyond the limit were dropped."
            + ("" if summary.reports else " None is near: check the order of the coordinates.")
        )
        lines.append(mechanism.guarantee.for_points(options["snap_limit"]).sentence)
    each = f"Budget: each report spends epsilon = {rounded_up(mechanism.epsilon)} per {mechanism.guarantee.unit}"
    if summary.persons is None:
        lines.append(f"{each}; if all are of one person, together {rounded_up(budget(mechanism, summary.reports))}.")
    else:
        n_charged = summary.reports + summary.dropped
        lines.append(f"{each}; {n_charged:,} were charged to {summary.persons:,} persons in {options['ledger'].path}.")
    _answer(
        mechanism,
        asdict(summary),
        lines,
        n_reports=summary.reports,
        n_unprotected=summary.unprotected,
        file=target,
        as_json=as_json,
    )


def _answer(
    mechanism: Mechanism,
    fields: dict[str, Any],
    lines: list[str],
    *,
    n_reports: int,
    n_unprotected: int,
    file: Path,
    as_json: bool,
) -> None:
    if as_json:
        spent = {"epsilon": mechanism.epsilon, "budget": budget(mechanism, n_reports)}
        print_json({**fields, **spent, "file": str(file)})
    else:
        console = err if stream_number(file) == STANDARD_OUTPUT else out
        for line in lines:
            print_line(console, line)
    for line in scope_lines(mechanism, n_unprotected):
        print_line(err, line)


def scope_lines(mechanism: Mechanism, n_unprotected: int) -> list[str]:
    """Return lines on what the reports do not hide; none if every pair of records is protected."""
    lines = []
    n_components = mechanism.certificate.n_components
    if n_unprotected:
        lines.append(
            f"NOT PROTECTED: {n_unprotected:,} reports are of records without any neighbour within "
            f"{with_unit(mechanism.eta, mechanism.metric)} ({mechanism.metric}); they may show the true one. "
            "Make a mechanism with a larger eta."
        )
    if n_components > 1:
        lines.append(
            f"Scope: the records form {n_components} components; a report may show in which one the true record is."
        )
    return lines
