"""`metricdp paper`: the paper's tables and figures, reproduced."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from metricdp.cli.app import app, err, out
from metricdp.errors import InputError, MetricDPError
from metricdp.paper import EXPERIMENTS, FULL, QUICK, run_paper
from metricdp.report.tables import print_line

DEFAULT_FOLDER = Path("metricdp-paper")


@app.command()
def paper(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"all | {' | '.join(EXPERIMENTS)}.")],
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, minutes for all of them (the default).")] = False,
    full: Annotated[bool, typer.Option("--full", help="The paper's sizes: hours for all of them.")] = False,
    output: Annotated[
        Path, typer.Option("--out", help="Folder for the results; what is finished in it is not run again.")
    ] = DEFAULT_FOLDER,
    data: Annotated[
        str | None,
        typer.Option(help="Places for the road network: a file, or a folder with nodes.csv; Gothenburg by default."),
    ] = None,
    instances: Annotated[int | None, typer.Option(help="How many instances to run, 10 in the paper.")] = None,
    time_limit: Annotated[float | None, typer.Option(help="Seconds for each solve.")] = None,
) -> None:
    """Reproduce a table or figure of the paper on the exact problem."""
    if quick and full:
        raise InputError("--quick and --full exclude each other: give one of them")
    scale = (FULL if full else QUICK).with_choices(instances=instances, time_limit=time_limit)
    try:
        paths = run_paper(name, scale=scale, out=output, data=data, tell=lambda line: print_line(err, line))
    except KeyboardInterrupt:
        raise MetricDPError(
            f"interrupted; what is finished is kept in {output}: run the same command again to go on"
        ) from None
    for path in paths:
        print_line(out, str(path))
