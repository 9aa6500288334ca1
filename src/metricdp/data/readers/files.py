"""Paths that the user named, with one clear message if a file does not exist."""

from __future__ import annotations

import os.path
from pathlib import Path
from typing import TYPE_CHECKING

from metricdp.data.writing import is_packed
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
    """Return the name of a file without its folder and format, to call its records by.

    Examples
    --------
    >>> stem("data/glove.6B.100d.txt.gz"), stem("rome.osm.pbf"), stem(".hidden")
    ('glove.6B.100d', 'rome', '.hidden')
    """
    name = _unpacked(path)
    return name.with_suffix("").name.removesuffix(".osm") if name.suffix else name.name


def format_of(path: str | PathLike[str]) -> str:
    """Return the suffix that says the format of a file, in lower case, packed or not; empty if there is none.

    Examples
    --------
    >>> format_of("reports.2024.CSV"), format_of("map.geojson.gz"), format_of("reports"), format_of("a.gz")
    ('.csv', '.geojson', '', '')
    """
    return _unpacked(path).suffix.lower()


def _unpacked(path: str | PathLike[str]) -> Path:
    """Return the name of the file in a gzip file; any other name as it is."""
    name = Path(Path(path).name)
    return name.with_suffix("") if is_packed(path) else name


def _unreadable(path: Path, error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or error
    return InputError(f"{path} cannot be read ({reason}): check the path and its permissions")
