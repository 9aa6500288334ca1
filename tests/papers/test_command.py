"""`python -m papers.qiu2024` on the command line."""

from __future__ import annotations

import re
import sys

import pytest
from tests.papers.conftest import SMALLEST

from papers.qiu2024 import EXPERIMENTS
from papers.qiu2024 import __main__ as program


@pytest.fixture
def paper(monkeypatch, capsys, tmp_path):
    """Run the program at the smallest scale, in an empty folder: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(program, "QUICK", SMALLEST)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["papers.qiu2024", *map(str, words)])
        code = 0
        try:
            program.main()
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_one_experiment(paper, tmp_path):
    code, out, err = paper("fig-blocks", "--quick", "--out", "results")
    assert code == 0
    assert [line.rsplit("/", 1)[-1] for line in out.split()] == [
        f"fig-blocks.{suffix}" for suffix in ("json", "md", "png", "svg")
    ]
    assert all((tmp_path / line).is_file() for line in out.split())
    assert "0 of 16 instances are finished, 16 to do" in err
    assert re.search(r"\[7/16\] sizes: grid, .* left", err)
    code, _, err = paper("fig-blocks", "--out", "results")
    assert code == 0
    assert "16 of 16 instances are finished, 0 to do" in err


def test_choices(paper, tmp_path):
    code, _, err = paper("table-subproblems", "--instances", 1, "--time-limit", 2, "--out", "results")
    assert code == 0
    assert "0 of 25 instances" in err
    assert '"limit": 2.0' in (tmp_path / "results" / "table-subproblems.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["table-nothing"], "'table-nothing'"),
        (["fig-loss", "--quick", "--full"], "--full: not allowed with argument --quick"),
        (["fig-loss", "--out", "taken"], "taken, which is a file"),
        (["fig-loss", "--out", "no/such/folder"], "no/such does not exist"),
        (["fig-loss", "--out", "taken/inside"], "taken/inside"),
        (["fig-loss", "--data", "nowhere"], "nowhere, which does not exist"),
        (["fig-loss", "--data", "taken"], "unknown suffix"),
        (["fig-loss", "--data", "empty"], "no nodes.csv"),
        (["fig-loss", "--instances", "0"], "at least 1, got 0"),
        (["fig-loss", "--instances", "some"], "'some'"),
        (["fig-loss", "--time-limit", "0"], "got 0.0"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(paper, tmp_path, words, complaint):
    (tmp_path / "taken").write_text("something", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    code, out, err = paper(*words)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert complaint in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "taken"]
    assert not list((tmp_path / "empty").iterdir())


def test_every_name_is_offered(paper):
    _, _, err = paper("table-nothing")
    assert all(name in err for name in (*EXPERIMENTS, "all"))


def test_ctrl_c_says_what_is_kept(paper, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "run_paper", interrupted)
    code, _, err = paper("fig-loss", "--out", "results")
    assert code == 3
    assert err == "error: interrupted; what is finished is kept in results: run the same command again to go on\n"
