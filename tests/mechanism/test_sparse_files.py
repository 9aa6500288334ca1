"""Files of sparse tables come back the same, or are refused: every check of the loader, one fault at a time."""

from __future__ import annotations

import json
import os
import tracemalloc

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save as to_safetensors
from tests.mechanism.damage import (
    EDITS,
    HARMLESS,
    RAW,
    damaged,
    grid_problem,
    harmless,
    packed,
    problems,
    sparse,
    split,
    unpacked,
)
from tests.mechanism.test_files import check_fuzzed

import metricdp as mdp
from metricdp.mechanism.container import read_header, read_tensors
from metricdp.mechanism.exact import TOTAL, exp_enclosure
from metricdp.mechanism.sparse import KINDS, SparseTable
from metricdp.metric import distances
from metricdp.metric.distances import CoordinateMetric
from metricdp.metric.graph import MdpGraph
from metricdp.metric.remade import remade
from metricdp.metric.rounding import CHECKED_MARGIN, STORED_MARGIN
from metricdp.problem.outputs import Outputs


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    path = tmp_path_factory.mktemp("sparse") / "m.mdp"
    sparse(grid_problem()).save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def all_damaged(honest):
    return {name: (data, said) for name, data, said in damaged(honest)}


def loaded(tmp_path, data):
    path = tmp_path / "m.mdp"
    path.write_bytes(data)
    return mdp.load(path)


@pytest.mark.parametrize("name", [*EDITS, *RAW])
def test_damage_is_refused(name, all_damaged, tmp_path):
    data, said = all_damaged[name]
    with pytest.raises((mdp.FileFormatError, mdp.CertificationError)) as caught:
        loaded(tmp_path, data)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("name", HARMLESS)
def test_what_still_holds_is_read(name, honest, tmp_path):
    data = dict(harmless(honest))[name]
    metadata, _ = unpacked(data)
    mechanism = loaded(tmp_path, data)
    assert mechanism.certificate.privacy.certified
    assert mechanism.certificate.is_from_file
    assert mechanism.records.name == metadata["name"]
    mechanism.save(tmp_path / "again.mdp")
    again = mdp.load(tmp_path / "again.mdp")
    assert again.certificate.privacy.certified
    assert (again.epsilon, again.eta, again.metric) == (mechanism.epsilon, mechanism.eta, mechanism.metric)


def test_put_together_by_hand_it_is_still_honest(honest, tmp_path):
    assert loaded(tmp_path, packed(*unpacked(honest))).certificate.privacy.certified


@pytest.mark.parametrize("kind", ["grid", "matrix"])
def test_fuzzed_files(kind, tmp_path):
    """Bytes changed, cut, inserted and repeated: refused, or what loads is certified and has all its pairs."""
    sparse(problems()[kind]).save(tmp_path / "m.mdp")
    check_fuzzed(tmp_path / "m.mdp", 500, seed=2)


def test_every_truncation_is_refused(honest, tmp_path):
    for length in range(0, len(honest), 11):
        with pytest.raises(mdp.FileFormatError):
            loaded(tmp_path, honest[:length])


# what comes back


HELD = {
    "grid": {"loss_kind": "distance"},
    "travel": {"loss_kind": "travel", "more": {"travel"}},
    "travel by streets": {"loss_kind": "travel", "more": {"travel", "pairs", "distances"}},
    "rows": {"loss_kind": "distance", "more": {"outputs"}},
    "points": {"loss_kind": "distance", "more": {"outputs"}},
    "matrix": {"loss_kind": "given", "more": {"losses", "pairs", "distances"}},
}


@pytest.mark.parametrize("name", HELD)
def test_round_trip(name, tmp_path):
    mechanism = sparse(problems()[name])
    mechanism.save(tmp_path / "m.mdp")
    again = mdp.load(tmp_path / "m.mdp")
    for part in KINDS:
        assert np.array_equal(getattr(again.table, part), getattr(mechanism.table, part))
    assert np.array_equal(again.graph.pairs, mechanism.graph.pairs)
    assert again.graph.distances.tobytes() == mechanism.graph.distances.tobytes()
    assert np.array_equal(again.outputs.coordinates, mechanism.outputs.coordinates)
    assert (again.outputs.rows is None) == (mechanism.outputs.rows is None)
    assert np.array_equal(again.outputs.rows, mechanism.outputs.rows) or again.outputs.rows is None
    assert again.losses.whole().tobytes() == mechanism.losses.whole().tobytes()
    assert again.loss_name == again.losses.name == mechanism.loss_name
    assert again.records.prior.tobytes() == mechanism.records.prior.tobytes()
    assert again.certificate.privacy.tightest_epsilon == mechanism.certificate.privacy.tightest_epsilon
    metadata, tensors = unpacked((tmp_path / "m.mdp").read_bytes())
    assert metadata["format"] == "metricdp-2"
    assert metadata["loss_kind"] == HELD[name]["loss_kind"]
    assert set(tensors) == {*KINDS, "records", "prior"} | HELD[name].get("more", set())
    again.save(tmp_path / "again.mdp")
    words, parts = unpacked((tmp_path / "again.mdp").read_bytes())
    assert words["sha256"] == metadata["sha256"]
    assert set(parts) == set(tensors)


