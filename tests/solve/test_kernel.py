"""The mechanism with every mDP row tight, in closed form, and the method that mixes kernels."""

from __future__ import annotations

import numpy as np
import pytest

import metricdp as mdp
from metricdp.solve.contract import Context, Ended, Incumbent
from metricdp.solve.division import Division
from metricdp.solve.executor import workers
from metricdp.solve.merged import Merged
from metricdp.solve.result import Trace
from metricdp.solve.solvers.columns.loop import ColumnRun, Columns
from metricdp.solve.solvers.columns.options import ColumnOptions
from metricdp.solve.solvers.columns.tight import tight_mechanism
from metricdp.solve.stop import Stop


def grid_problem(exponent: float, outputs: int = 36) -> mdp.Problem:
    return mdp.Problem(mdp.data.grid(6, 6), epsilon=exponent, eta=1.5, outputs=outputs)


def component_of(problem):
    return Merged.of(problem).whole()


class TestTightMechanism:
    """Two linear systems instead of a linear program."""

    @pytest.mark.parametrize("exponent", [1.0, 2.0, 4.0])
    def test_it_is_the_best_mixture_of_kernels(self, exponent):
        component = component_of(grid_problem(exponent))
        Z, duals = tight_mechanism(component)
        with workers(threads=1) as crew:
            best, _ = ColumnRun(component, ColumnOptions(), crew, Stop(None)).best_mixture()
        np.testing.assert_allclose(Z.sum(axis=1), 1.0, rtol=1e-9)
        np.testing.assert_allclose((component.costs * Z).sum(), (component.costs * best).sum(), rtol=1e-6)
        np.testing.assert_allclose(duals.sum(), (component.costs * Z).sum(), rtol=1e-9)  # strong duality

    def test_every_mdp_row_holds(self):
        problem = grid_problem(2.0)
        Z, _ = tight_mechanism(component_of(problem))
        i, j = problem.graph.pairs.T
        bound = np.exp(problem.epsilon * problem.graph.distances)[:, None]
        assert (Z[i] <= bound * Z[j] * (1 + 1e-9)).all()
        assert (Z[j] <= bound * Z[i] * (1 + 1e-9)).all()

    def test_none_where_records_share_an_output(self):
        assert tight_mechanism(component_of(grid_problem(4.0, outputs=20))) is None

    def test_none_where_weights_would_be_negative(self):
        """Three near records around a fourth: their kernels alone cover it more than once."""
        star = np.array([[0.0, 0.0], [1.0, 0.0], [-0.5, 0.8], [-0.5, -0.8]])
        problem = mdp.Problem(mdp.Records(star), epsilon=0.2, eta=1.2, outputs=4, metric="euclidean")
        assert problem.graph.n_pairs == 3
        assert tight_mechanism(component_of(problem)) is None


def test_kernels_are_nearly_optimal_at_weak_privacy():
    result = mdp.solve(grid_problem(4.0), method="kernel", gap=0.01)
    assert result.status is mdp.Status.OPTIMAL
    assert result.gap <= 0.01


def test_a_limit_on_kernels_is_a_limit():
    result = mdp.solve(grid_problem(4.0), method="kernel", gap=1e-9, time_limit=1e-6)
    assert result.status is mdp.Status.LIMIT


def test_kernels_that_are_not_enough_have_done_all_they_can():
    result = mdp.solve(grid_problem(0.3, outputs=9), method="kernel", gap=1e-9)
    assert result.status is mdp.Status.FAILED
    assert result.mechanism.certificate.privacy.certified


def test_columns_know_what_was_handed_over():
    """A good bound and a good mechanism are enough: there is nothing left to do."""
    problem = mdp.Problem(mdp.data.grid(6, 7), epsilon=1.0, eta=1.5, outputs=12)
    exact = mdp.solve(problem, method="direct", gap=1e-6)
    merged = Merged.of(problem)
    component, stop = merged.whole(), Stop(None)
    known = Incumbent(exact.lower_bound, exact.mechanism.probabilities, unit_duals=component.costs.min(axis=1))
    with workers(threads=1) as crew:
        context = Context(1e-5, crew, Trace(), stop, Division(problem, merged, stop))
        found = Columns().run(component, known, context)
    assert found.ended is Ended.REACHED
    assert found.iterations == 0
    assert found.lower_bound == exact.lower_bound
