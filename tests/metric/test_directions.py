"""Angles, cosines and Mahalanobis distances: never above the true ones, and made again from a file."""

from __future__ import annotations

import decimal
import math
from decimal import Decimal

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from tests.metric.precise import true_distance

import metricdp as mdp
from metricdp.evaluate import rebuild
from metricdp.mechanism.container import metadata_hash, tensor_hash
from metricdp.metric import DirectionMetric, MahalanobisMetric, as_metric
from metricdp.metric.graph import MdpGraph
from metricdp.metric.recount import recount_fault
from metricdp.metric.remade import can_be_remade, remade
from metricdp.metric.rounding import CHECKED_MARGIN, STORED_MARGIN

RNG = np.random.default_rng(20)
BASE = RNG.normal(size=(6, 4))
VECTORS = {
    "gaussian": RNG.normal(size=(14, 3)),
    "words": mdp.data.words(n=12, seed=2).coordinates,
    "nearly parallel": np.concatenate((BASE, 3.0 * BASE + 1e-13 * RNG.normal(size=BASE.shape))),
    "nearly opposite": np.concatenate((BASE, -0.7 * BASE + 1e-9 * RNG.normal(size=BASE.shape))),
    "right angles": np.concatenate((np.eye(5), -np.eye(5), np.eye(5) + np.roll(np.eye(5), 1, axis=0))),
    "huge": RNG.normal(size=(10, 3)) * 1e307,
    "tiny": RNG.integers(1, 9, (10, 3)) * 5e-324,
    "mixed": RNG.normal(size=(12, 5)) * 10.0 ** RNG.integers(-300, 300, (12, 1)),
    "a line": np.array([[1.0], [-2.0], [5.0]]),
}
NAMES = DirectionMetric.NAMES
CASES = [pytest.param(name, points, id=f"{name}, {case}") for name in NAMES for case, points in VECTORS.items()]


@pytest.mark.parametrize(("name", "points"), CASES)
def test_no_distance_exceeds_the_true_one(name, points):
    """All pairs are listed when eta is infinite, and are at most `error` off, which is what the rule relies on."""
    metric, records = DirectionMetric(name), mdp.Records(points, kind="vectors")
    pairs, below = metric.pairs_within(records, math.inf)
    assert len(pairs) == records.n * (records.n - 1) // 2
    error = Decimal(metric.error(records.dimension))
    for (i, j), stored in zip(pairs.tolist(), below.tolist(), strict=True):
        true = true_distance(name, points[i], points[j])
        there, back = (float(metric.elementwise(points[a], points[b])) for a, b in ((i, j), (j, i)))
        assert there == back
        assert abs(Decimal(there) - true) < error * Decimal("0.9")
        assert max(Decimal(0), true - 5 * error) <= Decimal(stored) <= max(Decimal(0), true)
    checked = metric.rounded_down(points[pairs[:, 0]], points[pairs[:, 1]], margin=CHECKED_MARGIN)
    assert (below <= checked).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dimension", [2, 14])  # with a tree, and without
def test_pairs_are_those_of_brute_force_and_are_made_again(name, dimension):
    points = np.random.default_rng(1).normal(size=(80, dimension))
    points[:5] = 2.0 * points[5:10]
    metric, records = DirectionMetric(name), mdp.Records(points, kind="vectors")
    all_pairs, all_below = metric.pairs_within(records, math.inf)
    for eta in (1e-15, 1e-3, 0.4, 1.2):
        graph = MdpGraph.of(records, metric, eta)
        assert graph.pairs.tolist() == all_pairs[all_below <= eta].tolist()
        assert recount_fault(records, graph, eta, metric) == ""
        again = remade(records, eta, metric, margin=STORED_MARGIN, most=graph.n_pairs)
        assert again.distances.tobytes() == graph.distances.tobytes()
        assert can_be_remade(records, eta, metric, graph, most=graph.n_pairs)
        fewer = MdpGraph(graph.n, graph.pairs[1:], graph.distances[1:])
        assert "not among the protected pairs" in recount_fault(records, fewer, eta, metric)
    longer = MdpGraph(graph.n, graph.pairs, graph.distances + 1e-12)
    assert "is stored" in recount_fault(records, longer, eta, metric)
    distances = metric.to_rows(records, np.arange(80))
    assert distances[all_pairs[:, 0], all_pairs[:, 1]] == pytest.approx(all_below, abs=1e-12)


