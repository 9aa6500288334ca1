"""Epsilons of the records' own: between two records the smaller one counts, exactly, through every door."""

from __future__ import annotations

import copy
import math
from fractions import Fraction

import numpy as np
import pytest
from tests.conftest import linprog_optimum
from tests.mechanism.independent import exp_bounds

import metricdp as mdp
from metricdp.budget import Ledger
from metricdp.budget.memoized import fingerprint
from metricdp.evaluate.compare import compare, satisfies
from metricdp.evaluate.problem_of_file import rebuild
from metricdp.evaluate.sweep import sweep
from metricdp.extras import MetricPrivacy
from metricdp.mechanism.baselines import planar_laplace
from metricdp.mechanism.certify import TOTAL, check_privacy
from metricdp.mechanism.sparse import SparseTable
from metricdp.metric.budgets import pair_budgets
from metricdp.metric.scaled import scaled_graph

METHODS = ("direct", "interior", "columns", "benders")


def random_problem(seed, n=None):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 9)) if n is None else n
    records = mdp.Records(rng.uniform(0.0, 3.0, (n, 2)), prior=rng.uniform(0.1, 1.0, n), kind="vectors")
    return mdp.Problem(records, epsilon=rng.uniform(0.3, 3.0, n), eta=rng.uniform(1.0, 4.0), outputs=int(min(n, 5)))


def holds_for_all(mechanism, epsilons):
    """Whether every pair satisfies the smaller of its epsilons, by rational bounds of exp written independently."""
    for (i, j), d in zip(mechanism.graph.pairs.tolist(), mechanism.graph.distances.tolist(), strict=True):
        low, _ = exp_bounds(Fraction(min(epsilons[i], epsilons[j])) * Fraction(d))
        weights = mechanism.table[[i, j]].tolist()
        if any(max(x, y) > low * min(x, y) and max(x, y) != min(x, y) for x, y in zip(*weights, strict=True)):
            return False
    return True


@pytest.fixture(scope="module")
def solved():
    return mdp.solve(random_problem(5, n=8), gap=1e-6, method="direct")


@pytest.mark.parametrize("start", range(0, 100, 25))
def test_100_random_problems_agree_with_a_plain_program(start):
    for seed in range(start, start + 25):
        problem = random_problem(seed)
        result = mdp.solve(problem, method=METHODS[seed % len(METHODS)], gap=1e-6)
        truth = linprog_optimum(problem)
        assert result.problem is problem
        assert result.loss == pytest.approx(truth, rel=3e-6)
        assert result.lower_bound <= truth * (1 + 1e-7)
        np.testing.assert_array_equal(result.mechanism.epsilons, problem.epsilons)
        assert holds_for_all(result.mechanism, problem.epsilons.tolist())
        # nobody can do better with the smallest epsilon for all, and with the largest one can
        assert linprog_optimum(problem.at_smallest_epsilon) >= truth * (1 - 1e-7)
        assert linprog_optimum(problem.with_epsilon(problem.epsilon)) <= truth * (1 + 1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["first-order", "local"])
def test_steps_agree_as_well(method):
    problem = random_problem(3, n=12)
    result, truth = mdp.solve(problem, method=method, gap=0.02), linprog_optimum(problem)
    assert result.lower_bound <= truth * (1 + 1e-7)
    assert truth * (1 - 1e-7) <= result.loss <= truth * 1.03
    assert result.mechanism.is_sparse == (method == "local")


def test_a_record_is_never_worse_protected_against_neighbours_than_if_all_had_its_epsilon(solved):
    mechanism, own = solved.mechanism, solved.problem.epsilons
    graph = mechanism.graph
    for record in range(mechanism.records.n):
        its = (graph.pairs == record).any(axis=1)
        check = check_privacy(mechanism.table, graph.pairs[its], graph.distances[its], float(own[record]))
        assert its.any()
        assert check.certified
    # with one epsilon for all, the strictest record would be worse off
    shared = mdp.solve(solved.problem.with_epsilon(float(own.max())), gap=1e-6, method="direct").mechanism
    strictest = (graph.pairs == int(own.argmin())).any(axis=1)
    check = check_privacy(shared.table, graph.pairs[strictest], graph.distances[strictest], float(own.min()))
    assert not check.certified


