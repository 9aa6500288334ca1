"""Products with the probabilities of a table; a sparse table is never made dense."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from metricdp.mechanism.blocks import probabilities_of, weights_of
from metricdp.mechanism.exact import TOTAL_BITS
from metricdp.mechanism.sparse import SparseTable

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Channel:
    """The probabilities ``Z`` of a table, or of some of its outputs, for products from both sides.

    Parameters
    ----------
    table
        Whole-number weights, shape (N, K), dense or sparse.
    outputs
        The outputs that are looked at, all by default.
    """

    def __init__(self, table: NDArray[np.uint64] | SparseTable, outputs: NDArray[np.int64] | None = None) -> None:
        self.table, self.outputs = table, outputs
        if not isinstance(table, SparseTable):
            whole = probabilities_of(table)
            self._stored = whole if outputs is None else np.ascontiguousarray(whole[:, outputs])
            self._is_shared, self._scale, self._background = False, np.zeros(0), np.zeros(0)
            return
        stored = csr_array((table.weights / 2.0**TOTAL_BITS, table.columns, table.indptr), shape=table.shape)
        self._stored = stored if outputs is None else stored[:, outputs]
        shared = table.background if outputs is None else table.background[outputs]
        self._is_shared = True
        self._scale, self._background = table.scale.astype(np.float64), shared / 2.0**TOTAL_BITS

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of records and of outputs that are looked at."""
        return self.table.shape[0], self.table.shape[1] if self.outputs is None else len(self.outputs)

    def chances(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how often each output is reported, ``Z' theta``, shape (K,)."""
        found = shares @ self._stored
        return found + (shares @ self._scale) * self._background if self._is_shared else found

    def means(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the expectation of ``values`` over the reports of each record, ``Z v``, shape (N,)."""
        found = self._stored @ values
        return found + self._scale * (self._background @ values) if self._is_shared else found

    def rows(self, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probabilities of some records as a dense block."""
        found = weights_of(self.table, numbers) / 2.0**TOTAL_BITS
        return found if self.outputs is None else found[:, self.outputs]
