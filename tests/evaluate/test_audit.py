"""The exact audit of any matrix, against fractions and plain loops."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import DATASETS, small_problem
from tests.mechanism.independent import exp_bounds

import metricdp as mdp
from metricdp.evaluate import audit as module_function
from metricdp.mechanism.baselines import exponential_matrix, planar_laplace

bounds = cache(exp_bounds)  # distances of a grid repeat


def constraints(Z, problem):
    """All constraints: x, y, distance, where x must be at most exp(epsilon distance) y."""
    for (a, b), d in zip(problem.graph.pairs.tolist(), problem.graph.distances.tolist(), strict=True):
        for i, j in ((a, b), (b, a)):
            for k in range(problem.n_outputs):
                yield Z[i][k], Z[j][k], d


def n_violated(Z, problem, epsilon):
    """The number of violated constraints by fractions; none is so near that these bounds leave it open."""
    count = 0
    for x, y, d in constraints(Z, problem):
        low, high = bounds(Fraction(epsilon) * Fraction(d))
        is_above, is_held = Fraction(x) > high * Fraction(y), Fraction(x) <= low * Fraction(y)
        assert is_above != is_held
        count += is_above
    return count


def rounded_rows(problem, rng, digits):
    """A matrix near the exponential mechanism's, with noise in the given digit: some constraints are violated."""
    Z = exponential_matrix(problem) * (1.0 + rng.uniform(-1, 1, problem.loss.shape) * 10.0**-digits)
    return Z / Z.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("digits", [1, 8, 16])
def test_the_audit_counts_what_fractions_count(dataset, digits):
    problem = small_problem(dataset, seed=3)
    Z = rounded_rows(problem, np.random.default_rng(digits), digits)
    found = mdp.audit(Z, problem)
    assert found.n_constraints == 2 * problem.graph.n_pairs * problem.n_outputs
    assert found.n_violated == n_violated(Z.tolist(), problem, problem.epsilon)
    assert n_violated(Z.tolist(), problem, found.epsilon) == 0
    assert n_violated(Z.tolist(), problem, math.nextafter(found.epsilon, 0.0)) > 0
    assert found.holds == (found.epsilon <= problem.epsilon)
    i, j, k = found.worst.i, found.worst.j, found.worst.output
    assert found.probabilities == (Z[i, k], Z[j, k])
    assert math.log(Z[i, k] / Z[j, k]) / found.worst.distance == pytest.approx(found.epsilon, rel=1e-13)
    assert found.pair == (problem.records.ids[i], problem.records.ids[j])
    assert found.output == problem.outputs.ids(problem.records)[k]


def test_the_last_bit_is_seen():
    """Two records, a factor of two: log 2 rounded down is refuted, rounded up is proved."""
    rows, below = [[0.5, 0.5], [0.25, 0.75]], math.nextafter(math.log(2.0), 0.0)
    for epsilon, holds in ((below, False), (math.log(2.0), False), (math.nextafter(math.log(2.0), 1.0), True)):
        found = mdp.audit(rows, mdp.Problem(mdp.data.grid(1, 2), epsilon=epsilon, eta=1.0))
        assert (found.holds, found.n_violated) == (holds, 0 if holds else 1)
        assert found.epsilon == 0.6931471805599454


@given(st.integers(0, 10**6), st.booleans())
def test_budgets_found_are_tight_at_any_scale(seed, has_tiny):
    rng = np.random.default_rng(seed)
    Z = rng.dirichlet(np.ones(3), size=3) + 1e-18
    if has_tiny:
        Z[:, 0] *= 10.0 ** rng.uniform(-320, -300)
    Z[:, 2] += 1.0 - Z.sum(axis=1)
    Z = np.maximum(Z, 5e-324)
    records = mdp.Records(np.cumsum(rng.uniform(0.1, 2.0, 3)), kind="vectors")
    problem = mdp.Problem(records, epsilon=1.0, eta=math.inf)
    found = mdp.audit(Z, problem)
    assert n_violated(Z.tolist(), problem, found.epsilon) == 0
    assert n_violated(Z.tolist(), problem, math.nextafter(found.epsilon, 0.0)) > 0
    assert found.n_violated == n_violated(Z.tolist(), problem, 1.0)


def line(n=2, **options):
    return mdp.Problem(mdp.data.grid(1, n), epsilon=1.0, eta=1.0, **options)


def test_certain_reports_leave_no_epsilon():
    """The likeliest report that only one of two neighbours gives is the worst."""
    Z = [[0.9, 0.1, 0.0], [0.5, 0.5, 0.0], [0.5, 0.2, 0.3]]
    found = mdp.audit(Z, line(3))
    assert found.epsilon == math.inf
    assert (found.worst.i, found.worst.j, found.worst.output) == (2, 1, 2)
    assert found.n_violated == n_violated(Z, line(3), 1.0) == 2
    assert "No epsilon holds." in found.lines()
    assert found.share_violated == 2 / 12


