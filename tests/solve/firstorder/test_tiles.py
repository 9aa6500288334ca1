"""Every operation on one tile does what plain numpy does."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.solve.firstorder.reference import mixed

from metricdp.metric.simd import raise_to, raise_to_whole
from metricdp.solve.solvers.firstorder import tiles

WIDTH = 8
CLOSE = {"rtol": 2e-5, "atol": 2e-6}


@numba.njit
def run_add_parts(v, at, Y, y_at, up, down):
    tiles.add_parts(v, at, Y, y_at, up, down)


@numba.njit
def run_step_back(v, at, Z, z_at, size):
    return tiles.step_back(v, at, Z, z_at, size)


@numba.njit
def run_excess(v, at, theta):
    return tiles.excess(v, at, theta)


@numba.njit
def run_step_rows(v, at, Z, Z0, ahead, z_at, theta, share, tiny):
    return tiles.step_rows(v, at, Z, Z0, ahead, z_at, theta, share, tiny)


@numba.njit
def run_step_multipliers(Y, Y0, y_at, ahead, i_at, j_at, less, more, share, tiny):
    return tiles.step_multipliers(Y, Y0, y_at, ahead, i_at, j_at, less, more, share, tiny)


@numba.njit
def run_copy_tile(target, at, source, source_at):
    tiles.copy_tile(target, at, source, source_at)


@numba.njit
def run_lowest_bit(word):
    return tiles.lowest_bit(word)


@numba.njit
def run_raise_to(V, at, source_at, factor, whole):
    return raise_to_whole(V, at, source_at, factor) if whole else raise_to(V, at, source_at, factor)


def single(value):
    return np.float32(value)


def some(generator, *shape):
    return generator.standard_normal(shape).astype(np.float32)


@st.composite
def _places(draw):
    """Some numbers, and two tiles in arrays of 33 entries."""
    at, other = draw(st.integers(0, 25)), draw(st.integers(0, 25))
    return np.random.default_rng(draw(st.integers(0, 2**32))), slice(at, at + WIDTH), slice(other, other + WIDTH)


places = _places()
shares = st.sampled_from([0.0, 0.5, 0.97]) | st.floats(0.0, 1.0, width=32, exclude_max=True)


class TestOneTile:
    """At any place in the arrays, and nothing beside the 8 entries is touched."""

    @given(where=places)
    def test_add_parts(self, where):
        generator, here, there = where
        v, Y = some(generator, 33), some(generator, 11, 3)
        up, down = (single(value) for value in generator.normal(size=2))
        expected, y = v.astype(float), Y.ravel()[there].astype(float)
        expected[here] += up * np.maximum(y, 0) + down * np.minimum(y, 0)
        run_add_parts(v, here.start, Y, there.start, up, down)
        np.testing.assert_allclose(v, expected, **CLOSE)

    @given(where=places)
    def test_step_back(self, where):
        generator, here, there = where
        v, Z, size = some(generator, 33), some(generator, 33), single(generator.exponential())
        expected = v.astype(float)
        expected[here] = Z[there] - float(size) * v[here].astype(float)
        largest = run_step_back(v, here.start, Z, there.start, size)
        np.testing.assert_allclose(v, expected, **CLOSE)
        assert largest == v[here].max()

    @given(where=places)
    def test_excess(self, where):
        generator, here, _ = where
        v, theta = some(generator, 33), single(generator.normal())
        total, count = run_excess(v, here.start, theta)
        assert count == (v[here] > theta).sum()
        assert total == pytest.approx(np.maximum(v[here].astype(float) - theta, 0).sum(), rel=1e-5, abs=1e-6)

    @given(where=places, share=shares)
    def test_step_rows(self, where, share):
        generator, here, there = where
        v, Z, Z0, ahead = (some(generator, 33) for _ in range(4))
        theta, tiny = single(generator.normal()), single(0.1)  # large, so that it can be seen
        new, old = np.maximum(v[here].astype(float) - theta, 0), Z[there].astype(float)
        expected = [array.astype(float) for array in (ahead, Z, Z0)]
        for array, value in zip(expected, mixed(new, old, Z0[there].astype(float), share, 0.1), strict=True):
            array[there] = value
        change, left = run_step_rows(v, here.start, Z, Z0, ahead, there.start, theta, single(share), tiny)
        for array, value in zip((ahead, Z, Z0), expected, strict=True):
            np.testing.assert_allclose(array, value, **CLOSE)
        assert change == pytest.approx(((new - old) ** 2).sum(), rel=1e-5, abs=1e-6)
        assert left == pytest.approx(sum(np.abs(array[there]).sum() for array in expected), rel=1e-5)

    @given(where=places, share=shares)
    def test_step_multipliers(self, where, share):
        generator, here, there = where
        Y, Y0, ahead = some(generator, 33), some(generator, 33), some(generator, 33)
        less, more = np.sort(generator.exponential(size=2)).astype(np.float32)
        i, j = slice(0, 8), there
        zi, zj, old = ahead[i].astype(float), ahead[j].astype(float), Y[here].astype(float)
        new = np.maximum(old + less * zi - more * zj, 0) + np.minimum(old + more * zi - less * zj, 0)
        expected = [Y.astype(float), Y0.astype(float)]
        for array, value in zip(expected, mixed(new, old, Y0[here].astype(float), share, 0.1)[1:], strict=True):
            array[here] = value
        before = ahead.copy()
        change, left = run_step_multipliers(
            Y, Y0, here.start, ahead, i.start, j.start, less, more, single(share), single(0.1)
        )
        for array, value in zip((Y, Y0), expected, strict=True):
            np.testing.assert_allclose(array, value, **CLOSE)
        assert np.array_equal(ahead, before)
        assert change == pytest.approx(((new - old) ** 2).sum(), rel=1e-5, abs=1e-6)
        assert left == pytest.approx(sum(np.abs(array[here]).sum() for array in expected), rel=1e-5)

    @given(where=places)
    def test_copy_tile(self, where):
        generator, here, there = where
        target, source = some(generator, 33), some(generator, 11, 3)
        expected = target.copy()
        expected[here] = source.ravel()[there]
        run_copy_tile(target, here.start, source, there.start)
        assert np.array_equal(target, expected)

    @given(bit=st.integers(0, 63), above=st.integers(0, 2**63))
    def test_lowest_bit(self, bit, above):
        word = (2 * above + 1) << bit & (2**64 - 1)
        assert run_lowest_bit(np.uint64(word)) == bit

    @given(where=places, whole=st.booleans())
    def test_raise_to(self, where, whole):
        """Doubles, to the last bit: privacy depends on it."""
        generator, here, there = where
        V = np.floor(generator.exponential(1e6, (11, 3)) ** 2)
        factor = float(generator.random())
        product = factor * V.ravel()[there]
        bound = np.ceil(product) if whole else product
        expected = V.copy()
        expected.ravel()[here] = np.maximum(V.ravel()[here], bound)
        rises = (bound > V.ravel()[here]).any()
        assert run_raise_to(V, here.start, there.start, factor, whole) == rises
        assert np.array_equal(V, expected)


def test_raising_says_whether_anything_rose():
    for whole in (False, True):
        V = np.concatenate((np.full(8, 4.0), np.full(8, 3.0)))
        assert not run_raise_to(V, 8, 0, 0.75, whole)
        V[11] = 2.5
        assert run_raise_to(V, 8, 0, 0.75, whole)
        assert V[8:].tolist() == [3.0] * 8
