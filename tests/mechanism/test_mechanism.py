"""A mechanism: what its certificate says, which claims are refused, and what comes out of it."""

from __future__ import annotations

import copy
import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest

import metricdp as mdp
from metricdp.mechanism.certify import TOTAL
from metricdp.mechanism.mechanism import Certificate, Optimality, relative_gap, table_loss
from metricdp.metric import MdpGraph

HALF = TOTAL // 2
EQUAL = np.full((2, 2), HALF, dtype=np.uint64)
# what two records at distance 1 may differ by at epsilon = 2: three quarters and one quarter
TABLE = np.array([[3 * HALF // 2, HALF // 2], [HALF // 2, 3 * HALF // 2]], dtype=np.uint64)


def problem_of_two(*, epsilon=2.0, eta=1.0, outputs=(0, 1), loss=((0.0, 1.0), (1.0, 0.0)), ids=("a", "b"), **more):
    records = mdp.Records([[0.0], [1.0]], ids=ids, kind="vectors", name="two")
    return mdp.Problem(records, epsilon=epsilon, eta=eta, outputs=list(outputs), loss=np.array(loss), **more)


@pytest.fixture
def two():
    return mdp.Mechanism.of(problem_of_two(), TABLE, solver="by hand")


class TestTheGap:
    @pytest.mark.parametrize(
        ("loss", "bound", "gap"), [(2.0, 1.5, 0.25), (1.0, 0.0, 1.0), (3.0, 3.0, 0.0), (0.0, 0.0, 0.0), (1.0, 2.0, 0.0)]
    )
    def test_is_relative_to_the_loss(self, loss, bound, gap):
        assert relative_gap(loss, bound) == gap
        assert Optimality(loss, bound).gap == gap

    def test_the_loss_of_a_table_is_rounded_up_by_hardly_anything(self):
        loss = Fraction(table_loss(TABLE, problem_of_two()))  # each record is moved to the other's place by a quarter
        assert 1 + Fraction(1, 2**51) < loss / Fraction(1, 4) < 1 + Fraction(1, 2**49)
        third = np.array([[0, TOTAL], [TOTAL, 0]], dtype=np.uint64)
        assert table_loss(third, problem_of_two()) == pytest.approx(1.0, rel=1e-14)
        assert table_loss(third[::-1], problem_of_two()) == 0.0


class TestTheCertificate:
    def test_in_lines(self, two):
        check = two.certificate.privacy
        assert two.certificate.lines() == [
            (
                "Private: every one of 1 neighbour pairs within 1 (euclidean), 2 outputs, both ways, satisfies epsilon "
                "= 2 exactly (0 of 4 comparisons needed integers)."
            ),
            f"Tightest epsilon that holds: {check.tightest_epsilon:.9g}.",
            "Scope: one component; every pair of records is protected at its path distance.",
        ]
        assert check.tightest_epsilon == pytest.approx(math.log(3.0), rel=1e-12)
        assert str(two.certificate) == "\n".join(two.certificate.lines())

    def test_its_parts_are_those_of_the_guarantee(self, two):
        found = two.certificate
        assert (found.eta, found.metric, found.n_components, found.n_isolated) == (1.0, "euclidean", 1, 0)
        assert found.optimality is None
        assert found.is_from_file is False
        assert two.guarantee is found.guarantee

    def test_what_is_not_protected_comes_before_the_proof_and_the_rest_after(self):
        records = mdp.Records([[0.0], [1.0], [9.0]], kind="vectors")
        problem = mdp.Problem(records, epsilon=2.0, eta=1.0, outputs=[0, 1])
        mechanism = mdp.Mechanism.of(problem, TABLE[[0, 1, 1]], optimality=Optimality(0.5, 0.25))
        starts = [
            "NOT PROTECTED: 1 of 3",
            "Private: every one of 1",
            "Tightest",
            "Scope: 2 components",
            "Optimal within",
        ]
        assert [line[: len(start)] for line, start in zip(mechanism.certificate.lines(), starts, strict=True)] == starts
        assert (mechanism.certificate.n_components, mechanism.certificate.n_isolated) == (2, 1)

    def test_without_any_pair_there_is_no_proof(self):
        problem = problem_of_two(eta=0.5)
        mechanism = mdp.Mechanism.of(problem, TABLE, optimality=Optimality(1.0, 0.75))
        assert mechanism.certificate.lines() == [
            "No record has a neighbour within eta: NOTHING is protected. Choose a larger eta.",
            "Optimal within 25 %: expected loss 1, no mechanism with this budget can go below 0.75.",
        ]

    def test_a_file_claims_and_a_solver_proves(self, two):
        best = Optimality(0.5, 0.49)
        proved = Certificate(two.certificate.privacy, two.guarantee, best)
        claimed = Certificate(two.certificate.privacy, two.guarantee, best, is_from_file=True)
        assert proved.lines()[-1] == (
            "Optimal within 2 %: expected loss 0.5, no mechanism with this budget can go below 0.49."
        )
        assert claimed.lines()[-1] == (
            "Claimed by the file and not checked here: expected loss 0.5, lower bound 0.49, so optimal within 2 %."
        )
        assert claimed.lines()[:-1] == two.certificate.lines()

    def test_it_says_how_many_comparisons_needed_integers(self):
        """A table at the limit of its budget: the one entry that is at it, of two records and two outputs."""
        mechanism = mdp.Mechanism.of(problem_of_two(epsilon=math.nextafter(math.log(3.0), 2.0)), TABLE)
        check = mechanism.certificate.privacy
        assert check.n_decided_exactly == 2
        assert "(2 of 4 comparisons needed integers)" in mechanism.certificate.lines()[0]
        assert mechanism.recheck().n_decided_exactly == 2


class TestClaims:
    @pytest.mark.parametrize(
        ("name", "value", "part"),
        [
            ("records", np.zeros((2, 1)), "records must be a Records, got ndarray"),
            ("outputs", [0, 1], "outputs must be a Outputs, got list"),
            ("graph", None, "graph must be a MdpGraph, got NoneType"),
            ("metric", b"euclidean", "metric must be a str, got bytes"),
            ("epsilon", True, "epsilon must be a number, got bool"),
            ("epsilon", "2", "epsilon must be a number, got str"),
            ("eta", None, "eta must be a number, got NoneType"),
            ("eta", True, "eta must be a number, got bool"),
        ],
    )
    def test_another_kind(self, two, name, value, part):
        with pytest.raises(mdp.InputError, match=part):
            dataclasses.replace(two, **{name: value})

    def test_all_faults_are_named_together(self, two):
        with pytest.raises(mdp.InputError, match="(?s)graph must be.*epsilon must be a number.*eta must be a number"):
            dataclasses.replace(two, graph=None, epsilon="2", eta=None)
        with pytest.raises(mdp.InputError, match="(?s)epsilon must be positive.*eta must be positive.*unknown metric"):
            dataclasses.replace(two, epsilon=0.0, eta=-1.0, metric="guess")

    def test_a_kind_derived_from_the_librarys_own_is_none_of_it(self, two):
        class Names(str):
            __slots__ = ()

        with pytest.raises(mdp.InputError, match="metric must be a str, got Names"):
            dataclasses.replace(two, metric=Names("euclidean"))

    @pytest.mark.parametrize("epsilon", [2, np.float64(2.0), np.float32(2.0), np.int64(2)])
    def test_numbers_of_any_kind(self, two, epsilon):
        made = dataclasses.replace(two, epsilon=epsilon, eta=np.int32(1))
        assert (made.epsilon, type(made.epsilon), made.eta, type(made.eta)) == (2.0, float, 1.0, float)

    @pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
    def test_no_budget(self, two, epsilon):
        with pytest.raises(mdp.InputError, match="epsilon must be positive and finite, got"):
            dataclasses.replace(two, epsilon=epsilon)

    @pytest.mark.parametrize("eta", [0.0, -1.0, math.nan])
    def test_no_neighbours(self, two, eta):
        with pytest.raises(mdp.InputError, match="eta must be positive, got"):
            dataclasses.replace(two, eta=eta)

    def test_an_infinite_eta_is_one(self, two):
        assert dataclasses.replace(two, eta=math.inf).certificate.eta == math.inf

    def test_a_small_budget_is_one(self):
        assert mdp.Mechanism.of(problem_of_two(), EQUAL, epsilon=5e-324).epsilon == 5e-324

    @pytest.mark.parametrize(("loss", "bound"), [(1.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
    def test_bounds_at_their_limits(self, two, loss, bound):
        assert dataclasses.replace(two, optimality=Optimality(loss, bound)).certificate.optimality.loss == loss

    @pytest.mark.parametrize(
        ("loss", "bound"),
        [(1.0, 1.0000001), (1.0, -1e-9), (math.inf, 1.0), (math.nan, 1.0), (1.0, math.nan), (math.inf, math.inf)],
    )
    def test_bounds_that_are_none(self, two, loss, bound):
        with pytest.raises(mdp.InputError, match="bounds must be finite with 0 <= lower bound <= loss, got Optimality"):
            dataclasses.replace(two, optimality=Optimality(loss, bound))

    def test_pairs_are_counted_again_unless_the_library_made_them(self, two):
        none = MdpGraph(2, np.zeros((0, 2), dtype=np.int32), np.zeros(0))
        with pytest.raises(mdp.CertificationError, match="the pairs are not those within eta = 1: records 0 and 1"):
            dataclasses.replace(two, graph=none)
        copied = copy.copy(problem_of_two())
        object.__setattr__(copied, "graph", none)
        with pytest.raises(mdp.CertificationError, match="the pairs are not those within"):
            mdp.Mechanism.of(copied, TABLE)

    def test_outputs_at_the_ends_of_the_records(self, two):
        for rows, is_good in (([0, 1], True), ([1, 0], True), ([0, 2], False), ([-1, 0], False), ([0], False)):
            outputs = dataclasses.replace(two.outputs, rows=np.array(rows))
            if is_good:
                assert dataclasses.replace(two, outputs=outputs).outputs.rows.tolist() == rows
            else:
                with pytest.raises(mdp.InputError, match="each of the 2 outputs must be a row of the 2 records"):
                    dataclasses.replace(two, outputs=outputs)

    @pytest.mark.parametrize("table", [TABLE.astype(np.int64), TABLE[:1], TABLE[:, :1], TABLE.ravel()])
    def test_a_table_of_another_kind_or_shape(self, two, table):
        with pytest.raises(mdp.InputError, match=r"table must be uint64 of shape \(2, 2\), got .* of shape"):
            dataclasses.replace(two, table=table)

    def test_a_table_that_does_not_pass_says_why(self, two):
        with pytest.raises(mdp.CertificationError, match="^the table is not 1-mDP: records "):
            dataclasses.replace(two, epsilon=1.0)


class TestMaking:
    def test_of_a_problem(self, two):
        problem = problem_of_two()
        best = Optimality(0.5, 0.25)
        made = mdp.Mechanism.of(problem, TABLE, epsilon=3.0, optimality=best)
        assert (made.epsilon, made.eta, made.metric, made.solver, made.loss_name) == (
            3.0,
            1.0,
            "euclidean",
            "",
            "given",
        )
        assert made.certificate.optimality is made.optimality is best
        assert made.certificate.privacy.epsilon == 3.0
        assert two.epsilon == 2.0
        assert made.losses is problem.losses
        assert (made.records, made.outputs, made.graph) == (problem.records, problem.outputs, problem.graph)

    def test_with_another_table_nothing_else_changes(self, two):
        proved = dataclasses.replace(two, optimality=Optimality(0.5, 0.25), loss_name="mine")
        made = proved.with_table(EQUAL, solver="again")
        assert made.table.tolist() == EQUAL.tolist()
        assert (made.optimality, made.solver, made.loss_name) == (None, "again", "mine")
        for name in ("records", "outputs", "graph", "epsilon", "eta", "metric", "losses"):
            assert getattr(made, name) is getattr(proved, name)

    @pytest.mark.parametrize("bound", [None, 0.0, 0.2, 9.0])
    def test_from_a_matrix(self, bound):
        problem = problem_of_two()
        made = mdp.Mechanism.from_matrix(problem, np.array([[0.75, 0.25], [0.25, 0.75]]), lower_bound=bound, solver="s")
        assert made.probabilities == pytest.approx(np.array([[0.75, 0.25], [0.25, 0.75]]), rel=1e-8)
        assert made.solver == "s"
        if bound is None:
            assert made.optimality is None
        else:
            loss = table_loss(made.table, problem)
            assert made.optimality == Optimality(loss, min(bound, loss))

    def test_copies_keep_everything(self, two):
        whole = dataclasses.replace(two, optimality=Optimality(0.5, 0.25), solver="s", loss_name="mine")
        again = copy.deepcopy(whole)
        for name in ("epsilon", "eta", "metric", "optimality", "solver", "loss_name"):
            assert getattr(again, name) == getattr(whole, name)
        assert np.array_equal(again.losses.whole(), whole.losses.whole())
        assert again.records.ids == whole.records.ids

    def test_how_it_is_shown(self, two):
        assert repr(two) == "Mechanism('two': 2 records x 2 outputs, certified 2-mDP on 1 pairs)"
        proved = dataclasses.replace(two, optimality=Optimality(1.0, 0.75))
        assert repr(proved).endswith("certified 2-mDP on 1 pairs, within 25 % of optimal)")

    def test_the_probabilities_are_the_table_over_two_to_the_63(self, two):
        assert two.probabilities.tolist() == [[0.75, 0.25], [0.25, 0.75]]


class TestReports:
    @pytest.fixture
    def sure(self):
        """Two records without neighbours, each of which is reported as it is."""
        problem = problem_of_two(eta=0.5)
        return mdp.Mechanism.of(problem, np.array([[TOTAL, 0], [0, TOTAL]], dtype=np.uint64))

    def test_one_id_gives_one_report_and_several_a_list(self, sure):
        assert sure.perturb("b", allow_unprotected=True) == "b"
        assert sure.perturb(["b"], allow_unprotected=True) == ["b"]
        assert sure.perturb(("b", "a", "b"), allow_unprotected=True) == ["b", "a", "b"]
        assert sure.perturb((name for name in "ab"), allow_unprotected=True) == ["a", "b"]

    def test_ids_that_are_no_texts(self):
        mechanism = mdp.Mechanism.of(problem_of_two(ids=("1", "2")), EQUAL)
        assert mechanism.rows_of([2, 1, np.int64(2)]).tolist() == [1, 0, 1]
        assert mechanism.rows_of([]).dtype == np.int64

    def test_other_points_are_reported_by_their_number(self):
        problem = problem_of_two(eta=0.5, outputs=[[0.25], [0.75]])
        mechanism = mdp.Mechanism.of(problem, np.array([[TOTAL, 0], [0, TOTAL]], dtype=np.uint64))
        assert mechanism.perturb(["b", "a"], allow_unprotected=True) == ["output 1", "output 0"]

    def test_a_column_gives_a_column_without_its_index(self, sure):
        import pandas as pd

        column = pd.Series(["b", "a"], index=[7, 9], name="home")
        reports = sure.perturb(column, allow_unprotected=True)
        pd.testing.assert_series_equal(reports, pd.Series(["b", "a"], name="home", dtype=object))

    @pytest.mark.parametrize(
        ("ids", "place"), [(["x"], "id 1 of 1"), (["a", "x", "y"], "id 2 of 3"), ("x", "id 1 of 1")]
    )
    def test_an_unknown_id_is_told_by_its_place(self, sure, ids, place):
        with pytest.raises(mdp.InputError) as caught:
            sure.perturb(ids)
        assert str(caught.value) == f"{place} is not a record of this mechanism: use one of its record ids"

    def test_lone_records_are_refused_unless_asked_for(self, sure):
        for allow in (False, True):
            if allow:
                assert sure.perturb_rows(np.array([0, 1]), allow_unprotected=True).tolist() == [0, 1]
            else:
                with pytest.raises(mdp.InputError, match="2 of 2 inputs are records without any neighbour"):
                    sure.perturb_rows(np.array([0, 1]))

    def test_rows_are_whole_numbers(self, two):
        with pytest.raises(mdp.InputError, match="rows must be whole numbers, got float64"):
            two.perturb_rows(np.array([0.0]))
        with pytest.raises(mdp.InputError, match="rows must be whole numbers, got bool"):
            two.perturb_rows(np.array([True]))
        assert two.perturb_rows(np.array([])).tolist() == []
        assert len(two.perturb_rows(np.array([0, 1], dtype=np.uint8))) == 2
        assert len(two.perturb_rows([0, 1, 1])) == 3

    def test_points_of_lone_records_are_refused_unless_asked_for(self, sure):
        with pytest.raises(mdp.InputError, match="2 of 2 records have no neighbour"):
            sure.perturb_points([[0.1]], limit=0.2)
        reports = sure.perturb_points([[0.9], [0.1]], limit=0.2, allow_unprotected=True)
        assert (reports.outputs.tolist(), reports.ids) == ([1, 0], ("b", "a"))
        assert reports.snap_distances == pytest.approx([0.1, 0.1])
        with pytest.raises(mdp.InputError, match="nothing is reported"):
            sure.perturb_points([[0.9], [0.5]], limit=0.2, allow_unprotected=True)

    def test_saved_and_read_again(self, two, tmp_path):
        two.save(tmp_path / "two.mdp")
        again = mdp.load(tmp_path / "two.mdp")
        assert again.table.tolist() == TABLE.tolist()
        assert again.certificate.is_from_file is True
