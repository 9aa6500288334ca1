"""Arrays that nobody can change any more, not even by asking numpy to make them writable again."""

from __future__ import annotations

from typing import Any

import numpy as np

from metricdp.errors import InputError


def frozen(values: Any, dtype: Any = None) -> np.ndarray[Any, Any]:
    """Return a copy of ``values`` in plain memory that can never be written to.

    ``setflags(write=False)`` can be taken back by its owner; memory of a ``bytes`` object cannot. Masked arrays are
    refused: what stands behind a mask is not what a reader sees.

    Examples
    --------
    >>> kept = frozen([1, 2, 3], np.uint64)
    >>> kept.setflags(write=True)
    Traceback (most recent call last):
        ...
    ValueError: cannot set WRITEABLE flag to True of this array
    """
    if isinstance(values, np.ma.MaskedArray):
        raise InputError("a masked array hides some of its values: give a plain array, for example values.filled(0)")
    plain = np.array(values, dtype=dtype, order="C", copy=None, subok=False)
    if plain.size == 0:
        plain = plain.copy()
        plain.setflags(write=False)
        return plain
    return np.frombuffer(plain.tobytes(), dtype=plain.dtype).reshape(plain.shape)
