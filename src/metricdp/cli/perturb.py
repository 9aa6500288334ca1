"""`metricdp perturb`: reports for record ids, for files of places, and for texts."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from metricdp.apply.files import perturb_file
from metricdp.apply.text import perturb_text
from metricdp.budget.charges import head_path
from metricdp.budget.ledger import Ledger
from metricdp.budget.spending import budget
from metricdp.cli.app import FileArgument, JsonOption, app, err, out, print_json, write_out
from metricdp.cli.checks import check_targets
from metricdp.data.readers.streams import TextSource
from metricdp.data.writing import stream_number
from metricdp.errors import InputError, show_values
from metricdp.mechanism.files import load
from metricdp.mechanism.mechanism import Mechanism
from metricdp.metric.units import with_unit
from metricdp.report.tables import LiveLine, print_line, printable

STANDARD_OUTPUT = 1  # its number among the open streams
SECONDS_BETWEEN_LINES = 10.0  # of progress, when standard error is not a terminal
TEXT_DEFAULTS = {"unknown": "refuse", "keep_punctuation": False}
POLICY_OUTCOMES = {"refuse": "refused", "drop": "dropped", "mask": "masked"}
ROW_DEFAULTS = {"snap_limit": None, "far": "refuse", "snap_distances": None, "keep": ()}
LEDGER_DEFAULTS = {"ledger": None, "person": None, "ledger_key": None, "new_ledger": None}


@app.command("perturb")
def perturb(
    file: FileArgument,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of the true records.")] = None,
    source: Annotated[
        Path | None, typer.Option("--input", help="CSV or GeoJSON: ids of records, or places with --snap-limit.")
    ] = None,
    text: Annotated[Path | None, typer.Option("--text", help="A text whose words are the records' ids.")] = None,
    target: Annotated[
        Path | None,
        typer.Option("--output", help="File of reports to write (GeoJSON if it is named so); - is standard output."),
    ] = None,
    snap_limit: Annotated[
        float | None,
        typer.Option(help="The input has coordinates: snap each to its nearest record, at most this far."),
    ] = None,
    far: Annotated[str, typer.Option(help="Places beyond the limit: refuse the file | drop them.")] = "refuse",
    snap_distances: Annotated[
        Path | None, typer.Option(help="Write how far each place was from its record; keep that file secret.")
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="A column to write beside the reports unchanged, unprotected.")
    ] = None,
    unknown: Annotated[
        str, typer.Option(help="Words outside the vocabulary: refuse the text | drop | mask them.")
    ] = "refuse",
    keep_punctuation: Annotated[
        bool, typer.Option("--keep-punctuation", help="Keep punctuation in place, unprotected.")
    ] = False,
    allow_unprotected: Annotated[
        bool, typer.Option("--allow-unprotected", help="Also report unprotected records, which may show the truth.")
    ] = False,
    show_true: Annotated[bool, typer.Option("--show-values", help="Show true values in error messages.")] = False,
    ledger: Annotated[
        Path | None, typer.Option(help="Charge every person's reports to this ledger first; it must exist.")
    ] = None,
    person: Annotated[str | None, typer.Option(help="The column of the input that names the person to charge.")] = None,
    ledger_key: Annotated[
        Path | None, typer.Option(help="The key file of the ledger; made together with a new ledger.")
    ] = None,
    new_ledger: Annotated[
        float | None, typer.Option(metavar="LIMIT", help="Make the ledger, with this budget for each person.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Report perturbed records. Every report spends the budget again: n reports of one record cost n * epsilon."""
    target = _stream_or_file(target, as_json=as_json)
    _check_ways(bool(ids), source, text, target)
    words: dict[str, Any] = {"unknown": unknown, "keep_punctuation": keep_punctuation}
    rows: dict[str, Any] = {
        "snap_limit": snap_limit,
        "far": far,
        "snap_distances": snap_distances,
        "keep": tuple(keep or ()),
    }
    _check_options(words, TEXT_DEFAULTS, way="--text", is_way=text is not None)
    _check_options(rows, ROW_DEFAULTS, way="--input", is_way=source is not None)
    if snap_limit is None and (far != ROW_DEFAULTS["far"] or snap_distances is not None):
        raise InputError("--far and --snap-distances go with --snap-limit: give the farthest distance at which to snap")
    charging = {"ledger": ledger, "person": person, "ledger_key": ledger_key, "new_ledger": new_ledger}
    _check_options(charging, LEDGER_DEFAULTS, way="--input", is_way=source is not None)
    check_targets(
        {"--output": target, "--snap-distances": snap_distances},
        {
            "--input": source,
            "--text": text,
            "FILE.mdp": file,
            "--ledger": ledger,
            "--ledger-key": ledger_key,
            "the head of --ledger-key": None if ledger is None or ledger_key is None else head_path(ledger_key, ledger),
        },
        may_be_streams=True,
    )
    mechanism = load(file)
    with show_values() if show_true else nullcontext():
        if text is not None and target is not None:
            words["allow_unprotected"] = allow_unprotected
            _perturb_text(mechanism, text, target, words, as_json=as_json)
        elif source is not None and target is not None:
            rows["allow_unprotected"] = allow_unprotected
            rows |= {"ledger": _ledger(charging), "person": person}
            _perturb_rows(mechanism, source, target, rows, as_json=as_json)
        else:
            _print_reports(mechanism, ids or [], allow_unprotected=allow_unprotected, as_json=as_json)


