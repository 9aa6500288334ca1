"""k-means on distance vectors, on record vectors and on adjacency rows (the paper's Section 3.4 and Appendix C)."""

from __future__ import annotations

import hashlib
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from metricdp.data.records import Records
    from metricdp.metric.distances import Metric
    from metricdp.metric.graph import MdpGraph

MAX_FULL_RECORDS = 5_000  # up to here a distance vector has one entry per record: 200 MB
N_LANDMARKS = 256
ROWS_AT_ONCE = 64  # of distances requested from a metric, which may need much more memory for each than it returns
MAX_RESTARTS = 10


def distance_vectors(
    records: Records, metric: Metric, rows: NDArray[np.int64], *, seed: int, max_full: int = MAX_FULL_RECORDS
) -> NDArray[np.float64]:
    """Return the distance vector ``d_i = [d_i1, ..., d_iN]`` of each of the ``rows`` (k-m-DV, Section 3.4).

    The entries are distances of the metric, as the paper writes them, not of paths in the graph. Infinite ones
    become twice the largest finite one.

    Beyond ``max_full`` rows no N × N matrix is made: the vectors hold the distances to 256 landmarks, drawn with
    ``seed`` equally likely among the rows. Then ``|d_i - d_j|²`` times N / 256 is an unbiased estimate of the full
    one, which spread-out (farthest-point) landmarks would not give.
    """
    targets = rows
    if len(rows) > max_full:
        targets = np.sort(np.random.default_rng(seed).choice(rows, size=N_LANDMARKS, replace=False))
    vectors = np.empty((len(rows), len(targets)))
    for start in range(0, len(targets), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        vectors[:, part] = metric.to_rows(records, targets[part])[rows]
    finite = np.isfinite(vectors)
    if not finite.all():
        vectors[~finite] = 2.0 * vectors.max(where=finite, initial=0.5)
    return vectors


def record_vectors(records: Records, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the coordinates of the ``rows`` (k-m-rec, Appendix C.1): for places plain degrees, as in the paper."""
    return records.coordinates[rows]


def adjacency_vectors(graph: MdpGraph) -> csr_array:
    """Return the rows of the 0-1 adjacency matrix, sparse (k-m-adj, Appendix C.2)."""
    matrix = graph.adjacency.copy()
    matrix.sort_indices()
    matrix.data[:] = 1.0
    return matrix


def cluster(vectors: NDArray[np.float64] | csr_array, n_blocks: int, *, seed: int) -> NDArray[np.int64]:
    """Return the k-means cluster of each row of ``vectors``.

    The paper writes the objective without squaring the norm; with centroids that are means, as there, it is the
    squared norm that k-means minimises. The best of 10 starts counts, of fewer beyond
    500 records (one from 5,000). Equal rows stay together, so there are never more clusters than distinct rows.
    """
    n_clusters = min(n_blocks, len(set(_row_digests(vectors))))
    n_records = vectors.shape[0]
    if n_clusters == 1:
        return np.zeros(n_records, dtype=np.int64)
    # imported here: it takes a second, and only this needs it
    from sklearn.cluster import KMeans  # noqa: PLC0415
    from sklearn.exceptions import ConvergenceWarning  # noqa: PLC0415

    kmeans = KMeans(
        n_clusters,
        n_init=max(1, min(MAX_RESTARTS, 500 * MAX_RESTARTS // n_records)),
        random_state=seed % 2**32,
        copy_x=False,
        # elkan finds the same clusters faster, but keeps N × M bounds
        algorithm="elkan" if n_records <= MAX_FULL_RECORDS else "lloyd",
    )
    with warnings.catch_warnings():
        # rows that differ by rounding only can still share a centre: then there are fewer clusters, which is fine
        warnings.simplefilter("ignore", ConvergenceWarning)
        # the result does not depend on the scale; this one cannot overflow
        largest = abs(vectors).max()
        found = kmeans.fit_predict(vectors / (largest or 1.0))
    return found.astype(np.int64)


def _row_digests(vectors: NDArray[np.float64] | csr_array) -> Iterator[bytes]:
    """Return equal digests for equal rows; the entries of a sparse array are all 1."""
    rows: Iterable[NDArray[Any]] = vectors
    if isinstance(vectors, csr_array):
        rows = np.split(vectors.indices, vectors.indptr[1:-1])
    # adding zero makes -0.0 and 0.0 the same bytes
    return (hashlib.blake2b((row + 0).tobytes(), digest_size=16).digest() for row in rows)
