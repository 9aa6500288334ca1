"""The exact check at its edges: sums, zeros, equal rows, blocks, the filter's guard, and what it says of a fault."""

from __future__ import annotations

import math
import time
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mechanism.independent import exp_bounds

from metricdp.mechanism import certify
from metricdp.mechanism.certify import Worst, check_privacy, exp_enclosure, row_sum_fault

TOTAL = 1 << 63
PAIR = np.array([[0, 1]], dtype=np.int32)
NO_PAIRS = np.zeros((0, 2), dtype=np.int32)


def check_two(a, b, epsilon, distance):
    return check_privacy(np.array([a, b], dtype=np.uint64), PAIR, np.array([float(distance)]), float(epsilon))


@pytest.mark.parametrize("exponent", [1e-3, 0.1, 1.0, 7.7, 43.9])
def test_the_enclosure_has_96_bits_behind_the_point(exponent):
    enclosure = exp_enclosure(exponent, 1.0)
    low, high = exp_bounds(Fraction(exponent))
    assert low * 2**96 - 2 <= enclosure <= high * 2**96


@pytest.mark.parametrize("exponent", [0.0, 1e-300, 1e-40])
def test_the_enclosure_of_hardly_anything_is_one(exponent):
    assert exp_enclosure(1.0, exponent) == exp_enclosure(exponent, 1.0) == 2**96


def test_the_enclosure_is_below_a_factor_a_hair_short_of_a_whole_number():
    """(2^48 - 1) (2^48 + 1) / 2^191 is short of log(1 + 2^-95) by 2^-286.6: the factor is just below 1 + 2^-95."""
    epsilon, distance = (2.0**48 - 1.0) * 2.0**-95, (2.0**48 + 1.0) * 2.0**-96
    assert Fraction(epsilon) * Fraction(distance) == Fraction(2**96 - 1, 2**191)
    assert exp_enclosure(epsilon, distance) == 2**96 + 1


@pytest.mark.parametrize(("epsilon", "distance"), [(43.6, 1.0), (400.0, 0.109), (0.4, 109.0)])
def test_a_factor_of_two_to_the_63_needs_an_exponent_of_44(epsilon, distance):
    assert not check_two([TOTAL - 1, 1], [1, TOTAL - 1], epsilon, distance).certified
    assert check_two([TOTAL - 1, 1], [1, TOTAL - 1], epsilon * 1.01, distance).certified


