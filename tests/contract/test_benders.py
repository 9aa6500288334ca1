"""The decomposition equals the direct solver on problems of all four datasets with all five partitioners."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import DATASETS, exponents, small_problem

import metricdp as mdp
from metricdp.errors import SolverError
from metricdp.partition import PARTITIONERS
from metricdp.solve.solvers.benders.blocks import Block
from metricdp.solve.solvers.benders.master import Master

LOOP = importlib.import_module("metricdp.solve.solvers.benders.loop")
ACCELERATIONS = (
    "one-sided separator",
    "lazy master rows",
    "elastic subproblems",
    "unit-sum cuts",
    "halo cuts",
    "in-out steps",
    "repair in every iteration",
)


def check_agreement(problem, options, *, gap=1e-3, is_divided=True):
    rows = []
    exact = mdp.solve(problem, method="direct", gap=1e-6)
    result = mdp.solve(problem, method="benders", gap=gap, options=options, listener=rows.append, time_limit=60.0)
    assert result.status is mdp.Status.OPTIMAL, result
    assert result.mechanism.certificate.privacy.certified
    assert result.lower_bound <= exact.loss * (1 + 1e-12)
    assert exact.lower_bound <= result.loss * (1 + 1e-12)
    assert result.loss <= exact.loss * (1 + gap) / (1 - gap) + 1e-9
    numbers = {row["component"] for row in rows if row["stage"] == "benders"}
    assert numbers or not is_divided
    for number in numbers:
        steps = [row for row in rows if row["stage"] == "benders" and row["component"] == number]
        assert (np.diff([step["lower_bound"] for step in steps]) >= 0).all()
        assert all(
            b <= a
            for a, b in zip([s["upper_bound"] for s in steps], [s["upper_bound"] for s in steps[1:]], strict=False)
        )
    return result, rows


@pytest.mark.parametrize("partitioner", PARTITIONERS)
@settings(max_examples=4)
@given(
    dataset=st.sampled_from(DATASETS),
    seed=st.integers(0, 99),
    exponent=exponents(0.4, 6.0),
    n=st.integers(9, 24),
    n_blocks=st.integers(2, 5),
)
def test_equals_direct(partitioner, dataset, seed, exponent, n, n_blocks):
    problem = small_problem(dataset, seed=seed, n=n, outputs=6, exponent=exponent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LOOP, "DIVIDED_FROM_RECORDS", 2)
        # small components may lie in one block each, or be found in the first rows
        options = mdp.BendersOptions(partition=partitioner, n_blocks=n_blocks, seed=seed)
        check_agreement(problem, options, is_divided=False)


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("exponent", [1.0, 5.0])
def test_textbook_equals_direct(dataset, exponent, monkeypatch):
    monkeypatch.setattr(LOOP, "DIVIDED_FROM_RECORDS", 2)
    problem = small_problem(dataset, seed=17, n=18, outputs=5, exponent=exponent)
    _, rows = check_agreement(problem, mdp.BendersOptions.textbook(n_blocks=3), gap=1e-2)
    kinds = {kind for row in rows if row["stage"] == "benders" for kind in row["cuts"]}
    assert kinds <= {"optimality", "feasibility"}


@pytest.mark.parametrize("acceleration", ACCELERATIONS)
def test_each_acceleration_can_be_switched_off(acceleration, monkeypatch):
    monkeypatch.setattr(LOOP, "DIVIDED_FROM_RECORDS", 2)
    problem = small_problem("gaussian", seed=3, n=30, outputs=6, exponent=2.0)
    check_agreement(problem, mdp.BendersOptions(n_blocks=4).without(acceleration))


def test_the_seeds_rome_instance_in_few_iterations():
    from tests.conftest import rome_problem

    problem = rome_problem()
    for partitioner, most in (("k-m-dv", 30), ("metis", 15)):
        result = mdp.solve(
            problem, method="benders", options=mdp.BendersOptions(partition=partitioner, n_blocks=25), gap=0.01
        )
        assert result.status is mdp.Status.OPTIMAL
        assert result.iterations <= most


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"in_out": 0.0}, "in_out must be above 0"),
        ({"floor": 1.0}, "floor must be above 0"),
        ({"separator": "none"}, "unknown separator 'none'"),
        ({"path_rows": "some"}, "unknown path_rows 'some'"),
        ({"penalty": -1.0}, "penalty must be positive"),
    ],
)
def test_bad_options(options, part):
    with pytest.raises(mdp.InputError, match=part):
        mdp.BendersOptions(**options)


def test_unknown_partitioner_and_acceleration():
    with pytest.raises(mdp.InputError, match="unknown partitioner 'magic'"):
        mdp.solve(small_problem("grid", seed=0), method="benders", options=mdp.BendersOptions(partition="magic"))
    with pytest.raises(mdp.InputError, match="unknown acceleration 'magic'"):
        mdp.BendersOptions().without("magic")


class TestBoundsOfABlock:
    """What the solver's zeros near the boundary forbid inside: they once gave infinite coefficients."""

    @staticmethod
    def block(*exponents):
        return Block(
            number=0,
            internal=np.array([0]),
            attached=np.arange(1, 1 + len(exponents)),
            exponents=np.array([exponents]),
            tail=np.zeros(0, dtype=np.int64),
            head=np.zeros(0, dtype=np.int64),
            edge_exponents=np.zeros(0),
            costs=np.zeros((1, 2)),
        )

    def test_a_record_without_a_path_bounds_nothing(self):
        bounds = self.block(1.0, np.inf).bounds(np.array([[0.2, 0.8], [-1e-13, 1.0]]), 1e-9)
        np.testing.assert_allclose(bounds.upper, [[0.2 * np.e, 1.0]])
        np.testing.assert_allclose(bounds.lower, [[0.2 / np.e, 0.8 / np.e]])
        np.testing.assert_array_equal(bounds.from_above, [[0, -1]])
        np.testing.assert_array_equal(bounds.from_below, [[0, 0]])

    def test_a_zero_is_the_floor(self):
        """Near records are bound by it, those that the floor lets grow to 1 are not."""
        near = self.block(1.0).bounds(np.array([[-1e-13, 1.0]]), 1e-9)
        np.testing.assert_allclose(near.upper, [[1e-9 * np.e, 1.0]])
        np.testing.assert_array_equal(near.from_above, [[0, -1]])
        far = self.block(25.0).bounds(np.array([[-1e-13, 1.0]]), 1e-9)
        np.testing.assert_array_equal(far.from_above, [[-1, -1]])
        np.testing.assert_array_equal(far.upper, [[1.0, 1.0]])


