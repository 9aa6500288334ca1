"""Steps on windows: the kernels against plain numpy, windows against the whole, bounds."""

from __future__ import annotations

import numpy as np
import pytest

import metricdp as mdp
from metricdp.solve.plane import loop as loops
from metricdp.solve.plane.cones import Cones
from metricdp.solve.plane.loop import Loop
from metricdp.solve.plane.windows import distances

SQUARE = mdp.data.region(0.0, 0.0, 6.0, 5.0, spacing=0.5, kind="vectors")


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(3)
    outputs = rng.uniform(SQUARE.low, SQUARE.high, (19, 2))  # not a multiple of 8
    places = mdp.Records(rng.uniform(SQUARE.low, SQUARE.high, (60, 2)), kind="vectors", prior=rng.random(60))
    return mdp.PlaneProblem(SQUARE, epsilon=1.5, outputs=outputs, places=places)


def dense(loop, values):
    """Return a windows' array as a matrix, 0 outside."""
    made = np.zeros((loop.problem.n_nodes, loop.problem.n_outputs))
    for group, block in loop.windows.each(values):
        outputs = loop.windows.outputs(group)
        made[loop.windows.nodes(group)[:, :, None], outputs] = block[:, :, : len(outputs)]
    return made


@pytest.mark.parametrize("reach", [np.inf, 4.0])
def test_every_entry_is_in_one_place(problem, reach):
    loop = Loop(problem, Cones.of(SQUARE), share=1.0, reach=reach)
    windows = loop.windows
    assert sorted(windows.members[windows.members >= 0].tolist()) == list(range(19))
    near = distances(problem) <= distances(problem).min(axis=1, keepdims=True) + reach
    assert dense(loop, np.ones(windows.n_entries, np.float32))[near].all()
    seen = np.sort(windows.slots)
    assert np.array_equal(seen, np.arange(0, windows.n_entries, 8))
    assert np.allclose(dense(loop, loop.Z).sum(axis=1), 1.0, atol=1e-5)


def test_a_step_is_that_of_plain_numpy(problem):
    cones = Cones.of(SQUARE)
    loop = Loop(problem, cones, share=1.0, reach=np.inf)
    loop.run(5)
    loop.settle()
    Z, tau, back = dense(loop, loop.Z), dense(loop, loop.tau), dense(loop, loop.back)
    V = Z - tau * (problem.costs * loop.unit + back)
    plain_before = loop.plain.copy()
    Y = loop.Y.copy()
    loop.run(1)
    assert not np.array_equal(plain_before, loop.plain)
    plain = dense(loop, loop.plain)
    for i in range(0, problem.n_nodes, 7):  # bisection instead of Newton
        low, high = -1e9, 1e9
        for _ in range(200):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if np.maximum(V[i] - tau[i] * middle, 0).sum() > 1 else (low, middle)
        assert np.allclose(np.maximum(V[i] - tau[i] * low, 0), plain[i], atol=1e-5)
    # the first group's multipliers: one cone after another
    n, m = (int(size) for size in loop.windows.shapes[0])
    ahead = (2 * plain - Z)[:, loop.windows.outputs(0)].reshape(n, m, -1)
    old = Y[: loop.windows.cones[1] * 24].reshape(2 * n - 3, 2 * m - 3, 3, 8)
    new = loop.Y[: loop.windows.cones[1] * 24].reshape(old.shape)
    sigma = loop.sigma[: loop.windows.cones[1] * 8].reshape(2 * n - 3, 2 * m - 3, 8)
    for p, q in ((0, 0), (1, 1), (4, 3), (7, 2), (2 * n - 4, 2 * m - 4)):
        kind = 2 * (p % 2) + q % 2
        at = loop.kinds[kind] + (p // 2, q // 2)
        for k in range(ahead.shape[2]):
            s = float(sigma[p, q, k])
            x = old[p, q, :, k] / s + loop.scaled[kind] @ ahead[at[:, 0], at[:, 1], k]
            g = np.hypot(x[0], x[1])
            if g <= loop.theta * x[2]:
                nearest = x
            else:
                height = max((x[2] + loop.theta * g) / (1 + loop.theta**2), 0.0)
                nearest = np.array([*(loop.theta * height * x[:2] / g), height])
            step = s * (x - nearest)
            halfway = 0.5 * (2 * step - old[p, q, :, k]) + 0.5 * old[p, q, :, k]  # the first of an epoch
            assert np.allclose(new[p, q, :, k], halfway, rtol=2e-3, atol=2e-4 * np.abs(new[..., k]).max())


def test_the_sums_of_multipliers_are_kept(problem):
    loop = Loop(problem, Cones.of(SQUARE), share=1.0, reach=4.0)
    loop.run(30)
    loop.settle()  # in the dual cone
    loop.true_theta = 0.0  # multipliers as they are
    for group, block in loop.windows.each(loop.back):
        n_outputs = len(loop.windows.outputs(group))
        expected, size = loop._back(group, n_outputs)
        assert np.abs(block[:, :, :n_outputs] - expected).max() <= 1e-5 * size.max()


def test_smaller_windows_only_weaken_the_bound(problem):
    bounds, losses = [], []
    for reach in (np.inf, 6.0):
        loop = Loop(problem, Cones.of(SQUARE), share=1.0, reach=reach)
        loop.run(800)
        loop.settle()
        bounds.append(loop.class_bound())
        losses.append((problem.costs * loop.matrix()).sum())
    best = mdp.solve_plane(problem, bound=False).loss
    assert 0.9 * best < bounds[0] <= best
    assert 0.0 < bounds[1] <= best
    assert losses[1] == pytest.approx(losses[0], rel=0.03)


def test_the_number_of_threads_changes_nothing(problem, monkeypatch):
    made = []
    for start in (1, 10**9):
        monkeypatch.setattr(loops, "PARALLEL_FROM", start)
        loop = Loop(problem, Cones.of(SQUARE), share=0.99, reach=np.inf)
        loop.run(40)
        made.append(loop.matrix())
    assert np.array_equal(*made)
