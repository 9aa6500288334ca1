"""Make the test vectors for readers of mechanism files: ``python -m tools.make_vectors``.

They are for programs in any language, so they are committed, and changed only when the format gets a new version.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import math
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tests.mechanism.damage import damaged, grid_problem, harmless, sparse, split, unpacked

import metricdp as mdp
from metricdp.mechanism import container
from metricdp.mechanism.exact import exp_enclosure
from metricdp.mechanism.sample import cumulative, draw
from metricdp.mechanism.sample_sparse import draw_sparse, sparse_steps
from metricdp.mechanism.sparse import SparseTable
from metricdp.metric.distances import CoordinateMetric

if TYPE_CHECKING:
    from numpy.typing import NDArray

FOLDER = Path(__file__).parents[1] / "tests" / "mechanism" / "vectors"
CREATED = "2026-01-01T00:00:00+00:00"
TOTAL = 1 << 63


def mechanisms() -> dict[str, mdp.Mechanism]:
    """Return small mechanisms of both formats and all kinds of metrics."""
    city, corner = (
        mdp.data.road("gothenburg", n=8, seed=3),
        mdp.Records([[0.1, 0.2], [0.4, 0.6], [0.9, 0.3], [0.7, 0.7]], kind="vectors"),
    )
    line = np.abs(np.arange(5.0)[:, None] - np.arange(5.0))
    dateline = mdp.Records([[10.0, 179.99], [10.0, -179.99], [10.01, 180.0], [10.0, -180.0], [90.0, 0.0]])
    points = [[57.7, 11.9], [57.6, 12.0], [57.71, 11.98]]
    two = mdp.Records([[0.0], [1.0]], kind="vectors", name="two", ids=["left", "right"])
    return {
        "two-sparse": _two(mdp.Problem(two, epsilon=1.0, eta=1.0, outputs=[0, 1], loss="distance")),
        "dense-grid": mdp.exponential(mdp.Problem(mdp.data.grid(2, 3), epsilon=1.0, eta=1.0, outputs="random:4")),
        "dense-city": mdp.exponential(mdp.Problem(city, epsilon=0.7, eta=5.0, outputs=points, loss="distance")),
        "dense-matrix": mdp.exponential(
            mdp.Problem(np.arange(5.0), epsilon=1.0, eta=2.0, outputs="random:3", metric=line, loss=line[:, :3])
        ),
        "sparse-grid": sparse(grid_problem()),
        "sparse-city": sparse(mdp.Problem(city, epsilon=0.7, eta=5.0, outputs=np.arange(8))),
        "sparse-dateline": sparse(mdp.Problem(dateline, epsilon=0.5, eta=3.0, outputs=np.arange(5), loss="distance")),
        "sparse-manhattan": sparse(
            mdp.Problem(corner, epsilon=2.0, eta=np.inf, outputs=[3, 1, 0], metric="manhattan", loss=np.ones((4, 3)))
        ),
        "sparse-points": sparse(
            mdp.Problem(corner, epsilon=2.0, eta=1.0, outputs=[[0.5, 0.5], [0.0, 1.0]], loss="distance")
        ),
        "sparse-matrix": sparse(
            mdp.Problem(np.arange(5.0), epsilon=1.0, eta=2.0, outputs=np.arange(5), metric=line, loss=line)
        ),
        "dense-own": mdp.solve(
            mdp.Problem(corner, epsilon=[2.0, 0.5, 1.25, 3.0], eta=1.0, outputs=[3, 1, 0]), method="direct"
        ).mechanism,
        "sparse-own": own_sparse(mdp.Problem(mdp.data.grid(2, 3), epsilon=[0.75, 1.0, 2.0, 1.0, 1.5, 1.25], eta=1.0)),
    }  # fmt: skip


def own_sparse(problem: mdp.Problem) -> mdp.Mechanism:
    """Return a sparse mechanism whose records have epsilons of their own."""
    return mdp.Mechanism.of(problem, sparse(problem.at_one_epsilon).table)


def _two(problem: mdp.Problem) -> mdp.Mechanism:
    """Return the worked example of docs/file-format.md: 5/8 for the truth, 3/8 for the other place."""
    eighth = TOTAL // 8
    parts = ([0, 1, 2], np.int64), ([0, 1], np.int32), ([2 * eighth] * 2, np.uint64), ([3 * eighth] * 2, np.uint64)
    arrays = [np.array(values, dtype=kind) for values, kind in (*parts, ([1, 1], np.uint64))]
    return mdp.Mechanism.of(problem, SparseTable(*arrays))


def drawn(mechanism: mdp.Mechanism, row: int, number: int) -> int:
    """Return the output that the library draws for a number below 2^63."""
    rows, table = np.array([row]), mechanism.table

    def bits(_: int) -> NDArray[np.uint64]:
        return np.array([number], dtype=np.uint64)

    if isinstance(table, SparseTable):
        return int(draw_sparse(sparse_steps(table), rows, bits=bits)[0])
    return int(draw(cumulative(table), rows, bits=bits)[0])


def numbers_for(mechanism: mdp.Mechanism, row: int) -> list[int]:
    """Return numbers at the edges of outputs and between them."""
    table = mechanism.table
    edges = [0, TOTAL]
    if isinstance(table, SparseTable):
        own = table.weights[table.indptr[row] : table.indptr[row + 1]]
        edges += np.cumsum(own, dtype=np.uint64).tolist()
        total, scale = int(own.sum()), int(table.scale[row])
        edges += [total + scale * int(v) for v in np.cumsum(table.background, dtype=np.uint64)]
    else:
        edges += np.cumsum(table[row], dtype=np.uint64).tolist()
    some = np.random.default_rng(row).integers(0, TOTAL, size=3, dtype=np.uint64).tolist()
    return sorted({v for edge in edges for v in (edge - 1, edge, edge + 1) if 0 <= v < TOTAL} | set(some))


def canonical(data: bytes) -> dict[str, str]:
    """Return the bytes under each hash in hexadecimal digits, and the hashes."""
    header, body = split(data)
    metadata = header.pop("__metadata__")
    types = {"U64": "<u8", "I64": "<i8", "I32": "<i4", "F64": "<f8"}
    raw = b""
    for name in sorted(header):
        entry = header[name]
        raw += f"{name} {types[entry['dtype']]} {tuple(entry['shape'])}\n".encode()
        raw += body[slice(*entry["data_offsets"])]
    rest = {key: value for key, value in metadata.items() if key != "metadata_sha256"}
    text = json.dumps(rest, sort_keys=True).encode()
    found = {"tensors": raw.hex(), "metadata": text.hex()}
    hashes = {"sha256": hashlib.sha256(raw).hexdigest(), "metadata_sha256": hashlib.sha256(text).hexdigest()}
    if any(metadata[key] != value for key, value in hashes.items()):
        raise ValueError("the hashes of the file are not those of this program")
    return found | hashes


def enclosures() -> list[dict[str, str]]:
    """Return exponents and the largest whole number that a reader may take for the factor."""
    found = []
    for epsilon, distance in (
        (1.0, 1.0),
        (10.0, 0.3),
        (0.1, 0.1),
        (7.0, 6.0),
        (1.0, 0.0),
        (1e-300, 1e-300),
        (2.0, 2.0**-60),
    ):
        below = exp_enclosure(epsilon, distance)
        found.append({"epsilon": epsilon.hex(), "distance": distance.hex(), "from": str(below), "to": str(below + 2)})
    return found


def distances() -> list[dict[str, object]]:
    """Return points, what a writer stores for their distance, and what a reader may take at most."""
    pairs = [
        ("haversine", [57.7, 11.97], [57.71, 11.98]), ("haversine", [0.0, -180.0], [0.0, 180.0]),
        ("haversine", [90.0, 0.0], [90.0, 77.0]), ("haversine", [10.0, 10.0], [-10.0, -170.0]),
        ("haversine", [10.0, 10.0], [-10.0, -169.9]), ("haversine", [57.7, 11.97], [57.7, 11.970000000000001]),
        ("euclidean", [0.0, 0.0], [3.0, 4.0]), ("euclidean", [0.0, 0.0], [1.0, 1.0]),
        ("euclidean", [0.1, 0.2], [0.4, 0.6]),
        ("euclidean", [0.0], [67108863.0]), ("euclidean", [0.0], [67108865.0]),
        ("euclidean", [0.5, 1e10], [0.75, 1e10]),
        ("manhattan", [0.5, -1.0], [-0.5, 1.0]), ("manhattan", [0.1], [0.3]), ("manhattan", [1e16], [1e16 + 4]),
    ]  # fmt: skip
    found = []
    for metric, a, b in pairs:
        measure = CoordinateMetric(metric)
        first, second = (np.array([point]) for point in (a, b))
        stored, checked = (float(measure.rounded_down(first, second, margin=margin)[0]) for margin in (4, 1))
        found.append({"metric": metric, "a": a, "b": b, "stored": stored.hex(), "reader": checked.hex()})
    return found


def own_edits(base: bytes) -> list[tuple[str, bool, bytes]]:
    """Return a file with epsilons of the records' own after changes to them, and whether it is to be accepted."""
    metadata, tensors = unpacked(base)
    own, plain = tensors["epsilons"], metadata["format"].partition("+")[0]

    def changed(epsilons: list[float] | None, **words: str) -> bytes:
        parts = {name: value for name, value in tensors.items() if name != "epsilons"}
        if epsilons is not None:
            parts["epsilons"] = np.array(epsilons)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "changed.mdp"
            container.write(path, parts, metadata | words)
            return path.read_bytes()

    def with_first(value: float) -> list[float]:
        return [value, *own[1:].tolist()]

    largest = float(own.max())
    return [
        ("own epsilons: one is larger", True, changed(with_first(largest))),
        ("own epsilons: one is smaller", False, changed(with_first(float(own[0]) / 50))),
        ("own epsilons: one is zero", False, changed(with_first(0.0))),
        ("own epsilons: one is negative", False, changed(with_first(-1.0))),
        ("own epsilons: one is infinite", False, changed(with_first(math.inf), epsilon="inf")),
        ("own epsilons: one is no number", False, changed(with_first(math.nan))),
        ("own epsilons: one is far too small", False, changed(with_first(largest / 2e9))),
        ("own epsilons: epsilon is above the largest", False, changed(own.tolist(), epsilon=(2 * largest).hex())),
        ("own epsilons: epsilon is below the largest", False, changed(own.tolist(), epsilon=(largest / 2).hex())),
        ("own epsilons: one is missing", False, changed(own[:-1].tolist())),
        ("own epsilons: the tensor is missing", False, changed(None)),
        ("own epsilons: the format does not name them", False, changed(own.tolist(), format=plain)),
        ("own epsilons: the largest for all", True, changed(None, format=plain)),
    ]


