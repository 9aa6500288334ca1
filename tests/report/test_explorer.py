"""The page as a file: what it holds, that it is small, that no text of the data can become code, and the command."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

import metricdp as mdp
from metricdp.data.map_layers import MapFeature, city_map
from metricdp.data.streets import StreetNetwork
from metricdp.errors import FileFormatError, InputError
from metricdp.evaluate.compare import QUICK_BASELINES
from metricdp.mechanism.mechanism import table_loss
from metricdp.metric.graph import MdpGraph
from metricdp.report import explorer_data
from metricdp.report.convergence import convergence, read_trace
from metricdp.report.explorer import SourceFile, compared_with, explorer_page, write_explorer
from metricdp.report.explorer_data import LOG_LEVELS, nearest_neighbours, table_arrays
from metricdp.report.explorer_map import MAX_POINTS, REACH, Frame, ground_fields, ground_of

EVIL = "</script><img src=x onerror=alert(1)><!--{{script}}"


@pytest.fixture(scope="module")
def city():
    problem = mdp.Problem(mdp.data.road("gothenburg", n=40, seed=1), epsilon=4.0, eta=1.0, outputs=10)
    return mdp.solve(problem, method="direct")


def payload_of(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="payload">(.*?)</script>', page)[1])


def unpacked(payload: dict, name: str) -> np.ndarray:
    packed = payload["arrays"][name]
    return np.frombuffer(base64.b64decode(packed["data"]), packed["type"])


def dense(arrays: dict, shape: tuple[int, int]) -> np.ndarray:
    """The stored probabilities as a table again, by the formula that the docstring states."""
    found = np.zeros(shape)
    rows = np.repeat(np.arange(shape[0]), np.diff(arrays["starts"].astype(int)))
    found[rows, arrays["columns"]] = 2.0 ** (-63.0 * (LOG_LEVELS + 1.0 - arrays["levels"]) / LOG_LEVELS)
    return found


def test_the_page_holds_what_it_shows(city):
    page = explorer_page(city.mechanism, problem=city.problem, compared=[("other", 1.5, False)], trace=city.trace.rows)
    payload = payload_of(page)
    assert payload["ids"] == list(city.problem.records.ids)
    assert payload["loss"]["expected"] == pytest.approx(city.loss)
    assert payload["loss"]["unit"] == "km"
    losses = (city.mechanism.probabilities * city.problem.loss).sum(axis=1)
    assert unpacked(payload, "losses") == pytest.approx(losses, rel=1e-6)
    assert payload["certificate"]["optimality"]["gap"] == city.gap
    assert payload["certificate"]["lines"] == city.mechanism.certificate.lines()
    assert payload["compared"] == [{"name": "other", "loss": 1.5, "certified": False}]
    assert payload["convergence"]["certified"] == [city.lower_bound, city.loss]
    best_guess = (city.mechanism.probabilities * city.problem.records.prior[:, None]).max(axis=0).sum()
    assert payload["adversary"]["after"] == pytest.approx(best_guess)
    assert len(unpacked(payload, "ground_points")) > 2 * 1000
    assert payload["credit"] == "© OpenStreetMap contributors"


def test_probabilities_survive_to_three_digits(city):
    table = city.mechanism.table
    found = dense(table_arrays(table, city.problem.records.prior), table.shape)
    true = city.mechanism.probabilities
    assert found[true > 1e-6] == pytest.approx(true[true > 1e-6], rel=4e-4)
    assert found[true == 0].max(initial=0.0) == 0.0


def test_a_rare_output_keeps_its_posterior():
    """An output that nearly nobody reports still has a posterior, so its small entries are kept."""
    table = np.full((5, 2), 1, dtype=np.uint64)
    table[:, 1] = [1, 2, 3, 4, 5]
    table[:, 0] = 2**63 - table[:, 1]
    found = dense(table_arrays(table, np.full(5, 0.2)), table.shape)
    assert found[:, 1] * 2.0**63 == pytest.approx([1, 2, 3, 4, 5], rel=4e-4)


def test_too_many_entries_leave_the_least_important_out(city, monkeypatch):
    monkeypatch.setattr(explorer_data, "MAX_ENTRIES", 50)
    table = city.mechanism.table
    arrays = table_arrays(table, city.problem.records.prior)
    found = dense(arrays, table.shape)
    assert len(arrays["levels"]) == 50
    assert np.array_equal(found.argmax(axis=1), city.mechanism.probabilities.argmax(axis=1))
    assert found.max() == pytest.approx(city.mechanism.probabilities.max(), rel=4e-4)


def test_equal_entries_do_not_exceed_the_limit(monkeypatch):
    monkeypatch.setattr(explorer_data, "MAX_ENTRIES", 50)
    table = np.full((20, 16), 2**59, dtype=np.uint64)
    arrays = table_arrays(table, np.full(20, 0.05))
    assert len(arrays["levels"]) == 50
    assert (np.diff(arrays["starts"].astype(int)) > 0).all()


def test_no_text_of_the_data_becomes_code(tmp_path):
    records = mdp.Records([[0.0, 0.0], [1.0, 0.0]], ids=[EVIL, "ok"], kind="vectors", name=EVIL)
    problem = mdp.Problem(records, epsilon=1.0, eta=2.0, outputs=2)
    page = explorer_page(mdp.exponential(problem), problem=problem, compared=[(EVIL, 1.0, True)])
    assert "<img" not in page
    assert page.count("</script>") == 2
    assert payload_of(page)["ids"][0] == EVIL
    assert "<title>&lt;/script&gt;&lt;img" in page


def test_the_policy_allows_this_script_and_nothing_else(city):
    page = explorer_page(city.mechanism)
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)[1]
    expected = "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert f"script-src '{expected}'" in policy
    assert policy.startswith("default-src 'none'")
    assert not re.search(r"""(?:src|href)\s*=\s*["']?https?:""", page)