def test_cosine_is_no_metric_and_paths_count():
    """Two steps of 45 degrees are shorter than one of 90: the promise along the path is the stronger one."""
    fan = mdp.Records([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]], kind="vectors")
    problem = mdp.Problem(fan, epsilon=1.0, eta=math.inf, metric="cosine")
    direct, short, _ = problem.graph.distances[[1, 0, 2]]
    assert direct == pytest.approx(1.0)
    assert 2 * short < 0.6 * direct
    mechanism = mdp.solve(problem).mechanism
    first, _, last = mechanism.probabilities
    assert (first <= math.exp(2 * short) * last * (1 + 1e-12)).all()
    assert (last <= math.exp(2 * short) * first * (1 + 1e-12)).all()
    angles = mdp.Problem(fan, epsilon=1.0, eta=math.inf, metric="angular").graph.distances
    assert angles.tolist() == pytest.approx([math.pi / 4, math.pi / 2, math.pi / 4])


@pytest.mark.parametrize("name", NAMES)
def test_what_has_no_direction_or_needs_a_metric_is_refused(name):
    with pytest.raises(mdp.InputError, match="no direction"):
        mdp.Problem([[0.0, 0.0], [1.0, 0.0]], epsilon=1.0, eta=1.0, metric=name)
    with pytest.raises(mdp.InputError, match="haversine"):
        mdp.Problem(mdp.data.road("gothenburg", n=5), epsilon=1.0, eta=1.0, metric=name, loss="distance")
    mechanism = mdp.exponential(mdp.Problem(np.eye(3), epsilon=1.0, eta=3.0, metric=name))
    with pytest.raises(mdp.InputError, match="cannot be snapped"):
        mechanism.perturb_points([[1.0, 1.0, 1.0]], limit=1.0)


def files(tmp_path, name):
    """A dense and a sparse file of the same words."""
    words = mdp.data.words().select(range(30))
    problem = mdp.Problem(words, epsilon=20.0, eta="connect", metric=name)
    for method in ("auto", "local"):
        path = tmp_path / f"{method}.mdp"
        mdp.solve(problem, method=method, gap=0.2).mechanism.save(path)
        yield problem, path


@pytest.mark.parametrize("name", NAMES)
def test_files_are_checked_again_from_the_vectors(name, tmp_path):
    seen = set()
    for problem, path in files(tmp_path, name):
        loaded = mdp.load(path)
        assert (loaded.metric, loaded.guarantee.is_recomputed) == (name, True)
        assert np.array_equal(loaded.graph.pairs, problem.graph.pairs)
        found = rebuild(path)
        assert found.loss_source == "distance, from the file"
        assert found.problem.loss == pytest.approx(problem.loss, abs=1e-12)
        tensors = load_file(path)
        seen.add("pairs" in tensors)
        with safe_open(path, "numpy") as opened:
            metadata = opened.metadata()
        tensors["records"] = tensors["records"].copy()
        tensors["records"][0] = tensors["records"][1]  # in one place, but with other rows
        metadata["sha256"] = tensor_hash(tensors)
        metadata["metadata_sha256"] = metadata_hash(metadata)
        bad = tmp_path / "moved.mdp"
        save_file(tensors, bad, metadata)
        with pytest.raises(mdp.MetricDPError):
            mdp.load(bad)
    assert seen == {True, False}


