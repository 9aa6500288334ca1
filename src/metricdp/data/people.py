"""Signs that a list of records, which becomes public with the mechanism, is data about people."""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
import zlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from metricdp.data.readers.columns import listed
from metricdp.data.readers.files import format_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike

    from numpy.typing import NDArray

    from metricdp.data.records import Records

NOTABLE_SHARE = 0.01  # of all records in the same place as another one: a public list names each place once
NEAR_NOTABLE_SHARE = 0.1  # of all places close to another one; 1.6 % of the intersections of a city are
NEAR_DECIMALS = 4  # of a degree: 11 m
PEEKED_BYTES = 1 << 16
TELLING_WORD = re.compile(  # of a column's name: persons, what they carry, and times
    "(user(id|name)?|person|people|device|imei|imsi|msisdn|phone|mobile|telephone|tel|mail|email|customer|client|patient"
    "|passenger|driver|employee|subscriber|visitor|resident|citizen|household|surname|firstname|lastname|nickname"
    "|time|timestamp|datetime|date|birthday)s?"
)
TELLING_NAME = re.compile("((first|last|full|family|given) )?names?")
PERSONAL_ID = re.compile(r"[^@\s]+@[^@\s]+\.[a-zA-Z]{2,}|\d{4}-\d\d-\d\d([ T].*)?")  # a mail address, a time


def publication_warning(records: Records, *, columns: Iterable[object] = ()) -> str | None:
    """Return a warning if ``records`` look like people's data, None if they do not.

    A mechanism does not hide its records: they are in its file and in every page made from it. A list of places that
    people visited reveals these people, whatever epsilon is.

    Parameters
    ----------
    columns
        The names of all columns of the table that the records were taken from.

    Examples
    --------
    >>> from metricdp.data.records import Records
    >>> homes = Records([[57.70, 11.97], [57.71, 11.98]])
    >>> publication_warning(homes) is None
    True
    >>> print(publication_warning(homes, columns=["user", "lat", "lon"]).partition(". ")[0])
    'records' looks like data about people (a column named 'user')
    """
    signs = [*_telling_names(columns), *_telling_ids(records), *_repeated(records.coordinates, records.kind)]
    if not signs:
        return None
    return (
        f"{records.name!r} looks like data about people ({'; '.join(signs)}). Records are not hidden: each id, each "
        "coordinate and each weight can be read in the mechanism's file and in pages made from it. Use a public list "
        "instead: distinct, rounded places (street corners, a grid), without any column about persons."
    )


def repetition_warning(points: NDArray[np.float64]) -> str | None:
    """Return a warning if many of the rows of ``points`` are the same, as in data about people; None if not."""
    signs = _repeated(points, "vectors")
    if not signs:
        return None
    return (
        f"X looks like data about people ({signs[0]}): fit takes a public list, and its rows and how often each occurs "
        "can be read in the mechanism; fit on distinct public rows, and transform the secret ones"
    )


def column_names(source: str | PathLike[str]) -> list[str]:
    """Return the names of all columns of a CSV file or of the first feature's properties; none for anything else."""
    path, suffix = Path(source), format_of(source)
    if suffix not in (".csv", ".geojson", ".json"):
        return []
    text = ""
    with suppress(OSError, EOFError, zlib.error):
        if path.is_file():  # a pipe can be read once only
            text = _beginning(path)
    if suffix == ".csv":
        with suppress(csv.Error):
            return [name.strip() for name in next(csv.reader(text.splitlines()), [])]
        return []
    start = re.search(r'"properties"\s*:\s*(?=\{)', text[text.find('"features"') :])
    with suppress(ValueError):
        if start is not None:
            return list(json.JSONDecoder().raw_decode(text[text.find('"features"') + start.end() :])[0])
    return []


def _beginning(path: Path) -> str:
    with path.open("rb") as raw:
        is_packed = raw.peek(2).startswith(b"\x1f\x8b")
        content = (gzip.GzipFile(fileobj=raw) if is_packed else raw).read(PEEKED_BYTES)
    return content.decode("utf-8-sig", "replace")


def _telling_names(columns: Iterable[object]) -> list[str]:
    found = [name for name in columns if _is_telling(str(name))]
    return [f"{'a column' if len(found) == 1 else 'columns'} named {listed(found)}"] if found else []


def _is_telling(name: str) -> bool:
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]
    return any(map(TELLING_WORD.fullmatch, words)) or TELLING_NAME.fullmatch(" ".join(words)) is not None


def _telling_ids(records: Records) -> list[str]:
    n_found = sum(PERSONAL_ID.fullmatch(name) is not None for name in records.ids)
    return [f"{n_found} ids are mail addresses or times"] if n_found >= NEAR_NOTABLE_SHARE * records.n else []


def _repeated(points: NDArray[np.float64], kind: str) -> list[str]:
    n = len(points)
    n_repeats = n - _n_distinct(points, least=NOTABLE_SHARE)
    if n_repeats:
        return [f"{n:,} records at {n - n_repeats:,} distinct places"]
    n_repeats = n - _n_distinct(np.round(points, NEAR_DECIMALS), least=NEAR_NOTABLE_SHARE) if kind == "places" else 0
    return [f"{n_repeats:,} of {n:,} records within some 10 m of another one"] if n_repeats else []


def _n_distinct(points: NDArray[np.float64], *, least: float) -> int:
    """Return the number of distinct rows; all of them if fewer than 2 or than a share ``least`` are repeats."""
    most = len(points) - max(2, math.ceil(least * len(points)))
    if len(np.unique(points[:, 0])) > most:  # quick, and with many coordinates enough
        return len(points)
    n_distinct = len(np.unique(points, axis=0))
    return n_distinct if n_distinct <= most else len(points)
