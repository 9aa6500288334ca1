"""The contract of solvers: the one in CONTRIBUTING works as it stands there, and options belong to their method."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from tests.conftest import small_problem

import metricdp as mdp
from metricdp.errors import InputError
from metricdp.solve import Ended, Incumbent, contract

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = {
    "direct": mdp.DirectOptions(),
    "interior": mdp.InteriorOptions(),
    "first-order": mdp.FirstOrderOptions(),
    "columns": mdp.ColumnOptions(),
    "benders": mdp.BendersOptions(),
}


@pytest.fixture
def nearest():
    """The solver of CONTRIBUTING.md, run from its text."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text.split("## Adding a solver")[1].split("\n## ")[0], re.DOTALL)
    module = ModuleType("nearest")
    sys.modules["nearest"] = module  # dataclasses look their module up
    exec(code, module.__dict__)  # noqa: S102
    yield module
    contract.forget("nearest")
    del sys.modules["nearest"]


class TestToySolver:
    def test_it_solves_and_is_certified(self, nearest):
        problem = small_problem("road", seed=1, n=20)
        result = mdp.solve(problem, method="nearest", options=nearest.NearestOptions(certainty=0.8))
        best = mdp.solve(problem, method="direct", gap=1e-6)
        assert result.mechanism.certificate.privacy.certified
        assert result.status is mdp.Status.FAILED  # it did all that it can, and that is not the optimum
        assert result.lower_bound <= best.loss <= result.loss
        assert "nearest" in {row["stage"] for row in result.trace.rows}

    def test_its_options_are_its_own(self, nearest):
        problem = small_problem("grid", seed=0)
        with pytest.raises(InputError, match="belong to the method 'direct', and 'nearest' takes NearestOptions"):
            mdp.solve(problem, method="nearest", options=mdp.DirectOptions())
        with pytest.raises(InputError, match="NearestOptions belong to the method 'nearest', and 'auto' takes no"):
            mdp.solve(problem, options=nearest.NearestOptions())

    def test_no_checkpoint_where_none_is_written(self, nearest, tmp_path):
        with pytest.raises(InputError, match="checkpoints are written by .*, not by 'nearest'"):
            mdp.solve(small_problem("grid", seed=0), method="nearest", checkpoint=tmp_path / "run")
        assert not (tmp_path / "run").exists()

    def test_its_name_is_taken(self, nearest):
        with pytest.raises(InputError, match="there is already a solver named 'nearest'"):
            contract.register(nearest.Nearest)


@pytest.mark.parametrize("owner", OPTIONS)
@pytest.mark.parametrize("method", ["auto", *OPTIONS, "kernel"])
def test_options_of_another_method_are_refused(method, owner):
    if method == owner:
        assert mdp.solve(small_problem("grid", seed=0), method=method, options=OPTIONS[owner]).gap <= 0.01
        return
    with pytest.raises(InputError, match=f"belong to the method '{owner}', and '{method}' takes"):
        mdp.solve(small_problem("grid", seed=0), method=method, options=OPTIONS[owner])


@pytest.mark.parametrize("wrong", ["simplex", {"algorithm": "ipx"}, 3])
def test_what_is_no_options_is_refused(wrong):
    with pytest.raises(InputError, match="the method 'direct' takes DirectOptions, got"):
        mdp.solve(small_problem("grid", seed=0), method="direct", options=wrong)


def test_unknown_methods_are_named_with_the_known_ones():
    with pytest.raises(InputError, match="unknown method 'magic': choose one of auto, .*interior"):
        mdp.solve(small_problem("grid", seed=0), method="magic")


class TestIncumbent:
    """What one solver hands to the next."""

    def test_private_rows_are_not_lost_to_rows_that_are_not(self):
        component = contract_component()
        mine = Incumbent(
            0.1, component.costs * 0 + 1.0 / component.n_outputs, Ended.STALLED, is_private=True, iterations=3
        )
        other = Incumbent(0.2, component.costs * 0, Ended.STOPPED, iterations=4, cuts=2)
        both = mine.followed_by(other, component)
        assert both.rows is mine.rows
        assert both.is_private
        assert (both.lower_bound, both.ended, both.iterations, both.cuts) == (0.2, Ended.STOPPED, 7, 2)

    def test_better_private_rows_replace_worse_ones(self):
        component = contract_component()
        worst = component.costs.argmax(axis=1)[:, None] == range(component.n_outputs)
        best = component.costs.argmin(axis=1)[:, None] == range(component.n_outputs)
        mine = Incumbent(0.3, worst.astype(float), Ended.STALLED, is_private=True)
        other = Incumbent(0.2, best.astype(float), Ended.REACHED, is_private=True)
        assert mine.followed_by(other, component).rows is other.rows
        assert other.followed_by(mine, component).rows is other.rows
        assert mine.followed_by(other, component).lower_bound == 0.3

    def test_no_rows_have_no_loss(self):
        component = contract_component()
        nothing = Incumbent.nothing(component)
        assert nothing.gap(component) == 1.0
        assert nothing.loss(component) == float("inf")
        assert nothing.lower_bound == pytest.approx(component.costs.min(axis=1).sum(), rel=1e-12)


