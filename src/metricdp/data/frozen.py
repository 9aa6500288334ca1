"""Arrays that stay read-only: numpy cannot make them writable again."""

from __future__ import annotations

import gc
import mmap
import os
import tempfile
from typing import Any

import numpy as np

from metricdp.errors import InputError


def frozen(values: Any, dtype: Any = None) -> np.ndarray[Any, Any]:
    """Return ``values`` in plain memory that can never be written to: a copy, unless they are frozen already.

    ``setflags(write=False)`` can be taken back by its owner; memory of a ``bytes`` object cannot. Masked arrays are
    refused: values behind a mask differ from those that a reader sees.

    Examples
    --------
    >>> kept = frozen([1, 2, 3], np.uint64)
    >>> kept.setflags(write=True)
    Traceback (most recent call last):
        ...
    ValueError: cannot set WRITEABLE flag to True of this array
    >>> frozen(kept) is kept
    True
    """
    refuse_masked(values)
    plain = np.array(values, dtype=dtype, order="C", copy=None, subok=False)
    if _is_frozen(plain):
        return plain
    if plain.dtype.hasobject:
        raise InputError("an array of Python objects can be changed through them: give numbers")
    if plain.size == 0:
        plain = plain.copy()
        plain.setflags(write=False)
        return plain
    return np.frombuffer(plain.tobytes(), dtype=plain.dtype).reshape(plain.shape)


def refuse_masked(values: Any) -> None:
    """Check that ``values`` are not a masked array."""
    if isinstance(values, np.ma.MaskedArray):
        raise InputError("a masked array hides some of its values: give a plain array, for example values.filled(0)")


class _Sealed(mmap.mmap):
    """Memory that only `Unnamed` makes: a file that nobody else can open, mapped for reading."""


class Unnamed:
    """An array in a file without a name, to be filled and then sealed: the system may drop it from memory.

    Examples
    --------
    >>> made = Unnamed(3, np.uint64)
    >>> made.values[:] = [1, 2, 3]
    >>> kept = made.sealed()
    >>> frozen(kept) is kept, kept.tolist()
    (True, [1, 2, 3])
    """

    def __init__(self, n: int, dtype: Any) -> None:
        self._dtype, self._n = np.dtype(dtype), n
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  (closed when it is sealed)
        size = max(1, n * self._dtype.itemsize)
        self._file.truncate(size)
        try:
            if hasattr(os, "posix_fallocate"):  # a disk that is full is found now, and not by a signal
                os.posix_fallocate(self._file.fileno(), 0, size)
        except OSError as error:
            self._file.close()
            raise InputError(
                f"there is no room for a temporary file of {size / 1e9:.2g} GB ({error.strerror}): free some, or name "
                "another folder with the environment variable TMPDIR"
            ) from None
        self._map = mmap.mmap(self._file.fileno(), 0)
        self.values: np.ndarray[Any, Any] = np.frombuffer(self._map, dtype=self._dtype, count=n)

    def sealed(self) -> np.ndarray[Any, Any]:
        """Return the array for reading; nothing else may hold the values any more."""
        del self.values
        with self._file:
            gc.collect()  # compilers leave cycles behind, in which an array may be
            self._map.close()  # refuses while anything could still write to it
            kept = _Sealed(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(kept, dtype=self._dtype, count=self._n)


def _is_frozen(array: np.ndarray[Any, Any]) -> bool:
    """Return whether the memory of ``array`` is bytes or sealed, and no view on the way may write to it."""
    memory: Any = array
    while isinstance(memory, np.ndarray):
        if memory.flags.writeable:  # pickle makes such arrays
            return False
        memory = memory.base
    if isinstance(memory, memoryview) and memory.readonly:
        memory = memory.obj
    return isinstance(memory, (bytes, _Sealed))


class FrozenArrays:
    """An object whose arrays are frozen stays so when it is copied deeply or unpickled."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        for key, value in state.items():
            object.__setattr__(self, key, frozen(value) if isinstance(value, np.ndarray) else value)
