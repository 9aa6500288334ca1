"""Intervals: valid for any multipliers, as narrow as the linear program allows, and they hold."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog
from tests.conftest import DATASETS, small_problem
from tests.mechanism.sparse_tables import sparse_of

import metricdp as mdp
from metricdp.errors import InputError
from metricdp.mechanism.exact import TOTAL_BITS
from metricdp.solve.lp import LinearProgram
from metricdp.statistics import ReportCounts
from metricdp.statistics import groups as groups_module
from metricdp.statistics.channel import Channel
from metricdp.statistics.groups import output_groups
from metricdp.statistics.region import TIGHT, Region, limits


@pytest.fixture(scope="module")
def mechanism():
    return mdp.solve(small_problem("road", 5, n=30, outputs=14, exponent=1.0), gap=0.05).mechanism


def binomial_at_least(m, n, p):
    """P(X >= m) for a rational p, exactly."""
    return sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(m, n + 1))


@pytest.mark.parametrize(("m", "n"), [(0, 10), (1, 10), (10, 10), (3, 40), (60, 60), (55, 200)])
def test_limits_are_beyond_the_exact_binomial_tails(m, n):
    (low,), (high,) = limits(np.array([m]), n, 0.05)
    level = Fraction(0.05) / 2
    assert binomial_at_least(m, n, Fraction(low)) <= level or m == 0
    assert 1 - binomial_at_least(m + 1, n, Fraction(high)) <= level or m == n
    # and not by much
    if m:
        assert binomial_at_least(m, n, Fraction(low * (1 + 1e-7))) > level
    if m < n:
        assert 1 - binomial_at_least(m + 1, n, Fraction(high * (1 - 1e-7))) > level
    assert m > 0 or low == 0.0
    assert m < n or high == 1.0


def test_more_groups_share_the_level():
    one, many = limits(np.array([50]), 100, 0.05), limits(np.array([50] * 10), 100, 0.05)
    alone = limits(np.array([50]), 100, 0.005)
    assert many[0][0] == alone[0][0] < one[0][0]
    assert many[1][0] == alone[1][0] > one[1][0]


@pytest.mark.parametrize("dataset", DATASETS)
def test_groups_are_a_tree_of_all_outputs(dataset):
    problem = small_problem(dataset, 1, n=20, outputs=9)
    made = output_groups(mdp.exponential(problem)).toarray()
    assert made.shape == (9, 16)
    assert set(np.unique(made)) == {0.0, 1.0}
    assert (made[:, 0] + made[:, 1] == 1.0).all()  # the two halves
    assert {tuple(row) for row in np.eye(9)} <= {tuple(column) for column in made.T}  # each output alone
    for a in made.T:
        assert all((a * b).sum() in (0.0, min(a.sum(), b.sum())) for b in made.T)  # nested or apart


def test_the_number_of_groups_is_bounded(monkeypatch):
    monkeypatch.setattr(groups_module, "MAX_CELLS", 4)
    made = output_groups(mdp.exponential(small_problem("grid", 1, n=20, outputs=9)))
    assert made.shape == (9, 6)


def region_of(mechanism, counts, alpha=0.05):
    return Region(Channel(mechanism.table), output_groups(mechanism), counts, alpha=alpha, likely=np.arange(3))


def some_counts(mechanism, n, seed):
    generator = np.random.default_rng(seed)
    theta = generator.dirichlet(np.full(mechanism.records.n, 0.2))
    return theta, generator.multinomial(n, theta @ mechanism.probabilities)


@pytest.mark.parametrize("n", [200, 5000, 1_000_000])
def test_bounds_are_those_of_the_whole_linear_program(mechanism, n):
    _, counts = some_counts(mechanism, n, 1)
    region = region_of(mechanism, counts)
    G = mechanism.probabilities @ region.groups.toarray()
    generator = np.random.default_rng(2)
    for _ in range(4):
        question = (generator.random(mechanism.records.n) < 0.3).astype(float)
        found = region.bounds(question)
        for side, sign in zip(found, (1, -1), strict=True):
            answer = linprog(
                sign * question,
                A_ub=np.vstack((G.T, -G.T)),
                b_ub=np.concatenate((region.high, -region.low)),
                A_eq=np.ones((1, len(question))),
                b_eq=[1.0],
                options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
            )
            assert answer.status == 0
            best = sign * answer.fun
            # outside of the optimum, by a little
            assert -1e-8 <= sign * (best - side) <= TIGHT + 1e-8


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_any_multipliers_give_a_valid_bound(mechanism, seed, is_sparse):
    """In exact arithmetic, for wild multipliers too: the bound is never above the true value of the formula."""
    _, counts = some_counts(mechanism, 3000, seed)
    table = sparse_of(mechanism.table) if is_sparse else mechanism.table
    region = Region(Channel(table), output_groups(mechanism), counts, alpha=0.05, likely=np.arange(3))
    generator = np.random.default_rng(seed)
    exact = [[Fraction(int(w), 1 << TOTAL_BITS) for w in row] for row in mechanism.table]
    groups = region.groups.toarray().astype(int)
    for size in (0.0, 1.0, 1e3, 1e9):
        y = size * generator.normal(size=len(region.low))
        cost = generator.random(mechanism.records.n)
        _, bound = region._bound(cost, y)
        prices = [sum((Fraction(v) for v in y[row > 0]), Fraction(0)) for row in groups]
        true = min(
            Fraction(c) - sum(z * v for z, v in zip(row, prices, strict=True))
            for c, row in zip(cost, exact, strict=True)
        )
        true += sum(
            Fraction(v) * Fraction(low if v > 0 else high)
            for v, low, high in zip(y, region.low, region.high, strict=True)
        )
        assert Fraction(bound) <= true
        assert float(true) - bound <= 1e-12 * (1.0 + size * len(y))


def test_a_fault_of_the_solver_cannot_make_an_interval_wrong(mechanism, monkeypatch):
    theta, counts = some_counts(mechanism, 100_000, 4)
    region = region_of(mechanism, counts)
    solve = LinearProgram.solve
    generator = np.random.default_rng(0)

    def liar(program):
        answer = solve(program)
        return type(answer)(True, 0.0 * answer.x, generator.normal(size=len(answer.row_dual)), "optimal", 1)

    monkeypatch.setattr(LinearProgram, "solve", liar)
    question = (np.arange(mechanism.records.n) < 9).astype(float)
    low, high = region.bounds(question)
    assert low <= theta @ question <= high
    assert high - low > 0.05


@pytest.mark.parametrize("n", [100, 2000, 50_000])
def test_intervals_hold(mechanism, n):
    """At a level of 80 %, all questions of one run at once in far more than 80 % of 60 runs."""
    generator = np.random.default_rng(n)
    questions = [generator.choice(mechanism.records.n, size=8, replace=False) for _ in range(3)]
    held = 0
    for seed in range(20):
        theta, counts = some_counts(mechanism, n, 100 + seed)
        found = mdp.estimate(mechanism, counted(mechanism, counts), max_updates=50)
        intervals = [found.interval(rows, level=0.8) for rows in questions]
        truth = [theta[rows].sum() for rows in questions]
        held += all(one.low <= true <= one.high for one, true in zip(intervals, truth, strict=True))
        assert all(one.low <= one.estimate <= one.high for one in intervals)
    assert held >= 16


def counted(mechanism, counts):
    return ReportCounts(mechanism).add_outputs(np.repeat(np.arange(len(counts)), counts))


def test_more_reports_and_lower_levels_are_narrower(mechanism):
    theta, _ = some_counts(mechanism, 10, 6)
    widths = {}
    for n in (500, 50_000, 5_000_000):
        counts = np.round(n * theta @ mechanism.probabilities).astype(int)
        found = mdp.estimate(mechanism, counted(mechanism, counts), max_updates=50)
        for level in (0.5, 0.99):
            one = found.interval(range(8), level)
            widths[n, level] = one.high - one.low
    assert widths[500, 0.99] > 1.2 * widths[50_000, 0.99] > 1.2 * widths[5_000_000, 0.99]
    assert widths[50_000, 0.5] < widths[50_000, 0.99]


def test_reports_of_another_mechanism_are_found_out():
    """Everybody reports one corner, or the opposite one: no population of a strong mechanism does."""
    mechanism = mdp.exponential(mdp.Problem(mdp.data.grid(5, 5), epsilon=0.5, eta=1.5))
    found = mdp.estimate(mechanism, ["r00c00"] * 5000 + ["r04c04"] * 5000)
    with pytest.raises(InputError, match="no population explains these reports"):
        found.interval([0])


def test_everything_and_single_outputs():
    records = mdp.data.grid(2, 2)
    mechanism = mdp.exponential(mdp.Problem(records, epsilon=1.0, eta=1.5, outputs=[2]))
    found = mdp.estimate(mechanism, ["r01c00"] * 10)
    one = found.interval([0, 1, 2, 3])
    assert one.high == 1.0
    assert one.low == pytest.approx(1.0, abs=1e-9)
    nothing = found.interval([0])  # one output tells nothing
    assert (nothing.low, nothing.high) == (pytest.approx(0.0, abs=1e-9), 1.0)
    with pytest.raises(InputError, match="the level must be between 0 and 1"):
        found.interval([0], level=95)
