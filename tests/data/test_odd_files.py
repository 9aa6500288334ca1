"""Byte order marks, other encodings, NumPy files of all kinds, devices: read right, or refused in one line."""

import gzip
import io
import json
import os
import struct
import threading

import numpy as np
import pytest

import metricdp as mdp
from metricdp.apply import perturb_file, perturb_text
from metricdp.data import (
    Records,
    read_csv,
    read_geojson,
    read_graphml,
    read_matrix,
    read_pbf,
    read_records,
    read_rows,
    read_streets,
    read_word_vectors,
)
from metricdp.errors import FileFormatError, InputError

NODES = Records([[0.0, 0.0], [0.0, 1.0]])
POINT = {"geometry": {"type": "Point", "coordinates": [1, 2]}}
HONEST = {
    "csv": (read_csv, "lat,lon\n1,2\n3,4\n", 2),
    "streets": (lambda path: read_streets(path, NODES), "u,v\n0,1\n", 1),
    "rows": (read_rows, "3\n1\n", 2),
    "rows with a name": (read_rows, "row\n3\n1\n", 2),
    "matrix": (read_matrix, "1,2\n3,4\n", 2),
    "geojson": (read_geojson, json.dumps({"features": [POINT]}), 1),
    "graphml": (read_graphml, '<graphml><node id="a"><data key="x">1</data><data key="y">2</data></node></graphml>', 1),
    "word vectors": (read_word_vectors, "cat 1 2\ndog 3 4\n", 2),
    "word vectors with a head": (read_word_vectors, "2 2\ncat 1 2\ndog 3 4\n", 2),
}


def size_of(found) -> int:
    return found.n_edges if hasattr(found, "n_edges") else len(found)


def one_line(reader, path) -> str:
    with pytest.raises(InputError) as caught:
        reader(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message or "Records" in message or "must be" in message
    assert len(message) < 600
    return message


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_byte_order_mark_is_no_part_of_the_text(name, is_packed, tmp_path):
    reader, text, n = HONEST[name]
    content = b"\xef\xbb\xbf" + text.encode()
    (tmp_path / "f").write_bytes(gzip.compress(content) if is_packed else content)
    assert size_of(reader(tmp_path / "f")) == n


@pytest.mark.parametrize("name", HONEST)
def test_windows_lines(name, tmp_path):
    reader, text, n = HONEST[name]
    (tmp_path / "f").write_bytes(text.replace("\n", "\r\n").encode())
    assert size_of(reader(tmp_path / "f")) == n


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_encodings_are_refused_or_read(name, encoding, tmp_path):
    """XML may say its encoding itself; all others are UTF-8."""
    reader, text, n = HONEST[name]
    (tmp_path / "f").write_bytes(text.encode(encoding))
    if name == "graphml" and encoding != "utf-32":
        assert size_of(reader(tmp_path / "f")) == n
    else:
        one_line(reader, tmp_path / "f")


ODD = {
    "empty": b"",
    "blank": b" \r\n \n",
    "mark alone": b"\xef\xbb\xbf",
    "marks alone": b"\xef\xbb\xbf" * 3,
    "zeros": bytes(5000),
    "empty gzip": gzip.compress(b""),
    "packed twice": gzip.compress(gzip.compress(b"lat,lon\n1,2\n")),
    "gzip cut short": gzip.compress(b"lat,lon\n1,2\n")[:-9],
    "gzip head alone": b"\x1f\x8b",
    "gzip and rubbish": gzip.compress(b"lat,lon\n1,2\n") + b"rubbish",
    "half a character": "lat,lon,id\n1,2,é".encode()[:-1],
    "surrogates": b"lat,lon,id\n1,2,\xed\xa0\x80\n",
    "all bytes": bytes(range(256)) * 9,
    "quote without end": b'lat,lon\n1,"2\n',
    "zero in a cell": b"lat,lon\n1,\x002\n",
    "brackets": b"[" * 100_000,
    "braces": b'{"features":' * 30_000,
    "deep feature": b'{"features": [' + b'{"a":' * 100_000,
    "deep coordinates": b'{"features": [{"geometry": {"type": "Point", "coordinates": ' + b"[" * 50_000,
    "long number": b'{"features": [{"geometry": {"type": "Point", "coordinates": [' + b"1" * 10_000 + b", 2]}}]}",
    "weight of text": json.dumps({"features": [{**POINT, "properties": {"weight": "heavy"}}]}).encode(),
    "weight beyond numbers": json.dumps({"features": [{**POINT, "properties": {"weight": 10**400}}]}).encode(),
    "id of a list": json.dumps({"features": [{**POINT, "id": [1]}, {**POINT, "id": [1]}]}).encode(),
    "laughs": b'<!DOCTYPE g [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><graphml>&b;</graphml>',
    "entity from a file": b'<!DOCTYPE g [<!ENTITY a SYSTEM "file:///etc/passwd">]><graphml>&a;</graphml>',
    "deep elements": b"<a>" * 200_000,
    "unknown entity": b"<graphml>&nope;</graphml>",
    "millions of words": b"99999999999999999999 99999999999999999999\ncat 1\n",
    "header with long numbers": b"1" * 5000 + b" 2\ncat 1 2\n",
}
ALL_READERS = {**{name: one[0] for name, one in HONEST.items()}, "pbf": read_pbf}


@pytest.mark.parametrize("odd", ODD)
def test_odd_content_never_shows_a_traceback(odd, tmp_path):
    (tmp_path / "f").write_bytes(ODD[odd])
    for name, reader in ALL_READERS.items():
        if odd == "id of a list" and name == "geojson":
            with pytest.raises(InputError, match="occurs more than once"):
                read_geojson(tmp_path / "f")
        elif odd in ("surrogates", "gzip and rubbish", "header with long numbers", "packed twice"):
            with pytest.raises(InputError):
                reader(tmp_path / "f")
        else:
            one_line(reader, tmp_path / "f")


@pytest.mark.parametrize("name", ALL_READERS)
def test_places_that_are_no_files(name, tmp_path):
    for path in (tmp_path, tmp_path / "none", "/dev/null", "a\0b"):
        with pytest.raises(InputError) as caught:
            ALL_READERS[name](path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [name for name in HONEST if name != "graphml"])
def test_a_device_without_end_is_refused(name, monkeypatch):
    monkeypatch.setattr("metricdp.data.readers.streams.LONGEST_LINE", 1 << 16)
    monkeypatch.setattr("metricdp.data.readers.features.LONGEST_VALUE", 1 << 16)
    one_line(HONEST[name][0], "/dev/zero")


@pytest.mark.parametrize("name", HONEST)
def test_pipes_are_read_like_files(name, tmp_path):
    reader, text, n = HONEST[name]
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(gzip.compress(text.encode())))
    writer.start()
    assert size_of(reader(tmp_path / "pipe")) == n
    writer.join()


