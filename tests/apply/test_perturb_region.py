"""Regions from the command line: solve, verify, perturb."""

from __future__ import annotations

import csv
import json
import sys

import numpy as np
import pytest

import metricdp as mdp
from metricdp.apply.region_files import perturb_region_file
from metricdp.cli import main
from metricdp.errors import InputError

BOX = "41.88,12.46,41.889,12.472"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("region") / "rome.mdp"
    region = mdp.data.region(41.88, 12.46, 41.889, 12.472, spacing=0.3, margin=0.2)
    mdp.solve_plane(mdp.PlaneProblem(region, epsilon=1.0), max_steps=50, bound=False).mechanism.save(path)
    return path


@pytest.fixture
def points(tmp_path):
    path = tmp_path / "gps.csv"
    path.write_text("who,lat,lon\n" + "".join(f"p{i},{41.8801 + i * 1e-5:.6f},12.4651\n" for i in range(50)))
    return path


@pytest.fixture
def command(monkeypatch, capsys):
    def run(*words):
        monkeypatch.setattr(sys, "argv", ["metricdp", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        printed = capsys.readouterr()
        return stop.value.code or 0, printed.out, printed.err

    return run


def test_a_region_is_solved_verified_and_used(command, points, tmp_path):
    made = tmp_path / "made.mdp"
    code, out, _ = command(
        "solve", f"region:{BOX}", "--epsilon", 1, "--spacing", 0.3, "--margin", 0.7, "--gap", 0.2, "-o", made, "--json"
    )
    fields = json.loads(out)
    assert code == 0
    assert fields["certified"]
    assert 0 < fields["lower_bound"] <= fields["loss"]
    code, out, _ = command("verify", made)
    assert code == 0
    assert "any two points of the region" in out
    code, out, _ = command("verify", made, "--json", "--require", "epsilon<=1")
    assert code == 0
    assert json.loads(out)["domain"] == "plane"
    code, _, err = command("verify", made, "--require", "epsilon<=0.5")
    assert code == 1
    assert "NOT AS REQUIRED" in err
    code, _, err = command("audit", made, "--pipeline", "builtin:points")
    assert code == 2
    assert "is the mechanism of a region, not of records" in err
    reports = tmp_path / "reports.csv"
    code, out, _ = command("perturb", made, "--input", points, "--output", reports, "--keep", "who")
    assert code == 0
    assert "50 reports" in out
    with reports.open() as lines:
        rows = list(csv.DictReader(lines))
    assert [row["who"] for row in rows] == [f"p{i}" for i in range(50)]
    region = mdp.load_plane(made).region
    assert region.low[0] - region.outer_low[0] == pytest.approx(0.7 / 111.195, rel=1e-4)
    nodes = mdp.load_plane(made).outputs.coordinates.tolist()
    assert all([float(row["lat"]), float(row["lon"])] in nodes for row in rows)


def test_outputs_and_prior_are_files_of_places(command, points, tmp_path):
    made = tmp_path / "made.mdp"
    words = (
        "--epsilon",
        1,
        "--spacing",
        0.5,
        "--prior",
        points,
        "--outputs",
        points,
        "--gap",
        0.9,
        "-o",
        made,
        "--json",
    )
    code, out, _ = command("solve", f"region:{BOX}", *words)
    assert code == 0
    assert json.loads(out)["outputs"] == 50


def test_a_polygon_and_named_outputs_on_the_command_line(command, points, tmp_path):
    ring = [[12.46, 41.88], [12.484, 41.88], [12.46, 41.898], [12.46, 41.88]]
    polygon, stops, made = tmp_path / "area.geojson", tmp_path / "stops.csv", tmp_path / "made.mdp"
    polygon.write_text(json.dumps({"type": "Polygon", "coordinates": [ring]}))
    stops.write_text("id,lat,lon\n00184,41.885,12.465\n00185,41.884,12.475\n")
    words = ("--epsilon", 1, "--spacing", 0.3, "--outputs", stops, "-o", made, "--json")
    code, _, err = command("solve", f"region:{polygon}", *words)
    assert code == 0, err
    mechanism = mdp.load_plane(made)
    assert (mechanism.region.low, mechanism.region.high) == ((41.88, 12.46), (41.898, 12.484))
    assert mechanism.outputs.names == ("00184", "00185")
    reports = tmp_path / "reports.csv"
    code, _, err = command("perturb", made, "--input", points, "--output", reports)
    assert code == 0, err
    with reports.open() as lines:
        assert {row["report"] for row in csv.DictReader(lines)} == {"00184", "00185"}


def test_geojson_goes_in_and_out(file, tmp_path):
    source, target = tmp_path / "in.geojson", tmp_path / "out.geojson"
    features = [
        {"type": "Feature", "properties": {}, "geometry": {"type": "Point", "coordinates": [12.465, 41.885]}}
        for _ in range(5)
    ]
    source.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    summary = perturb_region_file(mdp.load_plane(file), source, target)
    assert summary.reports == len(json.loads(target.read_text())["features"]) == 5


def test_points_outside_are_refused_and_nothing_is_written(file, tmp_path, command):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("lat,lon\n41.885,12.465\n41.8895,12.465\n")
    mechanism = mdp.load_plane(file)
    with pytest.raises(InputError, match="outside the region") as refusal:
        perturb_region_file(mechanism, source, target)
    assert "41.8895" not in str(refusal.value)
    assert not target.exists()
    code, _, err = command("perturb", file, "--input", source, "--output", target)
    assert (code, target.exists()) == (2, False)
    assert len(err.strip().splitlines()) == 1
    code, _, _ = command("perturb", file, "--input", source, "--output", target, "--outside", "border")
    assert (code, target.exists()) == (0, True)
    source.write_text("lat,lon\n41.885,12.465\n44.0,12.465\n")
    with pytest.raises(InputError, match="larger margin"):
        perturb_region_file(mechanism, source, tmp_path / "far.csv", outside="border")
    assert not (tmp_path / "far.csv").exists()


def test_kept_columns_with_the_truth_are_refused(file, tmp_path):
    source = tmp_path / "in.csv"
    lines = [f"{41.88 + v:.6f},12.465,{41.88 + v:.6f}" for v in np.linspace(0.001, 0.008, 40)]
    source.write_text("lat,lon,copy\n" + "\n".join(lines) + "\n")
    with pytest.raises(InputError, match="holds the true record"):
        perturb_region_file(mdp.load_plane(file), source, tmp_path / "out.csv", keep=("copy",))
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("solve", "region:1,2,3", "--epsilon", 1), "not a region"),
        (("solve", "region:1_0,1,1_1,2", "--epsilon", 1), "not a region"),
        (("solve", "region:١,٢,٣,٤", "--epsilon", 1), "not a region"),
        (("solve", "region:1,2,0,3", "--epsilon", 1), "low < high"),
        (("solve", f"region:{BOX}"), "--epsilon"),
        (("solve", f"region:{BOX}", "--epsilon", 1, "--eta", 1), "--eta is not for regions"),
        (("solve", f"region:{BOX}", "--epsilon", 1, "--checkpoint", "kept"), "--checkpoint is not for regions"),
        (("solve", f"region:{BOX}", "--epsilon", 1, "--resume"), "--resume is not for regions"),
        (("solve", f"region:{BOX}", "--epsilon", 1, "--gap", -0.1), "gap must be at least 0"),
        (("solve", f"region:{BOX}", "--epsilon", 1, "--memory-limit", 0.01), "lattice"),
        (("solve", "grid:2x2", "--epsilon", 1, "--spacing", 1), "--spacing is for regions"),
        (("solve", "grid:2x2", "--epsilon", 1, "--margin", 1), "--margin is for regions"),
        (("solve", "grid:2x2", "--epsilon", 1, "--weights", "triangles"), "--weights is for regions"),
        (
            ("solve", f"region:{BOX}", "--epsilon", 1, "--weights", "x"),
            "--weights must be splines or triangles, got 'x'",
        ),
        (("solve", f"region:{BOX}", "--epsilon", 1, "--margin", -1), "--margin must be positive, got '-1'"),
        (("solve", f"region:{BOX}", "--epsilon", 1, "--prior", "nowhere.csv"), "--prior must be"),
    ],
)
def test_wrong_words_are_refused_in_one_line(command, words, text):
    code, out, err = command(*words)
    assert code == 2
    assert not out
    assert text in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("some-id",), "for the points of a region"),
        (("--input", "IN", "--output", "OUT", "--snap-limit", 1), "--snap-limit is not for regions"),
        (("--input", "IN", "--output", "OUT", "--person", "who"), "go together"),
        (("-", "--memory", "m.db"), "--memory is not for regions"),
        (("-", "--fast-snap"), "--fast-snap is not for regions"),
        (("--input", "IN", "--output", "OUT", "--far", "drop"), "--far is not for regions"),
        (("--input", "IN", "--output", "OUT", "--snap-distances", "d.csv"), "--snap-distances is not for regions"),
        (("--input", "IN", "--output", "OUT", "--allow-unprotected"), "--allow-unprotected is not for regions"),
        (("--input", "IN", "--output", "OUT", "--outside", "drop"), "choose refuse or border"),
    ],
)
def test_wrong_uses_of_a_region_are_refused(file, command, points, tmp_path, words, text):
    words = [{"IN": points, "OUT": tmp_path / "out.csv"}.get(word, word) for word in words]
    code, _, err = command("perturb", file, *words)
    assert code == 2
    assert text in err
    assert not (tmp_path / "out.csv").exists()


