"""The problem that DATA and its options describe: what `solve`, `audit` and `plan` share."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from metricdp.data import read_rows
from metricdp.data.named import chosen, default_eta, file_named, named
from metricdp.errors import InputError
from metricdp.problem import Problem

EtaOption = Annotated[float | None, typer.Option(help="Records within this distance are neighbours.")]
RecordsOption = Annotated[str | None, typer.Option(help="How many records to draw, or a file of row numbers.")]
OutputsOption = Annotated[
    str | None, typer.Option(help="How many outputs to draw, or a file of rows; by default every record is one.")
]
MetricOption = Annotated[
    str | None,
    typer.Option(help="haversine | euclidean | manhattan | street; by default haversine for places, else euclidean."),
]

ANY_BUDGET = 1.0  # of a problem whose budget is not asked about


def problem_of_data(source: str, described: dict[str, Any], *, seed: int) -> Problem:
    """Return the problem of DATA and of the options that are given, without a loss of its own."""
    seed = whole_seed(seed)
    records = chosen(named(source, seed=seed), described["--records"], seed=seed, option="--records")
    budget = described["--epsilon"]
    return Problem(
        records,
        epsilon=ANY_BUDGET if budget is None else budget,
        eta=eta_of(described["--eta"], source),
        outputs=outputs_of(described["--outputs"]),
        loss="distance",
        metric=described["--metric"],
        seed=seed,
    )


def whole_seed(seed: int) -> int:
    """Return a seed that is zero or more."""
    if seed < 0:
        raise InputError(f"--seed must be zero or more, got {seed}")
    return seed


def eta_of(given: float | None, source: str) -> float:
    """Return the neighbour distance, by default that of a shipped data set."""
    reach = default_eta(source) if given is None else given
    if reach is None:
        raise InputError("--eta is missing: give the distance within which records are neighbours, such as --eta 2")
    return reach


def outputs_of(choice: str | None) -> Any:
    """Return what a problem takes as its outputs."""
    if choice is None:
        return None
    if re.fullmatch(r"[+-]?\d+", choice):
        return int(choice)
    return read_rows(file_named("--outputs", choice, "a whole number"))
