"""True records stay out of messages, of reprs, of kept columns, and of other people's reach."""

from __future__ import annotations

import contextlib
import csv
import functools
import json
import os
import signal
import stat
import subprocess
import sys
import time

import numpy as np
import pytest

import metricdp as mdp
from metricdp.apply import perturb_column, perturb_file, perturb_frame, perturb_text
from metricdp.apply.batches import Batch
from metricdp.apply.snapping import draw_points
from metricdp.budget.memoized import memoize
from metricdp.cli import main
from metricdp.data.readers.features import Feature
from metricdp.errors import show_values

SECRET = "57.7001"  # noqa: S105  in every input below


@pytest.fixture(scope="module")
def city():
    """Three places about a kilometre apart and one far away, each its own report."""
    records = mdp.Records([[57.70, 11.97], [57.71, 11.97], [57.72, 11.97]], ids=["a", "b", "c"])
    return mdp.exponential(mdp.Problem(records, epsilon=200.0, eta=1.5, outputs=3, loss="distance"))


@pytest.fixture
def perturb(run, city):
    city.save("city.mdp")
    return functools.partial(run, "perturb", "city.mdp")


def messages(error):
    """Everything that a log may write of an exception: the messages and arguments of all that led to it."""
    found = []
    while error is not None:
        found += [str(error), repr(error), repr(vars(error))]
        error = error.__cause__ or error.__context__
    return "\n".join(found)


@pytest.mark.parametrize(
    ("name", "content", "options", "part"),
    [
        ("in.csv", f"id\na\n{SECRET}\n", {}, "line 3, column 'id'"),
        ("in.csv", f"lat,lon\n57.7,11\n{SECRET}N,11\n", {"snap_limit": 1.0}, "line 3, column 'lat'"),
        ("in.csv", f"{SECRET},11.97\n57.71,11.97\n", {"snap_limit": 1.0}, "the first line"),
        ("in.csv", f"{SECRET},11.97\n57.71,11.97\n", {}, "the first line"),
        ("in.json", json.dumps({"features": [{"id": SECRET}]}), {}, "feature 0"),
        ("in.json", json.dumps({"features": [{"geometry": {"type": SECRET}}]}), {"snap_limit": 1.0}, "feature 0"),
        ("in.json", '{"features": [{"id": "' + SECRET + "\n", {}, "is not GeoJSON"),
    ],
)
def test_messages_name_the_place_and_not_the_value(city, tmp_path, name, content, options, part):
    (tmp_path / name).write_text(content)
    with pytest.raises(mdp.InputError, match=part) as caught:
        perturb_file(city, tmp_path / name, tmp_path / "out.csv", **options)
    assert SECRET not in messages(caught.value)
    with pytest.raises(mdp.InputError, match=part) as caught, show_values():
        perturb_file(city, tmp_path / name, tmp_path / "out.csv", **options)
    assert (SECRET in messages(caught.value)) == ("not GeoJSON" not in part)


def test_a_line_that_is_no_text_shows_no_byte(city, tmp_path):
    (tmp_path / "in.csv").write_bytes(b"id\na\n\xe9cole\n")
    with pytest.raises(mdp.InputError, match="line 3 is not UTF-8 text") as caught:
        perturb_file(city, tmp_path / "in.csv", tmp_path / "out.csv")
    assert "0xe9" not in messages(caught.value)
    with pytest.raises(mdp.InputError, match="line 3 .'byte 0xe9'. is not UTF-8"), show_values():
        perturb_file(city, tmp_path / "in.csv", tmp_path / "out.csv")


def test_messages_of_the_library(city, tmp_path):
    import pandas as pd

    ledger = mdp.Ledger(tmp_path / "budget.db", limit=1000.0)
    memory = memoize(city, tmp_path / "answers.db")
    fitted = mdp.MetricPrivacy(mechanism=city).fit(city.records.coordinates)
    frame = pd.DataFrame({"lat": [SECRET + "N"], "lon": [11.97]})
    calls = [
        lambda: city.perturb(SECRET),
        lambda: city.perturb(["a", SECRET]),
        lambda: city.perturb_points([[SECRET + "N", "11.97"]], limit=1.0),
        lambda: ledger.perturb(city, "Ana", SECRET),
        lambda: memory.perturb("Ana", SECRET),
        lambda: perturb_column(city, pd.Series([SECRET])),
        lambda: perturb_frame(city, frame, snap_limit=1.0),
        lambda: fitted.transform([[SECRET + "N", "11.97"]]),
    ]
    for call in calls:
        with pytest.raises(mdp.InputError) as caught:
            call()
        # what led to scikit-learn's own error is beyond reach
        assert SECRET not in (str(caught.value) if call is calls[-1] else messages(caught.value))
    with pytest.raises(mdp.InputError, match="id 2 of 2 is not a record"):
        calls[1]()
    with pytest.raises(mdp.InputError, match=f"id 2 of 2 .'{SECRET}'. is not a record"), show_values():
        calls[1]()


