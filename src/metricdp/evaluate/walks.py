"""Public transitions of people who walk: to neighbours, or along streets."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, diags_array, issparse, load_npz
from scipy.sparse.csgraph import dijkstra

from metricdp.data.readers.comma import read_matrix
from metricdp.errors import FileFormatError, InputError
from metricdp.metric.given import StreetMetric, street_matrix

if TYPE_CHECKING:
    from os import PathLike

    from metricdp.data.records import Records
    from metricdp.mechanism.mechanism import Mechanism

STAY = 0.5  # the probability of staying, of the walks that are made here
ROW_SUM_TOLERANCE = 1e-9


def neighbour_walk(mechanism: Mechanism, stay: float = STAY) -> csr_array:
    """Return the random walk that goes to each neighbour alike, and stays with probability ``stay``."""
    n, pairs = mechanism.records.n, mechanism.graph.pairs
    return _walk(csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n)), stay)


def street_walk(records: Records, stay: float = STAY) -> csr_array:
    """Return the random walk along streets: to each record that is next on them alike, and stays with ``stay``.

    Each intersection of the network belongs to the record nearest along the streets. Records are next to one another
    where a street joins an intersection of one with one of the other, and where both are the same intersection. If all
    intersections are records, it is the walk that takes each street from an intersection alike. Files of mechanisms
    keep no streets, so it needs the records as they were read.

    Examples
    --------
    >>> from metricdp.data import road
    >>> walk = street_walk(road("gothenburg", n=50, seed=0))
    >>> walk.shape, bool(abs(walk.sum(axis=1) - 1.0).max() < 1e-9)
    ((50, 50), True)
    """
    streets, nodes = StreetMetric.network(records)
    ways = street_matrix(streets)
    spots, of_record = np.unique(nodes, return_inverse=True)
    away, _, source = dijkstra(ways, directed=False, indices=spots, min_only=True, return_predecessors=True)
    place = np.full(streets.n_nodes, -1, dtype=np.int64)
    place[spots] = np.arange(len(spots))
    u, v = streets.edges[np.isfinite(away[streets.edges]).all(axis=1)].T
    ends = np.column_stack((place[source[u]], place[source[v]]))
    ends = ends[ends[:, 0] != ends[:, 1]]
    between = csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(len(spots), len(spots)))
    at = csr_array((np.ones(records.n), (np.arange(records.n), of_record)), shape=(records.n, len(spots)))
    links = csr_array(at @ (between + diags_array(np.ones(len(spots)))) @ at.T)
    links.setdiag(0.0)
    links.eliminate_zeros()
    return _walk(links, stay)


def _walk(links: csr_array, stay: float) -> csr_array:
    """Return the walk along links, each alike however often it is listed."""
    if not 0.0 <= stay < 1.0:
        raise InputError(f"stay must be a probability below 1, got {stay}: give for example {STAY}")
    both = csr_array(links + links.T)
    both.data[:] = 1.0
    degrees = np.asarray(both.sum(axis=1)).ravel()
    moves = np.where(degrees > 0, (1.0 - stay) / np.maximum(degrees, 1.0), 0.0)
    stays = np.where(degrees > 0, stay, 1.0)
    walk = csr_array(diags_array(moves) @ both + diags_array(stays))
    walk.sort_indices()
    return walk


def read_transition(path: str | PathLike[str]) -> Any:
    """Read a matrix of moves: sparse from .npz (`scipy.sparse.save_npz`), dense from .npy or a CSV file of numbers."""
    if Path(path).suffix != ".npz":
        return read_matrix(path)
    try:
        found = load_npz(path)
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        what = f"{type(error).__name__}: {error}"
        raise FileFormatError(
            f"{path} is not a sparse matrix ({what:.100}): save it with scipy.sparse.save_npz"
        ) from None
    return found


def checked_transition(transition: Any, n: int) -> csr_array:
    """Return a transition between n records as a sparse matrix, or raise an error that says what is wrong with it."""
    matrix = csr_array(transition if issparse(transition) else np.asarray(transition), dtype=np.float64, copy=True)
    matrix.sum_duplicates()  # and in order, so that draws do not depend on how it was kept
    if matrix.shape != (n, n):
        raise InputError(f"the transition must have shape ({n}, {n}), one row for each record, got {matrix.shape}")
    sums = np.asarray(matrix.sum(axis=1)).ravel()
    if (
        not (np.isfinite(matrix.data).all() and (matrix.data >= 0).all())
        or np.abs(sums - 1.0).max() > ROW_SUM_TOLERANCE
    ):
        raise InputError("the rows of the transition must be probabilities that sum to 1")
    return matrix