def test_triangles_from_the_command_line(command, points, tmp_path):
    """Solved with a gap that says why it is not reached; verified, applied, evaluated; a page there is none."""
    made, out_file = tmp_path / "triangles.mdp", tmp_path / "out.csv"
    words = ("solve", f"region:{BOX}", "--spacing", 0.3, "--epsilon", 1, "--weights", "triangles", "-o", made)
    code, out, err = command(*words)
    assert code == 1
    assert "triangles as weights" in out
    assert "the gap 0.01 to the bound for any mechanism was not reached" in err
    assert "--weights splines" in err
    assert err.count("as records:") == 2
    code, out, _ = command(*words, "--gap", 0.9, "--json")
    fields = json.loads(out)
    assert (code, fields["status"], fields["weights"]) == (0, "optimal", "triangles")
    assert (fields["method"], fields["class_bound"], fields["certified"]) == ("sides of triangles", 0.0, True)
    assert 0.0 < fields["lower_bound"] < fields["loss"]
    assert command("verify", made)[0] == 0
    assert mdp.load(made).region.weights == "triangles"
    assert command("perturb", made, "--input", points, "--output", out_file)[0] == 0
    assert len(out_file.read_text().splitlines()) == 51
    assert command("evaluate", made)[0] == 0
    code, _, err = command("report", made, "-o", tmp_path / "page.html")
    assert code == 2
    assert "draws regions with bspline2 as weights, and this one has triangles" in err
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("name", ["export", "audit"])
def test_commands_for_records_refuse_regions(file, command, tmp_path, name):
    more = {
        "export": ("-o", tmp_path / "x.mdp"),
        "audit": ("--pipeline", "true"),
    }[name]
    code, _, err = command(name, file, *more)
    assert code == 2
    assert "mechanism of a region" in err
    assert len(err.strip().splitlines()) == 1


