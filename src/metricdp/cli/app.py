"""What all commands share: the app, the two consoles, exit codes, JSON, and files that must not be overwritten."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from metricdp import __version__
from metricdp.data.people import publication_warning
from metricdp.data.readers.files import is_there
from metricdp.data.records import Records
from metricdp.data.writing import check_writable, remove_leftovers
from metricdp.errors import InputError, MetricDPError
from metricdp.report.tables import print_line

ANSWER_IS_NO, WRONG_INPUT, PROGRAM_FAILED = 1, 2, 3

app = typer.Typer(
    name="metricdp",
    help="Optimal metric differential privacy that is proved, not promised.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
out = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE.mdp", help="A mechanism file.")]


def _version(wanted: bool) -> None:
    if wanted:
        print_line(out, f"metricdp {__version__}")
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Optimal metric differential privacy that is proved, not promised."""


TO_BE_MADE = ("--ledger", "--ledger-key", "the head of --ledger-key")  # taken even if they do not exist yet


def check_targets(
    targets: dict[str, Path | None], sources: dict[str, str | Path | None], *, may_be_streams: bool = False
) -> None:
    """Refuse files that cannot be written, and two options that name one file where one of them writes it.

    What a killed process has left beside a target is removed.
    """
    taken = {
        Path(path).resolve(): option
        for option, path in sources.items()
        if path is not None and (option in TO_BE_MADE or is_there(path))
    }
    for option, path in targets.items():
        if path is None:
            continue
        check_writable(path, may_be_stream=may_be_streams)
        remove_leftovers(path.resolve().parent)
        other = taken.setdefault(path.resolve(), option)
        if other != option:
            raise InputError(f"{other} and {option} both name {path}: give {option} a file of its own")


def warn_of_people(records: Records, *, columns: Sequence[str] = ()) -> list[str]:
    """Say on standard error if the records look like people's data; return the warnings."""
    warning = publication_warning(records, columns=columns)
    if warning is None:
        return []
    print_line(err, f"WARNING: {warning}")
    return [warning]


def print_json(fields: dict[str, Any]) -> None:
    """Print one object on one line."""
    write_out(json.dumps({k: _jsonable(v) for k, v in fields.items()}) + "\n")


def write_out(text: str) -> None:
    """Write ``text`` to standard output, now: what it does not take is an error."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        raise lost_output(error) from None


def lost_output(error: OSError) -> MetricDPError:
    """Return the error for a standard output that takes nothing: a full disk, a closed pipe."""
    return MetricDPError(
        f"standard output cannot be written ({error.strerror}): name a place that has room and stays open"
    )


def _jsonable(value: Any) -> Any:
    # infinity is no JSON number
    return str(value) if isinstance(value, float) and value in (float("inf"), float("-inf")) else value
