"""Sparse tables: rows of a few stored weights over a background that all rows share.

Records of one component share their support, so a row cannot simply end somewhere. It can come down to a background
that is the same for all records: ``n_ik = scale_i background_k + local_ik``, with ``local_ik`` stored where it is
not 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import njit

from metricdp.data.frozen import FrozenArrays, frozen
from metricdp.errors import InputError
from metricdp.mechanism.choice import chosen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.mechanism.choice import Choice

LARGEST = 1 << 63  # of any weight and of any sum of weights
KINDS = {"indptr": np.int64, "columns": np.int32, "weights": np.uint64, "background": np.uint64, "scale": np.uint64}
FAULTS = (
    "",
    "row {row} of a sparse table stores an output that does not exist: outputs are 0 to {last}",
    "row {row} of a sparse table must store its outputs in ascending order, each once",
    "row {row} of a sparse table stores a weight of 0: leave it out",
    "row {row} of a sparse table sums to more than 2^63: make its weights or its scale smaller",
)


class ByOutput(NamedTuple):
    """The stored weights again, by output: those of output k are at ``indptr[k]`` to ``indptr[k + 1]``."""

    indptr: NDArray[np.int64]
    rows: NDArray[np.int32]
    weights: NDArray[np.uint64]


@dataclass(frozen=True, eq=False, repr=False)
class SparseTable(FrozenArrays):
    """Integer weights ``n_ik = scale_i background_k + local_ik`` of N records and K outputs, in arrays of its own.

    Every row sums to at most 2^63, so that no weight and no partial sum overflows.

    Parameters
    ----------
    indptr
        Where each row's stored weights begin, shape (N + 1,).
    columns, weights
        Outputs of the stored weights, ascending within each row, and ``local_ik`` itself, at least 1.
    background
        What all rows share, shape (K,).
    scale
        The factor of the background in each row, shape (N,), at least 1 unless the background is 0 everywhere.
    """

    indptr: NDArray[np.int64]
    columns: NDArray[np.int32]
    weights: NDArray[np.uint64]
    background: NDArray[np.uint64]
    scale: NDArray[np.uint64]

    def __post_init__(self) -> None:
        for name, kind in KINDS.items():
            value = getattr(self, name)
            if not isinstance(value, np.ndarray) or value.dtype != kind or value.ndim != 1:
                raise InputError(f"{name} of a sparse table must be one row of {np.dtype(kind).name}")
            object.__setattr__(self, name, frozen(value))
        self._check_sizes()
        self._check_weights()

    def _check_sizes(self) -> None:
        starts = self.indptr
        if len(starts) != len(self.scale) + 1 or len(starts) < 2 or not len(self.background):
            raise InputError("a sparse table needs a scale and a beginning for each row, and at least one output")
        if starts[0] != 0 or starts[-1] != len(self.columns) or (starts[1:] < starts[:-1]).any():
            raise InputError("the rows of a sparse table must follow one another and hold all stored weights")
        if len(self.columns) != len(self.weights):
            raise InputError("a sparse table needs one output for each stored weight")

    def _check_weights(self) -> None:
        shared = self.background_total
        if shared > LARGEST:
            raise InputError("the background of a sparse table sums to more than 2^63: make it smaller")
        if shared and not self.scale.all():
            raise InputError(
                f"the scale of row {int(np.argmin(self.scale))} of a sparse table is 0: give at least 1, or a "
                "background that is 0 everywhere"
            )
        # a scale that is too large is found without multiplying
        is_large = self.scale > np.uint64(LARGEST // shared) if shared else np.zeros(len(self.scale), dtype=bool)
        if is_large.any():
            raise InputError(FAULTS[4].format(row=int(np.argmax(is_large))))
        room = np.uint64(LARGEST) - self.scale * np.uint64(shared)
        fault, row = _first_fault(self.indptr, self.columns, self.weights, len(self.background), room)
        if fault:
            raise InputError(FAULTS[fault].format(row=row, last=len(self.background) - 1))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and unpickle through the constructor, which checks again."""
        return SparseTable, self.parts

    @property
    def parts(self) -> tuple[NDArray[Any], ...]:
        """The five arrays, in the order in which the constructor takes them."""
        return tuple(getattr(self, name) for name in KINDS)

    def checked(self) -> SparseTable:
        """Return the table made and checked again: nothing that was added to it since or put over it is believed."""
        return SparseTable(*(getattr(self, name) for name in KINDS))

    def __repr__(self) -> str:
        rows, outputs = self.shape
        return f"SparseTable({rows} rows x {outputs} outputs, {self.n_stored} stored weights)"

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of records and outputs."""
        return len(self.scale), len(self.background)

    @property
    def n_stored(self) -> int:
        """Number of stored weights."""
        return len(self.weights)

    @cached_property
    def longest(self) -> int:
        """Number of stored weights of the row that stores most."""
        return int(np.diff(self.indptr).max())

    @cached_property
    def background_total(self) -> int:
        """The sum of the background, exactly."""
        return exact_sum(self.background)

    @cached_property
    def stored_totals(self) -> NDArray[np.uint64]:
        """The sum of the stored weights of each row, shape (N,): at most 2^63."""
        return frozen(_stored_totals(self.indptr, self.weights))

    def sums(self) -> NDArray[np.uint64]:
        """Return the sum of each row, shape (N,): at most 2^63."""
        return self.stored_totals + self.scale * np.uint64(self.background_total)

    def block(self, rows: Choice = None, outputs: Choice = None) -> NDArray[np.uint64]:
        """Return the weights of ``rows`` and ``outputs`` as a dense block.

        Each is a number, a slice, numbers, or None for all of them; the block always has two dimensions.
        """
        n, K = self.shape
        numbers = np.arange(n, dtype=np.int64)[chosen(rows, n, "rows")]
        which = chosen(outputs, K, "outputs")
        result = self.scale[numbers][:, None] * self.background[which][None, :]
        if isinstance(which, slice):  # of step 1
            _add_range(self.indptr, self.columns, self.weights, numbers, which.start, which.stop, result)
        else:
            each = np.arange(K, dtype=np.int64)[which]
            _add_each(self.indptr, self.columns, self.weights, numbers, each, result)
        return result

    def row(self, i: int) -> NDArray[np.uint64]:
        """Return the weights of record ``i``, shape (K,)."""
        return self.block(i)[0]

    def column(self, k: int) -> NDArray[np.uint64]:
        """Return the weights of output ``k``, shape (N,)."""
        return self.block(None, k)[:, 0]

    @cached_property
    def by_output(self) -> ByOutput:
        """The stored weights by output, made when first asked for: 12 bytes for each stored weight."""
        return ByOutput(*map(frozen, _transposed(self.indptr, self.columns, self.weights, len(self.background))))


def exact_sum(values: NDArray[np.uint64]) -> int:
    """Return the sum of whole numbers without overflow, by 32-bit halves."""
    low = int((values & np.uint64(0xFFFFFFFF)).sum(dtype=np.uint64))
    return low + (int((values >> np.uint64(32)).sum(dtype=np.uint64)) << 32)


@njit(cache=True, nogil=True)
def _first_fault(
    indptr: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.uint64],
    n_outputs: int,
    room: NDArray[np.uint64],
) -> tuple[int, int]:
    """Return the number of a fault in `FAULTS` and its row; (0, 0) if there is none."""
    for i in range(len(indptr) - 1):
        left, before = room[i], -1
        for e in range(indptr[i], indptr[i + 1]):
            k, w = columns[e], weights[e]
            if k < 0 or k >= n_outputs:
                return 1, i
            if k <= before:
                return 2, i
            if w == 0:
                return 3, i
            if w > left:
                return 4, i
            left -= w
            before = k
    return 0, 0


@njit(cache=True, nogil=True)
def _stored_totals(indptr: NDArray[np.int64], weights: NDArray[np.uint64]) -> NDArray[np.uint64]:
    totals = np.zeros(len(indptr) - 1, dtype=np.uint64)
    for i in range(len(totals)):
        for e in range(indptr[i], indptr[i + 1]):
            totals[i] += weights[e]
    return totals


@njit(cache=True, nogil=True)
def _first_at(columns: NDArray[np.int32], begin: int, end: int, k: int) -> int:
    """Return the first place from ``begin`` on, at most ``end``, whose column is at least ``k``."""
    while begin < end:
        middle = (begin + end) // 2
        if columns[middle] < k:
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(cache=True, nogil=True)
def _add_range(  # noqa: PLR0917
    indptr: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.uint64],
    rows: NDArray[np.int64],
    first: int,
    beyond: int,
    result: NDArray[np.uint64],
) -> None:
    for r in range(len(rows)):
        end = indptr[rows[r] + 1]
        for e in range(_first_at(columns, indptr[rows[r]], end, first), end):
            if columns[e] >= beyond:
                break
            result[r, columns[e] - first] += weights[e]


@njit(cache=True, nogil=True)
def _add_each(  # noqa: PLR0917
    indptr: NDArray[np.int64],
    columns: NDArray[np.int32],
    weights: NDArray[np.uint64],
    rows: NDArray[np.int64],
    outputs: NDArray[np.int64],
    result: NDArray[np.uint64],
) -> None:
    for r in range(len(rows)):
        end = indptr[rows[r] + 1]
        for c in range(len(outputs)):
            e = _first_at(columns, indptr[rows[r]], end, outputs[c])
            if e < end and columns[e] == outputs[c]:
                result[r, c] += weights[e]


@njit(cache=True, nogil=True)
def _transposed(
    indptr: NDArray[np.int64], columns: NDArray[np.int32], weights: NDArray[np.uint64], n_outputs: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint64]]:
    starts = np.zeros(n_outputs + 1, dtype=np.int64)
    for e in range(len(columns)):
        starts[columns[e] + 1] += 1
    for k in range(n_outputs):
        starts[k + 1] += starts[k]
    place = starts[:-1].copy()
    rows, again = np.empty(len(columns), dtype=np.int32), np.empty(len(columns), dtype=np.uint64)
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            at = place[columns[e]]
            rows[at], again[at] = i, weights[e]
            place[columns[e]] = at + 1
    return starts, rows, again
