"""Opening what the user named: one clear line when it cannot be read."""

from __future__ import annotations

import gzip
import os.path
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from metricdp.errors import FileFormatError, InputError

if TYPE_CHECKING:
    from os import PathLike

_GZIP_MAGIC = b"\x1f\x8b"


def is_there(path: str | PathLike[str]) -> bool:
    """Say whether anything is at ``path``; nothing is where the name is one that no file can have."""
    return os.path.exists(path)  # noqa: PTH110  Path.exists raises for a name that is too long


def existing_file(path: str | PathLike[str]) -> Path:
    """Give the path if it names a file that is not empty."""
    found = Path(path)
    try:
        size, is_folder, is_file = found.stat().st_size, found.is_dir(), found.is_file()
    except FileNotFoundError:
        raise InputError(f"there is no file {found}: check the path") from None
    except (OSError, ValueError) as error:
        raise _unreadable(found, error) from None
    if is_folder:
        raise InputError(f"{found} is a directory: name a file in it")
    if size == 0 and is_file:
        raise InputError(f"{found} is empty: give a file with at least one record")
    return found


def read_bytes(path: str | PathLike[str]) -> bytes:
    """Give the content of a file, unpacked if it starts as gzip does, whatever its name."""
    found = existing_file(path)
    try:
        content = found.read_bytes()
    except OSError as error:
        raise _unreadable(found, error) from None
    if content.startswith(_GZIP_MAGIC):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise FileFormatError(f"{found} is a damaged gzip file ({error}): get it again") from None
    if not content.strip():
        raise InputError(f"{found} is empty: give a file with at least one record")
    return content


def read_text(path: str | PathLike[str]) -> str:
    """Give the content of a UTF-8 text file, without a byte order mark."""
    content = read_bytes(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FileFormatError(
            f"{path} is not UTF-8 text: byte 0x{content[error.start]:02x} in line {line}; save it as UTF-8"
        ) from None


def stem(path: str | PathLike[str]) -> str:
    """Give the name of a file without folder and suffixes, to call its records by."""
    return Path(path).name.split(".")[0] or Path(path).name


def _unreadable(path: Path, error: Exception) -> InputError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return InputError(f"{path} cannot be read ({reason}): check the path and its permissions")
