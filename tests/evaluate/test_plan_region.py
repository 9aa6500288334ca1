"""What a promise means for a region: `mdp.plan` and the command."""

from __future__ import annotations

import json
import math
import shlex

import numpy as np
import pytest

import metricdp as mdp
from metricdp.cli import main
from metricdp.evaluate import lattice
from metricdp.evaluate.lattice import lattice_around, usual_spacing, with_spacing

BOX = 41.887, 12.475, 41.896, 12.487


@pytest.fixture(scope="module")
def box():
    return mdp.data.region(*BOX, spacing=0.15)


def said(monkeypatch, capsys, command, code=0):
    monkeypatch.setattr("sys.argv", ["metricdp", *shlex.split(command)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert (stop.value.code or 0) == code
    return capsys.readouterr()


def test_the_plan_has_the_budget_of_the_words(box):
    found = mdp.plan(box, within="200m", factor=2, reports="3/day")
    assert found.epsilon == mdp.epsilon_for("200m", 2, reports=3)
    assert found.region is box
    assert found.n_outputs == box.inner.size
    assert found.n_entries == box.shape[0] * box.shape[1] * box.inner.size
    text = str(found)
    assert "3 reports of a day" in text
    assert "any two points of the region" in text
    assert "rough" in text


def test_distances_contain_what_is_reached(box):
    fine = with_spacing(box, 0.085)
    found = mdp.plan(fine, within="200m", factor=2)
    result = mdp.solve_plane(mdp.PlaneProblem(fine, epsilon=found.epsilon), max_steps=800, bound=False)
    assert 0.0 < found.distance_at_least < result.loss
    assert 0.9 * found.distance_at_most < result.loss < 1.05 * found.distance_at_most


def test_memory_is_that_of_a_solve_within_a_factor(box):
    """A table of 55 x 55 nodes and 300 outputs took 0.6 GB."""
    rome = mdp.data.region(41.88, 12.462, 41.907, 12.4983, spacing=0.4 / 7)
    outputs = rome.records.coordinates[rome.inner[:300]]
    found = mdp.plan(rome, within="100m", factor=math.exp(0.7), outputs=outputs)
    assert found.epsilon == pytest.approx(7.0)
    assert not found.are_cells
    assert 0.4e9 < found.n_bytes < 0.9e9


def test_a_lattice_is_coarser_where_the_usual_one_does_not_fit(box):
    assert usual_spacing(box, 4.0) == pytest.approx(0.25 / 4.0)
    large = mdp.data.region(41.80, 12.40, 41.90, 12.55, spacing=0.1)
    assert 0.25 / 4.0 < usual_spacing(large, 4.0) <= 0.5 / 4.0
    finer = with_spacing(box, 0.05)
    assert (finer.outer_low, finer.outer_high) == (box.outer_low, box.outer_high)
    assert finer.cells > box.cells


def test_what_does_not_fit_says_what_to_do():
    found = mdp.plan(mdp.data.region(41.0, 12.0, 42.0, 13.0, spacing=0.1), within="200m", factor=4)
    assert not found.is_feasible
    assert "planar Laplace" in str(found)
    assert "not possible" in str(found)
    assert found.distance_at_most is None


@pytest.mark.parametrize("more", [{"eta": 1.0}, {"metric": "euclidean"}, {"outputs": 5}])
def test_what_means_nothing_for_a_region_is_refused(box, more):
    with pytest.raises(mdp.InputError, match="a region has neither eta"):
        mdp.plan(box, within="200m", factor=2, **more)


def test_the_command_names_the_next_one_and_it_runs(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    source = "region:" + ",".join(map(str, BOX))
    printed = said(monkeypatch, capsys, f"plan {source} --within 400m --factor 2").out
    command = printed.splitlines()[-1].removeprefix("Next: metricdp ")
    found = json.loads(said(monkeypatch, capsys, f"plan {source} --within 400m --factor 2 --json").out)
    assert found["command"] == f"metricdp {command}"
    made = json.loads(said(monkeypatch, capsys, command.replace("FILE", "made") + " --time-limit 5 --json").out)
    assert made["cells"] == found["cells"]
    assert made["epsilon"] == found["epsilon"]


def test_the_command_takes_outputs_and_refuses_what_is_for_records(monkeypatch, capsys, tmp_path):
    source = "region:" + ",".join(map(str, BOX))
    places = tmp_path / "places.csv"
    places.write_text("lat,lon\n41.89,12.48\n41.891,12.481\n", encoding="utf-8")
    found = json.loads(
        said(monkeypatch, capsys, f"plan {source} --within 200m --factor 4 --outputs {places} --json").out
    )
    assert found["outputs"] == 2
    assert np.isclose(found["spacing"] * found["epsilon"], 0.25, rtol=0.2)
    words = said(monkeypatch, capsys, f"plan {source} --within 200m --factor 4 --eta 1", code=2).err
    assert "--eta is not for regions" in words
    words = said(monkeypatch, capsys, "plan road:gothenburg --records 50 --within 200m --factor 4 --spacing 1", code=2)
    assert "--spacing is for regions" in words.err


def test_places_are_told_of_regions(monkeypatch, capsys):
    told = said(monkeypatch, capsys, "plan road:gothenburg --records 50 --within 200m --factor 2").out
    advice = next(line for line in told.splitlines() if line.startswith("take "))
    assert "a lattice around these records fits" in advice
    # the command that it names plans the same lattice
    source = advice.rpartition(": plan ")[2]
    found = json.loads(said(monkeypatch, capsys, f"plan {source} --within 200m --factor 2 --json").out)
    rows, columns = found["cells"]
    assert f"{rows} x {columns} cells" in advice
    assert found["feasible"]


PLACES = mdp.data.road("gothenburg", n=30, seed=0)


def test_advice_is_for_the_records_themselves():
    def told(records, metric, epsilon):
        return lattice_around(records, metric, epsilon, beyond=0.2)

    assert "a lattice around these records fits" in told(PLACES, "haversine", 1.0)
    too_fine = told(PLACES, "haversine", 50.0)
    assert "no lattice around these records fits" in too_fine
    assert "40,000,000 entries" in too_fine
    assert "planar Laplace" in too_fine
    square = mdp.data.grid(4, 4)
    assert "20 x 20 cells of at most 0.17" in told(square, "euclidean", 1.47)
    assert "region_around" in told(square, "euclidean", 1.47)
    one = mdp.Records([[57.7, 11.9]])
    assert "fits" in told(one, "haversine", 4.0)  # a box around one place, as large as the promise


def test_what_has_no_lattice_is_told_nothing_of_regions():
    for records, metric in (
        (mdp.Records([[0.0], [1.0]], kind="vectors"), "euclidean"),
        (mdp.Records(np.eye(3), kind="vectors"), "euclidean"),
        (mdp.data.words(n=20), "euclidean"),
        (mdp.data.grid(3, 3), "matrix"),
        (PLACES, "euclidean"),
    ):
        assert lattice_around(records, metric, 1.0, beyond=0.1) is None
    line = mdp.plan(mdp.Records([[0.0], [1.0]], kind="vectors"), within=1.0, factor=2)
    assert "region" not in str(line)
    assert line.fields()["choice"] is None


def test_no_region_and_no_memory_are_told_apart(monkeypatch):
    wide = mdp.Records([[10.0, 0.0], [10.0, 60.0]])
    assert "30 degrees wide" in lattice_around(wide, "haversine", 1.0, beyond=0.1)
    monkeypatch.setattr(lattice, "available_bytes", lambda: 1e8)
    assert "more than the memory of this machine" in lattice_around(PLACES, "haversine", 1.0, beyond=0.2)


@pytest.mark.parametrize("exponent", [0.5, 1.5])
def test_no_distance_is_promised_that_a_coarse_lattice_cannot_reach(exponent):
    """At 1.5 the upper figure for records was below the bound of the lattice."""
    wide = mdp.data.region(0.0, 0.0, 0.02, 0.02, spacing=exponent / 4.0)
    found = mdp.plan(wide, within="0.25km", factor=math.e)
    assert found.epsilon == pytest.approx(4.0)
    assert found.distance_at_most is None
    assert "only solving tells" in str(found)
    assert found.distance_at_least < mdp.solve_plane(mdp.PlaneProblem(wide, epsilon=4.0), bound=False).class_bound
