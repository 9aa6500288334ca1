"""`metricdp report`: the interactive page of a mechanism file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from metricdp.cli.app import FileArgument, JsonOption, app, one_of, out, print_json
from metricdp.cli.checks import check_targets, warn_of_people
from metricdp.data.named import named
from metricdp.data.readers.files import format_of, is_there
from metricdp.data.readers.layers import read_layers
from metricdp.data.records import Records
from metricdp.data.streets import StreetNetwork
from metricdp.errors import FileFormatError, InputError
from metricdp.evaluate.at_places import at_places
from metricdp.evaluate.compare import BASELINES, QUICK_BASELINES, check_names
from metricdp.evaluate.problem_of_file import Rebuilt, rebuild
from metricdp.mechanism.mechanism import Mechanism
from metricdp.mechanism.opening import load
from metricdp.mechanism.plane import PlaneMechanism
from metricdp.report.convergence import read_trace
from metricdp.report.explorer import SourceFile, compared_with, write_explorer
from metricdp.report.region_page import write_region_page
from metricdp.report.tables import print_line

GEOJSON = (".geojson", ".json")


@app.command("report")
def report(
    file: FileArgument,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The page to write; by default FILE.html.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(help="The log that solve --trace wrote, to show how the bounds closed in.")
    ] = None,
    background: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="DATA",
            help="Draw the streets of DATA (road:gothenburg, GraphML, OSM PBF, CSV), or the water, parks, streets and "
            "names of a GeoJSON file; may be given again.",
        ),
    ] = None,
    streets: Annotated[
        str | None, typer.Option(help="CSV of streets u,v[,length km] between the rows of the --map DATA.")
    ] = None,
    against: Annotated[
        str,
        typer.Option(
            help=f"Mechanisms to compare with: {','.join(BASELINES)}; or none.",
            autocompletion=one_of("none", *BASELINES),
        ),
    ] = ",".join(QUICK_BASELINES),
    as_json: JsonOption = False,
) -> None:
    """Write one HTML page that shows what a mechanism does, with both certificates; it works offline."""
    page = _page_of(file) if output is None else output
    maps = background or []
    layer_files = [name for name in maps if is_there(name) and format_of(name) in GEOJSON]
    networks = [name for name in maps if name not in layer_files]
    sources = {"FILE.mdp": file, "--trace": trace, "--streets": streets}
    check_targets({"--output": page}, {**sources, **{f"--map {name}": name for name in maps}})
    if len(networks) > 1:
        raise InputError(f"--map names streets twice, {networks[0]} and {networks[1]}: give one of them")
    if streets is not None and not networks:
        raise InputError(f"--streets {streets} goes with --map DATA: name the places that the streets join")
    names = [] if against == "none" else [name.strip() for name in against.split(",")]
    check_names(names, is_built=True)
    log = [] if trace is None else read_trace(trace)
    network = _streets(networks[0], streets) if networks else None
    layers = [feature for name in layer_files for feature in read_layers(name)]
    mechanism = load(file)
    if isinstance(mechanism, PlaneMechanism):
        places = at_places(mechanism)
        n_bytes = write_region_page(
            page,
            mechanism,
            found=places,
            compared=compared_with(places.problem, names),
            trace=log,
            streets=network,
            layers=layers,
            file=SourceFile.of(file),
        )
        _answer(page, n_bytes, mechanism.records, as_json=as_json)
        return
    found = _rebuilt(file, mechanism)
    n_bytes = write_explorer(
        page,
        found.mechanism if isinstance(found, Rebuilt) else found,
        problem=found.problem if isinstance(found, Rebuilt) else None,
        is_own_loss=isinstance(found, Rebuilt) and found.is_own_loss,
        compared=compared_with(found.problem, names) if isinstance(found, Rebuilt) else (),
        trace=log,
        streets=network,
        layers=layers,
        file=SourceFile.of(file),
    )
    _answer(page, n_bytes, (found.mechanism if isinstance(found, Rebuilt) else found).records, as_json=as_json)


def _answer(page: Path, n_bytes: int, published: Records, *, as_json: bool) -> None:
    warnings = warn_of_people(published)
    if as_json:
        print_json({"file": str(page), "bytes": n_bytes, "warnings": warnings})
    else:
        then = "unpack it (gunzip) and open" if page.suffix.lower() == ".gz" else "open"
        print_line(out, f"{page} ({n_bytes / 1e6:.1f} MB): {then} it in a browser")


def _rebuilt(file: Path, mechanism: Mechanism) -> Rebuilt | Mechanism:
    """Return the mechanism with its problem, or alone if its losses are not in the file and cannot be computed."""
    try:
        return rebuild(file)
    except FileFormatError:
        raise
    except InputError:
        return mechanism


def _streets(background: str, streets: str | None) -> StreetNetwork:
    network = named(background, streets=streets).streets
    if network is None:
        raise InputError(
            f"--map {background} has no streets: name a GraphML, OSM PBF or GeoJSON file, or add --streets CSV"
        )
    return network


def _page_of(file: Path) -> Path:
    """Return the page beside a mechanism; a name with dots that is not FILE.mdp is kept whole."""
    return file.with_suffix(".html") if file.suffix.lower() == ".mdp" else file.with_name(f"{file.name}.html")
