"""Every experiment at its smallest size: shapes, invariants, and files that can be read back."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from tests.papers.conftest import SMALLEST, results

from papers.qiu2024 import EXPERIMENTS
from papers.qiu2024.published import DATASETS, METHODS

PARTITIONERS = (*METHODS, "metis")
PLAIN = 8  # of the PNG format's first bytes


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_files_can_be_read_back(everything, name):
    found = everything.found[name]
    assert found["experiment"] == name
    assert found["machine"]["metricdp"]
    assert found["machine"]["cores"] >= 1
    assert found["scale"]["records"] == SMALLEST.records
    assert found["summary"]
    assert found["instances"]
    assert all("instance" in entry["task"] for entry in found["instances"])
    assert (everything.out / f"{name}.png").read_bytes()[:PLAIN] == b"\x89PNG\r\n\x1a\n"
    tree = ET.fromstring((everything.out / f"{name}.svg").read_bytes())  # noqa: S314  our own file
    assert tree.tag.endswith("svg")
    page = (everything.out / f"{name}.md").read_text(encoding="utf-8")
    assert f"({name}.png)" in page
    assert "not epsilon-mDP" in page  # the caveat on the paper's own figures
    tables = [line for line in page.splitlines() if line.startswith("|")]
    assert len(tables) > 3
    assert "nan" not in page


def test_one_page_links_everything(everything):
    page = (everything.out / "report.md").read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)]+)\)", page)
    assert len(targets) == 4 * len(EXPERIMENTS)
    assert all((everything.out / target).is_file() for target in targets)
    assert {path.name for path in everything.paths} == {*targets, "report.md"}


def test_sizes_add_up(everything):
    found = [
        *results(everything.found["table-subproblems"], "sizes"),
        *results(everything.found["fig-blocks"], "sizes"),
    ]
    assert len(found) >= 5 * 5 * SMALLEST.instances
    for task, result in found:
        assert sum(result["block_sizes"]) == result["records"] == SMALLEST.records
        assert len(result["block_sizes"]) == len(result["internal_sizes"]) == result["n_blocks"] <= task["n_blocks"]
        assert sum(result["internal_sizes"]) + result["n_boundary"] == SMALLEST.records
        assert sum(result["master_sizes"]) == sum(result["cross_sizes"]) == result["n_boundary"]
        # leaving pairs out can only break components apart
        assert len(result["cross_sizes"]) >= len(result["master_sizes"])
        assert result["cross_max"] <= result["master_max"]
        assert result["internal_mean"] <= SMALLEST.records / result["n_blocks"]


def test_both_tables_of_sizes_have_a_cell_for_everything(everything):
    for name, n_parts in (("table-subproblems", 2), ("table-master", 4)):
        summary = dict(everything.found[name]["summary"])
        assert set(summary.pop("paper")) == {"average", "maximum"}
        assert len(summary) == n_parts
        for cells in summary.values():
            assert len(cells) == 5 * len(PARTITIONERS)
            assert all(mean >= 0 and spread >= 0 for mean, spread in (cell["ours"] for cell in cells.values()))


def test_the_grid_of_the_published_code_has_four_neighbours(everything):
    own = [r for t, r in results(everything.found["table-master"], "sizes") if t["dataset"] == "grid 1.5"]
    assert {result["pairs"] for result in own} == {5 * 7 + 4 * 8}  # 5 x 8 cells, no diagonals
    assert len(own) == len(PARTITIONERS) * SMALLEST.instances


def test_bounds_are_bounds(everything):
    runs = results(everything.found["table-time"], "decompose")
    assert len(runs) == 2 * len(DATASETS) * len(PARTITIONERS) * SMALLEST.instances
    for task, result in runs:
        assert result["certified"]
        assert result["lower_bound"] <= result["loss"]
        assert 0 <= result["gap"] <= 1
        for step in result["steps"]:
            assert step["upper_bound"] is None or step["lower_bound"] <= step["upper_bound"]
        components = {step["component"] for step in result["steps"]}
        for component in components:
            lower = [step["lower_bound"] for step in result["steps"] if step["component"] == component]
            assert all(before <= after for before, after in pairwise(lower))
        for row in result["blocks"]:
            assert sum(row["sizes"]) + row["boundary"] <= SMALLEST.records
            assert len(row["sizes"]) == len(row["attached"]) == len(row["iterations_to_feasibility"])
        if result["is_reached"]:
            assert result["own_gap"] <= task["gap"]


def test_all_methods_agree_on_the_same_instance(everything):
    """Lower bounds of any method are below losses of every other one."""
    by_instance: dict[tuple, list[dict]] = {}
    for kind in ("decompose", "classic", "best"):
        for task, result in results(everything.found["table-time"], kind):
            by_instance.setdefault((task["dataset"], task["instance"]), []).append(result)
    assert len(by_instance) == len(DATASETS) * SMALLEST.instances
    for runs in by_instance.values():
        assert len(runs) == 2 * len(PARTITIONERS) + 3 + 1
        assert max(run["lower_bound"] for run in runs) <= min(run["loss"] for run in runs)


def test_times_and_iterations_say_what_was_not_reached(everything):
    for name in ("table-time", "table-iterations"):
        for part in ("plain", "ours", "one program"):
            for cell in everything.found[name]["summary"][part].values():
                assert 0 <= cell["reached"] <= cell["runs"] == SMALLEST.instances
                assert (cell["worst_gap"] > 0) == (cell["reached"] < cell["runs"])


def test_our_loss_is_never_above_the_exponential_mechanism(everything):
    runs = results(everything.found["fig-loss"], "best")
    assert len(runs) == (len(DATASETS) + 2) * len(SMALLEST.epsilons) * SMALLEST.instances
    for _, result in runs:
        assert result["cheapest_loss"] * (1 - 1e-12) <= result["loss"] <= result["exponential_loss"]
    for own in everything.found["fig-loss"]["summary"].values():
        assert 0 <= own["mean_reduction_percent"] <= own["most_possible_percent"] <= 100


def test_a_larger_budget_never_costs_more(everything):
    runs = results(everything.found["fig-loss"], "best")
    losses = {(t["dataset"], t["instance"], t["epsilon"]): r for t, r in runs}
    for dataset in DATASETS:
        for instance in range(SMALLEST.instances):
            strong, weak = (losses[dataset, instance, epsilon] for epsilon in SMALLEST.epsilons)
            assert weak["lower_bound"] <= strong["loss"]


@pytest.mark.parametrize("name", ["fig-size-convergence", "fig-boundary-convergence"])
def test_correlations_are_correlations(everything, name):
    summary = everything.found[name]["summary"]
    assert len(summary) == 2 * len(DATASETS)
    for own in summary.values():
        for key in ("correlation", "correlation_all"):
            assert own[key] is None or -1 <= own[key] <= 1
        assert all(method in PARTITIONERS and amount >= 0 for method, amount, _ in own["points"])
        assert all(since is None or since >= 1 for _, _, since in own["points"])


def test_the_two_figures_are_of_the_same_subproblems(everything):
    one, other = (everything.found[f"fig-{what}-convergence"]["summary"] for what in ("size", "boundary"))
    assert one
    for key, own in one.items():
        assert [p[2] for p in own["points"]] == [p[2] for p in other[key]["points"]]


def test_scaling_goes_on_for_the_faster_methods(everything):
    seconds = everything.found["fig-scaling"]["summary"]["seconds"]
    assert set(seconds["road, ours"]) == set(seconds["grid, auto"]) == {"40", "48", "60"}
    assert set(seconds["road, plain"]) == set(seconds["text, dual simplex"]) == {"40", "48"}
    assert all(cell["ours"][0] > 0 for cells in seconds.values() for cell in cells.values())


def test_fig_blocks_has_every_number_of_blocks(everything):
    summary = everything.found["fig-blocks"]["summary"]
    assert summary
    for own in summary.values():
        assert own
        assert all(list(curve) == ["3", "4"] for curve in own.values())


def test_partitions_cover_every_record(everything):
    pictures = results(everything.found["fig-partitions"], "picture")
    assert pictures
    for task, result in pictures:
        sizes = {len(result[key]) for key in ("x", "y", "block", "is_boundary")}
        assert sizes == {SMALLEST.records}
        assert set(result["block"]) == set(range(result["n_blocks"])), task


def test_times_of_single_solves(everything):
    summary = everything.found["fig-times"]["summary"]
    assert summary["paper k-m-dv mean"] == {"master": 1.505, "subproblem": 1.194}
    cells = [cell for key, cell in summary.items() if ", " in key]
    assert len(cells) == 2 * len(DATASETS) * len(PARTITIONERS)
    assert all(cell["ours"] is None or cell["ours"][0] >= 0 for cell in cells)


def test_convergence_is_that_of_the_largest_component(everything):
    summary = everything.found["fig-convergence"]["summary"]
    assert len(summary) == len(DATASETS) * len(PARTITIONERS)
    for own in summary.values():
        assert len({step["component"] for step in own["steps"]}) <= 1
        assert [step["iteration"] for step in own["steps"]] == list(range(len(own["steps"])))


def test_related_work_counts_what_was_solved(everything):
    summary = everything.found["fig-related"]["summary"]
    solved = {
        (task["dataset"], task["n"])
        for task, result in results(everything.found["fig-related"], "best")
        if result["is_reached"]
    }
    for dataset, own in summary["ours"].items():
        assert own["records"] == 0 or (dataset, own["records"]) in solved
    assert len(summary["related"]) == 11
