"""The interior point method: it agrees with linear programs, survives odd problems, and ends honestly."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import DATASETS, exponents, small_problem

import metricdp as mdp
from metricdp.errors import InputError
from metricdp.metric import as_metric
from metricdp.metric.graph import MdpGraph
from metricdp.solve.bounds import lower_bound
from metricdp.solve.merged import Merged
from metricdp.solve.solvers.interior import factors, loop, newton
from metricdp.solve.solvers.interior.elimination import Block, Elimination
from metricdp.solve.solvers.interior.factors import Factors, Pattern


def check_agreement(result, exact):
    """Both are certified, and their intervals from bound to loss meet."""
    for one in (result, exact):
        assert one.mechanism.certificate.privacy.certified
    assert result.lower_bound <= exact.loss * (1 + 1e-12)
    assert exact.lower_bound <= result.loss * (1 + 1e-12)


@pytest.mark.parametrize("dataset", DATASETS)
@settings(max_examples=10)
@given(seed=st.integers(0, 99), n=st.integers(5, 29), outputs=st.integers(2, 11), exponent=exponents(0.1, 10.0))
def test_agrees_with_the_linear_program(dataset, seed, n, outputs, exponent):
    problem = small_problem(dataset, seed=seed, n=n, outputs=min(outputs, n - 1), exponent=exponent)
    result = mdp.solve(problem, method="interior", gap=1e-4)
    assert result.status is mdp.Status.OPTIMAL
    assert result.gap <= 1e-4
    check_agreement(result, mdp.solve(problem, method="direct", gap=1e-6))


class TestOddProblems:
    """What floats find hard."""

    @pytest.mark.parametrize("exponent", [1e-3, 1e-2, 0.1, 1.0, 10.0, 20.0, 30.0])
    @pytest.mark.parametrize("dataset", ["road", "gaussian"])
    def test_any_privacy(self, dataset, exponent):
        problem = small_problem(dataset, seed=4, n=25, outputs=8, exponent=exponent)
        result = mdp.solve(problem, method="interior", gap=1e-3)
        assert result.status is mdp.Status.OPTIMAL, result
        check_agreement(result, mdp.solve(problem, method="columns", gap=1e-3))

    def test_a_wide_range_of_distances(self):
        """Neighbours from epsilon d = 0.001 to 30 in one component."""
        line = np.cumsum(np.concatenate(([0.0], np.geomspace(1e-3, 30.0, 14))))
        problem = mdp.Problem(mdp.Records(line[:, None], kind="vectors"), epsilon=1.0, eta=31.0, outputs=7)
        result = mdp.solve(problem, method="interior", gap=1e-3)
        assert result.status is mdp.Status.OPTIMAL
        check_agreement(result, mdp.solve(problem, method="direct", gap=1e-3))

    def test_tiny_priors(self):
        records = mdp.data.grid(5, 5)
        prior = np.full(25, 1e-12)
        prior[::6] = 1.0
        problem = mdp.Problem(records.with_prior(prior), epsilon=1.0, eta=1.5, outputs=9)
        result = mdp.solve(problem, method="interior", gap=1e-4)
        assert result.status is mdp.Status.OPTIMAL
        check_agreement(result, mdp.solve(problem, method="direct", gap=1e-6))

    def test_nobody_cares_about_some_records(self):
        prior = np.zeros(16)
        prior[3] = 1.0
        problem = mdp.Problem(mdp.data.grid(4, 4).with_prior(prior), epsilon=1.0, eta=1.0, outputs=4)
        result = mdp.solve(problem, method="interior", gap=1e-4)
        check_agreement(result, mdp.solve(problem, method="direct", gap=1e-6))

    def test_outputs_that_are_the_same_place(self):
        points = np.repeat(np.random.default_rng(0).normal(size=(4, 2)), 3, axis=0)
        problem = mdp.Problem(mdp.data.grid(4, 4), epsilon=1.0, eta=1.5, outputs=points)
        result = mdp.solve(problem, method="interior", gap=1e-4)
        assert result.status is mdp.Status.OPTIMAL
        check_agreement(result, mdp.solve(problem, method="direct", gap=1e-6))

    @pytest.mark.parametrize(("n", "outputs"), [(2, 2), (2, 1), (3, 1), (9, 1), (2, 5)])
    def test_smallest_sizes(self, n, outputs):
        points = np.random.default_rng(n).normal(size=(outputs, 1))
        records = mdp.Records(np.arange(float(n))[:, None], kind="vectors")
        problem = mdp.Problem(records, epsilon=0.7, eta=1.0, outputs=points)
        result = mdp.solve(problem, method="interior", gap=1e-5)
        assert result.status is mdp.Status.OPTIMAL
        check_agreement(result, mdp.solve(problem, method="direct", gap=1e-6))

    def test_all_losses_are_equal(self):
        problem = mdp.Problem(mdp.data.grid(3, 3), epsilon=1.0, eta=1.0, outputs=4, loss=np.ones((9, 4)))
        result = mdp.solve(problem, method="interior", gap=1e-6)
        assert result.loss == pytest.approx(1.0, rel=1e-9)
        assert result.lower_bound == pytest.approx(1.0, rel=1e-9)


class TestEndings:
    """Why it ended is said, and what was proved by then stands."""

    problem = staticmethod(lambda: small_problem("road", seed=1, n=40, outputs=10, exponent=1.0))

    def test_the_iterations_are_used_up(self):
        result = mdp.solve(self.problem(), method="interior", gap=1e-6, options=mdp.InteriorOptions(max_iterations=4))
        assert result.status is mdp.Status.LIMIT
        assert result.iterations == 4
        assert result.mechanism.certificate.privacy.certified
        check_agreement(result, mdp.solve(self.problem(), method="direct", gap=1e-6))

    def test_a_factor_that_breaks_down_ends_with_the_best_point(self, monkeypatch):
        advance, calls = newton.Point.advance, []

        def failing(point, correctors):
            calls.append(1)
            if len(calls) > 6:
                point.Z = point.Z * np.nan
                raise np.linalg.LinAlgError
            return advance(point, correctors)

        monkeypatch.setattr(newton.Point, "advance", failing)
        result = mdp.solve(self.problem(), method="interior", gap=1e-7)
        assert result.status is mdp.Status.FAILED
        assert result.mechanism.certificate.privacy.certified
        assert 0.0 < result.lower_bound < result.loss < 2.0 * result.lower_bound
        check_agreement(result, mdp.solve(self.problem(), method="direct", gap=1e-6))

    def test_a_gap_beyond_floats_ends_near_what_floats_allow(self):
        result = mdp.solve(self.problem(), method="interior", gap=0.0)
        assert result.status is (mdp.Status.OPTIMAL if result.gap <= 1e-6 else mdp.Status.FAILED)
        assert 0.0 < result.gap < 1e-5
        check_agreement(result, mdp.solve(self.problem(), method="direct", gap=1e-6))

    def test_what_would_take_hours_is_refused_with_the_cost(self, monkeypatch):
        monkeypatch.setattr(loop, "MAX_OPERATIONS", 1e4)
        with pytest.raises(
            InputError, match=r"would take more than .* minutes for \d+ records .* 'first-order' or 'auto'"
        ):
            mdp.solve(self.problem(), method="interior")

    def test_options_are_checked(self):
        with pytest.raises(InputError, match="correctors must be 0 or more, got -1"):
            mdp.InteriorOptions(correctors=-1)
        with pytest.raises(InputError, match="max_iterations must be at least 1, got 0"):
            mdp.InteriorOptions(max_iterations=0)


def graph_of(records, eta):
    return MdpGraph.of(records, as_metric(None, records), eta)


def component_of(dataset, *, n, outputs=3, exponent=1.0, seed=0):
    merged = Merged.of(small_problem(dataset, seed=seed, n=n, outputs=outputs, exponent=exponent))
    sizes = [len(rows) for rows in merged.graph.components]
    return merged.component(int(np.argmax(sizes)))


class TestElimination:
    """Every record is eliminated once, and what is below a block is all that can touch it."""

    @pytest.mark.parametrize("dataset", DATASETS)
    @pytest.mark.parametrize("n", [5, 30, 48, 400])
    def test_order_and_blocks(self, dataset, n):
        graph = component_of(dataset, n=min(n, 48) if dataset == "grid" else n).graph
        found = Elimination.of(graph)
        assert np.array_equal(np.sort(found.order), np.arange(graph.n))
        ends = [0, *(block.end for block in found.blocks)]
        assert [block.first for block in found.blocks] == ends[:-1]
        assert ends[-1] == graph.n
        place = np.empty(graph.n, dtype=int)
        place[found.order] = np.arange(graph.n)
        block_of = np.repeat(np.arange(len(found.blocks)), [b.end - b.first for b in found.blocks])
        for i, j in place[graph.pairs]:
            low, high = min(i, j), max(i, j)
            assert found.blocks[block_of[high]].start <= low

    def test_a_plane_has_small_separators(self):
        graph = graph_of(mdp.data.grid(20, 20), 1.5)
        chain = Elimination(np.arange(400), [Block(0, first, first + 50) for first in range(0, 400, 50)])
        assert Elimination.of(graph).operations(1) < 0.25 * chain.operations(1)

    def test_the_fewest_records_that_part_two_clusters(self):
        """Two crowds that only three records join, which all know one another: these come last."""
        west, east = np.random.default_rng(0).uniform(0.0, 1.0, (2, 30, 2))
        bridge = np.array([[2.0, 0.4], [2.0, 0.5], [2.0, 0.6]])
        records = mdp.data.Records(np.concatenate((west, bridge, east + np.array([3.0, 0.0]))), kind="vectors")
        found = Elimination.of(graph_of(records, 1.9))
        touched = (records.coordinates[found.order[-3:], 0] == 2.0).sum()
        assert touched == 3
        assert found.blocks[-1].end - found.blocks[-1].first == 3

    def test_no_separator_is_no_division(self):
        everybody = graph_of(mdp.data.gaussian(150, seed=0), np.inf)
        starts = {block.start for block in Elimination.of(everybody).blocks}
        assert starts == {0}


class TestFactors:
    """Solving with the factors is solving with the matrices."""

    @pytest.mark.parametrize("dataset", ["road", "words"])
    @pytest.mark.parametrize("n", [8, 60, 200])
    @pytest.mark.parametrize("together", [1e3, 4e6])
    def test_against_dense_algebra(self, dataset, n, together, monkeypatch):
        monkeypatch.setattr(factors, "BYTES_AT_ONCE", together)
        component = component_of(dataset, n=n, outputs=7)
        found = Elimination.of(component.graph)
        place = np.empty(component.n, dtype=int)
        place[found.order] = np.arange(component.n)
        i, j = place[component.graph.pairs].T
        rng = np.random.default_rng(n)
        off = -rng.uniform(0.1, 1.0, (7, len(i)))
        H = np.zeros((7, component.n, component.n))
        H[:, i, j] = H[:, j, i] = off
        diagonal = np.abs(H).sum(axis=2) + rng.uniform(0.1, 1.0, (7, component.n))
        H[:, np.arange(component.n), np.arange(component.n)] = diagonal
        with ThreadPoolExecutor(2) as pool:
            factor = Factors(Pattern(found, i, j, 7), diagonal, off, pool)
            right = rng.normal(size=(7, component.n))
            assert np.allclose(factor.solve(right), np.linalg.solve(H, right[:, :, None])[:, :, 0], rtol=1e-9)
            total = np.linalg.inv(H).sum(axis=0)
            assert np.allclose(factor.solve_total(right[0]), np.linalg.solve(total, right[0]), rtol=1e-8)

    def test_a_matrix_that_is_not_positive_is_refused(self):
        component = component_of("road", n=12, outputs=2)
        found = Elimination.of(component.graph)
        i, j = np.searchsorted(found.order[np.argsort(found.order)], component.graph.pairs).T
        off = np.full((2, len(i)), -1.0)
        with ThreadPoolExecutor(1) as pool, pytest.raises(np.linalg.LinAlgError):
            Factors(Pattern(found, i, j, 2), np.full((2, component.n), 1e-3), off, pool)


def test_multipliers_prove_the_bound_that_the_point_claims():
    component = component_of("gaussian", n=40)
    with ThreadPoolExecutor(1) as pool:
        system = newton.System(component, Elimination.of(component.graph), pool)
        point = newton.Point(system)
        for _ in range(8):
            point.advance(2)
        duals = system.duals(point.Y)
    least = component.costs.min(axis=1).sum()
    assert lower_bound(component.costs, duals) == pytest.approx(least + system.scale * point.bound, rel=1e-9)


def test_every_iterate_is_private():
    component = component_of("road", n=40, exponent=1.0)
    i, j = component.graph.pairs.T
    growth = np.exp(component.epsilon * component.graph.distances)[:, None]
    with ThreadPoolExecutor(1) as pool:
        system = newton.System(component, Elimination.of(component.graph), pool)
        point = newton.Point(system)
        for _ in range(8):
            point.advance(2)
            if np.abs(point.missed_rows).max() < 1e-14:  # since the first full step
                Z = system.in_order(point.Z)
                assert (Z[i] <= growth * Z[j] * (1 + 1e-12)).all()
                assert (Z[j] <= growth * Z[i] * (1 + 1e-12)).all()
                assert np.allclose(Z.sum(axis=1), 1.0, atol=1e-12)
    assert np.abs(point.missed_rows).max() < 1e-14


def test_it_can_be_broken_off_in_the_middle_of_an_iteration(monkeypatch):
    """A deadline that comes while factors are made does not wait for the rest of them."""
    problem = small_problem("road", seed=1, n=40, outputs=10, exponent=1.0)
    calls, factorise = [], factors._inverse_factors
    monkeypatch.setattr(factors, "BYTES_AT_ONCE", 1.0)  # each output apart

    def stopping(*arguments):
        calls.append(1)
        if len(calls) == 25:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.5)  # the signal is for the main thread
        return factorise(*arguments)

    monkeypatch.setattr(factors, "_inverse_factors", stopping)
    result = mdp.solve(problem, method="interior", gap=1e-7, threads=1)
    assert result.status is mdp.Status.LIMIT
    assert 25 <= len(calls) <= 30
    assert result.mechanism.certificate.privacy.certified
    check_agreement(result, mdp.solve(problem, method="direct", gap=1e-6))
