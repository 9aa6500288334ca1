"""Make the test vectors of files of regions, metricdp-3: tests/mechanism/vectors/regions.

    python -m tools.make_plane_vectors [FOLDER]

From the repository's folder. Everything is drawn with fixed seeds; only the times of creation differ.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

import numpy as np

import metricdp as mdp
from metricdp.mechanism.plane import PlaneMechanism
from metricdp.mechanism.plane_certify import exact_weights
from metricdp.problem.outputs import Outputs
from metricdp.solve.plane.repair import whole

FOLDER = Path(__file__).parents[1] / "tests" / "mechanism" / "vectors" / "regions"
REGIONS = {
    "rome": mdp.data.region(41.88, 12.46, 41.898, 12.484, spacing=0.9),
    "south": mdp.data.region(-33.95, -70.0, -33.9, -69.9, spacing=4.0, margin=0.0),
    "square": mdp.data.region(-1.0, 0.0, 2.0, 2.0, spacing=0.8, kind="vectors"),
    "triangles": mdp.data.region(41.88, 12.46, 41.898, 12.484, spacing=0.9, weights="triangles"),
}
DRAWS = 60


def mechanism_of(name: str) -> PlaneMechanism:
    """Return a small mechanism at the least epsilon that it passes with; every second one has names of outputs."""
    region, rng = REGIONS[name], np.random.default_rng(len(name))
    outputs = Outputs.of(region.inner[:3], region.records, seed=0)
    if name in ("rome", "triangles"):
        points = rng.uniform(region.low, region.high, (3, 2))
        outputs = Outputs(points, None, ("00184", "Piazza", "\u2116 3"))
    table = whole(1.0 + 0.2 * rng.random((region.n_nodes, 3)))
    loose = PlaneMechanism(table, region, outputs, 50.0)
    tight = loose.certificate.privacy.tightest_epsilon
    return PlaneMechanism(table, region, outputs, tight, mdp.mechanism.Optimality(2.0, 1.0), "by hand")


def draws_of(name: str, mechanism: PlaneMechanism) -> list[dict[str, object]]:
    """Return points, the numbers of a draw, and what must come of them."""
    region, rng = mechanism.region, np.random.default_rng(1)
    low, high = (np.array(corner) for corner in (region.low, region.high))
    points = low + rng.uniform(-0.02, 1.02, (DRAWS, 2)) * (high - low)
    points[:4] = [low, high, (low[0], high[1]), (low + high) / 2]
    steps = region.steps_of(points)
    found: list[dict[str, object]] = []
    for point, step in zip(points, steps, strict=True):
        numbers = [int(u) for u in rng.integers(0, 1 << 63, 3)]
        left = iter(numbers)
        drawn = mechanism.draw_points(point[None], bits=lambda n, left=left: np.full(n, next(left), dtype=np.uint64))
        found.append({
            "file": f"{name}.mdp", "point": [float(v).hex() for v in point], "steps": [str(v) for v in step.tolist()],
            "numbers": [str(u) for u in numbers], "output": int(drawn[0]),
        })  # fmt: skip
    return found


def main(folder: Path) -> None:
    """Write all files."""
    folder.mkdir(parents=True, exist_ok=True)
    draws, regions, verdicts = [], {}, []
    for name, region in REGIONS.items():
        mechanism, path = mechanism_of(name), folder / f"{name}.mdp"
        mechanism.save(path)
        draws += draws_of(name, mechanism)
        w, v = exact_weights(mechanism.epsilon, region.sides)
        regions[path.name] = {"cosine": region.cosine.hex(), "w": str(w), "v": str(v), "nodes": list(region.shape)}
        verdicts += verdicts_of(path, mechanism)
    for name, content in (("draws", draws), ("regions", regions), ("verdicts", verdicts)):
        (folder / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def verdicts_of(path: Path, mechanism: PlaneMechanism) -> list[dict[str, object]]:
    """Return the file itself, and the files of tables and metadata that a reader must refuse or accept."""
    from tests.mechanism.damage import packed, unpacked  # noqa: PLC0415  (beside the tests, which use it, too)

    metadata, tensors = unpacked(path.read_bytes())
    epsilon, table = mechanism.epsilon, tensors["table"]
    short, moved = table.copy(), table.copy()
    short[1, 0] -= np.uint64(1)
    moved[0, 0] += table[0, 1]
    moved[0, 1] = 0
    half = (np.array(mechanism.region.high) + mechanism.region.low) / 2
    cases = [
        ("as it is", True, metadata, tensors),
        ("twice the epsilon", True, metadata | {"epsilon": (2.0 * epsilon).hex()}, tensors),
        ("a smaller epsilon", False, metadata | {"epsilon": (0.999 * epsilon).hex()}, tensors),
        ("a smaller box", False, metadata | {"high": json.dumps([float(v).hex() for v in half])}, tensors),
        ("other weights", False, metadata | {"weights": "bspline3"}, tensors),
        ("another domain", False, metadata | {"domain": "sphere"}, tensors),
        ("one more key", False, metadata | {"note": "x"}, tensors),
        ("cells that are no whole numbers", False, metadata | {"cells": "[2.5, 3]"}, tensors),
        ("the same name twice", False, metadata | {"output_names": json.dumps(["a", "a", "b"])}, tensors),
        ("a row that sums to less", False, metadata, tensors | {"table": short}),
        ("a zero beside what is not zero", False, metadata, tensors | {"table": moved}),
    ]
    return [
        {"file": path.name, "what": what, "accept": accept, "base64": base64.b64encode(packed(*parts)).decode()}
        for what, accept, *parts in cases
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
