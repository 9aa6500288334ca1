"""Completion in real shells: commands, options, and the values of options."""

from __future__ import annotations

import gzip
import io
import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import typer
from typer.main import get_command

import metricdp as mdp
from metricdp.cli import streaming
from metricdp.cli.app import COMMANDS, app
from metricdp.cli.completion import option_of

# A line of a terminal and what Tab makes of it, in a folder with the one file city.mdp.
TYPED = [
    ("metricdp so", "metricdp solve "),
    ("metricdp --comp", "metricdp --completion "),
    ("metricdp --completion f", "metricdp --completion fish "),
    ("metricdp perturb --fast", "metricdp perturb --fast-snap "),
    ("metricdp perturb --over r", "metricdp perturb --over refuse "),
    ("metricdp solve road:gothenburg --method fi", "metricdp solve road:gothenburg --method first-order "),
    ("metricdp solve road:gothenburg --method=fi", "metricdp solve road:gothenburg --method=first-order "),
    ("metricdp solve region:1,2,3,4 --weights tr", "metricdp solve region:1,2,3,4 --weights triangles "),
    ("metricdp audit city.mdp --pipeline builtin:w", "metricdp audit city.mdp --pipeline builtin:words "),
    ("metricdp verify ci", "metricdp verify city.mdp "),
    ("metricdp evaluate city.mdp --loss ci", "metricdp evaluate city.mdp --loss city.mdp "),
    ("metricdp verify nothing", "metricdp verify nothing"),
]
# in a real terminal: a key after Tab writes the line, and all that is offered is listed by the shell's own means
BASH_KEY = r"""bind 'set bell-style none'; bind 'set enable-bracketed-paste off'
show() { printf '%s\n' "$READLINE_LINE" >> lines; READLINE_LINE=""; READLINE_POINT=0; }
bind -x '"\C-t": show'
"""
ZSH_KEY = r"""unsetopt beep; zstyle ':completion:*' list-prompt ''
show() { print -r -- "$BUFFER" >> lines; BUFFER="" }
zle -N show; bindkey '^I' complete-word; bindkey '^T' show
"""
BASH_LIST = """source ./script
COMP_LINE="$1"; COMP_POINT=${#COMP_LINE}
_metricdp
printf '%s\n' "${COMPREPLY[@]}"
"""
SECONDS_TO_START = 60.0


class Terminal:
    """A shell that somebody types into."""

    def __init__(self, shell, folder):
        options = {"bash": ["--norc", "--noprofile", "-i"], "zsh": ["-f", "-i"]}[shell]
        self.folder = folder
        self._own, theirs = pty.openpty()
        home = {"HOME": str(folder), "ZDOTDIR": str(folder), "TERM": "dumb", "INPUTRC": os.devnull}
        self._process = subprocess.Popen(
            [shell, *options],
            cwd=folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, **home},
            start_new_session=True,
        )
        os.close(theirs)

    def type(self, text):
        os.write(self._own, text.encode())

    def wait_for(self, name, *, lines):
        """Return the lines of a file as soon as there are so many."""
        end, file, seen = time.monotonic() + SECONDS_TO_START, self.folder / name, b""
        while time.monotonic() < end:
            if select.select([self._own], [], [], 0.02)[0]:
                seen += os.read(self._own, 1 << 16)  # a shell whose screen nobody reads stops
            found = file.read_text().splitlines() if file.exists() else []
            if len(found) >= lines:
                return found
        raise AssertionError(f"{name} was not written; on the screen: {seen.decode(errors='replace')}")

    def close(self):
        self._process.kill()
        self._process.wait()
        os.close(self._own)


@pytest.fixture
def terminal(run, tmp_path, request):
    shell = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    code, script, complaint = run("--completion", shell)
    assert (code, complaint) == (0, "")
    (tmp_path / "script").write_text(script)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "city.mdp").touch()
    keys = {"bash": BASH_KEY, "zsh": ZSH_KEY}[shell]
    (tmp_path / "keys").write_text(f"source {tmp_path}/script\n{keys}")
    opened = Terminal(shell, folder)
    opened.type(f"source {tmp_path}/keys; echo ready > ready\n")
    opened.wait_for("ready", lines=1)
    (folder / "ready").unlink()
    yield opened
    opened.close()


@pytest.mark.parametrize("terminal", ["bash", "zsh"], indirect=True)
def test_tab_completes_in_a_real_terminal(terminal):
    for number, (line, wanted) in enumerate(TYPED, start=1):
        terminal.type(f"{line}\t\x14")
        assert terminal.wait_for("lines", lines=number)[-1].rstrip() == wanted.rstrip(), line


def test_a_real_fish_completes(run, tmp_path):
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    (tmp_path / "city.mdp").touch()
    (tmp_path / "script").write_text(run("--completion", "fish")[1])
    for line, wanted in TYPED:
        last = re.split(r"[ =]", wanted.strip())[-1]
        found = {re.split("=", one)[-1] for one in listed_by_fish(line, tmp_path)}
        assert found == ({last} if wanted.endswith(" ") else set()), line


