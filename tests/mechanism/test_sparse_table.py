"""Sparse tables: what they refuse, and that every way to ask them gives the same numbers."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.mechanism.sparse_tables import TOTAL, Plain, plain_of, random_plain, sparse_of

import metricdp as mdp
from metricdp.mechanism.choice import chosen, count_of
from metricdp.mechanism.sparse import KINDS, SparseTable, exact_sum

seeds = st.integers(0, 2**32 - 1)
PARTS = {
    "indptr": np.array([0, 2, 3], dtype=np.int64),
    "columns": np.array([0, 2, 1], dtype=np.int32),
    "weights": np.array([5, 6, 7], dtype=np.uint64),
    "background": np.array([1, 2, 3], dtype=np.uint64),
    "scale": np.array([10, 20], dtype=np.uint64),
}


def with_parts(**changed):
    return SparseTable(**{**PARTS, **{name: np.array(v, dtype=KINDS[name]) for name, v in changed.items()}})


def test_what_it_holds():
    table = with_parts()
    assert table.block().tolist() == [[15, 20, 36], [20, 47, 60]]
    assert (table.shape, table.n_stored, table.longest) == ((2, 3), 3, 2)
    assert (table.background_total, table.stored_totals.tolist(), table.sums().tolist()) == (6, [11, 7], [71, 127])
    assert repr(table) == "SparseTable(2 rows x 3 outputs, 3 stored weights)"


@pytest.mark.parametrize("name", list(KINDS))
def test_arrays_of_another_kind_are_refused(name):
    for wrong in (PARTS[name].astype(np.float64), PARTS[name][None], PARTS[name].tolist(), None):
        with pytest.raises(mdp.InputError, match=f"{name} of a sparse table must be one row of {KINDS[name].__name__}"):
            SparseTable(**{**PARTS, name: wrong})
    with pytest.raises(mdp.InputError, match="masked array"):
        SparseTable(**{**PARTS, name: np.ma.array(PARTS[name])})


FAR = 2**63 - 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"scale": [10]}, "needs a scale and a beginning for each row"),
        ({"indptr": [0], "scale": []}, "needs a scale and a beginning for each row"),
        ({"background": []}, "and at least one output"),
        ({"indptr": [1, 2, 3]}, "must follow one another"),
        ({"indptr": [0, 2, 2]}, "must follow one another"),
        ({"indptr": [0, 4, 3]}, "must follow one another"),
        ({"indptr": [0, FAR, 3]}, "must follow one another"),
        ({"indptr": [0, -FAR, 3]}, "must follow one another"),
        ({"weights": [5, 6]}, "needs one output for each stored weight"),
        ({"columns": [0, 3, 1]}, "row 0 of a sparse table stores an output that does not exist: outputs are 0 to 2"),
        ({"columns": [0, 2, -1]}, "row 1 of a sparse table stores an output that does not exist"),
        ({"columns": [2, 0, 1]}, "row 0 of a sparse table must store its outputs in ascending order, each once"),
        ({"columns": [2, 2, 1]}, "row 0 of a sparse table must store its outputs in ascending order, each once"),
        ({"weights": [5, 6, 0]}, "row 1 of a sparse table stores a weight of 0: leave it out"),
        ({"scale": [10, 0]}, "the scale of row 1 of a sparse table is 0: give at least 1, or a background that is 0"),
        ({"background": [TOTAL, 1, 0]}, "the background of a sparse table sums to more than 2\\^63"),
        ({"background": [2**64 - 1] * 3}, "the background of a sparse table sums to more than 2\\^63"),
        ({"scale": [10, TOTAL // 6 + 1]}, "row 1 of a sparse table sums to more than 2\\^63"),
        ({"scale": [2**64 - 1, 1]}, "row 0 of a sparse table sums to more than 2\\^63"),
        ({"weights": [5, TOTAL - 64, 7]}, "row 0 of a sparse table sums to more than 2\\^63"),
        ({"weights": [5, 6, 2**64 - 1]}, "row 1 of a sparse table sums to more than 2\\^63"),
        ({"weights": [TOTAL - 60, TOTAL, 1]}, "row 0 of a sparse table sums to more than 2\\^63"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changed, message):
    with pytest.raises(mdp.InputError, match=message):
        with_parts(**changed)


def test_the_largest_that_fits():
    assert with_parts(weights=[5, TOTAL - 65, 7]).sums().tolist() == [TOTAL, 127]
    full = with_parts(background=[TOTAL - 7, 0, 0], scale=[1, 1], weights=[5, 2, 7])
    assert full.sums().tolist() == [TOTAL, TOTAL]
    shared = with_parts(indptr=[0, 0, 0], columns=[], weights=[], background=[TOTAL - 1, 1, 0], scale=[1, 1])
    assert shared.sums().tolist() == [TOTAL, TOTAL]
    alone = with_parts(background=[0, 0, 0], scale=[0, 2**64 - 1], weights=[1, TOTAL - 1, TOTAL])
    assert alone.block().tolist() == [[1, 0, TOTAL - 1], [0, TOTAL, 0]]
    assert exact_sum(np.full(5, 2**64 - 1, dtype=np.uint64)) == 5 * (2**64 - 1)


@given(seeds)
@settings(max_examples=80)
def test_every_way_to_ask_gives_the_same(seed):
    rng = np.random.default_rng(seed)
    n, K = int(rng.integers(1, 8)), int(rng.integers(1, 20))
    table = random_plain(rng, n, K).build()
    dense = np.array(plain_of(table).rows(), dtype=np.uint64)
    assert np.array_equal(table.block(), dense)
    rows, outputs = rng.integers(0, n, 4), rng.integers(0, K, 5)  # in any order, some twice
    assert np.array_equal(table.block(rows, outputs), dense[rows][:, outputs])
    low, high = sorted(rng.integers(0, K + 1, 2).tolist())
    assert np.array_equal(table.block(rows, slice(low, high)), dense[rows][:, low:high])
    assert np.array_equal(table.block(slice(None, None, -1), slice(None, None, 2)), dense[::-1, ::2])
    for i in range(n):
        assert np.array_equal(table.row(i), dense[i])
    indptr, stored_rows, weights = table.by_output
    for k in range(K):
        assert np.array_equal(table.column(k), dense[:, k])
        again = table.scale * table.background[k]
        part = slice(indptr[k], indptr[k + 1])
        assert (np.diff(stored_rows[part]) > 0).all()
        again[stored_rows[part]] += weights[part]
        assert np.array_equal(again, dense[:, k])
    assert table.by_output is table.by_output


@given(seeds)
@settings(max_examples=50)
def test_dense_tables_in_sparse_form(seed):
    rng = np.random.default_rng(seed)
    plain = random_plain(rng, 4, 6)
    dense = np.array(plain.rows(), dtype=np.uint64)
    for background in (None, plain.background, [0] * 6, [1] + [0] * 5):
        table = sparse_of(dense, background)
        assert np.array_equal(table.block(), dense)
    exact = sparse_of(np.multiply.outer([3, 5], [1, 2, 0]), [1, 2, 0])
    assert (exact.scale.tolist(), exact.n_stored) == ([3, 5], 0)
    assert sparse_of([[1, 2], [2, 4]]).scale.tolist() == [1, 1]


def test_nothing_can_be_changed():
    given_parts = {name: part.copy() for name, part in PARTS.items()}
    table = SparseTable(**given_parts)
    for name, part in given_parts.items():
        part[:] = 0
        assert np.array_equal(getattr(table, name), PARTS[name])
    for again in (table, copy.deepcopy(table), copy.copy(table), pickle.loads(pickle.dumps(table))):  # noqa: S301
        for part in (*(getattr(again, name) for name in KINDS), *again.by_output, again.stored_totals):
            with pytest.raises(ValueError, match="WRITEABLE"):
                part.setflags(write=True)
        assert np.array_equal(again.block(), table.block())
        with pytest.raises(AttributeError):
            again.scale = PARTS["scale"]


def test_copies_are_checked_again():
    table = with_parts()
    object.__setattr__(table, "columns", np.array([0, 9, 1], dtype=np.int32))
    for again in (copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))):  # noqa: S301
        with pytest.raises(mdp.InputError, match="stores an output that does not exist"):
            again(table)


@pytest.mark.parametrize(
    ("which", "message"),
    [
        (3, "rows of a block must be between 0 and 2"),
        (-1, "rows of a block must be between 0 and 2"),
        ([0, 3], "rows of a block must be between 0 and 2"),
        ([-1, 1], "rows of a block must be between 0 and 2"),
        ([0.0], "rows of a block must be whole numbers in one row, or a slice, got float64"),
        ([True, False, True], "whole numbers in one row, or a slice, got bool"),
        ([[0]], "whole numbers in one row"),
    ],
)
def test_places_that_do_not_exist_are_refused(which, message):
    with pytest.raises(mdp.InputError, match=message):
        chosen(which, 3, "rows")


def test_places():
    assert chosen(slice(2, 1), 3, "rows") == slice(2, 2, 1)
    assert chosen([], 3, "rows").tolist() == []
    assert chosen(np.uint8(2), 3, "rows").tolist() == [2]
    assert chosen(slice(None, None, -1), 3, "rows").tolist() == [2, 1, 0]
    assert [count_of(10, size) for size in (0, 79, 80, 159, 160, 1e9)] == [1, 1, 1, 1, 2, 12_500_000]


def test_plain_tables_are_read_back():
    plain = Plain([{1: 4}, {}], [1, 0], [2, 3])
    assert plain_of(plain.build()) == plain
