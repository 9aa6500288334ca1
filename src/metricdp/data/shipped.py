"""The data files that come with metricdp (see files/PROVENANCE.md)."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from safetensors.numpy import load

from metricdp.errors import FileFormatError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def load_shipped(name: str) -> dict[str, NDArray[np.generic[Any]]]:
    """Return the tensors of a shipped file by its name without the suffix."""
    try:
        return load((files("metricdp.data") / "files" / f"{name}.safetensors").read_bytes())
    except (OSError, SafetensorError) as error:
        raise FileFormatError(f"the shipped data {name!r} cannot be read ({error}): install metricdp again") from None