def told(mechanism):
    """The logarithm of the largest ratio between any two records' probabilities of one output, shape (N, N)."""
    logs = np.log(mechanism.table.astype(float))
    return np.abs(logs[:, None] - logs[None]).max(axis=2)


def test_beyond_neighbours_steps_with_larger_epsilons_weaken_a_strict_record():
    problem = mdp.Problem(mdp.data.grid(1, 3), epsilon=[0.25, 2.0, 2.0], eta=1.0)
    made = mdp.solve(problem, gap=1e-6).mechanism
    assert told(made)[0, 2] > 2.2  # with 0.25 for all it is at most 0.5
    assert made.guarantee.bound(0, 2) == pytest.approx(2.25)
    assert not made.guarantee.is_complete
    assert "against its neighbours. Beyond them" in str(made.certificate)
    assert "at each step" in made.guarantee.sentence


@pytest.mark.parametrize("seed", range(10))
def test_where_all_pairs_are_neighbours_a_record_is_never_worse_protected_against_anybody(seed):
    drawn = random_problem(seed)
    problem = mdp.Problem(drawn.records, epsilon=drawn.epsilons, eta=math.inf, outputs=drawn.n_outputs)
    made = mdp.solve(problem, gap=1e-6).mechanism
    own, away = problem.epsilons, problem.metric.to_rows(problem.records, np.arange(problem.n_records))
    allowed = np.minimum(own[:, None], own[None]) * away
    assert made.guarantee.is_complete
    assert (told(made) <= allowed * (1 + 1e-9) + 1e-12).all()
    for i, j in problem.graph.pairs.tolist():
        assert made.guarantee.bound(i, j) <= allowed[i, j] * (1 + 1e-9)
    assert "between any two records" in str(made.certificate)
    assert "at each step" not in made.guarantee.sentence


def test_pairs_of_strict_records_alone_are_enough_to_protect_these_from_everybody():
    records, own = mdp.data.grid(3, 4), np.full(12, 2.0)
    own[[0, 5]] = 0.5
    away = problem_distances(records)
    is_strict = own < 2.0
    needed = (away <= 1.0) | is_strict[:, None] | is_strict
    distances = np.where(needed, away, math.inf)
    problem = mdp.Problem(records, epsilon=own, eta=math.inf, metric=distances, loss=away, outputs=np.arange(12))
    assert problem.graph.n_pairs < 12 * 11 / 2
    made = mdp.solve(problem, gap=1e-3).mechanism
    assert (told(made)[is_strict] <= 0.5 * away[is_strict] * (1 + 1e-9) + 1e-12).all()
    near = mdp.Problem(records, epsilon=own, eta=1.0, outputs=12)
    assert (told(mdp.solve(near, gap=1e-3).mechanism)[is_strict] > 0.5 * away[is_strict] * 1.1).any()


def problem_distances(records):
    return np.linalg.norm(records.coordinates[:, None] - records.coordinates[None], axis=2)


def tight_pair(first, second, distance):
    """Two rows at the very limit of the smaller epsilon: the largest weight that passes, and the one after it."""
    low, high = exp_bounds(Fraction(min(first, second)) * Fraction(distance))
    small = TOTAL // 8
    most = math.floor(low * small)
    assert most == math.floor(high * small)
    return small, most


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("own", [(1.0, 1.5), (1.5, 1.0), (0.1, 0.30000000000000004), (1.0, np.nextafter(1.0, 2.0))])
def test_the_smallest_violation_is_rejected(own, is_sparse):
    pairs, distances, epsilons = np.array([[0, 1]], dtype=np.int32), np.array([0.7]), np.array(own)
    small, most = tight_pair(*own, 0.7)
    for extra, passes in ((0, True), (1, False)):
        rows = [[small, TOTAL - small], [most + extra, TOTAL - most - extra]]
        table = np.array(rows, dtype=np.uint64)
        if is_sparse:
            parts = ([0, 2, 4], np.int64), ([0, 1, 0, 1], np.int32), (table.ravel(), np.uint64)
            arrays = [
                np.array(values, dtype=kind) for values, kind in (*parts, ([0, 0], np.uint64), ([0, 0], np.uint64))
            ]
            table = SparseTable(*arrays)
        check = check_privacy(table, pairs, distances, epsilons)
        assert check.certified == passes
        assert check.epsilon == max(own)
        assert passes or f"exp({min(own)!r} * 0.7)" in check.fault
        if not passes:  # the unsound rules would let it pass, where they differ by more than the last digit
            assert check_privacy(table, pairs, distances, max(own)).certified
            assert check_privacy(table, pairs, distances, math.fsum(own) / 2).certified or own[0] == 1.0


