"""Reader of word vectors in the text formats of word2vec, GloVe and fastText."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from metricdp.data.readers.files import read_text, stem
from metricdp.data.records import Records
from metricdp.errors import FileFormatError

if TYPE_CHECKING:
    from os import PathLike

    from numpy.typing import NDArray


def read_word_vectors(path: str | PathLike[str]) -> Records:
    """Read words and their vectors from a text file, gzip or not.

    Parameters
    ----------
    path
        One word per line, followed by its numbers, separated by spaces (GloVe). A first line with the number of words
        and the dimension (word2vec, fastText) is checked and passed over.
    """
    # only line feeds end a line: words may hold other characters that Python would split at
    lines = [line.rstrip(" \r\t") for line in read_text(path).split("\n")]
    body = [(number, line) for number, line in enumerate(lines, start=1) if line]
    header = _header(body[0][1].split(" "))
    if header is not None:
        del body[0]
    if header is not None and len(body) != header[0]:
        raise FileFormatError(
            f"{path} promises {header[0]} words in line 1 but has {len(body)}: get it again, or remove that line"
        )
    if not body:
        raise FileFormatError(f"{path} has no words: give one word and its vector per line")
    dimension = body[0][1].count(" ") if header is None else header[1]
    if dimension < 1:
        raise FileFormatError(f"{path}, line {body[0][0]} has no numbers after the word: give word vectors as text")
    vectors = np.empty((len(body), dimension))
    line_of: dict[str, int] = {}
    for row, (number, line) in enumerate(body):
        word, vectors[row] = _word_and_vector(line.split(" "), dimension, f"{path}, line {number}")
        if word in line_of:
            raise FileFormatError(f"{path} has the word {word!r} in lines {line_of[word]} and {number}: remove one")
        line_of[word] = number
    return Records(vectors, ids=line_of, kind="vectors", name=stem(path))


def _header(cells: list[str]) -> tuple[int, int] | None:
    if len(cells) == 2 and all(cell.isascii() and cell.isdigit() for cell in cells):
        return int(cells[0]), int(cells[1])
    return None


def _word_and_vector(cells: list[str], dimension: int, where: str) -> tuple[str, NDArray[np.float64]]:
    n_extra = len(cells) - 1 - dimension
    # a few words of the large GloVe files hold spaces themselves
    if n_extra < 0 or any(_is_number(cell) for cell in cells[1 : 1 + n_extra]):
        raise FileFormatError(
            f"{where} has {len(cells) - 1} numbers, but {dimension} are expected: give every word the same number"
        )
    word, numbers = " ".join(cells[: 1 + n_extra]), cells[1 + n_extra :]
    try:
        vector = np.array(list(map(float, numbers)))
    except ValueError:
        cell = next(cell for cell in numbers if not _is_number(cell))
        raise FileFormatError(f"{where} has {cell!r:.40} where a number is expected: correct the line") from None
    if not np.isfinite(vector).all():
        raise FileFormatError(f"{where} has a number that is not finite: correct or remove the line")
    return word, vector


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