def test_five_thousand_records_stay_small(tmp_path):
    records = mdp.data.road("gothenburg", n=5000, seed=0)
    rows = np.random.default_rng(0).gamma(0.4, size=(5000, 100))
    table = table_arrays(np.floor(rows / rows.sum(axis=1, keepdims=True) * 2.0**63).astype(np.uint64), records.prior)
    assert sum(values.nbytes for values in table.values()) * 4 / 3 < 5e6


def test_the_map_has_true_proportions():
    records = mdp.Records([[60.0, 179.9], [60.0, -179.9], [60.1, 180.0]])
    frame = Frame.around(records)
    x, y = frame.place(records.coordinates).T * frame.scale
    assert x[1] - x[0] == pytest.approx(0.2 * 111.195 * np.cos(np.radians(60.05)), rel=1e-4)
    assert y[2] - y[0] == pytest.approx(0.1 * 111.195, rel=1e-4)
    assert np.abs(frame.place(records.coordinates)).max() == pytest.approx(1.0)


def test_streets_belong_to_the_records_place_not_to_their_name(city):
    records = city.problem.records
    bare = mdp.Records(records.coordinates, ids=records.ids, name="gothenburg")
    elsewhere = mdp.Records(records.coordinates + 0.01, ids=records.ids, name="gothenburg")
    assert ground_of(bare, None) == (city_map("gothenburg"), "© OpenStreetMap contributors")
    assert ground_of(elsewhere, None) == ((), None)


def test_given_streets_take_the_place_of_the_records_own(city):
    ends = city.problem.records.coordinates[:2]
    network = StreetNetwork(ends, np.array([[0, 1]], dtype=np.int32), np.ones(1))
    ((street,), credit) = ground_of(city.problem.records, network)
    assert np.array_equal(street.parts[0], ends)
    assert credit is None


def ground_parts(arrays, frame):
    """The drawn lines and rings again, as positions on the map."""
    points = arrays["ground_points"].astype(float) * 2 * REACH / 65_535 - REACH
    return np.split(points, arrays["ground_starts"][1:-1])


def test_the_ground_is_cut_at_the_edge_of_the_map():
    frame = Frame.around(mdp.Records([[-1.0, -1.0], [1.0, 1.0]]))
    sea = MapFeature("water", (np.array([[-9.0, -9.0], [9.0, -9.0], [9.0, 0.0], [-9.0, 0.0]]),), "Sea", is_area=True)
    line = MapFeature("street", (np.array([[0.0, -9.0], [0.0, -0.5], [0.0, 0.5], [0.0, 9.0], [0.5, 0.5]]),))
    away = MapFeature("park", (np.array([[50.0, 50.0], [51.0, 50.0], [50.0, 51.0]]),), "Far", is_area=True)
    arrays, fields = ground_fields([line, sea, away], frame)
    assert [row[0] for row in fields["ground"]] == [0, 4]
    assert fields["ground"][0] == [0, 1, 1, "Sea"]
    ring, street = ground_parts(arrays, frame)
    x, y = ring.T
    area = abs((x * np.roll(y, 1) - y * np.roll(x, 1)).sum()) / 2
    assert area == pytest.approx(2 * REACH * REACH, rel=1e-3)
    assert street == pytest.approx(frame.place(line.parts[0][1:3]), abs=1e-4)


