"""Records that look like people's data are told, public lists are not."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

import metricdp as mdp
from metricdp.data.people import column_names, publication_warning, repetition_warning

SPREAD = np.column_stack((np.linspace(57.0, 58.0, 40), np.linspace(11.0, 12.0, 40)))


def test_what_is_shipped_is_public():
    shipped = (mdp.data.road("gothenburg"), mdp.data.grid(20, 25), mdp.data.words(), mdp.data.gaussian(2000, seed=0))
    assert [publication_warning(records, columns=["osmid", "lat", "lon", "weight"]) for records in shipped] == [
        None
    ] * 4


@pytest.mark.parametrize(
    "name",
    [
        "user",
        "UserId",
        "user_id",
        "persons",
        "Device_ID",
        "name",
        "firstName",
        "last_names",
        "phone",
        "e-mail",
        "Email",
        "time",
        "Times",
        "timestamp",
        "datetime",
        "date",
        "visit_dates",
        "IMEI",
        "customerEmail",
    ],
)
def test_telling_columns(name):
    warning = publication_warning(mdp.Records(SPREAD), columns=["lat", name, "lon"])
    assert f"a column named {name!r}" in warning
    assert "can be read in the mechanism's file" in warning
    assert "Use a public list" in warning


@pytest.mark.parametrize("name", ["id", "osmid", "lat", "weight", "street_name", "update", "personal?", "x1", "kind"])
def test_other_columns(name):
    assert publication_warning(mdp.Records(SPREAD), columns=[name]) is None


def test_counts():
    twice = mdp.Records(np.vstack((SPREAD, SPREAD[:2])))
    assert "42 records at 40 distinct places" in publication_warning(twice)
    assert publication_warning(mdp.Records(np.vstack((SPREAD, SPREAD[:1])))) is None  # once may happen
    near = mdp.Records(np.vstack((SPREAD, SPREAD[:10] + 1e-6)))
    assert "10 of 50 records within some 10 m of another one" in publication_warning(near)
    assert publication_warning(mdp.Records(near.coordinates, kind="vectors")) is None  # of no known unit
    many = np.random.default_rng(0).normal(size=(50, 3))
    many[:, 0] = 1.0
    assert publication_warning(mdp.Records(many, kind="vectors")) is None


def test_telling_ids():
    mails = mdp.Records(SPREAD[:2], ids=["ana@example.org", "ben@example.org"])
    assert "2 ids are mail addresses or times" in publication_warning(mails)
    assert publication_warning(mdp.Records(SPREAD[:2], ids=["4412345678", "p.o. box @home"])) is None


def test_the_columns_of_files(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbfuser, lat,lon\n1,2,3\n")
    (tmp_path / "b.CSV.gz").write_bytes(gzip.compress(b"when,lat,lon\n1,2,3\n"))
    features = [{"geometry": None, "properties": {"phone": 1, "n": {"a": 2}}}]
    collection = {"crs": {"properties": {"name": "CRS84"}}, "features": features}
    (tmp_path / "c.geojson").write_text(json.dumps(collection))
    (tmp_path / "d.json").write_text('{"features": [{"properties": {"cut')
    (tmp_path / "e.txt").write_text("user 1 2\n")
    found = [column_names(tmp_path / name) for name in ("a.csv", "b.CSV.gz", "c.geojson", "d.json", "e.txt", "no.csv")]
    assert found == [["user", "lat", "lon"], ["when", "lat", "lon"], ["phone", "n"], [], [], []]


def test_rows_that_occur_again_and_again():
    assert repetition_warning(SPREAD) is None
    assert "80 records at 40 distinct places" in repetition_warning(np.vstack((SPREAD, SPREAD)))
    with pytest.warns(UserWarning, match="fit takes a public list"):
        mdp.MetricPrivacy(epsilon=1.0, time_limit=None, gap=0.5).fit([[0.0], [0.0], [0.0], [1.0], [1.0]])


def test_the_command_line_says_so(run, tmp_path):
    rows = "".join(f"u{row},{57.7 + 0.01 * (row % 3)},11.97\n" for row in range(9))
    (tmp_path / "trips.csv").write_text("user,lat,lon\n" + rows)
    words = ["solve", "trips.csv", "--epsilon", 1, "--eta", 2, "-o", "trips.mdp"]
    code, text, complaint = run(*words)
    assert code == 0
    assert "WARNING: 'trips' looks like data about people" in complaint
    assert "WARNING" not in text
    code, text, _ = run(*words, "--json")
    (warning,) = json.loads(text)["warnings"]
    assert "a column named 'user'; 9 records at 3 distinct places" in warning
    code, text, complaint = run("report", "trips.mdp", "--against", "none", "--json")
    assert code == 0
    assert "WARNING: 'trips' looks like data about people" in complaint
    (warning,) = json.loads(text)["warnings"]
    assert "9 records at 3 distinct places" in warning
    code, text, complaint = run("solve", "grid:2x2", "--epsilon", 1, "--json", "-o", "g.mdp")
    assert json.loads(text)["warnings"] == []
    assert "WARNING" not in complaint


def test_a_plan_says_so(run, tmp_path):
    rows = "".join(f"u{row},{57.7 + 0.01 * (row % 3)},11.97\n" for row in range(9))
    (tmp_path / "trips.csv").write_text("user,lat,lon\n" + rows)
    words = ["plan", "trips.csv", "--within", "200m", "--factor", 4]
    assert "WARNING: 'trips' looks like data about people" in run(*words)[2]
    (warning,) = json.loads(run(*words, "--json")[1])["warnings"]
    assert "a column named 'user'; 9 records at 3 distinct places" in warning


def test_nothing_written_is_said(run):
    code, text, complaint = run("solve", "grid:2x2", "--epsilon", 1, "--json")
    assert (code, json.loads(text)["file"]) == (0, None)
    assert "the mechanism was not written: name a file with -o FILE.mdp to keep it" in complaint
    assert "not written" not in run("solve", "grid:2x2", "--epsilon", 1, "-o", "g.mdp")[2]