def test_equal_rows_and_no_pairs():
    found = mdp.audit([[0.25, 0.75]] * 2, line())
    assert (found.epsilon, found.worst, found.n_violated, found.holds) == (0.0, None, 0, True)
    assert "PRIVATE" in str(found)
    alone = mdp.Problem(mdp.data.grid(1, 2), epsilon=1.0, eta=0.5)
    found = mdp.audit([[1.0, 0.0], [0.0, 1.0]], alone)
    assert (found.epsilon, found.holds, found.n_constraints) == (0.0, False, 0)
    assert "NOTHING is protected" in found.lines()[0]


def test_records_in_one_place_must_have_equal_rows():
    records = mdp.Records([[0.0], [0.0], [1.0]], kind="vectors")
    problem = mdp.Problem(records, epsilon=1.0, eta=2.0)
    Z = np.full((3, 3), 1 / 3)
    assert mdp.audit(Z, problem).epsilon == 0.0
    Z[0, :2] = math.nextafter(1 / 3, 1), math.nextafter(1 / 3, 0)
    found = mdp.audit(Z, problem)
    assert (found.epsilon, found.n_violated) == (math.inf, 2)
    assert found.worst.distance == 0.0


@pytest.mark.parametrize("is_sparse", [False, True])
def test_tables_of_mechanisms_are_audited_by_their_weights(is_sparse):
    problem = small_problem("grid", seed=1)
    mechanism = mdp.solve(problem).mechanism
    if is_sparse:
        own = mdp.Problem(mdp.data.grid(5, 5), epsilon=2.0, eta=1.0)
        mechanism, problem = mdp.solve(own, method="local", gap=0.1).mechanism, own
        assert mechanism.is_sparse
    weights = mechanism.table.block() if is_sparse else mechanism.table
    found = mdp.audit(mechanism, problem)
    assert found == mdp.audit(weights, problem)
    assert found.holds
    assert found.epsilon <= mechanism.certificate.privacy.tightest_epsilon <= problem.epsilon
    assert n_violated(weights.tolist(), problem, found.epsilon) == 0
    assert n_violated(weights.tolist(), problem, math.nextafter(found.epsilon, 0.0)) > 0
    i, k = found.worst.i, found.worst.output
    assert found.probabilities[0] == pytest.approx(float(weights[i, k]) / 2**63, rel=1e-12)


def test_weights_that_floats_cannot_tell_apart():
    top = 2**63
    Z = np.array([[top // 2, top // 2], [top // 2 - 1, top // 2 + 1]], dtype=np.uint64)
    found = mdp.audit(Z, line())
    assert n_violated(Z.tolist(), line(), found.epsilon) == 0
    assert n_violated(Z.tolist(), line(), math.nextafter(found.epsilon, 0.0)) > 0
    assert 0 < found.epsilon < 1e-18


def test_frames_and_small_floats_are_read():
    frame = pd.DataFrame([[0.5, 0.5], [0.25, 0.75]], index=["a", "b"])
    assert mdp.audit(frame, line()) == mdp.audit(frame.to_numpy(np.float32), line())
    assert module_function is mdp.audit


def test_nothing_is_scaled():
    """A row that sums to a little less than 1 is told, and its entries count as they are."""
    Z = np.array([[0.5, 0.5 - 1e-9], [0.25, 0.75]])
    found = mdp.audit(Z, line())
    assert found.row_sum_error == pytest.approx(1e-9)
    assert found.epsilon == 0.6931471805599454


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.5, 0.4], [0.5, 0.5]], "row 1 of the matrix sums to 0.9 .1 such rows.*divide"),
        ([[0.5, 0.5]], "one row of numbers for each of the 2 records.*shape .1, 2."),
        ([[1.5, -0.5], [0.5, 0.5]], "not negative, got -0.5 in row 1, column 2"),
        ([[math.nan, 1.0], [0.5, 0.5]], "got nan"),
        ([[1, 1], [1, 2]], "row 2 of the matrix has the weights' sum 3, and row 1 has 2"),
        ([[0, 0], [0, 0]], "row 1 of the matrix has the weights' sum 0"),
        ([["a", "b"], ["c", "d"]], "one row of numbers"),
        ([[1.0], [0.5, 0.5]], "must be a table of numbers"),
        (np.ones((2, 2), dtype=np.longdouble) / 2, "64 bits at most"),
        (np.ma.masked_array([[0.5, 0.5]] * 2, [[1, 0], [0, 0]]), "masked"),
    ],
)
def test_what_is_no_mechanism_is_refused(matrix, message):
    with pytest.raises(mdp.InputError, match=message):
        mdp.audit(matrix, line())


def test_planar_laplace_is_found_out():
    """Truncated planar Laplace satisfies up to twice its epsilon: the audit gives the figure of the certificate."""
    problem = small_problem("grid", seed=7)
    exact = planar_laplace(problem)
    found = mdp.audit(exact.probabilities, problem)
    assert not found.holds
    assert found.epsilon == pytest.approx(exact.epsilon, rel=1e-8)
