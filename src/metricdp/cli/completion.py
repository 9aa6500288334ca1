"""`metricdp --completion SHELL`: a script that completes commands, options and their values, and starts no Python."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from metricdp.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Options = Mapping[str, tuple["Option", ...]]
    """The options of each command."""

# the values that the help of an option lists: "auto | direct | local"
VALUES = re.compile(r"(?:[\w./:-]+ \| )+[\w./:-]+")
OF_PROGRAM = ("--help", "--version", "--completion")


@dataclass(frozen=True)
class Option:
    """An option: its names, whether a value follows, the values that its help lists, and its help."""

    names: tuple[str, ...]
    takes_value: bool
    values: tuple[str, ...]
    help: str


def completion_script(shell: str, commands: Mapping[str, str], options: Options) -> str:
    """Return the script for a shell, from the help of each command and its options."""
    if shell not in WRITERS:
        raise InputError(f"unknown shell {shell!r}: choose {', '.join(WRITERS)}")
    return WRITERS[shell](commands, options)


def option_of(parameter: Any) -> Option:
    """Return what a shell has to know of an option of the command line."""
    text = " ".join((parameter.help or "").split())
    listed = VALUES.search(text)
    values = tuple(listed.group().rstrip(".").split(" | ")) if listed and not parameter.is_flag else ()
    names = tuple(name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("-"))
    return Option(names, not parameter.is_flag, values, text)


def _bash(commands: Mapping[str, str], options: Options) -> str:
    cases = [f'        "--completion --completion") words="{" ".join(WRITERS)}" ;;']
    cases += [
        f"        {' | '.join(_quoted(f'{command} {name}') for name in option.names)}) "
        f'words="{" ".join(option.values)}" ;;'
        for command in commands
        for option in options[command]
        if option.values
    ]
    names = [
        f'        {command}) words="{" ".join(name for option in options[command] for name in option.names)}" ;;'
        for command in commands
    ]
    return "\n".join(
        [
            "# completion of metricdp: file names where nothing else is known",
            "_metricdp() {",
            '    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" words=""',
            '    local command="${COMP_WORDS[1]}"',
            "    COMPREPLY=()",
            '    if [ "$COMP_CWORD" -eq 1 ]; then',
            f'        COMPREPLY=($(compgen -W "{" ".join((*commands, *OF_PROGRAM))}" -- "$current"))',
            "        return",
            "    fi",
            '    case "$command $previous" in',
            *cases,
            "    esac",
            '    case "$current" in -*) case "$command" in',
            *names,
            "    esac ;; esac",
            '    if [ -n "$words" ]; then COMPREPLY=($(compgen -W "$words" -- "$current")); fi',
            "}",
            "complete -o default -F _metricdp metricdp",
            "",
        ]
    )


def _zsh(commands: Mapping[str, str], options: Options) -> str:
    head = (
        "(( $+functions[compdef] )) || { autoload -U compinit && compinit }\nautoload -U bashcompinit && bashcompinit\n"
    )
    return head + _bash(commands, options)


def _fish(commands: Mapping[str, str], options: Options) -> str:
    lines = ["# completion of metricdp"]
    begin = "complete -c metricdp -n __fish_use_subcommand -f"
    lines += [f"{begin} -a {command} -d {_quoted(text)}" for command, text in commands.items()]
    lines += [f"{begin} -l help", f"{begin} -l version", f"{begin} -l completion -x -a {_quoted(' '.join(WRITERS))}"]
    for command in commands:
        for option in options[command]:
            names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
            value = " -r" if option.takes_value else ""
            values = f" -a {_quoted(' '.join(option.values))}" if option.values else ""
            lines.append(
                f"complete -c metricdp -n '__fish_seen_subcommand_from {command}' {' '.join(names)}{value}{values} -d "
                f"{_quoted(option.help)}"
            )
    return "\n".join([*lines, ""])


def _quoted(text: str) -> str:
    """Return a text as one word of any of these shells: all of them take '...' as it is."""
    return shlex.quote(text.replace("'", "’"))


WRITERS: dict[str, Callable[[Mapping[str, str], Options], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
