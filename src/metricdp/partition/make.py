"""The facade: from records to a partition by any of the partitioners."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np
from threadpoolctl import threadpool_limits

from metricdp.errors import InputError
from metricdp.partition.kmeans import adjacency_vectors, cluster, distance_vectors, record_vectors
from metricdp.partition.metis import metis_blocks
from metricdp.partition.partition import Partition
from metricdp.partition.spectral import spectral_blocks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from metricdp.data.records import Records
    from metricdp.metric.distances import Metric
    from metricdp.metric.graph import MdpGraph

Partitioner = Literal["k-m-dv", "k-m-rec", "k-m-adj", "bsc", "metis"]
PARTITIONERS: tuple[Partitioner, ...] = ("k-m-dv", "k-m-rec", "k-m-adj", "bsc", "metis")
RECORDS_PER_BLOCK = 20
NEIGHBOURS_PER_BLOCK = 1.5


def make_partition(
    records: Records,
    metric: Metric,
    graph: MdpGraph,
    *,
    rows: ArrayLike | None = None,
    method: str = "k-m-dv",
    n_blocks: int | None = None,
    seed: int = 0,
    separator: str = "two-sided",
) -> Partition:
    """Divide the records into blocks.

    Parameters
    ----------
    records, metric
        The records and their distance.
    graph
        The mDP graph to divide.
    rows
        The record of each node of ``graph``, if it is a component or a merged graph; all records in order if left out.
    method
        ``"k-m-dv"``, ``"k-m-rec"``, ``"k-m-adj"``, ``"bsc"`` (the paper's four) or ``"metis"``. Beyond 5,000 records
        ``"k-m-dv"`` uses distances to 256 landmarks in place of an N × N matrix.
    n_blocks
        The number of blocks wanted, M; more than there are records means one each. There can be fewer blocks than
        wanted, where a method cannot tell records apart. By default ``default_blocks(graph)``.
    seed
        For all random choices: the same seed gives the same partition, whatever the number of threads.
    separator
        Which records form the boundary: see Partition.

    Examples
    --------
    >>> from metricdp.data import Records
    >>> from metricdp.metric import CoordinateMetric, MdpGraph
    >>> records, metric = Records([[0], [1], [2], [10], [11], [12]], kind="vectors"), CoordinateMetric("euclidean")
    >>> make_partition(records, metric, MdpGraph.of(records, metric, 8.0), n_blocks=2)
    Partition(k-m-dv: 6 records in 2 blocks, 2 on the two-sided boundary)
    """
    if method not in PARTITIONERS:
        raise InputError(f"unknown partitioner {method!r}: choose one of {', '.join(PARTITIONERS)}")
    nodes = np.arange(records.n) if rows is None else np.asarray(rows, dtype=np.int64)
    if nodes.shape != (graph.n,) or nodes.min() < 0 or nodes.max() >= records.n:
        raise InputError(
            f"the graph has {graph.n} nodes but {nodes.size} of the {records.n} records were named: "
            "give the record of each node with rows"
        )
    wanted = default_blocks(graph) if n_blocks is None else _whole(n_blocks, "n_blocks", 1)
    wanted = min(wanted, graph.n)
    start = _whole(seed, "seed", 0)
    if wanted in (1, graph.n):
        return Partition(graph, np.arange(graph.n) % wanted, method, separator)
    # the sums of several threads come in any order, and their rounding decides ties
    with threadpool_limits(limits=1):
        block_of = _blocks(records, metric, graph, nodes, method=method, n_blocks=wanted, seed=start)
    return Partition(graph, block_of, method, separator)


def default_blocks(graph: MdpGraph) -> int:
    """Return a number of blocks that fits the graph.

    About 20 records per block, as in the paper (500 records, 25 blocks), but not fewer than one and a half times the
    average number of neighbours: in smaller blocks less than a quarter of the records are internal (measured on
    places of Rome; half with three times the neighbours, a tenth with half).
    """
    neighbours = 2.0 * graph.n_pairs / graph.n
    return math.ceil(graph.n / max(RECORDS_PER_BLOCK, NEIGHBOURS_PER_BLOCK * neighbours))


def _blocks(
    records: Records,
    metric: Metric,
    graph: MdpGraph,
    nodes: NDArray[np.int64],
    *,
    method: Partitioner,
    n_blocks: int,
    seed: int,
) -> NDArray[np.int64]:
    match method:
        case "k-m-dv":
            return cluster(distance_vectors(records, metric, nodes, seed=seed), n_blocks, seed=seed)
        case "k-m-rec":
            return cluster(record_vectors(records, nodes), n_blocks, seed=seed)
        case "k-m-adj":
            return cluster(adjacency_vectors(graph), n_blocks, seed=seed)
        case "bsc":
            return spectral_blocks(graph, n_blocks, seed=seed)
        case "metis":
            return metis_blocks(graph, n_blocks, seed=seed)


def _whole(value: int, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return int(value)
