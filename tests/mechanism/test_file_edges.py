"""Mechanism files at their edges: every size, shape, type and hash that is looked at, one wrong at a time."""

from __future__ import annotations

import copy
import hashlib
import json
import struct

import numpy as np
import pytest

import metricdp as mdp
from metricdp.mechanism import container
from metricdp.mechanism.container import metadata_hash, read_header, short, tensor_hash
from metricdp.mechanism.files import save
from metricdp.mechanism.layout import DENSE, LAYOUTS, checked_tensors, layout_of


@pytest.fixture(scope="module")
def mechanism():
    problem = mdp.Problem(mdp.data.grid(2, 4), epsilon=1.0, eta=1.0, outputs=4)
    return mdp.solve(problem, gap=1e-3).mechanism


@pytest.fixture
def path(mechanism, tmp_path):
    mechanism.save(tmp_path / "m.mdp")
    return tmp_path / "m.mdp"


def header_of(path):
    header, offset = read_header(path)
    return header, header.pop("__metadata__"), offset


def map_tensors(path, header, offset):
    """The tensors of a dense file under a changed header."""
    _, metadata, _ = header_of(path)
    return checked_tensors(path, header, offset, metadata, LAYOUTS[DENSE])


def refusal(call, *words):
    with pytest.raises(mdp.FileFormatError) as caught:
        call(*words)
    return str(caught.value)


# the header


def test_the_header_may_fill_its_room_and_no_more(path, monkeypatch):
    length = struct.unpack("<Q", path.read_bytes()[:8])[0]
    monkeypatch.setattr(container, "MAX_HEADER_BYTES", length)
    header, offset = read_header(path)
    assert offset == 8 + length
    assert "table" in header
    monkeypatch.setattr(container, "MAX_HEADER_BYTES", length - 1)
    assert refusal(read_header, path).endswith(f"({path.stat().st_size} bytes): name a .mdp file as it was written")


@pytest.mark.parametrize(("length", "is_read"), [(32_000_000, True), (32_000_001, False)])
def test_the_room_of_the_header_is_part_of_the_format(length, is_read, tmp_path):
    """Files with larger headers are refused by versions that have been released."""
    (tmp_path / "m.mdp").write_bytes(struct.pack("<Q", length) + b"{}".ljust(length))
    if is_read:
        assert read_header(tmp_path / "m.mdp") == ({}, 8 + length)
    else:
        assert "cut short" in refusal(read_header, tmp_path / "m.mdp")


def test_ids_may_fill_the_room_of_the_header_and_no_more(mechanism, path, monkeypatch):
    length = struct.unpack("<Q", path.read_bytes()[:8])[0]
    monkeypatch.setattr(container, "MAX_HEADER_BYTES", length)
    mechanism.save(path)
    monkeypatch.setattr(container, "MAX_HEADER_BYTES", length - 1)
    with pytest.raises(mdp.InputError, match=f"ids take {length:,} bytes.*room for {length - 1:,}: shorten them"):
        mechanism.save(path)


def test_a_header_that_ends_with_the_file_is_read_and_one_byte_more_is_not(tmp_path):
    text = b'{"a": 1}'
    short = tmp_path / "short.mdp"
    short.write_bytes(struct.pack("<Q", len(text)) + text)
    assert read_header(short) == ({"a": 1}, 16)
    short.write_bytes(struct.pack("<Q", len(text) + 1) + text)
    assert "cut short (16 bytes)" in refusal(read_header, short)


@pytest.mark.parametrize("text", [b"[]", b"7", b'"table"', b"null"])
def test_a_header_is_a_table(tmp_path, text):
    (tmp_path / "m.mdp").write_bytes(struct.pack("<Q", len(text)) + text)
    assert "its header is not a table of tensors" in refusal(mdp.load, tmp_path / "m.mdp")


