"""Adversarial neighbours: pairs of inputs at which broken pipelines break, chosen without looking at any report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import InputError
from metricdp.evaluate.auditor.auditor import Neighbours
from metricdp.evaluate.auditor.plane import Plane

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.mechanism.mechanism import Mechanism

N_PAIRS = 24
MAX_PAIRS_EXAMINED = 20_000  # neighbour pairs whose rows are compared
ENTRIES_AT_ONCE = 1_000_000  # of two rows of a table
MAX_SOURCES = 200  # records whose surroundings are examined
N_NEAREST = 6  # nearest records of each of them
LEAST_SEEN_PROBABILITY = 0.01  # outputs with less are too rare to count
# how far apart two points at a border are: 1 µm, 1 mm and 1 m for places (km), parts of the limit for vectors
STEP_LENGTHS = (1e-9, 1e-6, 1e-3)
NOT_WORDS = ("zzqx", "Qxzzy")  # in no vocabulary


def record_neighbours(mechanism: Mechanism, *, n_pairs: int = N_PAIRS, seed: int = 0) -> list[Neighbours]:
    """Return pairs of record ids: those with the least room below their claim, the nearest ones, and random ones."""
    graph, ids = mechanism.graph, mechanism.records.ids
    if graph.n_pairs == 0:
        raise InputError("no record has a neighbour within eta: nothing is claimed, so there is nothing to audit")
    generator = np.random.default_rng(seed)
    examined = np.sort(generator.permutation(graph.n_pairs)[:MAX_PAIRS_EXAMINED])
    pairs, distances = graph.pairs[examined], graph.distances[examined]
    third = -(-n_pairs // 3)
    room = _room(mechanism, pairs, distances)
    chosen = {int(p): "the least room below the claim" for p in np.argsort(room, kind="stable")[:third]}
    for p in np.argsort(distances, kind="stable")[:third]:
        chosen.setdefault(int(p), "nearest neighbours")
    for p in generator.permutation(len(pairs)):
        if len(chosen) >= n_pairs:
            break
        chosen.setdefault(int(p), "neighbours at random")
    return [Neighbours(ids[pairs[p, 0]], ids[pairs[p, 1]], why) for p, why in list(chosen.items())[:n_pairs]]


def _room(mechanism: Mechanism, pairs: NDArray[np.int32], distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far below its claim the largest ratio of each pair is, over the outputs that are often seen."""
    room = np.empty(len(pairs))
    block = max(1, ENTRIES_AT_ONCE // mechanism.outputs.n)
    for start in range(0, len(pairs), block):
        part = slice(start, start + block)
        p, q = (mechanism.block(pairs[part, side]) for side in (0, 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(np.maximum(p, q) >= LEAST_SEEN_PROBABILITY, np.abs(np.log(p) - np.log(q)), 0.0)
        room[part] = mechanism.epsilon * distances[part] - ratio.max(axis=1)
    return room


def word_neighbours(mechanism: Mechanism, *, n_pairs: int = N_PAIRS, seed: int = 0) -> list[Neighbours]:
    """Return pairs of words: as `record_neighbours`, and the same word in capitals, and words of no vocabulary."""
    pairs = record_neighbours(mechanism, n_pairs=max(1, n_pairs - 3), seed=seed)
    words = dict.fromkeys(name for pair in pairs for name in (pair.x, pair.y))
    # a name with capitals of its own may be another record than its lower case
    plain = [word for word in words if word.isalpha() and word == word.lower() != word.upper()]
    spelled = [Neighbours(word, word.upper(), "one word, spelled differently") for word in plain[:2]]
    return [*pairs, *spelled, Neighbours(*NOT_WORDS, "two words outside the vocabulary")]


def point_neighbours(mechanism: Mechanism, *, limit: float, n_pairs: int = N_PAIRS, seed: int = 0) -> list[Neighbours]:
    """Return pairs of points: on two sides of cell borders, within a cell, at the snapping limit, and at map seams.

    Borders are those between records that are near in a straight line; every other one is where the records are
    farthest apart along the graph, or not connected at all. Points are tuples of coordinates.
    """
    if mechanism.records.n < 2:
        raise InputError(
            "a mechanism of one record has no neighbours: nothing is claimed, so there is nothing to audit"
        )
    plane = Plane(mechanism, limit)
    segments = _segments(mechanism, plane, np.random.default_rng(seed))
    seams = [Neighbours(x, y, "one place, written differently") for x, y in plane.seams()]
    edges = _at_limit(plane, segments)
    borders, inside = _borders(plane, segments, max(n_pairs // 2, n_pairs - len(seams) - len(edges) - 2))
    return (borders + seams + edges + inside)[:n_pairs]


def _segments(mechanism: Mechanism, plane: Plane, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return pairs of records that are near in a straight line, the longest detours and random ones by turns."""
    sources = generator.permutation(mechanism.records.n)[:MAX_SOURCES]
    straight = plane.from_rows(sources)
    straight[np.arange(len(sources)), sources] = np.inf
    near = np.argsort(straight, axis=1, kind="stable")[:, :N_NEAREST]
    lengths = np.take_along_axis(straight, near, axis=1)
    detours = np.take_along_axis(mechanism.graph.path_distances(sources), near, axis=1) - lengths
    place = np.flatnonzero((lengths <= 2.0 * plane.limit) & (lengths > 0.0))
    found = np.column_stack((np.repeat(sources, near.shape[1]), near.ravel()))
    by_detour = place[np.argsort(-detours.ravel()[place], kind="stable")]
    mixed = np.column_stack((by_detour, generator.permutation(place))).ravel()
    _, first = np.unique(np.sort(found[mixed], axis=1), axis=0, return_index=True)
    return found[mixed[np.sort(first)]]


def _borders(plane: Plane, segments: NDArray[np.int64], count: int) -> tuple[list[Neighbours], list[Neighbours]]:
    """Return pairs of points on two sides of a border, and pairs within a cell of which one is at the border."""
    tried = segments[: 2 * count]
    if not len(tried):
        return [], []
    a, b = plane.points[tried[:, 0]], plane.points[tried[:, 1]]
    home, _ = plane.nearest(a)
    steps = np.resize(STEP_LENGTHS, len(tried)) * plane.unit
    x, y = plane.narrowed(lambda t: plane.between(a, b, t), lambda p: plane.nearest(p)[0] == home, steps)
    is_near = np.maximum(plane.nearest(x)[1], plane.nearest(y)[1]) <= plane.limit
    borders, inside = [], []
    for k in np.flatnonzero(is_near)[:count]:
        apart = plane.metric.elementwise(x[k], y[k])
        borders.append(Neighbours(_point(x[k]), _point(y[k]), f"{float(apart):.2g} apart across a border of cells"))
        inside.append(Neighbours(_point(a[k]), _point(x[k]), "a record and a point of its cell"))
    return borders, inside[:2]


def _at_limit(plane: Plane, segments: NDArray[np.int64]) -> list[Neighbours]:
    """Return a point just within the snapping limit and one just beyond it, and two points beyond it."""
    if not np.isfinite(plane.limit) or not len(segments):
        return []
    outward = plane.outward()[:2]
    a = plane.points[outward]
    x, y = plane.narrowed(
        lambda t: plane.away(a, t),
        lambda p: plane.nearest(p)[1] <= plane.limit,
        np.full(len(a), plane.unit * STEP_LENGTHS[1]),
    )
    ends = [
        (p, q)
        for p, q in zip(x, y, strict=True)
        if plane.nearest(p[None])[1] <= plane.limit < plane.nearest(q[None])[1]
    ]
    found = [Neighbours(_point(p), _point(q), "just within the snapping limit and just beyond") for p, q in ends]
    if len(ends) == 2:
        found.append(Neighbours(_point(ends[0][1]), _point(ends[1][1]), "two points beyond the snapping limit"))
    return found


def _point(row: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(row.tolist())
