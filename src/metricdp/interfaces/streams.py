"""Files that are read piece by piece, so that their length does not matter."""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import zlib
from typing import IO, TYPE_CHECKING, Self, cast

from metricdp.data.readers.files import existing_file
from metricdp.errors import FileFormatError, InputError, revealed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Progress = Callable[["TextSource", int], None]
    """Called after each piece with the file that is read and the number of reports so far."""

GZIP_MAGIC = b"\x1f\x8b"
CHARACTERS_AT_ONCE = 1 << 18
LONGEST_LINE = 1 << 24
NO_TEXT = re.compile("[\ud800-\udfff]")  # half a character
UNREADABLE = (OSError, EOFError, zlib.error)


class TextSource:
    """A UTF-8 text file, packed with gzip or not, that gives its text in pieces.

    Parameters
    ----------
    path
        A file or a pipe.
    newline
        As for `open`: None turns every line end into a line feed, "" leaves them as they are.
    """

    def __init__(self, path: str | Path, *, newline: str | None = None) -> None:
        self.path = existing_file(path)
        self.line = 1
        try:
            self._raw = self.path.open("rb")
        except OSError as error:
            raise self._unreadable(error) from None
        try:
            status = os.fstat(self._raw.fileno())
            self.size = status.st_size if stat.S_ISREG(status.st_mode) else 0
            is_packed = self._raw.peek(2).startswith(GZIP_MAGIC)
        except OSError as error:
            self._raw.close()
            raise self._unreadable(error) from None
        unpacked = cast("IO[bytes]", gzip.GzipFile(fileobj=self._raw)) if is_packed else self._raw
        # a byte that is no text becomes half a character, which is found below with its line
        self._text = io.TextIOWrapper(unpacked, encoding="utf-8-sig", errors="surrogateescape", newline=newline)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._text.close()
        self._raw.close()

    @property
    def fraction(self) -> float | None:
        """How much of the file has been read, from 0 to 1; None for a pipe."""
        return min(1.0, self._raw.tell() / self.size) if self.size else None

    def read(self) -> str:
        """Give the next piece of text; empty at the end."""
        return self._checked(lambda: self._text.read(CHARACTERS_AT_ONCE))

    def lines(self) -> Iterator[str]:
        """Give line after line, each with its end."""
        while line := self._checked(lambda: self._text.readline(LONGEST_LINE)):
            if len(line) == LONGEST_LINE:
                raise FileFormatError(
                    f"{self.path}, line {self.line} has more than {LONGEST_LINE:,} characters: break it into lines"
                )
            yield line

    def _checked(self, read: Callable[[], str]) -> str:
        try:
            text = read()
        except UNREADABLE as error:
            raise self._unreadable(error) from None
        broken = NO_TEXT.search(text)
        if broken is not None:
            line = self.line + text.count("\n", 0, broken.start())
            byte = revealed(f"byte 0x{ord(broken[0]) & 0xFF:02x}")
            raise FileFormatError(f"{self.path}, line {line}{byte} is not UTF-8 text: save it as UTF-8")
        self.line += text.count("\n")
        return text

    def _unreadable(self, error: Exception) -> InputError:
        if not isinstance(error, OSError) or isinstance(error, gzip.BadGzipFile):
            return FileFormatError(f"{self.path} is a damaged gzip file ({error}): get it again")
        return InputError(f"{self.path} cannot be read ({error.strerror or error}): check the path and its permissions")
