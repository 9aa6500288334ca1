"""The thin graph: what is left out has a short detour, and nothing falls apart."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components, dijkstra
from tests.conftest import DATASETS, small_problem

import metricdp as mdp
from metricdp.metric import MdpGraph, thin
from metricdp.metric.closure import kernel_threads
from metricdp.metric.thin import thin_edges


def graph_of(points, eta=np.inf):
    records = mdp.Records(np.asarray(points, dtype=float), kind="vectors")
    return MdpGraph.of(records, mdp.metric.as_metric(None, records), eta)


def plane(seed, n=60, eta=0.4):
    return graph_of(np.random.default_rng(seed).random((n, 2)), eta)


def lengths_of(graph):
    """The distance of each pair, in both directions."""
    found = {}
    for (i, j), d in zip(graph.pairs.tolist(), graph.distances.tolist(), strict=True):
        found[i, j] = found[j, i] = d
    return found


def taken_by_hand(graph, stretch):
    """The rule, record by record, with dictionaries: the pairs that each record takes."""
    lengths = lengths_of(graph)
    taken = set()
    for i in range(graph.n):
        own = []
        for j in sorted((j for a, j in lengths if a == i), key=lambda j: (lengths[i, j], j)):
            detours = (
                lengths[i, m] + lengths[m, j] for m in own if (m, j) in lengths and lengths[m, j] < lengths[i, j]
            )
            if not any(detour <= (1 + stretch) * lengths[i, j] for detour in detours):
                own.append(j)
        taken |= {(i, j) for j in own}
    return taken


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 100])
def test_the_kernels_sort_is_stable(count):
    """As numpy's stable sort: by length, and equal ones in their order."""
    lengths = np.random.default_rng(count).integers(0, 10, count + 5).astype(float)
    order = np.full(count + 2, -1)
    thin.sort_positions(order, lengths, 3, count)
    assert order[:count].tolist() == (3 + np.argsort(lengths[3 : 3 + count], kind="stable")).tolist()
    assert order[count:].tolist() == [-1, -1]


def kept_pairs(graph, stretch):
    return [tuple(pair) for pair in graph.pairs[thin_edges(graph, stretch)].tolist()]


def check_nothing_falls_apart(graph, stretch):
    kept = thin_edges(graph, stretch)
    thin = MdpGraph(graph.n, graph.pairs[kept], graph.distances[kept])
    assert thin.n_components == graph.n_components
    assert np.array_equal(thin.labels, graph.labels)