@pytest.mark.parametrize("excess", [1, 2, 2**31, 2**32, 2**32 + 1, -1, -(2**32), -TOTAL, TOTAL])
def test_every_wrong_sum_is_found(excess):
    total = TOTAL + excess
    table = np.array([[TOTAL, 0], [total - total // 2, total // 2], [TOTAL - 7, 7]], dtype=np.uint64)
    assert row_sum_fault(table) == f"row 1 sums to {total}, not to 2^63 = {TOTAL} (1 such rows)"
    assert row_sum_fault(table[::2]) == ""
    assert row_sum_fault(table[[0, 1, 2, 1]]).startswith(f"row 1 sums to {total}, ")
    assert row_sum_fault(table[[0, 1, 2, 1]]).endswith("(2 such rows)")


def test_a_wrong_sum_holds_at_no_epsilon():
    table = np.array([[TOTAL, 1], [TOTAL, 0], [TOTAL - 5, 5]], dtype=np.uint64)
    pairs, distances = np.array([[0, 1], [1, 2]], dtype=np.int32), np.ones(2)
    check = check_privacy(table, pairs, distances, 1.0)
    assert not check.certified
    assert check.fault.startswith("row 0 sums to")
    assert check.tightest_epsilon == math.inf
    assert (check.n_cleared_by_filter, check.n_decided_exactly) == (8, 0)


def test_without_pairs_there_is_no_loss():
    check = check_privacy(np.array([[TOTAL, 0]], dtype=np.uint64), NO_PAIRS, np.zeros(0), 1.0)
    assert check.certified
    assert (check.tightest_epsilon, check.worst, check.fault) == (0.0, None, "")
    assert (check.n_records, check.n_outputs, check.n_pairs) == (1, 2, 0)
    assert (check.n_cleared_by_filter, check.n_decided_exactly) == (0, 0)


def test_beyond_overflow_only_a_zero_breaks_a_pair():
    check = check_two([1, TOTAL - 1, 0], [TOTAL - 2, 1, 1], 50.0, 1.0)
    assert "records 1 and 0 at distance" in check.fault
    assert ": output 2 has weight 1 for one and 0 for the other" in check.fault


def test_rows_at_distance_zero_are_compared_entry_by_entry():
    equal = check_two([TOTAL - 5, 5, 0], [TOTAL - 5, 5, 0], 1.0, 0.0)
    assert 0.0 <= equal.tightest_epsilon < 1e-300
    assert equal.n_cleared_by_filter + equal.n_decided_exactly == 6
    a, b = [TOTAL - 9, 2, 3, 4], [TOTAL - 9, 3, 3, 3]
    for rows, more, less in (((a, b), 1, 0), ((b, a), 0, 1)):
        check = check_two(*rows, 1.0, 0.0)
        # the one entry that is larger in b, or the one that is larger in a
        assert (
            f"records {more} and {less} " in check.fault and "output 1 has weight 3 for one and 2" in check.fault
        ) or (f"records {less} and {more} " in check.fault and "output 3 has weight 4 for one and 3" in check.fault)
        assert check.n_cleared_by_filter + check.n_decided_exactly == 8
        assert check.n_decided_exactly > 0
        assert check.tightest_epsilon == math.inf
    # equal rows at distance 0 cost nothing, so that the other pair is the worst
    table = np.array([a, a, b], dtype=np.uint64)
    pairs = np.array([[0, 1], [1, 2]], dtype=np.int32)
    check = check_privacy(table, pairs, np.array([0.0, 2.0]), 3.0)
    assert check.certified
    assert check.tightest_epsilon == pytest.approx(math.log(1.5) / 2.0, rel=1e-12)
    assert check.worst == Worst(2, 1, 1, 2.0)


def test_equal_rows_tell_nothing():
    """They satisfy any budget, whatever the distances; one row that differs is enough, be it the first or the last."""
    row, other = [TOTAL - 5, 5, 0], [TOTAL - 5, 4, 1]
    pairs = np.array([[0, 1], [1, 2]], dtype=np.int32)
    check = check_privacy(np.array([row] * 3, dtype=np.uint64), pairs, np.array([0.0, 1e-300]), 1e-300)
    assert check.certified
    assert (check.tightest_epsilon, check.worst, check.n_decided_exactly) == (0.0, None, 0)
    for rows in ([other, row, row], [row, other, row], [row, row, other]):
        assert check_privacy(np.array(rows, dtype=np.uint64), pairs, np.ones(2), 1.0).tightest_epsilon == math.inf
    wrong = check_privacy(np.array([[7, 5]] * 3, dtype=np.uint64), pairs, np.ones(2), 1.0)
    assert (wrong.certified, wrong.tightest_epsilon) == (False, math.inf)
    assert check_privacy(np.array([row], dtype=np.uint64), NO_PAIRS, np.zeros(0), 1.0).tightest_epsilon == 0.0


def test_rows_that_differ_without_a_pair_have_no_loss():
    table = np.array([[TOTAL, 0], [0, TOTAL]], dtype=np.uint64)
    check = check_privacy(table, NO_PAIRS, np.zeros(0), 1.0)
    assert (check.certified, check.tightest_epsilon, check.worst) == (True, 0.0, None)
    equal_pair = check_privacy(table[[0, 0, 1]], PAIR, np.zeros(1), 1.0)
    assert 0.0 <= equal_pair.tightest_epsilon < 1e-300


def test_a_table_of_zeros_is_refused_in_words():
    check = check_privacy(np.zeros((2, 3), dtype=np.uint64), PAIR, np.ones(1), 1.0)
    assert check.fault.startswith("row 0 sums to 0,")
    assert check.worst == Worst(0, 1, 0, 1.0)


def test_only_doubtful_entries_of_a_doubtful_pair_are_decided_by_integers():
    """One entry at its limit, one at three quarters of it, one equal, one smaller; then hardly any distance at all."""
    limit = exp_enclosure(1.0, 1.0) * 2**50 >> 96
    a, b = [limit, limit * 3 // 4, 2**40, 2**30], [2**50, 2**50, 2**40, 2**31]
    rest = [TOTAL - sum(row) for row in (a, b)]
    assert check_two([*a, rest[0]], [*b, rest[1]], 1.0, 1.0).n_decided_exactly == 1
    assert check_two([TOTAL - 9, 2, 3, 4], [TOTAL - 9, 3, 3, 3], 1.0, 1e-30).n_decided_exactly == 2


def test_equal_rows_are_private_however_near():
    check = check_two([TOTAL - 5, 5], [TOTAL - 5, 5], 1.0, 1e-30)
    assert check.certified
    assert check.n_cleared_by_filter + check.n_decided_exactly == 4


@pytest.mark.parametrize("is_turned", [False, True])
def test_a_broken_pair_is_named_with_the_larger_weight_first(is_turned):
    rows = ([TOTAL - 9, 9], [TOTAL - 3, 3])
    check = check_two(*(rows[::-1] if is_turned else rows), 1.0, 1.0)
    assert check.fault.startswith("records 1 and 0 at" if is_turned else "records 0 and 1 at")
    assert "output 1 has weight 9 for one and 3 for the other" in check.fault
    assert check.worst == (Worst(1, 0, 1, 1.0) if is_turned else Worst(0, 1, 1, 1.0))
    assert not check.certified
    assert check.tightest_epsilon == pytest.approx(math.log(3.0), rel=1e-12)
    assert check.n_cleared_by_filter + check.n_decided_exactly == 4
    assert check.n_decided_exactly > 0


def test_the_first_broken_pair_is_named_and_the_worst_is_the_worst():
    table = np.array([[TOTAL - 3, 3], [TOTAL - 9, 9], [TOTAL - 3, 3], [TOTAL - 27, 27]], dtype=np.uint64)
    pairs = np.array([[0, 2], [0, 1], [2, 3]], dtype=np.int32)
    check = check_privacy(table, pairs, np.ones(3), 1.0)
    assert check.fault.startswith("records 1 and 0 at")
    assert check.worst == Worst(3, 2, 1, 1.0)


def test_the_worst_output_is_found_past_outputs_that_nobody_reports():
    check = check_two([0, 2, 6, TOTAL - 8], [0, 2, 4, TOTAL - 6], 1.0, 1.0)
    assert check.worst == Worst(0, 1, 2, 1.0)


@pytest.mark.parametrize("entries", [1, 7, 11, 1 << 16])
def test_blocks_of_any_size_give_the_same(monkeypatch, entries):
    """The last pair alone is broken; a block may hold one pair, several, or all."""
    monkeypatch.setattr(certify, "ENTRIES_AT_ONCE", entries)
    weights = np.array([3, 4, 3, 4, 3, 9, 3, 4], dtype=np.uint64)
    table = np.column_stack([np.uint64(TOTAL) - weights, weights])
    pairs = np.array([[0, 1], [1, 2], [2, 3], [6, 7], [0, 6], [3, 4], [4, 5]], dtype=np.int32)
    distances = np.linspace(1.0, 0.4, 7)
    check = check_privacy(table, pairs, distances, 1.0)
    assert check.fault.startswith("records 5 and 4 at distance")
    assert check.worst == Worst(5, 4, 1, 0.4)
    assert check.tightest_epsilon == pytest.approx(math.log(3.0) / 0.4, rel=1e-12)
    assert check_privacy(table, pairs[:-1], distances[:-1], 1.0).certified


@pytest.fixture
def looked_at(monkeypatch):
    """How many pairs each block of the float filter holds, and how many of these are handed to the integers."""
    sizes = {"_filter_block": [], "_decide_exactly": []}
    for name, found in sizes.items():
        original = getattr(certify, name)

        def note(table, pairs, *rest, original=original, found=found):
            found.append(len(pairs))
            return original(table, pairs, *rest)

        monkeypatch.setattr(certify, name, note)
    return sizes


@pytest.mark.parametrize(("entries", "blocks"), [(1, [1] * 5), (3, [1] * 5), (4, [1, 2, 2]), (9, [1, 4]), (10, [5])])
def test_blocks_hold_as_many_entries_as_fit_and_at_least_one_pair(monkeypatch, looked_at, entries, blocks):
    monkeypatch.setattr(certify, "ENTRIES_AT_ONCE", entries)
    table = np.array([[TOTAL - w, w] for w in range(3, 9)], dtype=np.uint64)
    pairs = np.array([[i, i + 1] for i in range(5)], dtype=np.int32)
    assert check_privacy(table, pairs, np.ones(5), 1.0).certified
    assert sorted(looked_at["_filter_block"]) == blocks


def test_no_pair_is_looked_at_when_all_rows_are_equal_or_a_sum_is_wrong(looked_at):
    for row in ([TOTAL - 5, 5], [TOTAL, 5]):
        check_two(row, row, 1.0, 1.0)
    assert looked_at == {"_filter_block": [], "_decide_exactly": []}


def test_pairs_well_within_their_limit_are_not_looked_at_twice(looked_at):
    check_two([TOTAL - 9, 9], [TOTAL - 6, 6], math.log(2.0), 1.0)
    assert looked_at == {"_filter_block": [1], "_decide_exactly": [0]}


def test_seconds_are_those_of_the_check():
    begin = time.perf_counter()
    check = check_two([TOTAL, 0], [TOTAL, 0], 1.0, 1.0)
    assert 0.0 < check.seconds < time.perf_counter() - begin


@pytest.mark.parametrize(("short", "is_cleared"), [(0.75, False), (1.25, True), (2**42, True)])
def test_the_filter_clears_what_is_below_the_guard(short, is_cleared):
    """A ratio short of exp(epsilon d) by less than 2^-44 relative is for the integers; the others are cleared."""
    smaller = 2**55
    larger = int(Fraction(exp_enclosure(1.0, 1.0), 2**96) * smaller * (1 - Fraction(short) / 2**44))
    # the rest of both rows is equal in a third output
    rest = TOTAL - larger - 2**60
    check = check_two([larger, 2**60, rest], [smaller, 2**60 + larger - smaller, rest], 1.0, 1.0)
    assert check.certified
    assert (check.n_decided_exactly == 0) == is_cleared


@given(st.integers(1, 2**50), st.integers(1, 2**50), st.floats(1e-3, 1e3))
def test_tightest_epsilon_is_never_too_small(a, b, distance):
    """It is at least the exact loss per distance, and above it by rounding only."""
    check = check_two([a, TOTAL - a], [b, TOTAL - b], 1e6, distance)
    with localcontext() as context:
        context.prec = 60
        exact = max(abs((Decimal(x) / Decimal(y)).ln()) for x, y in ((a, b), (TOTAL - a, TOTAL - b))) / Decimal(
            distance
        )
        assert Decimal(check.tightest_epsilon) >= exact
        assert Decimal(check.tightest_epsilon) <= exact + Decimal(2.0**-43) / Decimal(distance)


@pytest.mark.parametrize("exponent", [1e-6, 1e-3, 0.5, 1.0, 5.0, 16.0, 34.0])
def test_a_table_at_its_limit_is_tight_at_its_own_epsilon(exponent):
    """Floats alone would give a tightest epsilon a little above what has been proved."""
    smaller = 2**10 + 1
    larger = exp_enclosure(exponent, 1.0) * smaller >> 96
    check = check_two([larger, TOTAL - larger], [smaller, TOTAL - smaller], exponent, 1.0)
    assert check.certified
    assert check.tightest_epsilon <= exponent
    assert not check_two([larger + 1, TOTAL - larger - 1], [smaller, TOTAL - smaller], exponent, 1.0).certified
