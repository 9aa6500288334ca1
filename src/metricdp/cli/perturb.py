"""`metricdp perturb`: reports for record ids, for files of places, and for texts."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from metricdp.apply.snapping import FAR_POLICIES
from metricdp.apply.stream_rows import FORMATS
from metricdp.apply.streams import OVER_POLICIES
from metricdp.apply.text import UNKNOWN_POLICIES
from metricdp.budget.charges import head_path
from metricdp.cli.app import FileArgument, JsonOption, app, err, one_of, print_json, write_out
from metricdp.cli.checks import check_ending, check_targets
from metricdp.cli.counting import Counting
from metricdp.cli.problems import length_of
from metricdp.cli.regions import perturb_region, refuse_options
from metricdp.cli.streaming import STREAM, ledger_of, memory_of, perturb_standard_streams, saying_who_is_charged
from metricdp.cli.written import STANDARD_OUTPUT, scope_lines, write_rows, write_text
from metricdp.data.readers.files import format_of
from metricdp.data.writing import stream_number
from metricdp.errors import InputError, show_values
from metricdp.mechanism.files import load
from metricdp.mechanism.mechanism import Mechanism
from metricdp.mechanism.plane import OUTSIDE, PlaneMechanism, check_outside
from metricdp.mechanism.plane_files import is_plane_file, load_plane
from metricdp.report.tables import printable

STREAM_SUFFIXES = {
    ".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl", ".geojsonl": "geojsonl", ".geojsonseq": "geojsonseq",
}  # fmt: skip
TEXT_DEFAULTS = {"unknown": "refuse", "keep_punctuation": False}
ROW_DEFAULTS = {"snap_limit": None, "far": "refuse", "snap_distances": None, "keep": (), "fast_snap": False}
LEDGER_DEFAULTS = dict.fromkeys(("ledger", "person", "ledger_key", "new_ledger", "limit", "change_limit", "window"))
STREAM_DEFAULTS = {"format": None, "to": None, "over": "refuse", "memory": None}


@app.command("perturb")
def perturb(
    file: FileArgument,
    ids: Annotated[
        list[str] | None,
        typer.Argument(help="Ids of the true records; - alone reads standard input and writes standard output."),
    ] = None,
    source: Annotated[
        Path | None, typer.Option("--input", help="CSV or GeoJSON: ids of records, or places with --snap-limit.")
    ] = None,
    text: Annotated[Path | None, typer.Option("--text", help="A text whose words are the records' ids.")] = None,
    target: Annotated[
        Path | None,
        typer.Option("--output", help="File of reports to write (GeoJSON if it is named so); - is standard output."),
    ] = None,
    snap_limit: Annotated[
        str | None,
        typer.Option(help="The input has coordinates: snap each to its nearest record, at most this far: 0.5 or 500m."),
    ] = None,
    far: Annotated[
        str,
        typer.Option(
            help="Places beyond the limit: refuse the file | drop them.", autocompletion=one_of(*FAR_POLICIES)
        ),
    ] = "refuse",
    outside: Annotated[
        str | None,
        typer.Option(
            help="For regions, points outside: refuse the file (default) | border (move them).",
            autocompletion=one_of(*OUTSIDE),
        ),
    ] = None,
    snap_distances: Annotated[
        Path | None, typer.Option(help="Write how far each place was from its record; keep that file secret.")
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="A column to write beside the reports unchanged, unprotected.")
    ] = None,
    unknown: Annotated[
        str,
        typer.Option(
            help="Words outside the vocabulary: refuse the text | drop | mask them.",
            autocompletion=one_of(*UNKNOWN_POLICIES),
        ),
    ] = "refuse",
    keep_punctuation: Annotated[
        bool, typer.Option("--keep-punctuation", help="Keep punctuation in place, unprotected.")
    ] = False,
    allow_unprotected: Annotated[
        bool, typer.Option("--allow-unprotected", help="Also report records without neighbours, which may show them.")
    ] = False,
    show_true: Annotated[bool, typer.Option("--show-values", help="Show true values in error messages.")] = False,
    ledger: Annotated[
        Path | None, typer.Option(help="Charge every person's reports to this ledger first; --limit makes it.")
    ] = None,
    person: Annotated[str | None, typer.Option(help="The column of the input that names the person to charge.")] = None,
    ledger_key: Annotated[
        Path | None, typer.Option(help="The key file of the ledger; made together with a new ledger.")
    ] = None,
    new_ledger: Annotated[
        float | None, typer.Option(metavar="LIMIT", help="Make the ledger, with this budget for each person.")
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option(metavar="EPSILON", help="The budget of each person; makes the ledger if there is none yet."),
    ] = None,
    change_limit: Annotated[
        bool, typer.Option("--change-limit", help="Change the limit of the ledger to --limit, for everyone.")
    ] = False,
    window: Annotated[
        str | None, typer.Option(help="The limit holds for any 1d, 12h or 30min, as given; by default for ever.")
    ] = None,
    over: Annotated[
        str,
        typer.Option(
            help="Rows beyond a person's budget, with -: refuse to go on | drop them.",
            autocompletion=one_of(*OVER_POLICIES),
        ),
    ] = "refuse",
    memory: Annotated[
        Path | None,
        typer.Option(help="With -: repeat the stored report of a person and record, at no cost; kept in this file."),
    ] = None,
    fast_snap: Annotated[
        bool,
        typer.Option("--fast-snap", help="Snap with a tree: the same records, but its time depends on the places."),
    ] = False,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help=f"Of standard input, if it cannot be told: {' | '.join(FORMATS)}.",
            autocompletion=one_of(*FORMATS),
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(help="Format of standard output; by default the input's.", autocompletion=one_of(*FORMATS)),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Report perturbed records. Every report spends the budget again: n reports of one record cost n * epsilon."""
    target = _stream_or_file(target, as_json=as_json)
    is_stream = ids == [STREAM]
    _check_ways(bool(ids), source, text, target)
    words: dict[str, Any] = {"unknown": unknown, "keep_punctuation": keep_punctuation}
    rows: dict[str, Any] = {
        "snap_limit": snap_limit,
        "far": far,
        "snap_distances": snap_distances,
        "keep": tuple(keep or ()),
        "fast_snap": fast_snap,
    }
    streaming: dict[str, Any] = {"format": format_, "to": to, "over": over, "memory": memory}
    has_rows = source is not None or is_stream
    _check_options(words, TEXT_DEFAULTS, way="--text", is_way=text is not None)
    _check_options(rows, ROW_DEFAULTS, way="--input", is_way=has_rows)
    _check_options(streaming, STREAM_DEFAULTS, way="-", is_way=is_stream)
    is_region = is_plane_file(file)
    if is_region:  # what is not for regions at all is said before what goes with what
        unused = {name: value for name, value in rows.items() if name != "keep"}
        unused |= {"memory": memory, "allow_unprotected": allow_unprotected}
        refuse_options(unused, {**ROW_DEFAULTS, "memory": None, "allow_unprotected": False})
    if snap_limit is None and (far != ROW_DEFAULTS["far"] or snap_distances is not None or fast_snap):
        raise InputError(
            "--far, --snap-distances and --fast-snap go with --snap-limit: give the farthest distance at which to snap"
        )
    if is_stream and (snap_distances is not None or as_json):
        raise InputError("--snap-distances and --json do not go with -: give --input FILE and --output FILE")
    charging = {
        "ledger": ledger,
        "person": person,
        "ledger_key": ledger_key,
        "new_ledger": new_ledger,
        "limit": limit,
        "change_limit": change_limit or None,
        "window": window,
    }
    _check_options(charging, LEDGER_DEFAULTS, way="--input", is_way=has_rows)
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
    _check_names({"--input": source, "--output": target})
    if is_region:
        used = {"outside": outside or "refuse", "keep": rows["keep"], "person": person}
        asked = used | ({"format": format_, "to": to, "over": over} if is_stream else {})
        with show_values() if show_true else nullcontext():
            _perturb_region(file, source, target, asked, charging, as_json=as_json)
        return
    if outside is not None:
        raise InputError(f"--outside is for mechanisms of regions, and {file} is not one: leave it out")
    mechanism = load(file)
    rows["snap_limit"] = length_of(snap_limit, "--snap-limit", mechanism.metric)
    with show_values() if show_true else nullcontext():
        if text is not None and target is not None:
            words["allow_unprotected"] = allow_unprotected
            write_text(mechanism, text, target, words, as_json=as_json)
        elif source is not None and target is not None:
            rows["allow_unprotected"] = allow_unprotected
            rows |= {"ledger": ledger_of(file, charging | {"memory": None}), "person": person}
            write_rows(mechanism, source, target, rows, as_json=as_json)
        elif is_stream:
            charging["memory"] = memory
            given = ledger_of(file, charging)
            rows |= streaming | {"ledger": given, "person": person, "memory": memory_of(mechanism, charging, given)}
            del rows["snap_distances"]
            rows["allow_unprotected"] = allow_unprotected
            _perturb_stream(mechanism, rows)
        else:
            _print_reports(mechanism, ids or [], allow_unprotected=allow_unprotected, as_json=as_json)


