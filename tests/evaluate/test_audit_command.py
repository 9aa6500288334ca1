"""`metricdp audit`: exit codes, JSON, programs of one's own, and the self-test."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import metricdp as mdp
from metricdp.cli import audit as command
from metricdp.evaluate.auditor import auditor, self_test

SERVICE = """
import secrets, sys
outputs = [f"r{{row:02}}c{{column:02}}" for row in range(3) for column in range(3)]
for line in sys.stdin:
    print(line.strip() if secrets.randbelow(100) < {percent} else secrets.choice(outputs))
"""
QUICK = ("--draws", 2000, "--pairs", 3, "--false-alarm-rate", 1e-6)


@pytest.fixture
def grid(tmp_path):
    """A mechanism on a grid of 3 x 3, and its path."""
    mechanism = mdp.solve(mdp.Problem(mdp.data.grid(3, 3), epsilon=0.5, eta=1.0, outputs=9)).mechanism
    mechanism.save(tmp_path / "grid.mdp")
    return mechanism


@pytest.fixture
def few_starts(monkeypatch):
    """Small batches are asked for a few times only: a program is started for each."""
    monkeypatch.setattr(auditor, "N_SMALL_BATCHES", 5)


@pytest.mark.parametrize("way", [("builtin:ids",), ("builtin:points", "--snap-limit", 0.8), ("builtin:words",)])
def test_the_file_s_own_ways_pass(grid, run, way):
    code, out, err = run("audit", "grid.mdp", "--pipeline", *way, *QUICK)
    assert (code, err) == (0, "")
    assert out.startswith("PASSED")
    assert "This is not a proof" in out
    assert "at most one of 1,000,000 audits" in out


@pytest.mark.parametrize(("percent", "expected"), [(3, 0), (60, 1)])
def test_a_program_is_judged_by_its_reports(grid, run, few_starts, tmp_path, percent, expected):
    """To tell the truth 3 of 100 times among 9 outputs is a ratio of 1.28, below exp(0.5); 60 of 100 times is not."""
    (tmp_path / "service.py").write_text(SERVICE.format(percent=percent), encoding="utf-8")
    program = f"'{sys.executable}' -I service.py"
    code, out, _ = run("audit", "grid.mdp", "--pipeline", program, "--json", *QUICK)
    assert code == expected
    fields = json.loads(out)
    assert fields["passed"] == (expected == 0)
    assert (fields["n_pairs"], fields["n_tested"], fields["n_draws"], fields["n_refused"]) == (3, 3, 2000, 0)
    assert fields["false_alarm_rate"] == 1e-6
    assert 0 < fields["detectable"] < fields["largest_claim"]
    for alarm in fields["alarms"]:
        assert alarm["kind"] == "ratio"
        assert alarm["bound"] > alarm["claim"] == pytest.approx(0.5)
        assert "can be told apart" in alarm["sentence"]


def test_a_seed_in_a_program_is_found(grid, run, few_starts, tmp_path):
    text = "import random, sys\nrandom.seed(1)\nfor line in sys.stdin:\n    print(random.randrange(9))\n"
    (tmp_path / "service.py").write_text(text, encoding="utf-8")
    code, out, _ = run("audit", "grid.mdp", "--pipeline", f"'{sys.executable}' -I service.py", *QUICK)
    assert code == 1
    assert "is there a fixed seed?" in out
    assert "PASSED" not in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "give FILE.mdp and --pipeline"),
        (("grid.mdp",), "give FILE.mdp and --pipeline"),
        (("grid.mdp", "--self-test"), "leave out FILE.mdp"),
        (("grid.mdp", "--pipeline", "builtin:all"), "unknown inputs 'all'"),
        (("grid.mdp", "--pipeline", "builtin:points"), "--snap-limit goes with points"),
        (("grid.mdp", "--pipeline", "builtin:ids", "--snap-limit", "1"), "--snap-limit goes with points"),
        (("grid.mdp", "--pipeline", "builtin:ids", "--inputs", "ids"), "--inputs goes with a command"),
        (("grid.mdp", "--pipeline", "no-such-program"), "there is no program"),
        (("grid.mdp", "--pipeline", "builtin:ids", "--pairs", "0"), "--pairs must be at least 1"),
        (("grid.mdp", "--pipeline", "builtin:ids", "--draws", "10"), "at least 100"),
        (("other.mdp", "--pipeline", "builtin:ids"), "other.mdp"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(grid, run, words, message):
    code, out, err = run("audit", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_the_self_test_shows_a_table_and_its_verdict(run, monkeypatch):
    few = [example for example in self_test.EXAMPLES if example.name in {"edited-table", "uniform-reports"}]
    monkeypatch.setattr(self_test, "EXAMPLES", few)
    code, out, _ = run("audit", "--self-test")
    assert code == 0
    assert "All 2 verdicts are right." in out
    assert "edited-table" in out
    code, out, _ = run("audit", "--self-test", "--json")
    assert json.loads(out)["right"] is True
    assert [row["passed"] for row in json.loads(out)["pipelines"]] == [False, True]
    # a verdict that is not the expected one is an answer of no
    monkeypatch.setattr(self_test, "EXAMPLES", [self_test.Example(few[0].make, is_sound=True)])
    code, out, _ = run("audit", "--self-test")
    assert code == 1
    assert "WRONG: edited-table" in out


def test_words_keep_their_lines():
    records = mdp.Records(np.arange(3.0)[:, None], ids=["ache", "cold", "flu"], kind="vectors")
    pipeline = command.word_pipeline(mdp.exponential(mdp.Problem(records, epsilon=1.0, eta=1.5)))
    reports = pipeline(["ache", "zebra", "COLD"])
    assert len(reports) == 3
    assert reports[1] == "<unk>"
    assert {reports[0], reports[2]} <= set(records.ids)
