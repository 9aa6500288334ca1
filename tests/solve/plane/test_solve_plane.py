"""Solving over a region: cones, steps, repair, bounds."""

from __future__ import annotations

import math
import signal

import numpy as np
import pytest
from tests.solve.plane.lattice import all_cones

import metricdp as mdp
from metricdp.errors import InputError, SolverError
from metricdp.mechanism.plane_certify import check_plane
from metricdp.metric.simd import WIDTH
from metricdp.solve.plane.any_mechanism import any_mechanism_bound, compared
from metricdp.solve.plane.cones import Cones
from metricdp.solve.plane.loop import SLOPE_SCALE, Loop
from metricdp.solve.plane.repair import private_table, whole
from metricdp.solve.plane.solve import table_loss

ROME = mdp.data.region(41.88, 12.46, 41.898, 12.484, spacing=0.35)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    places = mdp.Records(rng.uniform(ROME.low, ROME.high, (40, 2)), prior=rng.random(40))
    outputs = rng.uniform(ROME.low, ROME.high, (12, 2))
    return mdp.PlaneProblem(ROME, epsilon=1.0, outputs=outputs, places=places)


@pytest.fixture(scope="module")
def result(problem):
    return mdp.solve_plane(problem)


def test_costs_are_those_of_the_places(problem, result):
    shares = result.mechanism.probabilities_at(problem.places.coordinates)
    metric = mdp.metric.as_metric("haversine", problem.places)
    losses = metric.between(problem.places.coordinates, problem.outputs.coordinates)
    expected = (problem.places.prior[:, None] * shares * losses).sum()
    assert result.loss == pytest.approx(expected, rel=1e-9)
    assert result.loss >= expected * (1 - 1e-13)


def test_the_mechanism_is_certified_and_between_its_bounds(result):
    assert result.mechanism.certificate.privacy.certified
    assert 0 < result.lower_bound <= result.loss
    assert 0 < result.class_bound <= result.loss
    assert result.gap < 0.05
    assert "any mechanism" in repr(result)
    assert result.mechanism.optimality.loss == result.loss


def test_it_is_better_than_the_exponential_mechanism(problem, result):
    metric = mdp.metric.as_metric("haversine", problem.places)
    Z = np.exp(-0.5 * metric.between(ROME.records.coordinates, problem.outputs.coordinates))
    table = private_table(Z, problem, Cones.of(ROME))
    assert check_plane(table, ROME.shape, 1.0, ROME.sides).certified
    assert result.loss < 0.97 * table_loss(table, problem)


def test_the_cones_are_the_inequalities_of_the_check(problem):
    (nodes, factors), side = all_cones(ROME), Cones.of(ROME).side
    rng = np.random.default_rng(1)
    seen = set()
    for _ in range(30):
        table = whole(1.0 + rng.uniform(0.2, 2.0) * rng.random((problem.n_nodes, 2)))
        terms = np.einsum("cpm,cmk->cpk", factors, (table / 2.0**63)[nodes])
        ratio = (np.hypot(terms[:, 0], terms[:, 1]) / terms[:, 2]).max() / side
        check = check_plane(table, ROME.shape, 1.0, ROME.sides)
        assert (ratio <= 1.0) == check.certified
        assert check.certified or check.tightest_epsilon == pytest.approx(ratio, rel=1e-6)
        seen.add(check.certified)
    assert seen == {True, False}


@pytest.mark.parametrize("kind", ["random", "identity", "zeros in rows"])
def test_any_matrix_can_be_repaired(problem, kind):
    rng = np.random.default_rng(2)
    Z = rng.random((problem.n_nodes, 12)) ** 8
    if kind == "identity":
        Z = np.eye(12)[np.arange(problem.n_nodes) % 12]
    elif kind == "zeros in rows":
        Z[:, :6] = 0.0
    table = private_table(Z, problem, Cones.of(ROME))
    assert check_plane(table, ROME.shape, 1.0, ROME.sides).certified


def test_the_class_bound_holds_for_other_tables(problem, result):
    loop = Loop(problem, Cones.of(ROME), share=1.0, reach=math.inf)
    losses = [result.loss]
    for _ in range(4):
        loop.run(25)
        table = private_table(loop.matrix(), problem, Cones.of(ROME))
        losses.append(table_loss(table, problem))
        assert loop.class_bound() <= min(losses)


