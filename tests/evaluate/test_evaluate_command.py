"""`metricdp evaluate` as scripts use it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.mechanism.test_files import pack, unpack

import metricdp as mdp
from metricdp.evaluate import BASELINES


@pytest.fixture
def grid(tmp_path):
    problem = mdp.Problem(mdp.data.grid(3, 3), epsilon=1.0, eta=1.0, outputs=9, seed=0)
    mechanism = mdp.solve(problem, gap=1e-6).mechanism
    mechanism.save(tmp_path / "grid.mdp")
    return mechanism


def test_ours_is_never_worse_than_a_certified_one(run):
    city = ("road:gothenburg", "--records", "100", "--outputs", "30", "--epsilon", "10", "--eta", "1.5")
    assert run("solve", *city, "--gap", "1e-4", "-o", "city.mdp")[0] == 0
    code, text, _ = run("evaluate", "city.mdp", "--against", ",".join(BASELINES), "--json")
    answer = json.loads(text)
    assert code == 0
    assert answer["is_own_loss"]
    assert answer["loss"] == pytest.approx(answer["claimed_loss"], rel=1e-9)
    ours, *others = answer["comparison"]
    assert [row["name"] for row in others] == list(BASELINES)
    certified = [row for row in others if row["certified"]]
    assert {row["name"] for row in certified} == set(BASELINES) - {"planar-laplace"}
    for row in certified:
        assert row["tightest_epsilon"] <= answer["epsilon"]
        assert ours["loss"] <= min(row["loss"], row["loss_after_remap"])
    assert answer["better"] == []
    assert answer["adversary"]["error"] <= answer["adversary_with_wrong_prior"]["error"]


def test_in_words(run, grid, tmp_path):
    code, text, _ = run("evaluate", "grid.mdp", "--per-record", "loss.csv")
    assert code == 0
    assert "No certified mechanism of these costs less" in text
    assert "planar-laplace: guarantees 2 epsilon" in text
    assert "Adversary with the true prior" in text
    lines = (tmp_path / "loss.csv").read_text().splitlines()
    assert lines[0] == "id,prior,expected_loss"
    mean = np.mean([float(line.split(",")[2]) for line in lines[1:]])
    assert mean == pytest.approx(grid.optimality.loss, rel=1e-9)


@pytest.mark.parametrize("name", ["this mechanism", "exponential", "multivariate-laplace", "all", "", " "])
def test_own_mechanisms_have_names_of_their_own(run, grid, tmp_path, name):
    np.save(tmp_path / "Z.npy", grid.probabilities)
    code, text, err = run("evaluate", "grid.mdp", "--against", f"{name}=Z.npy")
    assert (code, text) == (2, "")
    assert f"the name {name.strip()!r} is" in err


def test_a_matrix_that_is_none_is_named(run, grid, tmp_path):
    Z = grid.probabilities.copy()
    Z[0] *= 1.01
    np.savetxt(tmp_path / "Z.csv", Z, delimiter=",")
    for words in (("evaluate", "grid.mdp", "--against", "mine=Z.csv"), ("audit", "Z.csv", "--problem", "grid.mdp")):
        code, _, err = run(*words)
        assert code == 2
        assert f"in {'mine' if 'evaluate' in words else 'Z.csv'}: row 1 of the matrix sums to 1.01" in err


def test_names_of_other_formats_are_refused(run, grid, tmp_path):
    (tmp_path / "ids.csv").write_text(f"id\n{grid.records.ids[0]}\n")
    for words, remedy in (
        (("perturb", "grid.mdp", "--input", "ids.csv", "--output", "r.xlsx"), ".csv or .geojson"),
        (("perturb", "grid.mdp", "--input", "ids.csv", "--output", "r.XLS.gz"), ".csv or .geojson"),
        (("evaluate", "grid.mdp", "--per-record", "r.xlsx"), "end it in .csv"),
        (("estimate", "grid.mdp", "--input", "ids.csv", "-o", "r.pdf"), "end it in .csv"),
        (("solve", "grid:2x2", "--epsilon", "1", "-o", "a.txt"), "end it in .mdp"),
    ):
        code, out, err = run(*words)
        assert (code, out) == (2, "")
        assert "is named as another format than" in err
        assert remedy in err
    for name in ("r", "reports.v1.2"):
        assert run("perturb", "grid.mdp", "--input", "ids.csv", "--output", name)[0] == 0


def test_a_requirement_that_is_not_met_is_not_a_lack_of_privacy(run, grid):
    code, out, err = run("verify", "grid.mdp", "--require", "epsilon<=0.5")
    assert (code, out) == (1, "")
    assert "NOT AS REQUIRED: grid.mdp does not meet the requirement: epsilon is 1.0" in err
    assert "It is private as it claims itself" in err
    assert "NOT PRIVATE" not in err
    answer = json.loads(run("verify", "grid.mdp", "--require", "epsilon<=0.5", "--json")[1])
    assert (answer["certified"], answer["requirement_met"]) == (False, False)


def test_no_own_mechanism_replaces_another(run, grid, tmp_path):
    np.save(tmp_path / "Z.npy", grid.probabilities)
    code, text, err = run("evaluate", "grid.mdp", "--against", "mine=Z.npy,mine=grid.mdp")
    assert (code, text) == (2, "")
    assert "'mine' is given twice" in err


def test_nothing_to_compare_with(run, grid):
    code, text, _ = run("evaluate", "grid.mdp", "--against", "none", "--json")
    answer = json.loads(text)
    assert code == 0
    assert len(answer["comparison"]) == 1
    assert list(answer["distance"]) == ["0.05", "0.25", "0.5", "0.75", "0.95", "0.99"]


def test_guidance_is_shown(run):
    assert run("solve", "grid:3x3", "--epsilon", 1, "--eta", 0.5, "-o", "open.mdp")[0] == 0
    _, text, _ = run("evaluate", "open.mdp")
    assert "Note: No record has a neighbour within eta = 0.5" in text


def test_a_given_loss_and_belief(run, grid, tmp_path):
    np.savetxt(tmp_path / "loss.csv", 1.0 - np.eye(9), delimiter=",")
    (tmp_path / "belief.csv").write_text("1\n" * 8 + "92\n")
    options = ["--loss", "loss.csv", "--adversary-prior", "belief.csv", "--json"]
    code, text, _ = run("evaluate", "grid.mdp", *options)
    answer = json.loads(text)
    assert code == 0
    assert not answer["is_own_loss"]
    assert answer["loss"] == pytest.approx(1.0 - np.diag(grid.probabilities).mean(), rel=1e-9)
    assert answer["adversary_with_wrong_prior"]["right"] < answer["adversary"]["right"]


def test_another_loss_is_said_to_be_another(run, tmp_path):
    np.savetxt(tmp_path / "odd.csv", np.random.default_rng(0).uniform(size=(9, 9)), delimiter=",")
    assert run("solve", "grid:3x3", "--epsilon", 1, "--eta", 1, "--loss", "odd.csv", "-o", "odd.mdp")[0] == 0
    _, text, _ = run("evaluate", "odd.mdp", "--against", "exponential,kernel")
    assert "Loss: given, fr" in text
    assert "IN PLACE OF" not in text
    metadata, tensors = unpack(tmp_path / "odd.mdp")
    del metadata["loss_name"], tensors["losses"]
    pack(tmp_path / "bare.mdp", metadata, tensors)  # as earlier versions wrote it
    _, text, _ = run("evaluate", "bare.mdp", "--against", "exponential,kernel")
    assert "IN PLACE OF the loss that it was made for" in text
    assert "but this one was made for another loss" in text


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["grid.mdp", "--against", "magic"], "'magic'"),
        (["grid.mdp", "--loss", "nowhere.csv"], "nowhere.csv"),
        (["grid.mdp", "--adversary-prior", "nobody"], "nobody"),
        (["grid.mdp", "--time-limit", "-1"], "-1"),
        (["grid.mdp", "--per-record", "grid.mdp"], "another file"),
        (["none.mdp"], "there is no file"),
    ],
)
def test_bad_input_is_one_line(run, grid, tmp_path, words, part):
    before = sorted(p.name for p in tmp_path.iterdir())
    code, text, error = run("evaluate", *words)
    assert code == 2
    assert text == ""
    assert error.startswith("error: ")
    assert part in error
    assert error.count("\n") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_the_curve_of_privacy_and_utility(run, grid):
    """At the file's own budget the optimum is what the file holds; the bound is below all that is certified."""
    code, text, _ = run(
        "evaluate", "grid.mdp", "--sweep", "0.5,1,2", "--against", "exponential,planar-laplace", "--json"
    )
    assert code == 0
    curve = json.loads(text)["sweep"]
    bounds = {row["epsilon"]: row["lower_bound"] for row in curve["lower_bounds"]}
    assert list(bounds) == [0.5, 1.0, 2.0]
    points = {(row["name"], row["epsilon"]): row for row in curve["points"]}
    assert {name for name, _ in points} == {"optimal", "exponential", "planar-laplace"}
    assert points["optimal", 1.0]["loss"] == pytest.approx(grid.optimality.loss, rel=0.01)
    for (_, epsilon), row in points.items():
        if row["certified"]:
            assert 0 < bounds[epsilon] <= row["loss"]
    assert points["optimal", 0.5]["loss"] > points["optimal", 2.0]["loss"]
    code, text, _ = run("evaluate", "grid.mdp", "--sweep", "0.5,1,2", "--against", "exponential")
    assert code == 0
    assert f">= {bounds[2.0]:.5g}" in text
    assert f"{points['exponential', 2.0]['loss']:.5g}" in text


