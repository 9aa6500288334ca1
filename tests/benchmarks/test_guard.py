"""Work counters of the smallest instances against stored ratios, with generous bands: no clock is looked at."""

import json
from pathlib import Path

import pytest
from benchmarks.instances import Instance

import metricdp as mdp
from metricdp.metric.sparsify import prune_implied

STORED = json.loads((Path(__file__).parent / "ratios.json").read_text())
BAND = 4.0
INSTANCES = {
    "grid": Instance("grid", 48, 24, 1.0),
    "road": Instance("road", 48, 24, 2.0),
}


def last(result, stage, key):
    return max(row[key] for row in result.trace.rows if row["stage"] == stage)


def counters(instance):
    """Ratios of work: of a method at two gaps, or of what it did to what there was."""
    problem = instance.problem()
    direct = mdp.solve(problem, method="direct", gap=1e-6)
    coarse = mdp.solve(problem, method="first-order", gap=0.05)
    fine = mdp.solve(problem, method="first-order", gap=0.005)
    columns = mdp.solve(problem, method="columns", gap=0.001)
    benders = mdp.solve(
        problem, method="benders", options=mdp.BendersOptions(partition="k-m-rec", n_blocks=3), gap=0.01
    )
    for result in (direct, coarse, fine, columns, benders):
        assert result.status.value == "optimal", result
    rows = 2 * prune_implied(problem.graph).n_pairs * problem.n_outputs
    return {
        "lazy rows / all rows": last(direct, "direct", "rows") / rows,
        "rounds of lazy rows": direct.iterations,
        "first-order steps to 0.5 % / to 5 %": fine.iterations / coarse.iterations,
        "first-order steps / records": fine.iterations / problem.n_records,
        "1 + rounds of columns": 1 + columns.iterations,
        "iterations of benders": benders.iterations,
    }


@pytest.mark.parametrize("name", INSTANCES)
def test_work_is_within_the_stored_bands(name):
    found = counters(INSTANCES[name])
    stored = STORED[name]
    assert found.keys() == stored.keys()
    off = {
        key: (value, stored[key])
        for key, value in found.items()
        if not stored[key] / BAND <= value <= stored[key] * BAND
    }
    assert not off, f"work differs more than {BAND:g} times from what is stored (found, stored): {off}"


CHOICES = {
    "small, weak privacy": (Instance("grid", 48, 48, 4.0), 0.01, {"interior"}),
    "small, strong privacy": (Instance("road", 48, 24, 0.5), 0.01, {"interior"}),
    "small, a small gap": (Instance("road", 120, 48, 0.5), 2e-4, {"interior"}),
    "a rough gap of a larger problem": (Instance("road", 300, 100, 4.0), 0.02, {"first-order"}),
    "words, strong privacy": (Instance("text", 300, 100, 0.2, 22), 0.001, {"interior"}),
    "a small gap of a larger problem": (Instance("road", 300, 100, 4.0), 2e-4, {"first-order", "interior"}),
}


@pytest.mark.parametrize("name", CHOICES)
def test_auto_chooses_what_was_measured_to_be_best(name):
    instance, gap, expected = CHOICES[name]
    result = mdp.solve(instance.problem(), gap=gap)
    large = max(row["records"] for row in result.trace.rows if row["stage"] == "choice")
    choices = [row for row in result.trace.rows if row["stage"] == "choice"]
    assert {row["method"] for row in choices if row["records"] == large} == expected
    assert result.status.value == "optimal"
