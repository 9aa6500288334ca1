"""Triangles by an ordinary problem."""

from __future__ import annotations

import math

import numpy as np
import pytest

import metricdp as mdp
from metricdp.errors import InputError
from metricdp.mechanism.plane_inequalities import check_inequalities
from metricdp.solve.plane.triangles import edge_epsilon, solve_triangles

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
        mechanism = solve_triangles(mdp.PlaneProblem(region, epsilon=epsilon, outputs=outputs))
        check = mechanism.certificate.privacy
        assert check.certified
        assert check.n_coefficients == 6 * region.cells[0] * (region.cells[1] + 1)
        # the rule allows for sides that are all at their limit, which few are
        assert check.tightest_epsilon > 0.9 * epsilon
        at_less = 0.999 * check.tightest_epsilon
        again = check_inequalities(mechanism.table, region.lattice.inequalities(region.cells), at_less, region.sides)
        assert not again.certified


def test_solvers_say_which_weights_they_take():
    with pytest.raises(InputError, match="for triangles take solve_triangles"):
        mdp.solve_plane(mdp.PlaneProblem(SQUARE, epsilon=0.25))
    splines = mdp.data.region(0.0, 0.0, 5.0, 5.0, spacing=1.0, kind="vectors")
    with pytest.raises(InputError, match="for splines take solve_plane"):
        solve_triangles(mdp.PlaneProblem(splines, epsilon=0.25))
