"""`metricdp plan`: from words to numbers."""

from __future__ import annotations

from typing import Annotated

import typer

from metricdp.cli.app import JsonOption, app, one_of, out, print_json
from metricdp.cli.checks import warn_of_people
from metricdp.cli.problems import (
    DataArgument,
    MetricOption,
    OutputsOption,
    RecordsOption,
    SpacingOption,
    eta_of,
    length_of,
    outputs_of,
    whole_seed,
)
from metricdp.cli.regions import plan_of_region, refuse_options, solve_command
from metricdp.data.named import chosen, named
from metricdp.data.people import column_names
from metricdp.errors import InputError
from metricdp.evaluate.plan import plan
from metricdp.report.tables import print_line

DEFAULT_GAP = 0.01


@app.command("plan")
def plan_command(
    source: DataArgument,
    within: Annotated[
        str, typer.Option(help="People so near to one another shall look alike: a distance such as 200m, 0.2km or 0.2.")
    ],
    factor: Annotated[
        float, typer.Option(help="Somebody --within so far sends the same report at least 1/FACTOR as often.")
    ],
    reports: Annotated[
        str, typer.Option(help="How many reports of a person the promise covers, such as 5 or 5/day.")
    ] = "1",
    eta: Annotated[
        str,
        typer.Option(
            help="Records within this distance are neighbours: 0.5, 500m, or connect (the least that joins all).",
            autocompletion=one_of("connect"),
        ),
    ] = "connect",
    records: RecordsOption = None,
    outputs: OutputsOption = None,
    metric: MetricOption = None,
    streets: Annotated[
        str | None, typer.Option(help="CSV of streets u,v[,length km] between the rows of DATA.")
    ] = None,
    spacing: SpacingOption = None,
    gap: Annotated[float, typer.Option(help="Relative gap that memory and time are predicted for.")] = DEFAULT_GAP,
    seed: Annotated[int, typer.Option(help="Number that random draws of records and outputs begin with.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Say what a promise means for DATA: epsilon, eta, outputs, memory and time, and how far reports will be off."""
    seed = whole_seed(seed)
    if source.startswith("region:"):
        given = {
            "eta": None if eta == "connect" else eta, "records": records, "metric": metric, "streets": streets,
            "gap": None if gap == DEFAULT_GAP else gap, "seed": seed or None,
        }  # fmt: skip
        refuse_options(given, dict.fromkeys(given))
        plan_of_region(
            source,
            within=within,
            factor=factor,
            reports=reports,
            spacing=length_of(spacing, "--spacing"),
            outputs=outputs,
            as_json=as_json,
        )
        return
    if spacing is not None:
        raise InputError("--spacing is for regions (region:SOUTH,WEST,NORTH,EAST): leave it out")
    everybody = named(source, streets=streets, seed=seed)
    warnings = warn_of_people(everybody, columns=column_names(source))
    found = plan(
        chosen(everybody, records, seed=seed, option="--records"),
        within=within,
        factor=factor,
        reports=reports,
        eta=eta_of(eta, source),
        outputs=outputs_of(outputs),
        metric=metric,
        gap=gap,
        seed=seed,
    )
    options = {
        "records": records,
        "seed": seed or None if records is not None else None,
        "within": within,
        "factor": f"{factor:g}",
        "reports": None if reports == "1" else reports,
        "eta": repr(found.eta),
        "outputs": outputs if outputs is not None else found.outputs,
        "metric": metric,
        "streets": streets,
        "loss": "distance",
    }
    next_one = solve_command(source, options)
    if as_json:
        print_json({**found.fields(), "command": next_one, "warnings": warnings})
        return
    for line in found.lines():
        print_line(out, line)
    print_line(out, f"Next: {next_one}")
