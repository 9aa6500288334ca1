"""Reader of street networks in GraphML, as osmnx saves them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree.ElementTree import ParseError, XMLParser

import numpy as np

from metricdp.data.geodesy import haversine_km
from metricdp.data.intersections import merge_parallel
from metricdp.data.readers.files import stem
from metricdp.data.readers.streams import MAX_UNPACK_RATIO, Allowance, ByteSource
from metricdp.data.records import Records
from metricdp.data.streets import StreetNetwork
from metricdp.errors import FileFormatError, InputError

if TYPE_CHECKING:
    from os import PathLike

BYTES_PER_ELEMENT = 600  # a node or street as Python's texts and numbers, as rows, and as records
LONGEST_VALUES = 1 << 24  # characters of all values of a node or street


def read_graphml(path: str | PathLike[str], *, memory_limit: float | None = None) -> Records:
    """Read intersections and streets from a GraphML file as ``osmnx.save_graphml`` writes it.

    Every node is a record, with its id. Streets lose their direction; of parallel ones the shortest stays, and one
    from a node to itself is dropped.

    Parameters
    ----------
    path
        A file, gzip or not, whose nodes have ``y`` (latitude) and ``x`` (longitude) in degrees and whose edges have
        ``length`` in metres; if no edge has one, streets are as long as the great-circle distance of their ends.
    memory_limit
        Gigabytes that reading may take; by default half of the free memory.
    """
    graph = _GraphReader(str(path), Allowance(path, memory_limit))
    parser = XMLParser(target=graph)  # noqa: S314  a DTD, which the known attacks need, is refused
    try:
        with ByteSource(path, most_ratio=MAX_UNPACK_RATIO) as source:
            for piece in source.pieces():
                parser.feed(piece)
        parser.close()
    except (ParseError, ValueError, LookupError) as error:
        if isinstance(error, InputError):
            raise
        raise FileFormatError(f"{path} is not GraphML ({error}): save it with osmnx.save_graphml") from None
    if not graph.nodes:
        raise InputError(f"{path} has no nodes: save a street network with osmnx.save_graphml")
    coordinates = np.array(list(graph.nodes.values()))
    streets = _streets(graph, coordinates)
    return Records(
        coordinates, ids=graph.nodes, name=stem(path), streets=streets, street_nodes=np.arange(len(coordinates))
    )


def _streets(graph: _GraphReader, coordinates: np.ndarray) -> StreetNetwork:
    row = {name: number for number, name in enumerate(graph.nodes)}
    unknown = next((end for ends in graph.edges for end in ends if end not in row), None)
    if unknown is not None:
        raise FileFormatError(
            f"{graph.source} has a street at node {unknown!r}, which is not in the file: save it again"
        )
    edges = np.array([(row[u], row[v]) for u, v in graph.edges], dtype=np.int64).reshape(len(graph.edges), 2)
    metres = np.array([np.nan if length is None else length for length in graph.metres], dtype=np.float64)
    is_missing = np.isnan(metres)
    n_missing = int(is_missing.sum())
    if 0 < n_missing < len(metres):
        u, v = graph.edges[int(np.flatnonzero(is_missing)[0])]
        raise InputError(
            f"{graph.source}: the street from {u} to {v} has no length though others have "
            f"({n_missing} such streets): give all streets a length in metres or none"
        )
    km = haversine_km(coordinates[edges[:, 0]], coordinates[edges[:, 1]]) if n_missing else metres / 1000.0
    edges, km = merge_parallel(edges, km)
    return StreetNetwork(coordinates, edges.astype(np.int32), km)


class _GraphReader:
    """Gathers nodes and edges while the parser goes through the file; no tree is built."""

    def __init__(self, source: str, allowance: Allowance) -> None:
        self.source, self._allowance = source, allowance
        self.nodes: dict[str, tuple[float, float]] = {}
        self.edges: list[tuple[str, str]] = []
        self.metres: list[float | None] = []
        self._names: dict[tuple[str, str], str] = {}
        self._owner: dict[str, str] = {}
        self._values: dict[str, str] = {}
        self._key: str | None = None
        self._text: list[str] = []
        self._n_characters = 0

    def doctype(self, *_: str | None) -> None:
        """Refuse a document type, which could declare entities."""
        raise FileFormatError(f"{self.source} declares a document type (DTD), which is refused: remove the declaration")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Begin an element."""
        match tag.rpartition("}")[2]:
            case "key":
                name = attributes.get("attr.name", "")
                self._names[attributes.get("for", "all"), attributes.get("id", "")] = name
                self._allowance.take(BYTES_PER_ELEMENT)
            case "node" | "edge":
                self._owner, self._values, self._n_characters = attributes, {}, 0
            case "data":
                self._key, self._text = attributes.get("key", ""), []

    def data(self, text: str) -> None:
        """Collect the text of a value."""
        if self._key is not None:
            self._text.append(text)
            self._n_characters += len(text)
            if self._n_characters > LONGEST_VALUES:
                raise FileFormatError(
                    f"{self.source} has an element with more than {LONGEST_VALUES:,} characters: save it with "
                    "osmnx.save_graphml"
                )

    def end(self, tag: str) -> None:
        """End an element and store it."""
        match tag.rpartition("}")[2]:
            case "data" if self._key is not None:
                self._values[self._key] = "".join(self._text)
                self._key = None
            case "node":
                self._add_node()
            case "edge":
                self._allowance.take(BYTES_PER_ELEMENT + sum(map(len, self._owner.values())))
                self.edges.append((self._owner.get("source", ""), self._owner.get("target", "")))
                self.metres.append(self._number("edge", "length", f"street {self.edges[-1][0]} to {self.edges[-1][1]}"))

    def close(self) -> None:
        """Do nothing: all elements are stored."""

    def _add_node(self) -> None:
        name = self._owner.get("id", "")
        self._allowance.take(BYTES_PER_ELEMENT + len(name))
        if name in self.nodes:
            raise FileFormatError(f"{self.source} has node {name!r} more than once: save it again")
        latitude, longitude = (self._number("node", axis, f"node {name}") for axis in "yx")
        if latitude is None or longitude is None:
            raise InputError(f"{self.source}: node {name} has no x and y: save it with osmnx.save_graphml")
        self.nodes[name] = (latitude, longitude)

    def _number(self, element: str, wanted: str, where: str) -> float | None:
        for key, text in self._values.items():
            name = self._names.get((element, key), self._names.get(("all", key), key))
            if name == wanted:
                try:
                    value = float(text)
                except ValueError:
                    value = np.nan
                if not np.isfinite(value):
                    raise InputError(f"{self.source}: {where} has {wanted} = {text!r:.40}: it must be a finite number")
                return value
        return None
