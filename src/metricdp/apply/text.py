"""Perturb a text: each word of the vocabulary is replaced by a draw, and nothing else is written by default."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from metricdp.data.readers.streams import TextSource
from metricdp.data.writing import check_writable, replacing
from metricdp.errors import InputError
from metricdp.mechanism.plane import check_of_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from metricdp.data.readers.streams import Progress
    from metricdp.data.writing import Target
    from metricdp.mechanism.mechanism import Mechanism

UNKNOWN_POLICIES = ("refuse", "drop", "mask")
MASK = "<unk>"
KEPT_PUNCTUATION = frozenset(".,;:!?…()-–—\"'“”‘’„«»¿¡")
APOSTROPHES = frozenset("'’")
LONGEST_WORD = 1 << 16  # characters; a longer one means that the file is not a text
BETWEEN_TEXTS = "\x1e"  # the record separator: white space, so no word or draw holds it
LONGEST_CACHED_CHUNK = 64  # characters whose pieces are remembered

Piece = int | str | None
"""A part of a text: a record's row, punctuation, or a word outside the vocabulary (None)."""


@dataclass(repr=False)
class TextSummary:
    """Counts for a perturbed text. All but ``words`` reveal something about the true text: only for its holder.

    Attributes
    ----------
    words
        How many words were drawn; each spends the budget once.
    unknown
        How many words were outside the vocabulary.
    unprotected
        How many words have no neighbour in the vocabulary, so that a draw may reveal them completely. They count
        among ``words`` if they were allowed; if not, they were treated as unknown.
    punctuation
        How many punctuation marks were left out.
    """

    words: int = 0
    unknown: int = 0
    unprotected: int = 0
    punctuation: int = 0

    def __repr__(self) -> str:
        return f"TextSummary({self.words} words)"


def perturb_text(
    mechanism: Mechanism,
    source: str | Path,
    target: str | Path,
    *,
    unknown: str = "refuse",
    keep_punctuation: bool = False,
    allow_unprotected: bool = False,
    progress: Progress | None = None,
) -> TextSummary:
    """Write the text of ``source`` with each word of the vocabulary replaced by a draw of its own.

    The vocabulary is the mechanism's records. Case is not kept: a word is looked up unchanged, then in lower case,
    and the draw is written as the vocabulary spells it. Numbers, symbols and everything else that is neither blank nor
    punctuation is a word, and unknown unless the vocabulary holds it. Line breaks are kept; other blanks become one
    space. So the number of words in each line can be seen. ``target`` is packed if its name ends with ``.gz``.

    Parameters
    ----------
    source
        UTF-8 text of any length, plain or gzipped; it is read and written in pieces.
    unknown
        What to do with words outside the vocabulary: ``"refuse"`` the text, ``"drop"`` them, or ``"mask"`` them as
        ``<unk>``. They are never written. A mask shows where they were.
    keep_punctuation
        Keep ``. , ; : ! ?``, brackets, quotes and dashes in place: they are not protected.
    allow_unprotected
        Also draw for words without any neighbour, though their draw may reveal them. Without it, they are treated as
        unknown.
    progress
        Called after each piece.
    """
    check_of_records(mechanism, "perturb_region_file, which takes points as they are")
    check_writable(target, may_be_stream=True)
    words = Words(mechanism, unknown=unknown, keep_punctuation=keep_punctuation, allow_unprotected=allow_unprotected)
    with TextSource(source) as text, replacing(target, is_private=True, may_pack=True) as out:
        for block in whole_words(text):
            words.write(block, out)
            if progress is not None:
                progress(text, words.summary.words)
        words.refuse_if_asked(text.path)
    return words.summary


def whole_words(source: TextSource) -> Iterator[str]:
    """Yield the text in pieces that end with a blank, so that no word is cut."""
    rest = ""
    while piece := source.read():
        rest += piece
        end = len(rest)
        while end and not rest[end - 1].isspace():
            end -= 1
        if end:
            yield rest[:end]
        rest = rest[end:]
        if len(rest) > LONGEST_WORD:
            raise InputError(
                f"{source.path}, line {source.line} has a word of more than {LONGEST_WORD:,} characters: is it a text?"
            )
    if rest:
        yield rest


