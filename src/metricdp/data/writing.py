"""Files that are written completely or not at all, and streams that get everything at the end."""

from __future__ import annotations

import gzip
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from metricdp.errors import InputError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

PRIVATE_MODE = 0o600  # readable and writable by the owner only
MAX_LINKS = 40  # as many as Linux follows
TEMPORARY = re.compile(r"\.metricdp-[0-9a-f]{16}\.tmp")
STREAM = re.compile(r"/(?:dev|proc/self|proc/thread-self)/fd/([0-9]+)")
STANDARD_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
FORMULA = re.compile("'*[=+\\-@\t\r\n]")  # the start of what spreadsheets run, after apostrophes of an earlier escape


class Target:
    """The target of a write."""

    def __init__(self, path: str | Path, stream: IO[bytes] | gzip.GzipFile) -> None:
        self.path, self.stream = path, stream

    def write(self, data: str | bytes | memoryview) -> None:
        """Write bytes, or a text as UTF-8."""
        with _explained(self.path):
            self.stream.write(data.encode() if isinstance(data, str) else data)


def check_writable(path: str | Path, *, may_be_stream: bool = False) -> None:
    """Raise now, before long work, if ``path`` could not be written later.

    A link is followed to the place it names. Only a regular file may be replaced: a device, pipe or socket is refused.
    An open stream of this process (``/dev/stdout``, ``/dev/fd/3``) is refused too unless ``may_be_stream``.
    """
    number = stream_number(path)
    if number is not None and may_be_stream:
        with _explained(path):
            os.write(number, b"")
        return
    place = _place(path)
    if number is not None:
        raise InputError(f"cannot write {path}: it is an open stream, which cannot be replaced; name a regular file")
    if place.is_dir():
        raise InputError(f"cannot write {path}: it is a folder; name a file inside it")
    if not place.parent.is_dir():
        raise InputError(f"cannot write {path}: the folder {place.parent} does not exist; make it first")
    if place.exists() and not place.is_file():
        raise InputError(f"cannot write {path}: it is a device, pipe or socket; name a regular file")
    if not os.access(place.parent, os.W_OK) or (place.exists() and not os.access(place, os.W_OK)):
        raise InputError(f"cannot write {path}: permission denied; choose another path")


def is_packed(path: str | PathLike[str]) -> bool:
    """Return whether the name of a file says that it is a gzip file.

    Examples
    --------
    >>> is_packed("reports.csv.GZ"), is_packed("reports.gz.csv"), is_packed(".gz")
    (True, False, False)
    """
    return Path(path).suffix.lower() == ".gz"


def write_whole(path: str | Path, data: bytes, *, may_pack: bool = False) -> None:
    """Write ``data`` to the file ``path``, completely or not at all; see `replacing`."""
    check_writable(path)
    with replacing(path, may_pack=may_pack) as target:
        target.write(data)


@contextmanager
def replacing(path: str | Path, *, is_private: bool = False, may_pack: bool = False) -> Iterator[Target]:
    """Write a file beside ``path`` that takes its place at the end, and only if nothing failed.

    A new file gets the permissions that the umask allows; a replacement keeps those of the old file. A private file can
    be read by its owner only, from the beginning, whatever it replaces. Leftovers of killed processes are removed
    first.

    An open stream of this process (``/dev/stdout``, ``/dev/fd/3``) is never replaced: it gets everything at the end.

    With ``may_pack``, a file whose name ends with ``.gz`` is packed, without a time or a name inside.
    """
    check_writable(path, may_be_stream=True)
    number = stream_number(path)
    plain = _buffered(path, number) if number is not None else _beside(path, is_private=is_private)
    with plain as target, _packing(target) if may_pack and is_packed(path) else nullcontext(target) as given:
        yield given


def write_new(path: Path, data: bytes) -> None:
    """Write ``data`` to a new private file, completely or not at all; FileExistsError if there is one."""
    remove_leftovers(path.parent)
    temporary, stream = _temporary(path, PRIVATE_MODE)
    try:
        with stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
            os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def lock(stream: IO[bytes]) -> None:
    """Wait until no other process has locked the file, and lock it until it is closed; without locks, do nothing."""
    if fcntl is not None:
        fcntl.flock(stream, fcntl.LOCK_EX)


