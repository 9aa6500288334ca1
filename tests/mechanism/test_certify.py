"""The exact check: sharp to one unit of 2^-63, and in agreement with a checker that shares nothing with it."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import DATASETS, small_problem
from tests.mechanism.independent import exp_bounds, is_private

import metricdp as mdp
from metricdp.mechanism import exact
from metricdp.mechanism.certify import ENCLOSURE_BITS, FLOAT_GUARD, check_privacy, exceeds, exp_enclosure
from metricdp.mechanism.exact import enclosures_of

TOTAL = 1 << 63
PAIR = np.array([[0, 1]], dtype=np.int32)


def check_two(a, b, epsilon, distance):
    return check_privacy(np.array([a, b], dtype=np.uint64), PAIR, np.array([float(distance)]), float(epsilon))


@given(st.floats(1e-9, 60.0), st.floats(1e-6, 50.0))
def test_enclosure_is_below_and_close(epsilon, distance):
    exponent = Fraction(epsilon) * Fraction(distance)
    if exponent > 60:
        exponent, epsilon = Fraction(60.0 / distance) * Fraction(distance), 60.0 / distance
    enclosure = exp_enclosure(epsilon, distance)
    low, high = exp_bounds(exponent)
    assert enclosure <= high * 2**ENCLOSURE_BITS
    assert enclosure >= low * 2**ENCLOSURE_BITS - 2


def test_numpy_exp_is_far_inside_the_guard():
    """The float filter relies on it: compare with 40 digits at many places up to 44."""
    values = np.concatenate(
        (np.random.default_rng(0).uniform(0, 44, 3000), np.linspace(0, 44, 999), 2.0 ** -np.arange(60))
    )
    with localcontext() as context:
        context.prec = 40
        worst = max(
            abs(Decimal(float(e)) / Decimal(float(x)).exp() - 1) for x, e in zip(values, np.exp(values), strict=True)
        )
    assert worst < Decimal(FLOAT_GUARD) / 64


def test_rows_must_sum_exactly():
    table = np.array([[TOTAL - 1, 0]], dtype=np.uint64)
    none = np.zeros((0, 2), dtype=np.int32)
    wrong = check_privacy(table, none, np.zeros(0), 1.0)
    assert not wrong.certified
    assert str(TOTAL - 1) in wrong.fault
    overflow = np.array([[TOTAL, TOTAL, TOTAL]], dtype=np.uint64)  # 2^63 again modulo 2^64
    assert not check_privacy(overflow, none, np.zeros(0), 1.0).certified
    assert check_privacy(np.array([[TOTAL, 0]], dtype=np.uint64), none, np.zeros(0), 1.0).certified


def test_zero_beside_a_positive_probability_is_refused_at_any_epsilon():
    for exponent in (1.0, 40.0, 50.0, 700.0, 1e6, 1e300):
        check = check_two([TOTAL, 0], [TOTAL - 1, 1], exponent, 1.0)
        assert not check.certified
        assert check.tightest_epsilon == math.inf


def test_one_unit_is_enough_beyond_overflow():
    for exponent in (44.0, 50.0, 700.0, 710.0, 1e6, 1e300):
        assert check_two([TOTAL - 1, 1], [1, TOTAL - 1], exponent, 1.0).certified
    assert not check_two([TOTAL - 1, 1], [1, TOTAL - 1], 43.6, 1.0).certified


def test_distance_zero_means_equal():
    assert check_two([TOTAL - 5, 5], [TOTAL - 5, 5], 1.0, 0.0).certified
    check = check_two([TOTAL - 5, 5], [TOTAL - 6, 6], 1.0, 0.0)
    assert not check.certified
    assert check.tightest_epsilon == math.inf


def largest_allowed(smaller: int, epsilon: float, distance: float) -> int:
    return exp_enclosure(epsilon, distance) * smaller >> ENCLOSURE_BITS


@pytest.mark.parametrize("exponent", [1e-6, 1e-3, 0.5, 1.0, 5.0, 16.0, 20.0, 34.0])
def test_sharp_to_one_unit(exponent):
    """The largest allowed weight passes, one more does not."""
    for smaller in (1, 2, 7, 1000, 2**20 + 1, 2**40 + 3, int(TOTAL / (4 * math.exp(exponent)))):
        if smaller < 1:
            continue
        larger = largest_allowed(smaller, exponent, 1.0)
        rest = TOTAL - larger
        if not 0 < larger < TOTAL // 2:
            continue
        assert check_two([larger, rest], [smaller, TOTAL - smaller], exponent, 1.0).certified
        broken = check_two([larger + 1, rest - 1], [smaller, TOTAL - smaller], exponent, 1.0)
        assert not broken.certified
        assert broken.n_decided_exactly > 0


def limbs(enclosures):
    return np.array([[e >> (32 * limb) & 0xFFFFFFFF for e in enclosures] for limb in range(5)], dtype=np.uint64)


@given(st.integers(0, 2**32 - 1))
def test_comparisons_in_limbs_are_those_of_whole_numbers(seed):
    """Weights and factors of all lengths, with all bits set too, and the weights on both sides of the bound."""
    generator = np.random.default_rng(seed)

    def number(bits):
        length = int(generator.integers(0, bits + 1))
        value = int.from_bytes(generator.bytes(bits // 8 + 1), "little") >> (8 * (bits // 8 + 1) - length)
        return (1 << length) - 1 if generator.random() < 0.2 else value

    rows = []
    for _ in range(40):
        enclosure, y = min(2**96 + number(160), 2**160 - 1), min(number(64), TOTAL)
        edge = enclosure * y >> 96
        rows += [(min(max(x, 0), 2**64 - 1), y, enclosure) for x in (edge - 1, edge, edge + 1, number(64))]
    x, y, enclosure = zip(*rows, strict=True)
    found = exceeds(np.array(x, dtype=np.uint64), np.array(y, dtype=np.uint64), limbs(enclosure))
    assert found.tolist() == [a << 96 > e * b for a, b, e in rows]


@pytest.mark.parametrize("exponent", [0.0, 1e-9, 1.0, 43.9, 44.0, 44.0000001, 44.9, 50.0, 1e300])
def test_factors_in_limbs_are_those_of_whole_numbers(exponent):
    """From exp(44) on 2^63 stands for it, which is less: a factor is never more than the true one."""
    enclosure = exp_enclosure(exponent, 1.0) if exponent <= 44.0 else TOTAL << ENCLOSURE_BITS
    distances = np.array([7.0, exponent, 0.5])
    found = enclosures_of(1.0, distances, np.array([1, 2, 1]))
    assert found.tolist() == limbs([enclosure, exp_enclosure(1.0, 0.5), enclosure]).tolist()


def test_only_factors_in_doubt_are_computed_and_each_once(monkeypatch):
    asked = []
    original = exact.exp_enclosure
    monkeypatch.setattr(exact, "exp_enclosure", lambda *both: asked.append(both) or original(*both))
    enclosures_of(2.0, np.array([7.0, 3.0, 0.5, 3.0]), np.array([1, 1, 3, 2]))
    assert sorted(asked) == [(2.0, 0.5), (2.0, 3.0)]


def test_only_doubtful_entries_are_decided_by_integers():
    """One entry of a hundred is at its limit: one comparison, not two hundred."""
    table = np.full((2, 100), TOTAL // 100, dtype=np.uint64)
    table[:, 1] = 2**50
    table[0, 1] = largest_allowed(2**50, 1.0, 1.0)
    table[:, 0] += np.uint64(TOTAL) - table.sum(axis=1, dtype=np.uint64)
    check = check_privacy(table, PAIR, np.ones(1), 1.0)
    assert (check.certified, check.n_decided_exactly, check.n_cleared_by_filter) == (True, 1, 199)


def test_equal_rows_at_distance_zero_need_no_integers():
    table = np.full((2, 2), TOTAL // 2, dtype=np.uint64)
    check = check_privacy(table, PAIR, np.zeros(1), 1.0)
    assert (check.certified, check.n_decided_exactly) == (True, 0)


def test_mutations_of_tight_entries_are_all_rejected():
    """The smallest change that breaks an entry, at 10,000 random places of solved mechanisms."""
    generator = np.random.default_rng(11)
    rejected = tried = 0
    mechanisms = [
        mdp.solve(small_problem(name, seed=2, n=14, outputs=6, exponent=e), gap=1e-3).mechanism
        for name in DATASETS
        for e in (0.5, 3.0)
    ]
    mechanisms = [m for m in mechanisms if m.graph.n_pairs]
    while tried < 10_000:
        mechanism = mechanisms[generator.integers(len(mechanisms))]
        p = int(generator.integers(mechanism.graph.n_pairs))
        i, j = mechanism.graph.pairs[p] if generator.random() < 0.5 else mechanism.graph.pairs[p][::-1]
        k = int(generator.integers(mechanism.outputs.n))
        distance = float(mechanism.graph.distances[p])
        rows = [[int(v) for v in mechanism.table[r]] for r in (i, j)]
        limit = largest_allowed(rows[1][k], mechanism.epsilon, distance)
        donor = max((o for o in range(len(rows[0])) if o != k), key=lambda o: rows[0][o])
        if rows[1][k] == 0 or limit + 1 - rows[0][k] >= rows[0][donor]:
            continue  # there is nothing to take the mass from
        rows[0][donor] -= limit + 1 - rows[0][k]
        rows[0][k] = limit + 1
        tried += 1
        rejected += not check_two(*rows, mechanism.epsilon, distance).certified
    assert rejected == tried


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("exponent", [0.1, 1.0, 8.0])
def test_agrees_with_the_independent_checker(dataset, exponent):
    problem = small_problem(dataset, seed=5, n=10, outputs=5, exponent=exponent)
    mechanism = mdp.solve(problem, gap=1e-3).mechanism
    graph = problem.graph
    for factor in (1.0, 1.0 - 1e-9, 0.9):
        ours = check_privacy(mechanism.table, graph.pairs, graph.distances, problem.epsilon * factor).certified
        assert ours == is_private(mechanism.table, graph.pairs, graph.distances, problem.epsilon * factor)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-6, 0.1, 1.0, 5.0, 30.0, 45.0]))
def test_agrees_with_the_independent_checker_on_random_tables(seed, exponent):
    """Tables on the edge: one entry at the largest allowed weight plus -1, 0 or 1."""
    generator = np.random.default_rng(seed)
    smaller = int(generator.integers(1, 2 ** int(generator.integers(1, 40))))
    larger = min(largest_allowed(smaller, exponent, 1.0) if exponent < 44 else 2**62, 2**62)
    larger += int(generator.integers(-1, 2))
    rows = [[larger, TOTAL - larger], [smaller, TOTAL - smaller]]
    if larger < 0:
        return
    table = np.array(rows, dtype=np.uint64)
    ours = check_privacy(table, PAIR, np.ones(1), exponent).certified
    assert ours == is_private(table, PAIR, np.ones(1), exponent)


def test_tightest_epsilon_holds_and_is_tight():
    problem = small_problem("gaussian", seed=8, n=12)
    graph, table = problem.graph, mdp.exponential(problem).table
    tightest = check_privacy(table, graph.pairs, graph.distances, problem.epsilon).tightest_epsilon
    assert check_privacy(table, graph.pairs, graph.distances, tightest).certified
    assert not check_privacy(table, graph.pairs, graph.distances, tightest * (1 - 1e-9)).certified


def test_worst_pair_is_the_worst():
    problem = small_problem("grid", seed=1)
    mechanism = mdp.exponential(problem)
    worst = mechanism.certificate.privacy.worst
    P, graph = mechanism.probabilities, problem.graph
    rates = np.abs(np.log(P[graph.pairs[:, 0]]) - np.log(P[graph.pairs[:, 1]])).max(axis=1) / graph.distances
    loss = math.log(P[worst.i, worst.output] / P[worst.j, worst.output]) / worst.distance
    assert loss == pytest.approx(rates.max(), rel=1e-9)


def test_a_mechanism_that_does_not_pass_cannot_be_made():
    problem = mdp.Problem(mdp.data.grid(1, 2), epsilon=1.0, eta=1.0, outputs=2)
    with pytest.raises(mdp.CertificationError, match="not 1-mDP"):
        mdp.Mechanism.of(problem, np.eye(2, dtype=np.uint64) << np.uint64(63))
    with pytest.raises(mdp.InputError, match="uint64"):
        mdp.Mechanism.of(problem, np.eye(2))


def test_a_table_cannot_be_changed_afterwards():
    mechanism = mdp.exponential(small_problem("grid", seed=1))
    with pytest.raises(ValueError, match="read-only"):
        mechanism.table[0, 0] = 1


def test_a_certified_table_cannot_be_changed_from_outside():
    problem = small_problem("grid", seed=1)
    outer = np.concatenate([mdp.exponential(problem).table] * 2)
    mechanism = mdp.Mechanism.of(problem, outer[: problem.n_records])
    before = mechanism.table.copy()
    outer[:] = 0
    assert np.array_equal(mechanism.table, before)


def test_copies_are_certified_again():
    mechanism = mdp.exponential(small_problem("grid", seed=1))
    for again in (copy.deepcopy(mechanism), pickle.loads(pickle.dumps(mechanism))):  # noqa: S301
        assert np.array_equal(again.table, mechanism.table)
        assert not again.table.flags.writeable
    again, (kind, parts, is_from_file) = mechanism.__reduce__()
    spoiled = np.zeros_like(mechanism.table)
    spoiled[:, 0] = 1 << 63
    spoiled[0] = np.roll(spoiled[0], 1)
    with pytest.raises(mdp.CertificationError):
        again(kind, (spoiled, *parts[1:]), is_from_file)


def test_claims_of_a_file_remain_claims_in_copies(tmp_path):
    mechanism = mdp.solve(mdp.Problem(mdp.data.grid(2, 3), epsilon=1.0, eta=1.0)).mechanism
    assert "Optimal within" in str(copy.deepcopy(mechanism).certificate)
    mechanism.save(tmp_path / "made.mdp")
    loaded = mdp.load(tmp_path / "made.mdp")
    for again in (copy.deepcopy(loaded), pickle.loads(pickle.dumps(loaded))):  # noqa: S301
        assert again.certificate.is_from_file
        assert str(again.certificate) == str(loaded.certificate)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"epsilon": np.nan}, "positive and finite"),
        ({"epsilon": -1.0}, "positive and finite"),
        ({"eta": 0.0}, "eta must be positive"),
        ({"eta": 50.0}, "not those within eta"),
        ({"metric": "guess"}, "unknown metric"),
        ({"graph": mdp.metric.MdpGraph(3, np.zeros((0, 2), dtype=np.int32), np.zeros(0))}, "graph is of 3 records"),
    ],
)
def test_claims_are_checked(change, part):
    mechanism = mdp.exponential(mdp.Problem(mdp.data.grid(3, 3), epsilon=1.0, eta=1.0, outputs=4))
    with pytest.raises((mdp.InputError, mdp.CertificationError), match=part):
        dataclasses.replace(mechanism, **change)
