"""`metricdp demo`: from a shipped city to a certified mechanism."""

from __future__ import annotations

from pathlib import Path

import typer

from metricdp.cli.app import ANSWER_IS_NO, JsonOption, app, err, out, print_json
from metricdp.cli.solve import solve_fields
from metricdp.data import road
from metricdp.data.writing import check_writable
from metricdp.mechanism.baselines import exponential
from metricdp.mechanism.files import save
from metricdp.mechanism.mechanism import table_loss
from metricdp.problem import Problem
from metricdp.report.explorer import SourceFile, compared_with, write_explorer
from metricdp.report.tables import ProgressLine, print_comparison, print_line, print_result
from metricdp.solve import Status, solve

DEMO_FILE, DEMO_PAGE = "metricdp-demo.mdp", "metricdp-demo.html"


@app.command("demo")
def demo(as_json: JsonOption = False) -> None:
    """Solve the shipped city, certify the mechanism, and compare it with the exponential mechanism."""
    check_writable(DEMO_FILE)
    check_writable(DEMO_PAGE)
    problem = Problem(road("gothenburg", n=300, seed=0), epsilon=10.0, eta=1.5, outputs=50, seed=0)
    with ProgressLine(err, "solving") as progress:
        result = solve(problem, gap=1e-4, listener=progress)
    save(result.mechanism, DEMO_FILE)
    write_explorer(
        DEMO_PAGE,
        result.mechanism,
        problem=problem,
        compared=compared_with(problem),
        trace=result.trace.rows,
        file=SourceFile.of(Path(DEMO_FILE)),
    )
    simple = exponential(problem)
    losses = {"optimal (metricdp)": result.loss, "exponential mechanism": table_loss(simple.table, problem)}
    if as_json:
        print_json({**solve_fields(result, Path(DEMO_FILE)), "losses": losses, "page": DEMO_PAGE})
        return
    print_result(out, result)
    print_comparison(out, losses, "km")
    true = problem.records.ids[0]
    print_line(out, f"Somebody at intersection {true} reports: {', '.join(result.mechanism.perturb([true] * 5))}")
    print_line(out, f"The mechanism is in {DEMO_FILE}. Check it again with: metricdp verify {DEMO_FILE}")
    print_line(out, f"Explore it in a browser: {Path(DEMO_PAGE).resolve()}")
    if result.status is not Status.OPTIMAL:
        raise typer.Exit(ANSWER_IS_NO)
