"""Regions in streams and frames, and what is charged for them."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import metricdp as mdp
from metricdp import evaluate
from metricdp.apply import (
    batched,
    perturb_file,
    perturb_frame,
    perturb_region_file,
    perturb_region_frame,
    perturb_region_stream,
    perturb_stream,
)
from metricdp.budget import BudgetsExceededError, Ledger
from metricdp.errors import InputError
from metricdp.extras import make_measurement
from metricdp.report.explorer import explorer_page

INSIDE = np.array([[41.885, 12.465], [41.886, 12.466], [41.887, 12.467], [41.885, 12.465]])
PERSONS = ["Ana", "Ben", "Ana", "Cleo"]
OUTSIDE = 41.8895  # just beyond the northern border


@pytest.fixture(scope="module")
def mechanism():
    region = mdp.data.region(41.88, 12.46, 41.889, 12.472, spacing=0.3, margin=0.2)
    return mdp.solve_plane(mdp.PlaneProblem(region, epsilon=1.0), max_steps=50, bound=False).mechanism


def stream_of(name, points=INSIDE, persons=PERSONS):
    rows = list(zip(points.tolist(), persons, strict=True))
    if name == "csv":
        return "".join(["lat,lon,who\n", *(f"{a!r},{b!r},{who}\n" for (a, b), who in rows)]).encode()
    if name == "jsonl":
        return "".join(json.dumps({"lat": a, "lon": b, "who": who}) + "\n" for (a, b), who in rows).encode()
    features = [
        {"type": "Feature", "geometry": {"type": "Point", "coordinates": [b, a]}, "properties": {"who": who}}
        for (a, b), who in rows
    ]
    return "".join(f"\x1e{json.dumps(feature)}\n" for feature in features).encode()


def perturbed(mechanism, data, **options):
    target = io.BytesIO()
    summary = perturb_region_stream(mechanism, io.BytesIO(data), target, **options)
    return target.getvalue().decode(), summary


def reports_of(name, text):
    if name == "csv":
        return [(row["report"], row["who"]) for row in csv.DictReader(io.StringIO(text))]
    found = [json.loads(line.lstrip("\x1e")) for line in text.removesuffix("\n").split("\n")]
    members = [one["properties"] if name == "geojsonseq" else one for one in found]
    return [(one["report"], one["who"]) for one in members]


@pytest.mark.parametrize("name", ["csv", "jsonl", "geojsonseq"])
def test_every_format_goes_in_and_out(mechanism, name):
    text, summary = perturbed(mechanism, stream_of(name), keep=("who",))
    reports = reports_of(name, text)
    known = set(mechanism.outputs.ids(mechanism.records))
    assert [who for _, who in reports] == PERSONS
    assert {report for report, _ in reports} <= known
    assert summary.reports == 4


def test_reports_of_a_stream_have_the_probabilities_of_the_point(mechanism):
    n = 20_000
    data = stream_of("csv", np.tile([[41.8841, 12.4652]], (n, 1)), ["x"] * n)
    text, _ = perturbed(mechanism, data)
    names = {name: k for k, name in enumerate(mechanism.outputs.ids(mechanism.records))}
    drawn = [names[row["report"]] for row in csv.DictReader(io.StringIO(text))]
    counts = np.bincount(drawn, minlength=len(names))
    expected = n * mechanism.probabilities_at([[41.8841, 12.4652]])[0]
    assert (((counts - expected) ** 2 / expected).sum()) < 2.5 * len(names)


def test_a_stream_is_charged_before_it_is_drawn_and_rows_beyond_are_dropped(mechanism, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db", limit=1.0)
    text, summary = perturbed(mechanism, stream_of("csv"), ledger=ledger, person="who", over="drop", keep=("who",))
    assert [who for _, who in reports_of("csv", text)] == ["Ana", "Ben", "Cleo"]
    assert (summary.reports, summary.over) == (3, 1)
    assert [ledger.spent(who) for who in ("Ana", "Ben", "Cleo")] == [1.0, 1.0, 1.0]
    assert ledger.currency == "haversine (km)"


def test_a_budget_that_does_not_suffice_ends_the_stream_with_nobody_charged(mechanism, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db", limit=1.0)
    with pytest.raises(BudgetsExceededError):
        perturbed(mechanism, stream_of("csv"), ledger=ledger, person="who")
    assert ledger.spent("Ben") == 0.0


def test_a_point_outside_ends_the_stream_before_its_batch_is_written(mechanism, tmp_path):
    points = INSIDE.copy()
    points[2, 0] = OUTSIDE
    ledger, target = Ledger(tmp_path / "ledger.db", limit=9.0), io.BytesIO()
    source = io.BytesIO(stream_of("csv", points))
    with pytest.raises(InputError, match="outside the region") as refusal:
        perturb_region_stream(mechanism, source, target, ledger=ledger, person="who")
    assert "41.88" not in str(refusal.value)
    assert target.getvalue() == b""
    assert ledger.spent("Ana") == 2.0  # the refusal is visible
    assert perturbed(mechanism, stream_of("csv", points), outside="border")[1].reports == 4
    points[2, 0] = 44.0
    with pytest.raises(InputError, match="larger margin"):
        perturbed(mechanism, stream_of("csv", points), outside="border")


def test_a_kept_copy_of_the_truth_is_refused(mechanism):
    points = np.column_stack([np.linspace(41.881, 41.888, 40), np.full(40, 12.465)])
    with pytest.raises(InputError, match="holds the true record"):
        perturbed(mechanism, stream_of("csv", points, [f"{a:.6f}" for a in points[:, 0]]), keep=("who",))


def test_a_file_charges_everyone_or_nobody(mechanism, tmp_path):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_bytes(stream_of("csv"))
    ledger = Ledger(tmp_path / "ledger.db", limit=2.0)
    summary = perturb_region_file(mechanism, source, target, ledger=ledger, person="who")
    assert (summary.reports, summary.persons) == (4, 3)
    assert [ledger.spent(who) for who in ("Ana", "Ben")] == [2.0, 1.0]
    with pytest.raises(BudgetsExceededError):
        perturb_region_file(mechanism, source, tmp_path / "again.csv", ledger=ledger, person="who")
    assert not (tmp_path / "again.csv").exists()
    assert ledger.spent("Ben") == 1.0


def test_a_file_with_a_point_outside_charges_nobody(mechanism, tmp_path):
    source = tmp_path / "in.csv"
    points = INSIDE.copy()
    points[0, 0] = OUTSIDE
    source.write_bytes(stream_of("csv", points))
    ledger = Ledger(tmp_path / "ledger.db", limit=9.0)
    with pytest.raises(InputError, match="outside the region"):
        perturb_region_file(mechanism, source, tmp_path / "out.csv", ledger=ledger, person="who")
    assert ledger.holders() == []


def test_frames_go_in_and_out_and_are_charged(mechanism, tmp_path):
    frame = pd.DataFrame({"lat": INSIDE[:, 0], "lon": INSIDE[:, 1], "who": PERSONS, "trip": [7, 8, 9, 10]})
    ledger = Ledger(tmp_path / "ledger.db", limit=2.0)
    made = perturb_region_frame(mechanism, frame, keep=["trip"], ledger=ledger, person="who")
    assert list(made.columns) == ["lat", "lon", "report", "trip"]
    nodes = mechanism.outputs.coordinates.tolist()
    assert all(point in nodes for point in made[["lat", "lon"]].to_numpy().tolist())
    assert ledger.spent("Ana") == 2.0
    with pytest.raises(BudgetsExceededError):
        perturb_region_frame(mechanism, frame, ledger=ledger, person="who")
    with pytest.raises(InputError, match="go together"):
        perturb_region_frame(mechanism, frame, person="who")
    with pytest.raises(InputError, match="must be one column"):
        perturb_region_frame(mechanism, frame, ledger=ledger, person="lat")
    frame.loc[0, "lat"] = OUTSIDE
    with pytest.raises(InputError, match="outside the region"):
        perturb_region_frame(mechanism, frame, ledger=Ledger(tmp_path / "other.db", limit=2.0), person="who")
    assert Ledger(tmp_path / "other.db", limit=2.0).holders() == []
    assert len(perturb_region_frame(mechanism, frame, outside="border")) == 4


def test_a_ledger_draws_for_points_and_refuses_records_ways(mechanism, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db", limit=2.0)
    assert ledger.perturb_region(mechanism, "Ana", INSIDE[:2]).shape == (2,)
    assert ledger.spent("Ana") == 2.0
    records = mdp.exponential(mdp.Problem(mdp.data.grid(2, 2), epsilon=1.0, eta=2.0))
    for wrong, text in (
        (lambda: ledger.perturb_points(mechanism, "Ben", INSIDE, limit=1.0), "use perturb_region"),
        (lambda: ledger.perturb(mechanism, "Ben", ["r1c1"]), "use perturb_region"),
        (lambda: ledger.perturb_region(mechanism, "Ben", INSIDE, outside="boarder"), "unknown policy 'boarder'"),
        (lambda: ledger.perturb_region(records, "Ben", [[0.0, 1.0]]), "but a Mechanism: use perturb or perturb_points"),
    ):
        with pytest.raises(InputError, match=text):
            wrong()
        assert ledger.spent("Ben") == 0.0


def test_what_judges_records_names_the_way_for_regions(mechanism, tmp_path):
    problem = mdp.Problem(mdp.data.grid(2, 2), epsilon=1.0, eta=2.0)
    for wrong in (
        lambda: mdp.Tracker(mechanism),
        lambda: evaluate.remap(mechanism, problem),
        lambda: evaluate.attack(mechanism, problem),
        lambda: evaluate.utility(mechanism, problem),
        lambda: mdp.audit(mechanism, problem),
        lambda: make_measurement(mechanism),
    ):
        with pytest.raises(InputError, match=r"use metricdp\.evaluate\.at_places"):
            wrong()
    with pytest.raises(InputError, match=r"use Ledger\.perturb_region"):
        mdp.Memoized(mechanism, tmp_path / "memory.db")
    with pytest.raises(InputError, match=r"use metricdp\.report\.region_page"):
        explorer_page(mechanism)


def test_doors_of_records_name_the_door_of_regions(mechanism, tmp_path):
    frame = pd.DataFrame(INSIDE, columns=["lat", "lon"])
    source = tmp_path / "gps.csv"
    source.write_text("lat,lon\n41.885,12.465\n", encoding="utf-8")
    doors = {
        "perturb_region_file": lambda: perturb_file(mechanism, source, tmp_path / "out.csv", snap_limit=1.0),
        "perturb_region_frame": lambda: perturb_frame(mechanism, frame, snap_limit=1.0),
        "perturb_region_stream": lambda: perturb_stream(mechanism, io.BytesIO(b"id\nr1c1\n"), io.BytesIO()),
    }
    for instead, door in doors.items():
        with pytest.raises(InputError, match=f"of a region, not of records: use {instead}"):
            door()
    with pytest.raises(InputError, match="of a region"):
        batched(mechanism, ids="lat")
    assert not (tmp_path / "out.csv").exists()


def test_parquet_goes_in_and_out(mechanism):
    frame = pd.DataFrame({"lat": INSIDE[:, 0], "lon": INSIDE[:, 1], "who": PERSONS})
    data = io.BytesIO()
    frame.to_parquet(data)
    target = io.BytesIO()
    summary = perturb_region_stream(mechanism, io.BytesIO(data.getvalue()), target, keep=("who",))
    found = pd.read_parquet(io.BytesIO(target.getvalue()))
    assert summary.reports == 4
    assert found["who"].tolist() == PERSONS
    assert set(found["report"]) <= set(mechanism.outputs.ids(mechanism.records))
    places = dict(zip(mechanism.outputs.ids(mechanism.records), mechanism.outputs.coordinates, strict=True))
    np.testing.assert_allclose(found[["lat", "lon"]], [places[name] for name in found["report"]])


def test_a_limit_of_a_window_holds_for_frames(mechanism, tmp_path):
    ledger = Ledger(tmp_path / "window.db", limit=1.0, window=dt.timedelta(days=1))
    frame = pd.DataFrame({"lat": INSIDE[:, 0], "lon": INSIDE[:, 1], "who": ["a", "b", "c", "d"]})
    assert len(perturb_region_frame(mechanism, frame, ledger=ledger, person="who")) == 4
    with pytest.raises(BudgetsExceededError):
        perturb_region_frame(mechanism, frame, ledger=ledger, person="who")


@pytest.mark.parametrize("to", ["csv", "jsonl", "geojsonl", "parquet"])
def test_kept_columns_of_parquet_may_be_times_and_bytes(mechanism, to):
    kept = {
        "at": dt.datetime(2026, 3, 1, 8, 30, tzinfo=dt.UTC),
        "on": dt.date(2026, 3, 1),
        "raw": b"\x01\xff",
        "all": {"raw": b"\xfe"},
    }
    source, target = io.BytesIO(), io.BytesIO()
    table = pa.table({"lat": INSIDE[:1, 0], "lon": INSIDE[:1, 1], **{name: [value] for name, value in kept.items()}})
    parquet.write_table(table, source)
    source.seek(0)
    perturb_region_stream(mechanism, source, target, to=to, keep=tuple(kept))
    if to == "parquet":
        target.seek(0)
        found = parquet.read_table(target)
        assert found.schema.field("at").type == table.schema.field("at").type
        assert {name: found[name][0].as_py() for name in kept} == kept
        return
    text = target.getvalue().decode()
    assert all(part in text for part in ("2026-03-01T08:30:00", "2026-03-01", "01ff", "fe"))


def test_persons_without_budget_learn_nothing_of_their_points(mechanism, tmp_path):
    ledger = Ledger(tmp_path / "spent", limit=1.5)
    options = {"ledger": ledger, "person": "who", "over": "drop"}
    perturbed(mechanism, stream_of("csv", INSIDE[:1], ["Ana"]), **options)
    for latitude in (INSIDE[1, 0], 10.0):
        text, summary = perturbed(mechanism, stream_of("csv", np.array([[latitude, 12.465]]), ["Ana"]), **options)
        assert (summary.reports, summary.over, text.count("\n")) == (0, 1, 1)
    with pytest.raises(InputError, match="outside the region"):
        perturbed(mechanism, stream_of("csv", np.array([[10.0, 12.465]]), ["Ben"]), **options)
    assert ledger.spent("Ben") == 1.0


@pytest.mark.parametrize("column", ["lat", "lon"])
def test_complex_columns_are_refused(mechanism, column):
    frame = pd.DataFrame({"lat": INSIDE[:, 0], "lon": INSIDE[:, 1]})
    frame[column] += 5j
    with pytest.raises(InputError, match="must hold numbers"):
        perturb_region_frame(mechanism, frame)


def test_doors_of_regions_refuse_mechanisms_of_records(tmp_path):
    records = mdp.data.grid(2, 2)
    made = mdp.solve(mdp.Problem(records, epsilon=1.0, eta=2.0)).mechanism
    with pytest.raises(InputError, match="not the mechanism of a region"):
        perturb_region_stream(made, io.BytesIO(b"x,y\n0,0\n"), io.BytesIO())
    with pytest.raises(InputError, match="not the mechanism of a region"):
        perturb_region_file(made, tmp_path / "points.csv", tmp_path / "reports.csv")
    with pytest.raises(InputError, match="not the mechanism of a region"):
        perturb_region_frame(made, pd.DataFrame({"x": [0.0], "y": [0.0]}))


def test_bytes_that_hold_the_true_place_are_refused_as_texts_are(mechanism):
    points = np.tile(INSIDE, (10, 1))
    source = io.BytesIO()
    copies = [repr(latitude).encode() for latitude in points[:, 0].tolist()]
    parquet.write_table(pa.table({"lat": points[:, 0], "lon": points[:, 1], "copy": copies}), source)
    source.seek(0)
    with pytest.raises(InputError, match="'copy'"):
        perturb_region_stream(mechanism, source, io.BytesIO(), keep=("copy",))
