"""The problem that DATA and its options describe: what `solve`, `audit` and `plan` share."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from metricdp.cli.app import one_of
from metricdp.data import read_column, read_rows
from metricdp.data.named import DEFAULT_ETA, chosen, default_eta, file_named, named
from metricdp.data.readers.files import is_there
from metricdp.errors import InputError
from metricdp.mechanism.promise import epsilon_for
from metricdp.metric.units import as_distance
from metricdp.problem import Problem

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from metricdp.data import Records

METRICS = ("haversine", "street", "euclidean", "manhattan", "angular", "cosine", "mahalanobis")
ZERO = re.compile(r"\s*0+(\.0*)?\s*(m|km|mi)?\s*")
BEGINS_AS_NUMBER = re.compile(r"\s*[-+.]?\d")
ANY_BUDGET = 1.0  # of a problem whose budget is not asked about

DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="Shipped data (road:gothenburg | grid:ROWSxCOLUMNS | words | gaussian), a file of records, or a box "
        "(region:SOUTH,WEST,NORTH,EAST in degrees | region:FILE.geojson).",
    ),
]
EtaOption = Annotated[
    str | None,
    typer.Option(
        help="Records within this distance are neighbours: 0.5, 500m, or connect (the least that joins all); by "
        f"default {', '.join(f'{reach:g} for {name}' for name, reach in DEFAULT_ETA.items())}.",
        autocompletion=one_of("connect"),
    ),
]
WithinOption = Annotated[
    str | None,
    typer.Option(help="With --factor, in place of --epsilon: people so near look alike, such as 200m, 0.2km or 0.2."),
]
FactorOption = Annotated[
    float | None, typer.Option(help="Somebody --within so far sends the same report at least 1/FACTOR as often.")
]
ReportsOption = Annotated[
    str | None,
    typer.Option(help="With --within: how many reports of a person the promise covers together, such as 5 or 5/day."),
]
RecordsOption = Annotated[
    str | None, typer.Option(help="How many records to draw, or a file of row numbers; by default all.")
]
OutputsOption = Annotated[
    str | None,
    typer.Option(
        help="What may be reported: K or spread:K (K records, well spread), random:K (K drawn), or a file of row "
        "numbers (for a region, of places); by default every record."
    ),
]
MetricOption = Annotated[
    str | None,
    typer.Option(
        help=f"The distance: {' | '.join(METRICS)}; by default haversine for places, else euclidean.",
        autocompletion=one_of(*METRICS),
    ),
]

SpacingOption = Annotated[
    str | None,
    typer.Option(
        help="For regions: the side of a cell of the lattice, such as 0.1 (km) or 100m; 0.25 / epsilon by default."
    ),
]


def is_zero(text: str | None) -> bool:
    """Return whether an option gives no length at all: 0, 0.0 or 0m."""
    return text is not None and ZERO.fullmatch(text) is not None


def length_of(text: str | None, name: str, metric: str = "haversine") -> float | None:
    """Return the length that an option gives, with a unit or without; None if it is left out."""
    return None if text is None else as_distance(text, metric, what=name)


def problem_of_data(source: str, described: dict[str, Any], *, seed: int) -> Problem:
    """Return the problem of DATA and of the options that are given, without a loss of its own."""
    seed = whole_seed(seed)
    everybody = named(source, seed=seed)
    records = chosen(everybody, described["--records"], seed=seed, option="--records")
    budget = described["--epsilon"]
    if isinstance(budget, str):
        budget = given_budget(budget, source, everybody, records)
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


def eta_of(given: str | None, source: str) -> float | str:
    """Return the neighbour distance, by default that of a shipped data set."""
    reach = default_eta(source) if given is None else given
    if reach is None:
        raise InputError("--eta is missing: give the distance within which records are neighbours, such as --eta 2")
    try:
        return float(reach)
    except ValueError:
        return reach  # with a unit, or a word


def epsilon_of(
    epsilon: float | NDArray[np.float64] | None,
    within: str | None,
    factor: float | None,
    reports: str | None,
    *,
    metric: str,
) -> float | NDArray[np.float64]:
    """Return the budget of one report, as it is given or from what is promised."""
    if epsilon is not None:
        given = [n for n, v in {"--within": within, "--factor": factor, "--reports": reports}.items() if v is not None]
        if given:
            raise InputError(f"--epsilon and {given[0]} both say how much is told: leave one of them out")
        return epsilon
    if within is None or factor is None:
        raise InputError("give --epsilon, or --within and --factor, such as --within 200m --factor 4")
    return epsilon_for(within, factor, reports=1 if reports is None else reports, metric=metric)


def one_epsilon(
    text: str | None, within: str | None, factor: float | None, reports: str | None, *, metric: str
) -> float:
    """Return the one budget of all points, as it is given or from what is promised."""
    try:
        budget = None if text is None else float(text)
    except ValueError:
        raise InputError(
            f"--epsilon must be a number for a region, got {text!r:.80}: its points have one budget"
        ) from None
    return float(epsilon_of(budget, within, factor, reports, metric=metric))


def given_budget(
    text: str | None, source: str, everybody: Records, some: Records, *, memory_limit: float | None = None
) -> float | NDArray[np.float64] | None:
    """Return the number that ``--epsilon`` gives, or the column of DATA that it names, for the records in ``some``."""
    if text is None:
        return None
    with suppress(ValueError):
        return float(text)
    if not is_there(source):
        raise InputError(
            f"--epsilon must be a number, got {text!r:.80}: give a budget such as 10, or the name of a column of a "
            "file of records"
        )
    if BEGINS_AS_NUMBER.match(text):
        raise InputError(
            f"--epsilon must be a plain number, per km for places, got {text!r:.80}: write 2, or use --within and "
            "--factor; the name of a column does not begin with a digit"
        )
    column = read_column(source, text, memory_limit=memory_limit)
    row_of = {name: row for row, name in enumerate(everybody.ids)}
    return column[[row_of[name] for name in some.ids]]


def outputs_of(choice: str | None) -> Any:
    """Return what a problem takes as its outputs."""
    if choice is None:
        return None
    if re.fullmatch(r"[+-]?\d+", choice):
        return int(choice)
    if re.fullmatch(r"(spread|random):\d+", choice):
        return choice
    return read_rows(file_named("--outputs", choice, "a whole number", "spread:K", "random:K"))