def test_a_large_ground_is_thinned_until_it_fits():
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(scale=1e-5, size=(3 * MAX_POINTS, 2)), axis=0)
    frame = Frame.around(mdp.Records([[-1.0, -1.0], [1.0, 1.0]]))
    arrays, _ = ground_fields([MapFeature("street", (walk,)), MapFeature("place", (np.zeros((1, 2)),), "here")], frame)
    assert 0 < len(arrays["ground_points"]) <= MAX_POINTS
    assert len(ground_parts(arrays, frame)) == 2


def test_each_record_has_its_nearest_neighbour():
    graph = MdpGraph(5, np.array([[0, 1], [0, 2], [1, 2], [2, 3]], dtype=np.int32), np.array([0.0, 3.0, 2.0, 1.0]))
    found = nearest_neighbours(graph)
    assert found["near"].tolist() == [2, 2, 3, 2, 4]
    assert found["near_distances"].tolist() == [3.0, 2.0, 1.0, 1.0, 0.0]


def test_comparison_says_who_is_certified(city):
    rows = {name: (loss, certified) for name, loss, certified in compared_with(city.problem)}
    assert set(rows) == set(QUICK_BASELINES)
    assert rows["exponential"][1]
    assert rows["uniform"][1]
    assert all(loss >= city.loss * (1 - 1e-9) for loss, certified in rows.values() if certified)
    with pytest.raises(InputError, match="unknown mechanism 'magic'"):
        compared_with(city.problem, ["magic"])


def test_nothing_protected_is_said():
    records = mdp.Records([[0.0, 0.0], [9.0, 0.0]], kind="vectors")
    problem = mdp.Problem(records, epsilon=1.0, eta=2.0, outputs=2)
    certificate = payload_of(explorer_page(mdp.exponential(problem), problem=problem))["certificate"]
    assert not certificate["is_private"]
    assert "NOTHING is protected" in certificate["lines"][0]


def test_the_command_writes_a_page(run, city, tmp_path):
    city.mechanism.save("city.mdp")
    (tmp_path / "run.jsonl").write_text(city.trace.json_lines() + "\n")
    code, text, _ = run("report", "city.mdp", "-o", "page.html", "--trace", "run.jsonl", "--json")
    answer = json.loads(text)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    payload = payload_of(page)
    assert code == 0
    assert answer == {"file": "page.html", "bytes": (tmp_path / "page.html").stat().st_size, "warnings": []}
    assert payload["file"]["sha256"] == hashlib.sha256((tmp_path / "city.mdp").read_bytes()).hexdigest()
    assert payload["loss"]["is_own"]
    assert payload["loss"]["expected"] == pytest.approx(table_loss(city.mechanism.table, city.problem))
    assert [row["name"] for row in payload["compared"]] == list(QUICK_BASELINES)
    assert "ground_points" in payload["arrays"]


@pytest.mark.parametrize(
    ("file", "page"), [("city.mdp", "city.html"), ("city.v1.mdp", "city.v1.html"), ("city.v1", "city.v1.html")]
)
def test_the_command_names_the_page_after_the_file(run, city, tmp_path, file, page):
    city.mechanism.save(file)
    code, _, _ = run("report", file, "--against", "none")
    assert code == 0
    assert payload_of((tmp_path / page).read_text(encoding="utf-8"))["compared"] == []


def test_a_metric_that_cannot_be_computed_again_gives_a_page_without_losses(run, tmp_path):
    matrix = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    records = mdp.Records(np.zeros((4, 3)), kind="vectors")
    problem = mdp.Problem(records, epsilon=1.0, eta=1.5, outputs=[0, 3], metric=matrix)
    dataclasses.replace(mdp.exponential(problem), losses=None).save("given.mdp")
    code, _, _ = run("report", "given.mdp")
    payload = payload_of((tmp_path / "given.html").read_text(encoding="utf-8"))
    assert code == 0
    assert payload["loss"] is None
    assert payload["map"] is None


def layers_file(path, *features):
    """A GeoJSON file of features given as (properties, type, coordinates)."""
    rows = [{"type": "Feature", "properties": p, "geometry": {"type": t, "coordinates": c}} for p, t, c in features]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": rows}))