def test_messages_of_the_command_line(perturb, tmp_path, monkeypatch):
    (tmp_path / "in.csv").write_text(f"id\n{SECRET}\n")
    files = ["--input", "in.csv", "--output", "out.csv"]
    for words in ([SECRET], ["a", SECRET], [f"-{SECRET}"], [f"--{SECRET}"], files):
        code, text, complaint = perturb(*words)
        assert (code, text) == (2, "")
        assert complaint.count("\n") == 1
        assert SECRET not in complaint
        assert SECRET not in perturb("--json", *words)[1]
    assert "write -- before the ids" in perturb(f"-{SECRET}")[2]
    assert "--snap-limt" in perturb("--snap-limt", "0.1", *files)[2]  # an option that is nearly one
    for words in ([SECRET], files):
        code, _, complaint = perturb("--show-values", *words)
        assert code == 2
        assert SECRET in complaint

    def fail(*_, **__):
        raise KeyError(SECRET)

    monkeypatch.setattr(mdp.Mechanism, "perturb", fail)
    assert SECRET not in perturb("a")[2]
    assert SECRET in perturb("--show-values", "a")[2]


def test_no_repr_shows_the_secret(city, tmp_path):
    (tmp_path / "in.csv").write_text(f"lat,lon\n{SECRET},11.97\n")
    (tmp_path / "in.txt").write_text("zebra, a\n")
    points = [[float(SECRET), 11.97]]
    reports = city.perturb_points(points, limit=1.0)
    distance = float(reports.snap_distances[0])
    file_summary = perturb_file(city, tmp_path / "in.csv", tmp_path / "out.csv", snap_limit=1.0)
    text_summary = perturb_text(city, tmp_path / "in.txt", tmp_path / "out.txt", unknown="drop")
    shown = [
        repr(reports),
        repr(draw_points(city, points, limit=1.0)),
        repr(file_summary),
        repr(text_summary),
        repr(Batch(np.array([2]), np.array(points), [(SECRET,)])),
        repr(Feature({"id": SECRET}, "in.json, feature 0")),
        repr(memoize(city, tmp_path / "answers.db")),
    ]
    assert shown[:5] == [
        "SnappedReports(1 reports)",
        "DrawnPoints(1 reports)",
        "FileSummary(1 reports)",
        "TextSummary(1 words)",
        "Batch(1 rows)",
    ]
    for secret in (SECRET, f"{distance:.3f}"):
        assert not any(secret in text for text in shown)
    assert file_summary.largest_snap_distance == distance  # it is there for whoever asks


ROWS = 12
RNG = np.random.default_rng(0)
LATITUDES = np.round(57.70 + 0.02 * RNG.random(ROWS), 7)
LONGITUDES = np.round(11.96 + 0.02 * RNG.random(ROWS), 7)
PAIRS = list(zip(LATITUDES.tolist(), LONGITUDES.tolist(), strict=True))
COPIES = {
    "the same text": [repr(a) for a, _ in PAIRS],
    "nearly the same number": [f" {a + 1e-7:.9f}" for a, _ in PAIRS],
    "rounded": [f"{a:.3f}" for a, _ in PAIRS],
    "longitude": [repr(b) for _, b in PAIRS],
    "both": [f"{a},{b}" for a, b in PAIRS],
    "the other way round": [f"({b}; {a})" for a, b in PAIRS],
    "WKT": [f"POINT ({b} {a})" for a, b in PAIRS],
    "millionths": [str(round(1e7 * a)) for a, _ in PAIRS],
    "half of them": [repr(a) if row % 2 else "home" for row, (a, _) in enumerate(PAIRS)],
    "where it is known": [repr(a) if row % 4 == 0 else "" for row, (a, _) in enumerate(PAIRS)],
}
HARMLESS = {
    "numbers of rows": list(map(str, range(ROWS))),
    "ages": [str(50 + row % 15) for row in range(ROWS)],
    "of others": [repr(a) for a, _ in [*PAIRS[3:], *PAIRS[:3]]],
    "days": [f"2024-01-{row + 1:02d} 11:57" for row in range(ROWS)],
    "yes and no": [str(row % 2) for row in range(ROWS)],
    "nothing": [""] * ROWS,
}


