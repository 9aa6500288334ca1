"""What `auto` chooses: kernels in closed form first, first-order steps while they are fast, columns after them."""

from __future__ import annotations

import signal

import numpy as np
import pytest

import metricdp as mdp
from metricdp.solve import choice
from metricdp.solve.columns.loop import _Run, solve_by_columns, solve_by_kernels
from metricdp.solve.columns.options import ColumnOptions
from metricdp.solve.columns.tight import guessed_gap, tight_mechanism
from metricdp.solve.components import Component
from metricdp.solve.executor import workers
from metricdp.solve.firstorder import loop
from metricdp.solve.result import Trace
from metricdp.solve.stop import Stop
from papers.qiu2024.datasets import Datasets


def grid_problem(exponent: float, outputs: int = 36) -> mdp.Problem:
    return mdp.Problem(mdp.data.grid(6, 6), epsilon=exponent, eta=1.5, outputs=outputs)


@pytest.fixture
def _tiny_ones_too(monkeypatch):
    monkeypatch.setattr(choice, "TINY", 0)


def component_of(problem: mdp.Problem) -> Component:
    return Component(problem.costs, problem.graph, problem.epsilon)


def chosen(result: mdp.Result) -> list[str]:
    return [row["method"] for row in result.trace.rows if row["stage"] == "choice"]


class TestTightMechanism:
    """Two linear systems instead of a linear program."""

    @pytest.mark.parametrize("exponent", [1.0, 2.0, 4.0])
    def test_it_is_the_best_mixture_of_kernels(self, exponent):
        component = component_of(grid_problem(exponent))
        Z, duals = tight_mechanism(component)
        with workers(threads=1) as crew:
            best, _ = _Run(component, ColumnOptions(), crew, Stop(None)).best_mixture()
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


