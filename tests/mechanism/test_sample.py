"""Draws follow the table exactly."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2
from tests.conftest import small_problem

import metricdp as mdp
from metricdp.mechanism import sample
from metricdp.mechanism.sample import RandomnessError, cumulative, draw, seeded_bits_for_experiments_only, system_bits


def g_test(counts, probabilities) -> float:
    """The p-value of counts against probabilities; cells that cannot occur must be empty."""
    possible = probabilities > 0
    assert (counts[~possible] == 0).all()
    expected = probabilities[possible] * counts.sum()
    observed = counts[possible]
    filled = observed > 0
    statistic = 2 * (observed[filled] * np.log(observed[filled] / expected[filled])).sum()
    return float(chi2.sf(statistic, possible.sum() - 1))


def random_table(generator, n, K):
    weights = generator.exponential(size=(n, K)) ** 4
    weights[generator.random((n, K)) < 0.1] = 0.0
    weights[:, 0] += 1e-3
    table = np.floor(weights / weights.sum(axis=1, keepdims=True) * 2.0**62).astype(np.uint64)
    table[:, 0] += np.uint64(1 << 63) - table.sum(axis=1, dtype=np.uint64)
    return table


def check_draws(count):
    table = random_table(np.random.default_rng(0), 3, 100)
    steps = cumulative(table)
    for row in range(3):
        counts = np.zeros(100)
        for _ in range(max(1, count // 3 // 5_000_000)):
            size = min(5_000_000, count // 3)
            counts += np.bincount(draw(steps, np.full(size, row)), minlength=100)
        assert g_test(counts, table[row] / 2.0**63) > 1e-6


def test_draws_follow_the_table():
    check_draws(3_000_000)


@pytest.mark.slow
def test_hundred_million_draws_follow_the_table():
    check_draws(105_000_000)


def test_every_weight_is_met_exactly():
    """Weights of 16 bits: all 65,536 values of the random bits together give each output exactly its weight."""
    generator = np.random.default_rng(1)
    for _ in range(20):
        cuts = np.sort(generator.integers(0, 65_537, 9))
        weights = np.diff(np.concatenate(([0], cuts, [65_536])))
        steps = cumulative((weights.astype(np.uint64) << np.uint64(47))[None, :])
        for offset in (0, 12345, 2**47 - 1):
            every = (np.arange(65_536, dtype=np.uint64) << np.uint64(47)) + np.uint64(offset)
            drawn = draw(steps, np.zeros(65_536, dtype=np.int64), bits=lambda count, u=every: u[:count])
            assert np.bincount(drawn, minlength=10).tolist() == weights.tolist()


def test_ends_of_the_range():
    steps = cumulative(np.array([[1, (1 << 63) - 2, 1]], dtype=np.uint64))
    edge = np.array([0, 1, (1 << 63) - 2, (1 << 63) - 1], dtype=np.uint64)
    drawn = draw(steps, np.zeros(4, dtype=np.int64), bits=lambda _: edge)
    assert drawn.tolist() == [0, 1, 1, 2]


def test_system_bits_are_uniform_below_two_to_the_63():
    bits = system_bits(200_000)
    assert bits.max() < 1 << 63
    for position in range(63):
        share = ((bits >> np.uint64(position)) & np.uint64(1)).mean()
        assert abs(share - 0.5) < 0.01


@pytest.mark.parametrize("fault", [OSError("no entropy"), NotImplementedError("none")])
def test_a_failing_source_raises(monkeypatch, fault):
    def fail(_count):
        raise fault

    monkeypatch.setattr(os, "urandom", fail)
    mechanism = mdp.exponential(small_problem("grid", seed=0))
    with pytest.raises(RandomnessError, match="nothing was drawn"):
        mechanism.perturb(mechanism.records.ids[:2])


@pytest.mark.parametrize("excess", [-1, 1])
def test_a_source_of_another_length_raises(monkeypatch, excess):
    monkeypatch.setattr(os, "urandom", lambda count: b"\0" * (count + excess))
    with pytest.raises(RandomnessError, match=f"gave {32 + excess} of 32 random bytes: nothing was drawn"):
        system_bits(4)


def test_system_bits_are_the_upper_63_of_each_eight_bytes(monkeypatch):
    raw = bytes(range(200, 224))
    monkeypatch.setattr(os, "urandom", lambda count: raw[:count])
    expected = [int.from_bytes(raw[at : at + 8], sys.byteorder) >> 1 for at in (0, 8, 16)]
    assert system_bits(3).tolist() == expected


def plain_draws(steps, rows, u):
    return [sum(int(v) >= int(step) for step in steps[row]) for row, v in zip(rows, u, strict=True)]


@pytest.mark.parametrize("at_once", [1, 7, 40, 41])
def test_draws_in_blocks(monkeypatch, at_once):
    """Every draw has its own random number and its own row, wherever a block ends."""
    monkeypatch.setattr(sample, "DRAWS_AT_ONCE", at_once)
    table = random_table(np.random.default_rng(3), 5, 50)
    steps, rows = cumulative(table), np.arange(5).repeat(8)
    u, asked = system_bits(40), []

    def bits(count):
        asked.append(count)
        return u[sum(asked) - count : sum(asked)]

    assert draw(steps, rows, bits=bits).tolist() == plain_draws(steps, rows, u)
    full, rest = divmod(40, at_once)
    assert asked == [at_once] * full + [rest] * (rest > 0)


@pytest.mark.parametrize(
    ("count", "is_safe", "is_parallel"), [(9, True, False), (10, True, True), (10, False, False), (11, True, True)]
)
def test_many_draws_are_counted_in_parallel_where_that_is_safe(monkeypatch, count, is_safe, is_parallel):
    used = []
    for name in ("_count_one_by_one", "_count_in_parallel"):
        kernel = getattr(sample, name)
        monkeypatch.setattr(sample, name, lambda *parts, k=kernel, n=name: (used.append(n), k(*parts)))
    monkeypatch.setattr(sample, "PARALLEL_FROM", 500)
    monkeypatch.setattr(sample, "parallel_is_safe", lambda: is_safe)
    steps = cumulative(random_table(np.random.default_rng(3), 5, 50))
    rows, u = np.arange(count) % 5, system_bits(count)
    assert draw(steps, rows, bits=lambda _: u).tolist() == plain_draws(steps, rows, u)
    assert used == ["_count_in_parallel" if is_parallel else "_count_one_by_one"]


def test_the_seeded_source_repeats_and_is_not_the_default():
    table = random_table(np.random.default_rng(3), 5, 50)
    steps, rows = cumulative(table), np.arange(5).repeat(40)
    first, second = (draw(steps, rows, bits=seeded_bits_for_experiments_only(7)) for _ in range(2))
    assert np.array_equal(first, second)
    assert not np.array_equal(draw(steps, rows), draw(steps, rows))
    expected = np.random.Generator(np.random.PCG64(7)).integers(0, 2**63, size=9, dtype=np.uint64)
    assert np.array_equal(seeded_bits_for_experiments_only(7)(9), expected)


def test_rows_are_checked():
    steps = cumulative(random_table(np.random.default_rng(3), 5, 50))
    for rows in ([5], [-1], [0, 5], [-1, 4], [[0]], 0):
        with pytest.raises(mdp.InputError, match="between 0 and 4$"):
            draw(steps, np.array(rows))
    assert len(draw(steps, np.array([0, 4]))) == 2
    assert draw(steps, np.zeros(0, dtype=np.int64)).tolist() == []


def test_cumulative_weights_are_those_of_each_row():
    table = np.array([[1, 2, (1 << 63) - 3], [0, 1 << 63, 0]], dtype=np.uint64)
    assert cumulative(table).tolist() == [[1, 3, 1 << 63], [0, 1 << 63, 1 << 63]]


def test_perturb_by_id():
    mechanism = mdp.exponential(small_problem("grid", seed=0))
    assert not mechanism.guarantee.n_isolated
    names = set(mechanism.outputs.ids(mechanism.records))
    assert mechanism.perturb(mechanism.records.ids[0]) in names
    assert set(mechanism.perturb(list(mechanism.records.ids))) <= names
    assert mechanism.perturb([]) == []


def draw_many_after_fork(count):
    mechanism = mdp.exponential(small_problem("grid", seed=0))
    mechanism.perturb_rows(np.zeros(count, dtype=np.int64))  # starts the kernels' threads in this process
    child = os.fork()
    if child == 0:
        drawn = mechanism.perturb_rows(np.zeros(count, dtype=np.int64))
        os._exit(0 if len(drawn) == count else 1)
    return os.waitpid(child, 0)[1]


def test_a_forked_child_can_draw():
    """A server that forks its workers: threads of parallel kernels do not survive a fork."""
    done = subprocess.run(
        [sys.executable, "-c", "from tests.mechanism.test_sample import *; sys.exit(draw_many_after_fork(400_000))"],
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == 0
