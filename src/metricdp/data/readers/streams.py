"""Files that are read piece by piece, packed or not, with limits that hold while they are read.

Two limits guard the readers that keep their data in memory. A gzip file may unpack to `MAX_UNPACK_RATIO` times its size
(and always to `ALWAYS_UNPACKED_BYTES` bytes): ordinary tables shrink to about a tenth, bombs to a thousandth. And an
`Allowance` counts the memory in use, so that reading ends with one clear message before the memory runs out.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import re
import select
import stat
import zlib
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

from metricdp.data.readers.files import existing_file
from metricdp.errors import FileFormatError, InputError, revealed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from os import PathLike

    Progress = Callable[["TextSource", int], None]
    """Called after each piece with the file that is read and the number of reports so far."""

GZIP_MAGIC = b"\x1f\x8b"
BYTES_AT_ONCE = 1 << 17
LONGEST_LINE = 1 << 24  # characters
MAX_UNPACK_RATIO = 50.0  # unpacked bytes for each packed one
ALWAYS_UNPACKED_BYTES = 16_000_000  # bytes that a packed file may hold whatever its size
NO_TEXT = re.compile("[\ud800-\udfff]")  # half a character
READ_ERRORS = (OSError, EOFError, zlib.error)
GIGABYTE = 1e9
SHARE_OF_AVAILABLE = 0.5  # of the free memory: the rest is for the work on the records
# memory of readers, measured by tests/data/test_bombs.py
BYTES_PER_NUMBER = 24  # in its piece, joined with the others, and copied to its final array
BYTES_PER_RECORD = 180  # its id as a text and in the list, what checking ids takes, its prior
DEFAULT_FREE_BYTES = 4e9  # where the system does not report its free memory


class Allowance:
    """Counts the memory that a reader takes, and stops it before there is too much.

    Parameters
    ----------
    path
        What is read, for the message.
    memory_limit
        Gigabytes that reading may take; by default half of the free memory.
    """

    def __init__(self, path: str | PathLike[str], memory_limit: float | None = None) -> None:
        if memory_limit is not None and not memory_limit > 0:
            raise InputError(f"memory_limit must be positive, got {memory_limit}: give gigabytes such as 4")
        self.path, self.taken = path, 0.0
        self.most = SHARE_OF_AVAILABLE * available_bytes() if memory_limit is None else memory_limit * GIGABYTE

    def take(self, n_bytes: float) -> None:
        """Count ``n_bytes`` more, and refuse the file if that is too much."""
        self.taken += n_bytes
        if self.taken > self.most:
            raise InputError(
                f"{self.path} holds more than fits into {self.most / GIGABYTE:.3g} GB of memory: keep only the rows "
                "and columns you need, or raise memory_limit"
            )


def available_bytes() -> float:
    """Return the memory available to new programs, as Linux estimates it; elsewhere all memory of the machine."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:  # noqa: PTH123  not a file of the user's
            fields = dict(line.split(":", 1) for line in lines)
        return float(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):  # not reported on this system
        return DEFAULT_FREE_BYTES


