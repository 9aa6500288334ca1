"""`metricdp estimate`: what the reports of many people say about all of them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Column, Table
from rich.text import Text

from metricdp.cli.app import FileArgument, JsonOption, app, err, out, print_json
from metricdp.cli.checks import check_ending, check_targets
from metricdp.data.readers.files import format_of
from metricdp.data.writing import spreadsheet_cell, write_whole
from metricdp.errors import InputError
from metricdp.mechanism.mechanism import Mechanism
from metricdp.mechanism.opening import load
from metricdp.mechanism.plane import PlaneMechanism
from metricdp.report.tables import print_line, printable
from metricdp.statistics.counts import count_file
from metricdp.statistics.estimate import LEVEL, PopulationEstimate, ShareInterval, estimate
from metricdp.statistics.questions import inside, read_questions, rows_asked

LARGEST_SHOWN = 5  # records with the largest shares

PLOTS = (".png", ".svg")
FIGURES = ("records", "estimate %", "low %", "high %")
SHORTEST_QUESTION = 12  # columns that a question has at least


@app.command("estimate")
def estimate_command(
    file: FileArgument,
    source: Annotated[
        Path | None,
        typer.Option(
            "--input",
            help="The reports, which must be given: CSV with a column report, or GeoJSON, as perturb writes them.",
        ),
    ] = None,
    person: Annotated[
        str | None, typer.Option(help="The column that names the person, to refuse a second report of anyone.")
    ] = None,
    districts: Annotated[
        Path | None, typer.Option(help="Questions: GeoJSON of polygons, or CSV of record ids and their district.")
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="The column (or property) of --districts that names the district.")
    ] = None,
    ids: Annotated[
        list[str] | None,
        typer.Option("--ids", help="A question: the share of these records together, ids with commas between."),
    ] = None,
    polygon: Annotated[
        list[str] | None,
        typer.Option(help='A question: the share inside a polygon, its corners as "LAT,LON LAT,LON LAT,LON ...".'),
    ] = None,
    level: Annotated[float, typer.Option(help="All intervals hold at once with at least this probability.")] = LEVEL,
    target: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write each record's share: CSV, or a GeoJSON map.")
    ] = None,
    table: Annotated[Path | None, typer.Option(help="Write the intervals of all questions as CSV.")] = None,
    by_record: Annotated[
        bool,
        typer.Option(
            "--record-intervals",
            help="Also the interval of each record in --output, as low and high; that takes one linear program each.",
        ),
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the estimate (and the intervals) to a PNG or SVG.")] = None,
    prior: Annotated[
        Path | None, typer.Option(help="Write the estimate as a prior for solve --prior; read the warning.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate where a population is from one report of each person, with intervals that hold for any question."""
    if source is None:
        raise InputError("give the reports with --input FILE: CSV with a column report, or GeoJSON")
    if column is not None and districts is None:
        raise InputError("--column goes with --districts FILE: name the file of the districts")
    if not 0.0 < level < 1.0:
        raise InputError(f"--level must be between 0 and 1, got {level}: give for example 0.95")
    if by_record and target is None:
        raise InputError("--record-intervals goes with --output FILE: name the file of the shares")
    targets = {"--output": target, "--table": table, "--plot": plot, "--prior": prior}
    check_targets(targets, {"FILE.mdp": file, "--input": source, "--districts": districts})
    if plot is not None and plot.suffix.lower() not in PLOTS:
        raise InputError(f"--plot {plot} is no picture: name a {' or '.join(PLOTS)} file")
    for option in ("--output", "--table", "--prior"):
        check_ending(option, targets[option], content="the CSV or GeoJSON that is written", remedy="end it in .csv")
    mechanism = load(file)
    questions = _questions(mechanism, districts, column, ids or [], polygon or [])
    found = estimate(mechanism, count_file(mechanism, source, person=person))
    intervals = found.intervals(questions, level)
    each = _each(found, level) if by_record else None
    _write(found, intervals, each, targets)
    if as_json:
        print_json(_fields(found, intervals, file))
        return
    _print(found, intervals, level)
    for name, path in targets.items():
        if path is not None:
            print_line(out, f"{name.removeprefix('--')} written to {path}")