@pytest.mark.parametrize("size", range(9))
def test_files_without_a_header(tmp_path, size):
    (tmp_path / "m.mdp").write_bytes(b"\0" * size)
    said = refusal(mdp.load, tmp_path / "m.mdp")
    assert said.startswith(f"{tmp_path / 'm.mdp'} is not a mechanism file")
    assert ("cut short" in said) == (size < 8)


def test_what_a_file_holds_is_shown_up_to_200_characters():
    assert short("x" * 200) == "x" * 200
    assert short("x" * 201) == "x" * 200 + "..."
    assert short(7) == "7"


# tensors


def test_tensors_are_those_of_the_file(path, mechanism):
    header, _, offset = header_of(path)
    tensors = map_tensors(path, header, offset)
    assert np.array_equal(tensors["table"], mechanism.table)
    assert np.array_equal(tensors["distances"], mechanism.graph.distances)
    assert tensors["outputs"].tolist() == mechanism.outputs.rows.tolist()


@pytest.mark.parametrize(
    ("name", "change", "part"),
    [
        ("table", {"shape": [8.0, 4]}, "tensor table is U64 of shape (8.0, 4)"),
        ("table", {"shape": [-8, -4]}, "tensor table is U64 of shape (-8, -4)"),
        ("table", {"shape": [32]}, "tensor table is U64 of shape (32,)"),
        ("table", {"shape": [8, 4, 1]}, "tensor table is U64 of shape (8, 4, 1)"),
        ("table", {"dtype": "F64"}, "tensor table is F64 of shape (8, 4)"),
        ("prior", {"dtype": "U64"}, "tensor prior is U64 of shape (8,)"),
        ("outputs", {"shape": [4, 1]}, "tensor outputs is I32 of shape (4, 1)"),
        ("prior", {"shape": [True, 8]}, "tensor prior is F64 of shape (True, 8)"),
        ("prior", {"shape": [7]}, "tensor prior does not fit into the file"),
        ("prior", {"shape": [9]}, "tensor prior does not fit into the file"),
        ("prior", {"dtype": "F32"}, "tensor prior is not described properly"),
        ("prior", {"shape": None}, "tensor prior is not described properly"),
        ("prior", {"data_offsets": [1, 2, 3]}, "tensor prior is not described properly"),
        ("losses", {"dtype": "U64"}, "tensor losses is U64 of shape (8, 4)"),
    ],
)
def test_tensors_are_as_they_must_be(path, name, change, part):
    header, _, offset = header_of(path)
    assert name in header
    header[name] |= change
    assert part in refusal(map_tensors, path, header, offset)


def test_tensors_are_those_that_a_mechanism_has(path):
    header, _, offset = header_of(path)
    known = "distances, outputs, pairs, prior, records, table"
    for name in known.split(", "):
        rest = {key: value for key, value in header.items() if key not in (name, "losses")}
        assert f"has the tensors {', '.join(sorted(rest))}, expected {known}" in refusal(
            map_tensors, path, rest, offset
        )
    more = header | {"more": header["prior"]}
    assert f"has the tensors {', '.join(sorted(more))}, expected {known}" in refusal(map_tensors, path, more, offset)


@pytest.mark.parametrize("by", [-1, 1])
def test_tensors_lie_end_to_end_within_the_file(path, by):
    header, _, offset = header_of(path)
    size = path.stat().st_size - offset
    names = sorted(header, key=lambda name: header[name]["data_offsets"])
    first, last = names[0], names[-1]
    assert header[first]["data_offsets"][0] == 0
    moved = copy.deepcopy(header)
    moved[first]["data_offsets"] = [v + by for v in moved[first]["data_offsets"]]
    assert (
        f"tensor {first} is" in refusal(map_tensors, path, moved, offset)
        if by < 0
        else "overlap or leave gaps" in (refusal(map_tensors, path, moved, offset))
    )
    moved = copy.deepcopy(header)
    moved[last]["data_offsets"] = [v + by for v in moved[last]["data_offsets"]]
    said = refusal(map_tensors, path, moved, offset)
    assert ("does not fit into the file" if by > 0 else "overlap or leave gaps") in said
    with path.open("ab") as file:
        file.write(b"more")
    assert "it holds 4 bytes that belong to no tensor" in refusal(map_tensors, path, header, offset)
    assert header[last]["data_offsets"][1] == size