@pytest.mark.usefixtures("_tiny_ones_too")
class TestKernelsFirst:
    """A first try at weak privacy, and never the last word if it is not enough."""

    @pytest.fixture
    def hopeful(self, monkeypatch):
        """Kernels are tried although it was guessed that they are not enough."""
        monkeypatch.setattr(choice, "guessed_gap", lambda _: 0.0)

    def test_kernels_alone(self):
        result = mdp.solve(grid_problem(4.0), gap=0.01)
        assert chosen(result) == ["kernel"]
        assert result.status is mdp.Status.OPTIMAL
        assert result.gap <= 0.01

    @pytest.mark.usefixtures("hopeful")
    def test_kernels_then_another_method(self, monkeypatch):
        monkeypatch.setattr(choice, "RATHER_SMALL", 0)
        problem = mdp.Problem(mdp.data.road("gothenburg", n=60, seed=2), epsilon=2.0, eta=2.0, outputs=60)
        monkeypatch.setattr(choice, "WEAK", 0.0)
        result = mdp.solve(problem, gap=0.01)
        assert chosen(result)[:2] == ["kernel", "first-order"]
        (kernel,) = [row for row in result.trace.rows if row["stage"] == "kernel"]
        assert kernel["gap"] > 0.01
        assert result.status is mdp.Status.OPTIMAL
        first = next(row for row in result.trace.rows if row["stage"] == "first-order")
        assert first["lower_bound"] >= kernel["lower_bound"]  # nothing that the kernels proved is lost
        exact = mdp.solve(problem, method="direct", gap=1e-6)
        assert result.lower_bound <= exact.loss
        assert result.loss <= exact.loss * 1.0102

    @pytest.mark.usefixtures("hopeful")
    def test_what_kernels_proved_outlives_a_limit(self):
        """Stopped when the second method is chosen: the kernels' mechanism and bound are what comes out."""
        records = mdp.data.grid(6, 6)
        jitter = np.random.default_rng(0).uniform(-0.3, 0.3, records.coordinates.shape)
        prior = np.random.default_rng(1).dirichlet(np.ones(36))
        moved = mdp.Records(records.coordinates + jitter, prior=prior)
        problem = mdp.Problem(moved, epsilon=3.6, eta=1.5, outputs=36, metric="euclidean")

        seen = []

        def stop_at_the_second_choice(row):
            seen.append(row["stage"])
            if row["stage"] == "choice" and seen.count("choice") == 2:
                signal.raise_signal(signal.SIGINT)

        result = mdp.solve(problem, gap=5e-4, listener=stop_at_the_second_choice)
        (kernel,) = [row for row in result.trace.rows if row["stage"] == "kernel"]
        assert kernel["gap"] > 5e-4
        assert result.status is mdp.Status.LIMIT
        assert result.lower_bound >= kernel["lower_bound"] * (1 - 1e-12)
        assert result.loss <= kernel["upper_bound"] * (1 + 1e-9)

    @pytest.mark.usefixtures("hopeful")
    @pytest.mark.parametrize(
        ("tiny", "gap", "method"), [(1296, 1e-3, "kernel"), (1297, 1e-3, "direct"), (1297, 0.01, "kernel")]
    )
    def test_not_where_a_linear_program_takes_hardly_longer(self, tiny, gap, method, monkeypatch):
        monkeypatch.setattr(choice, "TINY", tiny)
        assert choice.choose(component_of(grid_problem(4.0)), gap)[0] == method

    def test_a_limit_on_kernels_alone_is_a_limit(self):
        result = mdp.solve(grid_problem(4.0), method="kernel", gap=1e-9, time_limit=1e-6)
        assert result.status is mdp.Status.LIMIT

    def test_not_for_tiny_gaps(self):
        assert "kernel" not in chosen(mdp.solve(grid_problem(4.0), gap=1e-6))

    @pytest.mark.usefixtures("hopeful")
    @pytest.mark.parametrize(("small", "method"), [(7_000, "direct"), (0, "columns")])
    def test_what_comes_after_kernels_at_a_small_gap(self, small, method, monkeypatch):
        monkeypatch.setattr(choice, "RATHER_SMALL", small)
        monkeypatch.setattr(choice, "WEAK", 0.0)
        problem = mdp.Problem(mdp.data.road("gothenburg", n=60, seed=2), epsilon=2.0, eta=2.0, outputs=60)
        monkeypatch.setattr(choice, "VERY_SPARSE", 100.0)
        result = mdp.solve(problem, gap=1e-3)
        assert chosen(result)[:2] == ["kernel", method]
        (kernel,) = [row for row in result.trace.rows if row["stage"] == "kernel"]
        assert result.lower_bound >= kernel["lower_bound"]
        assert result.status is mdp.Status.OPTIMAL
        assert result.gap <= 1e-3