def test_scaled_distances_are_not_below_the_true_products_and_hardly_above():
    rng = np.random.default_rng(1)
    for scale in (1e-3, 1.0, 1e6):
        problem = random_problem(int(rng.integers(1000)), n=9)
        own = rng.uniform(1e-6, 1.0, 9) * scale
        graph = scaled_graph(problem.graph, own)
        true = pair_budgets(own, graph.pairs).tolist()
        for mine, epsilon, d in zip(graph.distances.tolist(), true, problem.graph.distances.tolist(), strict=True):
            product = Fraction(epsilon) * Fraction(d)
            assert product <= Fraction(mine) * Fraction(float(own.max())) <= product * (1 + Fraction(1, 2**49))
            assert mine <= d


def test_what_is_given_as_epsilon_is_checked():
    grid = mdp.data.grid(1, 3)
    assert mdp.Problem(grid, epsilon=[2.0, 2.0, 2.0], eta=1.0).epsilons is None
    for epsilon, message in (
        ([1.0, 2.0], r"one for each of the 3 records, got shape \(2,\)"),
        (np.ones((3, 3)), "the smaller epsilon counts, since the larger one or the mean would break the promise"),
        ([1.0, 0.0, 2.0], r"epsilon must be positive and finite, got 0.0 in row 1 \(1 such rows\)"),
        ([1.0, math.nan, math.inf], r"got nan in row 1 \(2 such rows\)"),
        ([1.0, 1.0, 1e10], "within a factor of 1e\\+09"),
        ("budget", "a column can be named for a DataFrame only"),
        (np.ma.masked_less([1.0, 2.0, 3.0], 2.0), "masked array hides"),
    ):
        with pytest.raises(mdp.InputError, match=message):
            mdp.Problem(grid, epsilon=epsilon, eta=1.0)


def test_a_column_of_a_data_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": [0.0, 1.0, 2.0], "own": [1.0, 2.0, 0.5]})
    problem = mdp.Problem(frame, epsilon="own", eta=1.0)
    assert (problem.epsilon, problem.epsilons.tolist()) == (2.0, [1.0, 2.0, 0.5])
    assert "epsilon 0.5 to 2," in repr(problem)
    with pytest.raises(mdp.InputError, match="no single column 'other'"):
        mdp.Problem(frame, epsilon="other", eta=1.0)


def test_a_mechanism_refuses_epsilons_that_do_not_fit(solved):
    made = solved.mechanism
    parts = (made.table, made.records, made.outputs, made.graph)
    for epsilon, own, message in (
        (made.epsilon, made.epsilons[:-1], "one for each of the 8 records"),
        (2 * made.epsilon, made.epsilons, "epsilon must be the largest"),
        (made.epsilon, np.where(made.epsilons == made.epsilon, made.epsilon, -1.0), "positive and finite"),
        (made.epsilon, np.where(made.epsilons == made.epsilon, made.epsilon, 1e-12), "within a factor"),
    ):
        with pytest.raises(mdp.InputError, match=message):
            mdp.Mechanism(*parts, epsilon, made.eta, made.metric, epsilons=own)
    with pytest.raises(mdp.CertificationError, match="the least epsilon that holds for all"):
        mdp.Mechanism(*parts, 0.2, made.eta, made.metric, epsilons=np.linspace(0.1, 0.2, 8))


