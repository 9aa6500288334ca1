"""The exact check from inequalities: splines as the faster check decides them, triangles as fractions do."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from tests.mechanism.plane_exact import as_lists, factor, great_circle, is_private_over_triangles, triangle_chances
from tests.mechanism.test_plane import whole_rows
from tests.mechanism.test_plane_pairs import STEPS, pairs_of_points, true_place
from tests.solve.plane.lattice import all_cones

import metricdp as mdp
from metricdp.data.weights import KINDS
from metricdp.errors import CertificationError
from metricdp.mechanism.plane import PlaneMechanism
from metricdp.mechanism.plane_certify import check_plane
from metricdp.mechanism.plane_inequalities import check_inequalities, check_region
from metricdp.problem.outputs import Outputs
from metricdp.solve.plane.cones import Cones

ROME = mdp.data.region(41.88, 12.46, 41.898, 12.484, spacing=0.4, weights="triangles")
SIDES = Fraction(1, 3), Fraction(1, 2)


@pytest.fixture(scope="module")
def tight():
    """A solved mechanism at the least budget it passes with."""
    outputs = np.random.default_rng(0).uniform(ROME.low, ROME.high, (5, 2))
    made = mdp.solve_plane(mdp.PlaneProblem(ROME, epsilon=1.0, outputs=outputs), bound=False).mechanism
    return PlaneMechanism(made.table, ROME, made.outputs, made.certificate.privacy.tightest_epsilon)


def test_splines_are_decided_as_by_their_own_check():
    rng, seen = np.random.default_rng(0), set()
    found = KINDS["bspline2"].inequalities((3, 2))
    for _ in range(60):
        table = whole_rows(1.0 + rng.uniform(0.05, 0.6) * rng.random((5 * 4, 2)))
        own, other = check_plane(table, (5, 4), 0.5, SIDES), check_inequalities(table, found, 0.5, SIDES)
        assert own.certified == other.certified
        assert own.n_compared == other.n_compared
        if not own.certified:
            assert own.tightest_epsilon == pytest.approx(other.tightest_epsilon, rel=1e-9)
        seen.add(own.certified)
    assert seen == {True, False}


def test_cones_of_the_solver_are_these_inequalities():
    splines = mdp.data.region(41.88, 12.46, 41.898, 12.484, spacing=0.4)
    (nodes, factors), (n, m) = all_cones(splines), splines.shape
    moves, kinds = Cones.of(splines).kinds
    for number, (p, q) in enumerate(np.ndindex(2 * n - 3, 2 * m - 3)):
        kind = 2 * (p % 2) + q % 2
        at = (p // 2 + moves[kind, :, 0]) * m + q // 2 + moves[kind, :, 1]
        assert np.array_equal(at, nodes[number])
        assert np.allclose(kinds[kind], factors[number], rtol=1e-15)


def test_triangles_are_decided_as_by_fractions():
    rng, seen = np.random.default_rng(1), set()
    found = KINDS["triangles"].inequalities((3, 2))
    for _ in range(80):
        table = whole_rows(1.0 + rng.uniform(0.02, 0.3) * rng.random((4 * 4, 2)))
        check = check_inequalities(table, found, 0.5, SIDES)
        assert check.certified == is_private_over_triangles(table, (3, 2), 0.5, SIDES)
        seen.add(check.certified)
    assert seen == {True, False}


def check_least_violations(n):
    rng = np.random.default_rng(2)
    cells, epsilon = (3, 2), 0.7
    found = KINDS["triangles"].inequalities(cells)
    table = whole_rows(1.0 + 0.02 * rng.random((4 * 4, 3)))
    assert is_private_over_triangles(table, cells, epsilon, SIDES)
    for _ in range(n):
        row, k, other = int(rng.integers(16)), *(int(v) for v in rng.permutation(3)[:2])

        def moved(amount, row=row, k=k, other=other):
            changed = table.copy()
            changed[row, k] += np.uint64(amount)
            changed[row, other] -= np.uint64(amount)
            return changed

        low, high = 0, int(table[row, other])
        while high - low > 1:
            middle = (low + high) // 2
            passes = check_inequalities(moved(middle), found, epsilon, SIDES).certified
            low, high = (middle, high) if passes else (low, middle)
        assert is_private_over_triangles(moved(low), cells, epsilon, SIDES)
        assert not is_private_over_triangles(moved(high), cells, epsilon, SIDES)


def test_the_least_violating_change_is_rejected():
    check_least_violations(20)


@pytest.mark.slow
def test_the_least_violating_change_is_rejected_at_1000_places():
    check_least_violations(1000)


def check_pairs(mechanism, n):
    region, worst = mechanism.region, 0.0
    rows, most = as_lists(mechanism.table), [cells * STEPS for cells in mechanism.region.cells]
    for _, a, b in pairs_of_points(region, n, seed=3):
        distance = great_circle(true_place(region, a), true_place(region, b))
        limit = factor(mechanism.epsilon, distance)
        p, q = ([min(max(v, 0), top) for v, top in zip(point, most, strict=True)] for point in (a, b))
        p, q = (triangle_chances(rows, region.cells, point) for point in (p, q))
        assert sum(p) == sum(q) == 2**63
        for up, down in zip(p, q, strict=True):
            assert up <= limit * down, (a, b)
            assert down <= limit * up, (a, b)
            change = abs(math.log1p(float((up - down) / down)))
            worst = max(worst, change / (mechanism.epsilon * float(distance)))
    assert worst > 0.9


def test_no_pair_of_points_is_above_the_promise(tight):
    check_pairs(tight, 1_500)


@pytest.mark.slow
def test_no_pair_of_20000_is_above_the_promise(tight):
    check_pairs(tight, 20_000)


def test_a_table_that_is_private_between_nodes_only_is_rejected():
    """At the whole budget along sides, where 0.784 of it is allowed."""
    region = mdp.data.region(0.0, 0.0, math.sqrt(0.75) * 6, 6.0, spacing=1.0, kind="vectors", weights="triangles")
    nodes = region.records
    one = np.exp(-0.25 * np.abs(nodes.coordinates[:, 1] - 3.0) * 0.999)
    table = whole_rows(np.column_stack([one, 9.0 - one]))
    pairs = mdp.metric.as_metric("euclidean", nodes).pairs_within(nodes, 1.01)
    assert mdp.mechanism.check_privacy(table, *pairs, 0.25).certified
    check = check_region(table, region, 0.25)
    assert not check.certified
    with pytest.raises(CertificationError, match="changes too fast: inequality"):
        PlaneMechanism(table, region, Outputs.of(None, nodes.select([0, 1]), seed=0), 0.25)


def test_files_say_which_weights_they_have(tight, tmp_path):
    path = tmp_path / "triangles.mdp"
    tight.save(path)
    again = mdp.load(path)
    assert again.region == ROME
    assert np.array_equal(again.table, tight.table)
    assert "triangles as weights" in str(again.certificate)
    assert again.perturb(np.tile([41.89, 12.47], (5, 1))).shape == (5,)


def test_draws_follow_the_probabilities(tight):
    rng = np.random.default_rng(4)
    n = 100_000
    for point in ([41.8801, 12.4601], [41.889, 12.4731], [41.898, 12.484]):
        drawn = tight.draw_points(
            np.tile(point, (n, 1)), bits=lambda count: rng.integers(0, 1 << 63, size=count, dtype=np.uint64)
        )
        shares = tight.probabilities_at([point])[0]
        assert (np.abs(np.bincount(drawn, minlength=5) / n - shares) < 5.0 * np.sqrt(shares / n)).all()