def _check_names(files: dict[str, Path | None]) -> None:
    """Refuse names of formats that only streams have: what is written under such a name would be another format."""
    check_ending("--output", files["--output"], content="CSV, GeoJSON or text", remedy="end it in .csv or .geojson")
    for option, path in files.items():
        kind = None if path is None else STREAM_SUFFIXES.get(format_of(path))
        if kind is not None:
            raise InputError(
                f"{option} {path} is named as {kind}, which only streams have: use metricdp perturb FILE.mdp - --to "
                f"{kind} < INPUT > OUTPUT, or a name that ends in .csv or .geojson"
            )


def _stream_or_file(target: Path | None, *, as_json: bool) -> Path | None:
    if target is None or (target != Path("-") and stream_number(target) != STANDARD_OUTPUT):
        return target
    if as_json:
        raise InputError(f"--json and --output {target} would both write to standard output: give --output a file")
    return Path("/dev/stdout")


def _perturb_region(
    file: Path,
    source: Path | None,
    target: Path | None,
    options: dict[str, Any],
    charging: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    is_stream = "format" in options
    if not is_stream and (source is None or target is None):
        raise InputError(
            f"{file} is for the points of a region: give --input FILE and --output FILE, or - for standard input and "
            "output"
        )
    check_outside(options["outside"])
    mechanism = load_plane(file)
    options["ledger"] = ledger_of(file, charging | {"memory": None})
    if source is None or target is None:
        _perturb_stream(mechanism, options)
        return
    with Counting(err, "rows") as progress, saying_who_is_charged(options["ledger"]):
        perturb_region(mechanism, source, target, options, progress=progress, as_json=as_json)


def _perturb_stream(mechanism: Mechanism | PlaneMechanism, options: dict[str, Any]) -> None:
    if not err.is_terminal:  # a stream may never end: no lines of progress for a log
        perturb_standard_streams(mechanism, options, scope_lines, None)
        return
    with Counting(err, "reports") as progress:
        perturb_standard_streams(mechanism, options, scope_lines, progress)


def _check_ways(has_ids: bool, source: Path | None, text: Path | None, target: Path | None) -> None:
    ways = has_ids + (source is not None) + (text is not None)
    if ways != 1 or has_ids == (target is not None):
        raise InputError(
            "give either record ids, or - for standard input and output, or --input FILE and --output FILE, or --text "
            "FILE and --output FILE"
        )


def _check_options(given: dict[str, Any], defaults: dict[str, Any], *, way: str, is_way: bool) -> None:
    """Refuse options that would have no effect."""
    name = next((name for name, value in given.items() if value != defaults[name]), None)
    if name is not None and not is_way:
        what = way if way == STREAM else f"{way} FILE"
        raise InputError(f"--{name.replace('_', '-')} goes with {what}: leave it out, or give {way}")


def _print_reports(mechanism: Mechanism, ids: list[str], *, allow_unprotected: bool, as_json: bool) -> None:
    reports = mechanism.perturb(ids, allow_unprotected=allow_unprotected)
    if as_json:
        print_json({"reports": reports, "epsilon": mechanism.epsilon})
    else:
        shown = map(printable, reports) if sys.stdout.isatty() else reports
        write_out("".join(f"{report}\n" for report in shown))
