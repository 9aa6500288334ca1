"""The test vectors for readers in other languages, read by this library and by the program of docs/file-format.md."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import math
import re
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.mechanism.edits import edited_files
from tests.mechanism.independent import distance_bounds, exp_bounds
from tools.make_vectors import canonical, distances, drawn, enclosures

import metricdp as mdp

FOLDER = Path(__file__).parent / "vectors"
PAGE = (Path(__file__).parents[2] / "docs" / "file-format.md").read_text(encoding="utf-8")
FILES = sorted(path.name for path in FOLDER.glob("*.mdp"))


def vectors(name):
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def reader():
    """The document's program: its functions, without any of this library."""
    names = {"__name__": "verify_mdp"}
    exec(re.findall(r"```py\n(.*?)```", PAGE, re.DOTALL)[0], names)  # noqa: S102
    return SimpleNamespace(**names)


def verdict_of_library(path):
    try:
        mdp.load(path)
    except (mdp.FileFormatError, mdp.CertificationError):
        return False
    return True


def verdict_of_reader(reader, data):
    try:
        reader.load(data)
    except reader.Refused:
        return False
    return True


@pytest.mark.parametrize("name", FILES)
def test_files_are_accepted_with_the_same_pairs(name, reader):
    mechanism = mdp.load(FOLDER / name)
    _, _, pairs = reader.load((FOLDER / name).read_bytes())
    assert sorted(pairs) == list(map(tuple, mechanism.graph.pairs.tolist()))
    own = zip(sorted(pairs), mechanism.graph.distances.tolist(), strict=True)
    for pair, distance in own:
        assert distance <= pairs[pair] <= distance * (1 + 2.0**-43)


def test_there_are_files_of_all_kinds():
    headers = [canonical((FOLDER / name).read_bytes()) for name in FILES]
    texts = [bytes.fromhex(one["metadata"]).decode() + str(bytes.fromhex(one["tensors"])) for one in headers]
    kinds = ("metricdp-1", "metricdp-2", "haversine", "euclidean", "manhattan", "matrix", "travel", "losses", "pairs")
    for word in kinds:
        assert any(word in text for text in texts), word
    assert any("metricdp-2" in text and "pairs <i4" not in text for text in texts)
    assert any("metricdp-2" in text and "outputs <f8" in text for text in texts)
    assert any("metricdp-2" in text and "outputs <" not in text for text in texts)


def test_draws(reader):
    ours = {name: mdp.load(FOLDER / name) for name in FILES}
    theirs = {name: reader.load((FOLDER / name).read_bytes())[1] for name in FILES}
    seen = set()
    for name, row, number, output in vectors("draws"):
        assert drawn(ours[name], row, int(number)) == output
        assert theirs[name].output(row, int(number)) == output
        seen.add((name, row, output))
    for name, mechanism in ours.items():  # every output of every record that has any probability
        for row in range(mechanism.records.n):
            assert {k for file, i, k in seen if (file, i) == (name, row)} == set(mechanism.block(row)[0].nonzero()[0])


def test_canonical_bytes_and_hashes():
    found = vectors("hashes")
    assert sorted(found) == FILES
    for name, expected in found.items():
        assert canonical((FOLDER / name).read_bytes()) == expected
        for what, key in (("tensors", "sha256"), ("metadata", "metadata_sha256")):
            assert hashlib.sha256(bytes.fromhex(expected[what])).hexdigest() == expected[key]


def test_the_example_of_the_document():
    expected = vectors("hashes")["two-sparse.mdp"]
    block = re.search(r"```text\n(background .*?)```", PAGE, re.DOTALL)[1].splitlines()
    raw = b"".join(
        line.removesuffix("\\n").encode() + b"\n" + bytes.fromhex(numbers)
        for line, numbers in zip(block[::2], block[1::2], strict=True)
    )
    assert raw.hex() == expected["tensors"]
    text = re.search(r"```json\n(.*?)\n```", PAGE, re.DOTALL)[1]
    assert text.encode().hex() == expected["metadata"]
    assert f"    sha256 = {expected['sha256']}\n" in PAGE
    assert f"    metadata_sha256 = {expected['metadata_sha256']}\n" in PAGE


@pytest.mark.parametrize("one", vectors("verdicts"), ids=lambda one: one["name"])
def test_verdicts(one, reader, tmp_path):
    data = base64.b64decode(one["base64"])
    (tmp_path / "m.mdp").write_bytes(data)
    assert verdict_of_library(tmp_path / "m.mdp") == one["accepted"]
    assert verdict_of_reader(reader, data) == one["accepted"]


def test_edited_files_get_the_same_verdict(reader, tmp_path):
    """Edits by one unit, one ulp and coarse ones, sealed again: both readers agree on every one."""
    answers = []
    for names, _, path in edited_files(tmp_path, 500, seed=7):
        answers.append(verdict_of_library(path))
        assert verdict_of_reader(reader, path.read_bytes()) == answers[-1], names
    assert 50 < sum(answers) < 450


@pytest.mark.slow
def test_many_edited_files_get_the_same_verdict(reader, tmp_path):
    for names, _, path in edited_files(tmp_path, 20_000, seed=8):
        assert verdict_of_reader(reader, path.read_bytes()) == verdict_of_library(path), names


def taylor(epsilon, distance):
    """The factor as the document describes it: whole numbers over 2^256."""
    x = Fraction(epsilon) * Fraction(distance)
    s = next(s for s in itertools.count() if x <= 2**s)
    one = 1 << 256
    y = math.floor(x * one / 2 ** (s + 8))
    total, term = 0, one
    for n in range(1, 51):
        total += term
        term = term * y // (one * n)
    for _ in range(s + 8):
        total = total * total // one
    return total >> 160


def test_factors(reader):
    assert enclosures() == vectors("factors")
    for one in vectors("factors"):
        epsilon, distance = float.fromhex(one["epsilon"]), float.fromhex(one["distance"])
        low, high = exp_bounds(Fraction(epsilon) * Fraction(distance))
        assert int(one["from"]) <= high * 2**96
        assert low * 2**96 <= int(one["to"])
        for made in (reader.factor(epsilon, distance), taylor(epsilon, distance)):
            assert int(one["to"]) - 4 < made <= high * 2**96


def test_distances(reader):
    for one, here in zip(vectors("distances"), distances(), strict=True):
        assert float.fromhex(here["stored"]) == pytest.approx(float.fromhex(one["stored"]), rel=2.0**-45, abs=0.0)
        low, high = distance_bounds(one["metric"], one["a"], one["b"])
        distance, below, r = reader.measured(one["metric"], one["a"], one["b"])
        stored, checked = float.fromhex(one["stored"]), float.fromhex(one["reader"])
        assert stored <= below <= high
        assert stored <= checked <= high
        assert abs(below - checked) <= 2 * r * checked
        assert abs(Fraction(distance) - low) <= Fraction(r) * high
