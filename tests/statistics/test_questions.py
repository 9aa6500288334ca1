"""Reports are counted, questions are understood, and what would mislead is refused."""

from __future__ import annotations

import json
from collections import ChainMap
from types import MappingProxyType

import numpy as np
import pytest

import metricdp as mdp
from metricdp.errors import InputError
from metricdp.statistics import ReportCounts, by_column, count_file, inside, read_questions
from metricdp.statistics.questions import rows_asked


@pytest.fixture(scope="module")
def mechanism():
    return mdp.exponential(mdp.Problem(mdp.data.grid(3, 4), epsilon=2.0, eta=1.5))


@pytest.fixture(scope="module")
def city():
    return mdp.exponential(mdp.Problem(mdp.data.road("gothenburg", n=30, seed=1), epsilon=2.0, eta=20.0))


def test_reports_are_counted_in_every_form(mechanism, tmp_path):
    ids = list(mechanism.records.ids)
    reports = [ids[k] for k in (0, 5, 5, 11)]
    expected = [1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1]
    assert ReportCounts(mechanism).add(reports).of_outputs.tolist() == expected
    assert ReportCounts(mechanism).add(reports[:1]).add_outputs(np.array([5, 5, 11])).of_outputs.tolist() == expected
    (tmp_path / "r.csv").write_text("report,x1,x2\n" + "".join(f"{name},0,0\n" for name in reports))
    assert count_file(mechanism, tmp_path / "r.csv").of_outputs.tolist() == expected
    for source in (reports, ReportCounts(mechanism).add(reports)):
        assert mdp.estimate(mechanism, source).counts.tolist() == expected


def test_snapped_reports_and_files_of_perturb(city, tmp_path):
    snapped = city.perturb_points(city.records.coordinates, limit=1.0)
    assert mdp.estimate(city, snapped).counts.tolist() == np.bincount(snapped.outputs, minlength=30).tolist()
    (tmp_path / "true.csv").write_text("id\n" + "".join(f"{name}\n" for name in city.records.ids))
    for name in ("reports.csv", "reports.geojson"):
        mdp.apply.perturb_file(city, tmp_path / "true.csv", tmp_path / name)
        assert count_file(city, tmp_path / name).n == 30


def test_names_with_an_apostrophe_for_spreadsheets(tmp_path):
    records = mdp.Records([[0.0], [1.0]], ids=["-home", "=work"], kind="vectors")
    mechanism = mdp.exponential(mdp.Problem(records, epsilon=1.0, eta=2.0))
    (tmp_path / "true.csv").write_text("id\n-home\n=work\n")
    mdp.apply.perturb_file(mechanism, tmp_path / "true.csv", tmp_path / "r.csv")
    assert "'" in (tmp_path / "r.csv").read_text()
    assert count_file(mechanism, tmp_path / "r.csv").n == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x1,x2\n1,2\n", "has no column 'report': name one column"),
        ("report\nnowhere\n", "in .*: report 1 of 1 is not an output"),
        ("report,weight\nr00c00,3\n", "has a column 'weight' of weights"),
        *(
            (f"report,{name}\nr00c00,3\n", f"has a column '{name}' of weights")
            for name in (
                "Count",
                "counts",
                "freq",
                "Frequency",
                "n_reports",
                "N reports",
                "num_reports",
                "multiplicity",
            )
        ),
    ],
)
def test_files_that_are_refused(mechanism, tmp_path, text, message):
    (tmp_path / "r.csv").write_text(text)
    with pytest.raises(InputError, match=message) as error:
        count_file(mechanism, tmp_path / "r.csv")
    assert "nowhere" not in str(error.value)


