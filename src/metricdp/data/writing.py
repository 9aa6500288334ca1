"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from metricdp.errors import InputError


def check_writable(path: str | Path) -> None:
    """Raise now, before long work, if ``path`` could not be written later.

    A link is followed to the place it names. Only a regular file may be replaced: a device, pipe or socket is refused.
    """
    place = _place(path)
    if place.is_dir():
        raise InputError(f"cannot write {path}: it is a folder; name a file inside it")
    if not place.parent.is_dir():
        raise InputError(f"cannot write {path}: the folder {place.parent} does not exist; make it first")
    if place.exists() and not place.is_file():
        raise InputError(f"cannot write {path}: it is a device, pipe or socket; name a regular file")
    if not os.access(place.parent, os.W_OK) or (place.exists() and not os.access(place, os.W_OK)):
        raise InputError(f"cannot write {path}: permission denied; choose another path")


def write_whole(path: str | Path, data: bytes) -> None:
    """Write ``data`` beside ``path``, then move it into place, so that no half file is ever seen.

    A new file gets the permissions that the umask allows; a file that is replaced passes on its own.
    """
    check_writable(path)
    place = _place(path)
    temporary = place.with_name(f".metricdp-{secrets.token_hex(8)}.tmp")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(handle, "wb") as stream:
            if place.exists():
                temporary.chmod(stat.S_IMODE(place.stat().st_mode) & 0o777)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(place)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise InputError(f"cannot write {path}: {error.strerror}; choose another path") from None
        raise


def _place(path: str | Path) -> Path:
    """Give the place that ``path`` stands for, all links followed."""
    try:
        place = Path(path).resolve()
        place.exists()  # raises for a name that no file can have
    except (OSError, RuntimeError, ValueError) as error:
        raise InputError(f"cannot write {str(path)!r:.200}: {error}; choose another path") from None
    return place