def write_places(path, kept):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["lat", "lon", "kept"])
        writer.writerows([*pair, value] for pair, value in zip(PAIRS, kept, strict=True))


@pytest.mark.parametrize("kind", COPIES)
def test_copies_of_the_place_are_not_kept(city, tmp_path, kind):
    import pandas as pd

    write_places(tmp_path / "in.csv", COPIES[kind])
    with pytest.raises(mdp.InputError, match="the kept column 'kept' holds the true record under another name"):
        perturb_file(city, tmp_path / "in.csv", tmp_path / "out.csv", snap_limit=2.0, keep=["kept"])
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]
    frame = pd.DataFrame({"lat": LATITUDES, "lon": LONGITUDES, "kept": COPIES[kind]})
    with pytest.raises(mdp.InputError, match="'kept' holds the true record"):
        perturb_frame(city, frame, snap_limit=2.0, keep=["kept"])
    with pytest.raises(mdp.InputError, match="'kept' holds the true record"):
        perturb_frame(city, frame.set_index("kept"), snap_limit=2.0, keep_index=True)


@pytest.mark.parametrize("kind", HARMLESS)
def test_other_columns_are_kept(city, tmp_path, kind):
    write_places(tmp_path / "in.csv", HARMLESS[kind])
    perturb_file(city, tmp_path / "in.csv", tmp_path / "out.csv", snap_limit=2.0, keep=["kept"])
    with (tmp_path / "out.csv").open(newline="") as file:
        assert [row[-1] for row in csv.reader(file)][1:] == HARMLESS[kind]


def test_copies_of_ids_are_not_kept(tmp_path):
    grid = mdp.exponential(mdp.Problem(mdp.data.grid(4, 4), epsilon=60.0, eta=1.5, outputs=16))
    ids = list(grid.records.ids)
    copies = {
        "again": ids,
        "case": [f" {name.upper()} " for name in ids],
        "inside": [f"home:{name}" for name in ids],
        "place": [f"{x},{y}" for x, y in grid.records.coordinates.tolist()],
    }
    others = {"who": [f"person {row}" for row in range(16)], "next": [*ids[1:], ids[0]]}
    columns = {"id": ids, **copies, **others}
    with (tmp_path / "in.csv").open("w", newline="") as file:
        csv.writer(file).writerows([list(columns), *zip(*columns.values(), strict=True)])
    for name in copies:
        with pytest.raises(mdp.InputError, match=f"the kept column '{name}' holds the true record"):
            perturb_file(grid, tmp_path / "in.csv", tmp_path / "out.csv", keep=["who", name])
    assert perturb_file(grid, tmp_path / "in.csv", tmp_path / "out.csv", keep=list(others)).reports == 16
    # ids that are numbers, and a file of a single row
    numbered = mdp.exponential(mdp.Problem(mdp.data.gaussian(20, seed=0), epsilon=1.0, eta=9.0, outputs=5))
    (tmp_path / "one.csv").write_text("id,home\n7,7.0\n")
    with pytest.raises(mdp.InputError, match="'home' holds the true record"):
        perturb_file(numbered, tmp_path / "one.csv", tmp_path / "out.csv", keep=["home"])


def test_projected_copies_of_a_geometry_are_not_kept(city):
    import geopandas

    places = geopandas.GeoDataFrame(geometry=geopandas.points_from_xy(LONGITUDES, LATITUDES), crs="EPSG:4326")
    places = places.to_crs("EPSG:3006")
    places["northing"], places["wkt"], places["shape"] = places.geometry.y.round(1), places.geometry.to_wkt(), "x"
    places["other geometry"] = places.geometry
    for name in ("northing", "wkt", "other geometry"):
        with pytest.raises(mdp.InputError, match=f"'{name}' holds the true record"):
            perturb_frame(city, places, snap_limit=2.0, keep=[name])
    assert "shape" in perturb_frame(city, places, snap_limit=2.0, keep=["shape"]).columns


