"""The page as a file: what it holds, that it is small, that no text of the data can become code, and the command."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re

import numpy as np
import pytest

import metricdp as mdp
from metricdp.errors import FileFormatError, InputError
from metricdp.evaluate.compare import QUICK_BASELINES
from metricdp.mechanism.mechanism import table_loss
from metricdp.report import explorer_data
from metricdp.report.convergence import convergence, read_trace
from metricdp.report.explorer import compared_with, explorer_page, write_explorer
from metricdp.report.explorer_data import LOG_LEVELS, Frame, streets_of, table_arrays

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
    assert len(unpacked(payload, "streets")) > 4 * 1000


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
    assert (found.max(axis=0) > 0).sum() > 5
    assert found.max() == pytest.approx(city.mechanism.probabilities.max(), rel=4e-4)


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
    assert streets_of(bare) is records.streets
    assert streets_of(elsewhere) is None


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
    assert "streets" in payload["arrays"]


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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["missing.mdp"], "cannot read missing.mdp"),
        (["city.mdp", "-o", "city.mdp"], "both name city.mdp"),
        (["city.mdp", "-o", "nowhere/page.html"], "does not exist"),
        (["city.mdp", "--trace", "none.jsonl"], "cannot read the trace none.jsonl"),
        (["city.mdp", "--trace", "bad.jsonl"], "line 2 is not a JSON object"),
        (["city.mdp", "--against", "magic"], "unknown mechanism 'magic'"),
        (["city.mdp", "--streets", "bad.jsonl"], "goes with --map"),
        (["city.mdp", "--map", "grid:2x2"], "has no streets"),
    ],
)
def test_bad_input_is_one_line_and_no_page(run, city, tmp_path, words, message):
    city.mechanism.save("city.mdp")
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
