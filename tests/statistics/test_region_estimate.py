"""Estimates from the reports of a region: the population, smoothed by the weights of the nodes."""

from __future__ import annotations

import json

import numpy as np
import pytest

import metricdp as mdp
from metricdp.cli import main
from metricdp.data import read_records
from metricdp.errors import InputError

LOW, HIGH = (41.880, 12.460), (41.8975, 12.484)


@pytest.fixture(scope="module")
def mechanism():
    region = mdp.data.region(*LOW, *HIGH, spacing=0.25)
    return mdp.solve_plane(mdp.PlaneProblem(region, epsilon=5.0), max_steps=400, bound=False).mechanism


@pytest.fixture(scope="module")
def people():
    """Most are in the south-west, at no centre of a cell; the rest anywhere."""
    rng = np.random.default_rng(5)
    near = np.array([41.8831, 12.4642]) + rng.normal(0, 0.0008, (7000, 2))
    return np.vstack((np.clip(near, LOW, HIGH), rng.uniform(LOW, HIGH, (3000, 2))))


def smoothed(mechanism, people):
    """The share of each node: each person counts by the weights at their point."""
    rows, weights = mechanism.region.weights_at(people)
    found = np.zeros(mechanism.records.n)
    np.add.at(found, rows, weights)
    return found / len(people)


def names_of(mechanism, outputs):
    names = mechanism.outputs.ids(mechanism.records)
    return [names[k] for k in outputs]


def test_intervals_hold_the_smoothed_population(mechanism, people):
    truth = smoothed(mechanism, people)
    found = mdp.estimate(mechanism, names_of(mechanism, mechanism.perturb(people)))
    assert found.is_converged
    inner = mechanism.region.shape
    rows = np.arange(mechanism.records.n).reshape(inner)
    quarters = {"south-west": rows[: inner[0] // 2, : inner[1] // 2], "north": rows[inner[0] // 2 :]}
    for name, part in quarters.items():
        interval = found.interval(part.ravel())
        share = truth[part.ravel()].sum()
        assert interval.low <= share <= interval.high, name
        assert interval.high - interval.low < 0.35
        assert interval.estimate == pytest.approx(share, abs=0.05)
    assert "smoothed" in found.assumption


def test_the_estimate_is_a_prior_over_the_cells(mechanism, people):
    found = mdp.estimate(mechanism, names_of(mechanism, mechanism.perturb(people[:2000])))
    prior = found.as_prior()
    assert prior.n == mechanism.region.inner.size
    assert prior.prior.sum() == pytest.approx(1.0)
    again = mdp.PlaneProblem(mechanism.region, epsilon=1.0, places=prior)  # no place of it is outside
    assert again.places.n == prior.n


def test_the_share_of_a_node_is_within_its_limits_and_so_is_the_truth(mechanism, people):
    truth, ids = smoothed(mechanism, people), mechanism.records.ids
    found = mdp.estimate(mechanism, names_of(mechanism, mechanism.perturb(people)))
    largest = int(truth.argmax())
    for node in (largest, ids.index("r1c1"), ids.index("r8c8")):
        share, interval = found.share(ids[node]), found.interval(ids[node])
        assert 0.0 <= interval.low <= share <= interval.high <= 1.0, ids[node]
        assert interval.low <= truth[node] <= interval.high, ids[node]


def test_a_node_that_is_none_is_refused(mechanism):
    found = mdp.estimate(mechanism, names_of(mechanism, [0, 1, 2]))
    with pytest.raises(InputError, match="is not a node"):
        found.share("r99c99")


def test_the_command_estimates_and_writes_a_prior(mechanism, people, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    mechanism.save("m.mdp")
    lines = "".join(f"{name}\n" for name in names_of(mechanism, mechanism.perturb(people[:3000])))
    (tmp_path / "reports.csv").write_text("report\n" + lines, encoding="utf-8")
    box = "41.88,12.46 41.88,12.472 41.888,12.472 41.888,12.46"
    arguments = ["estimate", "m.mdp", "--input", "reports.csv", "--polygon", box, "--prior", "prior.csv", "--json"]
    monkeypatch.setattr("sys.argv", ["metricdp", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    printed = json.loads(capsys.readouterr().out)
    assert printed["reports"] == 3000
    assert printed["questions"][box]["low"] > 0.3
    assert "smoothed" in printed["assumption"]
    assert read_records(tmp_path / "prior.csv").prior.max() > 0.02
