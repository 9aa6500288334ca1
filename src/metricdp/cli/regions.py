"""Regions on the command line: what `solve`, `verify` and `perturb` do with them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import typer

from metricdp.apply.files import is_geojson
from metricdp.apply.region_files import perturb_region_file
from metricdp.budget.spending import budget
from metricdp.cli.app import ANSWER_IS_NO, err, out, print_json
from metricdp.cli.checks import tell_of_target, warn_of_people
from metricdp.data import Records, read_places, read_records, region, region_of_polygon
from metricdp.data.named import file_named
from metricdp.data.readers.tables import refuse_underscores
from metricdp.data.region import Region
from metricdp.data.weights import Splines, Triangles
from metricdp.data.writing import stream_number, write_whole
from metricdp.errors import InputError
from metricdp.evaluate.lattice import usual_spacing, with_spacing
from metricdp.evaluate.plan_region import plan_region
from metricdp.mechanism.exact import TOTAL_BITS
from metricdp.mechanism.plane import PlaneMechanism
from metricdp.mechanism.plane_files import load_plane
from metricdp.mechanism.promise import epsilon_for
from metricdp.metric.units import rounded_up
from metricdp.problem import PlaneProblem
from metricdp.report.tables import ProgressLine, print_line
from metricdp.solve import PlaneResult, Status, solve_plane

WEIGHTS = {"splines": Splines.name, "triangles": Triangles.name}
STANDARD_OUTPUT = 1  # its number among the open streams


def refuse_options(given: dict[str, Any], defaults: dict[str, Any]) -> None:
    """Refuse options that mean nothing for a region."""
    name = next((name for name, value in given.items() if value != defaults[name]), None)
    if name is not None:
        raise InputError(f"--{name.replace('_', '-')} is not for regions: leave it out")


def region_of(
    source: str, *, spacing: float | None, epsilon: float, margin: float | None = None, weights: str = Splines.name
) -> tuple[Region, Records | None]:
    """Return the region of ``region:SOUTH,WEST,NORTH,EAST`` or ``region:FILE.geojson``, and where in it people are."""
    text = source.partition(":")[2]
    options: dict[str, Any] = {"spacing": spacing, "epsilon": epsilon, "margin": margin, "weights": weights}
    if is_geojson(text):
        return region_of_polygon(text, **options)
    try:
        refuse_underscores(text)
        south, west, north, east = (float(number) for number in text.encode("ascii").split(b","))
    except ValueError:
        raise InputError(
            f"{source!r} is not a region: write region:SOUTH,WEST,NORTH,EAST in degrees, such as "
            "region:41.88,12.46,41.90,12.49, or region:FILE.geojson with polygons"
        ) from None
    return region(south, west, north, east, **options), None


def plan_of_region(
    source: str,
    *,
    within: str,
    factor: float,
    reports: str,
    spacing: float | None,
    outputs: str | None,
    as_json: bool,
) -> None:
    """Print what a promise means for ``region:SOUTH,WEST,NORTH,EAST``, and the command that comes next."""
    epsilon = epsilon_for(within, factor, reports=reports)
    named = None if outputs is None else read_records(file_named("--outputs", outputs)).coordinates
    box, _ = region_of(source, spacing=spacing, epsilon=epsilon)
    if spacing is None:
        side = usual_spacing(box, epsilon, n_outputs=None if named is None else len(named))
        spacing = float(f"{side:.4g}")
        box = with_spacing(box, spacing)
    found = plan_region(box, within=within, factor=factor, reports=reports, outputs=named)
    options = {
        "within": within,
        "factor": f"{factor:g}",
        "reports": None if reports == "1" else reports,
        "spacing": f"{spacing:g}",
        "outputs": outputs,
    }
    next_one = solve_command(source, options)
    if as_json:
        print_json({**found.fields(), "command": next_one})
        return
    for line in found.lines():
        print_line(out, line)
    if found.is_feasible:
        print_line(out, f"Next: {next_one}")


def solve_command(source: str, options: dict[str, Any]) -> str:
    """Return the command that solves what was planned, as a shell takes it; options that are None are left out."""
    words = [word for name, value in options.items() if value is not None for word in (f"--{name}", str(value))]
    return shlex.join(["metricdp", "solve", source, *words, "-o", "FILE.mdp"])


def solve_region(
    source: str,
    epsilon: float,
    *,
    spacing: float | None,
    margin: float | None,
    weights: str | None,
    outputs: str | None,
    prior: str | None,
    target: Path | None,
    gap: float,
    time_limit: float | None,
    memory_limit: float | None,
    trace: Path | None,
    is_verbose: bool,
    as_json: bool,
) -> None:
    """Find a mechanism for ``region:SOUTH,WEST,NORTH,EAST``, certify it, and write it to a file.

    Exits with 1 if the gap to the larger bound was not reached, as for records.
    """
    if weights not in {None, *WEIGHTS}:
        raise InputError(f"--weights must be {' or '.join(WEIGHTS)}, got {weights!r}")
    kind = WEIGHTS["splines" if weights is None else weights]
    box, places = region_of(source, spacing=spacing, epsilon=epsilon, margin=margin, weights=kind)
    if prior not in (None, "uniform"):
        places = read_places(file_named("--prior", str(prior), "uniform"), box)
    named = None if outputs is None else read_records(file_named("--outputs", outputs))
    warnings = [] if named is None else warn_of_people(named)  # outputs are written into the file
    problem = PlaneProblem(box, epsilon=epsilon, outputs=named, places=places)
    runs = ["Now the bound for any mechanism, from some points as records:"]
    if kind == Triangles.name:
        runs.insert(0, "First an ordinary problem, with the corners of the triangles as records:")
    starts: list[dict[str, Any]] = []
    with ProgressLine(err, "solving", is_verbose=is_verbose) as progress:

        def told(row: dict[str, Any]) -> None:
            if row["stage"] == "start":
                if not starts:
                    tell_of_target(is_written=target is not None)
                starts.append(row)
                if "records" in row and runs:  # a run of its own, with its own clock
                    print_line(err, runs.pop(0))
            progress(row)

        result = solve_plane(problem, gap=gap, time_limit=time_limit, memory_limit=memory_limit, listener=told)
    if target is not None:
        result.mechanism.save(target)
    if trace is not None:
        write_whole(trace, (result.trace.json_lines() + "\n").encode(), may_pack=True)
    _answer(result, target, gap=gap, warnings=warnings, as_json=as_json)


def _answer(result: PlaneResult, target: Path | None, *, gap: float, warnings: list[str], as_json: bool) -> None:
    """Print the result; exit with 1 if the gap was not reached."""
    is_closed = result.status is Status.OPTIMAL
    if as_json:
        print_json({**_solve_fields(result), "file": None if target is None else str(target), "warnings": warnings})
    else:
        print_line(out, repr(result.mechanism))
        for line in result.mechanism.certificate.lines():
            print_line(out, f"  {line}")
        print_line(out, result.mechanism.guarantee.sentence)
        if result.mechanism.optimality is None:
            print_line(
                out,
                f"Expected loss {result.loss:.6g}; no table over this lattice can go below {result.class_bound:.6g}, "
                f"so within {100 * result.class_gap:.3g} % of the best of them. The bound for any mechanism is not "
                "known.",
            )
        if target is not None:
            print_line(out, f"written to {target}")
        if not is_closed:
            to, remedy = "the bound of this lattice", "give more time (--time-limit) or accept a larger --gap"
            if not result.class_bound:
                to, remedy = "the bound for any mechanism", "accept a larger --gap, or take --weights splines"
            if result.is_interrupted:
                remedy = (
                    "the run was interrupted, and this is the best mechanism until then; give it more time, or a "
                    "larger --gap"
                )
            print_line(err, f"the gap {gap:g} to {to} was not reached, it is {result.class_gap:.3g}: {remedy}")
    if target is None:
        print_line(err, "the mechanism was not written: name a file with -o FILE.mdp to keep it")
    if not is_closed:
        raise typer.Exit(ANSWER_IS_NO)


def _solve_fields(result: PlaneResult) -> dict[str, Any]:
    problem, box = result.problem, result.problem.region
    return {
        "status": result.status.value,
        "method": result.method,
        "weights": box.weights,
        "interrupted": result.is_interrupted,
        "cells": box.cells,
        "nodes": problem.n_nodes,
        "outputs": problem.n_outputs,
        "epsilon": problem.epsilon,
        "lower_bound": result.lower_bound,
        "class_bound": result.class_bound,
        "loss": result.loss,
        "gap": result.gap,
        "class_gap": result.class_gap,
        "certified": result.mechanism.certificate.privacy.certified,
        "rounding": box.rounding,
        "stretch": box.stretch,
        "seconds": result.seconds,
        "peak_mb": result.peak_mb,
        "iterations": result.steps,
    }


def verify_region(file: Path, require: str | None, *, as_json: bool) -> None:
    """Check the file of a region's mechanism and print what it promises; raise if it is not private."""
    mechanism = load_plane(file, require=require)
    check, promise = mechanism.certificate.privacy, mechanism.guarantee
    if not as_json:
        print_line(out, repr(mechanism))
        for line in mechanism.certificate.lines():
            print_line(out, f"  {line}")
        print_line(out, promise.sentence)
        return
    fields = {
        "certified": check.certified,
        "domain": "plane",
        "nodes": check.n_nodes,
        "outputs": check.n_outputs,
        "inequalities": check.n_compared,
        "epsilon": check.epsilon,
        "tightest_epsilon": check.tightest_epsilon,
        "rounding": promise.rounding,
        "bits": TOTAL_BITS,
        "seconds": check.seconds,
        "promise": promise.sentence,
    }
    print_json(fields)


