"""Completion in real shells: commands, options, and the values of options."""

from __future__ import annotations

import gzip
import shutil
import subprocess

import pytest

BASH = """source ./script
COMP_WORDS=(metricdp "$@"); COMP_CWORD=$#
_metricdp
printf '%s\\n' "${COMPREPLY[@]}"
"""
ASKED = [
    (["so"], ["solve"]),
    (["--comp"], ["--completion"]),
    (["perturb", "--fast"], ["--fast-snap"]),
    (["solve", "road:gothenburg", "--method", "fi"], ["first-order"]),
    (["solve", "--method", ""], None),
    (["verify", "city"], []),
]


def answers(shell, words, tmp_path):
    if shell == "fish":
        line = " ".join(["metricdp", *words])
        command = ["fish", "--no-config", "-c", f"source ./script; complete -C {line!r}"]
    elif shell == "zsh":
        simulated = "emulate sh\n" + BASH.removeprefix("source ./script\n")
        command = ["zsh", "-fc", "source ./script\n" + simulated, "zsh", *words]
    else:
        command = ["bash", "--norc", "-c", BASH, "bash", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return [line.split("\t")[0] for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_real_shell_completes(run, tmp_path, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    code, script, complaint = run("--completion", shell)
    assert (code, complaint) == (0, "")
    (tmp_path / "script").write_text(script)
    for words, wanted in ASKED:
        found = answers(shell, words, tmp_path)
        if wanted is None:
            assert {"auto", "direct", "local"} <= set(found)
        else:
            assert found == wanted, words


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
