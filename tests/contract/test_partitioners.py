"""What every partitioner promises, whatever the graph."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from metricdp.data import Records
from metricdp.errors import InputError
from metricdp.metric import CoordinateMetric, MatrixMetric, MdpGraph
from metricdp.partition import PARTITIONERS, SEPARATORS, default_blocks, make_partition

EUCLIDEAN = CoordinateMetric("euclidean")


@pytest.fixture(params=PARTITIONERS)
def method(request):
    return request.param


def random_records(n, *, seed=0):
    return Records(np.random.default_rng(seed).uniform(0, 10, (n, 2)), kind="vectors")


def assert_sound(partition, n_blocks):
    """Every record in exactly one block, no block empty, and the boundary by its definition."""
    graph = partition.graph
    assert 1 <= partition.n_blocks <= min(n_blocks, graph.n)
    assert len(partition.blocks) == len(partition.internal) == partition.n_blocks
    assert np.concatenate(partition.blocks).size == graph.n
    assert set(np.concatenate(partition.blocks).tolist()) == set(range(graph.n))
    assert all(len(block) for block in partition.blocks)
    boundary = set(partition.boundary.tolist())
    expected = set()
    for i, j in graph.pairs.tolist():
        if partition.block_of[i] != partition.block_of[j]:
            assert i in boundary or j in boundary
            expected |= {i, j}
    assert boundary == expected if partition.separator == "two-sided" else boundary <= expected
    inside = np.concatenate(partition.internal).tolist()
    assert sorted(inside + partition.boundary.tolist()) == list(range(graph.n))


def divide(records, eta, method, **options):
    return make_partition(records, EUCLIDEAN, MdpGraph.of(records, EUCLIDEAN, eta), method=method, **options)


@pytest.mark.parametrize("separator", SEPARATORS)
@pytest.mark.parametrize("eta", [0.5, 1.5, 4.0])
def test_a_random_graph_is_divided_into_the_blocks_asked_for(method, eta, separator):
    partition = divide(random_records(120), eta, method, n_blocks=8, separator=separator)
    assert_sound(partition, 8)
    assert partition.n_blocks == 8
    assert (partition.name, partition.separator) == (method, separator)


DEGENERATE = {
    "one record": (Records([[1.0, 2.0]], kind="vectors"), 1.0),
    "two records": (Records([[0.0], [1.0]], kind="vectors"), 1.0),
    "no edges": (random_records(30), 1e-9),
    "one edge": (Records(np.r_[0.0, 0.5, np.arange(2.0, 20.0)], kind="vectors"), 0.7),
    "complete graph": (random_records(30), 100.0),
    "equal records": (Records(np.zeros((12, 2)), kind="vectors"), 1.0),
    "three places of many records": (Records(np.repeat([0.0, 1.0, 5.0], 10), kind="vectors"), 2.0),
    "star": (Records(np.vstack((np.zeros(10), np.eye(10))), kind="vectors"), 1.0),
    "line": (Records(np.arange(40.0), kind="vectors"), 1.0),
    "many components": (Records(np.repeat(np.arange(20.0) * 10, 3) + np.tile([0, 1, 2], 20), kind="vectors"), 2.0),
    "huge and tiny": (Records([[1e150], [-1e150], [1e-150], [2e-150], [0.0], [-0.0]], kind="vectors"), 1.0),
}


@pytest.mark.parametrize("case", DEGENERATE)
@settings(max_examples=10)
@given(method=st.sampled_from(PARTITIONERS), wanted=st.none() | st.integers(1, 45), seed=st.integers(0, 2**40))
@example(method="k-m-dv", wanted=1000, seed=0)
@example(method="bsc", wanted=2, seed=0)
@example(method="metis", wanted=7, seed=0)
def test_degenerate_graphs(case, method, wanted, seed):
    records, eta = DEGENERATE[case]
    partition = divide(records, eta, method, n_blocks=wanted, seed=seed)
    assert_sound(partition, wanted or default_blocks(partition.graph))
    if wanted is not None and (wanted == 1 or wanted >= records.n):
        assert partition.n_blocks == min(wanted, records.n)


def test_same_seed_same_answer_whatever_the_threads(method):
    grid = Records(np.indices((20, 25)).reshape(2, -1).T, kind="vectors")  # full of ties
    answers = []
    for threads in (1, 2, 4):
        with threadpool_limits(limits=threads):
            answers.append(divide(grid, 2.0, method, n_blocks=25, seed=3).block_of)
    assert np.array_equal(answers[0], answers[1])
    assert np.array_equal(answers[0], answers[2])


def test_a_component_is_divided_by_naming_its_rows(method):
    far = Records(np.vstack((random_records(40).coordinates, random_records(30).coordinates + 100)), kind="vectors")
    whole = MdpGraph.of(far, EUCLIDEAN, 3.0)
    rows = np.arange(40, 70)
    part = make_partition(far, EUCLIDEAN, whole.subgraph(rows), rows=rows, method=method, n_blocks=4)
    assert_sound(part, 4)
    alone = far.select(rows)
    again = make_partition(alone, EUCLIDEAN, MdpGraph.of(alone, EUCLIDEAN, 3.0), method=method, n_blocks=4)
    assert np.array_equal(part.block_of, again.block_of)


def test_infinite_distances_of_a_matrix(method):
    matrix = np.full((20, 20), np.inf)
    for block in (slice(0, 12), slice(12, 20)):
        size = block.stop - block.start
        matrix[block, block] = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    metric = MatrixMetric(matrix)
    records = Records(np.arange(20.0), kind="vectors")
    assert_sound(make_partition(records, metric, MdpGraph.of(records, metric, 2.0), method=method, n_blocks=4), 4)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_records_and_any_number_of_blocks(data):
    method = data.draw(st.sampled_from(PARTITIONERS))
    numbers = st.floats(-20, 20, allow_nan=False) | st.sampled_from([0.0, -0.0, 1.0])
    points = data.draw(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=25))
    n_blocks = data.draw(st.integers(1, 30))
    separator = data.draw(st.sampled_from(SEPARATORS))
    eta = data.draw(st.floats(0.1, 30))
    seed = data.draw(st.integers(0, 2**40))
    options = {"n_blocks": n_blocks, "seed": seed, "separator": separator}
    assert_sound(divide(Records(points, kind="vectors"), eta, method, **options), n_blocks)


@pytest.mark.parametrize("n_blocks", [0, -3, 2.5, True, "many"])
def test_a_wrong_number_of_blocks_is_named(method, n_blocks):
    with pytest.raises(InputError, match="n_blocks must be a whole number of at least 1"):
        divide(random_records(5), 1.0, method, n_blocks=n_blocks)


@pytest.mark.parametrize("seed", [-1, 0.5])
def test_a_wrong_seed_is_named(method, seed):
    with pytest.raises(InputError, match="seed must be a whole number"):
        divide(random_records(5), 1.0, method, seed=seed)


def test_an_unknown_partitioner_is_named():
    with pytest.raises(InputError, match="unknown partitioner 'kmeans': choose one of k-m-dv, k-m-rec"):
        divide(random_records(5), 1.0, "kmeans")


def test_a_graph_of_other_records_is_refused(method):
    records = random_records(5)
    graph = MdpGraph.of(random_records(6), EUCLIDEAN, 1.0)
    with pytest.raises(InputError, match="6 nodes but 5 of the 5 records"):
        make_partition(records, EUCLIDEAN, graph, method=method)
    with pytest.raises(InputError, match="rows"):
        make_partition(records, EUCLIDEAN, graph, rows=[0, 1, 2, 3, 4, 5], method=method)
