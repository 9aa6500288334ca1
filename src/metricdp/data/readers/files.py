"""Paths that the user named, with one clear message if a file does not exist."""

from __future__ import annotations

import os.path
from pathlib import Path
from typing import TYPE_CHECKING

from metricdp.errors import InputError

if TYPE_CHECKING:
    from os import PathLike


def is_there(path: str | PathLike[str]) -> bool:
    """Return whether ``path`` exists; False for a name that no file can have."""
    return os.path.exists(path)  # noqa: PTH110  Path.exists raises for a name that is too long


def existing_file(path: str | PathLike[str]) -> Path:
    """Return the path if it names a file that is not empty."""
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


def stem(path: str | PathLike[str]) -> str:
    """Return the name of a file without folder and suffixes, to call its records by."""
    return Path(path).name.split(".")[0] or Path(path).name


def _unreadable(path: Path, error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or error
    return InputError(f"{path} cannot be read ({reason}): check the path and its permissions")
