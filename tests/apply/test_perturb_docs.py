"""The commands that the pages on applying mechanisms show run on the files they show, in the pages' own order."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

import metricdp as mdp
from metricdp.cli import main

DOCS = Path(__file__).resolve().parents[2] / "docs"
FILE = re.compile(r"^`([\w.]+)`:\n\n```\w+\n(.*?)```", re.DOTALL | re.MULTILINE)
STEP = re.compile(r"```(python|console)\n(.*?)```", re.DOTALL)


def run(command, monkeypatch):
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code, command


def commands_of(block):
    return [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]


def test_the_tutorial_on_words(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "tutorial-words.md").read_text(encoding="utf-8")
    for name, content in FILE.findall(page):
        Path(name).write_text(content, encoding="utf-8")
    steps = STEP.findall(page)
    assert [kind for kind, _ in steps] == ["python", "console", "python"]
    exec(compile(steps[0][1], "tutorial", "exec"), {})  # noqa: S102
    assert "Scope: one component" in capsys.readouterr().out
    commands = commands_of(steps[1][1])
    assert len(commands) == 3
    for command in commands[:2]:
        run(command, monkeypatch)
    # what the page says was spent is what was printed
    printed = " ".join(capsys.readouterr().out.split())
    claim = page[page.index("10 words drawn") :].split("```")[0]
    assert " ".join(claim.split()) in printed
    masked = Path("noisy.txt").read_text(encoding="utf-8")
    shape = [[word == "<unk>" for word in line.split()] for line in masked.splitlines()]
    example = page[page.index("had are not was") :].split("```")[0]
    assert shape == [[word == "<unk>" for word in line.split()] for line in example.splitlines()]
    run(commands[2], monkeypatch)
    assert Path("noisy.txt").read_text(encoding="utf-8").count(",") == 1
    capsys.readouterr()
    exec(compile(steps[2][1], "tutorial", "exec"), {})  # noqa: S102
    printed = capsys.readouterr().out
    assert "covariance" in printed  # the refusal of Mahalanobis distances for fewer words than coordinates
    assert "NOT CERTIFIED" in printed


def test_the_page_on_applying(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "applying.md").read_text(encoding="utf-8")
    for name, content in FILE.findall(page):
        Path(name).write_text(content, encoding="utf-8")
    blocks = [commands_of(block) for kind, block in STEP.findall(page) if kind == "console"]
    places, ledger, *_ = blocks  # all of them, streams too, are run by tests/test_docs.py
    assert len(places) == 4
    for command in places:
        run(command, monkeypatch)
    assert Path("reports.csv").read_text().splitlines()[0] == "report,lat,lon"
    assert "Ana" not in Path("reports.csv").read_text()
    assert "Ana" in Path("reports.geojson").read_text()
    assert len(Path("secret.csv").read_text().splitlines()) == 4
    for command in ledger:
        run(command, monkeypatch)
    assert mdp.Ledger("spent.db", must_exist=True).spent("Ana") == 2 * 10.0
    # the text command is that of the tutorial
    (text,) = (command for block in blocks for command in block if "--text" in command)
    assert text in (DOCS / "tutorial-words.md").read_text(encoding="utf-8")
    assert "reports written to again.csv" in capsys.readouterr().out


def test_the_block_on_opendp(capsys):
    import opendp.prelude as dp

    page = (DOCS / "applying.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    try:
        exec(compile(block, "applying", "exec"), {})  # noqa: S102
    finally:
        dp.disable_features("contrib", "honest-but-curious")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines] == ["1.0", "2.0"]