def test_mahalanobis_is_the_euclidean_distance_of_whitened_vectors():
    mixed = RNG.normal(size=(200, 3)) @ np.array([[5.0, 0.0, 0.0], [4.0, 0.5, 0.0], [0.0, 1.0, 0.01]]) + 100.0
    records = mdp.Records(mixed, kind="vectors")
    metric = as_metric("mahalanobis", records)
    inverse = np.linalg.inv(np.cov(mixed.T))
    difference = mixed[:, None] - mixed[None]
    expected = np.sqrt(np.einsum("ijk,kl,ijl->ij", difference, inverse, difference))
    assert metric.to_rows(records, np.arange(200)) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    pairs, below = metric.pairs_within(records, 1.0)
    assert len(pairs) > 500
    wanted = np.argwhere(np.triu(expected <= 1.0 - 1e-9, k=1)).tolist()
    assert {tuple(one) for one in wanted} <= {tuple(one) for one in pairs.tolist()}
    assert below == pytest.approx(expected[pairs[:, 0], pairs[:, 1]], rel=1e-6)
    with decimal.localcontext(decimal.Context(prec=80)):
        for (i, j), stored in list(zip(pairs.tolist(), below.tolist(), strict=True))[:100]:
            step = [Decimal(x) - Decimal(y) for x, y in zip(mixed[i].tolist(), mixed[j].tolist(), strict=True)]
            rows = metric.whitening.tolist()
            parts = [sum(Decimal(w) * s for w, s in zip(row, step, strict=True)) for row in rows]
            assert Decimal(stored) <= sum(part * part for part in parts).sqrt()


def test_mahalanobis_files_hold_their_pairs(tmp_path):
    records = mdp.Records(RNG.normal(size=(30, 2)) * [1.0, 50.0], kind="vectors")
    problem = mdp.Problem(records, epsilon=2.0, eta="connect", metric="mahalanobis")
    mdp.solve(problem, method="local", gap=0.2).mechanism.save(tmp_path / "own.mdp")
    loaded = mdp.load(tmp_path / "own.mdp")
    assert (loaded.metric, loaded.guarantee.is_recomputed) == ("mahalanobis", False)
    assert np.array_equal(loaded.graph.distances, problem.graph.distances)
    assert rebuild(tmp_path / "own.mdp", loss="distance").problem.loss == pytest.approx(problem.loss)
    given = mdp.Problem(records, epsilon=2.0, eta=3.0, metric=MahalanobisMetric(np.diag([1.0, 2500.0])))
    mdp.exponential(given).save(tmp_path / "given.mdp")
    assert mdp.load(tmp_path / "given.mdp").metric == "function mahalanobis"


@pytest.mark.parametrize(
    ("covariance", "part"),
    [
        ([[1.0, 0.0], [0.0, 0.0]], "singular"),
        ([[1.0, 2.0], [2.0, 1.0]], "singular"),
        ([[1.0, 2.0]], "square"),
        ([[1.0, 0.5], [0.1, 1.0]], "symmetric"),
        ([[math.nan]], "finite"),
        ("no", "numbers"),
    ],
)
def test_bad_covariances(covariance, part):
    with pytest.raises(mdp.InputError, match=part):
        MahalanobisMetric(covariance)


def test_a_covariance_must_fit_the_records():
    with pytest.raises(mdp.InputError, match="one row and one column"):
        mdp.Problem(np.eye(3), epsilon=1.0, eta=1.0, metric=MahalanobisMetric(np.eye(2)))
    with pytest.raises(mdp.InputError, match="singular"):
        mdp.Problem([[0.0, 0.0], [1.0, 1.0]], epsilon=1.0, eta=1.0, metric="mahalanobis")
    with pytest.raises(mdp.InputError, match="choose one of .*mahalanobis"):
        mdp.Problem(np.eye(3), epsilon=1.0, eta=1.0, metric="hamming")
