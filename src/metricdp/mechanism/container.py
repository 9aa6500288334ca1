"""The container of mechanism files: safetensors, checked before memory is taken, hashed, written in one stream.

Which tensors there are is for `metricdp.mechanism.layout` to say.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.data.frozen import frozen
from metricdp.data.writing import replacing
from metricdp.errors import FileFormatError, InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

GZIP_MAGIC = b"\x1f\x8b"
MAX_HEADER_BYTES = 32_000_000  # room for the ids of a million records
HEADER_UNIT = 8  # tensors begin at a multiple of it
LONGEST_SHOWN = 200  # characters of what a damaged file holds, in a message
# in the order in which a file holds them, as the safetensors library writes it
DTYPES: dict[str, np.dtype[Any]] = {
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F64": np.dtype("<f8"),
    "I32": np.dtype("<i4"),
}
Kinds = frozenset[tuple[str, int]]  # types and numbers of dimensions that a tensor may have


class _NamedTwiceError(ValueError):
    """A name occurs twice in one JSON object: readers may differ in which one they use."""


def short(text: object) -> str:
    """Return a shortened text for a message: a damaged file may hold values of any length."""
    words = str(text)
    return words if len(words) <= LONGEST_SHOWN else f"{words[:LONGEST_SHOWN]}..."


def exact_float(text: str) -> float:
    """Read a hexadecimal float; other notations are refused."""
    value = float.fromhex(text)
    if value.hex() != text:
        raise ValueError(f"{short(repr(text))} is not a hexadecimal float as float.hex writes it")
    return value


def read_header(source: Path) -> tuple[dict[str, Any], int]:
    """Return the header of a file, and where its tensors begin."""
    if source.exists() and not source.is_file():
        raise FileFormatError(f"{source} is not a file: name a mechanism file")
    if not source.exists():
        raise FileFormatError(f"there is no file {source}: check its name and its folder")
    size = source.stat().st_size
    with source.open("rb") as stream:
        first = stream.read(8)
        if first.startswith(GZIP_MAGIC):  # its sizes could only be checked after it was unpacked
            raise FileFormatError(f"{source} is packed: unpack it first, with gunzip {source}")
        length = int.from_bytes(first, "little")
        if length > min(size - 8, MAX_HEADER_BYTES):
            raise FileFormatError(
                f"{source} is not a mechanism file, or it is cut short ({size} bytes): name a .mdp file as it was "
                "written"
            )
        text = stream.read(length)
    try:
        header = json.loads(text.decode(), object_pairs_hook=_without_doubles, parse_constant=_no_number)
    except _NamedTwiceError as error:
        raise FileFormatError(f"{source} is damaged: its header names {error} twice") from None
    except (ValueError, RecursionError):
        raise FileFormatError(f"{source} is not a mechanism file: its header cannot be read") from None
    if not isinstance(header, dict):
        raise FileFormatError(f"{source} is not a mechanism file: its header is not a table of tensors")
    return header, 8 + length


def _without_doubles(items: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in items:
        if name in found:
            raise _NamedTwiceError(short(repr(name)))
        found[name] = value
    return found


def _no_number(word: str) -> None:
    """Refuse NaN and infinities, which are no JSON: other readers do."""
    raise ValueError(word)


def check_tensors(
    source: Path, header: dict[str, Any], offset: int, required: Mapping[str, Kinds], optional: Mapping[str, Kinds]
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors, after checking names, types and extents against the file's size."""
    if set(header) - set(optional) != set(required):
        raise FileFormatError(
            f"{source} has the tensors {short(', '.join(sorted(header)))}, expected {', '.join(sorted(required))}"
        )
    size = source.stat().st_size - offset
    extents, shapes = [], {}
    for name, entry in header.items():
        try:
            dtype, shape = DTYPES[entry["dtype"]], tuple(entry["shape"])
            begin, end = entry["data_offsets"]
        except (KeyError, TypeError, ValueError):
            raise FileFormatError(f"{source} is damaged: tensor {name} is not described properly") from None
        # nothing else may be said about a tensor: other readers might heed it
        is_whole = len(entry) == 3 and all(type(v) is int and v >= 0 for v in (*shape, begin, end))
        if (entry["dtype"], len(shape)) not in {**required, **optional}[name] or not is_whole:
            raise FileFormatError(f"{source} is damaged: tensor {name} is {entry['dtype']} of shape {short(shape)}")
        if end - begin != math.prod(shape) * dtype.itemsize or end > size:
            raise FileFormatError(f"{source} is cut short or damaged: tensor {name} does not fit into the file")
        extents.append((begin, end))
        shapes[name] = shape
    position = 0
    for begin, end in sorted(extents):
        if begin != position:
            raise FileFormatError(f"{source} is damaged: its tensors overlap or leave gaps")
        position = end
    if position != size:
        raise FileFormatError(f"{source} is damaged: it holds {size - position} bytes that belong to no tensor")
    return shapes