def test_geojson_that_is_refused(city, tmp_path):
    feature = {"type": "Feature", "geometry": None, "properties": {"person": "Ana"}}
    (tmp_path / "r.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    with pytest.raises(InputError, match="feature 0 has no property 'report'"):
        count_file(city, tmp_path / "r.geojson")
    feature["properties"] = {"report": city.records.ids[0], "weight": 2}
    (tmp_path / "r.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [feature]}))
    with pytest.raises(InputError, match="has a column 'weight' of weights"):
        count_file(city, tmp_path / "r.geojson")


def test_two_reports_of_one_person_are_refused(mechanism, tmp_path):
    with pytest.raises(InputError, match="the person of report 3 of 3 has reported before") as error:
        mdp.estimate(mechanism, ["r00c00"] * 3, persons=["Ana", "Ben", "Ana"])
    assert "Ana" not in str(error.value)
    assert mdp.estimate(mechanism, ["r00c00"] * 3, persons=["Ana", "Ben", "Eve"]).n == 3
    with pytest.raises(InputError, match="there are 3 reports but 2 persons"):
        mdp.estimate(mechanism, ["r00c00"] * 3, persons=["Ana", "Ben"])
    (tmp_path / "r.csv").write_text("report,user\nr00c00,Ana\nr00c01,Ben\nr00c02,Ana\n")
    assert count_file(mechanism, tmp_path / "r.csv").n == 3
    with pytest.raises(InputError, match="has reported before"):
        count_file(mechanism, tmp_path / "r.csv", person="user")
    counts = ReportCounts(mechanism, are_persons_named=True)
    with pytest.raises(InputError, match="give the person of every report"):
        counts.add(["r00c00"])
    with pytest.raises(InputError, match="give the persons when the reports are counted"):
        mdp.estimate(mechanism, ReportCounts(mechanism).add(["r00c00"]), persons=["Ana"])
    # across pieces
    counts.add(["r00c00"], ["Ana"])
    with pytest.raises(InputError, match="has reported before"):
        counts.add(["r00c00"], ["Ana"])


def test_reports_that_are_refused(mechanism, city):
    for reports, message in (
        ([], "there are no reports"),
        ("r00c00", "reports must be a list of output names"),
        (["r00c00", 7], "report 2 of 2 is not an output"),
        (ReportCounts(city), "counts of 30 outputs, but there are 12"),
    ):
        with pytest.raises(InputError, match=message):
            mdp.estimate(mechanism, reports)
    for numbers in ([0.5], [[1, 2]], [12], [-1]):
        with pytest.raises(InputError, match="output numbers must be"):
            ReportCounts(mechanism).add_outputs(numbers)
    for options in ({"max_deficit": 0.0}, {"max_updates": 0}):
        with pytest.raises(InputError, match="must be"):
            mdp.estimate(mechanism, ["r00c00"], **options)


def test_an_output_that_nobody_reports_is_refused():
    problem = mdp.Problem(mdp.data.grid(1, 3), epsilon=1.0, eta=0.5)  # no neighbours: everybody reports themselves
    table = np.zeros((3, 3), dtype=np.uint64)
    table[[0, 1, 2], [0, 1, 1]] = 1 << 63
    mechanism = mdp.Mechanism.of(problem, table)
    with pytest.raises(InputError, match="an output that no record of this mechanism reports"):
        mdp.estimate(mechanism, ["r00c02"])
    assert mdp.estimate(mechanism, ["r00c01", "r00c00"]).distribution.round(3).tolist() == [0.5, 0.25, 0.25]


def test_questions_name_rows_ids_or_a_mask(mechanism):
    assert rows_asked(mechanism, [3, 1, 3]).tolist() == [1, 3]
    assert rows_asked(mechanism, np.array([3, 1])).tolist() == [1, 3]
    assert rows_asked(mechanism, ["r00c03", "r00c01"]).tolist() == [1, 3]
    assert rows_asked(mechanism, "r00c01").tolist() == [1]
    assert rows_asked(mechanism, 2).tolist() == [2]
    assert rows_asked(mechanism, np.arange(12) == 5).tolist() == [5]
    for bad in ([], [12], [-1], [0.5], [True], ["nowhere"], [1, "r00c01"]):
        with pytest.raises(InputError):
            rows_asked(mechanism, bad)


def test_a_column_is_a_question_for_each_value(mechanism):
    found = mdp.estimate(mechanism, mechanism.perturb(list(mechanism.records.ids) * 20))
    column = ["west", "west", "east", "east"] * 3
    intervals = found.intervals(column)
    assert list(intervals) == ["west", "east"]
    assert intervals["west"] == found.interval([0, 1, 4, 5, 8, 9])
    assert found.intervals({"all": range(12)})["all"].high == 1.0
    assert {name: rows.tolist() for name, rows in by_column(np.array([1, 2, 1]), 3).items()} == {"1": [0, 2], "2": [1]}
    with pytest.raises(InputError, match="one value for each of the 12 records, got 2"):
        found.intervals(["west", "east"])


def test_points_in_polygons():
    records = mdp.data.grid(4, 4)
    square = [(0, 0), (0, 3), (3, 3), (3, 0)]
    hole = [(1, 1), (1, 2), (2, 2), (2, 1)]
    assert inside(records, square, hole).tolist() == [0, 1, 2, 4, 6, 8, 9, 10]
    assert inside(records, [(0, 0), (4, 0), (0, 4)]).tolist() == [0, 1, 2, 4, 5, 8]
    for bad in ([(0, 0), (1, 1)], [(0, 0, 0)] * 3, [(0, 0), (1, np.inf), (1, 1)]):
        with pytest.raises(InputError, match="a polygon must be"):
            inside(records, bad)
    with pytest.raises(InputError, match="polygons are for records with two coordinates"):
        inside(mdp.data.gaussian(5, seed=0), square)


def test_districts_of_a_file(city, tmp_path):
    _, lon = city.records.coordinates.T
    middle = float(np.median(lon))
    rings = [[[lon.min() - 1, 57.0], [middle, 57.0], [middle, 58.5], [lon.min() - 1, 58.5], [lon.min() - 1, 57.0]]]
    west = {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": rings}, "properties": {"name": "west"}}
    both = {"type": "Feature", "geometry": {"type": "MultiPolygon", "coordinates": [rings]}, "properties": {}}
    file = tmp_path / "d.geojson"
    file.write_text(json.dumps({"type": "FeatureCollection", "features": [west, both]}))
    found = read_questions(city, file)
    assert list(found) == ["west", "polygon 1"]
    assert found["west"].tolist() == np.flatnonzero(lon < middle).tolist() == found["polygon 1"].tolist()
    point = {"type": "Feature", "geometry": {"type": "Point", "coordinates": [1, 2]}, "properties": {}}
    file.write_text(json.dumps({"type": "FeatureCollection", "features": [point]}))
    with pytest.raises(InputError, match="feature 0 is no Polygon"):
        read_questions(city, file)
    ids = city.records.ids
    table = tmp_path / "d.csv"
    table.write_text(f"id,district,colour\n{ids[0]},a,red\n{ids[1]},b,red\n{ids[2]},a,blue\nelsewhere,c,red\n")
    assert {k: v.tolist() for k, v in read_questions(city, table, column="district").items()} == {"a": [0, 2], "b": [1]}
    with pytest.raises(InputError, match="one column of the districts"):
        read_questions(city, table)
    table.write_text("id,district\nelsewhere,c\n")
    with pytest.raises(InputError, match="names no record of this mechanism"):
        read_questions(city, table)
    with pytest.raises(InputError, match="the records are vectors"):
        read_questions(mdp.exponential(mdp.Problem(mdp.data.grid(2, 2), epsilon=1.0, eta=1.5)), file)


def test_the_command(run, city, tmp_path):
    city.save(tmp_path / "city.mdp")
    ids = list(city.records.ids)
    (tmp_path / "true.csv").write_text("id,user\n" + "".join(f"{ids[k % 5]},u{k}\n" for k in range(2000)))
    assert run("perturb", "city.mdp", "--input", "true.csv", "--output", "reports.csv", "--keep", "user")[0] == 0
    (tmp_path / "d.csv").write_text("id,district\n" + "".join(f"{name},d{k % 2}\n" for k, name in enumerate(ids)))
    outputs = ("-o", "s.csv", "--table", "t.csv", "--plot", "p.png", "--prior", "prior.csv")
    asked = ("--districts", "d.csv", "--ids", f"{ids[0]},{ids[1]}", "--polygon", "57,11 57,13 59,13 59,11")
    code, out, err = run(
        "estimate", "city.mdp", "--input", "reports.csv", "--person", "user", *asked, *outputs, "--json"
    )
    assert code == 0, err
    found = json.loads(out)
    assert found["reports"] == 2000
    assert sum(found["distribution"].values()) == pytest.approx(1.0)
    everybody = found["questions"]["57,11 57,13 59,13 59,11"]
    assert (everybody["n_records"], everybody["high"]) == (30, 1.0)
    assert set(found["questions"]) == {"d0", "d1", f"{ids[0]},{ids[1]}", "57,11 57,13 59,13 59,11"}
    assert "add up" in err
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "t.csv").read_text().count("\n") == 5
    shares = np.loadtxt(tmp_path / "s.csv", delimiter=",", skiprows=1, usecols=3)
    np.testing.assert_allclose(shares, list(found["distribution"].values()))
    assert len(mdp.data.read_matrix(tmp_path / "prior.csv")) == 30
    code, out, err = run("estimate", "city.mdp", "--input", "reports.csv", "--ids", ids[0], "-o", "s.geojson")
    assert code == 0, err
    assert "hold at once with probability 95 %" in out
    assert "assume one report of each person" in out
    assert mdp.data.read_geojson(tmp_path / "s.geojson").n == 30
    assert set(json.loads((tmp_path / "s.geojson").read_text())["features"][0]["properties"]) == {"id", "share"}


def test_limits_of_each_record_where_they_are_asked_for(run, city, tmp_path):
    city.save(tmp_path / "city.mdp")
    reports = city.perturb(list(city.records.ids[:7]) * 300)
    (tmp_path / "r.csv").write_text("report\n" + "".join(f"{report}\n" for report in reports))
    found = mdp.estimate(city, count_file(city, tmp_path / "r.csv"))
    for name in ("each.geojson", "each.csv"):
        code, _, err = run(
            "estimate", "city.mdp", "--input", "r.csv", "--level", "0.9", "--record-intervals", "-o", name
        )
        assert code == 0, err
    features = json.loads((tmp_path / "each.geojson").read_text())["features"]
    table = (tmp_path / "each.csv").read_text().splitlines()
    assert table[0] == "id,lat,lon,share,low,high"
    for row in (0, 12):
        one, told = found.interval(row, 0.9), features[row]["properties"]
        assert (told["low"], told["high"]) == pytest.approx((one.low, one.high))
        assert told["low"] < told["high"]
        assert table[1 + row].endswith(f",{told['share']!r},{told['low']!r},{told['high']!r}")


def test_questions_of_any_mapping(city):
    found = mdp.estimate(city, list(city.records.ids) * 20)
    asked = {"few": [0, 1], "more": city.records.ids[:9]}
    assert found.intervals(MappingProxyType(asked)) == found.intervals(asked)
    assert set(found.intervals(ChainMap(asked, {"all": range(30)}))) == {"few", "more", "all"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "give the reports with --input"),
        (("--input", "r.csv", "--level", "95"), "--level must be between 0 and 1"),
        (("--input", "r.csv", "--record-intervals"), "--record-intervals goes with --output"),
        (("--input", "r.csv", "--column", "x"), "--column goes with --districts"),
        (("--input", "r.csv", "--polygon", "a,b"), "--polygon 'a,b' has a corner"),
        (("--input", "r.csv", "--output", "r.csv"), "both name"),
        (("--input", "r.csv", "-o", "m.geojson"), "a GeoJSON map is for places"),
    ],
)
def test_the_command_refuses(run, mechanism, tmp_path, words, message):
    mechanism.save(tmp_path / "grid.mdp")
    (tmp_path / "r.csv").write_text("report\nr00c00\n")
    code, _, err = run("estimate", "grid.mdp", *words)
    assert code == 2
    assert message in err


