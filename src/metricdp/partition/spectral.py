"""Balanced spectral clustering, BSC (the paper's Appendix C.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.csgraph import laplacian
from scipy.sparse.linalg import eigsh

from metricdp.partition.kmeans import adjacency_vectors, cluster

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.metric.graph import MdpGraph

MAX_DENSE_RECORDS = 1_500
SPECTRAL_SHIFT = -0.01  # just below the spectrum: the shifted Laplacian is positive definite


def spectral_blocks(graph: MdpGraph, n_blocks: int, *, seed: int) -> NDArray[np.int64]:
    """Cluster the rows of the first M eigenvectors of the unnormalised Laplacian ``L = D - W``.

    The paper assumes a connected graph. On others these eigenvectors only tell components apart, so each component
    is clustered alone, with blocks in proportion to its size; components worth less than one block share blocks.
    """
    block_of = np.empty(graph.n, dtype=np.int64)
    start = 0
    small: list[NDArray[np.int64]] = []
    large: list[NDArray[np.int64]] = []
    for rows in graph.components:
        (large if len(rows) * n_blocks >= graph.n else small).append(rows)
    sizes = [len(rows) for rows in large]
    if small:
        sizes.append(graph.n - sum(sizes))
    shares = share_blocks(sizes, n_blocks)
    for rows, share in zip(large, shares, strict=False):
        block_of[rows] = start + _connected_blocks(graph.subgraph(rows), share, seed=seed)
        start += share
    if small:
        # each small component, the largest first, goes whole into the emptiest of the blocks they share
        filled = np.zeros(shares[-1], dtype=np.int64)
        for rows in sorted(small, key=len, reverse=True):
            emptiest = int(filled.argmin())
            block_of[rows] = start + emptiest
            filled[emptiest] += len(rows)
    return block_of


def share_blocks(sizes: list[int], n_blocks: int) -> list[int]:
    """Divide blocks in proportion to ``sizes``, at least one for each, by largest remainders.

    Examples
    --------
    >>> share_blocks([411, 89], 25)
    [21, 4]
    """
    exact = np.array(sizes) * n_blocks / sum(sizes)
    shares = np.maximum(np.floor(exact), 1).astype(np.int64)
    left = max(0, n_blocks - int(shares.sum()))
    shares[np.argsort(shares - exact, kind="stable")[:left]] += 1
    return shares.tolist()


def _connected_blocks(graph: MdpGraph, n_blocks: int, *, seed: int) -> NDArray[np.int64]:
    if n_blocks == 1 or graph.n <= n_blocks:
        return np.arange(graph.n) % n_blocks
    # digits beyond the ninth are rounding, and would separate records that are equal
    return cluster(first_eigenvectors(graph, n_blocks, seed=seed).round(9), n_blocks, seed=seed)


def first_eigenvectors(graph: MdpGraph, n: int, *, seed: int) -> NDArray[np.float64]:
    """Return the eigenvectors of the ``n`` smallest eigenvalues of the Laplacian as columns, shape (N, n)."""
    matrix = laplacian(adjacency_vectors(graph))
    if graph.n <= MAX_DENSE_RECORDS or 2 * n > graph.n:
        return eigh(matrix.toarray(), subset_by_index=(0, n - 1))[1]
    start = np.random.default_rng(seed).standard_normal(graph.n)
    values, vectors = eigsh(matrix.tocsc(), k=n, sigma=SPECTRAL_SHIFT, which="LM", v0=start)
    return vectors[:, np.argsort(values)]
