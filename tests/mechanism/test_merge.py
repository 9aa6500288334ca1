"""Outputs taken out after solving: exact sums of columns, certified again, with the loss after it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.conftest import small_problem
from tests.mechanism.sparse_tables import sparse_of

import metricdp as mdp
from metricdp.errors import InputError
from metricdp.mechanism.certify import check_privacy
from metricdp.mechanism.mechanism import table_loss


@pytest.fixture(scope="module")
def solved():
    problem = small_problem("road", 2, n=25, outputs=10, exponent=1.0)
    return problem, mdp.solve(problem, gap=0.02).mechanism


def as_sparse(mechanism):
    return mechanism.with_table(sparse_of(mechanism.table), solver="sparse")


@pytest.mark.parametrize("is_sparse", [False, True])
def test_merging_adds_columns_and_keeps_the_budget(solved, is_sparse):
    _, mechanism = solved
    source = as_sparse(mechanism) if is_sparse else mechanism
    names = mechanism.outputs.ids(mechanism.records)
    made = source.merge({names[3]: names[0], 7: names[0], 1: 9})
    stays = [0, 2, 4, 5, 6, 8, 9]
    expected = mechanism.table[:, stays].copy()
    expected[:, 0] += mechanism.table[:, 3] + mechanism.table[:, 7]
    expected[:, 6] += mechanism.table[:, 1]
    found = made.table.block() if is_sparse else made.table
    np.testing.assert_array_equal(found, expected)
    assert made.is_sparse is is_sparse
    assert made.outputs.ids(made.records) == tuple(names[k] for k in stays)
    assert made.epsilon == mechanism.epsilon
    assert made.recheck().tightest_epsilon <= mechanism.certificate.privacy.tightest_epsilon
    assert set(made.perturb(list(made.records.ids) * 20)) <= {names[k] for k in stays}


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("loss", ["distance", "travel", "given"])
def test_without_takes_the_best_replacement_and_tells_the_loss(loss, is_sparse):
    base = small_problem("road", 2, n=25, outputs=10, exponent=1.0)
    matrix = np.random.default_rng(0).random((25, 10))
    problem = mdp.Problem(
        base.records, epsilon=base.epsilon, eta=base.eta, outputs=10, seed=2, loss=matrix if loss == "given" else loss
    )
    mechanism = mdp.solve(problem, gap=0.02).mechanism
    source = as_sparse(mechanism) if is_sparse else mechanism
    made = source.without([2, 5])
    assert made.outputs.n == 8
    stays = [0, 1, 3, 4, 6, 7, 8, 9]
    losses = {}
    for a in stays:
        for b in stays:
            again = np.arange(10)
            again[[2, 5]] = a, b
            table = np.zeros_like(mechanism.table)
            for k, to in enumerate(again):
                table[:, to] += mechanism.table[:, k]
            losses[a, b] = table_loss(table, problem)
    assert made.loss == pytest.approx(min(losses.values()), rel=1e-8)
    assert made.loss >= source.loss * (1 - 1e-9) or loss == "given"
    np.testing.assert_array_equal(made.losses.whole(), problem.losses.whole()[:, stays])
    assert source.loss == pytest.approx(table_loss(mechanism.table, problem), rel=1e-8)


def test_scaling_the_rows_again_would_break_the_promise(solved):
    problem, mechanism = solved
    largest = int(mechanism.probabilities.sum(axis=0).argmax())
    rows = np.delete(mechanism.probabilities, largest, axis=1)
    scaled = (rows / rows.sum(axis=1, keepdims=True) * 2.0**62).astype(np.uint64)
    scaled[:, 0] += np.uint64(1 << 63) - scaled.sum(axis=1, dtype=np.uint64)
    graph = problem.graph
    assert not check_privacy(scaled, graph.pairs, graph.distances, problem.epsilon).certified
    assert mechanism.without([largest]).certificate.privacy.certified


def test_it_can_be_saved_and_loaded(solved, tmp_path):
    _, mechanism = solved
    for number, source in enumerate((mechanism, as_sparse(mechanism))):
        made = source.without(0)
        made.save(tmp_path / f"{number}.mdp")
        again = mdp.load(tmp_path / f"{number}.mdp")
        assert again.outputs.ids(again.records) == made.outputs.ids(made.records)
        assert again.loss == pytest.approx(made.loss)


def test_points_as_outputs_and_functions_as_losses():
    records = mdp.data.grid(2, 2)
    problem = mdp.Problem(
        records,
        epsilon=1.0,
        eta=1.5,
        outputs=np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]),
        loss=lambda a, b: np.abs(a[:, None] - b[None]).sum(axis=2),
    )
    mechanism = mdp.solve(problem, gap=0.1).mechanism
    made = mechanism.without(["output 1"])
    assert made.outputs.coordinates.tolist() == [[0.0, 0.0], [2.0, 2.0]]
    assert made.loss >= mechanism.loss - 1e-12


def test_what_is_refused(solved):
    _, mechanism = solved
    for call, message in (
        (lambda: mechanism.without(["nowhere"]), "'nowhere' is not an output"),
        (lambda: mechanism.without([10]), "10 is not an output"),
        (lambda: mechanism.without([-1]), "-1 is not an output"),
        (lambda: mechanism.without(range(10)), "no output is left"),
        (lambda: mechanism.merge({0: 1, 1: 2}), "into one that is itself merged"),
        (lambda: mechanism.merge({0: 1, mechanism.outputs.ids(mechanism.records)[0]: 2}), "into two others"),
        (lambda: mechanism.merge({0: True}), "True is not an output"),
    ):
        with pytest.raises(InputError, match=message):
            call()
    lossless = mdp.Mechanism(
        mechanism.table,
        mechanism.records,
        mechanism.outputs,
        mechanism.graph,
        mechanism.epsilon,
        mechanism.eta,
        mechanism.metric,
    )
    assert lossless.loss is None
    assert lossless.merge({0: 1}).outputs.n == 9
    with pytest.raises(InputError, match="has no losses to choose"):
        lossless.without([0])
