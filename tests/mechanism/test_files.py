"""Files come back the same, or are refused."""

from __future__ import annotations

import itertools
import json
import os
import resource
import struct
import tracemalloc
from decimal import Decimal

import numpy as np
import pytest
from safetensors import safe_open
from tests.conftest import DATASETS, small_problem
from tests.mechanism.damage import packed, unpacked
from tests.mechanism.independent import is_private
from tests.metric.precise import true_distance

import metricdp as mdp


@pytest.fixture(scope="module")
def mechanism():
    return mdp.solve(small_problem("grid", seed=1, n=8, outputs=4), gap=1e-3).mechanism


@pytest.fixture
def path(mechanism, tmp_path):
    mechanism.save(tmp_path / "m.mdp")
    return tmp_path / "m.mdp"


def unpack(path):
    return unpacked(path.read_bytes())


def pack(path, metadata, tensors, *, seal=True):
    """Write a file by hand, hashes put right unless told otherwise: an editor who knows the format."""
    path.write_bytes(packed(metadata, tensors, seal=seal))


def refused(path) -> str:
    with pytest.raises((mdp.FileFormatError, mdp.CertificationError)) as caught:
        mdp.load(path)
    return str(caught.value)


@pytest.mark.parametrize("dataset", DATASETS)
def test_round_trip(dataset, tmp_path):
    mechanism = mdp.solve(small_problem(dataset, seed=2), gap=1e-3).mechanism
    mechanism.save(tmp_path / "m.mdp")
    again = mdp.load(tmp_path / "m.mdp")
    assert np.array_equal(again.table, mechanism.table)
    assert again.records.ids == mechanism.records.ids
    assert again.records.prior.tolist() == mechanism.records.prior.tolist()
    assert (again.epsilon, again.eta, again.metric) == (mechanism.epsilon, mechanism.eta, mechanism.metric)
    assert again.optimality == mechanism.optimality
    assert again.outputs.rows.tolist() == mechanism.outputs.rows.tolist()
    assert again.certificate.privacy.certified


def test_outputs_as_points_round_trip(tmp_path):
    points = np.array([[0.1, 0.2], [1.5, 1.0], [0.0, 0.0]])
    mechanism = mdp.exponential(mdp.Problem(mdp.data.grid(2, 2), epsilon=1.0, eta=np.inf, outputs=points))
    mechanism.save(tmp_path / "m.mdp")
    again = mdp.load(tmp_path / "m.mdp")
    assert again.outputs.rows is None
    assert np.array_equal(again.outputs.coordinates, points)
    assert again.eta == np.inf


def test_other_programs_can_read_it(path, mechanism):
    with safe_open(path, framework="numpy") as file:
        assert np.array_equal(file.get_tensor("table"), mechanism.table)
        assert file.metadata()["format"] == "metricdp-1"
        assert float.fromhex(file.metadata()["epsilon"]) == mechanism.epsilon


def test_written_whole_or_not_at_all(mechanism, tmp_path, monkeypatch):
    mechanism.save(tmp_path / "m.mdp")
    before = (tmp_path / "m.mdp").read_bytes()

    def fail(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(mdp.InputError, match="cannot write"):
        mechanism.save(tmp_path / "m.mdp")
    assert (tmp_path / "m.mdp").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.mdp"]


def test_missing_and_foreign_files(tmp_path):
    assert "there is no file" in refused(tmp_path / "none.mdp")
    (tmp_path / "empty.mdp").write_bytes(b"")
    assert "cut short" in refused(tmp_path / "empty.mdp")
    (tmp_path / "text.mdp").write_text("hello, this is not a mechanism")
    assert "not a mechanism file" in refused(tmp_path / "text.mdp")


def test_every_truncation_is_refused(path):
    data = path.read_bytes()
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        assert refused(path)


def test_longer_files_are_refused(path):
    path.write_bytes(path.read_bytes() + b"\0")
    assert "belong to no tensor" in refused(path)


def test_a_changed_byte_is_noticed(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    assert "hash does not match" in refused(path)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"format": "metricdp-9"}, "metricdp-9"),
        ({"epsilon": (0.0).hex()}, "must be positive"),
        ({"epsilon": "nan"}, "must be positive"),
        ({"epsilon": "0x1p3"}, "as float.hex writes it"),
        ({"epsilon": "inf"}, "positive and finite"),
        ({"metric": "Euclidean"}, "unknown metric 'Euclidean'"),
        ({"metric": ""}, "unknown metric"),
        ({"loss": (1.0).hex(), "lower_bound": (5.0).hex()}, "0 <= lower bound <= loss"),
        ({"loss": "nan", "lower_bound": "nan"}, "must be finite"),
        ({"epsilon": "ten"}, "cannot be read"),
        ({"eta": (-1.0).hex()}, "must be positive"),
        ({"ids": "{"}, "cannot be read"),
        ({"ids": "[1, 2]"}, "not a list of texts"),
        ({"ids": '["a"]'}, "8 records but 1 ids"),
        ({"kind": "planets"}, "planets"),
        ({"loss": "0x1p+0", "lower_bound": "x"}, "cannot be read"),
        ({"evil": "1"}, "unknown"),
    ],
)
def test_edited_metadata(path, change, part):
    metadata, tensors = unpack(path)
    pack(path, {**metadata, **change}, tensors)
    assert part in refused(path)