def test_the_class_bound_is_below_its_formula_in_more_digits(problem):
    """Duals may be large where they cancel: factors in single precision would show."""
    nodes, factors = all_cones(ROME)
    loop = Loop(problem, Cones.of(ROME), share=1.0, reach=math.inf)
    scale = np.array([SLOPE_SCALE, SLOPE_SCALE, 1.0], dtype=np.longdouble)[None, :, None]
    factors = factors * scale
    factors = factors / np.linalg.norm(factors.astype(float), ord=2, axis=(1, 2)).astype(np.longdouble)[:, None, None]
    windows, half = loop.windows, 2 * ROME.shape[1] - 3
    for seed in range(20):
        loop.Y[:] = np.random.default_rng(seed).normal(size=loop.Y.shape) * 10.0**5
        reduced = problem.costs.astype(np.longdouble) * loop.unit
        for group in range(windows.n_groups):
            (top, left), (n, m) = windows.low[group], windows.shapes[group]
            lines = np.arange(2 * n - 3)[:, None] + 2 * top, np.arange(2 * m - 3) + 2 * left
            numbers = (lines[0] * half + lines[1]).ravel()  # of the cones of this window
            begin, end = (3 * WIDTH * place for place in windows.cones[group : group + 2])
            outputs = windows.outputs(group)
            Y = loop.Y[begin:end].reshape(len(numbers), 3, WIDTH)[:, :, : len(outputs)].astype(np.longdouble)
            Y[:, 2] = np.minimum(Y[:, 2], -loop.true_theta * np.hypot(Y[:, 0], Y[:, 1]))
            for q in range(nodes.shape[1]):
                terms = np.einsum("cp,cpk->ck", factors[numbers, :, q], Y)
                np.add.at(reduced, (nodes[numbers, q][:, None], outputs), terms)
        exact = float(reduced.min(axis=1).sum()) / loop.unit
        assert exact - 1e-8 * abs(exact) <= loop.class_bound() <= exact


def test_bounds_above_the_loss_are_a_fault(problem, monkeypatch):
    monkeypatch.setattr(Loop, "class_bound", lambda _: 100.0)
    with pytest.raises(SolverError, match="above the loss"):
        mdp.solve_plane(problem, max_steps=3, bound=False)


def test_the_bound_for_any_mechanism_is_one_for_records(problem, result):
    bound = any_mechanism_bound(problem).lower_bound
    assert bound <= result.loss
    # the places as records alone, all pairs compared: their optimum is above the bound
    records = mdp.Problem(
        problem.places, epsilon=1.0, eta=10.0, outputs=problem.outputs.coordinates, loss=problem.losses
    )
    assert bound <= mdp.solve(records, gap=1e-3).loss


def test_points_where_nobody_is_raise_the_bound_for_any_mechanism():
    square = mdp.data.region(0.0, 0.0, 6.0, 6.0, spacing=0.5, kind="vectors")
    corners = mdp.Records([[0.5, 0.5], [5.5, 0.5], [0.5, 5.5], [5.5, 5.5]], prior=[0.3, 0.3, 0.2, 0.2], kind="vectors")
    sparse = mdp.PlaneProblem(square, epsilon=1.0, places=corners, outputs=corners.coordinates)
    found = compared(sparse)
    assert 4 < found.n_records <= 8
    assert found.loss_name == "distance"
    assert found.outputs.rows.tolist() == [0, 1, 2, 3]
    assert found.records.prior[4:].sum() == 0.0
    apart = np.linalg.norm(found.records.coordinates[4:, None] - corners.coordinates, axis=2)
    assert apart.min() > 0.4
    assert not square.is_outside(found.records.coordinates).any()
    alone = mdp.solve(mdp.Problem(corners, epsilon=1.0, eta=20.0, loss="distance"), gap=1e-6)
    result = mdp.solve_plane(sparse)
    assert alone.loss * 1.01 < result.lower_bound <= result.loss


@pytest.mark.parametrize("losses", [None, np.ones((4, 2))])
def test_outputs_elsewhere_or_other_losses_are_compared_by_their_matrix(losses):
    square = mdp.data.region(0.0, 0.0, 6.0, 6.0, spacing=1.0, kind="vectors")
    people = mdp.Records([[0.5, 0.5], [5.5, 0.5], [0.5, 5.5], [5.5, 5.5]], kind="vectors")
    away = [[3.0, 3.0], [9.0, 3.0]] if losses is None else people.coordinates[:2]
    problem = mdp.PlaneProblem(square, epsilon=0.5, places=people, outputs=away, losses=losses)
    found = compared(problem)
    assert found.outputs.rows is None
    assert np.array_equal(found.loss[:4], problem.losses)


def test_a_square_of_vectors_comes_near_any_mechanism():
    square = mdp.data.region(0.0, 0.0, 5.0, 4.0, spacing=1.0, kind="vectors")
    result = mdp.solve_plane(mdp.PlaneProblem(square, epsilon=0.25))
    assert result.gap < 0.02
    assert result.class_gap < 0.015
    again = mdp.solve_plane(mdp.PlaneProblem(square, epsilon=0.25))
    assert np.array_equal(result.mechanism.table, again.mechanism.table)


