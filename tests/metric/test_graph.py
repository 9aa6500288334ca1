from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import floyd_warshall

import metricdp as mdp
from metricdp.metric import MdpGraph, prune_implied


@st.composite
def graphs(draw, *, zero=False):
    n = draw(st.integers(1, 9))
    choices = [(i, j) for i in range(n) for j in range(i + 1, n)]
    chosen = sorted(draw(st.sets(st.sampled_from(choices)))) if choices else []
    lengths = st.sampled_from([0.0, 0.5, 1.0, 2.5] if zero else [0.25, 0.5, 1.0, 2.5, 60.0, 900.0])
    distances = [draw(lengths) for _ in chosen]
    return MdpGraph(n, np.array(chosen, dtype=np.int32).reshape(-1, 2), np.array(distances, dtype=float))


def dense(graph):
    matrix = np.full((graph.n, graph.n), math.inf)
    np.fill_diagonal(matrix, 0.0)
    for (i, j), d in zip(graph.pairs, graph.distances, strict=True):
        matrix[i, j] = matrix[j, i] = d
    return matrix


def all_paths(graph):
    matrix = dense(graph)
    for k in range(graph.n):  # Floyd and Warshall by hand: csgraph drops zeros of dense input
        matrix = np.minimum(matrix, matrix[:, [k]] + matrix[[k], :])
    return matrix


@given(graphs(), st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1.0, 3.0]))
def test_closure_is_the_envelope(graph, seed, epsilon):
    """(cl v)_j = max_i exp(-epsilon D_ij) v_i."""
    V = np.random.default_rng(seed).exponential(size=(graph.n, 20))
    expected = (np.exp(-epsilon * all_paths(graph))[:, :, None] * V[:, None, :]).max(axis=0)
    assert graph.closure(V, epsilon) == pytest.approx(expected, rel=1e-12)


@given(graphs(), st.integers(0, 2**32 - 1))
def test_closure_is_idempotent_and_above(graph, seed):
    V = np.random.default_rng(seed).exponential(size=(graph.n, 3))
    closed = graph.closure(V, 1.0)
    assert (closed >= V).all()
    assert np.array_equal(graph.closure(closed, 1.0), closed)


@given(graphs(zero=True))
def test_paths_and_components(graph):
    paths = graph.path_distances(np.arange(graph.n))
    assert np.array_equal(np.isfinite(paths), graph.labels[:, None] == graph.labels[None, :])
    assert paths == pytest.approx(all_paths(graph))
    assert sorted(np.concatenate(graph.components).tolist()) == list(range(graph.n))
    firsts = [rows[0] for rows in graph.components]
    assert firsts == sorted(firsts)


@given(graphs(zero=True))
def test_merging_keeps_all_path_distances(graph):
    group, merged = graph.merged()
    assert (merged.distances > 0).all()
    assert merged.path_distances(np.arange(merged.n))[group][:, group] == pytest.approx(all_paths(graph))


@given(graphs())
def test_pruning_keeps_all_path_distances(graph):
    pruned = prune_implied(graph)
    assert pruned.n_pairs <= graph.n_pairs
    assert all_paths(pruned) == pytest.approx(all_paths(graph), rel=1e-9)


def test_pruning_a_grid_drops_what_a_cell_in_between_implies():
    graph = mdp.Problem(mdp.data.grid(1, 4), epsilon=1.0, eta=2.0).graph
    assert graph.pairs.tolist() == [[0, 1], [0, 2], [1, 2], [1, 3], [2, 3]]
    assert prune_implied(graph).pairs.tolist() == [[0, 1], [1, 2], [2, 3]]


def test_subgraph():
    graph = mdp.Problem(mdp.data.grid(2, 3), epsilon=1.0, eta=1.0).graph
    part = graph.subgraph(np.array([0, 1, 4]))
    assert part.pairs.tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize(
    ("pairs", "distances"),
    [
        ([[1, 0]], [1.0]),
        ([[0, 0]], [1.0]),
        ([[0, 1], [0, 1]], [1.0, 1.0]),
        ([[0, 9]], [1.0]),
        ([[0, 1]], [-1.0]),
        ([[0, 1]], [math.nan]),
        ([[0, 1]], [math.inf]),
        ([[0, 1]], [1.0, 2.0]),
    ],
)
def test_bad_graphs(pairs, distances):
    with pytest.raises(mdp.InputError):
        MdpGraph(3, np.array(pairs, dtype=np.int32), np.array(distances))


def test_floyd_warshall_agrees_on_a_city():
    graph = mdp.Problem(mdp.data.road("gothenburg", n=80, seed=0), epsilon=1.0, eta=1.0, outputs=1).graph
    assert graph.path_distances(np.arange(80)) == pytest.approx(floyd_warshall(graph.adjacency, directed=False))
