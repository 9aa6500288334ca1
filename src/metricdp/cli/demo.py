"""`metricdp demo`: from a shipped city to a certified mechanism that may report any of its places."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from metricdp.cli.app import ANSWER_IS_NO, JsonOption, app, err, out, print_json
from metricdp.cli.solve import solve_fields
from metricdp.data import road
from metricdp.data.writing import check_writable
from metricdp.evaluate import attack
from metricdp.mechanism.files import save
from metricdp.mechanism.promise import Promise
from metricdp.problem import Problem
from metricdp.report.explorer import SourceFile, compared_with, write_explorer
from metricdp.report.tables import ProgressLine, print_comparison, print_line, print_result
from metricdp.solve import Status, solve

if TYPE_CHECKING:
    from metricdp.mechanism.mechanism import Mechanism

DEMO_FILE, DEMO_PAGE = "metricdp-demo.mdp", "metricdp-demo.html"
CENTRE, N_PLACES = (57.7072, 11.9668), 300  # of Gothenburg: degrees, and how many intersections around it
FACTOR, WITHIN_KM = 4.0, 0.2  # somebody so near sends the same report at least 1 / FACTOR as often
ETA_KM = 1.75  # all pairs of these places: each is protected at its straight distance, as noise on the plane would
GAP = 0.02
N_REPORTS, MOST_DRAWS = 5, 10_000  # different ones that are shown, and how long they are waited for
RIVALS = {
    "planar-laplace-remapped": "planar Laplace, best place",
    "planar-laplace-snapped": "planar Laplace, nearest place",
    "exponential": "exponential mechanism",
}


def different_reports(mechanism: Mechanism, record: str) -> tuple[list[str], int]:
    """Return the first different reports of a record, drawn until there are enough, and how many draws that took."""
    drawn: list[str] = []
    while len(set(drawn)) < N_REPORTS and len(drawn) < MOST_DRAWS:
        drawn += mechanism.perturb([record])
    return list(dict.fromkeys(drawn)), len(drawn)


@app.command("demo")
def demo(as_json: JsonOption = False) -> None:
    """Solve the centre of the shipped city, certify the mechanism, and compare it with what is in use today."""
    check_writable(DEMO_FILE)
    check_writable(DEMO_PAGE)
    places = road("gothenburg").nearest(CENTRE, N_PLACES)
    problem = Problem(places, epsilon=math.log(FACTOR) / WITHIN_KM, eta=ETA_KM, loss="distance")
    with ProgressLine(err, "solving") as progress:
        result = solve(problem, gap=GAP, listener=progress)
    save(result.mechanism, DEMO_FILE)
    compared = compared_with(problem, list(RIVALS))
    write_explorer(
        DEMO_PAGE,
        result.mechanism,
        problem=problem,
        compared=compared,
        trace=result.trace.rows,
        file=SourceFile.of(Path(DEMO_FILE)),
    )
    losses = {"optimal (metricdp)": result.loss, **{RIVALS[name]: loss for name, loss, _ in compared}}
    right = attack(result.mechanism, problem).right
    if as_json:
        fields = {**solve_fields(result, Path(DEMO_FILE)), "losses": losses, "guessed_right": right, "page": DEMO_PAGE}
        print_json(fields)
        return
    print_result(out, result)
    print_comparison(out, losses, "km")
    print_line(
        out,
        f"{Promise.of(WITHIN_KM, FACTOR).sentence} Who knows the mechanism and guesses the place from a report is "
        f"right in {100 * right:.1f} % of all cases.",
    )
    farther = losses[RIVALS["planar-laplace-snapped"]] / result.loss - 1.0
    print_line(
        out, f"Planar Laplace noise with the same guarantee would report {100 * farther:.0f} % farther from the truth."
    )
    true = places.ids[0]
    reports, n_draws = different_reports(result.mechanism, true)
    print_line(
        out,
        f"The first {len(reports)} different reports of somebody at intersection {true}, in {n_draws} draws: "
        f"{', '.join(reports)}",
    )
    print_line(out, f"The mechanism is in {DEMO_FILE}. Check it again with: metricdp verify {DEMO_FILE}")
    print_line(out, f"Explore it in a browser: {Path(DEMO_PAGE).resolve()}")
    if result.status is not Status.OPTIMAL:
        raise typer.Exit(ANSWER_IS_NO)