def test_other_programs_can_read_it(honest, tmp_path):
    (tmp_path / "m.mdp").write_bytes(honest)
    with safe_open(tmp_path / "m.mdp", framework="numpy") as file:
        assert set(file.keys()) == {*KINDS, "records", "prior"}
        assert file.get_tensor("indptr").dtype == np.int64
        assert file.metadata()["format"] == "metricdp-2"


@pytest.mark.parametrize("make", [sparse, mdp.exponential])
def test_files_are_those_of_the_safetensors_library(make, tmp_path):
    """To the last byte, but for the order of the metadata, which that library leaves to chance."""
    mechanism = make(grid_problem())
    object.__setattr__(mechanism.records, "name", 'Göteborg "😀\\/\x7f\u2028\n')
    mechanism.save(tmp_path / "m.mdp")
    data = (tmp_path / "m.mdp").read_bytes()
    metadata, tensors = unpacked(data)
    other = to_safetensors(tensors, metadata=metadata)
    assert (len(other), other[:8]) == (len(data), data[:8])
    (header, body), (others, rest) = split(data), split(other)
    assert body == rest
    assert list(header) == list(others)
    assert header == others


# pairs that are made again


def flat(n, points=None, eta=1.0):
    """A file of one weight for everybody, private whatever the pairs are, with nothing but a background."""
    metadata = {
        "format": "metricdp-2", "epsilon": (1.0).hex(), "eta": float(eta).hex(), "metric": "euclidean",
        "kind": "vectors", "name": "x", "ids": json.dumps([str(i) for i in range(n)]), "solver": "", "created": "",
    }  # fmt: skip
    tensors = {
        "indptr": np.zeros(n + 1, dtype="<i8"), "columns": np.zeros(0, dtype="<i4"),
        "weights": np.zeros(0, dtype="<u8"), "background": np.array([TOTAL], dtype="<u8"),
        "scale": np.ones(n, dtype="<u8"), "outputs": np.zeros(1, dtype="<i4"),
        "records": np.arange(n * 1.0)[:, None] if points is None else points, "prior": np.full(n, 1 / n),
    }  # fmt: skip
    return metadata, tensors


def test_the_work_follows_from_the_size_of_a_file(tmp_path, monkeypatch):
    """3,000 records in one place have four million pairs; a file of 100 kB may ask for 48,000."""
    listed = []
    parts = CoordinateMetric.within_in_parts
    monkeypatch.setattr(
        CoordinateMetric, "within_in_parts", lambda *a, **k: (listed.append(len(p[0])) or p for p in parts(*a, **k))
    )
    monkeypatch.setattr(distances, "PAIRS_AT_ONCE", 20_000)
    tracemalloc.start()
    with pytest.raises(mdp.FileFormatError, match="more than 48,000 pairs of records are within eta = 1: so many must"):
        loaded(tmp_path, packed(*flat(3000, np.zeros((3000, 1)))))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(listed) < 100_000
    assert peak < 20e6


@pytest.mark.parametrize(("eta", "is_read"), [(16.0, True), (17.0, False)])
def test_up_to_sixteen_pairs_for_each_record_are_made_again(eta, is_read, tmp_path):
    """On a long line each record has eta neighbours to its right, but the last ones."""
    data = packed(*flat(2000, eta=eta))
    if is_read:
        assert loaded(tmp_path, data).graph.n_pairs == 16 * 2000 - 16 * 17 // 2
    else:
        with pytest.raises(mdp.FileFormatError, match="more than 32,000 pairs"):
            loaded(tmp_path, data)


@pytest.mark.parametrize(("eta", "is_left_out"), [(8.0, True), (9.0, False)])
def test_up_to_eight_pairs_for_each_record_are_left_out(eta, is_left_out, tmp_path):
    mechanism = loaded(tmp_path, packed(*flat(200, eta=eta)))
    assert mechanism.graph.n_pairs > (7 if is_left_out else 8) * 200
    mechanism.save(tmp_path / "again.mdp")
    _, tensors = unpacked((tmp_path / "again.mdp").read_bytes())
    assert ("pairs" not in tensors) == is_left_out
    assert np.array_equal(mdp.load(tmp_path / "again.mdp").graph.pairs, mechanism.graph.pairs)