class Words:
    """Turns pieces of a text into pieces of the perturbed text, and counts."""

    def __init__(self, mechanism: Mechanism, *, unknown: str, keep_punctuation: bool, allow_unprotected: bool) -> None:
        if unknown not in UNKNOWN_POLICIES:
            raise InputError(
                f"unknown policy {unknown!r} for words outside the vocabulary: choose {_listed(UNKNOWN_POLICIES)}"
            )
        if mechanism.outputs.rows is None:
            raise InputError(
                "the outputs of this mechanism are points without words: make one whose outputs are records"
            )
        self.summary = TextSummary()
        self._mechanism, self._policy, self._keep = mechanism, unknown, keep_punctuation
        # a draw is one word or more in one line, whatever the vocabulary holds
        self._spelled = [" ".join(name.split()) for name in mechanism.outputs.ids(mechanism.records)]
        self._row_of = {name: row for row, name in enumerate(mechanism.records.ids)}
        self._is_alone = mechanism.guarantee.is_isolated
        self._allow_unprotected = allow_unprotected
        self._remembered = lru_cache(maxsize=1 << 16)(self._pieces)
        self._is_line_start = True
        self._line, self._first_unknown = 1, 0

    def write(self, block: str, target: Target) -> None:
        """Write the perturbed words of ``block``, which cuts no word."""
        target.write(self._drawn(self._parts(block)))

    def texts(self, texts: Sequence[str]) -> list[str]:
        """Return each of ``texts`` perturbed, all drawn at once; texts are counted in place of lines."""
        parts: list[str | int] = []
        for number, text in enumerate(texts, start=1):
            self._is_line_start, is_first = True, not self._first_unknown
            parts += [*self._parts(text), BETWEEN_TEXTS]
            if is_first and self._first_unknown:
                self._first_unknown = number
        return self._drawn(parts).split(BETWEEN_TEXTS)[: len(texts)]

    def _parts(self, block: str) -> list[str | int]:
        """Return what replaces ``block``: rows to draw for, and text."""
        parts: list[str | int] = []
        for number, line in enumerate(block.split("\n")):
            if number:
                parts.append("\n")
                self._line += 1
                self._is_line_start = True
            for chunk in line.split():
                made = self._perturbed(chunk)
                if made:
                    if not self._is_line_start:
                        parts.append(" ")
                    parts += made
                    self._is_line_start = False
        return parts

    def _drawn(self, parts: list[str | int]) -> str:
        """Return the text of ``parts`` with a draw for each row."""
        rows = np.array([part for part in parts if isinstance(part, int)], dtype=np.int64)
        drawn = iter(self._mechanism.perturb_rows(rows, allow_unprotected=True).tolist())
        return "".join(self._spelled[next(drawn)] if isinstance(part, int) else part for part in parts)

    def refuse_if_asked(self, source: str | Path, *, unit: str = "line") -> None:
        """Refuse the text if it had unknown words and that is the policy; the words themselves are not named."""
        count = self.summary.unknown + (0 if self._allow_unprotected else self.summary.unprotected)
        if not count or self._policy != "refuse":
            return
        alone = "" if self._allow_unprotected else f" ({self.summary.unprotected} of them without any neighbour in it)"
        raise InputError(
            f"{count} of {count + self.summary.words} words of {source} are not protected by the vocabulary"
            f"{alone}, the first in {unit} {self._first_unknown}: nothing was written; drop or mask them"
        )

    def _perturbed(self, chunk: str) -> list[str | int]:
        """Return what replaces ``chunk`` in the perturbed text: rows to draw for, and text; nothing if dropped."""
        pieces = self._remembered(chunk) if len(chunk) <= LONGEST_CACHED_CHUNK else self._pieces(chunk)
        made: list[str | int] = []
        n_words = n_hidden = 0
        is_joined = True  # whether a kept mark stands before the next word
        for piece in pieces:
            if isinstance(piece, str):
                if self._keep and piece in KEPT_PUNCTUATION:
                    made.append(piece)
                    is_joined = True
                else:
                    self.summary.punctuation += 1
                continue
            shown = self._shown(piece)
            n_hidden += shown is None
            if shown is not None:
                if not is_joined:
                    made.append(" ")
                made.append(shown)
                n_words += 1
                is_joined = False
        # marks around words that were all dropped would show where these were
        return [] if n_hidden and not n_words else made

    def _shown(self, piece: int | None) -> int | str | None:
        if piece is not None and self._is_alone[piece]:
            self.summary.unprotected += 1
            if not self._allow_unprotected:
                piece = None
        elif piece is None:
            self.summary.unknown += 1
        if piece is not None:
            self.summary.words += 1
            return piece
        self._first_unknown = self._first_unknown or self._line
        return MASK if self._policy == "mask" else None

    def _pieces(self, chunk: str) -> tuple[Piece, ...]:
        """Split the text between blanks into words and punctuation marks."""
        row = self._row(chunk)
        if row is not None:
            return (row,)
        start, end = 0, len(chunk)
        while start < end and _is_mark(chunk[start]):
            start += 1
        while end > start and _is_mark(chunk[end - 1]):
            end -= 1
        # an abbreviation may end with a point of its own
        for stop in (end + 1, end):
            row = self._row(chunk[start:stop])
            if row is not None:
                return (*chunk[:start], row, *chunk[stop:])
        return (*chunk[:start], *self._split(chunk[start:end]), *chunk[end:])

    def _split(self, core: str) -> Iterator[Piece]:
        """Split at every mark but apostrophes, which belong to their word."""
        start = 0
        for position, sign in enumerate(core):
            if _is_mark(sign) and sign not in APOSTROPHES:
                if position > start:
                    yield self._row(core[start:position])
                yield sign
                start = position + 1
        if start < len(core):
            yield self._row(core[start:])

    def _row(self, word: str) -> int | None:
        """Look a word up: unchanged, then in lower case, then with composed characters and plain apostrophes."""
        row = self._row_of.get(word)
        if row is None:
            row = self._row_of.get(word.lower())
        if row is None and not word.isascii():
            row = self._row_of.get(unicodedata.normalize("NFC", word).replace("’", "'").lower())
        return row


def _is_mark(sign: str) -> bool:
    return unicodedata.category(sign).startswith("P")


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"
