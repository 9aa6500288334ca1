"""A partition of the records into blocks, with boundary and internal records (the paper's Section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from metricdp.errors import InputError
from metricdp.partition.separator import vertex_cover

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.data.records import Records
    from metricdp.metric.graph import MdpGraph

Separator = Literal["two-sided", "one-sided"]
SEPARATORS: tuple[Separator, ...] = ("two-sided", "one-sided")


@dataclass(frozen=True)
class Quality:
    """The figures of a partition for the decomposition, in records unless the name says otherwise.

    Attributes
    ----------
    n_blocks
        Number of blocks, M.
    internal_mean, internal_max
        Internal records per block, blocks without any included: the paper's subproblem size (its Table 1).
    n_boundary
        Boundary records: the rows of the master.
    n_cut_edges
        Neighbour pairs with ends in two blocks.
    n_master_components, master_mean, master_max
        Number and sizes of the components of the master's graph (the paper's Table 2).
    balance
        Records of the largest block over those of the average block; 1 is perfect.
    """

    n_blocks: int
    internal_mean: float
    internal_max: int
    n_boundary: int
    n_cut_edges: int
    n_master_components: int
    master_mean: float
    master_max: int
    balance: float


@dataclass(frozen=True, eq=False)
class Partition:
    """Each record in exactly one block.

    Parameters
    ----------
    graph
        The mDP graph that is divided.
    block_of
        The block of each record, any whole numbers; renumbered 0, 1, ... in the order of the blocks' first records.
    name
        The partitioner.
    separator
        ``"two-sided"``: the boundary is every record with a neighbour in another block (the paper's Definition 3.2).
        ``"one-sided"``: the boundary is a vertex cover of the cut edges. It is smaller, and internal records of
        different blocks are still never neighbours; but they may have boundary neighbours in other blocks.

    Examples
    --------
    >>> from metricdp.metric import MdpGraph
    >>> line = MdpGraph(4, np.array([[0, 1], [1, 2], [2, 3]], dtype=np.int32), np.ones(3))
    >>> halves = Partition(line, np.array([7, 7, 3, 3]))
    >>> halves.block_of.tolist(), halves.boundary.tolist()
    ([0, 0, 1, 1], [1, 2])
    >>> Partition(line, halves.block_of, separator="one-sided").boundary.tolist()
    [2]
    """

    graph: MdpGraph
    block_of: NDArray[np.int64]
    name: str = "given"
    separator: str = "two-sided"

    def __post_init__(self) -> None:
        given = np.asarray(self.block_of)
        if given.shape != (self.graph.n,) or not np.issubdtype(given.dtype, np.integer):
            raise InputError(
                f"block_of must hold one whole number for each of the {self.graph.n} records, "
                f"got {given.dtype} of shape {given.shape}"
            )
        if self.separator not in SEPARATORS:
            raise InputError(f"unknown separator {self.separator!r}: choose one of {', '.join(SEPARATORS)}")
        _, first, inverse = np.unique(given, return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        block_of = rank[inverse]
        block_of.setflags(write=False)
        object.__setattr__(self, "block_of", block_of)

    def __repr__(self) -> str:
        return (
            f"Partition({self.name}: {self.graph.n} records in {self.n_blocks} blocks, "
            f"{len(self.boundary)} on the {self.separator} boundary)"
        )

    def _repr_html_(self) -> str:
        from metricdp.report.notebook import partition_html  # noqa: PLC0415

        return partition_html(self)

    def plot(self, records: Records, *, axes: Any = None) -> Any:
        """Draw the blocks, boundary records and cut pairs; return matplotlib's axes (extra ``plot``)."""
        from metricdp.report.plots import plot_partition  # noqa: PLC0415

        return plot_partition(self, records, axes=axes)

    @property
    def n_blocks(self) -> int:
        """Number of blocks, none of them empty."""
        return int(self.block_of.max()) + 1

    @cached_property
    def blocks(self) -> list[NDArray[np.int64]]:
        """The records of each block, ascending."""
        return _groups(self.block_of, np.arange(self.graph.n), self.n_blocks)

    @cached_property
    def cut_edges(self) -> NDArray[np.int64]:
        """The rows of ``graph.pairs`` whose ends are in different blocks."""
        ends = self.block_of[self.graph.pairs]
        return np.flatnonzero(ends[:, 0] != ends[:, 1])

    @cached_property
    def boundary(self) -> NDArray[np.int64]:
        """The boundary records, ascending: every cut edge has both ends here, or at least one if one-sided."""
        cut = self.graph.pairs[self.cut_edges].astype(np.int64)
        return np.unique(cut) if self.separator == "two-sided" else vertex_cover(cut)

    @cached_property
    def is_boundary(self) -> NDArray[np.bool_]:
        """Whether each record is a boundary record, shape (N,)."""
        marks = np.zeros(self.graph.n, dtype=bool)
        marks[self.boundary] = True
        return marks

    @cached_property
    def internal(self) -> list[NDArray[np.int64]]:
        """The internal records X_l of each block, ascending; may be empty."""
        inside = np.flatnonzero(~self.is_boundary)
        return _groups(self.block_of[inside], inside, self.n_blocks)

    @cached_property
    def master_components(self) -> list[NDArray[np.int64]]:
        """The components of the graph induced on the boundary records (the paper's Section 4.1).

        The paper solves them separately. That is exact only for the master's first constraints: the w_l couple
        components of one block, which ``coupled_components`` respects.
        """
        labels = self.graph.subgraph(self.boundary).labels if len(self.boundary) else np.zeros(0, dtype=np.int64)
        return _groups(labels, self.boundary, int(labels.max(initial=-1)) + 1)

    @cached_property
    def coupled_components(self) -> list[NDArray[np.int64]]:
        """Boundary records that the master must treat together: joined also if they touch the same block's inside.

        These parts are independent even with all cuts, since no cut of block l involves records of two parts. If
        every block's inside is connected they are the boundary records of each component of the whole graph.
        """
        n, pairs = self.graph.n, self.graph.pairs.astype(np.int64)
        inside = ~self.is_boundary[pairs]
        both_boundary = ~inside.any(axis=1)
        links = [pairs[both_boundary]]
        # nodes n, n + 1, ... stand for the blocks' insides
        for one, other in ((0, 1), (1, 0)):
            touching = inside[:, one] & ~inside[:, other]
            links.append(np.column_stack((pairs[touching, other], n + self.block_of[pairs[touching, one]])))
        i, j = np.concatenate(links).T
        size = n + self.n_blocks
        _, labels = connected_components(csr_array((np.ones(len(i)), (i, j)), shape=(size, size)), directed=False)
        _, first, inverse = np.unique(labels[self.boundary], return_index=True, return_inverse=True)
        return _groups(np.argsort(np.argsort(first))[inverse], self.boundary, len(first))

    @cached_property
    def quality(self) -> Quality:
        """The figures by which partitions are compared."""
        internal = [len(rows) for rows in self.internal]
        master = [len(rows) for rows in self.master_components]
        return Quality(
            n_blocks=self.n_blocks,
            internal_mean=sum(internal) / self.n_blocks,
            internal_max=max(internal),
            n_boundary=len(self.boundary),
            n_cut_edges=len(self.cut_edges),
            n_master_components=len(master),
            master_mean=sum(master) / len(master) if master else 0.0,
            master_max=max(master, default=0),
            balance=max(len(rows) for rows in self.blocks) * self.n_blocks / self.graph.n,
        )

    def plot_data(self, records: Records) -> dict[str, NDArray[np.float64] | NDArray[np.int64] | NDArray[np.bool_]]:
        """Return plain arrays from which any plotting library can draw the partition.

        ``x``, ``y`` (longitude and latitude of places, the first two coordinates of vectors), ``block`` and
        ``is_boundary`` have shape (N,); ``cut_segments`` has shape (number of cut edges, 2 ends, x and y).
        """
        if records.n != self.graph.n:
            raise InputError(f"the partition has {self.graph.n} records, got {records.n}: give the records it divides")
        points = records.coordinates[:, :2]
        if records.kind == "places":
            points = points[:, ::-1]
        elif records.dimension == 1:
            points = np.column_stack((points, np.zeros(records.n)))
        return {
            "x": points[:, 0].copy(),
            "y": points[:, 1].copy(),
            "block": self.block_of,
            "is_boundary": self.is_boundary,
            "cut_segments": points[self.graph.pairs[self.cut_edges]],
        }


def _groups(labels: NDArray[np.integer], rows: NDArray[np.int64], n: int) -> list[NDArray[np.int64]]:
    """Return the ``rows`` of each label 0, ..., n - 1 in their order."""
    order = rows[np.argsort(labels, kind="stable")]
    return np.split(order, np.cumsum(np.bincount(labels, minlength=n))[:-1]) if n else []