def test_an_ordinary_mechanism_has_no_outside(command, tmp_path, points):
    made = tmp_path / "grid.mdp"
    mdp.exponential(mdp.Problem(mdp.data.grid(2, 2), epsilon=1.0, eta=1.5)).save(made)
    code, _, err = command("perturb", made, "--input", points, "--output", tmp_path / "o.csv", "--outside", "border")
    assert code == 2
    assert "--outside is for mechanisms of regions" in err


def test_the_status_is_honest_when_time_ended_it(command, tmp_path):
    """With next to no time the gap is not reached: exit code 1, the status says so, the file is certified."""
    made = tmp_path / "made.mdp"
    words = ("--epsilon", 2, "--spacing", 0.1, "--gap", 0.0, "--time-limit", 1, "-o", made)
    code, out, err = command("solve", f"region:{BOX}", *words, "--json")
    fields = json.loads(out)
    assert code == 1
    assert fields["status"] == "limit"
    assert fields["class_gap"] > 0.0
    assert 0 <= fields["lower_bound"] <= fields["loss"]
    assert "nodes x" in err  # progress
    code, _, _ = command("verify", made)
    assert code == 0
    code, _, err = command("solve", f"region:{BOX}", *words)
    assert code == 1
    assert "the gap 0 to the bound of this lattice was not reached" in err


@pytest.mark.parametrize("margin", ["0", "0.0", "0km"])
def test_no_margin_can_be_written_in_any_way(command, margin, tmp_path):
    words = ("--epsilon", 1, "--spacing", "400m", "--margin", margin, "--gap", 0.5)
    code, out, err = command("solve", f"region:{BOX}", *words, "-o", "none.mdp")
    assert code == 0, err
    assert "points outside are refused; that they were is visible" in out