def test_a_header_that_names_something_twice_is_refused(path):
    """Readers differ in which one they take: what is certified must be what others read."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    for name in ('"__metadata__"', '"table"', '"epsilon"'):
        text = data[8 : 8 + length].decode()
        place = text.index(name)
        text = text[:place] + f"{name}: null, " + text[place:]
        path.write_bytes(struct.pack("<Q", len(text)) + text.encode() + data[8 + length :])
        assert f"{name[1:-1]}' twice" in refused(path)


@pytest.mark.parametrize(
    "change", [{"epsilon": "0x1." + "0" * 100_000 + "p+0"}, {"format": "x" * 100_000}, {"x" * 100_000: ""}]
)
def test_messages_about_damaged_files_are_short(path, change):
    metadata, tensors = unpack(path)
    pack(path, {**metadata, **change}, tensors)
    assert len(refused(path)) < 1000


def test_a_larger_claim_than_the_table_holds_is_refused(path):
    """Metadata edited to a stronger guarantee, hashes put right: the certificate decides."""
    metadata, tensors = unpack(path)
    pack(path, {**metadata, "epsilon": (0.5 * float.fromhex(metadata["epsilon"])).hex()}, tensors)
    assert "does not satisfy its claims" in refused(path)


def test_a_pair_left_out_is_noticed(path):
    """Fewer protected pairs than eta promises, hashes put right: the pairs are computed again."""
    metadata, tensors = unpack(path)
    tensors["pairs"], tensors["distances"] = tensors["pairs"][1:], tensors["distances"][1:]
    pack(path, metadata, tensors)
    assert "not among the protected pairs" in refused(path)


def test_pairs_at_exactly_eta_left_out_are_noticed(tmp_path):
    """All neighbours are at distance eta; without them the identity would pass."""
    path = tmp_path / "m.mdp"
    mdp.exponential(mdp.Problem(mdp.data.grid(4, 4), epsilon=1.0, eta=1.0, outputs=16)).save(path)
    metadata, tensors = unpack(path)
    for keep in (0, 1):
        changed = {**tensors, "pairs": tensors["pairs"][:keep], "distances": tensors["distances"][:keep]}
        changed["table"] = np.eye(16, dtype=np.uint64) << np.uint64(63)
        pack(path, metadata, changed)
        assert refused(path)


def test_a_file_with_too_few_pairs_is_refused_without_listing_them_all(tmp_path):
    """5,000 records within eta of one another have 12 million pairs: they are not all listed."""
    path = tmp_path / "m.mdp"
    records = mdp.data.gaussian(3_000, seed=0)
    mdp.exponential(mdp.Problem(records, epsilon=1.0, eta=1e-9, outputs=2)).save(path)
    metadata, tensors = unpack(path)
    pack(path, {**metadata, "eta": (1e3).hex()}, tensors)
    tracemalloc.start()
    assert "not among the protected pairs" in refused(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


def test_ids_that_do_not_fit_are_refused_when_saving(tmp_path):
    ids = [f"{i}-{'x' * 20_000}" for i in range(2_000)]
    records = mdp.Records(np.arange(2_000.0), ids=ids, kind="vectors")
    mechanism = mdp.exponential(mdp.Problem(records, epsilon=1.0, eta=1.5, outputs=2))
    with pytest.raises(mdp.InputError, match="shorten them"):
        mechanism.save(tmp_path / "m.mdp")
    assert list(tmp_path.iterdir()) == []


def test_a_longer_distance_is_noticed(path):
    metadata, tensors = unpack(path)
    shortest = tensors["distances"].argmin()
    tensors["distances"][shortest] *= 1.0 + 1e-12
    pack(path, metadata, tensors)
    assert "is stored" in refused(path)


def test_edited_tables_are_refused(path):
    metadata, tensors = unpack(path)
    row, give = tensors["table"][0], tensors["table"][0].argmax()
    row[give] -= row[give] // np.uint64(2)
    pack(path, metadata, tensors)
    assert "does not satisfy its claims" in refused(path)


def test_claimed_sizes_are_checked_before_memory_is_taken(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    header["table"]["shape"] = [10**9, 10**6]
    header["table"]["data_offsets"][1] = header["table"]["data_offsets"][0] + 8 * 10**15
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])
    assert "does not fit into the file" in refused(path)
    path.write_bytes(struct.pack("<Q", 2**62) + data[8:])
    assert "cut short" in refused(path)


def mutated(generator, original, metadata, tensors, path):
    """One spoiled file: bytes changed, cut, inserted or repeated; or a tensor changed and sealed again."""
    kind = generator.integers(7)
    data = bytearray(original)
    if kind == 0:
        for _ in range(generator.integers(1, 9)):
            data[generator.integers(len(data))] = generator.integers(256)
    elif kind == 1:
        del data[generator.integers(len(data)) :]
    elif kind == 2:
        place = generator.integers(len(data))
        data[place:place] = generator.bytes(int(generator.integers(1, 40)))
    elif kind == 3:
        a, b = sorted(generator.integers(len(data), size=2))
        data[a:b] = data[a:b] * 2
    elif kind == 4:  # digits and brackets of the header: shapes, offsets, types
        length = struct.unpack("<Q", original[:8])[0]
        for _ in range(generator.integers(1, 4)):
            data[8 + generator.integers(length)] = b'0123456789[]{}",-eU'[generator.integers(19)]
    elif kind == 5:  # metadata, sealed again
        key = sorted(set(metadata) - {"sha256", "metadata_sha256"})[generator.integers(len(metadata) - 2)]
        text = list(metadata[key] or " ")
        for _ in range(generator.integers(1, 4)):
            text[generator.integers(len(text))] = "0123456789abcdefpx.+-[]\"'"[generator.integers(25)]
        pack(path, {**metadata, key: "".join(text)}, tensors)
        return
    else:
        changed = {name: value.copy() for name, value in tensors.items()}
        name = sorted(changed)[generator.integers(len(changed))]
        flat = changed[name].reshape(-1).view(np.uint8)
        flat[generator.integers(len(flat))] ^= np.uint8(1 << generator.integers(8))
        pack(path, metadata, changed)
        return
    path.write_bytes(bytes(data))


def has_all_pairs(mechanism) -> bool:
    """By brute force with 50 digits: every pair within eta is protected, no distance is longer than the true one."""
    points = mechanism.records.coordinates
    stored = dict(zip(map(tuple, mechanism.graph.pairs.tolist()), mechanism.graph.distances.tolist(), strict=True))
    if mechanism.metric not in ("euclidean", "manhattan", "haversine"):
        return True
    for i, j in itertools.combinations(range(len(points)), 2):
        true = true_distance(mechanism.metric, points[i], points[j])
        if Decimal(stored.get((i, j), 0.0)) > true or ((i, j) not in stored and true <= Decimal(mechanism.eta)):
            return False
    return True


def check_fuzzed(path, count, seed):
    """Every mutated file is refused with our own error, or loads as a mechanism that is certified."""
    original = path.read_bytes()
    metadata, tensors = unpack(path)
    generator = np.random.default_rng(seed)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    loaded = 0
    for _ in range(count):
        mutated(generator, original, metadata, tensors, path)
        try:
            again = mdp.load(path)
        except (mdp.FileFormatError, mdp.CertificationError):
            continue
        loaded += 1
        assert is_private(again.table, again.graph.pairs, again.graph.distances, again.epsilon)
        assert has_all_pairs(again)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200_000  # kB
    assert loaded < count / 2


def test_fuzzed_files(path):
    check_fuzzed(path, 2_000, seed=0)


@pytest.mark.slow
def test_hundred_thousand_fuzzed_files(path):
    check_fuzzed(path, 100_000, seed=1)