class ByteSource:
    """A file or a pipe, plain or gzipped, that is read in pieces.

    Parameters
    ----------
    path
        A file or a pipe.
    most_ratio
        How many bytes each packed byte may unpack to; None for readers that keep nothing in memory.
    stream
        What to read in place of the file, which stays open at the end; ``path`` is only its name in messages.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        most_ratio: float | None = None,
        stream: io.BufferedReader | None = None,
    ) -> None:
        self.path = existing_file(path) if stream is None else Path(path)
        self._is_own = stream is None
        try:
            self._raw = self.path.open("rb") if stream is None else stream
        except OSError as error:
            raise self._unreadable(error) from None
        try:
            self.size = 0
            with suppress(io.UnsupportedOperation):  # not a stream of the system
                status = os.fstat(self._raw.fileno())
                self.size = status.st_size if stat.S_ISREG(status.st_mode) else 0
            self.start = self._raw.peek()
        except OSError as error:
            self._raw.close()
            raise self._unreadable(error) from None
        self._counted = _Counted(self._raw)
        if self.start.startswith(GZIP_MAGIC):
            unpacked: io.RawIOBase = _Unpacked(self._counted, self.path, most_ratio)
        else:
            unpacked = self._counted
        self._bytes = io.BufferedReader(unpacked, BYTES_AT_ONCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._is_own:
            self._raw.close()

    def is_ready(self) -> bool:
        """Return whether more can be read without waiting for a writer; True at the end too."""
        try:
            return bool(select.select([self._raw], [], [], 0)[0])
        except io.UnsupportedOperation:  # not a stream of the system: all of it is here
            return True
        except (OSError, ValueError):  # Windows has this for sockets only
            return False

    @property
    def fraction(self) -> float | None:
        """How much of the file has been read, from 0 to 1; None for a pipe."""
        return min(1.0, self._counted.n / self.size) if self.size else None

    def pieces(self) -> Iterator[bytes]:
        """Yield the bytes in pieces."""
        try:
            while piece := self._bytes.read(BYTES_AT_ONCE):
                yield piece
        except READ_ERRORS as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: Exception) -> InputError:
        if not isinstance(error, OSError) or isinstance(error, gzip.BadGzipFile):
            return FileFormatError(f"{self.path} is a damaged gzip file ({error}): get it again")
        return InputError(f"{self.path} cannot be read ({error.strerror or error}): check the path and its permissions")


class TextSource(ByteSource):
    """A UTF-8 text file, plain or gzipped, that is read in pieces, without a byte order mark.

    Parameters
    ----------
    path, most_ratio, stream
        As for `ByteSource`.
    newline
        As for `open`: None turns every line end into a line feed, "" keeps them.
    is_secret
        Whether messages must not show the file's contents.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        newline: str | None = None,
        most_ratio: float | None = None,
        is_secret: bool = True,
        stream: io.BufferedReader | None = None,
    ) -> None:
        super().__init__(path, most_ratio=most_ratio, stream=stream)
        self.line, self.is_secret, self._newline = 1, is_secret, newline
        # a byte that is no text becomes half a character, which is found below with its line
        decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="surrogateescape")
        self._decoder = io.IncrementalNewlineDecoder(decoder, translate=True) if newline is None else decoder

    def read(self) -> str:
        """Return the next piece of text, as soon as there is any; empty at the end."""
        text, is_more = "", True
        while is_more and not text:
            try:
                piece = self._bytes.read1(BYTES_AT_ONCE)  # a pipe gives what it has
            except READ_ERRORS as error:
                raise self._unreadable(error) from None
            is_more = bool(piece)
            text = self._decoder.decode(piece, final=not is_more)
        broken = NO_TEXT.search(text)
        if broken is not None:
            line = self.line + text.count("\n", 0, broken.start())
            byte = f"byte 0x{ord(broken[0]) & 0xFF:02x}"
            shown = revealed(byte) if self.is_secret else f", {byte},"
            raise FileFormatError(f"{self.path}, line {line}{shown} is not UTF-8 text: save it as UTF-8")
        self.line += text.count("\n")
        return text

    def lines(self) -> Iterator[str]:
        """Yield the lines, each with its end."""
        for lines in self.lines_of_pieces():
            yield from lines

    def lines_of_pieces(self) -> Iterator[list[str]]:
        """Yield the lines that each piece of the text completes."""
        begun = ""
        while piece := self.read():
            lines = list(io.StringIO(begun + piece, newline=self._newline))
            # the last line may go on in the next piece, even after a carriage return
            begun = "" if lines[-1].endswith("\n") else lines.pop()
            yield lines
            if len(begun) > LONGEST_LINE:
                raise FileFormatError(
                    f"{self.path}, line {self.line} has more than {LONGEST_LINE:,} characters: break it into lines"
                )
        if begun:
            yield [begun]


class ReadyLines:
    """The lines of a source one after the other, which says whether the next can be had without waiting."""

    def __init__(self, source: TextSource) -> None:
        self._source, self._waiting, self._is_all = source, deque[str](), False
        self._found = source.lines_of_pieces()

    def __iter__(self) -> Iterator[str]:
        while self._waiting or not self._is_all:
            if self._waiting:
                yield self._waiting.popleft()
            else:
                self._read()

    def is_ready(self) -> bool:
        """Return whether there is a whole line, or the end."""
        while not self._waiting and not self._is_all and self._source.is_ready():
            self._read()
        return bool(self._waiting) or self._is_all

    def _read(self) -> None:
        lines = next(self._found, None)
        self._is_all = lines is None
        self._waiting.extend(lines or ())


class _Counted(io.RawIOBase):
    """The bytes of a file, counted: a pipe cannot tell where it is."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file, self.n = file, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast("bytearray", buffer))
        # what is there already, or one system call: a pipe may have no more for long
        piece = self._file.read1(len(view))
        view[: len(piece)] = piece
        self.n += len(piece)
        return len(piece)


class _Unpacked(io.RawIOBase):
    """The content of a gzip file, refused during reading if it expands too much."""

    def __init__(self, packed: _Counted, path: Path, most_ratio: float | None) -> None:
        self._packed, self._path, self._most_ratio = packed, path, most_ratio
        self._gzip = gzip.GzipFile(fileobj=packed)
        self._n = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast("bytearray", buffer))
        piece = self._gzip.read1(len(view))
        view[: len(piece)] = piece
        self._n += len(piece)
        if self._most_ratio is not None and self._n > max(ALWAYS_UNPACKED_BYTES, self._most_ratio * self._packed.n):
            raise FileFormatError(
                f"{self._path} unpacks to more than {self._most_ratio:g} times its size: if the file is right, "
                "unpack it first (gunzip) and give the plain file"
            )
        return len(piece)