def test_plots_of_an_estimate(mechanism):
    from metricdp.report.population import plot_estimate, plot_intervals

    found = mdp.estimate(mechanism, mechanism.perturb(list(mechanism.records.ids) * 5))
    assert "60 reports" in plot_estimate(found).get_title()
    axes = plot_intervals(found.intervals(["a", "b", "c"] * 4))
    assert [label.get_text() for label in axes.get_yticklabels()] != []
    with pytest.raises(InputError, match="nothing to draw"):
        plot_intervals({})
    other = mdp.exponential(mdp.Problem(mdp.data.gaussian(5, seed=0), epsilon=1.0, eta=9.0))
    with pytest.raises(InputError, match="a map needs records with two coordinates"):
        plot_estimate(mdp.estimate(other, other.perturb(list(other.records.ids))))


def test_figures_are_never_cut_off(run, monkeypatch, tmp_path):
    """At 80 columns the question is shortened, not its figures."""
    grid = mdp.data.grid(4, 5)
    mechanism = mdp.exponential(mdp.Problem(grid, epsilon=1.0, eta=1.0))
    mechanism.save("grid.mdp")
    (tmp_path / "r.csv").write_text(
        "report\n" + "".join(f"{name}\n" for name in mechanism.perturb(list(grid.ids) * 20))
    )
    monkeypatch.setattr("metricdp.cli.estimate.out.width", 80)
    code, text, err = run("estimate", "grid.mdp", "--input", "r.csv", "--ids", ",".join(grid.ids), "--ids", grid.ids[0])
    assert code == 0, err
    head = next(line for line in text.splitlines() if "question" in line)
    assert head.split() == ["question", "records", "estimate", "%", "low", "%", "high", "%"]
    row = next(line for line in text.splitlines() if line.startswith(f"{grid.ids[0]},"))
    assert row.split()[1:] == ["20", "100.000", "100.000", "100.000"]
    assert len(row.rstrip()) <= 80
