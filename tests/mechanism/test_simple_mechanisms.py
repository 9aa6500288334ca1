"""The mechanisms that are given by a formula: their numbers, and the budget at which each is certified."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

import metricdp as mdp
from metricdp.mechanism import baselines
from metricdp.mechanism.baselines import (
    certified_as_it_is,
    constant_matrix,
    decay_logarithms,
    exponential_matrix,
    planar_laplace,
    tightest_budget,
    uniform,
)
from metricdp.metric import MdpGraph


def line(*places, outputs, epsilon=1.0, eta=math.inf, **more):
    return mdp.Problem(np.array(places, dtype=float), epsilon=epsilon, eta=eta, outputs=outputs, **more)


def test_the_exponential_mechanism_is_its_formula():
    """exp(-epsilon d / 2), normalised: distances 0, 1 and 3 at epsilon 2 give weights 1, e^-1 and e^-3."""
    problem = line(0.0, 1.0, 3.0, outputs=[0, 1, 2], epsilon=2.0)
    weights = [[1.0, math.exp(-1), math.exp(-3)], [math.exp(-1), 1.0, math.exp(-2)], [math.exp(-3), math.exp(-2), 1.0]]
    expected = [[w / sum(row) for w in row] for row in weights]
    assert exponential_matrix(problem) == pytest.approx(np.array(expected), rel=1e-14)
    mechanism = mdp.exponential(problem)
    assert mechanism.probabilities == pytest.approx(np.array(expected), rel=1e-8)
    assert (mechanism.solver, mechanism.epsilon) == ("exponential", 2.0)


def test_the_exponential_mechanism_goes_by_distances_whatever_the_losses_are():
    problem = line(0.0, 1.0, outputs=2, loss=np.ones((2, 2)))
    share = 1.0 / (1.0 + math.exp(-0.5))
    assert exponential_matrix(problem) == pytest.approx(np.array([[share, 1 - share], [1 - share, share]]), rel=1e-14)


def test_far_outputs_do_not_underflow_nor_overflow():
    assert exponential_matrix(line(0.0, 5_000.0, outputs=[0, 1])).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert decay_logarithms(np.array([[0.0, 5_000.0]]), 1.0).tolist() == [[0.0, -5_000.0]]
    problem = line(0.0, 5_000.0, 5_001.0, outputs=[1, 2])
    share = 1.0 / (1.0 + math.exp(-0.5))
    assert exponential_matrix(problem)[0] == pytest.approx([share, 1.0 - share], rel=1e-12)
    logarithms = decay_logarithms(np.array([[5_000.0, 5_002.0], [2.0, 1.0]]), 0.5)
    share = 1.0 / (1.0 + math.exp(-1.0))
    assert np.exp(logarithms[0]) == pytest.approx([share, 1.0 - share], rel=1e-12)
    share = 1.0 / (1.0 + math.exp(-0.5))
    assert np.exp(logarithms[1]) == pytest.approx([1.0 - share, share], rel=1e-12)


@pytest.mark.parametrize("entries", [1, 2, 4, 5, 1 << 20])
def test_the_tightest_budget_is_the_largest_loss_per_distance(monkeypatch, entries):
    """In blocks of pairs of any size, also when the largest loss is in the first or the last one."""
    monkeypatch.setattr(baselines, "PAIRS_AT_ONCE", entries)
    logarithms = np.array([[-1.0, -2.0], [-1.5, -1.0], [-9.0, -1.0], [-9.0, -1.0], [-9.0, -1.0]])
    pairs = np.array([[0, 1], [1, 2], [2, 3], [3, 4]], dtype=np.int32)
    distances = np.array([0.5, 5.0, 1.0, 0.0])
    assert tightest_budget(logarithms, MdpGraph(5, pairs, distances)) == 2.0  # 1.0 / 0.5 against 7.5 / 5
    turned = MdpGraph(5, 4 - pairs[::-1, ::-1], distances[::-1])
    assert tightest_budget(logarithms[::-1], turned) == 2.0
    assert tightest_budget(logarithms, MdpGraph(5, pairs[2:], distances[2:])) == 0.0
    assert tightest_budget(logarithms, MdpGraph(5, pairs[:0], distances[:0])) == 0.0
    near = np.array([0.5, 0.0])
    assert tightest_budget(logarithms, MdpGraph(5, pairs[:2], near)) == math.inf


@pytest.mark.parametrize(("entries", "sizes"), [(1, [1] * 5), (3, [1] * 5), (4, [2, 2, 1]), (11, [5])])
def test_pairs_are_looked_at_in_blocks_of_so_many_entries(monkeypatch, entries, sizes):
    """Two outputs each: a block takes no more memory than its entries, and at least one pair."""
    monkeypatch.setattr(baselines, "PAIRS_AT_ONCE", entries)
    taken = []

    class Noted(np.ndarray):
        def __getitem__(self, part):
            taken.append(len(range(len(self))[part]))
            return np.asarray(self)[part]

    pairs = np.array([[0, 1]] * 5, dtype=np.int32).view(Noted)
    graph = SimpleNamespace(n_pairs=5, pairs=pairs, distances=np.ones(5))
    assert tightest_budget(np.array([[0.0, -1.0], [-3.0, -1.0], [0.0, 0.0]]), graph) == 3.0
    assert taken == sizes


@pytest.mark.parametrize(
    ("loss", "epsilon"),
    [(0.5, 1.0), (1.0, 1.0), (1.0 + 0.9e-9, 1.0), (1.0 + 1.2e-9, 1.0 + 2.2e-9), (1.5, 1.5 + 1.5e-9)],
)
def test_a_formula_is_certified_at_the_least_budget_that_it_satisfies(loss, epsilon):
    """At the problem's own budget, if that is exceeded by rounding only."""
    problem = line(0.0, 1.0, outputs=2)
    low = 0.5 * math.exp(-loss)
    logarithms = np.log([[0.5, 0.5], [low, 1.0 - low]])
    mechanism = certified_as_it_is(problem, logarithms, solver="formula")
    assert mechanism.epsilon == pytest.approx(epsilon, rel=1e-13)
    assert (mechanism.epsilon == 1.0) == (epsilon == 1.0)
    assert mechanism.probabilities == pytest.approx(np.exp(logarithms), rel=2e-9)
    assert mechanism.solver == "formula"