def test_the_command_draws_layers_of_geojson(run, city, tmp_path):
    city.mechanism.save("city.mdp")
    lake = [[[11.9, 57.7], [12.0, 57.7], [12.0, 57.72], [11.9, 57.7]]]
    layers_file(tmp_path / "layers.geojson", ({"natural": "water", "name": EVIL[:60]}, "Polygon", lake))
    code, _, _ = run("report", "city.mdp", "--map", "layers.geojson", "--map", "road:gothenburg", "--against", "none")
    page = (tmp_path / "city.html").read_text(encoding="utf-8")
    ground = payload_of(page)["map"]["ground"]
    assert code == 0
    assert ground[0] == [0, 1, 1, EVIL[:60]]
    assert len(ground) > 1000
    assert "<img" not in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.mdp"], "there is no file missing.mdp"),
        (["city.mdp", "-o", "city.mdp"], "both name city.mdp"),
        (["city.mdp", "-o", "nowhere/page.html"], "does not exist"),
        (["city.mdp", "--trace", "none.jsonl"], "cannot read the trace none.jsonl"),
        (["city.mdp", "--trace", "bad.jsonl"], "line 2 is not a JSON object"),
        (["city.mdp", "--against", "magic"], "unknown mechanism 'magic'"),
        (["city.mdp", "--streets", "bad.jsonl"], "goes with --map"),
        (["city.mdp", "--map", "grid:2x2"], "has no streets"),
        (["city.mdp", "--map", "missing.geojson"], "no such file"),
        (["city.mdp", "--map", "empty.geojson"], "has nothing to draw"),
        (["city.mdp", "--map", "road:gothenburg", "--map", "road:gothenburg"], "names streets twice"),
    ],
)
def test_bad_input_is_one_line_and_no_page(run, city, tmp_path, words, message):
    city.mechanism.save("city.mdp")
    layers_file(tmp_path / "empty.geojson", ({"amenity": "bench"}, "Point", [11.9, 57.7]))
    (tmp_path / "bad.jsonl").write_text('{"seconds": 1, "stage": "start"}\n[1, 2]\n')
    code, text, error = run("report", *words)
    assert code == 2
    assert text == ""
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.glob("**/*.html"))


def test_traces_are_read_as_they_are_written(tmp_path, city):
    path = tmp_path / "run.jsonl"
    path.write_text(city.trace.json_lines())
    assert convergence(read_trace(path)) == convergence(city.trace.rows)
    path.write_text("\n")
    with pytest.raises(FileFormatError, match="is empty"):
        read_trace(path)


def test_writing_gives_the_size(tmp_path, city):
    size = write_explorer(tmp_path / "page.html", city.mechanism, problem=city.problem)
    assert (tmp_path / "page.html").stat().st_size == size


def test_the_page_draws_with_the_package_of_clients():
    """The wheel has a copy of the package, since it has no clients folder: the same bytes."""
    root = Path(__file__).parents[2]
    copy = root / "src" / "metricdp" / "report" / "page" / "metricdp.classic.js"
    assert copy.read_bytes() == (root / "clients" / "js" / "dist" / "metricdp.classic.js").read_bytes()


def test_the_page_holds_the_very_file(tmp_path):
    problem = mdp.Problem(mdp.data.grid(3, 3), epsilon=1.0, eta=1.0, outputs=9)
    mechanism = mdp.exponential(problem)
    mechanism.save(tmp_path / "grid.mdp")
    source = SourceFile.of(tmp_path / "grid.mdp")
    found = payload_of(explorer_page(mechanism, problem=problem, file=source))["sampling"]
    assert gzip.decompress(base64.b64decode(found["file"])) == (tmp_path / "grid.mdp").read_bytes()
    written = payload_of(explorer_page(mechanism, problem=problem))["sampling"]
    (tmp_path / "other.mdp").write_bytes(gzip.decompress(base64.b64decode(written["file"])))
    assert (mdp.load(tmp_path / "other.mdp").table == mechanism.table).all()


def test_a_file_that_is_too_large_is_left_out(monkeypatch):
    problem = mdp.Problem(mdp.data.grid(3, 3), epsilon=1.0, eta=1.0, outputs=9)
    for most in (10, 200):  # known from the table, and known when it is packed
        monkeypatch.setattr("metricdp.report.explorer.MOST_SAMPLED_BYTES", most)
        found = payload_of(explorer_page(mdp.exponential(problem), problem=problem))["sampling"]
        assert found["file"] == ""
        assert "too large" in found["why"]
