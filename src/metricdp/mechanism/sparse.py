"""Sparse tables: rows of a few stored weights over a background that all rows share.

Records of one component share their support, so a row cannot simply end somewhere. It can come down to a background
that is the same for all records: ``n_ik = scale_i background_k + local_ik``, with ``local_ik`` stored where it is not 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.data.frozen import FrozenArrays, frozen
from metricdp.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class SparseTable(FrozenArrays):
    """Integer weights ``n_ik = scale_i background_k + local_ik`` of N records and K outputs, in arrays of its own.

    Parameters
    ----------
    indptr
        Where each row's stored weights begin, shape (N + 1,).
    columns, weights
        Outputs of the stored weights, ascending within each row, and ``local_ik`` itself, at least 1.
    background
        What all rows share, shape (K,).
    scale
        The factor of the background in each row, shape (N,).
    """

    indptr: NDArray[np.int64]
    columns: NDArray[np.int32]
    weights: NDArray[np.uint64]
    background: NDArray[np.uint64]
    scale: NDArray[np.uint64]

    def __post_init__(self) -> None:
        kinds = {"indptr": np.int64, "columns": np.int32, "weights": np.uint64, "background": np.uint64}
        for name, kind in {**kinds, "scale": np.uint64}.items():
            value = getattr(self, name)
            if not isinstance(value, np.ndarray) or value.dtype != kind or value.ndim != 1:
                raise InputError(f"{name} of a sparse table must be one row of {np.dtype(kind).name}")
            object.__setattr__(self, name, frozen(value))
        starts = self.indptr
        if len(starts) != len(self.scale) + 1 or len(starts) < 2 or not len(self.background):
            raise InputError("a sparse table needs a scale and a beginning for each row, and at least one output")
        if starts[0] != 0 or starts[-1] != len(self.columns) or (np.diff(starts) < 0).any():
            raise InputError("the rows of a sparse table must follow one another and hold all stored weights")
        if len(self.columns) != len(self.weights):
            raise InputError("a sparse table needs one output for each stored weight")

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of records and outputs."""
        return len(self.scale), len(self.background)

    @property
    def n_stored(self) -> int:
        """Number of stored weights."""
        return len(self.weights)