def test_pairs_that_others_would_not_make_are_written(tmp_path):
    """Shorter distances, or more pairs, than the coordinates give: what was certified is what is in the file."""
    mechanism = sparse(problems()["travel"])
    graph = mechanism.graph
    for changed in (
        MdpGraph(graph.n, graph.pairs, graph.distances * (1 - 2.0**-50)),
        MdpGraph(graph.n, graph.pairs, np.nextafter(graph.distances, 0)),
    ):
        fields = (mechanism.outputs, changed, mechanism.epsilon, mechanism.eta, mechanism.metric)
        mdp.Mechanism(mechanism.table, mechanism.records, *fields).save(tmp_path / "m.mdp")
        assert "pairs" in unpacked((tmp_path / "m.mdp").read_bytes())[1]
        assert mdp.load(tmp_path / "m.mdp").graph.distances.tobytes() == changed.distances.tobytes()


def test_a_table_at_the_limit_of_another_machine_is_read(tmp_path):
    """Private at the distances that a reader may take at most, and not at those that this machine would write."""
    records = mdp.Records([[57.7, 11.9], [57.71, 11.93]])
    measure = CoordinateMetric("haversine")
    checked, stored = (remade(records, 9.0, measure, margin=m, most=9) for m in (CHECKED_MARGIN, STORED_MARGIN))
    epsilon, low = 0.5, 1 << 60
    most = exp_enclosure(epsilon, float(checked.distances[0])) * low >> 96
    assert most > exp_enclosure(epsilon, float(stored.distances[0])) * low >> 96
    for high, is_private in ((most, True), (most + 1, False)):
        metadata, tensors = flat(2, records.coordinates.copy(), eta=9.0)
        metadata |= {"metric": "haversine", "kind": "places", "epsilon": epsilon.hex()}
        tensors |= {
            "indptr": np.array([0, 2, 4], dtype="<i8"), "columns": np.array([0, 1, 0, 1], dtype="<i4"),
            "weights": np.array([high - 5, TOTAL - high, low - 5, TOTAL - low], dtype="<u8"),
            "background": np.array([5, 0], dtype="<u8"), "outputs": np.array([0, 1], dtype="<i4"),
        }  # fmt: skip
        data = packed(metadata, tensors)
        if is_private:
            assert loaded(tmp_path, data).graph.distances.tobytes() == checked.distances.tobytes()
        else:
            with pytest.raises(mdp.CertificationError, match="does not satisfy its claims"):
                loaded(tmp_path, data)


# memory and time


def test_a_file_is_written_and_read_with_one_copy_in_memory(tmp_path):
    """Two million weights: neither writing nor reading takes the file a second time."""
    n, width = 2000, 1000
    columns = np.sort((np.arange(n)[:, None] + np.arange(width)) % n, axis=1).astype(np.int32)
    weights = np.full(n * width, TOTAL // (2 * width), dtype=np.uint64)
    background = np.full(n, (TOTAL - width * (TOTAL // (2 * width))) // n, dtype=np.uint64)
    rest = TOTAL - width * (TOTAL // (2 * width)) - n * int(background[0])
    background[0] += np.uint64(rest)
    scale = np.ones(n, dtype=np.uint64)
    table = SparseTable(np.arange(n + 1) * width, columns.ravel(), weights, background, scale)
    records = mdp.Records(np.arange(n * 1.0), kind="vectors")
    graph = MdpGraph.of(records, CoordinateMetric("euclidean"), 0.5)
    outputs = Outputs.of(np.arange(n), records, seed=0)
    mechanism = mdp.Mechanism(table, records, outputs, graph, 1.0, 0.5, "euclidean")
    del table, columns, weights
    path = tmp_path / "m.mdp"
    tracemalloc.start()
    mechanism.save(path)
    wrote = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    again = mdp.load(path)
    read = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    size = path.stat().st_size
    assert size > 24e6
    assert wrote < 0.1 * size
    assert read < 1.2 * size
    assert again.table.n_stored == n * width


def test_a_mechanism_does_not_change_with_its_file(honest, tmp_path):
    mechanism = loaded(tmp_path, honest)
    before = mechanism.table.weights.copy()
    with (tmp_path / "m.mdp").open("r+b") as file:
        file.seek(len(honest) // 2)
        file.write(b"\xff" * (len(honest) // 2))
    assert np.array_equal(mechanism.table.weights, before)


def test_written_whole_or_not_at_all(honest, tmp_path, monkeypatch):
    mechanism = loaded(tmp_path, honest)

    def fail(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(mdp.InputError, match="cannot write"):
        mechanism.save(tmp_path / "m.mdp")
    assert (tmp_path / "m.mdp").read_bytes() == honest
    assert [p.name for p in tmp_path.iterdir()] == ["m.mdp"]


def test_a_file_that_shrinks_while_it_is_read_is_refused(honest, tmp_path):
    (tmp_path / "m.mdp").write_bytes(honest)
    header, offset = read_header(tmp_path / "m.mdp")
    header.pop("__metadata__")
    (tmp_path / "m.mdp").write_bytes(honest[:-1])
    with pytest.raises(mdp.FileFormatError, match="was cut short while it was read: tensor columns is not all there"):
        read_tensors(tmp_path / "m.mdp", header, offset)