def read_tensors(source: Path, header: dict[str, Any], offset: int) -> dict[str, NDArray[Any]]:
    """Return tensors whose extents have been checked, each read once into memory that nobody can write to.

    They are not mapped: a file that is changed after it was certified must not change the mechanism.
    """
    tensors: dict[str, NDArray[Any]] = {}
    with source.open("rb") as stream:
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            stream.seek(offset + begin)
            data = stream.read(end - begin)
            if len(data) != end - begin:
                raise FileFormatError(f"{source} was cut short while it was read: tensor {name} is not all there")
            tensors[name] = np.frombuffer(data, DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def write(path: Path, tensors: Mapping[str, NDArray[Any]], metadata: dict[str, str]) -> None:
    """Write a file completely or not at all, tensor by tensor: nothing is copied that is in the right form already.

    Both hashes are put into the metadata.
    """
    ready = {name: frozen_little(value) for name, value in tensors.items()}
    metadata = {**metadata, "sha256": tensor_hash(ready)}
    metadata["metadata_sha256"] = metadata_hash(metadata)
    types = list(DTYPES.values())
    order = sorted(ready, key=lambda name: (types.index(ready[name].dtype), name))
    header: dict[str, Any] = {"__metadata__": dict(sorted(metadata.items()))}
    end = 0
    for name in order:
        begin, end = end, end + ready[name].nbytes
        kind = next(code for code, dtype in DTYPES.items() if dtype == ready[name].dtype)
        header[name] = {"dtype": kind, "shape": list(ready[name].shape), "data_offsets": [begin, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % HEADER_UNIT)
    if len(text) > MAX_HEADER_BYTES:
        raise InputError(
            f"the record ids take {len(text):,} bytes, but a mechanism file has room for {MAX_HEADER_BYTES:,}: "
            "shorten them"
        )
    with replacing(path) as target:
        target.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            target.write(_bytes_of(ready[name]))


def frozen_little(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array in the byte order of files and in memory that nobody can write to; mostly it is that already."""
    return frozen(values, values.dtype.newbyteorder("<"))


def tensor_hash(tensors: Mapping[str, NDArray[Any]]) -> str:
    """Return the SHA-256 of all tensors: name, type, shape and bytes, in the order of their names."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        value = np.ascontiguousarray(tensors[name])
        digest.update(f"{name} {value.dtype.str} {value.shape}\n".encode())
        digest.update(_bytes_of(value))
    return digest.hexdigest()


def metadata_hash(metadata: dict[str, str]) -> str:
    """Return the SHA-256 of all other metadata, as JSON with sorted keys."""
    rest = {key: value for key, value in metadata.items() if key != "metadata_sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _bytes_of(array: NDArray[Any]) -> memoryview | bytes:
    """Return the memory of a contiguous array; an empty one has none."""
    return array.ravel().view(np.uint8).data if array.size else b""