def listed_by_fish(line, folder):
    command = ["fish", "--no-config", "-c", f"source ./script; complete -C {shlex.quote(line)}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return [one.split("\t")[0] for one in done.stdout.splitlines() if one]


def listed_by_bash(line, folder):
    command = ["bash", "--norc", "-c", BASH_LIST, "bash", line]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.split()


WRONG = "nonsense"
GRID = "solve grid:3x3 --epsilon 1"
# for each option that offers words: commands that get as far as reading that option, and in which some word is wrong
USES = {
    "plan --eta": "plan grid:3x3 --within 1 --factor 2 --eta {}",
    "plan --metric": "plan gaussian --records 6 --within 1 --factor 2 --metric {}",
    "solve --eta": f"{GRID} --eta {{}}",
    "solve --loss": f"{GRID} --eta 1.5 --loss {{}}",
    "solve --prior": f"{GRID} --eta 1.5 --prior {{}}",
    "solve --metric": "solve gaussian --records 6 --epsilon 1 --eta 1 --metric {}",
    "solve --method": f"{GRID} --eta 1.5 --method {{}}",
    "solve --partition": f"{GRID} --eta 1.5 --method benders --partition {{}}",
    "solve --preset": f"{GRID} --eta 1.5 --method benders --preset {{}}",
    "solve --weights": "solve region:41.88,12.46,41.889,12.472 --spacing 0.3 --epsilon 1 --gap 0.9 --weights {}",
    "solve --lp": f"{GRID} --eta 1.5 --method direct --lp {{}}",
    "perturb --far": "perturb grid.mdp --input points.csv --output new.csv --snap-limit 1 --far {}",
    "perturb --outside": "perturb region.mdp --input places.csv --output new.csv --outside {}",
    "perturb --unknown": "perturb grid.mdp --text ids.txt --output new.txt --unknown {}",
    "perturb --over": "perturb grid.mdp - --person who --limit 100 --over {}",
    "perturb --format": "perturb grid.mdp - --to csv --format {}",
    "perturb --to": "perturb grid.mdp - --to {}",
    "evaluate --against": "evaluate grid.mdp --against {}",
    "evaluate --loss": "evaluate grid.mdp --loss {}",
    "evaluate --adversary-prior": "evaluate grid.mdp --adversary-prior {}",
    "report --against": "report grid.mdp --against {}",
    "audit --eta": "audit ninths.csv --problem grid:3x3 --epsilon 1 --eta {}",
    "audit --metric": "audit ninths.csv --problem grid:3x3 --epsilon 1 --eta 2 --metric {}",
    "audit --pipeline": "audit grid.mdp --draws 500 --pairs 1 --pipeline {}",
    "audit --inputs": "audit grid.mdp --draws 500 --pairs 1 --pipeline cat --inputs {}",
}


def test_the_words_offered_are_those_that_an_option_takes(run, tmp_path, monkeypatch):
    script = run("--completion", "bash")[1]
    cases = re.findall(r"^ +('\w+ -.*)\) offered=\"(.*)\" ;;$", script, re.MULTILINE)
    offered = {case.split(" | ")[0].strip("'"): words.split() for case, words in cases}
    assert offered.keys() == USES.keys()
    assert run(*GRID.split(), "--eta", 1.5, "-o", "grid.mdp")[0] == 0
    region = mdp.data.region(41.88, 12.46, 41.889, 12.472, spacing=0.3, margin=0.2)
    mdp.solve_plane(mdp.PlaneProblem(region, epsilon=1.0), max_steps=5, bound=False).mechanism.save("region.mdp")
    Path("points.csv").write_text("x,y\n0,0\n")
    Path("places.csv").write_text("lat,lon\n41.885,12.465\n")
    Path("ids.txt").write_text("0_0\n")
    Path("ninths.csv").write_text("0.25,0.75\n" * 9)
    monkeypatch.setattr(streaming, "standard_streams", lambda: (io.BytesIO(b"id,who\n0_0,Ana\n"), io.BytesIO()))
    for option, use in USES.items():
        assert len(offered[option]) == len(set(offered[option])) > 0
        wrong = "builtin:" + WRONG if option == "audit --pipeline" else WRONG
        code, _, refusal = run(*use.format(wrong).split())
        assert code == 2, option
        assert WRONG in refusal, option
        for word in offered[option]:
            told = run(*use.format(word).split())[2]
            other = WRONG if option == "audit --pipeline" else wrong
            assert told != refusal.replace(other, word.removeprefix("builtin:")), f"{option} {word}"


def test_an_option_whose_help_lists_words_offers_them():
    group = get_command(app)
    context = typer.Context(group)
    listing = 0
    for command in COMMANDS:
        for parameter in group.get_command(context, command).get_params(context):
            text = getattr(parameter, "help", None) or ""
            if parameter.param_type_name == "option" and " | " in text:
                offered = option_of(parameter, context).values
                assert len(offered) > 1, f"{command} {parameter.opts}"
                assert [word for word in offered if word not in text] == []
                listing += 1
    assert listing > 10


def test_bash_is_told_which_function_completes(run, tmp_path):
    (tmp_path / "script").write_text(run("--completion", "bash")[1])
    done = subprocess.run(
        ["bash", "--norc", "-c", "source ./script; complete -p metricdp"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "complete -o default -F _metricdp metricdp\n"


def test_another_shell_is_refused(run):
    code, text, complaint = run("--completion", "tcsh")
    assert (code, text) == (2, "")
    assert "choose bash, zsh, fish" in complaint


def test_files_named_gz_are_packed_or_refused(run, tmp_path):
    words = ("solve", "grid:3x3", "--epsilon", 1, "--eta", 1.5)
    code, _, complaint = run(*words, "-o", "g.mdp.gz")
    assert code == 2
    assert "metricdp export --compress" in complaint
    assert list(tmp_path.iterdir()) == []
    assert run(*words, "-o", "g.v1.2.mdp", "--trace", "log.jsonl.gz")[0] == 0
    assert b'"stage"' in gzip.decompress((tmp_path / "log.jsonl.gz").read_bytes())
    assert run("report", "g.v1.2.mdp", "-o", "page.html.gz")[0] == 0
    assert b"<html" in gzip.decompress((tmp_path / "page.html.gz").read_bytes())
    assert run("verify", "g.v1.2.mdp")[0] == 0
