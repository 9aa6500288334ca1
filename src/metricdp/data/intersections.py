"""From drawn street segments to a network of intersections.

A map draws a street as many short segments. Only the places where streets meet or end matter for distances, so a
chain of segments between two of them becomes one street that is as long as the chain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from metricdp.data.geodesy import haversine_km
from metricdp.data.streets import StreetNetwork
from metricdp.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def contract(coordinates: ArrayLike, segments: ArrayLike) -> tuple[StreetNetwork, NDArray[np.int64]]:
    """Return the intersections and dead ends of drawn segments, with the streets between them.

    Points with two neighbours are passed through: a chain of them becomes one street whose length is the sum of the
    haversine lengths of its segments. Of parallel streets the shortest stays, a street back to its own start is
    dropped, and only the component with the most intersections is kept. Shortest path distances between the
    intersections that are kept do not change.

    Parameters
    ----------
    coordinates
        Latitude and longitude of each point in degrees, shape (V, 2).
    segments
        The two points of each segment, shape (S, 2).

    Returns
    -------
    The street network, and for each of its intersections the row of ``coordinates`` it came from, ascending.

    Examples
    --------
    >>> star = [[0, 0], [0.01, 0], [0.02, 0], [0, 0.01], [-0.01, 0]]
    >>> streets, points = contract(star, [[0, 1], [1, 2], [0, 3], [0, 4]])
    >>> points.tolist(), streets.edges.tolist(), streets.lengths.round(3).tolist()
    ([0, 2, 3, 4], [[0, 1], [0, 2], [0, 3]], [2.224, 1.112, 1.112])
    """
    places = np.asarray(coordinates, dtype=np.float64)
    drawn = np.asarray(segments, dtype=np.int64).reshape(-1, 2)
    pieces, lengths = merge_parallel(drawn, haversine_km(places[drawn[:, 0]], places[drawn[:, 1]]))
    n_neighbours = np.bincount(pieces.ravel(), minlength=len(places))
    streets, lengths = merge_parallel(*_join_chains(pieces, lengths, is_passed=n_neighbours == 2))
    if not len(streets):
        raise InputError(
            f"the {len(drawn)} street segments have no intersection: give a network with a street junction"
        )
    return _largest_component(places, streets, lengths)


def merge_parallel(
    edges: NDArray[np.integer[Any]], lengths: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return each pair of joined points once, the lower first, with the shortest length; drop loops.

    Examples
    --------
    >>> edges, lengths = merge_parallel(np.array([[1, 0], [0, 1], [2, 2]]), np.array([3.0, 2.0, 1.0]))
    >>> edges.tolist(), lengths.tolist()
    ([[0, 1]], [2.0])
    """
    low, high = edges.min(axis=1), edges.max(axis=1)
    order = np.lexsort((lengths, high, low))
    order = order[low[order] != high[order]]
    low, high = low[order], high[order]
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    return np.column_stack([low, high])[is_first].astype(np.int64), lengths[order[is_first]]


def _join_chains(
    pieces: NDArray[np.int64], lengths: NDArray[np.float64], *, is_passed: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    # the passed points fall into chains: components of the pieces between two of them
    n_passed_ends = is_passed[pieces].sum(axis=1)
    inner, rim, direct = (pieces[n_passed_ends == count] for count in (2, 1, 0))
    chain_of = _components(len(is_passed), inner)
    n_chains = int(chain_of.max(initial=-1)) + 1
    # a chain has two rim pieces, unless it is a ring that meets nothing
    rim_passed = np.where(is_passed[rim[:, 0]], rim[:, 0], rim[:, 1])
    rim_kept = np.where(is_passed[rim[:, 0]], rim[:, 1], rim[:, 0])
    chain_of_rim = chain_of[rim_passed]
    chain_length = np.zeros(n_chains)
    np.add.at(chain_length, chain_of[inner[:, 0]], lengths[n_passed_ends == 2])
    np.add.at(chain_length, chain_of_rim, lengths[n_passed_ends == 1])
    order = np.argsort(chain_of_rim, kind="stable")
    ends = rim_kept[order].reshape(-1, 2)
    chains = chain_of_rim[order].reshape(-1, 2)[:, 0]
    return np.concatenate([direct, ends]), np.concatenate([lengths[n_passed_ends == 0], chain_length[chains]])


def _largest_component(
    places: NDArray[np.float64], streets: NDArray[np.int64], lengths: NDArray[np.float64]
) -> tuple[StreetNetwork, NDArray[np.int64]]:
    points, ends = np.unique(streets, return_inverse=True)
    ends = ends.reshape(-1, 2)
    component = _components(len(points), ends)
    is_kept = component == np.bincount(component).argmax()
    row = np.cumsum(is_kept) - 1
    stays = is_kept[ends[:, 0]]
    network = StreetNetwork(places[points[is_kept]], row[ends[stays]].astype(np.int32), lengths[stays])
    return network, points[is_kept]


def _components(n: int, edges: NDArray[np.int64]) -> NDArray[np.int32]:
    graph = coo_array((np.ones(len(edges), dtype=np.int8), (edges[:, 0], edges[:, 1])), shape=(n, n))
    labels: NDArray[np.int32] = connected_components(graph, directed=False)[1]
    return labels
