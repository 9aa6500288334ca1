"""The JavaScript client against this library: the same verdicts, the same outputs, the probabilities of the table.

All of it in one command: ``make client-cross``.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2
from tests.clients.conftest import CLIENT
from tests.mechanism.damage import damaged, harmless, packed, unpacked
from tests.mechanism.edits import closed, edited_files, honest_files, nudged
from tests.mechanism.sparse_tables import sparse_of
from tests.mechanism.test_files import unpack
from tests.mechanism.test_vectors import FILES, FOLDER
from tools.make_vectors import drawn, numbers_for

import metricdp as mdp

MOST_BYTES = 30_000  # of the minified package


def verdict(path):
    """What this library says: the number of pairs, components and isolated records, or None."""
    try:
        mechanism = mdp.load(path)
    except (mdp.FileFormatError, mdp.CertificationError):
        return None
    graph = mechanism.graph
    return graph.n_pairs, graph.n_components, mechanism.guarantee.n_isolated


def broken_bytes(rng, data):
    """A file with a few bytes changed, cut out or put in; half of them in the header, where most can go wrong."""
    header = 8 + int.from_bytes(data[:8], "little")
    place = int(rng.integers(header if rng.random() < 0.5 else len(data)))
    match rng.integers(5):
        case 0:
            return data[:place]
        case 1:
            return data[:place] + data[place + int(rng.integers(1, 9)) :]
        case 2:
            return data[:place] + rng.bytes(int(rng.integers(1, 9))) + data[place:]
        case 3:
            return data[:place] + bytes([data[place] ^ (1 << int(rng.integers(8)))]) + data[place + 1 :]
        case _:
            return data[:place] + bytes(rng.choice(list(b'",:{}[]0-e.\\u')) for _ in range(1)) + data[place + 1 :]


def other_files(scratch):
    """Small files of directions, of ellipses, and with epsilons of the records' own, dense and sparse."""
    rng = np.random.default_rng(11)
    vectors = mdp.Records(
        np.array([[1.0, 0.1], [0.9, 0.3], [-2.0, 1.0], [1e-310, 2e-310], [0.5, -3e300]]), kind="vectors"
    )
    wide = mdp.Records(rng.normal(size=(6, 14)), kind="vectors")
    problems = [
        mdp.Problem(vectors, epsilon=1.0, eta=2.0, outputs=np.arange(5), metric="angular"),
        mdp.Problem(vectors, epsilon=2.0, eta=1.1, outputs=np.arange(5), metric="cosine"),
        mdp.Problem(wide, epsilon=1.0, eta=1.6, outputs=np.arange(6), metric="angular"),
        mdp.Problem(mdp.data.grid(2, 3), epsilon=[1.0, 0.3, 2.0, 0.7, 2.0, 1.0], eta=1.0, outputs=np.arange(6)),
        mdp.Problem(mdp.data.grid(2, 3), epsilon=1.0, eta=2.0, outputs=np.arange(6), metric="mahalanobis"),
    ]
    found = []
    for problem in problems:
        dense = mdp.Mechanism.from_matrix(problem, closed(problem))
        for made in (dense, mdp.Mechanism.of(problem, sparse_of(dense.table))):
            made.save(scratch / "other.mdp")
            found.append(unpack(scratch / "other.mdp"))
    return found


def with_other_budgets(rng, files):
    """The files with epsilons of the records' own, one of them changed, and the largest named again."""
    found = []
    for metadata, tensors in files:
        if "epsilons" in tensors:
            for _ in range(8):
                words, own = dict(metadata), tensors["epsilons"].copy()
                own[rng.integers(len(own))] = nudged(rng, own[rng.integers(len(own))])
                if rng.random() < 0.8:
                    words["epsilon"] = float(own.max()).hex()
                found.append((words, tensors | {"epsilons": own}))
    return found


