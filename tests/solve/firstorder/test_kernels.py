"""Every first-order kernel does what plain numpy does, and the same on one thread as on many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import small_problem
from tests.solve.firstorder.reference import level_of, mixed

import metricdp as mdp
from metricdp.metric import MdpGraph, closure
from metricdp.solve.component import Component
from metricdp.solve.solvers.firstorder import iterate, kernels
from metricdp.solve.solvers.firstorder.iterate import Iteration, bits_of
from metricdp.solve.solvers.firstorder.network import Network

WIDTH = 8
CLOSE = {"rtol": 2e-5, "atol": 2e-6}


# the level at which the simplex cuts


@settings(max_examples=150)
@given(
    centre=st.sampled_from([0.0, 0.7, -0.7, 50.0]) | st.floats(-200.0, 200.0),
    guess=st.sampled_from([0.0, 0.01, -1e3, 1e3]) | st.floats(-1e3, 1e3),
    spread=st.sampled_from([1e-4, 0.05, 1.0]) | st.floats(1e-4, 30.0),
    count=st.integers(1, 70),
    seed=st.integers(0, 2**32),
)
def test_threshold(centre, guess, spread, count, seed):
    """From any first guess, beside and far from the level, and wherever the entries lie."""
    v = (centre + spread * np.random.default_rng(seed).standard_normal(count * WIDTH)).astype(np.float32)
    level = kernels._threshold(v, count, v.max(), np.float32(centre + guess))
    rounding = float(4e-7 * np.abs(v).max() * len(v) + 1e-5)
    assert np.maximum(v.astype(float) - level, 0).sum() == pytest.approx(1.0, abs=rounding)
    assert level == pytest.approx(level_of(v), abs=rounding)


def test_threshold_of_equal_entries_and_of_one_that_stands_out():
    assert kernels._threshold(np.zeros(8, dtype=np.float32), 1, 0.0, 0.0) == pytest.approx(-0.125)
    v = np.zeros(8, dtype=np.float32)
    v[3] = 5.0
    assert kernels._threshold(v, 1, 5.0, 0.0) == pytest.approx(4.0)


# whole steps


class Instance:
    """Random rows, edges and multipliers; the last records have no edges, and most tiles hold nothing."""

    def __init__(self, seed, n, K, m):
        self.generator = generator = np.random.default_rng(seed)
        self.n, self.K, self.tiles = n, K, -(-K // WIDTH)
        ends = np.sort(generator.integers(0, max(2, n - 3), (4 * m, 2)), axis=1)
        ends = np.unique(ends[ends[:, 0] < ends[:, 1]], axis=0)
        ends = ends[np.sort(generator.permutation(len(ends))[:m])]
        self.tail, self.head = np.ascontiguousarray(ends.T.astype(np.int32))
        self.m = len(ends)
        decay = np.exp(-generator.exponential(2.0, self.m))
        self.a, self.b = ((f / np.sqrt(1 + decay**2)).astype(np.float32) for f in (decay, 1.0))
        at = [[(e, True) for e in np.flatnonzero(self.head == i)] for i in range(n)]
        at = [[(e, False) for e in np.flatnonzero(self.tail == i)] + heads for i, heads in enumerate(at)]
        self.start = np.cumsum([0, *map(len, at)])
        flat = [pair for pairs in at for pair in pairs]
        self.edge_at = np.array([e for e, _ in flat], dtype=np.int32)
        self.is_head = np.array([is_head for _, is_head in flat], dtype=bool)
        self.C = self.tiled(generator.exponential(0.3, (n, K)), padding=4.0)
        self.cheapest = np.ascontiguousarray(self.C.min(axis=2))
        self.tau = generator.uniform(0.05, 0.6, n).astype(np.float32)
        self.sigma = generator.uniform(0.05, 0.6, self.m).astype(np.float32)
        self.Z, self.Z0, self.ahead = (self.tiled(self.sparse_rows()) for _ in range(3))
        self.Y, self.Y0 = (self.tiled(self.sparse_multipliers()) for _ in range(2))
        self.is_live = bits_of(self.Z) | bits_of(self.Z0) | bits_of(self.ahead)
        self.is_used = bits_of(self.Y) | bits_of(self.Y0)
        self.theta = np.zeros(n, dtype=np.float32)
        self.moved_rows, self.moved_edges = np.zeros(n), np.zeros(self.m)

    def sparse_rows(self):
        rows = np.zeros((self.n, self.K))
        for row in rows:
            where = self.generator.integers(0, self.K, 3)
            row[where] = self.generator.dirichlet(np.ones(3))
        return rows

    def sparse_multipliers(self):
        keep = self.generator.random((self.m, self.tiles)) < 0.1
        values = 0.2 * self.generator.standard_normal((self.m, self.tiles * WIDTH))
        return (values * np.repeat(keep, WIDTH, axis=1))[:, : self.K]

    def tiled(self, matrix, padding=0.0):
        padded = np.full((len(matrix), self.tiles * WIDTH), padding, dtype=np.float32)
        padded[:, : self.K] = matrix
        return np.ascontiguousarray(padded.reshape(len(matrix), self.tiles, WIDTH).transpose(1, 0, 2))

    def step_records(self, share, *, is_large=False):
        kernels.step_records(
            self.C,
            self.cheapest,
            self.Z,
            self.Z0,
            self.ahead,
            self.is_live,
            self.theta,
            self.tau,
            self.start,
            self.edge_at,
            self.is_head,
            self.a,
            self.b,
            self.Y,
            self.is_used,
            np.float32(share),
            self.moved_rows,
            is_large=is_large,
        )

    def step_edges(self, share, *, is_large=False):
        kernels.step_edges(
            self.tail,
            self.head,
            self.a,
            self.b,
            self.sigma,
            self.ahead,
            self.is_live,
            self.Y,
            self.Y0,
            self.is_used,
            np.float32(share),
            self.moved_edges,
            is_large=is_large,
        )

    def state(self):
        names = ("Z", "Z0", "ahead", "Y", "Y0", "is_live", "is_used", "theta", "moved_rows", "moved_edges")
        return {name: getattr(self, name).copy() for name in names}


def flat(array):
    """Tiles as a matrix of doubles."""
    return array.transpose(1, 0, 2).reshape(array.shape[1], len(array) * WIDTH).astype(float)


def reference_records(instance, share):
    """What a step should leave in ahead, Z, Z0 and moved."""
    Y, reduced, Z = flat(instance.Y), flat(instance.C), flat(instance.Z)
    a, b = instance.a.astype(float)[:, None], instance.b.astype(float)[:, None]
    up, down = np.maximum(Y, 0), np.minimum(Y, 0)
    np.add.at(reduced, instance.tail, a * up + b * down)
    np.add.at(reduced, instance.head, -b * up - a * down)
    tau = instance.tau.astype(float)
    v = Z - tau[:, None] * reduced
    new = np.maximum(v - np.array([level_of(row) for row in v])[:, None], 0)
    return *mixed(new, Z, flat(instance.Z0), share, 1e-25), ((new - Z) ** 2).sum(axis=1) / tau


def reference_edges(instance, share):
    """What a step should leave in Y, Y0 and moved."""
    Y, ahead = flat(instance.Y), flat(instance.ahead)
    sigma = instance.sigma.astype(float)[:, None]
    less, more = sigma * instance.a[:, None], sigma * instance.b[:, None]
    zi, zj = ahead[instance.tail], ahead[instance.head]
    new = np.maximum(Y + less * zi - more * zj, 0) + np.minimum(Y + more * zi - less * zj, 0)
    change = ((new - Y) ** 2).sum(axis=1) / sigma[:, 0]
    return *mixed(new, Y, flat(instance.Y0), share, 1e-25)[1:], change


SIZES = {
    "small": (7, 5, 6),
    "one output": (9, 1, 12),
    "a full tile": (20, 8, 60),
    "several tasks": (150, 27, 500),
    "no edges": (5, 11, 0),
    "two words of tiles": (12, 600, 30),
    "exactly one word": (6, 512, 10),
}
SHARES = (0.5, 2 / 3, 0.0, 0.5, 0.9, 0.0)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(3))
def test_steps_are_those_of_numpy(size, seed):
    """Some steps in a row, so that tiles come into use and leave it."""
    instance = Instance(seed, *SIZES[size])
    for share in SHARES:
        ahead, Z, Z0, moved = reference_records(instance, share)
        instance.step_records(share)
        np.testing.assert_allclose(flat(instance.ahead), ahead, **CLOSE)
        np.testing.assert_allclose(flat(instance.Z), Z, **CLOSE)
        np.testing.assert_allclose(flat(instance.Z0), Z0, **CLOSE)
        np.testing.assert_allclose(instance.moved_rows, moved, rtol=1e-3, atol=1e-5)
        Y, Y0, moved = reference_edges(instance, share)
        instance.step_edges(share)
        np.testing.assert_allclose(flat(instance.Y), Y, **CLOSE)
        np.testing.assert_allclose(flat(instance.Y0), Y0, **CLOSE)
        np.testing.assert_allclose(instance.moved_edges, moved, rtol=1e-3, atol=1e-5)
        check_bits(instance)


def check_bits(instance):
    """A tile without its bit holds nothing."""
    live = bits_of(instance.Z) | bits_of(instance.Z0) | bits_of(instance.ahead)
    assert np.array_equal(live, instance.is_live)
    assert np.array_equal(bits_of(instance.Y) | bits_of(instance.Y0), instance.is_used)


@pytest.mark.parametrize("size", SIZES)
def test_one_thread_or_many_is_the_same_to_the_last_bit(size):
    instances = [Instance(5, *SIZES[size]) for _ in range(2)]
    for share in SHARES:
        for instance, is_large in zip(instances, (False, True), strict=True):
            instance.step_records(share, is_large=is_large)
            instance.step_edges(share, is_large=is_large)
        one, many = (instance.state() for instance in instances)
        for name, array in one.items():
            assert np.array_equal(array, many[name]), name


def test_bits_of_tiles():
    Z = np.zeros((70, 3, WIDTH), dtype=np.float32)
    Z[0, 0, 7] = Z[63, 1, 0] = Z[64, 1, 3] = -1.0
    assert bits_of(Z).tolist() == [[1, 0], [1 << 63, 1], [0, 0]]


def ring(n, K, seed=0):
    """Records on a ring, each beside the next two."""
    pairs = sorted({tuple(sorted((i, (i + step) % n))) for i in range(n) for step in (1, 2)})
    pairs = np.array(pairs, dtype=np.int32)
    generator = np.random.default_rng(seed)
    graph = MdpGraph(n, pairs, generator.uniform(0.5, 1.0, len(pairs)))
    return Component(generator.exponential(size=(n, K)) / n, graph, 1.0)


def test_the_iteration_converges_to_rows_that_satisfy_its_edges():
    component = ring(12, 5)
    iteration = Iteration(Network(component, np.arange(component.graph.n_pairs)), weight=1.0)
    for _ in range(3000):
        iteration.advance()
    Z = iteration.network.untiled(iteration.Z)
    i, j = component.graph.pairs.T
    decay = np.exp(-component.graph.distances)[:, None]
    assert Z.min() > -1e-4
    np.testing.assert_allclose(Z.sum(axis=1), 1.0, atol=1e-3)
    assert max((decay * Z[i] - Z[j]).max(), (decay * Z[j] - Z[i]).max()) < 1e-3


def test_extending_keeps_multipliers():
    component = ring(12, 20)
    iteration = Iteration(Network(component, np.arange(0, component.graph.n_pairs, 2)), weight=1.0)
    for _ in range(50):
        iteration.advance()
    before = dict(zip(iteration.network.chosen.tolist(), iteration.Y.transpose(1, 0, 2).copy(), strict=True))
    Z = iteration.network.untiled(iteration.Z)
    iteration.extend(np.array([1, 3, 4]))
    net = iteration.network
    assert sorted(net.chosen.tolist()) == sorted({*before, 1, 3})
    for e, pair in enumerate(net.chosen.tolist()):
        expected = before.get(pair, np.zeros((net.tiles, WIDTH)))
        assert np.array_equal(iteration.Y[:, e], expected)
    assert np.array_equal(net.untiled(iteration.Z), Z)
    assert np.array_equal(iteration.Y0, iteration.Y)


# the closure


def closed_by_hand(V, graph, epsilon, *, whole):
    V = V.copy()
    factor = np.exp(-epsilon * graph.distances)[:, None]
    while True:
        before = V.copy()
        for (i, j), w in zip(graph.pairs, factor, strict=True):
            for tail, head in ((i, j), (j, i)):
                bound = w * V[tail]
                V[head] = np.maximum(V[head], np.ceil(bound) if whole else bound)
        if np.array_equal(V, before):
            return V


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("K", [1, 7, 8, 21, 64])
def test_closure_is_that_of_numpy_in_any_order_and_on_any_thread(K, whole):
    generator = np.random.default_rng(K)
    problem = small_problem("road", seed=K, n=40, outputs=4)
    graph, epsilon = problem.graph, problem.epsilon
    V = np.floor(generator.exponential(1e9, (graph.n, K)) * (generator.random((graph.n, K)) < 0.2))
    arrays = graph.decays(epsilon)
    results = []
    for close in (closure._close_one_by_one, closure._close_in_parallel):
        for order in (np.arange(graph.n), generator.permutation(graph.n)):
            closed = V.copy()
            for low in range(0, K, 16):  # a part of the columns at a time gives the same
                close(closed, *arrays, order, whole, low, min(low + 16, K))
            results.append(closed)
    np.testing.assert_allclose(results[0], closed_by_hand(V, graph, epsilon, whole=whole), rtol=1e-12)
    assert all(np.array_equal(results[0], other) for other in results[1:])


# whole runs


@pytest.mark.parametrize(("dataset", "exponent"), [("road", 0.5), ("gaussian", 2.0), ("words", 1.0)])
def test_threads_give_the_same_table(dataset, exponent, monkeypatch):
    problem = small_problem(dataset, seed=3, n=150, outputs=30, exponent=exponent)
    tables = []
    for parallel_from, threads in ((0, 1), (0, 2), (np.inf, 1)):
        monkeypatch.setattr(closure, "PARALLEL_FROM", parallel_from)
        monkeypatch.setattr(iterate, "PARALLEL_STEPS_FROM", parallel_from)
        result = mdp.solve(problem, method="first-order", gap=1e-2, threads=threads)
        assert result.status is mdp.Status.OPTIMAL
        tables.append(result.mechanism.table)
    assert np.array_equal(tables[0], tables[1])
    assert np.array_equal(tables[0], tables[2])