def test_files_copies_and_merged_outputs_keep_them(solved, tmp_path):
    made = solved.mechanism
    made.save(tmp_path / "own.mdp")
    loaded = mdp.load(tmp_path / "own.mdp", require=f"epsilon<={made.epsilon!r}")
    assert b"metricdp-1+epsilons" in (tmp_path / "own.mdp").read_bytes()[:4096]
    for one in (loaded, copy.deepcopy(made), made.merge({0: 1}), made.without([2])):
        np.testing.assert_array_equal(one.epsilons, made.epsilons)
        assert one.certificate.privacy.certified
    with pytest.raises(mdp.CertificationError, match="epsilon is"):
        mdp.load(tmp_path / "own.mdp", require=f"epsilon<={float(made.epsilons.min())!r}")
    np.testing.assert_array_equal(rebuild(tmp_path / "own.mdp").problem.epsilons, made.epsilons)


def test_the_promise_follows_paths_of_smaller_epsilons():
    problem = mdp.Problem(mdp.data.grid(1, 3), epsilon=[1.0, 0.25, 2.0], eta=1.0)
    promise = mdp.solve(problem).mechanism.guarantee
    assert promise.bound(0, 2) == pytest.approx(0.5, rel=1e-12)
    assert promise.bound(0, 2) >= 0.5
    assert promise.bound(1, 2) >= 0.25
    assert promise.budgets.tolist() == [1.0, 0.25, 2.0]
    assert "the smaller of their own epsilons at each step" in promise.sentence
    # points are promised the largest epsilon
    assert promise.for_points(0.5).epsilon == 2.0


def test_doors_that_charge_take_the_largest(solved, tmp_path):
    made = solved.mechanism
    with Ledger(tmp_path / "ledger.db", limit=10.0) as ledger:
        assert ledger.charge_for("anna", made) == made.epsilon
    own = made.epsilons.copy()
    own[0] = min(own[0] * 1.5, made.epsilon)
    looser = mdp.Mechanism(
        made.table, made.records, made.outputs, made.graph, made.epsilon, made.eta, made.metric, epsilons=own
    )
    assert fingerprint(looser) != fingerprint(made)


def test_others_are_built_with_the_smallest(solved):
    problem, own = solved.problem, solved.problem.epsilons
    names = ("exponential", "planar-laplace", "planar-laplace-snapped", "uniform", "const-opt", "spanner", "kernel")
    found = compare(solved.mechanism, problem, names)
    assert not found.unavailable
    rows = {row.name: row for row in found.rows}
    assert rows["exponential"].certified
    assert "with the smallest epsilon for all" in rows["spanner"].note
    assert not found.better
    laplace = planar_laplace(problem)
    assert laplace.epsilon > own.min()  # it guarantees twice as much
    assert not satisfies(laplace, problem)
    assert not rows["planar-laplace"].certified
    with pytest.raises(mdp.InputError, match="a sweep goes through values of one epsilon"):
        sweep(problem, [1.0], ["exponential"])
    with pytest.raises(mdp.InputError, match="epsilon must be one number here"):
        MetricPrivacy(epsilon=[1.0, 2.0], kind="vectors").fit([[0.0], [1.0]])


def test_an_audit_counts_by_the_smaller_epsilon(solved):
    problem, Z = solved.problem, solved.mechanism.to_numpy()
    found = mdp.audit(solved.mechanism, problem)
    assert found.holds
    assert "each record's own" in str(found)
    shared = mdp.solve(problem.with_epsilon(problem.epsilon), gap=1e-6, method="direct").mechanism
    broken = mdp.audit(shared, problem)
    assert broken.n_violated > 0
    assert mdp.audit(shared, problem.with_epsilon(problem.epsilon)).holds
    made = mdp.Mechanism.from_matrix(problem, shared.to_numpy())
    assert holds_for_all(made, problem.epsilons.tolist())
    assert Z.shape == made.table.shape