class TestHandOver:
    """First-order steps go on while they are fast, and hand their columns and duals over when they are not."""

    PROBLEM = mdp.Problem(mdp.data.grid(8, 8), epsilon=1.0, eta=1.5, outputs=40)

    @pytest.fixture(autouse=True)
    def _not_small(self, monkeypatch):
        monkeypatch.setattr(choice, "SMALL", 0)

    @staticmethod
    def stages(result):
        return {row["stage"] for row in result.trace.rows}

    def test_it_goes_on_where_steps_are_fast(self, monkeypatch):
        monkeypatch.setattr(loop, "JUDGE_AFTER", 300)
        monkeypatch.setattr(choice, "STEPS_PER_ENTRY", 100.0)
        result = mdp.solve(self.PROBLEM, gap=4e-4)
        assert chosen(result) == ["first-order, columns"]
        assert result.gap <= 4e-4
        assert result.iterations > 300  # it was judged, and found to be fast enough
        assert "columns" not in self.stages(result)

    def test_it_hands_over_where_steps_are_slow(self, monkeypatch):
        monkeypatch.setattr(choice, "STEPS_PER_ENTRY", 0.01)
        monkeypatch.setattr(loop, "JUDGE_AFTER", 300)
        result = mdp.solve(self.PROBLEM, gap=2e-4)
        iterated = [row for row in result.trace.rows if row["stage"] == "first-order"]
        assert 300 <= iterated[-1]["iteration"] < 400  # at the first check from which it can be told
        assert iterated[-1]["gap"] > 2e-4
        (handed,) = [row for row in result.trace.rows if row["stage"] == "hand over"]
        assert handed["iteration"] * handed["gap"] > handed["most_steps"] * 2e-4
        assert "columns" in self.stages(result)
        assert result.status is mdp.Status.OPTIMAL
        assert result.gap <= 2e-4
        assert result.lower_bound >= iterated[-1]["lower_bound"]
        exact = mdp.solve(self.PROBLEM, method="direct", gap=1e-6)
        assert result.lower_bound <= exact.loss
        assert exact.lower_bound <= result.loss

    def test_columns_know_the_bound_that_was_handed_over(self):
        """A good bound and a good mechanism are enough: there is nothing left to do."""
        exact = mdp.solve(self.PROBLEM, method="direct", gap=1e-6)
        component = component_of(self.PROBLEM)
        with workers(threads=1) as crew:
            found = solve_by_columns(
                component,
                [],
                options=ColumnOptions(),
                gap=1e-5,
                workers=crew,
                trace=Trace(),
                stop=Stop(None),
                first=exact.mechanism.probabilities,
                centre=component.costs.min(axis=1),
                known_bound=exact.lower_bound,
            )
        assert found.is_complete
        assert found.iterations == 0
        assert found.lower_bound == exact.lower_bound

    def test_a_limit_at_the_hand_over_keeps_what_was_found(self, monkeypatch):
        monkeypatch.setattr(choice, "STEPS_PER_ENTRY", 0.01)
        monkeypatch.setattr(loop, "JUDGE_AFTER", 300)
        seen = []

        def stop_when_it_is_slow(row):
            if row["stage"] == "first-order" and row["iteration"] >= 300:
                seen.append(row)
                signal.raise_signal(signal.SIGINT)

        result = mdp.solve(self.PROBLEM, gap=2e-4, listener=stop_when_it_is_slow)
        assert result.status is mdp.Status.LIMIT
        assert "columns" not in self.stages(result)
        assert result.loss <= seen[-1]["upper_bound"] * (1 + 1e-9)
        assert result.lower_bound >= seen[-1]["lower_bound"] * (1 - 1e-12)


class TestPatchesThatFillAll:
    """Column generation from patches is for graphs in which a patch is a small part."""

    @staticmethod
    def method(problem: mdp.Problem) -> str:
        rows = max(problem.graph.components, key=len)
        part = Component(problem.costs[rows], problem.graph.subgraph(rows), problem.epsilon)
        return choice.choose(part, 1e-4)[0]

    def test_a_plane_has_small_patches(self):
        assert self.method(mdp.Problem(mdp.data.grid(15, 20), epsilon=4.0, eta=1.5, outputs=50)) == "columns"

    def test_many_dimensions_do_not(self):
        points = np.random.default_rng(0).normal(size=(150, 20))
        problem = mdp.Problem(mdp.Records(points, kind="vectors"), epsilon=4.0, eta=5.2, outputs=50)
        assert 8 < problem.graph.n_pairs / problem.n_records < 20
        assert self.method(problem) == "first-order"

    def test_one_linear_program_where_steps_would_be_slow(self, monkeypatch):
        points = np.random.default_rng(0).normal(size=(150, 20))
        problem = mdp.Problem(mdp.Records(points, kind="vectors"), epsilon=0.8, eta=5.0, outputs=50)
        assert choice.WEAK < 0.8 * np.median(problem.graph.distances) < choice.VERY_WEAK_IF_CROWDED
        assert self.method(problem) == "direct"
        monkeypatch.setattr(choice, "RATHER_SPARSE", 6.0)
        assert self.method(problem) == "first-order"
        monkeypatch.setattr(choice, "LARGEST_LP", 1_000)
        assert self.method(problem) == "columns"

    @pytest.mark.parametrize(("epsilon", "method"), [(4.5, "columns"), (5.5, "direct")])
    def test_one_linear_program_where_hardly_any_row_binds(self, epsilon, method):
        assert self.method(mdp.Problem(mdp.data.grid(15, 20), epsilon=epsilon, eta=1.5, outputs=50)) == method

    @pytest.mark.parametrize(("epsilon", "method"), [(5.5, "columns"), (6.5, "direct")])
    def test_later_where_records_have_outputs_of_their_own(self, epsilon, method):
        component = component_of(mdp.Problem(mdp.data.grid(10, 10), epsilon=epsilon, eta=1.5, outputs=100))
        assert choice.choose(component, 1e-4, after_kernels=True)[0] == method

    @pytest.mark.parametrize(("outputs", "method"), [(100, "direct"), (101, "first-order")])
    def test_not_beyond_the_largest_linear_program(self, outputs, method):
        assert self.method(mdp.Problem(mdp.data.grid(20, 25), epsilon=8.0, eta=1.5, outputs=outputs)) == method


