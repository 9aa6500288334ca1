"""The lower bound is never above what exact arithmetic gives for the same dual point."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import DATASETS, linprog_optimum, small_problem
from tests.mechanism.independent import exp_bounds

import metricdp as mdp
from metricdp.solve.bounds import RowDuals, growth_rounded_up, lower_bound


def exact_bound(prior, loss, epsilon, distances, duals) -> Fraction:
    """L(y) in fractions, with an upper enclosure of exp: a valid bound on the true optimum, without any rounding."""
    n, K = loss.shape
    value = [[Fraction(float(prior[i])) * Fraction(float(loss[i, k])) for k in range(K)] for i in range(n)]
    for tail, head, output, d, y in zip(duals.tail, duals.head, duals.output, distances, duals.y, strict=True):
        amount = max(Fraction(float(y)), Fraction(0))
        value[tail][output] += amount
        value[head][output] -= exp_bounds(Fraction(epsilon) * Fraction(float(d)))[1] * amount
    return sum(min(row) for row in value)


@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(1, 4), st.integers(0, 30))
def test_never_above_exact_arithmetic(seed, n, K, m):
    generator = np.random.default_rng(seed)
    prior = generator.dirichlet(np.ones(n))
    loss = generator.exponential(size=(n, K)) * 10.0 ** generator.integers(-8, 9, size=(n, K))
    tail = generator.integers(0, n, m)
    head = (tail + generator.integers(1, n, m)) % n
    distances, epsilon = generator.uniform(0, 3, m), float(generator.uniform(0.1, 7))
    y = generator.exponential(size=m) * 10.0 ** generator.integers(-12, 3, m) * generator.choice([1, 1, 1, -1], m)
    duals = RowDuals(tail, head, generator.integers(0, K, m), epsilon * distances, y)
    exact = exact_bound(prior, loss, epsilon, distances, duals)
    bound = lower_bound(prior[:, None] * loss, duals)
    size = float(sum(abs(v) for v in (prior[:, None] * loss).ravel())) + float(np.abs(y).sum() * np.exp(21))
    assert bound == 0.0 or Fraction(bound) <= exact
    assert bound >= float(exact) - 1e-11 * size


@pytest.mark.parametrize("dataset", DATASETS)
def test_any_dual_gives_a_valid_bound(dataset):
    problem = small_problem(dataset, seed=9)
    truth = linprog_optimum(problem)
    graph, generator = problem.graph, np.random.default_rng(0)
    for scale in (0.0, 1e-6, 1e-3, 1.0):
        m = graph.n_pairs * problem.n_outputs
        pair = np.repeat(np.arange(graph.n_pairs), problem.n_outputs)
        duals = RowDuals(
            graph.pairs[pair, 0].astype(np.int64),
            graph.pairs[pair, 1].astype(np.int64),
            np.tile(np.arange(problem.n_outputs), graph.n_pairs),
            problem.epsilon * graph.distances[pair],
            scale * generator.standard_normal(m),
        )
        assert lower_bound(problem.costs, duals) <= truth * (1 + 1e-9)


def test_the_solvers_bound_is_valid_in_exact_arithmetic():
    """A problem whose optimum is known: two records, loss 1 / (1 + e)."""
    problem = mdp.Problem(np.arange(2.0), epsilon=1.0, eta=1.0, outputs=2, loss=1.0 - np.eye(2))
    bound = Fraction(mdp.solve(problem, method="direct", gap=1e-6).lower_bound)
    low, high = exp_bounds(Fraction(1))
    assert bound <= 1 / (1 + low)
    assert bound >= 1 / (1 + high) - Fraction(1, 10**8)


UNIT = Fraction(1, 2**53)  # half a step of floats at 1
GROWTH_AT_0 = 1 + Fraction(1, 2**46)  # what stands for exp(0) = 1


@pytest.mark.parametrize("exponent", [0.0, 2.0**-60, 0.1, 1.0, 7.0, 33.3, 63.9, 64.0])
def test_the_growth_is_above_exp_by_the_stated_room(exponent):
    """At least exp by 2^-46 relative, which is above the rounding of epsilon d; and by hardly more."""
    grown = Fraction(float(growth_rounded_up(np.array([exponent]))[0]))
    low, high = exp_bounds(Fraction(exponent))
    assert grown >= high * (GROWTH_AT_0 - 4 * UNIT)
    assert grown <= low * (GROWTH_AT_0 + 4 * UNIT)


def one_row(y, *, tail_cost=None, head_cost=None, cost_roundings=1):
    """The bound of two records with the row z_00 <= exp(0) z_10; one without a cost has an output for nothing."""
    zero, one = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
    costs = np.array([[99.0, 0.0] if cost is None else [cost, 99.0] for cost in (tail_cost, head_cost)])
    return lower_bound(costs, RowDuals(zero, one, zero, np.zeros(1), np.array([y])), cost_roundings=cost_roundings)


def less(value: Fraction, roundings: int, size: Fraction) -> float:
    """What is left of an exact value after ``roundings`` + 4 roundings of its terms, and one step down for the sum."""
    return math.nextafter(float(value - (roundings + 4) * Fraction(1001, 1000) * UNIT * size), -math.inf)


def test_without_multipliers_each_record_costs_its_cheapest_output():
    """Less five roundings of a cost, one of which it carries itself."""
    assert lower_bound(np.ones((1, 1)), RowDuals.none()) == less(Fraction(1), 1, Fraction(1)) == 1 - 6 * 2.0**-53
    assert lower_bound(np.ones((1, 1)), RowDuals.none(), cost_roundings=3) == less(Fraction(1), 3, Fraction(1))
    costs = np.array([[4.0, 1.0, 2.0], [0.5, 8.0, 8.0]])
    assert lower_bound(costs, RowDuals.none()) == pytest.approx(1.5, rel=1e-14)
    assert [len(part) for part in vars(RowDuals.none()).values()] == [0] * 5


def test_a_multiplier_is_added_at_the_tail_and_grown_at_the_head():
    """Every term counts towards what rounding can have added, with the size of what was taken away as well."""
    y = Fraction(4)
    assert one_row(4.0, tail_cost=4.5) == less(Fraction("4.5") + y, 2, Fraction("8.5"))
    given = y * GROWTH_AT_0
    assert one_row(4.0, head_cost=4.5) == less(Fraction("4.5") - given, 2, Fraction("4.5") + given)
    assert one_row(4.0, head_cost=4.5, cost_roundings=7) == less(Fraction("4.5") - given, 8, Fraction("4.5") + given)


def test_a_negative_multiplier_counts_as_none():
    assert one_row(-0.5, tail_cost=4.5) == less(Fraction("4.5"), 2, Fraction("4.5"))
    assert one_row(-0.5, head_cost=4.5) == less(Fraction("4.5"), 2, Fraction("4.5"))


def test_a_bound_below_zero_says_nothing():
    assert one_row(4.0, head_cost=1.0) == 0.0


def two_costs(tail_cost, y, exponent):
    """The bound of a record that must pay, beside one that has an output for nothing, and the row between them."""
    zero, one = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
    costs = np.array([[tail_cost, 1e100], [1e100, 0.0]])
    return lower_bound(costs, RowDuals(zero, one, zero, np.array([exponent]), np.array([y])))


@pytest.mark.parametrize(
    ("exponent", "counts"),
    [(0.0, True), (64.0, True), (math.nextafter(64.0, 99.0), False), (800.0, False), (math.inf, False)],
)
def test_rows_beyond_the_exponent_64_count_as_none(exponent, counts):
    """The room above exp is made for exponents up to there."""
    assert two_costs(4.5, 4.0, exponent) == pytest.approx(8.5 if counts else 4.5, rel=1e-14)
    assert two_costs(4.5, 4.0, math.nan) == pytest.approx(4.5, rel=1e-14)


@pytest.mark.parametrize(("y", "counts"), [(1e-290, False), (math.nextafter(1e-290, 1.0), True), (math.nan, False)])
def test_multipliers_near_underflow_count_as_none(y, counts):
    assert two_costs(1e-290, y, 1.0) == pytest.approx(2e-290 if counts else 1e-290, rel=1e-14, abs=0.0)


def test_sums_from_1e290_on_prove_nothing():
    """With the cost just right, what is left of it after its roundings is exactly 1e290."""
    cost = 1e290
    while cost - 5.0 * (1.001 * 2.0**-53) * cost < 1e290:
        cost = math.nextafter(cost, math.inf)
    assert cost - 5.0 * (1.001 * 2.0**-53) * cost == 1e290
    assert lower_bound(np.array([[cost]]), RowDuals.none()) == 0.0
    below = lower_bound(np.array([[cost * (1.0 - 2.0**-50)]]), RowDuals.none())
    assert below == pytest.approx(1e290, rel=1e-14)
    assert lower_bound(np.array([[0.6e290], [0.6e290]]), RowDuals.none()) == 0.0


@pytest.mark.parametrize("y", [1e300, math.inf])
def test_multipliers_that_have_run_away_prove_nothing(y):
    assert two_costs(4.5, y, 64.0) == 0.0


class TestRowDuals:
    """Multipliers scaled and put together: what a bound makes of them is the sum of its parts."""

    part = staticmethod(
        lambda y: RowDuals(np.array([0]), np.array([1]), np.array([0]), np.array([0.5]), np.array([y], dtype=float))
    )

    def test_scaled(self):
        found = self.part(0.25).scaled(4.0)
        assert (found.y.tolist(), found.tail.tolist(), found.exponent.tolist()) == ([1.0], [0], [0.5])

    def test_joined(self):
        found = RowDuals.joined([self.part(1.0), RowDuals.none(), self.part(2.0)])
        assert found.y.tolist() == [1.0, 2.0]
        assert (found.tail.tolist(), found.head.tolist(), found.output.tolist()) == ([0, 0], [1, 1], [0, 0])
        assert found.exponent.tolist() == [0.5, 0.5]

    def test_nothing_joined_is_nothing(self):
        found = RowDuals.joined([])
        assert len(found.y) == len(found.tail) == len(found.head) == len(found.output) == len(found.exponent) == 0