def perturb_region(
    mechanism: PlaneMechanism, source: Path, target: Path, options: dict[str, Any], *, progress: Any, as_json: bool
) -> None:
    """Report for each point of a file."""
    summary = perturb_region_file(mechanism, source, target, progress=progress, **options)
    promise, spent = mechanism.guarantee, budget(mechanism, summary.reports)
    if as_json:
        fields = {"reports": summary.reports, "persons": summary.persons, "epsilon": mechanism.epsilon}
        print_json({**fields, "budget": spent, "file": str(target)})
        return
    console = err if stream_number(target) == STANDARD_OUTPUT else out
    print_line(console, f"{summary.reports} reports written to {target}")
    print_line(console, promise.sentence)
    each = f"Budget: each report spends epsilon = {rounded_up(mechanism.epsilon)} per {promise.unit}"
    if summary.persons is None:
        print_line(console, f"{each}; if all are of one person, together {rounded_up(spent)}.")
    else:
        charged = f"{summary.reports:,} were charged to {summary.persons:,} persons in {options['ledger'].path}"
        print_line(console, f"{each}; {charged}.")


def print_region(mechanism: PlaneMechanism) -> None:
    """Print what a region's mechanism promises and claims, before what it costs at some places."""
    print_line(out, repr(mechanism))
    print_line(out, mechanism.guarantee.sentence)
    best = mechanism.optimality
    if best is None:
        print_line(out, "The file claims no bounds.")
    else:
        print_line(
            out,
            f"Claimed by the file for its own prior and loss: expected loss {best.loss:.6g}, no mechanism with these "
            f"outputs below {best.lower_bound:.6g}.",
        )
    print_line(
        out,
        "What follows is for people at some places only, and so is what it says of others; the promise above is for "
        "all points.",
    )


def region_fields(mechanism: PlaneMechanism) -> dict[str, Any]:
    """Return what `evaluate --json` says of a region; pairs and eta are of records."""
    best = mechanism.optimality
    return {
        "domain": "plane",
        "cells": mechanism.region.cells,
        "pairs": None,
        "eta": None,
        "certified": mechanism.certificate.privacy.certified,
        "tightest_epsilon": mechanism.certificate.privacy.tightest_epsilon,
        "claimed_loss": None if best is None else best.loss,
        "claimed_lower_bound": None if best is None else best.lower_bound,
        "promise": mechanism.guarantee.sentence,
    }