def contract_component():
    from metricdp.solve.merged import Merged

    return Merged.of(small_problem("gaussian", seed=0, n=8, outputs=3)).whole()


class TestStart:
    """A start is the best so far, whatever the method."""

    @pytest.mark.parametrize("method", ["auto", "interior", "first-order", "columns", "kernel", "benders", "direct"])
    def test_never_worse_than_the_start(self, method):
        problem = small_problem("road", seed=3, n=40, outputs=10, exponent=1.0)
        best = mdp.solve(problem, method="direct", gap=1e-6)
        limited = {
            "interior": mdp.InteriorOptions(max_iterations=1),
            "first-order": mdp.FirstOrderOptions(max_iterations=1),
            "columns": mdp.ColumnOptions(max_rounds=1),
        }
        result = mdp.solve(problem, method=method, gap=1e-9, start=best.mechanism, options=limited.get(method))
        assert result.loss <= best.loss * (1 + 1e-8)

    @pytest.mark.parametrize("wrong", [np.nan, -1.0, np.inf])
    def test_what_is_no_probability_is_refused(self, wrong):
        problem = small_problem("grid", seed=0)
        start = np.full(problem.costs.shape, 0.5)
        start[0, 0] = wrong
        with pytest.raises(InputError, match="start must hold probabilities: finite numbers, none below 0"):
            mdp.solve(problem, start=start)


class TestNumbers:
    @pytest.mark.parametrize(
        ("option", "value"),
        [("gap", "x"), ("gap", None), ("gap", True), ("time_limit", "5"), ("threads", 1.5), ("threads", "2")],
    )
    def test_what_is_no_number_is_refused(self, option, value):
        with pytest.raises(InputError, match=f"{option} must be"):
            mdp.solve(small_problem("grid", seed=0), **{option: value})

    def test_a_checkpoint_without_a_name_is_refused(self):
        with pytest.raises(InputError, match="checkpoint must name a folder"):
            mdp.solve(small_problem("grid", seed=0), method="columns", checkpoint="")


class TestRegistering:
    def test_a_solver_needs_a_name(self):
        with pytest.raises(InputError, match="must have a name"):
            contract.register(type("Nameless", (contract.Solver,), {"name": ""}))

    def test_options_have_defaults(self):
        required = dataclasses.make_dataclass("Required", [("x", int)])
        for options in (int, required):
            wrong = type("Wrong", (contract.Solver,), {"name": "wrong", "options_type": options})
            with pytest.raises(InputError, match="must be a dataclass in which every field has a default"):
                contract.register(wrong)
        assert "wrong" not in contract.methods()


def test_the_rows_of_a_linear_program_are_not_lost_after_the_interior_point():
    """At tiny budgets rounding stops the interior point, and the linear program that follows is optimal."""
    rng = np.random.default_rng(0)
    records = mdp.Records(rng.normal(size=(9, 2)), kind="vectors")
    outputs = np.arange(10.0).reshape(5, 2)
    problem = mdp.Problem(records, epsilon=1e-7, eta=1.0, loss=rng.random((9, 5)), outputs=outputs)
    result = mdp.solve(problem)
    assert result.status is mdp.Status.OPTIMAL
    assert result.loss == pytest.approx(mdp.solve(problem, method="direct").loss, rel=1e-2)


@pytest.mark.parametrize("method", ["auto", "interior", "first-order", "columns", "kernel", "direct"])
def test_many_small_components_end_in_time(method, monkeypatch):
    """After the deadline no solver is begun for the rest of them."""
    begun = []
    solver = type(contract.solver_for(method))
    run = solver.run

    def counted(self, component, incumbent, context):
        begun.append(component.number)
        context.stop.request_end()
        return run(self, component, incumbent, context)

    monkeypatch.setattr(solver, "run", counted)
    x = np.repeat(np.arange(40) * 10.0, 2) + np.tile([0.0, 1.0], 40)
    problem = mdp.Problem(mdp.Records(x[:, None], kind="vectors"), epsilon=1.0, eta=1.0, outputs="random:5")
    result = mdp.solve(problem, method=method, gap=1e-9)
    assert len(begun) == 1
    assert result.status is mdp.Status.LIMIT
    assert result.mechanism.certificate.privacy.certified
