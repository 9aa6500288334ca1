"""From words to numbers: the promise, the plan, the command, and `solve` with the same words."""

from __future__ import annotations

import importlib
import json
import math
import shlex
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mechanism.independent import exp_bounds

import metricdp as mdp
from metricdp.mechanism.promise import Promise, epsilon_for
from metricdp.solve.prediction import predict

module = importlib.import_module("metricdp.evaluate.plan")


@given(st.floats(1e-3, 1e3), st.floats(1.001, 1e6), st.integers(1, 1000))
def test_the_budget_keeps_the_promise_exactly(within, factor, reports):
    """exp(reports * epsilon * within) is at most factor, and a little more budget would be too much."""
    epsilon = epsilon_for(within, factor, reports=reports, metric="euclidean")
    exponent = Fraction(epsilon) * reports * Fraction(within)
    assert exp_bounds(exponent)[1] <= Fraction(factor)
    assert exp_bounds(exponent * (1 + Fraction(1, 10**14)))[0] > Fraction(factor)


def test_sentences():
    assert Promise.of("0.5km", 2.5).sentence.endswith("500 m away would send the same report at least 1/2.5 as often.")
    assert Promise.of("2km", 2, reports="3 per Weeks").period == "week"
    many = Promise.of("2km", 2, reports="3 per week")
    assert many.sentence == "Somebody 2 km away would send the same 3 reports of a week at least half as often."
    assert Promise.of(2.0, 3, reports=7, metric="matrix").sentence == (
        "Somebody 2 away would send the same 7 reports at least a third as often."
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reports": "5/parsec"}, "reports must be counted in a time that is known, got '5/parsec'"),
        ({"factor": 1.0}, "factor must be above 1"),
        ({"factor": math.inf}, "factor must be above 1"),
        ({"factor": "4"}, "factor must be above 1"),
        ({"within": "inf"}, "within must be finite"),
        ({"within": "5 miles"}, "unknown unit"),
        ({"reports": 0}, "reports must be a whole number of at least 1, got 0"),
        ({"reports": "some"}, "reports must be"),
        ({"reports": 1.5}, "reports must be"),
    ],
)
def test_words_that_make_no_promise(options, message):
    with pytest.raises(mdp.InputError, match=message):
        Promise.of(**{"within": "200m", "factor": 4, **options})


@pytest.fixture(scope="module")
def town():
    return mdp.data.road("gothenburg").nearest((57.7072, 11.9668), 150)


def test_a_plan_holds_what_it_says(town):
    found = mdp.plan(town, within="200m", factor=4)
    assert found.epsilon == epsilon_for("200m", 4)
    assert found.eta >= 0.2
    assert found.is_connected
    assert not found.unprotected
    assert found.outputs is None
    result = mdp.solve(found.problem)
    assert found.distance_at_least <= result.loss <= 1.1 * found.distance_at_most
    fields = found.fields()
    assert (fields["epsilon"], fields["eta"], fields["outputs"]) == (found.epsilon, found.eta, 150)
    assert str(found).startswith("Somebody 200 m away would send the same report at least a quarter as often.")


def test_people_so_near_are_neighbours_themselves(town):
    """An eta below the promised distance would leave it to detours."""
    found = mdp.plan(town, within="1km", factor=2)
    assert found.eta == 1.0
    below = mdp.plan(town, within="1km", factor=2, eta="300m")
    assert below.eta == 0.3
    assert "along steps of up to 300 m" in below.unprotected[-1]


def test_what_stays_unprotected_is_said():
    records = mdp.Records([[0.0], [1.0], [2.0], [50.0]], kind="vectors")
    found = mdp.plan(records, within=1.0, factor=2, eta=1.0)
    assert (found.n_components, found.n_isolated, found.is_connected) == (2, 1, False)
    assert len(found.unprotected) == 2
    assert sum("NOT PROTECTED" in line for line in found.lines()) == 2
    assert mdp.plan(records, within=1.0, factor=2).eta == pytest.approx(48.0)


def test_an_eta_that_fits_is_taken_where_joining_all_does_not(monkeypatch):
    """With room for a few pairs only, the remote record stays apart."""
    records = mdp.Records(np.append(np.arange(40.0), 500.0), kind="vectors")
    monkeypatch.setattr(module, "pairs_within", lambda _r, _m, eta: 40.0 if eta < 2.0 else 1e30)
    found = mdp.plan(records, within=0.5, factor=2)
    assert found.eta == pytest.approx(1.0)
    assert (found.n_components, found.n_isolated) == (2, 1)


def test_fewer_outputs_where_all_would_not_fit(town, monkeypatch):
    monkeypatch.setattr(module, "SPREAD_OUTPUTS", 20)
    real = module.predict
    monkeypatch.setattr(
        module,
        "predict",
        lambda problem, gap: (
            real(problem, gap=gap) if problem.n_outputs == 20 else type(real(problem, gap=gap))("local", 1e30, 1.0)
        ),
    )
    found = mdp.plan(town, within="200m", factor=4)
    assert (found.outputs, found.problem.n_outputs) == ("spread:20", 20)
    assert "20 of 150 records (spread:20)" in str(found)
    assert found.distance_at_least > 0.0


