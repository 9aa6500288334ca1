"""Files of places and of ids: snapped within the limit or not written, and only the reports come out."""

from __future__ import annotations

import csv
import functools
import gzip
import io
import json
import os
import stat
import threading
import tracemalloc

import pytest
from rich.console import Console

import metricdp as mdp
from metricdp.apply import batches, perturb_file
from metricdp.cli import counting
from metricdp.data.readers import streams, tables


@pytest.fixture(scope="module")
def city():
    """Three places about a kilometre apart, each its own report."""
    records = mdp.Records([[57.70, 11.97], [57.71, 11.97], [57.72, 11.97]], ids=["a", "b", "c"])
    return mdp.exponential(mdp.Problem(records, epsilon=200.0, eta=1.5, outputs=3, loss="distance"))


@pytest.fixture(scope="module")
def grid():
    return mdp.exponential(mdp.Problem(mdp.data.grid(4, 4), epsilon=60.0, eta=1.5, outputs=16))


@pytest.fixture
def perturb(run, city):
    """Run `metricdp perturb city.mdp`."""
    city.save("city.mdp")
    return functools.partial(run, "perturb", "city.mdp")


PLACES = "name,Lat,lon,id\nAna,57.7001,11.97,u1\nBen,57.7202,11.97,u2\nCleo,57.71,11.97,u3\n"


def rows_of(path):
    return list(csv.reader(io.StringIO(path.read_bytes().decode(), newline="")))


def test_places_are_snapped_and_only_reports_are_written(perturb, tmp_path):
    (tmp_path / "in.csv").write_text(PLACES)
    words = ["--input", "in.csv", "--output", "out.csv", "--snap-limit", 0.1]
    code, text, _ = perturb(*words)
    assert code == 0
    assert rows_of(tmp_path / "out.csv") == [
        ["report", "lat", "lon"],
        ["a", "57.7", "11.97"],
        ["c", "57.72", "11.97"],
        ["b", "57.71", "11.97"],
    ]
    assert "3 reports written to out.csv" in text
    assert "if all are of one person, together 600" in text
    assert f"up to {0.0222390:.3g}" in text
    code, text, _ = perturb(*words, "--json", "--keep", "name", "--keep", "id")
    answer = json.loads(text)
    assert answer["largest_snap_distance"] == pytest.approx(0.022239, rel=1e-3)
    assert (answer["reports"], answer["dropped"], answer["budget"]) == (3, 0, 600.0)
    assert rows_of(tmp_path / "out.csv")[1] == ["a", "57.7", "11.97", "Ana", "u1"]


def test_places_beyond_the_limit_are_refused_or_dropped(perturb, tmp_path):
    (tmp_path / "in.csv").write_text(PLACES + "Dan,57.9,11.97,u4\n")
    words = ["--input", "in.csv", "--output", "out.csv", "--snap-limit", 0.1, "--snap-distances", "secret.csv"]
    code, text, complaint = perturb(*words)
    assert (code, text) == (2, "")
    assert "1 of 4 places are farther than 0.1 km from every record (the first is in row 4)" in complaint
    assert complaint.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["city.mdp", "in.csv"]
    code, text, _ = perturb(*words, "--far", "drop", "--keep", "name")
    assert code == 0
    assert "1 beyond the limit were dropped" in text
    assert [row[-1] for row in rows_of(tmp_path / "out.csv")] == ["name", "Ana", "Ben", "Cleo"]
    notes = rows_of(tmp_path / "secret.csv")
    assert notes[0] == ["row", "snap_distance", "is_reported"]
    assert [row[::2] for row in notes[1:]] == [["1", "yes"], ["2", "yes"], ["3", "yes"], ["4", "no"]]
    assert [float(row[1]) for row in notes[1:]] == pytest.approx([0.01112, 0.02224, 0.0, 20.015], rel=1e-3)
    assert stat.S_IMODE((tmp_path / "secret.csv").stat().st_mode) == 0o600


def test_unprotected_records_are_refused_or_counted(run, tmp_path):
    records = mdp.Records([[57.70, 11.97], [57.71, 11.97], [58.5, 11.0]])
    mdp.exponential(mdp.Problem(records, epsilon=200.0, eta=1.5, outputs=3, loss="distance")).save("lonely.mdp")
    (tmp_path / "in.csv").write_text("lat,lon\n58.5,11\n57.7,11.97\n")
    words = ["perturb", "lonely.mdp", "--input", "in.csv", "--output", "out.csv", "--snap-limit", 1]
    code, _, complaint = run(*words)
    assert code == 2
    assert "1 of 3 records have no neighbour" in complaint
    assert not (tmp_path / "out.csv").exists()
    code, _, complaint = run(*words, "--allow-unprotected")
    assert code == 0
    assert "NOT PROTECTED: 1 reports are of records without any neighbour within 1.5 km (haversine)" in complaint
    assert "2 components" in complaint