class TestMasterGivesUp:
    """What was proved stands, and the status says that it was not a limit that ended the run."""

    @pytest.fixture(autouse=True)
    def _small_blocks(self, monkeypatch):
        monkeypatch.setattr(LOOP, "DIVIDED_FROM_RECORDS", 2)

    @staticmethod
    def check(result, reason):
        assert result.status is mdp.Status.FAILED
        assert result.mechanism.certificate.privacy.certified
        assert [row["reason"] for row in result.trace.rows if row["stage"] == "gave up"] == [f"the master: {reason}"]
        steps = [row for row in result.trace.rows if row["stage"] == "benders"]
        assert 0 < steps[-1]["lower_bound"] <= result.lower_bound * (1 + 1e-12) < result.loss
        assert result.loss <= steps[-1]["upper_bound"] * (1 + 1e-9)

    @staticmethod
    def solve():
        problem = small_problem("road", seed=1, n=24, outputs=6, exponent=0.4)
        return mdp.solve(problem, method="benders", options=mdp.BendersOptions.textbook(n_blocks=4, seed=1), gap=1e-6)

    def test_it_has_no_answer(self, monkeypatch):
        solve, calls = Master.solve, []

        def give_up(master, stop, is_enough):
            calls.append(1)
            if len(calls) > 2:
                raise SolverError("the LP solver gave up: Unknown")
            return solve(master, stop, is_enough)

        monkeypatch.setattr(Master, "solve", give_up)
        self.check(self.solve(), "the LP solver gave up: Unknown")
        assert len(calls) == 3  # nobody asked it again

    def test_it_refuses_a_cut(self, monkeypatch):
        add, calls = Master.add, []

        def refuse(master, cuts):
            calls.append(1)
            if len(calls) > 2:
                raise SolverError("LP coefficients range from 1 to inf")
            add(master, cuts)

        monkeypatch.setattr(Master, "add", refuse)
        self.check(self.solve(), "LP coefficients range from 1 to inf")
        assert len(calls) == 3