def _stream_or_file(target: Path | None, *, as_json: bool) -> Path | None:
    if target is None or (target != Path("-") and stream_number(target) != STANDARD_OUTPUT):
        return target
    if as_json:
        raise InputError(f"--json and --output {target} would both write to standard output: give --output a file")
    return Path("/dev/stdout")


def _perturb_text(mechanism: Mechanism, source: Path, target: Path, options: dict[str, Any], *, as_json: bool) -> None:
    with Counting(err, "words") as progress:
        summary = perturb_text(mechanism, source, target, progress=progress, **options)
    alone = 0 if options["allow_unprotected"] else summary.unprotected
    epsilon, spent = f"{mechanism.epsilon:g}", f"{budget(mechanism, summary.words):,g}"
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


def _perturb_rows(mechanism: Mechanism, source: Path, target: Path, options: dict[str, Any], *, as_json: bool) -> None:
    with Counting(err, "rows") as progress:
        summary = perturb_file(mechanism, source, target, progress=progress, **options)
    lines = [f"{summary.reports} reports written to {target}"]
    if summary.largest_snap_distance is not None:
        lines.append(
            f"Places were up to {with_unit(summary.largest_snap_distance, mechanism.metric, digits='.6g')} from their "
            f"records (limit {with_unit(options['snap_limit'], mechanism.metric)}); "
            f"{summary.dropped:,} beyond the limit were dropped."
        )
        lines.append(mechanism.guarantee.for_points(options["snap_limit"]).sentence)
    each = f"Budget: each report spends epsilon = {mechanism.epsilon:g} per {mechanism.guarantee.unit}"
    if summary.persons is None:
        lines.append(f"{each}; if all are of one person, together {budget(mechanism, summary.reports):,g}.")
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


def _ledger(options: dict[str, Any]) -> Ledger | None:
    """Return the ledger to charge, an existing one or a new one on request; None without ledger options."""
    path, person, key, limit = (options[name] for name in ("ledger", "person", "ledger_key", "new_ledger"))
    if path is None and (person, key, limit) == (None, None, None):
        return None
    if path is None or person is None:
        raise InputError(
            "--ledger FILE and --person COLUMN go together: name both, or leave out all options of ledgers"
        )
    if limit is not None and path.exists():
        raise InputError(f"--new-ledger would begin anew, but {path} exists: leave it out to charge that ledger")
    if limit is None and not path.exists():
        raise InputError(
            f"the ledger {path} does not exist: put it back if it was lost, or make it with --new-ledger LIMIT"
        )
    return Ledger(path, limit=limit, key=key, must_exist=limit is None)


def _check_ways(has_ids: bool, source: Path | None, text: Path | None, target: Path | None) -> None:
    ways = has_ids + (source is not None) + (text is not None)
    if ways != 1 or has_ids == (target is not None):
        raise InputError("give either record ids, or --input FILE and --output FILE, or --text FILE and --output FILE")


def _check_options(given: dict[str, Any], defaults: dict[str, Any], *, way: str, is_way: bool) -> None:
    """Refuse options that would have no effect."""
    name = next((name for name, value in given.items() if value != defaults[name]), None)
    if name is not None and not is_way:
        raise InputError(f"--{name.replace('_', '-')} goes with {way} FILE: leave it out, or give {way}")


def _print_reports(mechanism: Mechanism, ids: list[str], *, allow_unprotected: bool, as_json: bool) -> None:
    reports = mechanism.perturb(ids, allow_unprotected=allow_unprotected)
    if as_json:
        print_json({"reports": reports, "epsilon": mechanism.epsilon})
    else:
        shown = map(printable, reports) if sys.stdout.isatty() else reports
        write_out("".join(f"{report}\n" for report in shown))


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
    for line in _scope_lines(mechanism, n_unprotected):
        print_line(err, line)


def _scope_lines(mechanism: Mechanism, n_unprotected: int) -> list[str]:
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


class Counting(LiveLine):
    """Shows the progress of reading: continuously on a terminal, elsewhere a line every ten seconds."""

    def __init__(self, console: Console, what: str) -> None:
        super().__init__(console, "reading")
        self.what = what
        self._start = self._last = time.monotonic()

    def __call__(self, source: TextSource, count: int) -> None:
        """Show one step."""
        now, fraction = time.monotonic(), source.fraction
        share = "" if fraction is None else f"{100 * fraction:5.1f} %  "
        line = f"{now - self._start:8.2f} s  {share}{count:,} {self.what}"
        if not self.update(line) and now - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            print_line(self.console, line)