def test_frames_lose_their_index_and_attributes(city):
    import geopandas
    import pandas as pd

    frame = pd.DataFrame({"lat": [57.7001, 57.7199], "lon": 11.97, "who": ["Ana", "Ben"]}, index=["a", "c"])
    frame.attrs["source"] = SECRET
    geo = geopandas.GeoDataFrame(frame, geometry=geopandas.points_from_xy(frame["lon"], frame["lat"]))
    for given in (frame, geo):
        answer = perturb_frame(city, given, snap_limit=0.5, keep=["who"])
        assert isinstance(answer.index, pd.RangeIndex)
        assert answer.attrs == {}
        assert answer["who"].tolist() == ["Ana", "Ben"]
        with pytest.raises(mdp.InputError, match="'index' holds the true record"):
            perturb_frame(city, given, snap_limit=0.5, keep_index=True)
        kept = perturb_frame(city, given.set_index("who"), snap_limit=0.5, keep_index=True)
        assert list(kept.index) == ["Ana", "Ben"]
    with pytest.raises(mdp.InputError, match="the index is named 'lat' like the true records"):
        perturb_frame(city, frame.rename_axis("lat"), snap_limit=0.5, keep_index=True)
    column = pd.Series(["a", "c"], index=["a", "c"], name="home")
    for answer in (city.perturb(column), perturb_column(city, column)):
        assert isinstance(answer.index, pd.RangeIndex)
        assert answer.name == "home"
    with pytest.raises(mdp.InputError, match="'index' holds the true record"):
        perturb_column(city, column, keep_index=True)
    levels = column.set_axis(pd.MultiIndex.from_tuples([("x", "57.70"), ("y", "57.72")], names=["k", "where"]))
    with pytest.raises(mdp.InputError, match="'where' holds the true record"):
        perturb_column(city, levels, keep_index=True)


def test_scikit_learn_puts_no_secret_index_on_reports(city):
    import pandas as pd

    frame = pd.DataFrame({"lat": [57.7001, 57.7199], "lon": 11.97})
    privacy = mdp.MetricPrivacy(mechanism=city).fit(frame)
    secret = frame.set_index(frame["lat"].rename("where"))
    assert privacy.transform(secret).shape == (2, 2)  # an array has no index
    privacy.set_output(transform="pandas")
    with pytest.raises(mdp.InputError, match="'where' holds the true record"):
        privacy.transform(secret)
    assert list(privacy.transform(frame.set_index(pd.Index(["Ana", "Ben"]))).index) == ["Ana", "Ben"]


def test_values_of_dropped_rows_do_not_stay_as_categories(city):
    import pandas as pd

    who = pd.Categorical(["Ana", "Ben"])
    frame = pd.DataFrame({"lat": [57.7, 59.0], "lon": 11.97, "who": who})
    answer = perturb_frame(city, frame, snap_limit=0.5, far="drop", keep=["who"])
    assert answer["who"].cat.categories.tolist() == ["Ana"]


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_written_is_for_its_owner_only(city, tmp_path):
    (tmp_path / "in.csv").write_text("lat,lon\n57.7,11.97\n")
    (tmp_path / "in.txt").write_text("a b\n")
    seen = []

    def look(*_):
        seen.extend(mode(path) for path in tmp_path.glob(".metricdp-*.tmp"))

    perturb_file(city, tmp_path / "in.csv", tmp_path / "out.csv", snap_limit=1.0, progress=look)
    perturb_text(city, tmp_path / "in.txt", tmp_path / "out.txt", progress=look)
    assert [mode(tmp_path / name) for name in ("out.csv", "out.txt")] == [0o600, 0o600]
    for name in ("out.csv", "out.txt", "far.csv"):
        (tmp_path / name).write_text("for everyone")
        (tmp_path / name).chmod(0o666)
    more = {"snap_limit": 1.0, "snap_distances": tmp_path / "far.csv", "progress": look}
    perturb_file(city, tmp_path / "in.csv", tmp_path / "out.csv", **more)
    perturb_text(city, tmp_path / "in.txt", tmp_path / "out.txt", progress=look)
    assert [mode(tmp_path / name) for name in ("out.csv", "out.txt", "far.csv")] == [0o600] * 3
    assert "everyone" not in (tmp_path / "out.csv").read_text()
    assert seen == [0o600] * 5
    memoize(city, tmp_path / "answers.db").perturb("Ana", "a")
    assert mode(tmp_path / "answers.db") == 0o600


