"""Reader of word vectors in the text formats of word2vec, GloVe and fastText."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from metricdp.data.readers.files import stem
from metricdp.data.readers.streams import BYTES_PER_NUMBER, BYTES_PER_RECORD, MAX_UNPACK_RATIO, Allowance, TextSource
from metricdp.data.readers.tables import is_number, refuse_underscores
from metricdp.data.records import Records
from metricdp.errors import FileFormatError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

    from numpy.typing import NDArray

BYTES_PER_WORD = BYTES_PER_RECORD + 120  # a word is also in a dictionary with its line
WORDS_AT_ONCE = 1024
MAX_DIGITS = 1000  # of a count in the first line: beyond 4,300 Python refuses to convert it


def read_word_vectors(path: str | PathLike[str], *, memory_limit: float | None = None) -> Records:
    """Read words and their vectors from a text file, plain or gzipped.

    Parameters
    ----------
    path
        One word per line, followed by its numbers, separated by spaces (GloVe). A first line with the number of words
        and the dimension (word2vec, fastText) is checked and skipped.
    memory_limit
        Gigabytes that reading may take; by default half of the free memory.
    """
    allowance = Allowance(path, memory_limit)
    line_of: dict[str, int] = {}
    parts: list[NDArray[np.float64]] = []
    vectors: list[NDArray[np.float64]] = []
    # only line feeds end a line: words may hold other characters that Python would split at
    with TextSource(path, newline="\n", most_ratio=MAX_UNPACK_RATIO, is_secret=False) as source:
        lines = _numbered_lines(source)
        first = next(lines, None)
        if first is None:
            raise FileFormatError(f"{path} is empty: give one word and its vector per line")
        header = _header(first[1].split(" "))
        dimension = first[1].count(" ") if header is None else header[1]
        for number, line in chain([first] if header is None else [], lines):
            where = f"{path}, line {number}"
            if dimension < 1:
                raise FileFormatError(f"{where} has no numbers after the word: give word vectors as text")
            word, vector = _word_and_vector(line.split(" "), dimension, where)
            if word in line_of:
                raise FileFormatError(f"{path} has the word {word!r} in lines {line_of[word]} and {number}: remove one")
            line_of[word] = number
            vectors.append(vector)
            allowance.take(BYTES_PER_WORD + len(word) + BYTES_PER_NUMBER * dimension)
            if len(vectors) == WORDS_AT_ONCE:
                parts.append(np.stack(vectors))
                vectors = []
    if header is not None and len(line_of) != header[0]:
        raise FileFormatError(
            f"{path} promises {header[0]} words in line 1 but has {len(line_of)}: get it again, or remove that line"
        )
    if not line_of:
        raise FileFormatError(f"{path} has no words: give one word and its vector per line")
    if vectors:
        parts.append(np.stack(vectors))
    return Records(np.concatenate(parts), ids=line_of, kind="vectors", name=stem(path))


def _numbered_lines(source: TextSource) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, each with its number."""
    for number, line in enumerate(source.lines(), start=1):
        kept = line.rstrip(" \r\t\n")
        if kept:
            yield number, kept


def _header(cells: list[str]) -> tuple[int, int] | None:
    if len(cells) == 2 and all(cell.isascii() and cell.isdigit() and len(cell) <= MAX_DIGITS for cell in cells):
        return int(cells[0]), int(cells[1])
    return None


def _word_and_vector(cells: list[str], dimension: int, where: str) -> tuple[str, NDArray[np.float64]]:
    n_extra = len(cells) - 1 - dimension
    # a few words of the large GloVe files hold spaces themselves
    if n_extra < 0 or any(is_number(cell) for cell in cells[1 : 1 + n_extra]):
        raise FileFormatError(
            f"{where} has {len(cells) - 1} numbers, but {dimension} are expected: give every word the same number"
        )
    word, numbers = " ".join(cells[: 1 + n_extra]), cells[1 + n_extra :]
    try:
        refuse_underscores(numbers)
        vector = np.array(list(map(float, numbers)))
    except ValueError:
        cell = next(cell for cell in numbers if not is_number(cell))
        raise FileFormatError(f"{where} has {cell!r:.40} where a number is expected: correct the line") from None
    if not np.isfinite(vector).all():
        raise FileFormatError(f"{where} has a number that is not finite: correct or remove the line")
    return word, vector
