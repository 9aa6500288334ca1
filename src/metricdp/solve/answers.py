"""Plain answers: named arrays, numbers and texts from a worker or a file, and the checks that refuse anything else.

An answer that comes from elsewhere is bytes of the safetensors format: there is no code inside, and reading it runs
none. Its contents are not trusted either: the type, shape and range of every value are checked before it is used.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from metricdp.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

PLAIN_KEY = "plain"  # the name under which numbers and texts travel, as JSON


def pack(answer: Mapping[str, Any]) -> bytes:
    """Return an answer as bytes.

    Examples
    --------
    >>> unpack(pack({"y": np.arange(3), "missed": 0.5}))
    {'y': array([0, 1, 2]), 'missed': 0.5}
    """
    arrays = {name: np.ascontiguousarray(value) for name, value in answer.items() if isinstance(value, np.ndarray)}
    rest = json.dumps({name: value for name, value in answer.items() if name not in arrays})
    return bytes(save({**arrays, PLAIN_KEY: np.frombuffer(rest.encode(), dtype=np.uint8)}))


def unpack(data: object) -> dict[str, Any]:
    """Return the answer that `pack` turned into bytes."""
    if not isinstance(data, bytes):
        raise InputError(f"an answer must be bytes, got an object of the type {type(data).__name__}")
    try:
        arrays = load(data)
        rest = json.loads(arrays.pop(PLAIN_KEY).tobytes())
    except (SafetensorError, ValueError, KeyError, RecursionError) as error:
        raise InputError(f"an answer cannot be read: {type(error).__name__}") from None
    if not isinstance(rest, dict):
        raise InputError(f"an answer must have named values, got an object of the type {type(rest).__name__}")
    return {**arrays, **rest}


def array_of(
    answer: Mapping[str, Any],
    name: str,
    kind: type,
    shape: tuple[int | None, ...],
    *,
    low: float = -math.inf,
    high: float = math.inf,
) -> NDArray[Any]:
    """Return the array ``name`` if it has this type and shape (None: any length), finite values, all in [low, high]."""
    value = answer.get(name)
    if not isinstance(value, np.ndarray) or value.dtype != kind:
        found = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
        raise InputError(f"{name} must be an array of {np.dtype(kind)}, got {found}")
    if value.ndim != len(shape) or any(want not in (None, is_) for want, is_ in zip(shape, value.shape, strict=True)):
        raise InputError(f"{name} must have the shape {shape}, got {value.shape}")
    if value.size and not (np.isfinite(value).all() and value.min() >= low and value.max() <= high):
        raise InputError(f"{name} must have finite values from {low:g} to {high:g}")
    return value


def number_of(answer: Mapping[str, Any], name: str) -> float:
    """Return the number ``name`` if it is finite."""
    value = answer.get(name)
    if not isinstance(value, float) or not math.isfinite(value):
        raise InputError(f"{name} must be a finite number, got an object of the type {type(value).__name__}")
    return value


def text_of(answer: Mapping[str, Any], name: str) -> str:
    """Return the text ``name``."""
    value = answer.get(name)
    if not isinstance(value, str):
        raise InputError(f"{name} must be a text, got an object of the type {type(value).__name__}")
    return value