def test_cells_are_no_formulas(tmp_path):
    ids = ["=1+1", "+x", "-", "@sum", "'=y", "-0.5", "plain", "\tz"]
    records = mdp.Records(np.arange(8.0)[:, None], ids=ids, kind="vectors")
    line = mdp.exponential(mdp.Problem(records, epsilon=60.0, eta=1.0, outputs=8))
    kept = ["=cmd()", "-1", "+3", "@a", "-1e5", "- b", "\rc", "'d"]
    with (tmp_path / "in.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id", "=head"], *zip(ids, kept, strict=True)])
    perturb_file(line, tmp_path / "in.csv", tmp_path / "out.csv", keep=["=head"])
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["report", "x1", "'=head"]
    assert [row[0] for row in rows[1:]] == ["'=1+1", "'+x", "'-", "'@sum", "''=y", "-0.5", "plain", "'\tz"]
    assert [row[2] for row in rows[1:]] == ["'=cmd()", "-1", "+3", "'@a", "-1e5", "'- b", "'\rc", "'d"]
    # reports are read again as the ids they are
    with (tmp_path / "in.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["id"], *([row[0]] for row in rows[1:])])
    perturb_file(line, tmp_path / "in.csv", tmp_path / "again.csv")
    with (tmp_path / "again.csv").open(newline="") as file:
        assert [row[:2] for row in csv.reader(file)] == [row[:2] for row in rows]


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_standard_output_is_a_stream(city, tmp_path, monkeypatch, capfd, name):
    monkeypatch.chdir(tmp_path)
    city.save("city.mdp")
    (tmp_path / "in.csv").write_text("lat,lon\n57.7,11.97\n")
    words = ["metricdp", "perturb", "city.mdp", "--input", "in.csv", "--snap-limit", "1", "--output", name]
    for more, code, start in (([], 0, "report,lat,lon\r\n"), (["--json"], 2, '{"status": "error"')):
        monkeypatch.setattr(sys, "argv", words + more)
        with pytest.raises(SystemExit) as stop:
            main()
        assert (stop.value.code or 0) == code
        text, complaint = capfd.readouterr()
        assert text.startswith(start)
        assert ("1 reports written to /dev/stdout" in complaint) == (not code)
        assert ("both write to standard output" in complaint) == bool(code)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["city.mdp", "in.csv"]


def test_a_redirected_file_is_appended_to_and_not_replaced(city, tmp_path):
    (tmp_path / "in.csv").write_text("lat,lon\n57.7001,11.97\n")
    place = tmp_path / "existing"
    place.write_text("before\n")
    number = place.stat().st_ino
    with place.open("a") as stream:
        perturb_file(city, tmp_path / "in.csv", f"/dev/fd/{stream.fileno()}", snap_limit=1.0)
        with pytest.raises(mdp.InputError, match="farther"):  # and nothing if it fails
            perturb_file(city, tmp_path / "in.csv", f"/dev/fd/{stream.fileno()}", snap_limit=1e-9, far="refuse")
        perturb_text(city, tmp_path / "in.csv", f"/dev/fd/{stream.fileno()}", unknown="drop")
    assert place.read_bytes().startswith(b"before\nreport,lat,lon\r\na,57.7,11.97\r\n")
    assert place.stat().st_ino == number


def test_a_killed_process_leaves_nothing_behind_for_long(perturb, tmp_path):
    """Its temporary file is for its owner only, stays while it lives, and is removed at the next start."""
    assert perturb("a")[0] == 0  # writes city.mdp
    os.mkfifo(tmp_path / "pipe")
    words = [sys.executable, "-m", "metricdp", "perturb", "city.mdp", "--input", "pipe", "--output", "never.csv"]
    process = subprocess.Popen(words, cwd=tmp_path)
    (tmp_path / "in.csv").write_text("id\na\n")
    again = ["--input", "in.csv", "--output", "out.csv"]
    left = []
    try:
        with (tmp_path / "pipe").open("w") as pipe:
            pipe.write("id\n" + "a\n" * 100_000)
            pipe.flush()
            deadline = time.monotonic() + 60
            while not left and time.monotonic() < deadline:
                left = [path for path in tmp_path.glob(".metricdp-*.tmp") if path.stat().st_size]
                time.sleep(0.05)
            assert perturb(*again)[0] == 0
            assert left[0].exists()  # in use
            process.send_signal(signal.SIGKILL)
            process.wait()
            with contextlib.suppress(BrokenPipeError):
                pipe.flush()
    finally:
        process.kill()
        process.wait()
    assert [mode(path) for path in left] == [0o600]
    assert left[0].exists()
    assert perturb(*again)[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["city.mdp", "in.csv", "out.csv", "pipe"]