def npy(array, **options) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


MATRIX = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


@pytest.mark.parametrize(
    "array",
    [
        MATRIX,
        np.asfortranarray(MATRIX),
        MATRIX.astype(">f8"),
        MATRIX.astype("<f4"),
        MATRIX.astype("<f2"),
        MATRIX.astype(">i2"),
        MATRIX.astype(np.uint8),
        MATRIX.astype(np.longdouble),
    ],
    ids=str,
)
def test_numpy_files_of_any_number_and_order(array, tmp_path):
    (tmp_path / "m.npy").write_bytes(npy(array))
    found = read_matrix(tmp_path / "m.npy")
    assert (found.dtype, found.flags.c_contiguous) == (np.float64, True)
    assert np.array_equal(found, MATRIX)


@pytest.mark.parametrize(
    "array",
    [
        np.float64(3.0),
        np.zeros((2, 2, 2)),
        np.zeros((2, 0)),
        MATRIX.astype(complex),
        np.array([["a", "b"]]),
        np.array([[b"a"]]),
        np.zeros((2, 2), dtype=[("x", "f8"), ("y", "f8")]),
        np.zeros((2, 2), dtype="M8[s]"),
        np.zeros((2, 2), dtype="V4"),
    ],
    ids=str,
)
def test_numpy_files_that_are_no_numbers_are_refused(array, tmp_path):
    (tmp_path / "m.npy").write_bytes(npy(array))
    assert "matrix of numbers" in one_line(read_matrix, tmp_path / "m.npy")


def test_pickles_in_numpy_files_are_never_opened(tmp_path):
    class Harm:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "harm"),))

    (tmp_path / "m.npy").write_bytes(npy(np.array([[Harm()]], dtype=object), allow_pickle=True))
    one_line(read_matrix, tmp_path / "m.npy")
    np.savez(tmp_path / "m.npz", MATRIX)
    one_line(read_matrix, tmp_path / "m.npz")
    assert not (tmp_path / "harm").exists()


