"""The order of elimination: a tree of blocks in which far parts of the graph do not meet before the end.

Records are ordered by nested dissection: a separator divides the graph, its two sides come first (each divided in the
same way), the separator last. In this order the records below a block, those that can fill it in, are a range that ends
where the block begins. A graph that has no small separators (words in a hundred dimensions) is one long chain of
blocks, which is what a dense factorisation does.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse.csgraph import connected_components, dijkstra, maximum_bipartite_matching

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from metricdp.metric.graph import MdpGraph

LARGEST_BLOCK = 64  # records: the matrices of a block and its pieces stay in the processor's cache
CUT_SHARES = (0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65)  # of the records that are tried as one side
MOST_NEIGHBOURS = 1.0 / 12.0  # of all records, on average: in large graphs with more, no separator is small
THOROUGH_UP_TO = 200_000  # pairs, both ways, for which several cuts are tried
SMALLEST_DIVIDED = 48  # records: smaller parts are not divided, one dense block costs less than the pieces' overhead


@dataclass(frozen=True)
class Block:
    """Records ``first`` to ``end`` of the elimination order, with what is below them from ``start`` on."""

    start: int
    first: int
    end: int

    @property
    def width(self) -> int:
        """Number of records of the block and below it."""
        return self.end - self.start


@dataclass(frozen=True)
class Elimination:
    """The order (a permutation of the records) and the blocks, each after all those below it."""

    order: NDArray[np.int64]
    blocks: list[Block]

    @classmethod
    def of(cls, graph: MdpGraph) -> Elimination:
        """Find an order for a graph."""
        order: list[NDArray[np.int64]] = []
        blocks: list[Block] = []
        _eliminate(graph.adjacency, np.arange(graph.n), 0, order, blocks)
        return cls(np.concatenate(order), blocks)

    @property
    def entries(self) -> int:
        """Number of entries of an inverse factor."""
        return sum((block.end - block.first) * block.width for block in self.blocks)

    def operations(self, n_outputs: int) -> float:
        """Return the floating point operations of one factorisation of all outputs, by the sizes of the blocks."""
        total = 0.0
        for block in self.blocks:
            rows, below = float(block.end - block.first), float(block.first - block.start)
            # the products with what is below, twice, at about half of its square; the sum of inverses; its own inverse
            total += rows * below * below + rows * rows * below * 3.0 + rows * block.width**2 + 3.0 * rows**3
        return n_outputs * total


def _eliminate(
    adjacency: csr_array, records: NDArray[np.int64], start: int, order: list[NDArray[np.int64]], blocks: list[Block]
) -> None:
    """Order ``records`` from position ``start`` on: two sides and their separator, or one chain of blocks."""
    sides = _divided(adjacency, records)
    rest = records
    first = start
    if sides is not None:
        rest, parts = sides
        for part in parts:
            _eliminate(adjacency, part, first, order, blocks)
            first += len(part)
    order.append(rest)
    n_pieces = max(1, -(-len(rest) // LARGEST_BLOCK))
    ends = first + np.linspace(0, len(rest), n_pieces + 1).round().astype(int)
    blocks += [Block(start, int(a), int(b)) for a, b in itertools.pairwise(ends) if b > a]


def _divided(
    adjacency: csr_array, records: NDArray[np.int64]
) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]] | None:
    """Return a separator and the parts that it leaves; None where dividing saves nothing."""
    n = len(records)
    if n < SMALLEST_DIVIDED:
        return None
    inside = adjacency[records][:, records]
    separator = _separator(inside)
    if separator is None:
        return None
    rest = np.setdiff1d(np.arange(n), separator)
    _, label = connected_components(inside[rest][:, rest], directed=False)
    sides = _two_sides(rest, label)
    r, largest = len(separator), max(len(side) for side in sides)
    # the chain costs about n^3; the sides alone and the separator over everything
    if sum(float(len(side)) ** 3 for side in sides) + 3.0 * r * n * n > 0.8 * float(n) ** 3 or largest + r >= n:
        return None
    return records[separator], [records[side] for side in sides]


def _two_sides(rest: NDArray[np.int64], label: NDArray[np.int32]) -> list[NDArray[np.int64]]:
    """Combine connected pieces into two sides of about the same size, the largest pieces first."""
    sides: list[list[NDArray[np.int64]]] = [[], []]
    sizes = [0, 0]
    for piece in sorted((rest[label == value] for value in np.unique(label)), key=len, reverse=True):
        smaller = int(sizes[1] < sizes[0])
        sides[smaller].append(piece)
        sizes[smaller] += len(piece)
    return [np.sort(np.concatenate(side)) for side in sides if side]


def _separator(graph: csr_array) -> NDArray[np.int64] | None:
    """Return few records without which the graph falls into two parts of about the same size; None if there are none.

    Records are ordered from one far end to the other. Where that order is cut in two, the fewest records that touch
    all cut pairs are a separator; of several cuts the cheapest counts.
    """
    n = graph.shape[0]
    is_small = graph.nnz <= THOROUGH_UP_TO
    if not is_small and graph.nnz > MOST_NEIGHBOURS * n * n:
        return None
    if connected_components(graph, directed=False)[0] > 1:
        return np.zeros(0, dtype=np.int64)
    best, least = None, float(n) ** 3
    for towards in itertools.islice(_ways_through(graph), None if is_small else 1):
        order = np.argsort(towards, kind="stable")
        for share in CUT_SHARES if is_small else (0.5,):
            is_first = np.zeros(n, dtype=bool)
            is_first[order[: round(share * n)]] = True
            separator = _cover(graph, is_first)
            in_separator = np.zeros(n, dtype=bool)
            in_separator[separator] = True
            sides = (is_first & ~in_separator).sum(), (~is_first & ~in_separator).sum()
            # both sides count by what they cost, the separator over everything
            cost = sum(float(side) ** 3 for side in sides) + 3.0 * len(separator) * float(n) ** 2
            if min(sides) > 0 and cost < least:
                best, least = separator, cost
    return best


def _ways_through(graph: csr_array) -> Iterator[NDArray[np.float64]]:
    """Yield numbers that grow from one end to another, for two pairs of ends that are far apart.

    By distance to both ends, which suits streets, and by steps from one, which suits grids.
    """
    begin = int(dijkstra(graph, indices=0).argmax())
    nearest: NDArray[np.float64] | None = None
    for _ in range(2):
        there = dijkstra(graph, indices=begin)
        nearest = there if nearest is None else np.minimum(nearest, there)
        back = dijkstra(graph, indices=int(nearest.argmax()))
        nearest = np.minimum(nearest, back)
        yield there - back
        yield dijkstra(graph, indices=begin, unweighted=True)
        begin = int(nearest.argmax())


def _cover(graph: csr_array, is_first: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the fewest records that touch all pairs between the first records and the others (Kőnig's theorem).

    Of very many pairs, those on the first side.
    """
    first, second = np.flatnonzero(is_first), np.flatnonzero(~is_first)
    cut = graph[first][:, second]
    if cut.nnz > THOROUGH_UP_TO:  # a matching would take long
        return first[np.diff(cut.indptr) > 0]
    partner = maximum_bipartite_matching(cut, perm_type="column")
    owner = np.full(len(second), -1)
    owner[partner[partner >= 0]] = np.flatnonzero(partner >= 0)
    # what alternating paths reach from unmatched records on the first side
    reached, met = (partner < 0) & (np.diff(cut.indptr) > 0), np.zeros(len(second), dtype=bool)
    front = np.flatnonzero(reached)
    while len(front):
        near = np.unique(cut[front].indices)
        near = near[~met[near]]
        met[near] = True
        front = owner[near]
        reached[front] = True
    return np.sort(np.concatenate((first[(np.diff(cut.indptr) > 0) & ~reached], second[met])))
