"""A prior over destinations: the paper's p_dest in the travel loss."""

from __future__ import annotations

import numpy as np
import pytest

import metricdp as mdp
from metricdp.errors import InputError

ROWS = [3, 11, 20]
WEIGHTS = [0.5, 0.0, 1.5]


@pytest.fixture(scope="module")
def city():
    return mdp.data.road("gothenburg", n=30, seed=0)


def problem(city, **options):
    return mdp.Problem(city, epsilon=5.0, eta="connect", outputs=8, **options)


def test_losses_are_means_by_the_weights(city):
    each = [problem(city, destinations=[row]).loss for row in ROWS]
    found = problem(city, destinations=ROWS, destination_prior=WEIGHTS)
    np.testing.assert_allclose(found.loss, 0.25 * each[0] + 0.75 * each[2], rtol=1e-12)
    assert found.loss_name == "travel to weighted destinations"


def test_equal_weights_are_no_weights(city):
    np.testing.assert_allclose(
        problem(city, destinations=ROWS, destination_prior=[7, 7, 7]).loss,
        problem(city, destinations=ROWS).loss,
        rtol=1e-12,
    )


def test_one_weight_for_each_record(city):
    weights = np.zeros(city.n)
    weights[ROWS] = WEIGHTS
    np.testing.assert_allclose(
        problem(city, destination_prior=weights).loss,
        problem(city, destinations=ROWS, destination_prior=WEIGHTS).loss,
        rtol=1e-12,
    )


def test_a_file_keeps_the_weighted_losses(city, tmp_path):
    weights = np.arange(city.n) + 1.0
    mechanism = mdp.solve(problem(city, destination_prior=weights), gap=0.05).mechanism
    mechanism.save(tmp_path / "city.mdp")
    kept = mdp.load(tmp_path / "city.mdp").losses
    np.testing.assert_allclose(kept.whole(), problem(city, destination_prior=weights).loss, rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"destination_prior": [1.0, 2.0]}, "one weight for each of 30"),
        ({"destinations": ROWS, "destination_prior": [1, -1, 1]}, "not negative"),
        ({"destinations": ROWS, "destination_prior": [0, 0, 0]}, "positive somewhere"),
        ({"destinations": ROWS, "destination_prior": [1, np.nan, 1]}, "finite"),
        ({"destinations": ROWS, "destination_prior": ["a", 1, 1]}, "numbers"),
        ({"destinations": 3, "destination_prior": [1, 1, 1]}, "not drawn"),
        ({"loss": "distance", "destination_prior": [1.0] * 30}, "for the loss travel"),
    ],
)
def test_what_is_no_prior_is_refused(city, options, message):
    with pytest.raises(InputError, match=message):
        problem(city, **options)


def test_the_command_takes_a_file_of_weights(run, tmp_path):
    (tmp_path / "go.csv").write_text("\n".join(["1"] * 20) + "\n")
    words = ("solve", "road:gothenburg", "--records", 20, "--outputs", 5, "--epsilon", 5, "--eta", "connect")
    code, text, _ = run(*words, "--destination-prior", "go.csv")
    assert code == 0
    assert "loss: travel to weighted destinations" in text
