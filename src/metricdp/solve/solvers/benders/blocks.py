"""A block: the internal records of one part, the boundary records around them, and how these bound them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.partition import Partition
    from metricdp.solve.component import Component
    from metricdp.solve.stop import Stop

LARGEST_EXPONENT = 32.0  # epsilon D beyond which a record bounds nothing: 1e-13 may grow to 1 there
PATH_ROUNDING = 1.0 + 1e-12  # above the rounding of a sum of a thousand lengths: a path is never taken for too short


@dataclass(frozen=True)
class Block:
    """Internal records X_l and the boundary records attached to them.

    By the chain rule a boundary record b bounds an internal record i on every output:
    ``exp(-epsilon D_ib) z_b <= z_i <= exp(epsilon D_ib) z_b``. So the boundary enters as bounds on variables only, and
    the block's own problem is its internal edges, unit sums and these bounds.

    Parameters
    ----------
    number
        Place among the blocks.
    internal, attached
        Records of the component: the internal ones, and the boundary records with an edge to one of them.
    exponents
        ``epsilon D_ib`` along paths inside the block and its attached records, shape (internal, attached).
    tail, head, edge_exponents
        Internal edges in both directions, numbered within the block.
    costs
        Prior-weighted losses of the internal records.
    """

    number: int
    internal: NDArray[np.int64]
    attached: NDArray[np.int64]
    exponents: NDArray[np.float64]
    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    edge_exponents: NDArray[np.float64]
    costs: NDArray[np.float64]

    @cached_property
    def _lookup(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Members in ascending order with their places, and keys of the internal edges with theirs."""
        members = np.concatenate((self.internal, self.attached))
        keys = self.tail * len(self.internal) + self.head
        by_record, by_key = np.argsort(members), np.argsort(keys)
        return members[by_record], by_record, keys[by_key], by_key

    def exponents_between(self, tail: NDArray[np.int64], head: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the exponents of the block's rows ``z[tail] <= exp(exponent) z[head]``, records of the component.

        Infinity where the block has no such row: it has its internal edges, and paths between internal and attached
        records.
        """
        members, by_record, keys, by_key = self._lookup
        n = len(self.internal)

        def found(values: NDArray[np.int64], known: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.int64]:
            at = np.minimum(np.searchsorted(known, values), max(len(known) - 1, 0))
            return np.where(known[at] == values, places[at], -1) if len(known) else np.full(len(values), -1)

        own_tail, own_head = found(tail, members, by_record), found(head, members, by_record)
        exponents = np.full(len(tail), np.inf)
        for own, other in ((own_tail, own_head), (own_head, own_tail)):
            path = np.flatnonzero((own >= 0) & (own < n) & (other >= n))
            exponents[path] = self.exponents[own[path], other[path] - n]
        inside = np.flatnonzero((own_tail >= 0) & (own_tail < n) & (own_head >= 0) & (own_head < n))
        edge = found(own_tail[inside] * n + own_head[inside], keys, by_key)
        exponents[inside[edge >= 0]] = self.edge_exponents[edge[edge >= 0]]
        return exponents

    def bounds(self, z: NDArray[np.float64], floor: float) -> Bounds:
        """Return the bounds on internal entries that the attached records' rows ``z``, shape (attached, K), imply.

        The solver's ``z`` may be below the floor of all probabilities by its tolerance, even below zero: what has to
        be zero nearby would then be forbidden far away as well.
        """
        n, K = self.costs.shape
        if len(self.attached) == 0:
            nobody = np.full((n, K), -1)
            return Bounds(np.zeros((n, K)), np.ones((n, K)), nobody, nobody)
        is_near = (self.exponents < LARGEST_EXPONENT)[:, :, None]
        factor = np.exp(-np.minimum(self.exponents, LARGEST_EXPONENT))[:, :, None]
        rows = np.maximum(z, floor)[None, :, :]
        lower, upper = np.where(is_near, factor * rows, 0.0), np.where(is_near, rows / factor, np.inf)
        from_below, from_above = lower.argmax(axis=1), upper.argmin(axis=1)
        low = np.take_along_axis(lower, from_below[:, None, :], axis=1)[:, 0, :]
        high = np.take_along_axis(upper, from_above[:, None, :], axis=1)[:, 0, :]
        return Bounds(low, np.minimum(high, 1.0), from_below, np.where(high < 1.0, from_above, -1))


@dataclass(frozen=True)
class Bounds:
    """Bounds on internal entries and which attached record each comes from, shape (internal, K).

    An upper bound that comes from none is 1, from -1; a lower one is 0, from any.
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    from_below: NDArray[np.int64]
    from_above: NDArray[np.int64]


def make_blocks(component: Component, partition: Partition, stop: Stop) -> list[Block]:
    """Return the blocks that have internal records."""
    graph, epsilon = component.graph, component.epsilon
    is_boundary = stop.waiting_for(lambda: partition.is_boundary)  # a cover of millions of edges takes seconds
    matrix = graph.adjacency
    blocks: list[Block] = []
    for internal in partition.internal:
        stop.check()
        if len(internal) == 0:
            continue
        near = np.unique(np.concatenate([matrix.indices[matrix.indptr[i] : matrix.indptr[i + 1]] for i in internal]))
        attached = near[is_boundary[near]].astype(np.int64)
        members = np.sort(np.concatenate((internal, attached)))
        inside = graph.subgraph(members)
        place = np.searchsorted(members, internal)
        paths = (
            inside.path_distances(np.searchsorted(members, attached)) if len(attached) else np.zeros((0, len(members)))
        )
        own = graph.subgraph(internal)
        blocks.append(
            Block(
                number=len(blocks),
                internal=internal,
                attached=attached,
                exponents=epsilon * PATH_ROUNDING * paths[:, place].T,
                tail=np.concatenate((own.pairs[:, 0], own.pairs[:, 1])).astype(np.int64),
                head=np.concatenate((own.pairs[:, 1], own.pairs[:, 0])).astype(np.int64),
                edge_exponents=epsilon * np.tile(own.distances, 2),
                costs=component.costs[internal],
            )
        )
    return blocks
