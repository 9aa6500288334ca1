"""Partition against its definitions by brute force, and the methods against what the paper says of them."""

import itertools
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from metricdp.data import Records, grid, read_records, read_rows
from metricdp.errors import InputError, MissingExtraError
from metricdp.metric import CoordinateMetric, MatrixMetric, MdpGraph
from metricdp.partition import PARTITIONERS, SEPARATORS, Partition, default_blocks, make_partition
from metricdp.partition.kmeans import adjacency_vectors, cluster, distance_vectors
from metricdp.partition.separator import vertex_cover
from metricdp.partition.spectral import first_eigenvectors, share_blocks

EUCLIDEAN = CoordinateMetric("euclidean")


def graph_of(n, pairs):
    pairs = np.array(sorted(pairs), dtype=np.int32).reshape(-1, 2)
    return MdpGraph(n, pairs, np.ones(len(pairs)))


@st.composite
def partitions(draw):
    n = draw(st.integers(1, 14))
    possible = list(itertools.combinations(range(n), 2))
    pairs = draw(st.sets(st.sampled_from(possible))) if possible else set()
    blocks = draw(st.lists(st.integers(-3, 4), min_size=n, max_size=n))
    return Partition(graph_of(n, pairs), np.array(blocks), separator=draw(st.sampled_from(SEPARATORS)))


def joined(items, links):
    """The classes of ``items`` under ``links``, by merging sets."""
    classes = [{item} for item in items]
    for link in links:
        touched = [c for c in classes if c & link]
        classes = [c for c in classes if not c & link] + ([set().union(*touched)] if touched else [])
    return sorted(sorted(c) for c in classes)


def is_cover(nodes, edges):
    return all(i in nodes or j in nodes for i, j in edges)


@given(partitions())
def test_blocks_are_numbered_by_their_first_records(partition):
    firsts = [int(block[0]) for block in partition.blocks]
    assert firsts == sorted(firsts)
    for number, block in enumerate(partition.blocks):
        assert np.array_equal(block, np.flatnonzero(partition.block_of == number))


@given(partitions())
def test_boundary_and_internal_records_by_definition(partition):
    pairs, block_of = partition.graph.pairs.tolist(), partition.block_of
    cut = [(i, j) for i, j in pairs if block_of[i] != block_of[j]]
    assert partition.graph.pairs[partition.cut_edges].tolist() == [list(edge) for edge in cut]
    boundary = partition.boundary.tolist()
    assert boundary == sorted(set(boundary))
    if partition.separator == "two-sided":
        assert set(boundary) == {i for edge in cut for i in edge}
    else:
        assert is_cover(set(boundary), cut)
        assert not any(is_cover(set(boundary) - {i}, cut) for i in boundary), "a record could be left out"
    assert np.flatnonzero(partition.is_boundary).tolist() == boundary
    for block, internal in zip(partition.blocks, partition.internal, strict=True):
        assert internal.tolist() == [i for i in block.tolist() if i not in boundary]
    # what decomposition rests on: internal records of different blocks are never neighbours
    inside = ~partition.is_boundary
    assert not any(inside[i] and inside[j] for i, j in cut)


@given(partitions())
def test_components_of_the_master(partition):
    boundary, pairs = partition.boundary.tolist(), partition.graph.pairs.tolist()
    induced = [{i, j} for i, j in pairs if partition.is_boundary[[i, j]].all()]
    assert sorted(c.tolist() for c in partition.master_components) == joined(boundary, induced)
    around = []
    for internal in map(set, (rows.tolist() for rows in partition.internal)):
        touching = [set(pair) - internal for pair in pairs if len(set(pair) & internal) == 1]
        around.append(set().union(*touching))
    assert sorted(c.tolist() for c in partition.coupled_components) == joined(boundary, induced + around)


@given(partitions())
def test_quality_figures(partition):
    q = partition.quality
    n_inside = [sum(not partition.is_boundary[i] for i in block) for block in partition.blocks]
    assert (q.n_blocks, q.n_boundary, q.n_cut_edges) == (
        len(set(partition.block_of.tolist())),
        len(partition.boundary),
        len(partition.cut_edges),
    )
    assert q.internal_mean == pytest.approx(np.mean(n_inside))
    assert q.internal_max == max(n_inside)
    master = [len(c) for c in partition.master_components]
    assert q.n_master_components == len(master)
    assert q.master_mean == pytest.approx(np.mean(master) if master else 0.0)
    assert q.master_max == max(master, default=0)
    sizes = [len(block) for block in partition.blocks]
    assert q.balance == pytest.approx(max(sizes) / np.mean(sizes))


