"""The benchmark of problems in which every place is an output, on a few dozen places and words."""

from importlib.resources import files

import numpy as np
import pytest
from benchmarks.place_process import contiguous, load_places, solve_places
from benchmarks.place_words import run as run_words
from benchmarks.place_words import run_many, words_of
from benchmarks.rivals import budget_of_all_pairs, compared, path_cells, paths
from benchmarks.rivals import cells as rival_cells

import metricdp as mdp
from benchmarks import place_process, places, rivals


@pytest.fixture(autouse=True)
def _few_records(monkeypatch):
    monkeypatch.setattr(place_process, "WARM_UP_RECORDS", 20)
    monkeypatch.setattr(rivals, "AGAINST", ("exponential", "planar-laplace-remapped"))


def centre(n, **problem):
    return mdp.Problem(contiguous("gothenburg", n), loss="distance", **problem)


def test_contiguous_places_are_the_nearest_ones():
    assert contiguous("gothenburg", 30).ids == mdp.data.road().nearest((57.7072, 11.9668), 30).ids


def test_a_solve_is_measured_saved_loaded_and_drawn_from(tmp_path):
    file = str(tmp_path / "places.mdp")
    task = {"city": "gothenburg", "n": 60, "epsilon": 10.0, "eta": 0.3, "gap": 0.05, "method": "local", "file": file}
    answer = solve_places(task)
    assert answer["status"] == "optimal"
    assert 0.0 < answer["gap"] <= 0.05
    assert 60 <= answer["stored"] <= 3_600
    assert places.cells({**task, **answer})[:4] == ["60", "10", "local", f"{100 * answer['gap']:.2f}"]
    loaded = load_places({**task, "n_draws": 1_000})
    assert loaded["draws_per_second"] > 0.0
    assert len(places.file_cells({**task, **answer, **loaded})) == 8
    assert not list(tmp_path.glob("*.small.mdp"))


def test_rivals_are_certified_and_never_below_the_bound():
    problem = centre(30, epsilon=7.0, eta=0.3)
    rows = compared("gothenburg", problem)
    assert [row["mechanism"] for row in rows[:2]] == ["optimum", "optimum of all pairs"]
    bound = rows[0]["lower_bound"]
    assert all(row["certified"] and row["loss"] >= bound for row in rows)
    assert all(row["remapped"] <= row["loss"] * (1 + 1e-9) for row in rows)
    # paths are at least as long as straight distances, and privacy over chains is what paths say
    assert problem.epsilon <= rows[0]["epsilon_of_all_pairs"] * 1.01
    assert rows[0]["epsilon_of_all_pairs"] <= problem.epsilon * rows[0]["stretch"] * (1 + 1e-9)
    assert all(len(rival_cells(row)) == len(rivals.HEAD) for row in rows)


def test_paths_where_every_pair_is_a_neighbour_are_straight():
    found = paths(centre(25, epsilon=7.0, eta=100.0))
    assert found["stretch"] == pytest.approx(1.0)
    assert found["pairs"] == 25 * 24 / 2
    assert len(path_cells({"city": "gothenburg", "n": 25, "eta": 100.0, **found})) == len(rivals.PATH_HEAD)


def test_the_budget_of_all_pairs_looks_within_components_only():
    records = mdp.Records(np.array([[0.0], [1.0], [50.0]]), kind="vectors")
    problem = mdp.Problem(records, epsilon=1.0, eta=2.0)
    mechanism = mdp.solve(problem, gap=1e-4).mechanism
    assert budget_of_all_pairs(mechanism, problem) == pytest.approx(1.0, rel=1e-3)


def test_words_show_their_reports():
    rows, text = run_words(lambda _rows: None, n=40)
    assert all(row["certified"] for row in rows)
    assert all(len(one["drawn"]) == 6 for row in rows for one in row["reports"])
    assert "most likely reports" in text


def shipped_words_file():
    return files("metricdp.data") / "files" / "words.safetensors"


def test_many_words_come_from_a_file_in_the_form_of_the_shipped_one(monkeypatch):
    monkeypatch.delenv("METRICDP_WORDS", raising=False)
    assert run_many(lambda _rows: None) == (
        [],
        "many-words: skipped, METRICDP_WORDS names no file of tools/make_words.py --words 10000\n",
    )
    read, shipped = words_of(shipped_words_file()), mdp.data.words()
    assert read.ids == shipped.ids
    assert (read.coordinates == shipped.coordinates).all()
    assert (read.prior == shipped.prior).all()


@pytest.mark.slow
def test_many_words_are_certified_with_a_sparse_table(monkeypatch):
    monkeypatch.setenv("METRICDP_WORDS", str(shipped_words_file()))
    rows, text = run_many(lambda _rows: None, n=1_000)
    assert [(row["n"], row["certified"], row["status"]) for row in rows] == [(1_000, True, "optimal")]
    assert rows[0]["gap"] <= 0.02
    assert 1_000 <= rows[0]["stored"] < 100_000
    assert "1,000" in text


def test_without_data_of_rome_its_parts_say_so(monkeypatch):
    monkeypatch.setattr(places, "rome_nodes", lambda: None)
    monkeypatch.setenv("METRICDP_BENCH_PARTS", "growth city")
    result = places.run(keep=lambda _rows: None)
    assert result["rows"] == []
    assert result["markdown"].count("skipped") == 2


def test_unknown_parts_are_refused(monkeypatch):
    monkeypatch.setenv("METRICDP_BENCH_PARTS", "citys")
    with pytest.raises(ValueError, match="unknown part citys"):
        places.run(keep=lambda _rows: None)


def test_growth_is_the_slope_between_sizes():
    assert places.growth_line("time", [10, 100], [1.0, 10.0]) == "- time grows like N^1.00 (1.00 from 10 to 100)"
    assert places.growth_line("time", [10], [1.0]) == "- time: fewer than two sizes"


def test_a_task_runs_in_a_process_of_its_own():
    task = {"kind": "solve", "city": "gothenburg", "n": 20, "epsilon": 10.0, "eta": 0.3, "gap": 0.1, "method": "local"}
    answer = place_process.ask(task, seconds=120.0)
    assert "failed" not in answer, answer
    assert 0.0 <= answer["gap"] <= 0.1
