"""Make the shipped street network of Gothenburg from OpenStreetMap data.

The data is ``package/test/large-network.json`` of the npm package geojson-path-finder 2.1.0:

    npm pack geojson-path-finder@2.1.0
    python tools/make_gothenburg.py geojson-path-finder-2.1.0.tgz

Points of drivable streets (``metricdp.data.drivable``) that have the same coordinates are joined, and the streets are
contracted to intersections and dead ends (``metricdp.data.intersections``). The same input gives the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from metricdp.data.drivable import is_drivable
from metricdp.data.intersections import contract

MEMBER = "package/test/large-network.json"
TARGET = Path(__file__).parents[1] / "src/metricdp/data/files/gothenburg.safetensors"
UNITS_PER_DEGREE = 10_000_000  # OpenStreetMap's own resolution, so nothing is lost
MILLIMETRES_PER_KM = 1_000_000


def read_network(package: Path) -> dict[str, Any]:
    """Return the GeoJSON document inside the npm package."""
    with tarfile.open(package) as archive:
        member = archive.extractfile(MEMBER)
        if member is None:
            raise SystemExit(f"{package} has no file {MEMBER}: give geojson-path-finder-2.1.0.tgz")
        return json.load(member)


def drawn_lines(network: dict[str, Any]) -> list[np.ndarray]:
    """Return the points of each drivable street as whole 1e-7 degrees (latitude, longitude)."""
    return [
        np.rint(np.array(feature["geometry"]["coordinates"])[:, ::-1] * UNITS_PER_DEGREE).astype(np.int64)
        for feature in network["features"]
        if feature["geometry"]["type"] == "LineString" and is_drivable(feature["properties"])
    ]


def main() -> None:
    """Write the file and say what is in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=Path, help="geojson-path-finder-2.1.0.tgz")
    parser.add_argument("--output", type=Path, default=TARGET)
    options = parser.parse_args()

    lines = drawn_lines(read_network(options.package))
    points, row = np.unique(np.concatenate(lines), axis=0, return_inverse=True)
    # neighbouring points of one line are a segment; the last point of a line and the first of the next are not
    is_last = np.zeros(len(row), dtype=bool)
    is_last[np.cumsum([len(line) for line in lines]) - 1] = True
    segments = np.column_stack([row[:-1], row[1:]])[~is_last[:-1]]
    streets, kept = contract(points / UNITS_PER_DEGREE, segments)

    data = save(
        {
            "coordinates": points[kept].astype(np.int32),
            "edges": streets.edges.astype(np.int16),
            # rounded up, so that no street is shorter than the straight line between its ends
            "lengths": np.ceil(streets.lengths * MILLIMETRES_PER_KM).astype(np.uint32),
        },
        metadata={"about": "Gothenburg, © OpenStreetMap contributors, ODbL 1.0; 1e-7 degrees, rows, millimetres"},
    )
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_bytes(data)
    print(f"{len(lines)} ways, {len(points)} points, {len(segments)} segments")
    print(f"{streets.n_nodes} intersections, {streets.n_edges} streets, {streets.lengths.sum():.1f} km")
    print(f"{options.output}: {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}")


if __name__ == "__main__":
    main()
