"""Write docs/commands.md, every command with its arguments and options: ``python -m tools.make_commands``.

A test compares the page with what this makes, so run it whenever an option or its help has changed.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from typer.main import get_command

from metricdp.cli.app import COMMANDS, app

PAGE = Path(__file__).resolve().parents[1] / "docs" / "commands.md"
INTRODUCTION = """# All commands and options

Made from the program's own help (`metricdp COMMAND --help`) by `python -m tools.make_commands`. An option without a
default need not be given; its line says what then holds. Every command also takes `--help`. Results go
to standard output, progress and warnings to standard error.

| exit code | meaning |
|---|---|
| 0 | done, and the answer is yes |
| 1 | the answer is no: not private, beyond a budget, a claim refuted, or the gap not reached (the file is written) |
| 2 | wrong input: one line says what and how to mend it; no file is written |
| 3 | the program failed, or was interrupted |
"""
# where each command is explained
EXPLAINED = {
    "demo": "quickstart.md",
    "plan": "choosing.md",
    "solve": "quickstart.md",
    "verify": "file-format.md",
    "perturb": "applying.md",
    "evaluate": "evaluation.md",
    "estimate": "statistics.md",
    "report": "explorer.md",
    "export": "deploy.md",
    "audit": "auditing.md",
}
KINDS = {str: "text", float: "number", int: "whole number", Path: "path", bool: ""}


def page() -> str:
    """Return the whole page."""
    group: Any = get_command(app)
    parts = [INTRODUCTION, "## metricdp", _table(group, kinds_of(group.callback), "option")]
    for name, text in COMMANDS.items():
        command = group.get_command(None, name)
        kinds = kinds_of(next(info.callback for info in app.registered_commands if info.name == name))
        given = [one.metavar or one.name.upper() for one in command.params if one.param_type_name == "argument"]
        usage = " ".join(["metricdp", name, *given, "[OPTIONS]"])
        parts += [f"## metricdp {name}", f"{text} [More]({EXPLAINED[name]})", f"    {usage}"]
        parts += [table for kind in ("argument", "option") if (table := _table(command, kinds, kind))]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def kinds_of(function: Any) -> dict[str, str]:
    """Return in words what each parameter of a command takes, from its annotation."""
    hints = get_type_hints(inspect.unwrap(function))
    return {name: _in_words(hint) for name, hint in hints.items() if name != "return"}


def _in_words(hint: Any) -> str:
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not NoneType]
    if get_origin(hint) is list:
        return f"{KINDS[kinds[0]]}, may be given again"
    return KINDS[kinds[0]] if kinds[0] in KINDS else _in_words(kinds[0])


def _table(command: Any, kinds: dict[str, str], kind: str) -> str:
    """Return the table of a command's arguments or options; nothing if it has none."""
    rows = [
        [_name(one), _taken(one, kinds[one.name]), _default(one), " ".join((one.help or "").split())]
        for one in command.params
        if one.param_type_name == kind and one.name in kinds
    ]
    if not rows:
        return ""
    heads = [kind, "takes", "default", "what it is"]
    lines = [heads, ["---"] * len(heads), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _name(one: Any) -> str:
    if one.param_type_name == "argument":
        return f"`{one.metavar or one.name.upper()}`"
    return ", ".join(f"`{name}`" for name in one.opts)


def _taken(one: Any, kind: str) -> str:
    return kind if one.metavar is None or one.param_type_name == "argument" else one.metavar


def _default(one: Any) -> str:
    if one.required:
        return "required"
    return "" if one.default is None or one.default is False or one.default == [] else f"`{one.default}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"written to {PAGE.relative_to(PAGE.parents[1])}")
