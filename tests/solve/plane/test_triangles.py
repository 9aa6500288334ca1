"""Triangles by an ordinary problem."""

from __future__ import annotations

import math

import numpy as np
import pytest

import metricdp as mdp
from metricdp.mechanism.plane_inequalities import check_inequalities
from metricdp.solve import Status
from metricdp.solve.plane.triangles import edge_epsilon

SQUARE = mdp.data.region(0.0, 0.0, 5.0, 5.0, spacing=1.0, kind="vectors", weights="triangles")
ROME = mdp.data.region(41.88, 12.46, 41.898, 12.484, spacing=0.4, weights="triangles")


def test_sides_bound_the_slope_and_no_larger_ratio_would():
    """At the worst corners the slope is exactly what the rule allows."""
    epsilon = 0.3
    for region in (SQUARE, ROME):
        rate, longest = edge_epsilon(region, epsilon)
        found = region.lattice.inequalities(region.cells)
        height, base = (float(side) for side in region.sides)
        slopes = []
        for corner in range(8):  # of the three corners, those that are larger
            z = np.where([corner & 1, corner & 2, corner & 4], math.exp(rate * longest), 1.0)
            a, b, c = np.moveaxis(found.factors[:12] @ z, 1, 0)
            slopes.append((np.hypot(a / height, b / base) / c).max())
        assert max(slopes) == pytest.approx(epsilon, rel=1e-6)
        assert max(slopes) < epsilon


def test_an_ordinary_mechanism_of_the_nodes_is_private_everywhere():
    for region, epsilon in ((SQUARE, 0.25), (ROME, 1.0)):
        outputs = np.random.default_rng(0).uniform(region.low, region.high, (9, 2))
        mechanism = mdp.solve_plane(mdp.PlaneProblem(region, epsilon=epsilon, outputs=outputs), bound=False).mechanism
        check = mechanism.certificate.privacy
        assert check.certified
        assert check.n_coefficients == 6 * region.cells[0] * (region.cells[1] + 1)
        # the rule allows for sides that are all at their limit, which few are
        assert check.tightest_epsilon > 0.9 * epsilon
        at_less = 0.999 * check.tightest_epsilon
        again = check_inequalities(mechanism.table, region.lattice.inequalities(region.cells), at_less, region.sides)
        assert not again.certified


def test_the_result_says_what_is_known_of_it():
    """The loss is that of the table, the bound that for any mechanism, and there is none of this lattice."""
    problem = mdp.PlaneProblem(SQUARE, epsilon=0.25)
    rows: list[dict[str, object]] = []
    result = mdp.solve_plane(problem, listener=rows.append)
    expected = (problem.costs * (result.mechanism.table / 2.0**63)).sum()
    assert result.loss == pytest.approx(expected, rel=1e-9)
    assert 0.5 * result.loss < result.lower_bound < result.loss
    assert result.class_bound == 0.0
    assert result.class_gap == result.gap > 0.01
    assert result.status is Status.LIMIT
    assert result.method == "sides of triangles"
    assert result.mechanism.solver == f"sides of triangles ({result.steps})"
    assert result.mechanism.optimality.lower_bound == result.lower_bound
    assert "this lattice" not in repr(result)
    assert len(result.trace.rows) > 2
    assert result.trace.rows[-1]["stage"] == "end"
    assert any("records" in row for row in rows)
    splines = mdp.data.region(0.0, 0.0, 5.0, 5.0, spacing=1.0, kind="vectors")
    assert mdp.solve_plane(mdp.PlaneProblem(splines, epsilon=0.25), bound=False).loss < result.loss


def test_a_gap_that_is_reached_is_optimal_and_one_without_a_bound_is_not():
    problem = mdp.PlaneProblem(SQUARE, epsilon=0.25, outputs=[[1.0, 1.0], [4.0, 4.0]])
    assert mdp.solve_plane(problem, gap=0.5).status is Status.OPTIMAL
    without = mdp.solve_plane(problem, gap=0.5, bound=False)
    assert (without.status, without.lower_bound, without.gap) == (Status.LIMIT, 0.0, 1.0)
    assert without.mechanism.optimality is None


def test_memory_that_does_not_suffice_is_refused():
    with pytest.raises(mdp.InputError, match="memory"):
        mdp.solve_plane(mdp.PlaneProblem(SQUARE, epsilon=0.25), memory_limit=0.01)