@pytest.mark.parametrize("stretch", [0.0, 0.005, 0.02, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_rule_in_the_plane(seed, stretch):
    """A record takes its neighbours nearest first, unless one taken before is on the way; either end may take it."""
    graph = plane(seed)
    union = {tuple(sorted(pair)) for pair in taken_by_hand(graph, stretch)}
    assert kept_pairs(graph, stretch) == sorted(union)


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("stretch", [0.02, 0.3])
def test_what_both_ends_leave_out_has_a_detour_from_both(dataset, stretch):
    """Also where distances are equal and their order is free (the grid)."""
    graph = small_problem(dataset, seed=3, n=48, outputs=4).graph
    lengths, kept = lengths_of(graph), set(kept_pairs(graph, stretch))
    beside = {i: {m for a, m in lengths if a == i and tuple(sorted((i, m))) in kept} for i in range(graph.n)}
    left_out = {tuple(pair) for pair in graph.pairs.tolist()} - kept
    assert left_out or (dataset, stretch) == ("words", 0.02)  # in many dimensions hardly anything lies between
    for pair in left_out:
        for i, j in (pair, pair[::-1]):
            detours = [lengths[i, m] + lengths[m, j] for m in beside[i] if (m, j) in lengths]
            assert min(detours) <= (1 + stretch) * lengths[i, j] * (1 + 1e-12)


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("stretch", [0.0, 0.02, 1.0])
def test_components_stay(dataset, stretch):
    for seed in range(3):
        check_nothing_falls_apart(small_problem(dataset, seed=seed, n=40, outputs=4).graph, stretch)


@pytest.mark.parametrize("nearness", [0.0, 1e-12, 1e-6, 1e-3, 1e-2])
@pytest.mark.parametrize("stretch", [0.0, 0.02, 0.05, 0.5])
def test_components_stay_where_records_are_nearly_the_same(nearness, stretch):
    """Two near records must not each leave the way out to the other."""
    shifts = nearness * np.arange(3)[:, None]
    for centres in ([0.0, 10.0], [0.0, 10.0, 20.0, 35.0], [-1.0, 0.0, 0.5]):
        points = np.concatenate([np.full((3, 1), centre) + shifts for centre in centres])
        check_nothing_falls_apart(graph_of(points), stretch)


def test_components_stay_among_random_clusters():
    for seed in range(30):
        generator = np.random.default_rng(seed)
        centres = generator.random((6, 2))
        points = np.repeat(centres, 5, axis=0) + 10.0 ** generator.uniform(-6, -1) * generator.random((30, 2))
        check_nothing_falls_apart(graph_of(points, generator.uniform(0.2, 2.0)), 0.02)


@pytest.mark.parametrize("seed", range(4))
def test_paths_are_hardly_longer_in_the_plane(seed):
    """One detour may lead to the next: the paths are measured, not only the first step."""
    graph, stretch = plane(seed, n=150, eta=0.3), 0.02
    kept = thin_edges(graph, stretch)
    thin = MdpGraph(graph.n, graph.pairs[kept], graph.distances[kept])
    assert len(kept) < 0.6 * graph.n_pairs
    paths = dijkstra(thin.adjacency, directed=False)[graph.pairs[:, 0], graph.pairs[:, 1]]
    assert (paths / graph.distances).max() < 1 + 5 * stretch


def test_no_stretch_drops_only_what_follows():
    """On a line the next neighbours imply all others; in the plane no three records are on one line."""
    line = graph_of([[0.0], [1.0], [2.0], [4.0]])
    assert kept_pairs(line, 0.0) == [(0, 1), (1, 2), (2, 3)]
    graph = plane(1)
    assert thin_edges(graph, 0.0).tolist() == list(range(graph.n_pairs))


def test_more_stretch_keeps_fewer():
    graph = plane(2, n=100)
    counts = [len(thin_edges(graph, stretch)) for stretch in (0.0, 0.01, 0.1, 1.0)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 2 * counts[-1]


def test_without_pairs():
    graph = MdpGraph(3, np.zeros((0, 2), dtype=np.int32), np.zeros(0))
    assert thin_edges(graph, 0.02).shape == (0,)


def test_isolated_records_and_single_pairs():
    graph = MdpGraph(6, np.array([[1, 4]], dtype=np.int32), np.array([2.0]))
    assert thin_edges(graph, 0.5).tolist() == [0]


def test_same_every_time_and_on_any_number_of_threads():
    graph = plane(3, n=300, eta=0.2)
    found = []
    for threads in (1, 2, 2):
        with kernel_threads(threads):
            found.append(thin_edges(graph, 0.02))
    assert (np.diff(found[0]) > 0).all()
    assert all(np.array_equal(found[0], other) for other in found[1:])


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_the_closure_by_way_of_the_skeleton_is_the_closure(epsilon):
    """Dense graphs close a thin graph first; the result is that of all pairs."""
    graph = plane(4, n=80, eta=np.inf)
    assert graph.n_pairs > 8 * graph.n
    assert connected_components(graph.skeleton.adjacency)[0] == 1
    V = np.random.default_rng(0).exponential(size=(graph.n, 11)) ** 3
    expected = (np.exp(-epsilon * graph.path_distances(np.arange(graph.n)))[:, :, None] * V[:, None, :]).max(axis=0)
    np.testing.assert_allclose(graph.closure(V, epsilon), expected, rtol=1e-12)
