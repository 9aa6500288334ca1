"""The features of a GeoJSON file one after the other, without keeping the whole file in memory."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from metricdp.errors import FileFormatError, InputError, revealed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from metricdp.data.readers.streams import TextSource

LONGEST_VALUE = 1 << 24
BLANKS = re.compile(r"[ \t\n\r]*")
NUMBER_CONTINUATIONS = ("", ".", "e", "E")  # after these a number that was read so far may continue
DEGREES_CRS = ("CRS84", "4326")
GEOMETRIES = (
    "Point",
    "MultiPoint",
    "LineString",
    "MultiLineString",
    "Polygon",
    "MultiPolygon",
    "GeometryCollection",
)


@dataclass(frozen=True, repr=False)
class Feature:
    """One feature of the file, unchanged."""

    content: Any
    where: str

    def __repr__(self) -> str:
        return f"Feature({self.where!r})"

    @property
    def properties(self) -> dict[str, Any]:
        """Its properties; none if it has no object of them."""
        return self._member("properties")

    @property
    def geometry(self) -> dict[str, Any]:
        """Its geometry; empty if it has none."""
        return self._member("geometry")

    def _member(self, name: str) -> dict[str, Any]:
        found = self.content.get(name) if isinstance(self.content, dict) else None
        return found if isinstance(found, dict) else {}

    def place(self) -> tuple[float, float]:
        """Return latitude and longitude of a Point."""
        kind = self.geometry.get("type")
        if kind != "Point":
            known = kind if kind is None or kind in GEOMETRIES else f"of another kind{revealed(kind)}"
            raise InputError(f"{self.where} has the geometry {known}: only Points can be perturbed; remove it")
        position = self.geometry.get("coordinates")
        if not isinstance(position, list) or len(position) < 2 or not all(map(is_number, position[:2])):
            raise InputError(f"{self.where} has coordinates that are not [longitude, latitude]: give both in degrees")
        try:
            return float(position[1]), float(position[0])
        except OverflowError:
            raise InputError(f"{self.where} has coordinates that are too large: give degrees") from None

    def id(self) -> str:
        """Return its id, or its property id."""
        own = self.content.get("id") if isinstance(self.content, dict) else None
        found = self.properties.get("id") if own is None else own
        if found is None:
            raise InputError(
                f"{self.where} has no id: name a record of the mechanism, or give a snap limit to snap its coordinates "
                "to the nearest record"
            )
        return str(found)


def features(source: TextSource) -> Iterator[Feature]:
    """Yield the features of a FeatureCollection in turn.

    Other members of the collection are skipped, but a reference system other than degrees is refused.
    """
    text = _Text(source)
    if text.is_at_end():
        raise InputError(f"{source.path} is empty: give a file with at least one record")
    text.expect("{", "a GeoJSON FeatureCollection of Points")
    has_features = False
    if not text.skip("}"):
        while True:
            key = text.value()
            text.expect(":", "a colon after each name")
            if key == "features":
                if has_features:
                    raise FileFormatError(f"{source.path} has two lists of features: keep one")
                has_features = True
                yield from _elements(text, source)
            else:
                _check_member(key, text.value(), source)
            if not text.skip(","):
                break
        text.expect("}", "the end of the collection")
    text.expect_end()
    if not has_features:
        raise FileFormatError(f"{source.path} has no list of features: give a GeoJSON FeatureCollection of Points")


def _elements(text: _Text, source: TextSource) -> Iterator[Feature]:
    text.expect("[", "a list of features")
    if text.skip("]"):
        raise InputError(f"{source.path} has no features: give at least one Point")
    number = 0
    while True:
        yield Feature(text.value(), f"{source.path}, feature {number}")
        number += 1
        if not text.skip(","):
            break
    text.expect("]", "a comma or the end of the features")


def _check_member(key: Any, value: Any, source: TextSource) -> None:
    if key != "crs" or value is None:
        return
    name = json.dumps(value)
    if not any(known in name for known in DEGREES_CRS):
        raise InputError(f"{source.path} has the reference system {name:.80}: convert it to degrees (EPSG:4326)")


class _Text:
    """JSON values and characters taken from the front of a text that is read as needed."""

    def __init__(self, source: TextSource) -> None:
        self._source = source
        self._decoder = json.JSONDecoder()
        self._buffer, self._at, self._is_all = "", 0, False

    def value(self) -> Any:
        """Take the next JSON value."""
        self._sign()
        while True:
            fault = ""
            try:
                value, end = self._decoder.raw_decode(self._buffer, self._at)
            except (ValueError, RecursionError) as error:
                if self._is_all or isinstance(error, RecursionError):
                    fault = getattr(error, "msg", str(error))
            else:
                # a number may continue in the part that is not read yet, even after its point
                if self._is_all or self._buffer[end : end + 1] not in NUMBER_CONTINUATIONS:
                    self._at = end
                    return value
            if fault:  # raised here, since the decoder's error contains the text
                raise self._broken(fault)
            if len(self._buffer) - self._at > LONGEST_VALUE:
                raise self._broken(f"a value of more than {LONGEST_VALUE:,} characters")
            # at least twice as much, so that a long value is not tried too often
            wanted = 2 * (len(self._buffer) - self._at)
            while len(self._buffer) - self._at < wanted and self._more():
                pass

    def skip(self, sign: str) -> bool:
        """Take ``sign`` if it comes next; return whether it did."""
        is_next = self._sign() == sign
        self._at += is_next
        return is_next

    def expect(self, sign: str, what: str) -> None:
        """Take ``sign``; raise an error that names ``what`` if it is missing."""
        if not self.skip(sign):
            raise self._broken(f"{what} was expected")

    def is_at_end(self) -> bool:
        """Return whether only blanks are left."""
        return not self._sign()

    def expect_end(self) -> None:
        """Raise an error if anything but blanks follows."""
        if not self.is_at_end():
            raise self._broken("text after the collection")

    def _sign(self) -> str:
        while True:
            match = BLANKS.match(self._buffer, self._at)
            self._at = self._at if match is None else match.end()
            if self._at < len(self._buffer):
                return self._buffer[self._at]
            if not self._more():
                return ""

    def _more(self) -> bool:
        piece = "" if self._is_all else self._source.read()
        self._buffer, self._at = self._buffer[self._at :] + piece, 0
        self._is_all = not piece
        return bool(piece)

    def _broken(self, why: str) -> FileFormatError:
        return FileFormatError(f"{self._source.path} is not GeoJSON ({why}): save it again as GeoJSON")


def is_number(value: Any) -> bool:
    """Return whether a JSON value is a number; Python also counts true and false as numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool)
