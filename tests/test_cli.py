"""The command line as scripts use it: exit codes, one JSON object, one-line errors, no half-written files."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import metricdp as mdp
from metricdp.cli import main
from tests.conftest import linprog_optimum

SOLVE_FIELDS = [
    "status",
    "method",
    "partition",
    "blocks",
    "records",
    "outputs",
    "pairs",
    "components",
    "epsilon",
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
]
VERIFY_FIELDS = [
    "certified",
    "records",
    "outputs",
    "pairs",
    "components",
    "epsilon",
    "eta",
    "tightest_epsilon",
    "worst_pair",
    "bits",
    "seconds",
]


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run the command line in this process, in an empty folder: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["metricdp", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return stop.value.code or 0, captured.out, captured.err

    return call


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


def test_the_seeds_instance_from_files(run, rome):
    code, text, _ = run(
        "solve",
        rome / "nodes.csv.gz",
        "--records",
        rome / "paper_records.csv",
        "--outputs",
        rome / "paper_outputs.csv",
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
    assert mdp.load(tmp_path / "metricdp-demo.mdp").records.n == 300


def test_loss_prior_and_matrix_files(run, tmp_path):
    np.savetxt(tmp_path / "loss.csv", 1.0 - np.eye(4), delimiter=",")
    (tmp_path / "prior.csv").write_text("1\n2\n3\n4\n")
    options = ["--epsilon", 1, "--eta", 1, "--loss", "loss.csv", "--prior", "prior.csv", "--json"]
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
    "unknown metric": ([*GRID, "--epsilon", 1, "--metric", "cosine"], None, ["unknown metric 'cosine'", "euclidean"]),
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
    "gap": ([*GRID, "--epsilon", 1, "--gap", "nan"], None, ["gap must be zero or positive", "nan"]),
    "time limit": ([*GRID, "--epsilon", 1, "--time-limit", 0], None, ["time_limit must be positive", "0"]),
    "threads": ([*GRID, "--epsilon", 1, "--threads", 0], None, ["threads must be at least 1", "0"]),
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


def test_wrong_options_are_one_plain_line(run):
    code, text, complaint = run("solve", *GRID, "--epsilon", "much")
    assert (code, text) == (2, "")
    assert "--epsilon" in complaint
    assert "valid number" in complaint


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
        "error: there is no record 'nobody' in this mechanism: use one of its record ids\n",
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