def write_files(folder, scratch, count, seed):
    """Write ``count`` files: valid ones, edited ones that were sealed again, and damaged ones; the kind by name."""
    rng = np.random.default_rng(seed)
    made = [("valid", (FOLDER / name).read_bytes()) for name in FILES]
    made += [("valid", packed(*one)) for one in honest_files(scratch)]
    others = other_files(scratch)
    made += [("valid", packed(*one)) for one in others]
    others += with_other_budgets(rng, others)
    grid = (FOLDER / "sparse-grid.mdp").read_bytes()
    made += [("valid", data) for _, data in harmless(grid)]
    made += [("damaged", data) for _, data, _ in damaged(grid)]
    valid = [data for kind, data in made if kind == "valid"]
    left = count - len(made)
    made += [("damaged", broken_bytes(rng, valid[int(rng.integers(len(valid)))])) for _ in range(left // 3)]
    left = count - len(made)
    edited = itertools.chain(
        edited_files(scratch, left // 3, seed=seed, originals=others),
        edited_files(scratch, left - left // 3, seed=seed),
    )
    made += [("edited", path.read_bytes()) for _, _, path in edited]
    folder.mkdir()
    kinds = {}
    for number, (kind, data) in enumerate(made[:count]):
        kinds[f"{number:05}.mdp"] = kind
        (folder / f"{number:05}.mdp").write_bytes(data)
    return kinds


def compare_verdicts(node, tmp_path, count, seed):
    folder, scratch = tmp_path / "files", tmp_path / "scratch"
    scratch.mkdir()
    kinds = write_files(folder, scratch, count, seed)
    theirs = json.loads(node("tests/judge.js", folder))
    seen, different = Counter(), []
    for name, kind in kinds.items():
        ours, other = verdict(folder / name), theirs[name]
        seen[kind, ours is not None] += 1
        same = ours is not None if other["accepted"] else ours is None
        if same and ours is not None:
            same = ours == (other["pairs"], other["components"], other["isolated"])
        if not same:
            different.append((name, kind, ours, other))
        assert other["accepted"] or other["kind"] in {"FileFormatError", "CertificationError"}, other
    assert not different, different[:5]
    assert len(kinds) == count
    accepted = sum(times for (_, is_accepted), times in seen.items() if is_accepted)
    sys.stderr.write(f"{count:,} files, {accepted:,} accepted by both, the others refused by both\n")
    return seen


def test_the_tests_of_the_package_pass(node):
    assert "# fail 0" in node("--test", *sorted(str(path) for path in (CLIENT / "tests").glob("*.test.js")))


def test_it_is_small():
    for name in ("metricdp.js", "metricdp.classic.js"):
        assert 0 < (CLIENT / "dist" / name).stat().st_size < MOST_BYTES


def test_it_depends_on_nothing():
    package = json.loads((CLIENT / "package.json").read_text(encoding="utf-8"))
    assert "dependencies" not in package
    assert "import" not in (CLIENT / "dist" / "metricdp.js").read_text(encoding="utf-8")


def test_what_is_published_is_there_with_the_licence():
    package = json.loads((CLIENT / "package.json").read_text(encoding="utf-8"))
    assert {"dist", "README.md", "LICENSE"} == set(package["files"])
    assert (CLIENT / "LICENSE").read_bytes() == (CLIENT.parents[1] / "LICENSE").read_bytes()
    named = [
        package["main"],
        package["types"],
        *package["exports"]["./plane"].values(),
        package["exports"]["./classic"],
    ]
    assert all((CLIENT / path).is_file() for path in named)


@pytest.mark.slow
def test_it_is_built_from_its_source(node, tmp_path):
    if not (CLIENT / "node_modules" / "esbuild").exists():
        pytest.skip("the compiler is not installed: npm ci in clients/js")
    fresh = CLIENT / "build-check"
    try:
        node("build.js", fresh.name)
        for path in sorted((CLIENT / "dist").rglob("*")):
            if path.is_file():
                assert (fresh / path.relative_to(CLIENT / "dist")).read_bytes() == path.read_bytes(), path.name
    finally:
        subprocess.run(["rm", "-rf", str(fresh)], check=True)


def test_verdicts_are_the_same(node, tmp_path):
    seen = compare_verdicts(node, tmp_path, 250, seed=1)
    assert seen["valid", True] > 30
    assert seen["valid", False] == 0
    assert seen["edited", True] > 5
    assert seen["edited", False] > 20


@pytest.mark.slow
def test_verdicts_on_a_thousand_files_are_the_same(node, tmp_path):
    """Valid, edited and damaged, every kind of metric and both formats."""
    seen = compare_verdicts(node, tmp_path, 1000, seed=2)
    assert seen["edited", True] > 30
    assert seen["edited", False] > 200
    assert seen["damaged", False] > 200


@pytest.mark.slow
def test_verdicts_on_many_edited_files_are_the_same(node, tmp_path):
    compare_verdicts(node, tmp_path, 10_000, seed=3)


def test_the_promise_is_in_the_same_words(node):
    """For one epsilon and for epsilons of the records' own: at each step of a path, or where all are neighbours."""
    theirs = json.loads(node("tests/judge.js", FOLDER))
    for name in FILES:
        promise = theirs[name]["promise"].replace("Infinity", "inf")
        assert promise == mdp.load(FOLDER / name).guarantee.sentence
    own = [one["promise"] for one in theirs.values() if one["accepted"] and "their own epsilons" in one["promise"]]
    assert sorted("at each step" in promise for promise in own) == [False, True]


def outputs_of(node, asked):
    """The outputs that (path, row, number) stand for, by one process."""
    lines = "\n".join(f"{path}\t{row}\t{number}" for path, row, number in asked)
    return json.loads(node("tests/draw.js", "outputs", text=lines))


def test_the_same_numbers_give_the_same_outputs(node):
    rng = np.random.default_rng(5)
    asked, ours = [], []
    for name in FILES:
        if not name.startswith(("dense-c", "sparse-")):
            continue
        mechanism = mdp.load(FOLDER / name)
        n = mechanism.records.n
        numbers = [(row, number) for row in range(n) for number in numbers_for(mechanism, row)]
        numbers += [(int(rng.integers(n)), int(rng.integers(0, 2**63))) for _ in range(500)]
        asked += [(FOLDER / name, *one) for one in numbers]
        ours += [drawn(mechanism, *one) for one in numbers]
    assert len(asked) > 4000
    sys.stderr.write(f"{len(asked):,} numbers\n")
    assert outputs_of(node, asked) == ours


@pytest.mark.parametrize("count", [100_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["dense-city.mdp", "sparse-city.mdp"])
def test_draws_have_the_probabilities_of_the_table(node, name, count):
    """A G-test of the draws; by chance it fails once in a million runs."""
    mechanism, row = mdp.load(FOLDER / name), 2
    found = json.loads(node("tests/draw.js", FOLDER / name, row, count))
    seen, expected = np.array(found["counts"], dtype=float), mechanism.block(row)[0] * count
    assert seen.sum() == count
    assert not seen[expected == 0].any()
    positive = seen > 0
    g = 2 * (seen[positive] * np.log(seen[positive] / expected[positive])).sum()
    p_value = chi2.sf(g, (expected > 0).sum() - 1)
    sys.stderr.write(f"{count:,} draws in {found['seconds']:.2f} s, G = {g:.1f}, p = {p_value:.3f}\n")
    assert p_value > 1e-6


def test_a_row_of_zeros_and_one_output(node, tmp_path):
    """Edges of drawing: outputs of weight 0 at both ends, one output only, a table that stores nothing."""
    line = mdp.Records(np.arange(3.0), kind="vectors")
    problem = mdp.Problem(line, epsilon=1.0, eta=1.0, outputs=[0, 1, 2])
    asked, ours = [], []
    for number, row in enumerate(([0, 1 << 63, 0], [1, (1 << 63) - 1, 0], [0, 0, 1 << 63], [1 << 63, 0, 0])):
        table = np.array([row] * 3, dtype=np.uint64)
        for sparse in (False, True):
            made = mdp.Mechanism.of(problem, sparse_of(table) if sparse else table)
            path = tmp_path / f"{number}{sparse}.mdp"
            made.save(path)
            numbers = [(i, u) for i in range(3) for u in numbers_for(made, i)]
            asked += [(path, *one) for one in numbers]
            ours += [drawn(made, *one) for one in numbers]
    assert outputs_of(node, asked) == ours


def test_distances_above_eta_are_refused_by_both(node, tmp_path):
    """A stored distance above eta, though rounding alone could explain it: the document says no."""
    metadata, tensors = unpacked((FOLDER / "dense-city.mdp").read_bytes())
    far = int(tensors["distances"].argmax())
    records = tensors["records"][tensors["pairs"][far]]
    measured = float(mdp.metric.distances.CoordinateMetric("haversine").elementwise(*records))
    tensors["distances"][far] = measured
    metadata["eta"] = float(np.nextafter(measured, 0.0)).hex()
    tensors["table"][:] = (1 << 63) // 4
    tensors["table"][:, 0] += np.uint64((1 << 63) - (1 << 63) // 4 * tensors["table"].shape[1])
    (tmp_path / "files").mkdir()
    path = tmp_path / "files" / "m.mdp"
    path.write_bytes(packed(metadata, tensors))
    theirs = json.loads(node("tests/judge.js", tmp_path / "files"))
    assert not theirs["m.mdp"]["accepted"]
    assert verdict(path) is None