def test_coupled_components_of_connected_insides_are_those_of_the_graph():
    # a path of 9: cut into thirds it has two master components, coupled through the middle block's inside
    line = graph_of(9, [(i, i + 1) for i in range(8)])
    thirds = Partition(line, np.repeat([0, 1, 2], 3))
    assert [c.tolist() for c in thirds.master_components] == [[2, 3], [5, 6]]
    assert [c.tolist() for c in thirds.coupled_components] == [[2, 3, 5, 6]]


@given(st.sets(st.tuples(st.integers(0, 8), st.integers(9, 17)), max_size=30))
def test_vertex_cover_is_near_the_least(edges):
    cover = set(vertex_cover(np.array(sorted(edges), dtype=np.int64).reshape(-1, 2)).tolist())
    assert is_cover(cover, edges)
    assert len(cover) <= least_cover(edges) + 1


def least_cover(edges):
    """The size of a least vertex cover by integer programming."""
    if not len(edges):
        return 0
    nodes, places = np.unique(np.array(sorted(edges)), return_inverse=True)
    rows = np.repeat(np.arange(len(edges)), 2)
    matrix = csr_array((np.ones(len(rows)), (rows, places.ravel())), shape=(len(edges), len(nodes)))
    weights = np.ones(len(nodes))
    answer = milp(weights, constraints=LinearConstraint(matrix, 1, np.inf), integrality=weights, bounds=Bounds(0, 1))
    assert answer.success
    return round(answer.fun)


def test_the_one_sided_boundary_is_within_3_percent_of_the_least():
    cells = grid(15, 15)
    partition = make_partition(cells, EUCLIDEAN, MdpGraph.of(cells, EUCLIDEAN, 2.0), n_blocks=9, separator="one-sided")
    cut = partition.graph.pairs[partition.cut_edges].tolist()
    assert len(partition.boundary) <= 1.03 * least_cover(cut)


def test_plot_data():
    places = Records([[41.0, 12.0], [41.1, 12.0], [41.1, 12.2]])
    partition = Partition(graph_of(3, [(0, 1), (1, 2)]), np.array([0, 0, 1]))
    data = partition.plot_data(places)
    assert data["x"].tolist() == [12.0, 12.0, 12.2]
    assert data["y"].tolist() == [41.0, 41.1, 41.1]
    assert data["block"].tolist() == [0, 0, 1]
    assert data["is_boundary"].tolist() == [False, True, True]
    assert data["cut_segments"].tolist() == [[[12.0, 41.1], [12.2, 41.1]]]
    on_a_line = partition.plot_data(Records([1.0, 2.0, 3.0], kind="vectors"))
    assert on_a_line["x"].tolist() == [1.0, 2.0, 3.0]
    assert on_a_line["y"].tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(InputError, match="3 records, got 2"):
        partition.plot_data(places.select([0, 1]))


def test_wrong_blocks_are_refused():
    graph = graph_of(3, [(0, 1)])
    with pytest.raises(InputError, match="one whole number for each of the 3 records"):
        Partition(graph, np.array([0, 1]))
    with pytest.raises(InputError, match="one whole number"):
        Partition(graph, np.array([0.0, 1.0, 1.0]))
    with pytest.raises(InputError, match="unknown separator 'thick': choose one of two-sided, one-sided"):
        Partition(graph, np.array([0, 1, 1]), separator="thick")


def test_distance_vectors_are_the_metric_distances_to_all_records():
    records = Records(np.random.default_rng(0).normal(size=(150, 3)), kind="vectors")
    rows = np.arange(10, 140)
    points = records.coordinates[rows]
    expected = np.linalg.norm(points[:, None] - points[None], axis=2)
    assert np.allclose(distance_vectors(records, EUCLIDEAN, rows, seed=0), expected)
    # infinite distances become twice the largest finite one
    matrix = MatrixMetric([[0, 3, np.inf], [3, 0, np.inf], [np.inf, np.inf, 0]])
    vectors = distance_vectors(Records([0.0, 1.0, 2.0], kind="vectors"), matrix, np.arange(3), seed=0)
    assert vectors.tolist() == [[0, 3, 6], [3, 0, 6], [6, 6, 0]]


def test_landmarks_give_an_unbiased_estimate_of_squared_differences():
    records = Records(np.random.default_rng(0).normal(size=(600, 2)), kind="vectors")
    rows = np.arange(600)
    full = distance_vectors(records, EUCLIDEAN, rows, seed=0)
    exact = ((full[0] - full[1]) ** 2).sum()
    estimates = []
    for seed in range(40):
        few = distance_vectors(records, EUCLIDEAN, rows, seed=seed, max_full=599)
        assert few.shape == (600, 256)
        estimates.append(((few[0] - few[1]) ** 2).sum() * 600 / 256)
    assert np.mean(estimates) == pytest.approx(exact, rel=0.03)