class TestMostFirstOrderSteps:
    """How long first-order steps may go on before columns take over."""

    @pytest.mark.parametrize(
        ("epsilon", "outputs", "most"),
        [(0.1, 100, 10 * 144 * 100), (0.1, 20, 100_000), (1.0, 100, 3 * 144 * 100), (1.0, 20, 3 * 144 * 20)],
    )
    def test_it_grows_with_the_size(self, epsilon, outputs, most):
        component = component_of(mdp.Problem(mdp.data.grid(12, 12), epsilon=epsilon, eta=1.5, outputs=outputs))
        assert choice.most_first_order_steps(component, 200_000) == most
        assert choice.most_first_order_steps(component, 100) == 100

    @pytest.mark.parametrize(("epsilon", "most"), [(0.1, np.inf), (1.0, 3.0 * 18_000)])
    def test_not_for_large_ones_at_strong_privacy(self, epsilon, most):
        component = component_of(mdp.Problem(mdp.data.grid(15, 20), epsilon=epsilon, eta=1.5, outputs=60))
        assert choice.most_first_order_steps(component, 200_000) == most


class TestGuessedGap:
    """Whether kernels will do is guessed before they are tried: in many dimensions they never do."""

    @staticmethod
    def guessed_and_found(problem: mdp.Problem) -> tuple[float, float]:
        rows = max(problem.graph.components, key=len)
        part = Component(problem.costs[rows], problem.graph.subgraph(rows), problem.epsilon)
        with workers(threads=1) as crew:
            found = solve_by_kernels(part, workers=crew, trace=Trace(), stop=Stop(None), options=ColumnOptions())
        loss = float((part.costs * found.Z).sum())
        return guessed_gap(part), (loss - found.lower_bound) / loss

    def test_nothing_is_missing_on_a_grid(self):
        guessed, found = self.guessed_and_found(grid_problem(4.0))
        assert guessed == 0.0
        assert found < 1e-6

    @pytest.mark.parametrize("seed", [5, 6, 7])
    def test_words_are_seen_to_be_far_off(self, seed):
        guessed, found = self.guessed_and_found(
            Datasets().problem("text", n=60, outputs=60, instance=seed, epsilon=0.85)
        )
        assert found > 0.02
        assert 0.02 < guessed < 2 * found

    def test_words_are_not_for_kernels(self):
        problem = Datasets().problem("text", n=60, outputs=60, instance=5, epsilon=0.85)
        assert "kernel" not in chosen(mdp.solve(problem, gap=0.01))

    def test_no_guess_where_records_share_an_output(self):
        assert guessed_gap(component_of(grid_problem(4.0, outputs=20))) == 0.0
