"""The exact check of sparse tables: as sharp as that of dense ones, and in agreement with plain whole numbers."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.mechanism.independent import exp_bounds, is_private
from tests.mechanism.sparse_tables import (
    TOTAL,
    Plain,
    filled_up,
    is_broken,
    plain_of,
    random_plain,
    sparse_of,
    tight_pair,
)

import metricdp as mdp
from metricdp.mechanism import certify_sparse
from metricdp.mechanism.certify import check_privacy
from metricdp.mechanism.certify_sparse import check_sparse_privacy
from metricdp.mechanism.exact import Worst, exp_enclosure

PAIR = np.array([[0, 1]], dtype=np.int32)
seeds = st.integers(0, 2**32 - 1)


def random_pairs(rng, n):
    pairs = np.array([(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.7], dtype=np.int32)
    pairs = pairs.reshape(-1, 2)
    return pairs, np.exp(rng.uniform(-3, 1, len(pairs)))


def without_seconds(check):
    return dataclasses.replace(check, seconds=0.0)


def check_two(plain, exponent):
    return check_privacy(plain.build(), PAIR, np.array([exponent]), 1.0)


@given(seeds, st.sampled_from([0.0, 1e-6, 0.5, 3.0]))
@settings(max_examples=150)
def test_sparse_and_dense_checks_agree(seed, spread):
    """At budgets far from the tightest one, just above and just below it."""
    rng = np.random.default_rng(seed)
    n, K = int(rng.integers(2, 7)), int(rng.integers(1, 12))
    table = random_plain(rng, n, K, spread=spread, zeros=rng.choice([0.0, 0.2, 1.0])).build()
    dense, (pairs, distances) = table.block(), random_pairs(rng, n)
    tightest = check_privacy(dense, pairs, distances, 1e9).tightest_epsilon
    around = [tightest * f for f in (0.5, 1 - 1e-15, 1.0, 1 + 1e-12, 2.0)] if 0 < tightest < math.inf else []
    for epsilon in [*around, 1.0]:
        ours = check_privacy(table, pairs, distances, epsilon)
        theirs = check_privacy(dense, pairs, distances, epsilon)
        assert ours.certified == theirs.certified == is_private(dense, pairs, distances, epsilon)
        assert ours.tightest_epsilon == pytest.approx(theirs.tightest_epsilon, rel=1e-12, abs=1e-11)
        assert (ours.n_pairs, ours.n_records, ours.n_outputs) == (len(pairs), n, K)


@given(seeds)
@settings(max_examples=100)
def test_the_tightest_budget_is_never_below_the_truth(seed):
    """Judged by rational bounds: at the stated budget the factor is at least each quotient of weights."""
    rng = np.random.default_rng(seed)
    table = random_plain(rng, 2, 6, spread=float(rng.choice([1e-9, 1e-3, 1.0, 5.0])), zeros=0.0).build()
    distance = float(np.exp(rng.uniform(-3, 3)))
    found = check_privacy(table, PAIR, np.array([distance]), 1e9).tightest_epsilon
    a, b = plain_of(table).rows()
    quotient = max(Fraction(max(x, y), min(x, y)) for x, y in zip(a, b, strict=True))
    assert exp_bounds(Fraction(found) * Fraction(distance))[1] >= quotient
    assert found * distance <= math.log(quotient) + 1e-12


def mutated(rng, plain):
    """Change one weight, the background of an output or a scale by one; output 0 keeps the sums."""
    changed, delta = plain.copy(), int(rng.choice([-1, 1]))
    kind, row, k = rng.integers(3), int(rng.integers(2)), int(rng.integers(2, len(plain.background)))
    if kind == 0:
        changed.local[row][k] = changed.local[row].get(k, 0) + delta
        changed.local[row][0] -= delta
        return changed, changed.local[row][k] >= 0
    if kind == 1:
        changed.background[k] += delta
        for local, scale in zip(changed.local, changed.scale, strict=True):
            local[0] -= scale * delta
        return changed, changed.background[k] >= 0
    changed.scale[row] += delta
    changed.local[row][0] -= sum(changed.background) * delta
    return changed, changed.scale[row] > 0


def test_the_smallest_mutations_of_tight_tables_are_all_rejected():
    """10,000 that break a bound, in stored weights, in the background and in the scales; what breaks none passes."""
    rng = np.random.default_rng(5)
    broken = {"rejected": 0, "passed": 0}
    unbroken = {"rejected": 0, "passed": 0}
    while broken["rejected"] < 10_000:
        exponent = float(rng.choice([0.01, 0.3, 1.0, 3.0, 12.0]))
        plain = tight_pair(rng, exponent)
        assert not is_broken(plain, exponent)
        assert check_two(plain, exponent).certified
        for _ in range(40):
            changed, is_possible = mutated(rng, plain)
            if is_possible:
                seen = broken if is_broken(changed, exponent) else unbroken
                seen["passed" if check_two(changed, exponent).certified else "rejected"] += 1
    assert broken["passed"] == unbroken["rejected"] == 0
    assert unbroken["passed"] > 1000


def test_each_kind_of_tight_place_is_sharp_to_one_unit():
    """Stored by both, by one, and by none; the fault names the records, the output and both weights."""
    # so near that small weights must be equal; the first output takes what is left
    plain = filled_up(Plain([{0: 5, 1: 7}, {0: 5, 1: 7}], [0, 3, 4, 1], [10, 10]))
    assert check_two(plain, 1e-9).certified
    for change, output, weights in (
        (lambda p: p.local[0].update({1: 8}), 1, "38 for one and 37"),
        (lambda p: p.local[1].update({2: 1}), 2, "41 for one and 40"),
        (lambda p: p.scale.__setitem__(0, 11), 1, "40 for one and 37"),
    ):
        changed = plain.copy()
        change(changed)
        check = check_two(filled_up(changed), 1e-9)
        assert not check.certified
        assert check.tightest_epsilon > 1.0
        assert f"output {output} has weight {weights} for the other" in check.fault


def test_distance_zero_means_equal():
    plain = filled_up(Plain([{0: 5}, {0: 5}], [0, 3], [10, 10]))
    assert check_two(plain, 0.0).certified
    plain.scale[0] = 11
    check = check_two(filled_up(plain), 0.0)
    assert (check.certified, check.tightest_epsilon) == (False, math.inf)


def test_outside_both_lists_is_one_comparison_of_the_scales():
    plain = filled_up(Plain([{}, {}], [0, 0, 9, 1], [27, 10]))
    check = check_two(plain, 0.99)
    assert not check.certified
    assert "records 0 and 1 at distance 0.99: output 2 has weight 243 for one and 90 for the other" in check.fault
    assert (check.worst.i, check.worst.j, check.worst.output) == (0, 1, 2)
    passed = check_two(plain, 1.0)
    assert (passed.certified, passed.n_decided_exactly, passed.n_compared) == (True, 0, 4)
    # the first output of those in neither list, although others before it have a background
    beside = filled_up(Plain([{1: 10}, {1: 20, 2: 90}], [0, 1, 9, 1, 2], [27, 10]))
    check = check_two(beside, 0.99)
    assert "output 3 has weight 27 for one and 10 for the other" in check.fault
    assert (check.worst.i, check.worst.j, check.worst.output) == (0, 1, 3)
    # and so for records in the middle of a table
    among = Plain([{}, *beside.local, {}], beside.background, [10, *beside.scale, 10])
    check = check_privacy(filled_up(among).build(), PAIR + np.int32(1), np.array([0.99]), 1.0)
    assert check.worst == Worst(1, 2, 3, 0.99)
    # the scales do not matter where the lists hold all of the background
    stored = filled_up(Plain([{2: 7, 3: 17}, {2: 160, 3: 34}], [0, 0, 9, 1], [27, 10]))
    assert check_two(stored, 0.5).certified


def test_zero_beside_a_positive_weight_is_refused_at_any_budget():
    plain = filled_up(Plain([{}, {1: 1}], [1, 0], [10, 10]))
    for exponent in (1.0, 44.0, 50.0, 710.0, 1e300):
        check = check_two(plain, exponent)
        assert (check.certified, check.tightest_epsilon) == (False, math.inf)
    # one unit is enough beyond overflow
    plain = Plain([{0: TOTAL - 2}, {1: TOTAL - 2}], [1, 1], [1, 1])
    for exponent in (44.0, 50.0, 710.0, 1e300):
        assert check_two(plain, exponent).certified
    assert not check_two(plain, 43.6).certified


def test_rows_must_sum_exactly():
    plain = filled_up(Plain([{}, {}, {}], [1, 2], [10, 10, 10]))
    plain.local[1][0] -= 1
    check = check_privacy(plain.build(), PAIR, np.ones(1), 1.0)
    assert not check.certified
    assert check.fault == f"row 1 sums to {TOTAL - 1}, not to 2^63 = {TOTAL} (1 such rows)"
    assert (check.tightest_epsilon, check.worst, check.n_compared) == (math.inf, None, 0)
    none = check_privacy(plain.build(), PAIR[:0], np.zeros(0), 1.0)
    assert (none.certified, none.tightest_epsilon) == (False, 0.0)


def test_equal_rows_tell_nothing():
    plain = filled_up(Plain([{2: 5}, {2: 5}], [1, 2, 3], [10, 10]))
    for exponent in (0.0, 1.0):
        check = check_two(plain, exponent)
        assert (check.certified, check.tightest_epsilon, check.worst, check.n_decided_exactly) == (True, 0.0, None, 0)
    alone = check_privacy(plain.build(), PAIR[:0], np.zeros(0), 1.0)
    assert (alone.certified, alone.tightest_epsilon, alone.n_compared) == (True, 0.0, 0)


def test_the_result_depends_on_neither_threads_nor_blocks_nor_buffers(monkeypatch):
    rng = np.random.default_rng(8)
    table = random_plain(rng, 30, 20, zeros=0.0).build()
    pairs = np.array([(i, j) for i in range(30) for j in range(i + 1, 30)], dtype=np.int32)
    distances = np.full(len(pairs), 0.5)
    for epsilon in (1e-3, 2.0, 1e3):
        expected = without_seconds(check_privacy(table, pairs, distances, epsilon))
        for threads, at_once, doubts in ((1, 1, 1), (8, 7, 1), (2, 10**6, 60)):
            monkeypatch.setattr(certify_sparse.os, "cpu_count", lambda threads=threads: threads)
            monkeypatch.setattr(certify_sparse, "PAIRS_AT_ONCE", at_once)
            monkeypatch.setattr(certify_sparse, "DOUBTS_AT_ONCE", doubts)
            assert without_seconds(check_privacy(table, pairs, distances, epsilon)) == expected


@pytest.mark.parametrize("at_once", [1, 2, 3])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_broken_pair_is_found_wherever_it_is(monkeypatch, at_once, place):
    """Four records in a line, of which two neighbours are too far apart, both ways round."""
    monkeypatch.setattr(certify_sparse, "PAIRS_AT_ONCE", at_once)
    pairs = np.array([[0, 1], [1, 2], [2, 3]], dtype=np.int32)
    for is_turned in (False, True):
        is_high = [(r > place) != is_turned for r in range(4)]
        plain = filled_up(Plain([{1: 1, 3: 4000 if high else 1000} for high in is_high], [0, 0, 1, 0], [10] * 4))
        check = check_privacy(plain.build(), pairs, np.array([1.0, 1.1, 1.2]), 1.0)
        i, j = pairs[place] if is_turned else pairs[place][::-1]
        assert not check.certified
        assert check.worst == Worst(i, j, 3, 1.0 + place / 10)
        assert check.fault.startswith(
            f"records {i} and {j} at distance {1.0 + place / 10}: output 3 has weight 4000 for"
        )
        assert check.tightest_epsilon == pytest.approx(math.log(4) / (1.0 + place / 10), rel=1e-12)
        assert check_privacy(plain.build(), pairs, np.array([1.0, 1.1, 1.2]), 1.4).certified


def test_counts_are_those_of_the_merged_lists():
    """Three outputs in either list, both ways, and the rest of the background once, both ways."""
    plain = filled_up(Plain([{1: 5}, {2: 6}], [1, 1, 1, 1], [10, 10]))
    check = check_two(plain, 3.0)
    assert (check.certified, check.n_cleared_by_filter, check.n_decided_exactly) == (True, 8, 0)
    assert (check.fault, check.epsilon) == ("", 1.0)
    assert 0.0 <= check.seconds < 60.0


def test_a_table_at_its_limit_is_decided_by_whole_numbers_and_is_never_above_its_budget():
    """The limit of 2^55 at exponent 1, to one unit: one comparison of four needs whole numbers."""
    limit = exp_enclosure(1.0, 1.0) * 2**55 >> 96
    plain = filled_up(Plain([{1: limit}, {1: 2**55}], [1, 0], [1, 1]))
    check = check_two(plain, 1.0)
    assert (check.certified, check.n_decided_exactly, check.n_cleared_by_filter) == (True, 1, 3)
    assert check.tightest_epsilon == 1.0
    plain.local[0][1] += 1
    plain.local[0][0] -= 1
    check = check_two(plain, 1.0)
    assert (check.certified, check.n_decided_exactly, check.n_cleared_by_filter) == (False, 1, 3)
    assert 1.0 < check.tightest_epsilon < 1.0 + 1e-11


@pytest.mark.parametrize(
    ("pairs", "distances"),
    [([[0, 2]], [1.0]), ([[-1, 1]], [1.0]), ([[0, 1]], [1.0, 1.0]), ([[0, 1], [0, 1]], [1.0])],
)
def test_pairs_of_other_rows_are_refused(pairs, distances):
    table = filled_up(Plain([{}, {}], [1], [1, 1])).build()
    with pytest.raises(mdp.InputError, match="pairs must be of the table's 2 rows, with one distance for each"):
        check_sparse_privacy(table, np.array(pairs, dtype=np.int32), np.array(distances), 1.0)


def test_solved_tables_in_sparse_form_are_certified_alike():
    rng = np.random.default_rng(3)
    problem = mdp.Problem(rng.random((25, 2)), epsilon=4.0, eta=0.6, outputs=list(range(25)), metric="euclidean")
    dense = mdp.solve(problem, gap=0.02).mechanism
    check = mdp.Mechanism.of(problem, sparse_of(dense.table)).certificate.privacy
    theirs = dense.certificate.privacy
    assert check.tightest_epsilon == theirs.tightest_epsilon
    assert check.worst == theirs.worst
    assert is_private(plain_of(sparse_of(dense.table)).rows(), problem.graph.pairs, problem.graph.distances, 4.0)