def feature(longitude, latitude, **properties):
    place = {"type": "Point", "coordinates": [longitude, latitude]}
    return {"type": "Feature", "geometry": place, "properties": properties}


def test_geojson_in_and_out(perturb, tmp_path):
    collection = {
        "type": "FeatureCollection",
        "crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}},
        "total": 12345,
        "features": [feature(11.97, 57.7001, who='Ana {["', n=1), feature(11.97, 57.71, who="Bén", n=None)],
        "note": {"a": [1, 2]},
    }
    for data in (json.dumps(collection).encode(), gzip.compress(json.dumps(collection, indent=2).encode())):
        (tmp_path / "in.geojson").write_bytes(data)
        words = ["--input", "in.geojson", "--snap-limit", 0.1, "--keep", "who", "--keep", "n"]
        assert perturb(*words, "--output", "out.geojson")[0] == 0
        answer = json.loads((tmp_path / "out.geojson").read_text())
        assert answer == {
            "type": "FeatureCollection",
            "features": [
                feature(11.97, 57.7, report="a", who='Ana {["', n=1),
                feature(11.97, 57.71, report="b", who="Bén", n=None),
            ],
        }
    assert perturb(*words, "--output", "out.csv")[0] == 0
    assert rows_of(tmp_path / "out.csv")[1:] == [
        ["a", "57.7", "11.97", 'Ana {["', "1"],
        ["b", "57.71", "11.97", "Bén", ""],
    ]


def test_geojson_features_by_their_ids(perturb, tmp_path):
    features = [{**feature(0, 0), "id": "c"}, feature(0, 0, id=" b ")]
    (tmp_path / "in.json").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    assert perturb("--input", "in.json", "--output", "out.csv")[0] == 0
    assert [row[0] for row in rows_of(tmp_path / "out.csv")] == ["report", "c", "b"]
    assert perturb("--input", "in.json", "--output", "out.csv", "--keep", "id")[0] == 2


@pytest.mark.parametrize("size", [1, 5, 64])
def test_geojson_in_small_pieces(city, tmp_path, monkeypatch, size):
    monkeypatch.setattr(streams, "BYTES_AT_ONCE", size)
    features = [feature(11.97, 57.70 + 0.01 * (row % 3), n=row) for row in range(9)]
    document = {"n": 123, "features": features, "end": 456}
    (tmp_path / "in.geojson").write_text(json.dumps(document, indent=1))
    perturb_file(city, tmp_path / "in.geojson", tmp_path / "out.csv", snap_limit=0.1, keep=["n"])
    rows = rows_of(tmp_path / "out.csv")[1:]
    assert [row[0] for row in rows] == ["a", "b", "c"] * 3
    assert [row[-1] for row in rows] == list(map(str, range(9)))


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("[1, 2]", "FeatureCollection of Points was expected"),
        ("{}", "no list of features"),
        ('{"features": []}', "no features"),
        ('{"features": {}}', "a list of features was expected"),
        ('{"features": [{"geometry": null}]}', "feature 0 has the geometry None"),
        ('{"features": [{"geometry": {"type": "LineString"}}]}', "has the geometry LineString"),
        ('{"features": [{"geometry": {"type": "Point", "coordinates": [1]}}]}', "longitude, latitude"),
        ('{"features": [{"geometry": {"type": "Point", "coordinates": [1, NaN]}}]}', "finite"),
        ('{"features": [{"geometry": {"type": "Point", "coordinates": [11, 95]}}]}', "latitude from -90"),
        ('{"features": [{"geometry": {"type": "Point", "coordinates": [11, 57]}}', "is not GeoJSON"),
        ('{"features": [{"geometry": {"type": "Point", "coordinates": [11, 57]}}]} x', "text after the collection"),
        ('{"features": [{"geometry": {"type": "Po', "is not GeoJSON"),
        ('{"crs": {"properties": {"name": "EPSG:3857"}}, "features": []}', "EPSG:3857"),
        ('{"features": [' + '{"geometry": {"type": "Point", "coordinates": [11, 57]}}], "features": []}', "two lists"),
        ("[" * 5000, "FeatureCollection"),
        ('{"a": ' + "[" * 200_000, "is not GeoJSON"),
    ],
)
def test_bad_geojson(perturb, tmp_path, content, part):
    (tmp_path / "in.geojson").write_text(content)
    code, text, complaint = perturb("--input", "in.geojson", "--output", "out.csv", "--snap-limit", 1e5)
    assert (code, text) == (2, "")
    assert part in complaint
    assert complaint.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["city.mdp", "in.geojson"]