def main() -> None:
    """Write the vectors."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    draws, hashes = [], {}
    for name, mechanism in mechanisms().items():
        path = FOLDER / f"{name}.mdp"
        mechanism.save(path)
        metadata, tensors = unpacked(path.read_bytes())
        container.write(path, tensors, {**metadata, "created": CREATED})
        hashes[path.name] = canonical(path.read_bytes())
        for row in range(mechanism.records.n):
            numbers = numbers_for(mechanism, row)
            draws += [[path.name, row, str(number), drawn(mechanism, row, number)] for number in numbers]
    base = (FOLDER / "sparse-grid.mdp").read_bytes()
    verdicts = [
        {"name": name, "accepted": True, "base64": base64.b64encode(data).decode()} for name, data in harmless(base)
    ] + [
        {"name": name, "accepted": False, "base64": base64.b64encode(data).decode()}
        for name, data, _ in damaged(base)
        if len(data) < 1 << 14
    ]
    verdicts += [
        {"name": f"{name} ({kind})", "accepted": is_accepted, "base64": base64.b64encode(data).decode()}
        for kind in ("dense", "sparse")
        for name, is_accepted, data in own_edits((FOLDER / f"{kind}-own.mdp").read_bytes())
    ]
    written = {
        "draws": draws,
        "hashes": hashes,
        "verdicts": verdicts,
        "factors": enclosures(),
        "distances": distances(),
    }
    for name, content in written.items():
        lines = [json.dumps(one) for one in content] if isinstance(content, list) else None
        text = json.dumps(content, indent=1) if lines is None else "[\n" + ",\n".join(lines) + "\n]"
        (FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
