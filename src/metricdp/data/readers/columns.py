"""Which columns of a table hold coordinates, ids and weights."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from metricdp.errors import InputError, revealed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metricdp.data.records import Kind

_NAMES = {
    "latitude": ("lat", "latitude"),
    "longitude": ("lon", "lng", "long", "longitude"),
    "id": ("id", "osmid"),
    "weight": ("weight", "prior"),
}
USUAL_NAMES = frozenset({*(name for names in _NAMES.values() for name in names), "x", "y", "report"})  # of a header


@dataclass(frozen=True)
class Layout:
    """The positions of the columns that make records."""

    kind: Kind
    coordinates: tuple[int, ...]
    id: int | None
    weight: int | None


def find_columns(names: Sequence[object], source: object) -> Layout:
    """Find coordinates, ids and weights by the names of the columns, whatever their case.

    Places have latitude and longitude; vectors have x, y, z (or fewer) or numbered columns such as x1, x2, ...

    Examples
    --------
    >>> find_columns(["osmid", "Lat", "Lng"], "nodes.csv")
    Layout(kind='places', coordinates=(1, 2), id=0, weight=None)
    """
    keys = [str(name).strip().lower() for name in names]
    position = {what: _position(keys, accepted, source) for what, accepted in _NAMES.items()}
    latitude, longitude = position["latitude"], position["longitude"]
    if latitude is not None and longitude is not None:
        return Layout("places", (latitude, longitude), position["id"], position["weight"])
    axes = _axes(keys, source)
    if not axes:
        hint = "; separate columns with commas" if len(keys) == 1 and re.search(r"[;\t|]", "".join(keys)) else ""
        raise InputError(
            f"{source} has the columns {listed(names)}, but it needs lat and lon (places) or "
            f"x, y, ... or x1, x2, ... (vectors): rename them{hint}"
        )
    return Layout("vectors", axes, position["id"], position["weight"])


def listed(names: Sequence[object]) -> str:
    """Return the first names of columns for a message."""
    shown = [repr(str(name)[:40]) for name in names[:8]]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")


def not_one_column(source: object, name: str, names: Sequence[str]) -> InputError:
    """Return the error for a column that is missing or there twice, with the names of the others.

    Without a header the first line holds values, which are secret: only usual names are shown.
    """
    n = names.count(name)
    usual = [other for other in names if other.strip().lower() in USUAL_NAMES]
    more = f" and {len(names) - len(usual)} more" if len(usual) < len(names) else ""
    others = (f"; it has {listed(usual)}{more}" if usual else "") + revealed(listed(names))
    what = f"{n} columns" if n else "no column"
    return InputError(f"{source} has {what} {name!r}{others}: name one column of its first line")


def _position(keys: list[str], accepted: tuple[str, ...], source: object) -> int | None:
    for key in accepted:
        if keys.count(key) > 1:
            raise InputError(f"{source} has {keys.count(key)} columns named {key!r}: keep one of them")
        if key in keys:
            return keys.index(key)
    return None


def _axes(keys: list[str], source: object) -> tuple[int, ...]:
    lettered = [position for axis in "xyz" if (position := _position(keys, (axis,), source)) is not None]
    if lettered:
        found = [keys[position] for position in lettered]
        if found != list("xyz"[: len(found)]):
            raise InputError(f"{source} has the columns {', '.join(found)}: vectors need x, then y, then z")
        return tuple(lettered)
    numbered = sorted((int(key[1:]), position) for position, key in enumerate(keys) if re.fullmatch("x[0-9]{1,6}", key))
    numbers = [number for number, _ in numbered]
    if numbers and (numbers[0] > 1 or numbers != list(range(numbers[0], numbers[0] + len(numbers)))):
        present = listed([keys[position] for _, position in numbered])
        raise InputError(f"{source} has the columns {present}: number them x1, x2, ... without gaps")
    return tuple(position for _, position in numbered)
