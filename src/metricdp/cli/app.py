"""What all commands share: the app, the two consoles, exit codes and JSON."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup
from typer.main import get_command_from_info

from metricdp import __version__
from metricdp.errors import MetricDPError
from metricdp.report.tables import print_line

if TYPE_CHECKING:
    from collections.abc import Callable

ANSWER_IS_NO, WRONG_INPUT, PROGRAM_FAILED = 1, 2, 3

# The help text of each command, which is the first line of its function. A command's file is imported when the
# command is run: the solvers take a second to load, and the help needs none of them.
COMMANDS = {
    "demo": "Solve the centre of the shipped city, certify the mechanism, and compare it with what is in use today.",
    "plan": (
        "Say what a promise means for DATA: epsilon, eta, outputs, memory and time, and how far reports will be off."
    ),
    "solve": "Find the best mechanism for DATA, certify it, and write it to a file.",
    "verify": (
        "Check a mechanism file exactly; exit 0 only if it is as private as it claims and protects any records."
    ),
    "perturb": (
        "Report perturbed records. Every report spends the budget again: n reports of one record cost n * epsilon."
    ),
    "evaluate": (
        "Show what a mechanism costs and what an adversary learns, and compare it with others on the same problem."
    ),
    "estimate": (
        "Estimate where a population is from one report of each person, with intervals that hold for any question."
    ),
    "report": "Write one HTML page that shows what a mechanism does, with both certificates; it works offline.",
    "export": "Write a part of a mechanism file for devices, chosen without any secret and certified on its own.",
    "audit": (
        "Say which epsilon a matrix satisfies, exactly, or whether a pipeline's reports refute a promise; exit 1 on no."
    ),
}


class Commands(TyperGroup):
    """The commands, each in the file of its name."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: dict[str, Any] = dict.fromkeys(COMMANDS)  # their names, for the help and for suggestions

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        import_module(f"metricdp.cli.{cmd_name}")
        found = next(info for info in app.registered_commands if info.name == cmd_name)
        return get_command_from_info(found, pretty_exceptions_short=False, rich_markup_mode=None)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


app = typer.Typer(
    name="metricdp",
    cls=Commands,
    help="Optimal metric differential privacy that is proved, not promised.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
out = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)


def one_of(*words: str) -> Callable[[str], list[str]]:
    """Return what completes an option that takes one of these words."""

    def offered(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return offered


JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE.mdp", help="A mechanism file.")]


def _version(wanted: bool) -> None:
    if wanted:
        print_line(out, f"metricdp {__version__}")
        raise typer.Exit


def _completion(context: typer.Context, shell: str | None) -> None:
    if shell is None:
        return
    from metricdp.cli.completion import completion_script, option_of  # noqa: PLC0415  (no other command needs it)

    group: Any = context.command
    found = {
        name: tuple(
            option_of(one, context)
            for one in group.get_command(context, name).get_params(context)
            if one.param_type_name == "option"
        )
        for name in COMMANDS
    }
    write_out(completion_script(shell, COMMANDS, found))
    raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
    completion: Annotated[
        str | None,
        typer.Option(
            metavar="SHELL",
            callback=_completion,
            is_eager=True,
            help="Print a script that completes commands and options in SHELL: bash, zsh or fish.",
        ),
    ] = None,
) -> None:
    """Optimal metric differential privacy that is proved, not promised."""


def print_json(fields: dict[str, Any]) -> None:
    """Print one object on one line."""
    write_out(json.dumps({k: _jsonable(v) for k, v in fields.items()}) + "\n")


def write_out(text: str) -> None:
    """Write ``text`` to standard output at once; raise an error if that fails."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        raise lost_output(error) from None


def lost_output(error: OSError) -> MetricDPError:
    """Return the error for a standard output that cannot be written: a full disk, a closed pipe."""
    return MetricDPError(
        f"standard output cannot be written ({error.strerror}): use a disk with free space or an open pipe"
    )


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _jsonable(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_jsonable(one) for one in value]
    # infinity is no JSON number
    return str(value) if isinstance(value, float) and value in (float("inf"), float("-inf")) else value