def _questions(
    mechanism: Mechanism | PlaneMechanism,
    districts: Path | None,
    column: str | None,
    ids: list[str],
    polygons: list[str],
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if districts is not None:
        found |= read_questions(mechanism, districts, column=column)
    for words in ids:
        found[words] = rows_asked(mechanism, [word.strip() for word in words.split(",")])
    for words in polygons:
        found[words] = inside(mechanism.records, _corners(words))
    return found


def _each(found: PopulationEstimate, level: float) -> list[ShareInterval]:
    """Return the interval of each record's share; all of them hold at once, with those of the questions."""
    return [found.interval(row, level) for row in range(found.mechanism.records.n)]


def _write(
    found: PopulationEstimate,
    intervals: dict[str, ShareInterval],
    each: list[ShareInterval] | None,
    targets: dict[str, Path | None],
) -> None:
    target, table, plot, prior = targets.values()
    if target is not None:
        is_map = format_of(target) in (".geojson", ".json")
        write_whole(target, (_map if is_map else _shares)(found, each).encode(), may_pack=True)
    if table is not None:
        write_whole(table, _intervals(intervals).encode(), may_pack=True)
    if plot is not None:
        from metricdp.report.population import save_estimate_plot  # noqa: PLC0415  (an extra)

        save_estimate_plot(plot, found, intervals)
    if prior is not None:
        write_whole(prior, _prior(found).encode(), may_pack=True)
        print_line(err, f"WARNING: {found.prior_warning}")


def _prior(found: PopulationEstimate) -> str:
    """Return what solve --prior takes: a weight in each line, or for a region places with their weights."""
    records = found.as_prior()
    if not isinstance(found.mechanism, PlaneMechanism):
        return "".join(f"{weight!r}\n" for weight in records.prior.tolist())
    axes = "lat,lon" if records.kind == "places" else "x,y"
    rows = zip(records.coordinates.tolist(), records.prior.tolist(), strict=True)
    return f"{axes},weight\n" + "".join(f"{a!r},{b!r},{weight!r}\n" for (a, b), weight in rows)


def _corners(words: str) -> list[list[float]]:
    try:
        return [[float(value) for value in corner.split(",")] for corner in words.split()]
    except ValueError:
        raise InputError(
            f"--polygon {words!r} has a corner that is no pair of numbers: give LAT,LON LAT,LON ..."
        ) from None


def _print(found: PopulationEstimate, intervals: dict[str, ShareInterval], level: float) -> None:
    records = found.mechanism.records
    noun = "nodes" if isinstance(found.mechanism, PlaneMechanism) else "records"
    print_line(out, f"{found.n:,} reports of {records.name}: {records.n:,} {noun}, {len(found.counts):,} outputs")
    state = "converged" if found.is_converged else "NOT converged"
    print_line(
        out,
        f"Distribution: {state} after {found.updates:,} updates; the log-likelihood of all reports is at most "
        f"{found.deficit:.3g} below its maximum.",
    )
    largest = found.distribution.argsort()[::-1][:LARGEST_SHOWN]
    shown = ", ".join(f"{records.ids[row]} {100 * found.distribution[row]:.3g} %" for row in largest)
    print_line(out, f"  largest shares: {shown}")
    if intervals:
        rows = Table(
            Column("question", no_wrap=True, max_width=_room_for_questions(intervals)),
            *(Column(title, no_wrap=True, min_width=len(title)) for title in FIGURES),
            box=box.SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
        )
        for name, one in intervals.items():
            numbers = (f"{100 * value:.3f}" for value in (one.estimate, one.low, one.high))
            rows.add_row(Text(printable(name)), f"{one.n_records:,}", *numbers)
        out.print(rows)
        print_line(
            out, f"  all of these intervals hold at once with probability {100 * level:g} % or more, at any population."
        )
    print_line(out, found.assumption)


def _room_for_questions(intervals: dict[str, ShareInterval]) -> int:
    """Return the columns that the figures leave to the questions: figures are never cut short."""
    counts = max(len(f"{one.n_records:,}") for one in intervals.values())
    taken = max(counts, len(FIGURES[0])) + sum(max(len(title), len("100.000")) for title in FIGURES[1:])
    return max(SHORTEST_QUESTION, out.width - taken - 3 * len(FIGURES))


def _columns(found: PopulationEstimate, each: list[ShareInterval] | None) -> dict[str, list[float]]:
    """Return what is written of each record: its share, and the limits where they were asked for."""
    shares = {"share": found.distribution.tolist()}
    return shares if each is None else {**shares, "low": [one.low for one in each], "high": [one.high for one in each]}


def _shares(found: PopulationEstimate, each: list[ShareInterval] | None) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    records, columns = found.mechanism.records, _columns(found, each)
    axes = ["lat", "lon"] if records.kind == "places" else [f"x{axis + 1}" for axis in range(records.dimension)]
    writer.writerow(["id", *axes, *columns])
    for name, point, *numbers in zip(records.ids, records.coordinates.tolist(), *columns.values(), strict=True):
        writer.writerow([spreadsheet_cell(name), *map(repr, point), *map(repr, numbers)])
    return text.getvalue()


def _map(found: PopulationEstimate, each: list[ShareInterval] | None) -> str:
    records, columns = found.mechanism.records, _columns(found, each)
    if records.kind != "places":
        raise InputError("a GeoJSON map is for places, and these records are vectors: give --output a .csv file")
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "Point", "coordinates": point[::-1]},
            "properties": {"id": name, **dict(zip(columns, numbers, strict=True))},
        }
        for name, point, *numbers in zip(records.ids, records.coordinates.tolist(), *columns.values(), strict=True)
    ]
    return json.dumps({"type": "FeatureCollection", "features": features}) + "\n"


def _intervals(intervals: dict[str, ShareInterval]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["question", "records", "estimate", "low", "high", "level"])
    for name, one in intervals.items():
        numbers = (one.estimate, one.low, one.high, one.level)
        writer.writerow([spreadsheet_cell(name), one.n_records, *map(repr, numbers)])
    return text.getvalue()


def _fields(found: PopulationEstimate, intervals: dict[str, ShareInterval], file: Path) -> dict[str, Any]:
    return {
        "file": str(file),
        "reports": found.n,
        "records": found.mechanism.records.n,
        "outputs": len(found.counts),
        "updates": found.updates,
        "deficit": found.deficit,
        "converged": found.is_converged,
        "distribution": dict(zip(found.mechanism.records.ids, found.distribution.tolist(), strict=True)),
        "questions": {name: vars(one) for name, one in intervals.items()},
        "assumption": found.assumption,
    }
