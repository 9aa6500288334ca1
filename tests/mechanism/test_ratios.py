"""Exact comparisons with exp(epsilon d), against a series in fractions that knows no decimals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.mechanism.independent import exp_bounds

from metricdp.mechanism.ratios import Growth, Ratio, least_epsilon

budgets = st.floats(1e-3, 1.9)


@given(budgets, st.floats(0.1, 1.0), st.integers(-3, 3))
@example(1.0, 1.0, 0)
def test_both_sides_of_the_factor_are_told_apart(epsilon, distance, ulps):
    """The floats nearest to exp(epsilon d) are a few units of 2^-52 away from it, and are decided rightly."""
    low, high = exp_bounds(Fraction(epsilon) * Fraction(distance))
    near = float(low)
    for _ in range(abs(ulps)):
        near = math.nextafter(near, math.inf if ulps > 0 else 0.0)
    ratio = Fraction(near)
    assert ratio < low or ratio > high
    assert Growth(epsilon, distance).is_below(Ratio.of(near, 1.0)) == (ratio > high)


def test_more_digits_are_taken_where_fifty_do_not_decide():
    """Fractions 10^-80 below and above e: only the second enclosure tells them from e."""
    low, high = exp_bounds(Fraction(1))
    assert high - low < Fraction(1, 10**78)
    tiny = Fraction(1, 10**75)
    growth = Growth(1.0, 1.0)
    for ratio, expected in ((low - tiny, False), (high + tiny, True)):
        assert growth.is_below(Ratio(ratio.numerator, ratio.denominator)) is expected
    assert len(growth._bounds) == 2


@given(st.floats(1.0, 1e300, exclude_min=True), st.floats(1e-300, 1e300))
@example(math.nextafter(1.0, 2.0), 1e-300)
@example(1e300, 1e-300)
@example(2.0, 5e-324)
def test_the_least_epsilon_holds_and_the_one_before_does_not(x, distance):
    found = least_epsilon(Ratio.of(x, 1.0), distance)
    if math.isinf(found):
        assert math.log(x) / distance > 1e307
        return
    assert found == pytest.approx(math.log(x) / distance, rel=1e-9, abs=5e-324)
    assert not Growth(found, distance).is_below(Ratio.of(x, 1.0))
    assert Growth(math.nextafter(found, 0.0), distance).is_below(Ratio.of(x, 1.0))


def test_edges():
    assert least_epsilon(Ratio(1, 1), 0.0) == 0.0
    assert least_epsilon(Ratio(1, 2), 1.0) == 0.0
    assert least_epsilon(Ratio(2, 1), 0.0) == math.inf
    assert Growth(0.0, 5.0).is_below(Ratio(2, 1))
    assert not Growth(0.0, 5.0).is_below(Ratio(1, 1))
    assert not Growth(1e308, 1e308).is_below(Ratio.of(1.0, 5e-324))
    assert Growth(744.0, 1.0).is_below(Ratio.of(1.0, 5e-324))
    assert not Growth(745.0, 1.0).is_below(Ratio.of(1.0, 5e-324))
    assert (Ratio.of(0.3, 0.1) > Ratio.of(3, 1)) == (Fraction(0.3) > 3 * Fraction(0.1))
    assert not Ratio.of(int(np.uint64(2**63)), 1) > Ratio.of(2.0**63, 1.0)