def shapes(n=8, K=4, P=10, D=2, **more):
    parts = {"table": (n, K), "pairs": (P, 2), "distances": (P,), "records": (n, D), "prior": (n,), "outputs": (K,)}
    return parts | more


@pytest.mark.parametrize(
    "good",
    [shapes(), shapes(1, 1, 0, 1), shapes(outputs=(4, 2)), shapes(losses=(8, 4)), shapes(1, 1, 0, 1, losses=(1, 1))],
)
def test_shapes_that_fit(good):
    assert LAYOUTS[DENSE].fits(good)


@pytest.mark.parametrize(
    "bad",
    [
        shapes(n=0),
        shapes(K=0),
        shapes(D=0),
        shapes(pairs=(10, 3)),
        shapes(pairs=(10, 1)),
        shapes(distances=(11,)),
        shapes(distances=(9,)),
        shapes(records=(7, 2)),
        shapes(prior=(7,)),
        shapes(outputs=(5,)),
        shapes(outputs=(4, 3)),
        shapes(outputs=(5, 2)),
        shapes(losses=(8, 5)),
        shapes(losses=(7, 4)),
        shapes(losses=(4, 8)),
    ],
)
def test_shapes_that_do_not_fit(bad):
    assert not LAYOUTS[DENSE].fits(bad)


def test_shapes_are_looked_at_when_tensors_are_mapped(path):
    header, _, offset = header_of(path)
    table = header["table"]["shape"]
    header["table"]["shape"] = table[::-1]
    assert "do not fit together" in refusal(map_tensors, path, header, offset)


# metadata and hashes


def test_the_hash_of_tensors_is_of_names_types_shapes_and_bytes():
    a, b = np.arange(6, dtype="<f8").reshape(2, 3), np.zeros((0, 2), dtype="<i4")
    text = b"a <f8 (2, 3)\n" + a.tobytes() + b"b <i4 (0, 2)\n"
    assert tensor_hash({"b": b, "a": a}) == hashlib.sha256(text).hexdigest()
    assert tensor_hash({"b": b, "a": np.asfortranarray(a)}) == hashlib.sha256(text).hexdigest()


def test_the_hash_of_metadata_is_of_all_but_itself():
    text = json.dumps({"a": "1", "sha256": "2"}, sort_keys=True).encode()
    assert metadata_hash({"sha256": "2", "metadata_sha256": "3", "a": "1"}) == hashlib.sha256(text).hexdigest()


def test_metadata_is_whole_and_sealed(path):
    header, metadata, offset = header_of(path)

    def check(changed, *, seal=True):
        if seal:
            changed = {**changed, "metadata_sha256": metadata_hash(changed)}
        return checked_tensors(path, header, offset, changed, layout_of(path, changed))

    assert sorted(check(metadata)) == sorted(header)
    for nothing in (None, [], "text", 7):
        assert "it has no metadata" in refusal(layout_of, path, nothing)
    assert "it has no metadata" in refusal(check, {**metadata, "solver": 7})
    assert "has format 'metricdp-9'" in refusal(check, {**metadata, "format": "metricdp-9"})
    for key in ("epsilon", "eta", "metric", "kind", "name", "ids", "solver", "created", "sha256"):
        assert f"metadata missing ['{key}'], unknown []" in refusal(
            check, {k: v for k, v in metadata.items() if k != key}
        )
    assert "metadata missing [], unknown ['more']" in refusal(check, {**metadata, "more": ""})
    both = {k: v for k, v in metadata.items() if k != "ids"} | {"more": ""}
    assert "metadata missing ['ids'], unknown ['more']" in refusal(check, both)
    changed = {**metadata, "sha256": "0" * 64}
    assert "its hash does not match" in refusal(check, changed)
    changed = {**metadata, "solver": "another"}
    assert "its hash does not match" in refusal(lambda: check(changed, seal=False))
    assert sorted(check(changed)) == sorted(header)


