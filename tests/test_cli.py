"""The command line as scripts use it: exit codes, one JSON object, one-line errors, no half-written files."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from scipy.spatial import cKDTree

import metricdp as mdp
from metricdp.report.tables import ProgressLine, in_words, print_comparison, print_result
from tests.conftest import ROME_500, linprog_optimum

SOLVE_FIELDS = [
    "status",
    "interrupted",
    "method",
    "solver",
    "partition",
    "blocks",
    "records",
    "outputs",
    "pairs",
    "components",
    "epsilon",
    "smallest_epsilon",
    "eta",
    "lower_bound",
    "loss",
    "gap",
    "certified",
    "seconds",
    "peak_mb",
    "iterations",
    "cuts",
    "file",
    "warnings",
]
VERIFY_FIELDS = [
    "certified",
    "records",
    "outputs",
    "pairs",
    "components",
    "epsilon",
    "smallest_epsilon",
    "eta",
    "tightest_epsilon",
    "worst_pair",
    "bits",
    "seconds",
    "isolated",
    "records_hash",
    "promise",
]


def test_solve_grid_equals_the_true_optimum(run):
    code, text, _ = run("solve", "grid:6x6", "--epsilon", 1, "--eta", 2, "--method", "direct", "--json")
    answer = json.loads(text)
    problem = mdp.Problem(mdp.data.grid(6, 6), epsilon=1.0, eta=2.0, outputs=36)
    assert code == 0
    assert list(answer) == SOLVE_FIELDS
    assert answer["loss"] == pytest.approx(linprog_optimum(problem), rel=1e-6)
    assert answer["certified"] is True


@pytest.mark.parametrize("epsilon", [10, 2])
def test_solve_gothenburg(run, epsilon):
    options = ["--records", 300, "--outputs", 50, "--epsilon", epsilon, "--eta", 0.5, "--gap", 1e-4, "--json"]
    code, text, _ = run("solve", "road:gothenburg", *options)
    answer = json.loads(text)
    assert code == 0
    assert answer["certified"]
    assert answer["gap"] <= 1e-4
    assert (answer["records"], answer["outputs"]) == (300, 50)


def test_the_seeds_instance_from_files(run):
    code, text, _ = run(
        "solve",
        ROME_500 / "records.csv",
        "--outputs",
        ROME_500 / "outputs.csv",
        *("--epsilon", 10, "--eta", 2, "--method", "direct", "--gap", 1e-4, "-o", "rome.mdp", "--json"),
    )
    answer = json.loads(text)
    assert code == 0
    assert (answer["pairs"], answer["components"]) == (2727, 28)
    assert answer["gap"] <= 1e-4
    code, text, _ = run("verify", "rome.mdp", "--json")
    assert code == 0
    assert list(json.loads(text)) == VERIFY_FIELDS


def test_solve_verify_perturb(run, tmp_path):
    assert run("solve", "grid:3x4", "--epsilon", 2, "--eta", 1, "-o", "grid.mdp", "--trace", "run.jsonl")[0] == 0
    assert [json.loads(line)["stage"] for line in (tmp_path / "run.jsonl").read_text().splitlines()][:1] == ["start"]
    code, text, _ = run("verify", "grid.mdp")
    assert code == 0
    assert "Private" in text
    code, text, _ = run("perturb", "grid.mdp", "r00c00", "r02c03")
    ids = set(mdp.data.grid(3, 4).ids)
    assert code == 0
    assert len(text.split()) == 2
    assert set(text.split()) <= ids
    (tmp_path / "in.csv").write_text("name,id\na,r00c00\nb,r01c01\n")
    code, text, _ = run("perturb", "grid.mdp", "--input", "in.csv", "--output", "out.csv", "--json")
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert code == 0
    assert json.loads(text)["reports"] == 2
    assert lines[0] == "report,x1,x2"
    assert {line.split(",")[0] for line in lines[1:]} <= ids


def test_demo(run, tmp_path):
    code, text, _ = run("demo")
    assert code == 0
    assert "exponential mechanism" in text
    assert "Private: every one of" in text
    mechanism = mdp.load(tmp_path / "metricdp-demo.mdp")
    assert mechanism.records.n == 300
    check_figures_of_the_demo(mechanism, text)
    shown = re.search(r"The first 5 different reports of somebody at intersection (\S+), in (\d+) draws: (.*)", text)
    reports = shown.group(3).split(", ")
    assert len(set(reports)) == len(reports) == 5 <= int(shown.group(2))
    assert set(reports) <= set(mechanism.records.ids)


def check_figures_of_the_demo(mechanism, text):
    """What the demo says of the adversary and of Laplace noise, computed here in another way."""
    likely = mechanism.probabilities * mechanism.records.prior[:, None]
    right = float(re.search(r"is right in ([\d.]+) % of all cases", text).group(1))
    assert right == pytest.approx(100.0 * likely.max(axis=0).sum(), abs=0.051)
    # planar Laplace noise: an even direction and a radius with a gamma distribution; then the nearest place
    random, places = np.random.default_rng(0), mechanism.records
    degrees = places.coordinates
    per_degree = 6371.0088 * np.pi / 180.0 * np.array([1.0, np.cos(np.radians(degrees[:, 0].mean()))])
    plane = degrees * per_degree
    size = (400, *degrees.shape[:1])
    radius, angle = random.gamma(2.0, 0.2 / np.log(4.0), size), random.uniform(0.0, 2.0 * np.pi, size)
    noisy = plane + radius[..., None] * np.stack([np.sin(angle), np.cos(angle)], axis=-1)
    _, nearest = cKDTree(plane).query(noisy)
    laplace = np.linalg.norm(plane[nearest] - plane, axis=-1).mean()
    own = float(re.search(r"expected loss ([\d.]+)", text).group(1))
    farther = float(re.search(r"would report (\d+) % farther", text).group(1))
    assert farther == pytest.approx(100.0 * (laplace / own - 1.0), abs=2.0)


def test_loss_prior_and_matrix_files(run, tmp_path):
    np.savetxt(tmp_path / "loss.csv", 1.0 - np.eye(4), delimiter=",")
    (tmp_path / "prior.csv").write_text("1\n2\n3\n4\n")
    options = ["--epsilon", 1, "--eta", 1, "--loss", "loss.csv", "--prior", "prior.csv", "--gap", 1e-7, "--json"]
    code, text, _ = run("solve", "grid:2x2", *options)
    problem = mdp.Problem(
        mdp.data.grid(2, 2).with_prior([1, 2, 3, 4]), epsilon=1.0, eta=1.0, outputs=4, loss=1 - np.eye(4)
    )
    assert code == 0
    assert json.loads(text)["loss"] == pytest.approx(linprog_optimum(problem), rel=1e-6)


GRID = ["grid:3x3", "--eta", 1]
PLACES = "lat,lon\n1,2\n1.001,2\n1.002,2\n"
BAD = {
    "epsilon 0": ([*GRID, "--epsilon", 0], None, ["epsilon must be positive", "0.0"]),
    "epsilon negative": ([*GRID, "--epsilon", -1], None, ["epsilon must be positive", "-1.0"]),
    "epsilon NaN": ([*GRID, "--epsilon", "nan"], None, ["epsilon must be positive", "nan"]),
    "epsilon infinite": ([*GRID, "--epsilon", "inf"], None, ["epsilon must be positive and finite", "inf"]),
    "eta 0": (["grid:3x3", "--epsilon", 1, "--eta", 0], None, ["eta must be positive", "0.0"]),
    "more outputs": ([*GRID, "--epsilon", 1, "--outputs", 10], None, ["between 1 and the number of records 9", "10"]),
    "all together": (["grid:3x3", "--epsilon", 0, "--eta", -1, "--outputs", 10], None, ["3 faults", "eta", "-1.0"]),
    "too many records": ([*GRID, "--epsilon", 1, "--records", 10], None, ["cannot draw 10 of the 9 records"]),
    "unknown dataset": (["atlantis", "--epsilon", 1, "--eta", 1], None, ["unknown dataset 'atlantis'", "road:gothenb"]),
    "unknown city": (["road:atlantis", "--epsilon", 1, "--eta", 1], None, ["atlantis", "gothenburg"]),
    "bad grid": (["grid:3y3", "--epsilon", 1, "--eta", 1], None, ["grid:3y3", "grid:20x25"]),
    "unknown method": ([*GRID, "--epsilon", 1, "--method", "magic"], None, ["unknown method 'magic'", "direct"]),
    "unknown metric": ([*GRID, "--epsilon", 1, "--metric", "love"], None, ["unknown metric 'love'", "euclidean"]),
    "no streets": ([*GRID, "--epsilon", 1, "--metric", "street"], None, ["no streets"]),
    "no eta": (["data.csv", "--epsilon", 1], PLACES, ["--eta is missing"]),
    "NaN coordinate": (["data.csv", "--epsilon", 1, "--eta", 1], "lat,lon\n1,2\nnan,2\n", ["nan", "line 3"]),
    "latitude": (["data.csv", "--epsilon", 1, "--eta", 1], "lat,lon\n1,2\n95,2\n", ["latitude", "95", "order of the"]),
    "double id": (
        ["data.csv", "--epsilon", 1, "--eta", 1],
        "id,lat,lon\na,1,2\na,1,3\n",
        ["'a' occurs more than once"],
    ),
    "negative prior": (["data.csv", "--epsilon", 1, "--eta", 1], "lat,lon,weight\n1,2,-1\n1,3,1\n", ["negative", "-1"]),
    "zero prior": (["data.csv", "--epsilon", 1, "--eta", 1], "lat,lon,weight\n1,2,0\n1,3,0\n", ["zero everywhere"]),
    "no columns": (["data.csv", "--epsilon", 1, "--eta", 1], "name,age\na,1\n", ["name", "lat"]),
    "empty CSV": (["data.csv", "--epsilon", 1, "--eta", 1], "", ["empty"]),
    "not UTF-8": (["data.csv", "--epsilon", 1, "--eta", 1], b"lat,lon,id\n1,2,\xff\xfe\n", ["UTF-8"]),
    "seed": ([*GRID, "--epsilon", 1, "--seed", -1], None, ["--seed must be zero or more", "-1"]),
    "gap": ([*GRID, "--epsilon", 1, "--gap", "nan"], None, ["gap must be at least 0 and below 1", "nan"]),
    "gap in percents": ([*GRID, "--epsilon", 1, "--gap", "5"], None, ["gap must be at least 0 and below 1", "5.0"]),
    "time limit": ([*GRID, "--epsilon", 1, "--time-limit", 0], None, ["time_limit must be positive", "0"]),
    "threads": ([*GRID, "--epsilon", 1, "--threads", 0], None, ["threads must be a whole number of at least 1", "0"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gives_one_line_and_no_file(run, tmp_path, case):
    words, content, parts = BAD[case]
    if content is not None:
        (tmp_path / "data.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    code, text, complaint = run("solve", *words, "-o", "never.mdp")
    assert code == 2
    assert text == ""
    assert complaint.startswith("error: ")
    assert complaint.count("\n") == 1
    assert all(part in complaint for part in parts), complaint
    assert not (tmp_path / "never.mdp").exists()


@pytest.mark.parametrize(
    ("matrix", "part"),
    [
        (np.ones((2, 3)), "got shape (2, 3)"),
        (np.full((9, 9), np.nan), "got nan"),
        (-np.ones((9, 9)), "got -1.0"),
    ],
)
def test_bad_loss_matrices(run, tmp_path, matrix, part):
    np.save(tmp_path / "loss.npy", matrix)
    code, text, complaint = run("solve", *GRID, "--epsilon", 1, "--loss", "loss.npy", "-o", "never.mdp")
    assert (code, text) == (2, "")
    assert part in complaint
    assert complaint.count("\n") == 1
    assert not (tmp_path / "never.mdp").exists()


@pytest.mark.parametrize("path", ["missing/x.mdp", "."])
def test_unwritable_output_is_refused_before_any_work(run, path):
    code, text, complaint = run("solve", *GRID, "--epsilon", 1, "-o", path)
    assert (code, text) == (2, "")
    assert "cannot write" in complaint


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["solve", *GRID, "--epsilon", "much"], ["--epsilon must be a number", "'much'"]),
        (["solve", *GRID, "--epsilon=much"], ["--epsilon must be a number", "'much'"]),
        (["solve", *GRID, "--epsilon", 1, "--seed", "1.5"], ["--seed", "'1.5'"]),
        (["solve", *GRID], ["give --epsilon, or --within and --factor"]),
        (["plan", "grid:2x2", "--factor", 2], ["Missing option '--within'"]),
        (["solve", *GRID, "--epsilon", 1, "--bogus"], ["No such option", "--bogus"]),
        (["frobnicate"], ["No such command", "'frobnicate'"]),
        (["verify"], ["Missing argument", "FILE.mdp"]),
    ],
)
def test_wrong_options_are_one_plain_line(run, words, parts):
    code, text, complaint = run(*words)
    assert (code, text) == (2, "")
    assert complaint.startswith("error: ")
    assert complaint.count("\n") == 1
    assert all(part in complaint for part in parts), complaint
    code, text, _ = run(*words, "--json")
    assert code == 2
    assert json.loads(text)["status"] == "error"


def test_help_and_version(run):
    assert run("--version") == (0, f"metricdp {mdp.__version__}\n", "")
    for words in (["--help"], ["solve", "--help"]):
        code, text, complaint = run(*words)
        assert (code, complaint) == (0, "")
        assert text.startswith("Usage: ")
    code, text, complaint = run()
    assert code == 2
    assert "Usage: " in text + complaint


def test_interrupted_after_persons_were_charged(run, monkeypatch, tmp_path):
    """Persons are charged before a report is drawn: an interruption in between is not told as if nothing was done."""
    assert run("solve", *GRID, "--epsilon", 1, "-o", "grid.mdp")[0] == 0
    name = mdp.load("grid.mdp").records.ids[0]
    (tmp_path / "true.csv").write_text(f"id,who\n{name},Ana\n")
    charge = mdp.Ledger.charge_many

    def charge_and_interrupt(self, *words):
        charge(self, *words)
        raise KeyboardInterrupt

    words = ("perturb", "grid.mdp", "--input", "true.csv", "--output", "new.csv")
    with monkeypatch.context() as patch:
        patch.setattr(mdp.Ledger, "charge_many", charge_and_interrupt)
        code, out, complaint = run(*words, "--person", "who", "--limit", 5)
    assert (code, out) == (3, "")
    told = "error: interrupted; no file is half written, but persons may be charged in"
    assert complaint.endswith(f"{told} {tmp_path}/grid.mdp.ledger already\n")
    assert not (tmp_path / "new.csv").exists()
    with mdp.Ledger("grid.mdp.ledger", must_exist=True) as ledger:
        assert ledger.spent("Ana") == 1.0


def test_interrupted(run, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("metricdp.cli.solve.named", interrupt)
    assert run("solve", *GRID, "--epsilon", 1) == (3, "", "error: interrupted; no file is half written\n")


def test_what_a_solve_takes_and_leaves_out_is_said_before_it(run, monkeypatch):
    def interrupt(*_, listener, **__):
        listener({"stage": "start", "seconds": 0.0, "nodes": 1, "outputs": 1, "forecast_mb": 1.0})
        raise KeyboardInterrupt

    monkeypatch.setattr("metricdp.cli.solve.solve", interrupt)
    _, _, told = run("solve", "road:gothenburg", "--records", 60, "--epsilon", 1)
    assert "eta = 500 m, the default of road:gothenburg: give --eta" in told
    assert re.search(r"NOT PROTECTED at eta = 500 m: \d+ groups from one another \(\d+ are records without", told)
    assert "Nothing will be written: end this and name a file with -o FILE.mdp" in told
    _, _, told = run("solve", "road:gothenburg", "--records", 60, "--epsilon", 1, "--eta", "connect", "-o", "a.mdp")
    assert not any(words in told for words in ("eta =", "NOT PROTECTED", "Nothing will be written"))
    monkeypatch.setattr("metricdp.cli.regions.solve_plane", interrupt)
    _, _, told = run("solve", "region:41.890,12.480,41.894,12.485", "--epsilon", 1, "--spacing", "0.1")
    assert told.startswith("Nothing will be written: ")


@pytest.fixture
def ctrl_c(monkeypatch):
    """Ctrl-C as soon as the search begins."""

    class Interrupting(ProgressLine):
        def __call__(self, row):
            super().__call__(row)
            if row["stage"] == "start":
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("metricdp.cli.solve.ProgressLine", Interrupting)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_run_that_ctrl_c_ended_says_so(run, words):
    code, text, complaint = run("solve", *GRID, "--epsilon", 1, "-o", "best.mdp", *words)
    assert code == 1
    if words:
        assert (json.loads(text)["status"], json.loads(text)["interrupted"]) == ("limit", True)
    else:
        assert "\nlimit (interrupted) by " in text
        assert "was not reached: the run was interrupted" in complaint
    assert run("verify", "best.mdp")[0] == 0


def test_a_run_for_a_region_that_ctrl_c_ended_says_so(run, monkeypatch):
    class Interrupting(ProgressLine):
        def __call__(self, row):
            super().__call__(row)
            if row["stage"] == "plane" and "loss" in row:
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("metricdp.cli.regions.ProgressLine", Interrupting)
    words = (
        "solve",
        "region:41.890,12.480,41.894,12.485",
        "--epsilon",
        1,
        "--spacing",
        "0.1",
        "--gap",
        0,
        "-o",
        "a.mdp",
    )
    code, text, complaint = run(*words)
    assert code == 1
    assert "was not reached, it is" in complaint
    assert "the run was interrupted" in complaint
    assert "no table over this lattice can go below" in text
    assert "go below 0," not in text
    code, text, _ = run(*words, "--json")
    assert (code, json.loads(text)["interrupted"]) == (1, True)


def test_a_run_that_reached_its_gap_was_not_interrupted(run, monkeypatch):
    asked = []

    class Interrupting(ProgressLine):
        def __call__(self, row):
            super().__call__(row)
            if row.get("gap", 1.0) < 0.9 and not asked:
                asked.append(row["stage"])
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("metricdp.cli.solve.ProgressLine", Interrupting)
    code, text, _ = run("solve", *GRID, "--epsilon", 1, "--gap", 0.9)
    assert asked
    assert code == 0
    assert "\noptimal by " in text


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("--loss", "magic", "travel, distance or the path of a file"),
        ("--prior", "unifrom", "uniform or the path of a file"),
        ("--outputs", "1.5", "a whole number, spread:K, random:K or the path of a file"),
        ("--records", "1.5", "a whole number or the path of a file"),
    ],
)
def test_options_say_what_they_take(run, option, value, allowed):
    code, text, complaint = run("solve", *GRID, "--epsilon", 1, option, value)
    assert (code, text) == (2, "")
    assert complaint.startswith(f"error: {option} must be {allowed}")
    assert complaint.endswith(f"got {value!r}\n")


@pytest.mark.parametrize(
    ("status", "part"), [("FAILED", "try another --method, such as direct"), ("LIMIT", "--time-limit")]
)
def test_the_remedy_fits_the_status(run, monkeypatch, status, part):
    def solved(problem, **_):
        return dataclasses.replace(mdp.solve(problem), status=mdp.Status[status])

    monkeypatch.setattr("metricdp.cli.solve.solve", solved)
    code, _, complaint = run("solve", *GRID, "--epsilon", 1)
    assert code == 1
    assert part in complaint
    assert ("give more time" in complaint) == (status == "LIMIT")


ODD = [":smile:", "[red]x", "[/x]", "\x1b[2J", "word \u2028", "plain"]


@pytest.fixture
def odd(tmp_path):
    """A mechanism whose record ids look like markup, emoji codes and control sequences, each its own report."""
    records = mdp.Records(np.arange(6.0), ids=ODD, kind="vectors", name="n[red]:smile:\x1b[2J")
    mdp.solve(mdp.Problem(records, epsilon=40.0, eta=1.0, outputs=6)).mechanism.save(tmp_path / "odd.mdp")


@pytest.mark.usefixtures("odd")
def test_reports_are_printed_as_they_are(run, monkeypatch):
    assert run("perturb", "odd.mdp", *ODD) == (0, "".join(f"{name}\n" for name in ODD), "")
    monkeypatch.setattr("_pytest.capture.CaptureIO.isatty", lambda _: True, raising=False)
    shown = [":smile:", "[red]x", "[/x]", r"\x1b[2J", r"word \u2028", "plain"]
    assert run("perturb", "odd.mdp", *ODD)[1].split("\n")[:-1] == shown


@pytest.mark.usefixtures("odd")
def test_summaries_show_names_as_they_are(run, tmp_path):
    code, text, _ = run("verify", "odd.mdp")
    assert code == 0
    assert r"n[red]:smile:\x1b[2J" in text
    assert "\x1b" not in text
    (tmp_path / "b[red]x:smile:\x1b[2J.csv").write_text("x\n1\n2\n")
    code, text, complaint = run("solve", "b[red]x:smile:\x1b[2J.csv", "--epsilon", 1, "--eta", 1, "-o", "[x].mdp")
    assert code == 0
    assert text.startswith(r"b[red]x:smile:\x1b[2J: 2 records")
    assert "written to [x].mdp" in text
    assert "\x1b" not in text + complaint
    code, _, complaint = run("solve", "[/x]\x1b[2J", "--epsilon", 1)
    assert code == 2
    assert r"[/x]\x1b[2J" in complaint


def test_metric_names_are_no_markup():
    def distance(a, b):
        return abs(float(a[0] - b[0]))

    distance.__name__ = "[/x]:smile:"
    result = mdp.solve(mdp.Problem(np.arange(3.0), epsilon=1.0, eta=1.0, metric=distance))
    console = Console(file=io.StringIO())  # with markup on
    print_result(console, result)
    print_comparison(console, {"[/x]": 1.0, "[red]": 2.0}, "[km]")
    text = console.file.getvalue()
    assert "(function [/x]:smile:)" in text
    assert "│ [/x] " in text
    assert "2.0000 [km]" in text


def test_progress_elsewhere_than_on_a_terminal_is_short(run):
    _, _, log = run("demo")
    lines = [line for line in log.splitlines() if " s  " in line]
    assert "300 records x 300 outputs" in lines[0]
    assert "certified: loss" in lines[-1]
    assert len(lines) < 15
    assert max(map(len, lines)) <= 100


def test_the_solver_speaks_of_itself_only_when_asked(run):
    words = ("solve", "grid:6x6", "--epsilon", 1, "--eta", 1.5)
    _, _, plain = run(*words)
    assert "36 records x 36 outputs" in plain
    assert "operations" not in plain
    assert max(len(line) for line in plain.splitlines()) <= 100
    assert "operations" in run(*words, "--verbose")[2]


@pytest.mark.parametrize("method", ["local", "auto"])
def test_strong_privacy_says_what_it_costs_and_what_costs_less(run, monkeypatch, method):
    """Also where whole matrices are cheaper than windows that hold everything, and without --verbose."""
    monkeypatch.setattr("metricdp.solve.solvers.auto.CHEAP_OPERATIONS", 0.0)
    words = ("--epsilon", 0.2, "--eta", 1.5, "--method", method, "--gap", 0.3)
    _, _, plain = run("solve", "grid:6x6", *words)
    said = " ".join(plain.split())
    assert (
        "windows hold 100 % of 36 x 36 entries, so hardly anything can be left out at this epsilon: a gap of 30 %"
        in said
    )
    assert re.search(r"takes (at most )?about 1 s of one core and 0\.\d GB; fewer outputs, .* gap cost less", said)
    assert "operations" not in said
    assert "windows hold" not in run("solve", "grid:6x6", "--epsilon", 9, *words[2:])[2]


def test_long_words_of_trouble_are_wrapped():
    console = Console(file=io.StringIO(), width=200)
    with ProgressLine(console, "solving") as show:
        show({"stage": "trouble", "seconds": 1.0, "trouble": "a worker is gone and its work is done again " * 5})
    lines = console.file.getvalue().splitlines()
    assert len(lines) > 2
    assert max(map(len, lines)) <= 100


def test_a_first_look_that_comes_late_is_not_waited_for_in_silence(run, monkeypatch):
    """Windows with their bound, and steps, are lines before the first mechanism is there."""
    monkeypatch.setattr("metricdp.solve.solvers.local.loop.SECONDS_PER_NOTE", 0.0)
    code, _, plain = run(
        "solve", "words", "--records", 150, "--epsilon", 1, "--eta", 6, "--method", "local", "-o", "w.mdp"
    )
    assert code in (0, 1)
    lines = [line.strip() for line in plain.splitlines()]
    first = next(at for at, line in enumerate(lines) if ": within" in line)
    assert any("entries in windows, no mechanism can go below" in line for line in lines[:first])
    assert any("before the next mechanism" in line for line in lines[:first])
    assert max(map(len, plain.splitlines())) <= 100


def test_regions_of_a_partitioner(run):
    words = ("solve", "grid:6x6", "--epsilon", 6, "--eta", 1.5, "--gap", 0.2, "--method", "local")
    code, said, _ = run(*words, "--partition", "metis", "--regions", 3, "--json")
    assert code == 0
    found = json.loads(said)
    assert (found["method"], found["partition"], found["blocks"]) == ("local", "metis", 3)
    assert found["certified"]
    ranges = json.loads(run(*words, "--partition", "kd", "--regions", 3, "--json")[1])
    assert (ranges["partition"], ranges["blocks"]) == (None, None)


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("--method", "local", "--partition", "metis"), "give --regions, such as --regions 4, or leave --partition"),
        (("--partition", "metis"), "--partition belongs to --method benders or local, and the method is auto"),
        (("--method", "direct", "--partition", "bsc"), "the method is direct: choose one of these, or leave"),
        (("--method", "local", "--partition", "magic", "--regions", 2), "choose one of kd, k-m-dv"),
        (("--method", "benders", "--partition", "kd"), "unknown partitioner 'kd': choose one of k-m-dv"),
    ],
)
def test_a_partition_without_anything_to_divide(run, words, remedy):
    code, _, err = run("solve", "grid:3x3", "--epsilon", 1, "--eta", 1.5, *words)
    assert code == 2
    assert remedy in " ".join(err.split())


def test_windows_of_regions_are_said_without_a_bound():
    assert in_words({"stage": "windows", "entries": 12_000, "regions": 4}) == "12,000 entries in windows"
    row = {"stage": "interior", "lower_bound": 0.2, "upper_bound": float("inf"), "gap": 1.0}
    assert in_words(row) == "no mechanism can go below 0.2; none is made yet"


def test_progress_has_a_table_for_each_iterative_method():
    bounds = {"lower_bound": 1.0, "upper_bound": 2.0, "gap": 0.5}
    columns = {"columns": 40, "new_columns": 7, "master_seconds": 0.1, "pricing_seconds": 0.2, "pure_seconds": 0.3}
    cuts = {"cuts": {"a": 3}, "infeasible_blocks": 0, "master_rows": 9, "master_seconds": 0.1, "block_seconds": 0.2}
    console = Console(file=io.StringIO(), width=200)
    with ProgressLine(console, "solving [/x]", is_verbose=True) as show:
        for n in (1, 2):
            show({"stage": "columns", "seconds": n, "component": 0, "round": n, **bounds, **columns})
            show({"stage": "columns", "seconds": n + 0.9, "component": 0, "round": n, **bounds, **columns})
        show({"stage": "benders", "seconds": 3.0, "component": 0, "iteration": 1, **bounds, **cuts})
        show({"stage": "direct", "seconds": 4.0, "records": 99})
        show({"stage": "direct", "seconds": 4.0, "records": 100})
        show({"stage": "patches", "seconds": 5.0})
    lines = console.file.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == ["time", "1.00", "2.00", "time", "3.00", "4.00"]
    assert len(lines[0]) == len(lines[1])
    assert len(lines[3]) == len(lines[4])
    assert lines[1].split()[2:] == ["columns", "1", "1", "2", "50.0000", "40", "7", "0.10", "0.20", "0.30"]


def test_progress_on_a_terminal_takes_text_as_it_is():
    console = Console(file=io.StringIO(), force_terminal=True, width=200)
    with ProgressLine(console, "solving [/x]", is_verbose=True) as show:
        show({"stage": "patches", "seconds": 1.0, "reason": "[/x]:smile:\x1b[2J"})
        show({"stage": "choice", "seconds": 1.0, "reason": "[/x]:smile:\x1b[2J"})
    assert r"reason [/x]:smile:\x1b[2J" in console.file.getvalue()


@pytest.mark.parametrize("words", [["-o", "x", "--trace", "x"], ["-o", "x", "--trace", "y"], ["-o", "data.csv"]])
def test_one_file_is_not_written_twice_nor_over_the_input(run, tmp_path, words):
    (tmp_path / "data.csv").write_text("x\n1\n2\n")
    (tmp_path / "y").symlink_to("x")
    code, text, complaint = run("solve", "data.csv", "--epsilon", 1, "--eta", 1, *words)
    assert (code, text) == (2, "")
    assert "both name" in complaint
    assert not (tmp_path / "x").exists()
    assert (tmp_path / "data.csv").read_text() == "x\n1\n2\n"


@pytest.fixture
def mechanism(run):
    run("solve", "grid:2x2", "--epsilon", 1, "--eta", 1, "-o", "g.mdp")


@pytest.mark.usefixtures("mechanism")
def test_reports_are_not_written_over_the_input(run, tmp_path):
    (tmp_path / "in.csv").write_text("id\nr00c00\n")
    for source, target in (("in.csv", "./in.csv"), ("in.csv", "g.mdp")):
        code, text, complaint = run("perturb", "g.mdp", "--input", source, "--output", target)
        assert (code, text) == (2, "")
        assert "both name" in complaint
    os.mkfifo(tmp_path / "pipe")
    code, text, complaint = run("perturb", "g.mdp", "--input", "in.csv", "--output", "pipe")
    assert (code, text) == (2, "")
    assert "pipe" in complaint
    (tmp_path / "link.csv").symlink_to("place.csv")
    assert run("perturb", "g.mdp", "--input", "in.csv", "--output", "link.csv")[0] == 0
    assert (tmp_path / "link.csv").is_symlink()
    assert len((tmp_path / "place.csv").read_text().splitlines()) == 2


@pytest.mark.usefixtures("mechanism")
@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"name,id\na,r00c00\nb\n", ["line 3 has 1 cells"]),
        (b"id\n" + b"x" * 200_000 + b"\n", ["line 2 is not CSV", "field"]),
        (b"name\na\n", ["no column id: one is needed"]),
        (b"id,id\na,b\n", ["2 columns id: one is needed"]),
        (b"id\n\xff\n", ["UTF-8"]),
        (b"", ["empty"]),
        (b"\x1f\x8bnothing", ["damaged gzip"]),
    ],
)
def test_bad_inputs_of_perturb(run, tmp_path, content, parts):
    (tmp_path / "in.csv").write_bytes(content)
    code, text, complaint = run("perturb", "g.mdp", "--input", "in.csv", "--output", "out.csv")
    assert (code, text) == (2, "")
    assert complaint.count("\n") == 1
    assert all(part in complaint for part in parts), complaint
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.usefixtures("mechanism")
def test_perturb_reads_what_spreadsheets_write(run, tmp_path):
    content = b"\xef\xbb\xbfname, ID \r\na,r00c00\r\nb, r01c01 \r\n"
    for data in (content, gzip.compress(content)):
        (tmp_path / "in.csv").write_bytes(data)
        assert run("perturb", "g.mdp", "--input", "in.csv", "--output", "out.csv")[0] == 0
        assert len((tmp_path / "out.csv").read_text().splitlines()) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_file_name_that_is_no_text(run, tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.csv")
    Path(path).write_text("x\n1\n2\n")
    code, text, _ = run("solve", path, "--epsilon", 1, "--eta", 1, "-o", os.fsdecode(b"\xe9.mdp"))
    assert code == 0
    assert text.startswith("caf?: 2 records")
    assert r"written to \udce9.mdp" in text
    assert run("verify", os.fsdecode(b"\xe9.mdp"))[0] == 0


def test_a_doubled_row_of_the_records_is_named(run, tmp_path):
    (tmp_path / "rows.csv").write_text("1\n7\n7\n")
    code, _, complaint = run("solve", *GRID, "--epsilon", 1, "--records", "rows.csv")
    assert code == 2
    assert "row 7 is named more than once" in complaint


def test_json_errors_are_one_object_too(run):
    code, text, complaint = run("solve", *GRID, "--epsilon", 0, "--json")
    assert code == 2
    assert json.loads(text)["status"] == "error"
    assert complaint.startswith("error: ")


def test_gap_not_reached_is_exit_code_1(run):
    words = ["grid:14x14", "--epsilon", 0.3, "--eta", 3, "--time-limit", 0.2, "--gap", 1e-9, "--json"]
    code, text, _ = run("solve", *words)
    answer = json.loads(text)
    assert code == 1
    assert answer["status"] == "limit"
    assert answer["certified"] is True


def test_perturb_needs_known_ids_and_one_way_of_input(run):
    run("solve", "grid:2x2", "--epsilon", 1, "--eta", 1, "-o", "g.mdp")
    assert run("perturb", "g.mdp", "nobody")[::2] == (
        2,
        (
            "error: id 1 of 1 is not a record of this mechanism: use one of its record ids; metricdp evaluate FILE.mdp "
            "--against none --per-record ids.csv writes them all\n"
        ),
    )
    assert run("perturb", "g.mdp")[0] == 2
    assert run("perturb", "g.mdp", "r00c00", "--input", "x.csv", "--output", "y.csv")[0] == 2


def test_verify_refuses_what_is_not_a_mechanism(run, tmp_path):
    (tmp_path / "junk.mdp").write_bytes(b"not a mechanism at all")
    code, text, complaint = run("verify", "junk.mdp")
    assert (code, text) == (2, "")
    assert "not a mechanism file" in complaint


def test_as_a_program():
    """A real process: standard output holds the JSON and nothing else."""
    words = ["solve", "grid:2x2", "--epsilon", "1", "--eta", "1", "--json"]
    done = subprocess.run([sys.executable, "-m", "metricdp", *words], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["status"] == "optimal"
    assert "certified" in done.stderr
    version = subprocess.run(
        [sys.executable, "-m", "metricdp", "--version"], capture_output=True, text=True, check=True
    )
    assert version.stdout.strip() == f"metricdp {mdp.__version__}"


@pytest.fixture
def run_full(run, monkeypatch):
    """Run the command line with a standard output that takes nothing; return the exit code and what was complained."""

    def call(*words):
        with Path("/dev/full").open("w", encoding="utf-8") as full, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", full)
            code, _, complaint = run(*words)
        return code, complaint

    return call


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["solve", "grid:2x2", "--epsilon", 1, "--eta", 1, "--json"], 3, "standard output cannot be written (No space"),
        (["verify", "g.mdp", "--json"], 3, "standard output cannot be written (No space left on device): use a disk"),
        (["verify", "g.mdp"], 3, "standard output cannot be written (No space"),
        (["perturb", "g.mdp", "r00c00", "--json"], 3, "standard output cannot be written (No space"),
        (["perturb", "g.mdp", *["r00c00"] * 9000], 3, "standard output cannot be written (No space"),
        (["solve", "grid:2x2", "--epsilon", 0, "--json"], 2, "epsilon must be positive"),
    ],
)
def test_a_full_device_is_one_line_and_an_exit_code(run, run_full, words, code, error):
    run("solve", "grid:2x2", "--epsilon", 1, "--eta", 1, "-o", "g.mdp")
    found, complaint = run_full(*words)
    assert found == code
    (line,) = [line for line in complaint.splitlines() if line.startswith("error: ")]
    assert error in line
    assert "Traceback" not in complaint


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("more", [{}, {"PYTHONUNBUFFERED": "1"}])
def test_a_full_device_as_a_program(more):
    words = [sys.executable, "-m", "metricdp", "solve", "grid:2x2", "--epsilon", "1", "--eta", "1", "--json"]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            words, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env={**os.environ, **more}
        )
    assert done.returncode == 3
    assert "No space left on device" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_a_column_of_epsilons(run, tmp_path):
    places = tmp_path / "places.csv"
    places.write_text("id,x,y,budget\na,0,0,1\nb,1,0,0.5\nc,2,0,2\nd,3,0,1.5\n", encoding="utf-8")
    target = tmp_path / "own.mdp"
    code, text, _ = run("solve", places, "--epsilon", "budget", "--eta", 1, "-o", target, "--json")
    answer = json.loads(text)
    assert (code, answer["epsilon"], answer["smallest_epsilon"]) == (0, 2.0, 0.5)
    assert mdp.load(target).epsilons.tolist() == [1.0, 0.5, 2.0, 1.5]
    rows = tmp_path / "rows.csv"
    rows.write_text("3\n1\n", encoding="utf-8")
    code, *_ = run("solve", places, "--epsilon", "budget", "--eta", 5, "--records", rows, "-o", tmp_path / "two.mdp")
    assert code == 0
    assert mdp.load(tmp_path / "two.mdp").epsilons.tolist() == [1.5, 0.5]
    code, text, complaint = run("solve", places, "--epsilon", "much", "--eta", 1)
    assert (code, text) == (2, "")
    assert "0 columns named 'much'" in complaint
    code, text, _ = run("verify", target)
    assert code == 0
    assert "the smaller of its two records' own epsilons (0.5 to 2)" in " ".join(text.split())
    code, text, _ = run("evaluate", target, "--against", "exponential")
    assert code == 0
    code, *_ = run("perturb", target, "a")
    assert code == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("solve", *GRID, "--epsilon", 1, "--gap", "1%"), "got '1%'; give 0.01;"),
        (("solve", *GRID, "--epsilon", 1, "--time-limit", "10s"), "got '10s'; give seconds: 10;"),
        (("solve", *GRID, "--epsilon", 1, "--time-limit", "2min"), "got '2min'; give seconds: 120;"),
        (("perturb", "g.mdp", "-", "--limit", "6.94/day"), "got '6.94/day'; give --limit 6.94 --window 1d;"),
        (("perturb", "g.mdp", "-", "--limit", "some"), "got 'some'; see"),
        (("solve", *GRID, "--epsilon", 1, "--resume"), "--resume goes with --checkpoint FOLDER"),
        (("verify", "no.mdp"), "there is no file no.mdp: check its name"),
        (("verify", "gps.csv"), "name a .mdp file as it was written"),
    ],
)
def test_errors_say_what_to_type(run, tmp_path, words, told):
    (tmp_path / "gps.csv").write_text("lat,lon\n57.7,11.97\n57.71,11.98\n")
    code, text, complaint = run(*words)
    assert (code, text) == (2, "")
    assert told in complaint


def test_packed_files_are_to_be_unpacked_first(run):
    assert run("solve", *GRID, "--epsilon", 1, "-o", "g.mdp")[0] == 0
    assert run("export", "g.mdp", "-o", "lean.mdp", "--compress")[0] == 0
    for words in (("verify",), ("perturb", "r00c00"), ("evaluate",)):
        code, text, complaint = run(words[0], "lean.mdp.gz", *words[1:])
        assert (code, text) == (2, "")
        assert "lean.mdp.gz is packed: unpack it first, with gunzip lean.mdp.gz" in complaint
    with pytest.raises(mdp.FileFormatError, match="is packed: unpack it first"):
        mdp.load("lean.mdp.gz")