@pytest.mark.parametrize(
    ("side", "outputs", "eta", "epsilon", "words", "peak"),
    [
        (3, 9, 1.0, 1.0, "about 0.2 GB", 194e6),
        (17, 40, 1.5, 0.5, "about 0.22 GB", 226e6),
        (24, 50, 2.0, 0.3, "up to 0.36 GB", 347e6),
    ],
)
def test_memory_counts_the_program_and_what_polishes_bounds(side, outputs, eta, epsilon, words, peak):
    """The peaks are those of runs on one machine; without the two, 0.1 GB was foretold for each of them."""
    grid = mdp.data.grid(side, side)
    found = predict(mdp.Problem(grid, epsilon=epsilon, eta=eta, outputs=outputs, loss="distance"))
    assert found.memory == words
    assert 0.95 * peak <= found.n_bytes <= 1.25 * peak


def test_no_share_of_the_windows_is_above_all():
    found = mdp.plan(mdp.data.road("gothenburg", n=300), within="200m", factor=4, reports="5/day")
    assert found.prediction.window_share > 1.0
    assert "around each output, 100 % of all entries" in str(found)
    assert "solving  at least 0.2" in str(found)


def test_predictions_grow_with_the_problem():
    small, large = (mdp.plan(mdp.data.grid(n, n), within=1.0, factor=2, eta=2.0).prediction for n in (12, 40))
    assert large.n_bytes > small.n_bytes
    assert large.seconds > small.seconds
    assert large.method == "local"
    assert 0 < large.window_share <= 1.5
    assert large.window > 0
    dense = mdp.plan(mdp.data.grid(40, 40), within=1.0, factor=2, eta=2.0, outputs="spread:50")
    assert dense.prediction.method == "first-order"
    assert dense.prediction.window is None
    tiny = mdp.plan(mdp.data.grid(2, 2), within=1.0, factor=2).prediction
    assert tiny.method == "interior"


def test_the_command_says_the_same_and_its_next_command_runs(run):
    words = ("plan", "grid:3x4", "--within", 1, "--factor", 4, "--reports", "2/week", "--outputs", "spread:6")
    code, out, err = run(*words, "--json")
    assert (code, err) == (0, "")
    fields = json.loads(out)
    assert fields["epsilon"] == epsilon_for(1.0, 4, reports=2, metric="euclidean")
    assert fields["epsilon_of_all_reports"] == pytest.approx(math.log(4))
    assert (fields["outputs"], fields["period"], fields["unit"]) == (6, "week", None)
    code, out, _ = run(*words)
    assert out.startswith("Somebody 1 away would send the same 2 reports of a week at least a quarter as often.\n")
    assert out.splitlines()[-1] == f"Next: {fields['command']}"
    code, out, err = run(*shlex.split(fields["command"])[1:], "--json")
    assert code == 0, err
    solved = json.loads(out)
    assert (solved["epsilon"], solved["eta"], solved["outputs"]) == (fields["epsilon"], fields["eta"], 6)
    assert fields["distance_at_least"] <= solved["loss"] <= 1.1 * fields["distance_at_most"]


def test_the_next_command_is_quoted_for_a_shell(run, tmp_path):
    (tmp_path / "my places.csv").write_text("lat,lon\n57.70,11.95\n57.701,11.95\n57.702,11.951\n")
    code, out, _ = run("plan", "my places.csv", "--within", "200 m", "--factor", 4)
    assert code == 0
    words = shlex.split(out.splitlines()[-1].removeprefix("Next: "))
    assert words[:5] == ["metricdp", "solve", "my places.csv", "--within", "200 m"]
    assert run(*words[1:])[0] == 0


def test_what_is_planned_is_enough_for_the_reports(run):
    """Printed budgets are rounded up: whoever types one as a limit gets all reports that were planned."""
    code, out, _ = run("plan", "grid:3x4", "--within", 0.2, "--factor", 4, "--reports", "5/day")
    assert code == 0
    line = next(line for line in out.splitlines() if line.startswith("epsilon"))
    assert line == "epsilon  1.3863 per unit of distance; 5 reports spend 6.93148"
    assert 5 * epsilon_for(0.2, 4, reports=5, metric="euclidean") <= 6.93148


def test_solve_takes_units_and_connects(run):
    base = ("solve", "road:gothenburg", "--records", 40, "--loss", "distance", "--json")
    code, out, _ = run(*base, "--within", "0.2km", "--factor", 4, "--eta", "connect")
    fields = json.loads(out)
    assert (code, fields["components"]) == (0, 1)
    assert fields["epsilon"] == epsilon_for("200m", 4)
    code, out, _ = run(*base, "--epsilon", 3, "--eta", "1500m", "--outputs", "random:10")
    assert (json.loads(out)["eta"], json.loads(out)["outputs"]) == (1.5, 10)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--eta", "1"), "give --epsilon, or --within and --factor"),
        (("--eta", "1", "--within", "2"), "give --epsilon, or --within and --factor"),
        (("--eta", "1", "--epsilon", "1", "--factor", "2"), "--epsilon and --factor both say"),
        (("--eta", "1m", "--epsilon", "1"), "has none: give a plain number"),
        (("--eta", "1", "--epsilon", "1", "--outputs", "wide:3"), "spread:K, random:K"),
        (("--eta", "1", "--within", "1", "--factor", "2", "--reports", "x"), "reports must be"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, words, message):
    code, out, err = run("solve", "grid:2x2", *words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
