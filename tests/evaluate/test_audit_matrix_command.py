"""`metricdp audit MATRIX --problem ...`: exit codes, JSON, and what is refused."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import metricdp as mdp
from metricdp.mechanism.baselines import exponential_matrix


@pytest.fixture
def matrix(tmp_path):
    """The exponential mechanism on a grid of 3 x 3 in three kinds of files, and its audit."""
    problem = mdp.Problem(mdp.data.grid(3, 3), epsilon=1.0, eta=1.5)
    Z = exponential_matrix(problem)
    np.save(tmp_path / "Z.npy", Z)
    np.savetxt(tmp_path / "Z.csv", Z, delimiter=",", fmt="%.17g")
    mdp.exponential(problem).save(tmp_path / "grid.mdp")
    return mdp.audit(Z, problem)


GRID = ("--problem", "grid:3x3", "--eta", 1.5)


@pytest.mark.parametrize("name", ["Z.npy", "Z.csv"])
def test_the_exact_figures_of_a_matrix(matrix, run, name):
    code, out, err = run("audit", name, *GRID, "--epsilon", 1, "--json")
    fields = json.loads(out)
    assert (code, err) == (0, "")
    assert fields["holds"] is True
    assert fields["epsilon"] == matrix.epsilon
    assert fields["worst_pair"] == list(matrix.pair)
    assert fields["worst_output"] == matrix.output
    assert fields["worst_probabilities"] == list(matrix.probabilities)
    assert (fields["constraints"], fields["violated"], fields["claimed"]) == (matrix.n_constraints, 0, 1.0)


def test_a_budget_that_does_not_hold_is_a_no(matrix, run):
    below = math.nextafter(matrix.epsilon, 0.0)
    code, out, _ = run("audit", "Z.npy", *GRID, "--epsilon", repr(below), "--json")
    fields = json.loads(out)
    assert (code, fields["holds"]) == (1, False)
    assert 0 < fields["violated"] < 20
    assert fields["share_violated"] == fields["violated"] / fields["constraints"]
    assert run("audit", "Z.npy", *GRID, "--epsilon", repr(matrix.epsilon))[0] == 0
    code, out, _ = run("audit", "Z.npy", *GRID, "--epsilon", 0.5)
    assert code == 1
    assert out.startswith("NOT PRIVATE at epsilon = 0.5")
    assert f"Tightest epsilon that holds: {matrix.epsilon!r}" in out
    assert "Worst: " in out


def test_without_a_claim_the_tightest_epsilon_is_the_answer(matrix, run):
    code, out, _ = run("audit", "Z.npy", *GRID)
    assert code == 0
    assert out.startswith(f"Tightest epsilon that holds: {matrix.epsilon!r}")
    assert "PRIVATE at" not in out
    code, out, _ = run("audit", "Z.npy", *GRID, "--json")
    fields = json.loads(out)
    assert (fields["holds"], fields["claimed"], fields["violated"]) == (None, None, None)


def test_the_problem_of_a_mechanism_file(matrix, run):
    code, out, _ = run("audit", "Z.npy", "--problem", "grid.mdp", "--json")
    fields = json.loads(out)
    assert (code, fields["claimed"], fields["epsilon"]) == (0, 1.0, matrix.epsilon)
    assert run("audit", "Z.npy", "--problem", "grid.mdp", "--epsilon", 0.5)[0] == 1
    code, out, _ = run("audit", "grid.mdp", "--problem", "grid.mdp", "--json")
    assert code == 0
    assert json.loads(out)["epsilon"] <= 1.0


def test_no_epsilon_and_no_pairs(run, tmp_path):
    np.save(tmp_path / "open.npy", np.eye(4))
    code, out, _ = run("audit", "open.npy", "--problem", "grid:2x2", "--eta", 1, "--epsilon", 3, "--json")
    assert (code, json.loads(out)["epsilon"]) == (1, "inf")
    code, out, _ = run("audit", "open.npy", "--problem", "grid:2x2", "--eta", 0.5)
    assert code == 1
    assert "NOTHING is protected" in out
    code, out, _ = run("audit", "open.npy", "--problem", "grid:2x2", "--eta", 0.5, "--json")
    assert (code, json.loads(out)["epsilon"]) == (1, None)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("Z.npy",), "give FILE.mdp and --pipeline, or a matrix and --problem"),
        (("Z.npy", "--problem", "grid.mdp", "--pipeline", "builtin:ids"), "or a matrix and --problem"),
        (("Z.npy", "--problem", "grid.mdp", "--eta", "1"), "--eta goes with DATA: leave it out, grid.mdp holds it"),
        (("grid.mdp", "--pipeline", "builtin:ids", "--eta", "1"), "--eta goes with --problem"),
        (("Z.npy", "--problem", "grid:2x3", "--eta", "1"), "each of the 6 records"),
        (("Z.npy", "--problem", "grid:3x3", "--epsilon", "-1"), "epsilon must be positive"),
        (("Z.npy", "--problem", "grid:3x3", "--seed", "-1"), "--seed must be zero or more"),
        (("--problem", "grid:3x3", "--self-test"), "leave out FILE.mdp"),
        (("no.npy", "--problem", "grid:3x3"), "no.npy"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(matrix, run, words, message):
    code, out, err = run("audit", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_evaluate_compares_with_files_of_one_s_own(matrix, run, tmp_path):
    np.save(tmp_path / "open.npy", np.eye(9))
    code, out, _ = run("evaluate", "grid.mdp", "--against", "uniform,mine=open.npy,same=grid.mdp", "--json")
    rows = {row["name"]: row for row in json.loads(out)["comparison"]}
    assert code == 0
    assert list(rows) == ["this mechanism", "mine", "same", "uniform"]
    assert (rows["mine"]["certified"], rows["mine"]["tightest_epsilon"], rows["mine"]["loss"]) == (False, "inf", 0.0)
    assert rows["same"]["loss"] == rows["this mechanism"]["loss"]
    code, out, _ = run("evaluate", "grid.mdp", "--against", "mine=open.npy")
    assert "% of its constraints are violated" in out
    assert "bits (min-entropy leakage)" in out
    code, _, err = run("evaluate", "grid.mdp", "--against", "mine=no.npy")
    assert code == 2
    assert "no.npy" in err


def test_rows_that_are_all_equal_hold_at_zero_and_nothing_is_said_of_a_float_before_it(run, tmp_path):
    (tmp_path / "same.csv").write_text((7 * "0.125," + "0.0625,0.0625\n") * 9)
    code, out, _ = run("audit", "same.csv", *GRID)
    assert code == 0
    assert out.startswith("Tightest epsilon that holds: 0.0, so any does: neighbours report alike.\n")
    assert "float before" not in out
    assert "Worst" not in out
