"""What a region's mechanism costs at places, beside others: `at_places` and the command."""

from __future__ import annotations

import json

import numpy as np
import pytest

import metricdp as mdp
from metricdp.cli import main
from metricdp.data import Records
from metricdp.errors import InputError
from metricdp.evaluate import at_places

EPSILON = 4.0


@pytest.fixture(scope="module")
def result():
    region = mdp.data.region(41.887, 12.475, 41.8966, 12.4885, spacing=0.25 / EPSILON)
    return mdp.solve_plane(mdp.PlaneProblem(region, epsilon=EPSILON), bound=False)


def test_the_loss_is_that_of_the_solver_at_the_same_places(result):
    found = at_places(result.mechanism)
    assert found.mechanism.loss == pytest.approx(result.loss, rel=1e-9)
    points = found.problem.records.coordinates
    np.testing.assert_allclose(found.mechanism.probabilities, result.mechanism.probabilities_at(points), atol=1e-9)
    assert found.mechanism.certificate.privacy.certified
    assert "all alike" in found.loss_source


def test_places_with_a_prior_of_their_own(result):
    places = Records(np.array([[41.89, 12.48], [41.8912, 12.4801], [41.895, 12.487]]), prior=[3.0, 2.0, 1.0])
    found = at_places(result.mechanism, places)
    shares = result.mechanism.probabilities_at(places.coordinates)
    away = np.array(
        [mdp.data.geodesy.haversine_km(p, result.mechanism.outputs.coordinates) for p in places.coordinates]
    )
    assert found.mechanism.loss == pytest.approx(float(places.prior @ (shares * away).sum(axis=1)), rel=1e-6)


def test_places_outside_or_of_another_kind_are_refused(result):
    with pytest.raises(InputError, match="1 of 2 places are outside"):
        at_places(result.mechanism, Records(np.array([[41.89, 12.48], [42.0, 12.48]])))
    with pytest.raises(InputError, match="must be places with two coordinates"):
        at_places(result.mechanism, Records(np.array([[41.89, 12.48], [41.891, 12.48]]), kind="vectors"))


def evaluated(monkeypatch, capsys, *arguments, code=0):
    monkeypatch.setattr("sys.argv", ["metricdp", "evaluate", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert (stop.value.code or 0) == code
    return capsys.readouterr()


def test_the_command_compares_with_what_protects_points_today(result, tmp_path, monkeypatch, capsys):
    file = tmp_path / "region.mdp"
    result.mechanism.save(file)
    found = json.loads(evaluated(monkeypatch, capsys, file, "--json").out)
    rows = {row["name"]: row for row in found["comparison"]}
    assert set(rows) >= {"exponential", "planar-laplace-snapped", "planar-laplace-remapped"}
    assert found["loss"] == pytest.approx(result.loss, rel=1e-9)
    ours = rows["this mechanism"]["loss"]
    assert ours < rows["planar-laplace-remapped"]["loss"] < rows["planar-laplace-snapped"]["loss"]
    assert ours < 0.8 * rows["exponential"]["loss"]
    assert found["domain"] == "plane"
    assert found["cells"] == list(result.mechanism.region.cells)
    assert 0.0 < found["adversary"]["error"] <= ours * 1.000001
    told = evaluated(monkeypatch, capsys, file, "--against", "none").out
    assert "all points of the region" in told
    assert "all alike" in told


def test_the_command_takes_a_prior_and_refuses_what_regions_have_not(result, tmp_path, monkeypatch, capsys):
    file, prior = tmp_path / "region.mdp", tmp_path / "prior.csv"
    result.mechanism.save(file)
    prior.write_text("lat,lon,weight\n41.89,12.48,5\n41.891,12.481,1\n", encoding="utf-8")
    found = json.loads(evaluated(monkeypatch, capsys, file, "--prior", prior, "--against", "none", "--json").out)
    assert found["records"] == 2
    assert "--trajectory is not for regions" in evaluated(monkeypatch, capsys, file, "--trajectory", 3, code=2).err
    city = tmp_path / "city.mdp"
    mdp.exponential(mdp.Problem(mdp.data.road("gothenburg", n=9), epsilon=1.0, eta=20.0)).save(city)
    assert "--prior is for regions" in evaluated(monkeypatch, capsys, city, "--prior", prior, code=2).err