def test_limits_are_kept(problem):
    short = mdp.solve_plane(problem, max_steps=3, bound=False)
    assert short.steps == 3
    assert short.status is mdp.Status.LIMIT
    assert short.mechanism.certificate.privacy.certified
    assert short.mechanism.optimality is None
    late = mdp.solve_plane(problem, time_limit=1e-6, bound=False)
    assert late.steps == 0
    assert late.mechanism.certificate.privacy.certified
    with pytest.raises(InputError, match="time_limit"):
        mdp.solve_plane(problem, time_limit=0)
    with pytest.raises(InputError, match="max_steps"):
        mdp.solve_plane(problem, max_steps=0)
    with pytest.raises(InputError, match="gap must be"):
        mdp.solve_plane(problem, gap=1.0)
    with pytest.raises(InputError, match="takes a PlaneProblem"):
        mdp.solve_plane(mdp.Problem(problem.places, epsilon=1.0, eta=1.0))


def test_ctrl_c_ends_it_with_the_best_certified_mechanism(problem):
    rows = []

    def listener(row):
        rows.append(row)
        if row["stage"] == "plane" and len(rows) == 2:
            signal.raise_signal(signal.SIGINT)

    ended = mdp.solve_plane(problem, gap=0.0, listener=listener)
    assert ended.status is mdp.Status.LIMIT
    assert ended.mechanism.certificate.privacy.certified
    assert 0.0 < ended.class_bound <= ended.loss
    assert len(rows) == 4, "the start, the bound so far, the table made of it, the end; no bound for any mechanism"
    assert ended.is_interrupted
    assert ended.mechanism.optimality is None
    assert "any mechanism not bounded" in repr(ended)
    assert not any("go below" in line for line in ended.mechanism.certificate.lines())


def test_an_interrupt_before_the_bound_keeps_the_mechanism(problem, monkeypatch):
    def interrupted(asked):
        signal.raise_signal(signal.SIGINT)
        return compared(asked)

    monkeypatch.setattr("metricdp.solve.plane.any_mechanism.compared", interrupted)
    ended = mdp.solve_plane(problem, gap=0.0, max_steps=100)
    assert (ended.is_interrupted, ended.lower_bound) == (True, 0.0)
    assert ended.mechanism.certificate.privacy.certified


def test_the_status_says_whether_the_gap_was_reached(problem):
    rows = []
    wide = mdp.solve(problem, gap=0.3, bound=False, listener=rows.append)
    assert wide.status is mdp.Status.OPTIMAL
    assert wide.class_gap <= 0.3
    assert [rows[0]["stage"], rows[-1]["stage"], rows[-1]["status"]] == ["start", "end", "optimal"]
    assert [row["iteration"] for row in rows[1:-1]] == sorted(row["iteration"] for row in rows[1:-1])
    assert "optimal" in repr(wide)
    assert rows[0]["reach"] == math.inf, "steps take everything where it fits into memory"
    narrow = mdp.solve_plane(problem, gap=0.0, max_steps=200, bound=False)
    assert narrow.status is mdp.Status.LIMIT
    assert narrow.class_gap > 0.0


def test_options_of_records_are_refused(problem):
    with pytest.raises(InputError, match="not solved with the option 'method': use gap, time_limit"):
        mdp.solve(problem, method="auto", gap=0.1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"epsilon": 0.0}, "positive"),
        ({"epsilon": 9.0}, "finer lattice"),
        ({"epsilon": 1.0, "places": mdp.Records([[41.0, 12.46]])}, "outside the region"),
        ({"epsilon": 1.0, "places": mdp.Records([[1.0, 2.0]], kind="vectors")}, "must be places"),
        ({"epsilon": 1.0, "losses": [[1.0]]}, "losses must be finite"),
    ],
)
def test_problems_that_cannot_be_are_refused(options, text):
    with pytest.raises(InputError, match=text):
        mdp.PlaneProblem(ROME, **options)


@pytest.mark.parametrize(
    ("box", "spacing", "epsilon"),
    [((41.887, 12.475, 41.896, 12.487), 0.5, 5e-324), ((0.0, 0.0, 1e-320, 1e-320), 0.25, 1.0)],
)
def test_sizes_whose_squares_floats_cannot_hold_are_refused(box, spacing, epsilon):
    with pytest.raises(InputError, match="use another unit of length"):
        mdp.PlaneProblem(mdp.data.region(*box, spacing=spacing), epsilon=epsilon)
    large = mdp.data.region(-4e307, -4e307, 4e307, 4e307, spacing=4e307, kind="vectors")
    with pytest.raises(InputError, match="use another unit of length"):
        mdp.PlaneProblem(large, epsilon=1e-308)


@pytest.mark.parametrize("steps", [1.5, 0, True, "2"])
def test_steps_are_counted_in_whole_numbers(problem, steps):
    with pytest.raises(InputError, match="max_steps must be a whole number"):
        mdp.solve_plane(problem, max_steps=steps)