def stream_number(path: str | Path) -> int | None:
    """Return the number of the open stream that ``path`` names, also through links; None for a file.

    Examples
    --------
    >>> stream_number("/dev/stdout"), stream_number("/dev/fd/3"), stream_number("reports.csv")
    (1, 3, None)
    """
    place = Path(path)
    for _ in range(MAX_LINKS):
        name = os.path.normpath(place.absolute())
        match = STREAM.fullmatch(name)
        if match is not None or name in STANDARD_STREAMS:
            return STANDARD_STREAMS[name] if match is None else int(match[1])
        try:
            place = Path(name).parent / Path(name).readlink()
        except (OSError, ValueError):  # no link
            return None
    return None


def remove_leftovers(folder: Path) -> None:
    """Remove our temporary files of killed processes: those that are no longer locked by their writer."""
    if fcntl is None:
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if TEMPORARY.fullmatch(entry.name):
                _remove_if_left(entry.path)


def spreadsheet_cell(cell: str) -> str:
    """Return a cell that no spreadsheet runs as a formula: with an apostrophe before it if necessary.

    Examples
    --------
    >>> [spreadsheet_cell(cell) for cell in ("=1+1", "-home", "-0.5", "home")]
    ["'=1+1", "'-home", '-0.5', 'home']
    """
    return f"'{cell}" if FORMULA.match(cell) and not NUMBER.fullmatch(cell) else cell


def plain_cell(cell: str) -> str:
    """Return the original of a cell from `spreadsheet_cell`."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell


@contextmanager
def _packing(target: Target) -> Iterator[Target]:
    """Yield a target that packs what it is given into ``target``."""
    with _explained(target.path):
        stream = gzip.GzipFile("", "wb", fileobj=target.stream, mtime=0)
    try:
        yield Target(target.path, stream)
    finally:
        _close(target.path, stream)


@contextmanager
def _beside(path: str | Path, *, is_private: bool) -> Iterator[Target]:
    place = _place(path)
    remove_leftovers(place.parent)
    is_new = not place.exists()
    with ExitStack() as stack:
        with _explained(path):
            temporary, stream = _temporary(place, 0o666 if is_new and not is_private else PRIVATE_MODE)
        stack.callback(temporary.unlink, missing_ok=True)
        stack.callback(_close, path, stream)
        yield Target(path, stream)
        with _explained(path):
            stream.flush()
            os.fsync(stream.fileno())
            if not is_new and not is_private:
                temporary.chmod(stat.S_IMODE(place.stat().st_mode) & 0o777)
            if fcntl is None:
                stream.close()  # Windows moves no open file; elsewhere it is locked until it has been moved
            temporary.replace(place)


def _temporary(place: Path, mode: int) -> tuple[Path, IO[bytes]]:
    """Return a new file beside ``place``, locked as long as it is open, so that it is seen to be in use."""
    while True:
        temporary = place.with_name(f".metricdp-{secrets.token_hex(8)}.tmp")
        stream = os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb")
        with suppress(OSError):  # a file system without locks: a search for leftovers cannot lock it either
            lock(stream)
        if fcntl is None or os.fstat(stream.fileno()).st_nlink:
            return temporary, stream
        stream.close()  # taken for a leftover before it was locked


def _remove_if_left(path: str) -> None:
    with suppress(OSError):  # gone, locked, or not ours
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            status = os.fstat(handle)
            if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                Path(path).unlink()
        finally:
            os.close(handle)


@contextmanager
def _buffered(path: str | Path, number: int) -> Iterator[Target]:
    with tempfile.TemporaryFile() as stream:
        yield Target(path, stream)
        with _explained(path):
            sys.stdout.flush()
            stream.seek(0)
            with os.fdopen(os.dup(number), "wb") as end:
                shutil.copyfileobj(stream, end)


def _close(path: str | Path, stream: IO[bytes] | gzip.GzipFile) -> None:
    with _explained(path):
        stream.close()


@contextmanager
def _explained(path: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; choose another path") from None


def _place(path: str | Path) -> Path:
    """Return the place that ``path`` stands for, all links followed."""
    try:
        place = Path(path).resolve()
        place.exists()  # raises for a name that no file can have
    except (OSError, RuntimeError, ValueError) as error:
        raise InputError(f"cannot write {str(path)!r:.200}: {error}; choose another path") from None
    return place
