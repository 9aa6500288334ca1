"""Records by a short name, as on the command line: ``road:gothenburg``, ``grid:20x25``, ``words``, or a file's path."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from metricdp.data.gaussian import gaussian
from metricdp.data.grid import grid
from metricdp.data.readers import read_records, read_rows, read_streets
from metricdp.data.readers.files import is_there
from metricdp.data.road import road
from metricdp.data.words import WORDS_ETA, words
from metricdp.errors import InputError

if TYPE_CHECKING:
    from metricdp.data.records import Records

GAUSSIAN_RECORDS = 2_000
DEFAULT_ETA = {"road": 0.5, "grid": 2.0, "words": WORDS_ETA, "gaussian": 2.0}
KNOWN_DATASETS = "road:gothenburg, grid:ROWSxCOLUMNS, words, gaussian, or the path of a file"


def named(source: str, *, streets: str | None = None, seed: int = 0, memory_limit: float | None = None) -> Records:
    """Return all records of a shipped data set or of a file, with its streets if a file of them is named.

    Reading a file may take ``memory_limit`` gigabytes, by default half of the free memory.

    Examples
    --------
    >>> named("grid:2x3").n
    6
    """
    family, _, detail = source.partition(":")
    if is_there(source) or family not in DEFAULT_ETA:
        return _from_file(source, streets, memory_limit)
    if streets is not None:
        raise InputError(f"the streets {streets} go with a file of places, not with {source}: leave them out")
    if family == "grid":
        return _grid(detail or "20x25", source)
    if family == "road":
        return road(detail or "gothenburg")
    if detail:
        raise InputError(f"unknown dataset {source!r}: {family} takes no detail; use {KNOWN_DATASETS}")
    return words() if family == "words" else gaussian(GAUSSIAN_RECORDS, seed=seed)


def default_eta(source: str) -> float | None:
    """Return the neighbour distance that suits a shipped data set; None for files."""
    return None if is_there(source) else DEFAULT_ETA.get(source.partition(":")[0])


def chosen(records: Records, choice: str | None, *, seed: int, option: str = "records") -> Records:
    """Return the records that ``choice`` names: a count drawn with ``seed``, or a file of row numbers; None: all.

    ``option`` is the name of the choice in errors.
    """
    if choice is None:
        return records
    if re.fullmatch(r"[+-]?\d+", choice):
        return records.sample(int(choice), seed=seed)
    return records.select(read_rows(file_named(option, choice, "a whole number")))


def file_named(option: str, value: str, *words: str) -> str:
    """Return ``value`` if it names an existing file; otherwise raise an error that lists what ``option`` takes."""
    if not is_there(value):
        raise InputError(f"{option} must be {', '.join(words)} or the path of a file that exists, got {value!r}")
    return value


def _from_file(source: str, streets: str | None, memory_limit: float | None) -> Records:
    if not is_there(source):
        raise InputError(f"unknown dataset {source!r}, and no such file: use {KNOWN_DATASETS}")
    records = read_records(source, memory_limit=memory_limit)
    if streets is None:
        return records
    return records.with_streets(read_streets(streets, records, memory_limit=memory_limit))


def _grid(detail: str, source: str) -> Records:
    match = re.fullmatch(r"(\d+)x(\d+)", detail)
    if match is None or int(match[1]) < 1 or int(match[2]) < 1:
        raise InputError(f"{source!r} is not a grid: write rows and columns such as grid:20x25")
    return grid(int(match[1]), int(match[2]))