def test_no_square_matrix_beyond_5000_records():
    n = 6_000
    records = Records(np.random.default_rng(0).uniform(0, 60, (n, 2)), kind="vectors")
    graph = MdpGraph.of(records, EUCLIDEAN, 0.8)
    tracemalloc.start()
    partition = make_partition(records, EUCLIDEAN, graph, method="k-m-dv", n_blocks=60)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert partition.n_blocks == 60
    assert peak < 8 * n * n / 4, f"{peak / 1e6:.0f} MB"


def test_clusters_are_found_and_equal_rows_stay_together():
    vectors = np.repeat([[0.0, 0.0], [0.0, 1.0], [9.0, 9.0]], 4, axis=0)
    two = cluster(vectors, 2, seed=0)
    assert len(np.unique(two[:8])) == 1
    assert len(np.unique(two)) == 2
    three = cluster(vectors, 7, seed=0).reshape(3, 4)
    assert (three == three[:, :1]).all()
    assert len(np.unique(three)) == 3


def test_adjacency_rows_are_indicators():
    graph = MdpGraph(3, np.array([[0, 1], [1, 2]], dtype=np.int32), np.array([0.0, 5.0]))
    assert adjacency_vectors(graph).toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]


@pytest.mark.parametrize("max_dense", [1_000, 10])
def test_first_eigenvectors_minimise_the_trace(monkeypatch, max_dense):
    """The relaxed RatioCut: F'F = I and trace(F'LF) is the sum of the M smallest eigenvalues."""
    monkeypatch.setattr("metricdp.partition.spectral.MAX_DENSE_RECORDS", max_dense)
    cells = grid(15, 20)
    graph = MdpGraph.of(cells, EUCLIDEAN, 1.5)
    links = adjacency_vectors(graph).toarray()
    L = np.diag(links.sum(axis=1)) - links
    F = first_eigenvectors(graph, 12, seed=0)
    assert np.allclose(F.T @ F, np.eye(12), atol=1e-8)
    assert np.trace(F.T @ L @ F) == pytest.approx(np.linalg.eigvalsh(L)[:12].sum(), rel=1e-6)


def test_spectral_clustering_cuts_the_bridges():
    cliques = [(a + s, b + s) for s in (0, 8, 16) for a, b in itertools.combinations(range(8), 2)]
    graph = graph_of(24, [*cliques, (7, 8), (15, 16)])
    records = Records(np.arange(24.0), kind="vectors")
    for method in ("bsc", "k-m-adj"):
        found = make_partition(records, EUCLIDEAN, graph, method=method, n_blocks=3)
        assert found.block_of.tolist() == np.repeat([0, 1, 2], 8).tolist(), method


@given(st.lists(st.integers(1, 500), min_size=1, max_size=9), st.integers(0, 60))
def test_blocks_are_shared_out_whole(sizes, extra):
    n_blocks = len(sizes) + extra
    shares = share_blocks(sizes, n_blocks)
    assert min(shares) >= 1
    assert sum(shares) >= n_blocks
    if all(size * n_blocks >= sum(sizes) for size in sizes):
        assert sum(shares) == n_blocks


def test_default_number_of_blocks():
    assert default_blocks(graph_of(1, [])) == 1
    assert default_blocks(graph_of(500, [])) == 25
    complete = graph_of(100, itertools.combinations(range(100), 2))
    assert default_blocks(complete) == 1


def test_metis_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    records = Records(np.arange(9.0), kind="vectors")
    with pytest.raises(MissingExtraError, match=r'the METIS partitioner needs .* pip install "metricdp\[metis\]"'):
        make_partition(records, EUCLIDEAN, MdpGraph.of(records, EUCLIDEAN, 1.0), method="metis", n_blocks=3)


# average and maximum number of internal records per block: what the paper reports for road maps, 25 blocks
SEED_SIZES = {"k-m-dv": (9.5, 18.6), "k-m-rec": (10.1, 16.1)}


@pytest.mark.parametrize("method", PARTITIONERS)
def test_rome_gives_sizes_like_the_seed(rome, method):
    records = read_records(rome / "nodes.csv.gz").select(read_rows(rome / "paper_records.csv"))
    metric = CoordinateMetric("haversine")
    graph = MdpGraph.of(records, metric, 2.0)
    assert default_blocks(graph) == 25
    found = [make_partition(records, metric, graph, method=method, n_blocks=25, seed=seed) for seed in range(5)]
    assert {partition.n_blocks for partition in found} == {25}
    if method in SEED_SIZES:
        mean, largest = SEED_SIZES[method]
        assert np.mean([p.quality.internal_mean for p in found]) == pytest.approx(mean, rel=1 / 3)
        assert np.mean([p.quality.internal_max for p in found]) == pytest.approx(largest, rel=1 / 3)
    for partition in found:
        # the one-sided separator is less than half of the paper's boundary
        thin = Partition(graph, partition.block_of, method, "one-sided")
        assert len(thin.boundary) < 0.5 * len(partition.boundary)