def headed(text: str, version: bytes = b"\x01\x00") -> bytes:
    return b"\x93NUMPY" + version + struct.pack("<H" if version[0] == 1 else "<I", len(text)) + text.encode("latin-1")


@pytest.mark.parametrize(
    "content",
    [
        b"\x93NUMPY",
        b"\x93NUMPY\x09\x00",
        headed("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000)}") + bytes(100),
        headed("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 5)}") + bytes(100),
        headed("{'descr': '<f8', 'fortran_order': False, 'shape': (True, 5)}") + bytes(100),
        headed("{'descr': '<f8', 'fortran_order': False, 'shape': (10**30, 10**30)}") + bytes(100),
        headed("{'descr': '<f8', 'fortran_order': False, 'shape': (" + "9" * 60 + ", 2)}") + bytes(100),
        headed("{'descr': 'nonsense', 'fortran_order': False, 'shape': (1, 5)}") + bytes(100),
        headed("{'descr': [('a', '<f8', (9999999, 9999999))], 'fortran_order': False, 'shape': (1, 5)}") + bytes(100),
        headed("{'descr': '<f8'}") + bytes(100),
        headed("(" * 900) + bytes(100),
        headed("{" * 9000) + bytes(100),
        headed("'") + bytes(100),
        headed("{'descr': '<f8', 'fortran_order': False, 'shape': (1L, 5L}") + bytes(100),
        headed("\x00" * 50) + bytes(100),
        headed("{}", b"\x02\x00"),
        headed("\xff" * 50, b"\x03\x00"),
        b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
        npy(MATRIX)[:-1],
        npy(MATRIX)[:60],
    ],
)
def test_damaged_numpy_files(content, tmp_path):
    (tmp_path / "m.npy").write_bytes(content)
    with pytest.raises(FileFormatError):
        read_matrix(tmp_path / "m.npy")
    assert "numpy.save" in one_line(read_matrix, tmp_path / "m.npy")


def test_numpy_headers_at_random(tmp_path):
    generator, original = np.random.default_rng(0), npy(MATRIX)
    refused = []
    for _ in range(400):
        content = bytearray(original)
        for _ in range(generator.integers(1, 4)):
            content[generator.integers(6, 90)] = generator.integers(256)
        (tmp_path / "m.npy").write_bytes(content)
        try:
            found = read_matrix(tmp_path / "m.npy")
        except InputError as error:
            refused.append(str(error))
        else:
            assert found.ndim == 2
    assert len(refused) > 200
    assert not any("\n" in message for message in refused)


@pytest.fixture(scope="module")
def mechanism():
    records = Records([[0.0], [1.0], [2.0]], ids=["a", "b", "c"], kind="vectors")
    return mdp.exponential(mdp.Problem(records, epsilon=1.0, eta=5.0, outputs=3))


@pytest.mark.parametrize("is_packed", [False, True])
def test_files_to_perturb_may_begin_with_a_byte_order_mark(mechanism, is_packed, tmp_path):
    pack = gzip.compress if is_packed else bytes
    for name, text in (("f.csv", "id\r\na\r\nb\r\n"), ("f.json", '{"features": [{"id": "a"}, {"id": "b"}]}')):
        (tmp_path / name).write_bytes(pack(b"\xef\xbb\xbf" + text.encode()))
        assert perturb_file(mechanism, tmp_path / name, tmp_path / "out.csv").reports == 2
    (tmp_path / "f.txt").write_bytes(pack(b"\xef\xbb\xbfa b c\n"))
    perturb_text(mechanism, tmp_path / "f.txt", tmp_path / "out.txt", unknown="refuse")
    assert set((tmp_path / "out.txt").read_text().split()) <= {"a", "b", "c"}


@pytest.mark.parametrize("odd", ODD)
def test_odd_files_to_perturb(mechanism, odd, tmp_path):
    for name in ("f.csv", "f.json"):
        (tmp_path / name).write_bytes(ODD[odd])
        with pytest.raises(InputError) as caught:
            perturb_file(mechanism, tmp_path / name, tmp_path / "out.csv")
        assert "\n" not in str(caught.value)


def test_the_suffix_does_not_matter_to_odd_files(tmp_path):
    for suffix in (".csv", ".geojson", ".graphml", ".pbf", ".txt", ".csv.gz"):
        (tmp_path / f"f{suffix}").write_bytes(ODD["all bytes"])
        one_line(read_records, tmp_path / f"f{suffix}")