@pytest.mark.parametrize(
    ("content", "words", "parts"),
    [
        (PLACES, ["--snap-limit", 0], ["--snap-limit must be positive, got '0'"]),
        (PLACES, ["--snap-limit", "nan"], ["--snap-limit must be a number"]),
        (PLACES, ["--snap-limit", 1, "--far", "keep"], ["unknown policy 'keep'", "refuse or drop"]),
        (PLACES, ["--far", "drop"], ["--snap-limit"]),
        (PLACES, ["--snap-limit", 1, "--keep", "Lat"], ["the kept column Lat would write the true record"]),
        (
            PLACES,
            ["--snap-limit", 1, "--keep", "age"],
            ["no column 'age'; it has 'Lat', 'lon', 'id' and 1 more: name one column"],
        ),
        (PLACES, ["--snap-limit", 1, "--keep", "name", "--keep", "name"], ["more than once"]),
        (PLACES, ["--keep", "id"], ["the kept column id would write the true record"]),
        (PLACES, [], ["line 2, column 'id' is not a record of this mechanism"]),
        ("lat,lon\n1,2\n", [], ["no column id: one is needed", "a snap limit, to use lat and lon"]),
        ("x,y\n1,2\n", ["--snap-limit", 1], ["records are places", "lat, lon"]),
        ("lat,lon\n1,two\n", ["--snap-limit", 1], ["line 2, column 'lon' is not a number"]),
        ("lat,lon\n1,2\n95,2\n", ["--snap-limit", 1], ["latitude from -90 to 90"]),
        ("lat,lon\n", ["--snap-limit", 1], ["a header but no rows"]),
        ("\n\n", ["--snap-limit", 1], ["empty"]),
        ("report,lat,lon\n1,2,3\n", ["--snap-limit", 1, "--keep", "report"], ["name of a column of the reports"]),
        (PLACES, ["--snap-limit", 1, "--snap-distances", "in.csv"], ["both name"]),
        (PLACES, ["--snap-limit", 1, "--snap-distances", "out.csv"], ["both name"]),
        ("lat,lon\n11.97,57.7\n11.97,57.71\n", ["--snap-limit", 1], ["all of them are: check the order of the coord"]),
    ],
)
def test_bad_rows_and_options(perturb, tmp_path, content, words, parts):
    (tmp_path / "in.csv").write_text(content)
    code, text, complaint = perturb("--input", "in.csv", "--output", "out.csv", *words)
    assert (code, text) == (2, "")
    assert all(part in complaint for part in parts), complaint
    assert complaint.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["city.mdp", "in.csv"]


def test_distances_have_units(perturb, tmp_path):
    (tmp_path / "in.csv").write_text(PLACES)
    words = ["--input", "in.csv", "--output", "out.csv"]
    assert perturb(*words, "--snap-limit", "100m")[1] == perturb(*words, "--snap-limit", 0.1)[1]
    assert "farther than 0.01 km" in perturb(*words, "--snap-limit", "10m")[2]


@pytest.mark.parametrize("name", ["out.parquet", "out.jsonl", "out.geojsonl.gz"])
def test_names_of_streams_are_refused(perturb, tmp_path, name):
    """A table in text under such a name would be read by nothing."""
    (tmp_path / "in.csv").write_text(PLACES)
    code, _, complaint = perturb("--input", "in.csv", "--output", name, "--snap-limit", 0.1)
    assert code == 2
    assert "which only streams have: use metricdp perturb FILE.mdp - --to" in complaint
    (tmp_path / name).write_text("")
    assert "which only streams have" in perturb("--input", name, "--output", "out.csv", "--snap-limit", 0.1)[2]


def test_vectors(grid, tmp_path):
    (tmp_path / "in.csv").write_text("x,y\n0.6,0.5\n3.5,3.3\n")
    summary = perturb_file(grid, tmp_path / "in.csv", tmp_path / "out.csv", snap_limit=0.5)
    assert summary.largest_snap_distance == pytest.approx(0.2)
    assert rows_of(tmp_path / "out.csv")[1:] == [["r00c00", "0.5", "0.5"], ["r03c03", "3.5", "3.5"]]
    (tmp_path / "in.geojson").write_text(json.dumps({"features": [feature(1, 1)]}))
    with pytest.raises(mdp.InputError, match="records are vectors"):
        perturb_file(grid, tmp_path / "in.geojson", tmp_path / "out.csv", snap_limit=0.5)
    with pytest.raises(mdp.InputError, match="outputs are not places"):
        perturb_file(grid, tmp_path / "in.csv", tmp_path / "out.geojson", snap_limit=0.5)


def test_streets_cannot_snap(tmp_path):
    records = mdp.data.road("gothenburg", n=10, seed=0)
    mechanism = mdp.exponential(mdp.Problem(records, epsilon=1.0, eta=1.0, outputs=5, metric="street"))
    (tmp_path / "in.csv").write_text("lat,lon\n57.7,11.97\n")
    with pytest.raises(mdp.InputError, match="cannot be snapped by the metric 'street'"):
        perturb_file(mechanism, tmp_path / "in.csv", tmp_path / "out.csv", snap_limit=1.0)


