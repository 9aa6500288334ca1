"""`metricdp --completion SHELL`: a script that completes commands, options and their values, and starts no Python."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from metricdp.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Options = Mapping[str, tuple["Option", ...]]
    """The options of each command."""

OF_PROGRAM = ("--help", "--version", "--completion")


@dataclass(frozen=True)
class Option:
    """An option: its names, whether a value follows, the words that it takes (beside files, for some), its help."""

    names: tuple[str, ...]
    takes_value: bool
    values: tuple[str, ...]
    help: str


def completion_script(shell: str, commands: Mapping[str, str], options: Options) -> str:
    """Return the script for a shell, from the help of each command and its options."""
    if shell not in WRITERS:
        raise InputError(f"unknown shell {shell!r}: choose {', '.join(WRITERS)}")
    return WRITERS[shell](commands, options)


def option_of(parameter: Any, context: Any) -> Option:
    """Return what a shell has to know of an option of the command line."""
    text = " ".join((parameter.help or "").split())
    words = tuple(one.value for one in parameter.shell_complete(context, "") if one.type == "plain")
    names = tuple(name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("-"))
    return Option(names, not parameter.is_flag, words, text)


# Words are split at blanks here, because bash itself also splits them at = and : and then replaces the last piece only.
BASH_BEGIN = """# completion of metricdp: file names where nothing else is known
_metricdp() {
    local line="${COMP_LINE:0:COMP_POINT}" offered="" given
    local current="${line##*[[:space:]]}"
    read -ra given <<< "${line%"$current"}"
    local command="${given[1]}" previous="${given[${#given[@]}-1]}"
    case "$current" in --*=*) previous="${current%%=*}" current="${current#*=}" ;; esac
    COMPREPLY=()"""
BASH_END = """    if [ -n "$offered" ]; then COMPREPLY=($(compgen -W "$offered" -- "$current")); fi
    case "$current" in *:*) COMPREPLY=("${COMPREPLY[@]#"${current%:*}:"}") ;; esac
}
complete -o default -F _metricdp metricdp
"""
ZSH_BEGIN = """# completion of metricdp: file names where nothing else is known
(( $+functions[compdef] )) || { autoload -U compinit && compinit -i }
_metricdp() {
    local current="$words[CURRENT]" previous="$words[CURRENT-1]" command="$words[2]" offered=""
    (( CURRENT > 2 )) || command=""
    case "$current" in --*=*) previous="${current%%=*}" current="${current#*=}"; compset -P "*=" ;; esac"""
ZSH_END = """    if [[ -n "$offered" ]]; then compadd -- ${=offered} && return; fi
    _files
}
compdef _metricdp metricdp
"""


def _bash(commands: Mapping[str, str], options: Options) -> str:
    return "\n".join([BASH_BEGIN, *_cases(commands, options), BASH_END])


def _zsh(commands: Mapping[str, str], options: Options) -> str:
    return "\n".join([ZSH_BEGIN, *_cases(commands, options), ZSH_END])


def _cases(commands: Mapping[str, str], options: Options) -> list[str]:
    """Return the lines, the same in both shells, that say what is offered for the words before and the current one."""
    values = [
        f"        {' | '.join(_quoted(f'{command} {name}') for name in option.names)}) "
        f'offered="{" ".join(option.values)}" ;;'
        for command in commands
        for option in options[command]
        if option.values
    ]
    names = [
        f'        {command}) offered="{" ".join(name for option in options[command] for name in option.names)}" ;;'
        for command in commands
    ]
    return [
        '    case "$command $previous" in',
        *values,
        f'        " "*) offered="{" ".join((*commands, *OF_PROGRAM))}" ;;',
        f'        "--completion "*) offered="{" ".join(WRITERS)}" ;;',
        "    esac",
        '    case "$current" in -*) case "$command" in',
        *names,
        "    esac ;; esac",
    ]


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
