"""The method on windows, through the facade: it agrees with whole matrices, and its tables are exactly private."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import DATASETS, exponents, linprog_optimum, small_problem
from tests.solve.local.exact import fault, loss_of

import metricdp as mdp
from metricdp.errors import InputError
from metricdp.mechanism.sparse import SparseTable
from metricdp.problem.memory_model import held_bytes
from metricdp.solve.contract import Ended, FoundTable
from metricdp.solve.solvers.local import Local
from metricdp.solve.solvers.local.counts import LocalCounts, prediction

GAP = 0.02
CITY = mdp.data.road("gothenburg")


def check_agreement(problem: mdp.Problem, **options: object) -> None:
    """Solve on windows and on whole matrices: both bounds are below both losses."""
    windows = mdp.solve(problem, method="local", gap=GAP, **options)
    whole = mdp.solve(problem, method="interior", gap=1e-3)
    assert isinstance(windows.mechanism.table, SparseTable)
    assert windows.mechanism.certificate.privacy.certified
    assert windows.status is mdp.Status.OPTIMAL
    assert windows.lower_bound <= whole.loss * (1 + 1e-9)
    assert whole.lower_bound <= windows.loss * (1 + 1e-9)
    assert windows.gap <= GAP


@settings(max_examples=40)
@given(
    dataset=st.sampled_from(DATASETS),
    seed=st.integers(0, 999),
    exponent=exponents(0.3, 4.0),
    n=st.integers(2, 30),
    uniform=st.booleans(),
)
def test_agrees_with_an_independent_program(dataset, seed, exponent, n, uniform):
    problem = small_problem(dataset, seed=seed, n=n, outputs=n, exponent=exponent)
    if not uniform:
        prior = np.random.default_rng(seed).uniform(0.1, 1.0, size=n)
        records = problem.records.with_prior(prior)
        problem = mdp.Problem(records, epsilon=problem.epsilon, eta=problem.eta, loss=problem.loss)
    result = mdp.solve(problem, method="local", gap=GAP)
    truth = linprog_optimum(problem)
    # steps are slow on a few scattered records: what is proved holds, and the status says whether it is enough
    assert (result.status is mdp.Status.OPTIMAL) == (result.gap <= GAP)
    assert result.lower_bound <= truth * (1 + 1e-7)
    assert result.loss >= truth * (1 - 1e-7)
    table = result.mechanism.table
    assert not fault(table, problem.graph, problem.epsilon)
    assert loss_of(table, problem.loss, problem.records.prior) <= result.loss * (1 + 1e-12)


def test_bounds_hold_for_very_uneven_priors():
    """Steps are slow where some records are a million times as likely as others; what is proved holds all the same."""
    problem = small_problem("road", seed=0, n=17, outputs=17, exponent=3.0)
    prior = np.random.default_rng(0).exponential(size=17) ** 4
    problem = mdp.Problem(
        problem.records.with_prior(prior), epsilon=problem.epsilon, eta=problem.eta, loss=problem.loss
    )
    options = mdp.LocalOptions(max_iterations=3_000)
    result = mdp.solve(problem, method="local", gap=GAP, options=options)
    truth = linprog_optimum(problem)
    assert result.lower_bound <= truth * (1 + 1e-7)
    assert result.loss >= truth * (1 - 1e-7)
    assert not fault(result.mechanism.table, problem.graph, problem.epsilon)


@pytest.mark.parametrize("epsilon", [4.0, 20.0])
@pytest.mark.parametrize("loss", ["distance", "travel"])
def test_neighbourhoods_of_a_city(epsilon, loss):
    records = CITY.nearest((57.7072, 11.9668), 90)
    check_agreement(mdp.Problem(records, epsilon=epsilon, eta=0.25, loss=loss))


def one_of_a_hundred(number: int) -> mdp.Problem:
    """A random problem in which every record is an output: places, a grid, words or Gaussian vectors in turn."""
    dataset, random = DATASETS[number % 4], np.random.default_rng(number)
    n, exponent = int(random.integers(20, 301)), 10.0 ** random.uniform(np.log10(0.5), np.log10(4.0))
    if dataset != "grid":
        return small_problem(dataset, seed=number, n=n, outputs=n, exponent=exponent)
    records = mdp.data.grid(15, 20, n=n, seed=number)
    return mdp.Problem(records, epsilon=exponent / 2.0, eta=3.0, outputs=n)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(100))
def test_a_hundred_problems_of_up_to_300_records(number):
    """Both solvers enclose the same optimum, and plain whole numbers find every table private."""
    problem = one_of_a_hundred(number)
    options = mdp.LocalOptions(max_iterations=5_000)
    windows = mdp.solve(problem, method="local", gap=GAP, options=options)
    whole = mdp.solve(problem, method="first-order", gap=0.03)
    found = f"number {number}, {problem!r}: {windows!r} after {windows.iterations} steps; {whole!r}"
    found += f"; {[row for row in whole.trace.rows if 'trouble' in row or row['stage'] == 'gave up']}"
    assert whole.status is mdp.Status.OPTIMAL, found
    assert (windows.status is mdp.Status.OPTIMAL) == (windows.gap <= GAP), found
    assert windows.lower_bound <= whole.loss * (1 + 1e-9), found
    assert whole.lower_bound <= windows.loss * (1 + 1e-9), found
    wrong = fault(windows.mechanism.table, problem.graph, problem.epsilon)
    assert not wrong, f"{found}: {wrong}"


def test_fewer_outputs_than_records_and_other_points():
    records = CITY.nearest((57.7072, 11.9668), 60)
    rows = list(range(0, 60, 3))
    points = records.coordinates[::2] + 1e-4
    for outputs in (rows, points):
        check_agreement(mdp.Problem(records, epsilon=10.0, eta=0.3, outputs=outputs, loss="distance"))


def test_same_table_whatever_the_threads():
    problem = mdp.Problem(CITY.nearest((57.7072, 11.9668), 120), epsilon=12.0, eta=0.25, loss="distance")
    one, two = (mdp.solve(problem, method="local", gap=GAP, threads=t).mechanism.table for t in (1, 2))
    for name in ("indptr", "columns", "weights", "background", "scale"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name


def test_one_record_and_records_alone():
    one = mdp.Problem(mdp.Records([[1.0, 2.0]]), epsilon=1.0, eta=1.0)
    assert mdp.solve(one, method="local").loss == 0.0
    far = mdp.Records([[0.0, 0.0], [0.0, 10.0], [10.0, 0.0]], kind="vectors")
    apart = mdp.solve(mdp.Problem(far, epsilon=1.0, eta=1.0), method="local")
    assert apart.loss == 0.0
    assert apart.mechanism.perturb(["1", "2"], allow_unprotected=True) == ["1", "2"]


def test_places_that_coincide_share_a_row():
    points = np.repeat(CITY.nearest((57.7072, 11.9668), 20).coordinates, 3, axis=0)
    problem = mdp.Problem(mdp.Records(points), epsilon=10.0, eta=0.4, loss="distance")
    table = mdp.solve(problem, method="local", gap=GAP).mechanism.table
    dense = table.block()
    assert np.array_equal(dense[0], dense[1])
    assert not fault(table, problem.graph, problem.epsilon)


@pytest.mark.parametrize("limit", [1e-9, 0.05])
def test_a_time_limit_still_gives_a_certified_mechanism(limit):
    problem = mdp.Problem(CITY.nearest((57.7072, 11.9668), 200), epsilon=7.0, eta=0.3, loss="distance")
    result = mdp.solve(problem, method="local", gap=1e-6, time_limit=limit)
    assert result.status is mdp.Status.LIMIT
    assert result.mechanism.certificate.privacy.certified
    assert 0.0 <= result.lower_bound <= result.loss


def test_a_start_is_refused():
    problem = mdp.Problem(mdp.data.grid(3, 3), epsilon=1.0, eta=1.5)
    with pytest.raises(InputError, match="'local' makes its own start"):
        mdp.solve(problem, method="local", start=np.full((9, 9), 1 / 9))


def test_windows_that_do_not_fit_are_refused():
    records = CITY.nearest((57.7072, 11.9668), 1000)
    limit = held_bytes() / 1e9 + 0.12
    problem = mdp.Problem(records, epsilon=7.0, eta=0.3, loss="distance", memory_limit=limit)
    with pytest.raises(InputError, match=r"'local' would need about .* GB for the windows of 1,000 records"):
        mdp.solve(problem, method="local")


def test_auto_takes_windows_where_they_are_small():
    problem = mdp.Problem(CITY.nearest((57.7072, 11.9668), 900), epsilon=40.0, eta=0.12, loss="distance")
    result = mdp.solve(problem, gap=0.05)
    assert result.mechanism.is_sparse
    assert any(row.get("method") == "local" for row in result.trace.rows)
    few = mdp.Problem(CITY.nearest((57.7072, 11.9668), 60), epsilon=40.0, eta=0.12, loss="distance")
    assert not mdp.solve(few, gap=0.05).mechanism.is_sparse


def test_strong_privacy_is_announced_with_its_cost():
    problem = mdp.Problem(CITY.nearest((57.7072, 11.9668), 60), epsilon=0.5, eta=0.4, loss="distance")
    rows = []
    mdp.solve(problem, method="local", gap=0.3, listener=rows.append)
    (choice,) = [row for row in rows if row["stage"] == "choice"]
    said = "windows hold 100 % of 60 x 60 entries, so hardly anything can be left out at this epsilon"
    assert choice["reason"].startswith(f"{said}: a gap of 30 % takes about 1 s of one core and 0.")
    assert rows.index(choice) < [row["stage"] for row in rows].index("windows")


def test_full_windows_name_what_costs_less():
    counts = LocalCounts(
        entries=4e8,
        multipliers=8e10,
        table_entries=4e8,
        full_entries=4e8,
        seconds_per_step=168.0,
        steps=500.0,
        seconds_of_looks=0.0,
        n_bytes=7e11 - 15e7,
    )
    assert prediction(counts, 20_000, 20_000, 0.02) == (
        "windows hold 100 % of 20,000 x 20,000 entries, so hardly anything can be left out at this epsilon: a gap of "
        "2 % takes about 46.7 hours of one core and 700.0 GB; fewer outputs, a larger epsilon or a larger gap cost less"
    )
    small = replace(counts, entries=4e6, seconds_per_step=1.0)
    assert prediction(small, 20_000, 20_000, 0.02) == (
        "windows hold 1.0 % of 20,000 x 20,000 entries: a gap of 2 % takes about 17 minutes of one core and 700.0 GB"
    )


def test_a_refuted_bound_is_a_fault(monkeypatch):
    """A bound above the loss of a certified table is never shown as a gap of zero."""
    problem = small_problem("road", seed=0, n=12, outputs=12, exponent=3.0)
    real = mdp.solve(problem, method="local", gap=0.5)

    def lying(self, problem, context):
        return FoundTable(real.mechanism.table, real.loss, 2.0 * real.loss, 1, Ended.REACHED)

    monkeypatch.setattr(Local, "solve", lying)
    with pytest.raises(mdp.MetricDPError, match="claimed a lower bound"):
        mdp.solve(problem, method="local", gap=0.5)