@pytest.mark.parametrize("suffix", ["csv", "geojson"])
def test_memory_does_not_grow_with_the_file(city, tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(streams, "BYTES_AT_ONCE", 1 << 12)
    for module in (batches, tables):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", 64)
    source, target = tmp_path / f"in.{suffix}", tmp_path / f"out.{suffix}"
    peaks, seen = [], []
    for n_rows in (400, 4_000):
        if suffix == "csv":
            source.write_text("lat,lon\n" + "57.7001,11.97\n" * n_rows)
        else:
            source.write_text(json.dumps({"features": [feature(11.97, 57.7001)] * n_rows}))
        tracemalloc.start()
        summary = perturb_file(
            city, source, target, snap_limit=1.0, progress=lambda text, n: seen.append((text.fraction, n))
        )
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert summary.reports == n_rows
    assert peaks[1] < 1.5 * peaks[0]
    assert seen[-1] == (1.0, 4_000)


def test_a_failure_while_writing_leaves_the_old_file(city, tmp_path):
    (tmp_path / "in.csv").write_text(PLACES)
    (tmp_path / "out.csv").write_text("old")

    def interrupt(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        perturb_file(city, tmp_path / "in.csv", tmp_path / "out.csv", snap_limit=0.1, progress=interrupt)
    assert (tmp_path / "out.csv").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "out.csv"]


def test_a_disk_that_takes_no_more_is_one_line(city, tmp_path):
    resource = pytest.importorskip("resource")
    (tmp_path / "in.csv").write_text("lat,lon\n" + "57.7,11.97\n" * 5000)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(mdp.InputError, match="cannot write .*out.csv: File too large"):
            perturb_file(city, tmp_path / "in.csv", tmp_path / "out.csv", snap_limit=0.1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress(city, tmp_path, monkeypatch, is_terminal):
    monkeypatch.setattr(counting, "SECONDS_BETWEEN_LINES", 0.0)
    (tmp_path / "in.csv").write_text(PLACES)
    console = Console(file=io.StringIO(), force_terminal=is_terminal, width=100)
    with counting.Counting(console, "rows") as progress:
        perturb_file(city, tmp_path / "in.csv", tmp_path / "out.csv", snap_limit=0.1, progress=progress)
    assert "100.0 %  3 rows" in console.file.getvalue()


def test_a_pipe_has_no_length(city, tmp_path):
    """What is read from a pipe is perturbed as well; how far it has come cannot be said."""
    os.mkfifo(tmp_path / "pipe")
    seen = []
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=(PLACES,))
    writer.start()
    options = {"snap_limit": 0.1, "progress": lambda text, n: seen.append((text.fraction, n))}
    summary = perturb_file(city, tmp_path / "pipe", tmp_path / "out.csv", **options)
    writer.join()
    assert summary.reports == 3
    assert seen == [(None, 3)]


def test_outputs_named_gz_are_packed(perturb, run, tmp_path):
    """The same reports as in plain files; what a gzip file can say beside them (a name, a time) it does not."""
    (tmp_path / "in.v1.csv").write_text(PLACES)
    words = ["--input", "in.v1.csv", "--snap-limit", 0.1, "--output"]
    for name in ("reports.2024.csv", "reports.v1.geojson"):
        assert perturb(*words, name)[0] == 0
        assert perturb(*words, f"{name}.gz", "--snap-distances", "secret.csv.gz")[0] == 0
        packed = (tmp_path / f"{name}.gz").read_bytes()
        assert packed[:8] == b"\x1f\x8b\x08" + bytes(5)
        assert gzip.decompress(packed) == (tmp_path / name).read_bytes()
        assert stat.S_IMODE((tmp_path / f"{name}.gz").stat().st_mode) == 0o600
        code, text, _ = run("estimate", "city.mdp", "--input", f"{name}.gz", "--output", "shares.csv.gz", "--json")
        assert (code, json.loads(text)["reports"]) == (0, 3)
        assert gzip.decompress((tmp_path / "shares.csv.gz").read_bytes()).count(b"\n") == 4
    assert gzip.decompress((tmp_path / "secret.csv.gz").read_bytes()).startswith(b"row,snap_distance")
    assert perturb(*words, "reports.gz.csv")[0] == 0
    assert len(rows_of(tmp_path / "reports.gz.csv")) == 4


def test_a_failure_while_packing_leaves_nothing(perturb, tmp_path):
    (tmp_path / "in.csv").write_text(PLACES)
    assert perturb("--input", "in.csv", "--output", "out.csv.gz", "--snap-limit", 1e-9)[0] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["city.mdp", "in.csv"]