def test_a_budget_that_is_exceeded_by_just_a_billionth_is_exceeded_by_rounding():
    most = 1.0 + 1e-9
    equal = np.array([[0.0, 0.0], [-most, -most]])  # the same mechanism for both once it is normalised
    assert certified_as_it_is(line(0.0, 1.0, outputs=2), equal, solver="formula").epsilon == 1.0
    above = equal * np.nextafter(1.0, 2.0)
    assert certified_as_it_is(line(0.0, 1.0, outputs=2), above, solver="formula").epsilon > most


def test_a_formula_that_tells_equal_records_apart_has_no_budget():
    problem = line(0.0, 0.0, 1.0, outputs=2)
    logarithms = np.log([[0.5, 0.5], [0.4, 0.6], [0.4, 0.6]])
    with pytest.raises(mdp.InputError, match="the formula mechanism tells records at distance 0 apart.*use a metric"):
        certified_as_it_is(problem, logarithms, solver="formula")


def test_planar_laplace_is_its_formula():
    """exp(-epsilon d) normalised over the outputs; two records at distance 1 at epsilon 1 are e / e^-1 apart."""
    mechanism = planar_laplace(line(0.0, 1.0, outputs=2))
    share = 1.0 / (1.0 + math.exp(-1.0))
    expected = np.array([[share, 1.0 - share], [1.0 - share, share]])
    assert mechanism.probabilities == pytest.approx(expected, rel=1e-8)
    assert mechanism.epsilon == 1.0
    mechanism = planar_laplace(line(0.0, 1.0, 2.0, outputs=3))
    sums = (1.0 + math.exp(-1.0) + math.exp(-2.0), 1.0 + 2.0 * math.exp(-1.0))
    assert mechanism.epsilon == pytest.approx(1.0 + math.log(sums[1] / sums[0]), rel=1e-8)


@pytest.mark.parametrize("n_outputs", [1, 2, 3, 5, 7])
def test_the_uniform_mechanism_gives_the_rest_to_the_first_outputs(n_outputs):
    problem = line(*range(7), outputs=n_outputs)
    share, rest = divmod(2**63, n_outputs)
    mechanism = uniform(problem)
    assert mechanism.table.tolist() == [[share + 1] * rest + [share] * (n_outputs - rest)] * 7
    assert mechanism.certificate.privacy.tightest_epsilon < 1e-9
    assert mechanism.solver == "uniform"


def test_the_constant_mechanism_reports_the_one_best_output():
    """The sum over all records counts: no single record's nearest output is the middle one."""
    loss = np.array([[0.0, 1.0, 9.0], [9.0, 1.0, 0.0]])
    problem = line(0.0, 1.0, outputs=[[0.0], [0.5], [1.0]], loss=loss)
    assert constant_matrix(problem).tolist() == [[0.0, 1.0, 0.0]] * 2
