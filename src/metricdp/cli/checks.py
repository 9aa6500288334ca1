"""Checks before a command runs: files not to be overwritten, and records that look like people's data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metricdp.cli.app import err
from metricdp.data.people import publication_warning
from metricdp.data.readers.files import format_of, is_there
from metricdp.data.records import Records
from metricdp.data.writing import check_writable, remove_leftovers
from metricdp.errors import InputError
from metricdp.metric.units import in_words
from metricdp.problem import Problem
from metricdp.report.tables import print_line

# what no command writes as text or as a mechanism
OTHER_FORMATS = (
    ".xlsx", ".xlsm", ".xls", ".ods", ".docx", ".pdf", ".zip", ".png", ".svg", ".jpg", ".html", ".npy", ".npz", ".gpkg",
    ".shp", ".kml", ".sqlite", ".db", ".pbf", ".graphml",
)  # fmt: skip
TEXT_FORMATS = (".csv", ".tsv", ".txt", ".json", ".geojson", ".jsonl", ".md", ".parquet")
MAY_BE_MISSING = ("--ledger", "--ledger-key", "the head of --ledger-key")  # accepted even if they do not exist yet


def check_targets(
    targets: dict[str, Path | None], sources: dict[str, str | Path | None], *, may_be_streams: bool = False
) -> None:
    """Refuse files that cannot be written, and two options that name one file where one of them writes it.

    Temporary files of a killed process beside a target are removed.
    """
    taken = {
        Path(path).resolve(): option
        for option, path in sources.items()
        if path is not None and (option in MAY_BE_MISSING or is_there(path))
    }
    for option, path in targets.items():
        if path is None:
            continue
        check_writable(path, may_be_stream=may_be_streams)
        remove_leftovers(path.resolve().parent)
        other = taken.setdefault(path.resolve(), option)
        if other != option:
            raise InputError(f"{other} and {option} both name {path}: give {option} another file")


def check_ending(option: str, path: Path | None, *, content: str, remedy: str, also: Sequence[str] = ()) -> None:
    """Refuse a name that ends as files of another format do; any other ending, or none, is allowed."""
    if path is not None and format_of(path) in {*OTHER_FORMATS, *also}:
        raise InputError(f"{option} {path} is named as another format than {content}: {remedy}")


def after(say: Callable[[], None], progress: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    """Return a listener that says something when the run starts, and not before: wrong input gives one line only."""

    def told(row: dict[str, Any]) -> None:
        if row["stage"] == "start":
            say()
        progress(row)

    return told


def tell_before_solving(problem: Problem, source: str, *, is_default: bool, is_written: bool) -> None:
    """Say what is better known before long work: an eta that nobody gave, who is unprotected, and an unnamed file."""
    graph, reach = problem.graph, in_words(problem.eta, problem.metric.name)
    alone = int((np.bincount(graph.labels) == 1).sum())
    if is_default:
        print_line(err, f"eta = {reach}, the default of {source}: give --eta for another, or --eta connect")
    if graph.n_components > 1:
        single = f" ({alone:,} are records without a neighbour)" if alone else ""
        print_line(err, f"NOT PROTECTED at eta = {reach}: {graph.n_components:,} groups from one another{single}")
    tell_of_target(is_written=is_written)


def tell_of_target(*, is_written: bool) -> None:
    """Say before long work that its result will not be kept."""
    if not is_written:
        print_line(err, "Nothing will be written: end this and name a file with -o FILE.mdp to keep the mechanism.")


def warn_of_people(records: Records, *, columns: Sequence[str] = ()) -> list[str]:
    """Return warnings if the records look like people's data, and print them to standard error."""
    warning = publication_warning(records, columns=columns)
    if warning is None:
        return []
    print_line(err, f"WARNING: {warning}")
    return [warning]
