"""Regions on the command line: what `solve`, `verify` and `perturb` do with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from metricdp.apply.files import is_geojson
from metricdp.apply.region_files import perturb_region_file
from metricdp.budget.spending import budget
from metricdp.cli.app import err, out, print_json
from metricdp.cli.checks import warn_of_people
from metricdp.data import Records, Region, read_records, region, region_of_polygon
from metricdp.data.named import file_named
from metricdp.data.writing import stream_number, write_whole
from metricdp.errors import InputError
from metricdp.mechanism.exact import TOTAL_BITS
from metricdp.mechanism.plane import PlaneMechanism
from metricdp.mechanism.plane_files import load_plane
from metricdp.problem import PlaneProblem
from metricdp.report.tables import print_line
from metricdp.solve import solve_plane

STANDARD_OUTPUT = 1  # its number among the open streams


def refuse_options(given: dict[str, Any], defaults: dict[str, Any]) -> None:
    """Refuse options that mean nothing for a region."""
    name = next((name for name, value in given.items() if value != defaults[name]), None)
    if name is not None:
        raise InputError(f"--{name.replace('_', '-')} is not for regions: leave it out")


def _box(source: str, **options: Any) -> tuple[Region, Records | None]:
    """Return the region of ``region:SOUTH,WEST,NORTH,EAST`` or ``region:FILE.geojson``, and where in it people are."""
    text = source.partition(":")[2]
    if is_geojson(text):
        return region_of_polygon(text, **options)
    try:
        south, west, north, east = (float(number) for number in text.split(","))
    except ValueError:
        raise InputError(
            f"{source!r} is not a region: write region:SOUTH,WEST,NORTH,EAST in degrees, such as "
            "region:41.88,12.46,41.90,12.49, or region:FILE.geojson with polygons"
        ) from None
    return region(south, west, north, east, **options), None


def solve_region(
    source: str,
    epsilon: float,
    *,
    spacing: float | None,
    margin: float | None,
    outputs: str | None,
    prior: str | None,
    target: Path | None,
    time_limit: float | None,
    trace: Path | None,
    as_json: bool,
) -> None:
    """Find a mechanism for ``region:SOUTH,WEST,NORTH,EAST``, certify it, and write it to a file."""
    box, places = _box(source, spacing=spacing, margin=margin, epsilon=epsilon)
    if prior not in (None, "uniform"):
        places = read_records(file_named("--prior", str(prior), "uniform"))
    named = None if outputs is None else read_records(file_named("--outputs", outputs))
    warnings = [] if named is None else warn_of_people(named)  # outputs are written into the file
    problem = PlaneProblem(box, epsilon=epsilon, outputs=named, places=places)
    result = solve_plane(problem, time_limit=time_limit)
    if target is not None:
        result.mechanism.save(target)
    if trace is not None:
        write_whole(trace, (result.trace.json_lines() + "\n").encode(), may_pack=True)
    if as_json:
        fields = {
            "status": "done",
            "method": "conic steps",
            "cells": box.cells,
            "nodes": problem.n_nodes,
            "outputs": problem.n_outputs,
            "epsilon": epsilon,
            "lower_bound": result.lower_bound,
            "class_bound": result.class_bound,
            "loss": result.loss,
            "gap": result.gap,
            "certified": result.mechanism.certificate.privacy.certified,
            "rounding": box.rounding,
            "stretch": box.stretch,
            "seconds": result.seconds,
            "iterations": result.steps,
            "file": None if target is None else str(target),
            "warnings": warnings,
        }
        print_json(fields)
    else:
        print_line(out, repr(result.mechanism))
        for line in result.mechanism.certificate.lines():
            print_line(out, f"  {line}")
        print_line(out, result.mechanism.guarantee.sentence)
        if target is not None:
            print_line(out, f"written to {target}")
    if target is None:
        print_line(err, "the mechanism was not written: name a file with -o FILE.mdp to keep it")


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
    each = f"Budget: each report spends epsilon = {mechanism.epsilon:g} per {promise.unit}"
    if summary.persons is None:
        print_line(console, f"{each}; if all are of one person, together {spent:,g}.")
    else:
        charged = f"{summary.reports:,} were charged to {summary.persons:,} persons in {options['ledger'].path}"
        print_line(console, f"{each}; {charged}.")
