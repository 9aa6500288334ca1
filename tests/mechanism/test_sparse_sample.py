"""Draws from sparse tables: exact, and the same work for every record and outcome."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.mechanism.sparse_tables import TOTAL, Plain, filled_up, plain_of, random_plain, sparse_of

import metricdp as mdp
from metricdp.mechanism import sample, sample_sparse
from metricdp.mechanism.sample import seeded_bits_for_experiments_only
from metricdp.mechanism.sample_sparse import SparseSteps, draw_sparse, sparse_steps

seeds = st.integers(0, 2**32 - 1)
EVEN = filled_up(Plain([{k: 1 << 60} for k in range(5)], [1 << 40] * 16, [1 << 18] * 5)).build()


def output_of(table, row, u):
    """The output that the library draws for the whole number ``u``."""
    return int(draw_sparse(sparse_steps(table), np.array([row]), bits=lambda _: np.array([u], dtype=np.uint64))[0])


def plain_output(plain, row, u):
    """The rule of the file format, step by step."""
    for k, weight in sorted(plain.local[row].items()):
        if u < weight:
            return k
        u -= weight
    quotient = u // plain.scale[row]
    for k, weight in enumerate(plain.background):
        if quotient < weight:
            return k
        quotient -= weight
    raise AssertionError("beyond the row's sum")


def borders(plain, row):
    """Where the outcome may change: every cumulative weight, stored ones first."""
    found = [0]
    for _, weight in sorted(plain.local[row].items()):
        found.append(found[-1] + weight)
    for weight in plain.background:
        found.append(found[-1] + plain.scale[row] * weight)
    return found


@given(seeds)
@settings(max_examples=100)
def test_every_output_has_exactly_its_weight(seed):
    """Between two borders the outcome is the same at both ends, and the lengths add up to the weights."""
    rng = np.random.default_rng(seed)
    n, K = int(rng.integers(1, 6)), int(rng.integers(1, 40))
    table = random_plain(rng, n, K, zeros=float(rng.choice([0.0, 0.5, 1.0]))).build()
    plain, steps = plain_of(table), sparse_steps(table)
    for row, weights in enumerate(plain.rows()):
        edges = borders(plain, row)
        assert edges[-1] == TOTAL
        parts = [(a, b) for a, b in pairwise(edges) if b > a]
        u = np.array([v for a, b in parts for v in (a, b - 1)], dtype=np.uint64)
        drawn = draw_sparse(steps, np.full(len(u), row), bits=lambda _, u=u: u).reshape(-1, 2)
        assert (drawn[:, 0] == drawn[:, 1]).all()
        mass = [0] * K
        for (a, b), k in zip(parts, drawn[:, 0].tolist(), strict=True):
            mass[k] += b - a
        assert mass == weights


@given(seeds)
@settings(max_examples=60)
def test_outcomes_are_those_of_the_rule(seed):
    rng = np.random.default_rng(seed)
    table = random_plain(rng, int(rng.integers(1, 6)), int(rng.integers(1, 70))).build()
    plain, steps = plain_of(table), sparse_steps(table)
    for row in range(len(plain.scale)):
        near = {edge + d for edge in borders(plain, row) for d in (-1, 0, 1)}
        u = [v for v in near if 0 <= v < TOTAL] + rng.integers(0, TOTAL, 50, dtype=np.uint64).tolist()
        given_bits = np.array(u, dtype=np.uint64)
        drawn = draw_sparse(steps, np.full(len(u), row), bits=lambda _, given_bits=given_bits: given_bits)
        assert drawn.tolist() == [plain_output(plain, row, v) for v in u]
        assert output_of(table, row, u[0]) == plain_output(plain, row, u[0])


def test_small_tables_by_every_division():
    """A scale of 2^61 leaves four parts of the background: every quotient and its neighbours."""
    table = filled_up(Plain([{}, {1: 1 << 61}], [1, 0, 2, 1], [1 << 61, 1]))
    built = table.build()
    quarter = 1 << 61
    for u in sorted({q * quarter + d for q in range(5) for d in (-2, -1, 0, 1, 2)}):
        if 0 <= u < TOTAL:
            assert output_of(built, 0, u) == [0, 2, 2, 3][u // quarter]
            assert output_of(built, 1, u) == plain_output(table, 1, u)


@pytest.mark.parametrize("K", [1, 2, 3, 4, 7, 8, 9, 31, 32, 33])
def test_tables_of_background_alone(K):
    """Nothing stored at all, and numbers of outputs on both sides of powers of two."""
    background = [3] * K
    scale, rest = divmod(TOTAL, 3 * K)
    plain = Plain([{K - 1: rest} if rest else {}], background, [scale])
    table = plain.build()
    for u in sorted({min(max(e + d, 0), TOTAL - 1) for e in borders(plain, 0) for d in (-1, 0, 1)}):
        assert output_of(table, 0, u) == plain_output(plain, 0, u)
    even = Plain([{}, {}], [1 << 62, 1 << 62], [1, 1]).build()
    assert [output_of(even, 1, u) for u in (0, (1 << 62) - 1, 1 << 62, TOTAL - 1)] == [0, 0, 1, 1]


def test_tables_without_background():
    table = sparse_of([[0, TOTAL, 0], [TOTAL // 2, 0, TOTAL // 2]], background=[0, 0, 0])
    assert [output_of(table, row, u) for row in (0, 1) for u in (0, TOTAL // 2 - 1, TOTAL // 2, TOTAL - 1)] == [
        *([1] * 4),
        *(0, 0, 2, 2),
    ]


class Counted:
    """An array that counts what is read of it."""

    def __init__(self, values, reads):
        self.values, self.reads = values, reads

    def __len__(self):
        return len(self.values)

    def __getitem__(self, place):
        if isinstance(place, slice):
            return Counted(self.values[place], self.reads)
        self.reads.append(place)
        return self.values[place]


def test_the_same_is_read_and_done_for_every_record_and_outcome():
    """In plain Python: as many reads for a row that stores one weight as for the longest, whatever the outcome."""
    rng = np.random.default_rng(4)
    plain = filled_up(random_plain(rng, 6, 21))
    plain.local[2] = {}
    plain.local[3] = dict.fromkeys(range(21), 1)
    table = filled_up(Plain([{}, *plain.local[1:]], plain.background, plain.scale)).build()
    steps = sparse_steps(table)
    counts = set()
    for row in range(6):
        for u in (0, 1, TOTAL // 2, TOTAL - 1, *rng.integers(0, TOTAL, 5).tolist()):
            reads: list[int] = []
            counted = SparseSteps(*(Counted(part, reads) if hasattr(part, "shape") else part for part in steps))
            with np.errstate(over="ignore"):
                k = sample_sparse._output.py_func(counted, row, np.uint64(u))
            assert int(k) == output_of(table, row, u)
            counts.add(len(reads))
    assert len(counts) == 1
    assert steps.n_compared == table.longest + 5


def test_draws_are_checked_and_repeat_with_a_seed():
    steps = sparse_steps(EVEN)
    for rows in ([5], [-1], [[0]]):
        with pytest.raises(mdp.InputError, match="rows must be between 0 and 4$"):
            draw_sparse(steps, np.array(rows))
    rows = np.arange(5).repeat(50)
    first, second = (draw_sparse(steps, rows, bits=seeded_bits_for_experiments_only(7)) for _ in range(2))
    assert np.array_equal(first, second)
    assert not np.array_equal(draw_sparse(steps, rows), draw_sparse(steps, rows))
    for part in (steps.stored, steps.background):
        with pytest.raises(ValueError, match="WRITEABLE"):
            part.setflags(write=True)


def test_parallel_draws_are_the_same(monkeypatch):
    steps, rows = sparse_steps(EVEN), np.arange(5).repeat(100)
    alone = draw_sparse(steps, rows, bits=seeded_bits_for_experiments_only(1))
    monkeypatch.setattr(sample, "PARALLEL_FROM", 1)
    assert np.array_equal(draw_sparse(steps, rows, bits=seeded_bits_for_experiments_only(1)), alone)


def test_draws_follow_the_table():
    table = filled_up(Plain([{1: TOTAL // 4}, {2: TOTAL // 8}], [1 << 40] * 4, [1 << 19, 1 << 20])).build()
    drawn = draw_sparse(sparse_steps(table), np.zeros(200_000, dtype=np.int64))
    share = np.bincount(drawn, minlength=4) / len(drawn)
    assert share == pytest.approx(table.row(0) / TOTAL, abs=0.006)