def test_what_a_report_tells_and_how_near_a_guess_comes(run, grid):
    code, text, _ = run("evaluate", "grid.mdp", "--gain-within", "1", "--against", "none", "--json")
    assert code == 0
    told = json.loads(text)["leakage"]
    joint = grid.probabilities * grid.records.prior[:, None]
    near = (np.linalg.norm(grid.records.coordinates[:, None] - grid.records.coordinates[None], axis=2) <= 1.0) * 1.0
    assert told["bayes_after"] == pytest.approx(joint.max(axis=0).sum())
    assert told["gain_after"] == pytest.approx((near @ joint).max(axis=0).sum())
    assert told["gain_before"] == pytest.approx((near @ grid.records.prior).max())
    marginal = joint.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        bits = np.nansum(joint * np.log2(joint / (grid.records.prior[:, None] * marginal)))
    assert told["mutual_information"] == pytest.approx(bits)
    code, text, _ = run("evaluate", "grid.mdp", "--gain-within", "1", "--against", "none")
    assert f"with probability {told['gain_after']:.4g}" in text
    assert f"{told['mutual_information']:.3g} bits by Shannon's entropy" in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--sweep", "1,x"), "--sweep must be numbers"),
        (("--sweep", "1,1"), "--sweep has a budget twice"),
        (("--sweep", "1", "--against", "mine=grid.mdp"), "--sweep makes mechanisms at each budget"),
        (("--gain-within", "200m"), "--gain-within has the unit"),
    ],
)
def test_curves_and_gains_that_make_no_sense_are_refused(run, grid, options, words):
    code, _, errors = run("evaluate", "grid.mdp", *options)
    assert code == 2
    assert words in " ".join(errors.split())