def rewritten(path, **changes):
    """Change metadata (None removes it) and put the hash right."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    metadata = {k: v for k, v in (header["__metadata__"] | changes).items() if v is not None}
    metadata["metadata_sha256"] = metadata_hash(metadata)
    header["__metadata__"] = metadata
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])


@pytest.mark.parametrize("ids", ["abcdefgh", ["a", "b", "c", "d", "e", "f", "g", 8], list(range(8)), {"a": 1}, 8, None])
def test_ids_are_a_list_of_texts(path, ids):
    rewritten(path, ids=json.dumps(ids))
    assert "its record ids are not a list of texts" in refusal(mdp.load, path)


@pytest.mark.parametrize("name", ["loss", "lower_bound"])
def test_a_loss_and_its_bound_come_together(path, name):
    rewritten(path, **{name: None})
    assert f"its metadata cannot be read ('{name}')" in refusal(mdp.load, path)


def test_a_file_without_a_loss_has_no_optimality(path):
    rewritten(path, loss=None, lower_bound=None)
    assert mdp.load(path).optimality is None


# what goes into a file


def test_what_was_read_says_so(path, mechanism):
    assert not mechanism.certificate.is_from_file
    assert mdp.load(path).certificate.is_from_file


def test_losses_go_into_the_file_and_come_back(mechanism, tmp_path):
    mechanism.save(tmp_path / "m.mdp")
    again = mdp.load(tmp_path / "m.mdp")
    assert np.array_equal(again.losses.whole(), mechanism.losses.whole())
    assert again.loss_name == mechanism.loss_name == "distance"
    other = np.asfortranarray(np.arange(32.0).reshape(8, 4))
    save(mechanism, tmp_path / "other.mdp", losses=other, loss_name="counted")
    again = mdp.load(tmp_path / "other.mdp")
    assert np.array_equal(again.losses.whole(), other)
    assert again.loss_name == "counted"
    save(mechanism, tmp_path / "given.mdp", losses=other)
    assert mdp.load(tmp_path / "given.mdp").loss_name == "given"


def test_a_mechanism_without_losses_has_none_in_its_file(mechanism, tmp_path):
    parts = (mechanism.outputs, mechanism.graph, mechanism.epsilon, mechanism.eta, mechanism.metric)
    bare = mdp.Mechanism(mechanism.table, mechanism.records, *parts)
    bare.save(tmp_path / "m.mdp")
    header, metadata, _ = header_of(tmp_path / "m.mdp")
    assert "losses" not in header
    assert "loss_name" not in metadata
    again = mdp.load(tmp_path / "m.mdp")
    assert (again.losses, again.loss_name) == (None, "given")


def test_a_table_that_is_not_private_any_more_is_not_written(tmp_path):
    """What is written is what passes, whatever was done to the object since it was made."""
    changed = mdp.exponential(mdp.Problem(mdp.data.grid(2, 2), epsilon=1.0, eta=1.0))
    object.__setattr__(changed, "table", np.eye(4, dtype=np.uint64) << np.uint64(63))
    with pytest.raises(mdp.CertificationError, match="the table is not 1-mDP"):
        changed.save(tmp_path / "m.mdp")
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_cannot_be_written_is_told_before_any_work(mechanism, tmp_path, monkeypatch):
    monkeypatch.setattr(mdp.Mechanism, "recheck", lambda _: pytest.fail("worked first"))
    with pytest.raises(mdp.InputError, match="cannot write"):
        mechanism.save(tmp_path / "none" / "m.mdp")


def test_what_is_required_is_looked_at_last(path, mechanism):
    assert mdp.load(path, require="epsilon<=1").epsilon == 1.0
    with pytest.raises(mdp.CertificationError, match="does not meet the requirement: "):
        mdp.load(path, require="epsilon<=0.5")
    with pytest.raises(mdp.InputError):
        mdp.load(path, require="")
