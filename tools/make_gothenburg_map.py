"""Make the shipped map of Gothenburg, for looking at: streets as they are drawn, their names, and squares.

The data is ``package/test/large-network.json`` of the npm package geojson-path-finder 2.1.0:

    npm pack geojson-path-finder@2.1.0
    python tools/make_gothenburg_map.py geojson-path-finder-2.1.0.tgz

Kept are drivable streets (``metricdp.data.drivable``), streets for walking that have a name, and squares, without
points that lie within `TOLERANCE_M` of the line through the others. The same input gives the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from make_gothenburg import TARGET as STREETS
from make_gothenburg import read_network
from safetensors.numpy import save

from metricdp.data.drivable import is_drivable
from metricdp.data.map_layers import KINDS, UNITS_PER_DEGREE
from metricdp.data.readers.layers import MAIN_STREETS

TARGET = STREETS.with_name("gothenburg-map.safetensors")
TOLERANCE_M = 4.0
METRES_PER_UNIT = np.array([111_195.0, 111_195.0 * np.cos(np.radians(57.7))]) / UNITS_PER_DEGREE


def kind_of(feature: dict[str, Any]) -> str | None:
    """Return what a way is drawn as, or None."""
    tags = feature["properties"]
    if feature["geometry"]["type"] == "Polygon":
        is_square = tags["highway"] in ("pedestrian", "footway") and len(tags.get("name", "")) > 1
        return "square" if is_square else None
    if is_drivable(tags):
        return "main street" if tags["highway"].removesuffix("_link") in MAIN_STREETS else "street"
    return "path" if tags["highway"] == "pedestrian" and len(tags.get("name", "")) > 1 else None


def simplified(line: np.ndarray) -> np.ndarray:
    """Return a line without the points that lie within the tolerance of what is kept (Douglas and Peucker)."""
    flat = line * METRES_PER_UNIT
    kept = np.zeros(len(line), dtype=bool)
    kept[[0, -1]] = True
    open_ends = [(0, len(line) - 1)]
    while open_ends:
        first, last = open_ends.pop()
        if last - first < 2:
            continue
        along, away = flat[last] - flat[first], flat[first + 1 : last] - flat[first]
        length = np.hypot(*along)
        off = np.abs(away @ np.array([-along[1], along[0]])) / length if length else np.hypot(*away.T)
        far = int(off.argmax())
        if off[far] > TOLERANCE_M:
            middle = first + 1 + far
            kept[middle] = True
            open_ends += [(first, middle), (middle, last)]
    return line[kept]


def joined(lines: list[np.ndarray]) -> list[np.ndarray]:
    """Return the lines of one street put together where one ends and another begins, so that its name has room."""
    waiting, found = [line.tolist() for line in lines], []
    while waiting:
        line = waiting.pop(0)
        place = 0
        while place < len(waiting):
            other = waiting[place]
            if other[-1] in (line[0], line[-1]) and other[0] not in (line[0], line[-1]):
                other = other[::-1]
            if line[-1] == other[0]:
                line = line + other[1:]
            elif line[0] == other[0]:
                line = other[::-1] + line[1:]
            else:
                place += 1
                continue
            waiting.pop(place)
            place = 0
        found.append(np.array(line))
    return found


def main() -> None:
    """Write the file and say what is in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path, help="geojson-path-finder-2.1.0.tgz")
    parser.add_argument("--output", type=Path, default=TARGET)
    options = parser.parse_args()

    gathered: dict[tuple[int, str], list[np.ndarray]] = {}
    for feature in read_network(options.package)["features"]:
        kind = kind_of(feature)
        if kind is None:
            continue
        drawn = feature["geometry"]["coordinates"]
        line = np.rint(np.array(drawn[0] if kind == "square" else drawn)[:, ::-1] * UNITS_PER_DEGREE).astype(np.int64)
        name = feature["properties"].get("name", "").replace("\n", " ")
        gathered.setdefault((KINDS.index(kind), name), []).append(line)

    for (kind, name), lines in gathered.items():
        if KINDS[kind] != "square":
            gathered[kind, name] = [simplified(line) for line in (joined(lines) if name else lines)]

    order = sorted(gathered)
    parts = [part for key in order for part in gathered[key]]
    points = np.concatenate(parts)
    origin = points.min(axis=0)
    data = save(
        {
            "origin": origin.astype(np.int32),
            "points": (points - origin).astype(np.uint16),
            "part_starts": np.cumsum([0, *map(len, parts)])[:-1].astype(np.uint32),
            "feature_starts": np.cumsum([0, *(len(gathered[key]) for key in order)])[:-1].astype(np.uint16),
            "kinds": np.array([kind for kind, _ in order], dtype=np.uint8),
            "names": np.frombuffer("\n".join(name for _, name in order).encode(), dtype=np.uint8),
        },
        metadata={"about": "Gothenburg, © OpenStreetMap contributors, ODbL 1.0; 1e-5 degrees"},
    )
    options.output.write_bytes(data)
    print(f"{len(order)} features, {len(parts)} lines and rings, {len(points)} points")
    print(f"{options.output}: {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}")


if __name__ == "__main__":
    main()
