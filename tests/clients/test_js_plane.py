"""The JavaScript module for regions against this library: the same verdicts, the same outputs of the same numbers."""

from __future__ import annotations

import base64
import json
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2
from tests.clients.conftest import CLIENT
from tests.clients.test_js import MOST_BYTES, broken_bytes
from tests.mechanism.damage import packed, unpacked
from tests.mechanism.edits import nudged, somewhere
from tests.mechanism.test_plane import PLACES, ROME, decaying

import metricdp as mdp
from metricdp.mechanism.plane import PlaneMechanism
from metricdp.mechanism.plane_certify import check_plane
from metricdp.problem.outputs import Outputs

FLOATS = ("low", "high", "outer_low", "outer_high")
CELLS = (
    "[0, 3]",
    "[3, 3]",
    "[3.0, 3]",
    '["3", "3"]',
    "[-0, 3]",
    "[true, 3]",
    "null",
    '{"3": 1, "4": 2}',
    "[3]",
    "[20000, 1]",
)
WORDS = ("nan", "inf", "-inf", "0x1.8p+1", "1.5", "", "0x1.8000000000000p+1", "-0x0.0p+0")


def mechanisms():
    """Places and vectors, outputs that are points and outputs that are nodes."""
    square = mdp.data.region(-1.0, 0.0, 2.0, 2.0, spacing=0.5, kind="vectors")
    south = mdp.data.region(-33.95, -70.0, -33.9, -69.9, spacing=2.0)
    corners = np.array([[0.0, 0.1], [1.5, 1.5], [-1.0, 2.0]])
    yield made(ROME, PLACES, 0.45, 1.0)
    yield made(square, corners, 0.8, 2.0)
    for region, rate, epsilon in ((square, 0.3, 1.0), (south, 0.05, 0.2)):
        yield made(region, region.inner[:: max(1, len(region.inner) // 4)], rate, epsilon)


def made(region, outputs, rate, epsilon):
    own = Outputs.of(outputs, region.records, seed=0)
    return PlaneMechanism(decaying(region, own.coordinates, rate), region, own, epsilon)


def at_the_limit(mechanism, rng):
    """The table with as much weight moved in one row as still passes, and one unit more."""
    table, region = mechanism.table, mechanism.region
    row, (k, other) = int(rng.integers(len(table))), rng.choice(table.shape[1], 2, replace=False)

    def moved(amount):
        changed = table.copy()
        changed[row, k] += np.uint64(amount)
        changed[row, other] -= np.uint64(amount)
        return changed

    low, high = 0, int(table[row, other])
    while high - low > 1:
        middle = (low + high) // 2
        passes = check_plane(moved(middle), region.shape, mechanism.epsilon, region.sides).certified
        low, high = (middle, high) if passes else (low, middle)
    return moved(low), moved(low + 1)


def edit(rng, metadata, tensors):
    """Change one thing of a file."""
    match rng.integers(10):
        case 0:
            metadata["epsilon"] = nudged(rng, float.fromhex(metadata["epsilon"])).hex()
        case 1:
            key = str(rng.choice(FLOATS))
            pair = json.loads(metadata[key])
            way = int(rng.integers(2))
            pair[way] = nudged(rng, float.fromhex(pair[way])).hex() if rng.random() < 0.7 else str(rng.choice(WORDS))
            metadata[key] = json.dumps(pair)
        case 2:
            metadata["cells"] = str(rng.choice(CELLS))
        case 3:
            metadata["kind"] = str(rng.choice(["places", "vectors", "planets"]))
        case 4:
            metadata[str(rng.choice(["domain", "weights", "format", "note", "eta"]))] = "plane"
        case 5:
            metadata.pop(str(rng.choice(sorted(metadata))))
        case 6:
            metadata["loss"] = nudged(rng, 1.0).hex()
            if rng.random() < 0.7:
                metadata["lower_bound"] = nudged(rng, 1.0).hex()
        case 7:
            outputs, place = tensors["outputs"], somewhere(rng, tensors["outputs"])
            is_row = outputs.dtype == np.dtype("<i4")
            outputs[place] = rng.integers(-1, len(tensors["table"]) + 1) if is_row else nudged(rng, outputs[place] * 2)
        case 8:
            name = str(rng.choice(sorted(tensors)))
            tensors[name] = tensors[name][:-1].copy() if rng.random() < 0.5 else np.ascontiguousarray(tensors[name].T)
        case _:
            table, amount = tensors["table"], int(rng.choice([1, 2**20, 2**50, 2**58, 2**60, 2**62]))
            row, (k, other) = int(rng.integers(len(table))), rng.choice(table.shape[1], 2, replace=False)
            amount = min(amount, int(table[row, other]))
            table[row, k] += np.uint64(amount)
            table[row, other] -= np.uint64(amount if rng.random() < 0.9 else 0)


def write_files(folder, count, seed):
    rng, kinds = np.random.default_rng(seed), {}
    originals = []
    made_files = []
    for mechanism in mechanisms():
        mechanism.save(folder / "own")
        originals.append(unpacked((folder / "own").read_bytes()))
        made_files.append(("valid", (folder / "own").read_bytes()))
        for _ in range(max(1, count // 200)):
            for kind, table in zip(("valid", "edited"), at_the_limit(mechanism, rng), strict=True):
                metadata, tensors = originals[-1]
                made_files.append((kind, packed(metadata, tensors | {"table": table})))
    (folder / "own").unlink()
    valid = [data for kind, data in made_files if kind == "valid"]
    while len(made_files) < count:
        if rng.random() < 0.3:
            made_files.append(("damaged", broken_bytes(rng, valid[int(rng.integers(len(valid)))])))
            continue
        metadata, tensors = originals[rng.integers(len(originals))]
        metadata, tensors = dict(metadata), {name: value.copy() for name, value in tensors.items()}
        with np.errstate(all="ignore"):
            edit(rng, metadata, tensors)
        made_files.append(("edited", packed(metadata, tensors)))
    for number, (kind, data) in enumerate(made_files):
        kinds[f"{number:05}.mdp"] = kind
        (folder / f"{number:05}.mdp").write_bytes(data)
    return kinds


def verdict(path):
    try:
        return mdp.load_plane(path)
    except (mdp.FileFormatError, mdp.CertificationError):
        return None


@pytest.mark.parametrize("count", [150, pytest.param(2000, marks=pytest.mark.slow)])
def test_verdicts_are_the_same(node, tmp_path, count):
    """Valid ones, some at their limit to one unit, edited ones that were sealed again, and damaged ones."""
    kinds = write_files(tmp_path, count, seed=count)
    theirs = json.loads(node("tests/plane.js", tmp_path))
    seen, different = Counter(), []
    for name, kind in kinds.items():
        ours, other = verdict(tmp_path / name), theirs[name]
        seen[kind, ours is not None] += 1
        same = other["accepted"] == (ours is not None)
        if same and ours is not None:
            check = ours.certificate.privacy
            same = (check.n_nodes, check.n_outputs, check.n_compared) == (
                other["nodes"],
                other["outputs"],
                other["compared"],
            )
            same = same and other["rounding"] == pytest.approx(ours.guarantee.rounding, rel=1e-7)
        if not same:
            different.append((name, kind, ours, other))
        assert other["accepted"] or other["kind"] in {"FileFormatError", "CertificationError"}, other
        assert "there is not enough memory" not in other.get("error", ""), other
    assert not different, different[:5]
    assert seen["valid", False] == 0
    assert seen["edited", True] > 5
    assert seen["edited", False] > 20


def test_files_of_records_and_of_regions_are_told_apart(node, tmp_path):
    next(mechanisms()).save(tmp_path / "region.mdp")
    mdp.exponential(mdp.Problem(mdp.data.grid(2, 2), epsilon=1.0, eta=1.0)).save(tmp_path / "records.mdp")
    for script, other, text in (
        ("judge", "region", "metricdp/plane"),
        ("plane", "records", "not the mechanism of a region"),
    ):
        found = json.loads(node(f"tests/{script}.js", tmp_path))
        assert text in found.pop(f"{other}.mdp")["error"]
        assert [one["accepted"] for one in found.values()] == [True]


def test_it_is_small():
    for name in ("metricdp.plane.js", "metricdp.plane.classic.js"):
        assert 0 < (CLIENT / "dist" / name).stat().st_size < MOST_BYTES


def test_names_of_outputs_are_read_and_other_weights_refused(node, tmp_path):
    own = Outputs(PLACES, None, ("00184", "00185", "Piazza \u2116 1", "x"))
    table = decaying(ROME, PLACES, 0.45)
    PlaneMechanism(table, ROME, own, 1.0).save(tmp_path / "named.mdp")
    metadata, tensors = unpacked((tmp_path / "named.mdp").read_bytes())
    for number, names in enumerate(([], ["a", "b", "c", "c"], ["a", "b", "c", 4], {"a": 1}, ["a", "b", "c", ""])):
        (tmp_path / f"wrong{number}.mdp").write_bytes(packed(metadata | {"output_names": json.dumps(names)}, tensors))
    corners = mdp.data.region(41.88, 12.46, 41.898, 12.484, spacing=0.4, weights="triangles")
    even = np.full((corners.n_nodes, 4), 2**61, dtype=np.uint64)
    PlaneMechanism(even, corners, own, 1.0).save(tmp_path / "triangles.mdp")
    found = json.loads(node("tests/plane.js", tmp_path))
    assert found.pop("named.mdp")["accepted"]
    assert "unknown weights" in found["triangles.mdp"]["error"]
    assert len(found) == 6
    assert not any(one["accepted"] for one in found.values())
    for name in found:
        if name.startswith("wrong"):
            assert "names of its outputs" in found[name]["error"]
            with pytest.raises(mdp.FileFormatError, match="damaged"):
                mdp.load_plane(tmp_path / name)


def test_the_test_vectors_are_read(node, tmp_path):
    folder = CLIENT.parents[1] / "tests" / "mechanism" / "vectors" / "regions"
    expected = {}
    for number, case in enumerate(json.loads((folder / "verdicts.json").read_text(encoding="utf-8"))):
        (tmp_path / f"{number}.mdp").write_bytes(base64.b64decode(case["base64"]))
        expected[f"{number}.mdp"] = case["accept"] and case["file"] != "triangles.mdp"  # which this module refuses
    found = json.loads(node("tests/plane.js", tmp_path))
    assert {name: one["accepted"] for name, one in found.items()} == expected
    assert sum(expected.values()) == 6
    draws = json.loads((folder / "draws.json").read_text(encoding="utf-8"))
    for name in ("rome.mdp", "south.mdp", "square.mdp"):
        own = [draw for draw in draws if draw["file"] == name]
        lines = "\n".join(
            " ".join([*(repr(float.fromhex(v)) for v in draw["point"]), *draw["numbers"]]) for draw in own
        )
        theirs = json.loads(node("tests/plane.js", folder / name, "outputs", text=lines))
        assert theirs == [draw["output"] for draw in own]


def test_the_same_numbers_give_the_same_outputs(node, tmp_path):
    """At random points, at corners, on borders between cells, and outside; numbers at the edges of the weights too."""
    rng = np.random.default_rng(3)
    for mechanism in mechanisms():
        region = mechanism.region
        low, high = np.array(region.low), np.array(region.high)
        points = low + rng.random((400, 2)) * (high - low)
        borders = low + rng.integers(0, np.array(region.cells) + 1, size=(40, 2)) * (high - low) / region.cells
        outside = low + rng.uniform(-0.05, 1.05, size=(40, 2)) * (high - low)
        points = np.concatenate((points, borders, outside, [low, high]))
        numbers = rng.integers(0, 2**63, size=(len(points), 3), dtype=np.uint64)
        _, weights = region.lattice.places(region.steps_of(points), region.cells)
        edges = np.stack((weights[..., 0], weights[..., 0] + weights[..., 1]), axis=-1)  # up to 2^63
        for i in range(0, len(points), 2):
            for way in range(2):
                wanted = int(edges[i, way, rng.integers(2)]) + int(rng.integers(-1, 2))
                numbers[i, way] = min(max(wanted, 0), 2**63 - 1)
        numbers[::7] = 0
        numbers[3::7] = 2**63 - 1
        columns = iter(numbers.T)
        ours = mechanism.draw_points(points, bits=lambda _, columns=columns: np.ascontiguousarray(next(columns)))
        lines = "\n".join(
            " ".join([*(repr(float(v)) for v in point), *(str(int(u)) for u in row)])
            for point, row in zip(points, numbers, strict=True)
        )
        mechanism.save(tmp_path / "m.mdp")
        assert json.loads(node("tests/plane.js", tmp_path / "m.mdp", "outputs", text=lines)) == ours.tolist()


def test_draws_have_the_probabilities_of_the_point(node, tmp_path):
    """A G-test of the draws; by chance it fails once in a million runs."""
    mechanism = next(mechanisms())
    mechanism.save(tmp_path / "m.mdp")
    point, count = (41.8871, 12.4732), 40_000
    found = json.loads(
        node(
            "--input-type=module",
            "-e",
            f"""
            import {{ readFileSync }} from "node:fs";
            import {{ load }} from "./dist/metricdp.plane.js";
            const mechanism = load(readFileSync({json.dumps(str(tmp_path / "m.mdp"))}));
            const counts = new Array(mechanism.certificate.outputs).fill(0);
            for (let n = 0; n < {count}; n += 1) counts[mechanism.perturbPoint({point[0]}, {point[1]}).output] += 1;
            const far = [0, 0, {{ outside: "border" }}];
            const refused = [[41.87, 12.47, {{}}], [41.8799, 12.47, {{}}], far, [NaN, 1, {{}}], [91, 0, {{}}]].map(
              (given) => {{
                try {{ mechanism.perturbPoint(...given); return "drawn"; }} catch (error) {{ return error.name; }}
              }},
            );
            const moved = mechanism.perturbPoint(41.8799, 12.47, {{ outside: "border" }}).coordinates.length;
            console.log(JSON.stringify({{ counts, refused, moved }}));
            """,
        )
    )
    assert found["refused"] == ["InputError"] * 5
    assert found["moved"] == 2
    seen, expected = np.array(found["counts"], dtype=float), mechanism.probabilities_at([point])[0] * count
    g = 2 * (seen[seen > 0] * np.log(seen[seen > 0] / expected[seen > 0])).sum()
    assert chi2.sf(g, (expected > 0).sum() - 1) > 1e-6
