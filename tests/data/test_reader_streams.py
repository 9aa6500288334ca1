"""Files read piece by piece: lines, limits that hold exactly, and what is said of a file that cannot be read."""

import gzip
import io
import os
import socket
import threading
from pathlib import Path

import numpy as np
import osmium
import pytest
from osmium.osm.mutable import Node, Way

from metricdp.data import (
    Records,
    read_csv,
    read_geojson,
    read_graphml,
    read_matrix,
    read_pbf,
    read_rows,
    read_streets,
    read_word_vectors,
)
from metricdp.data.readers import streams
from metricdp.data.readers.streams import Allowance, ByteSource, TextSource, available_bytes
from metricdp.errors import FileFormatError, InputError, show_values

NODES = Records([[0.0, 0.0], [0.0, 1.0]])


@pytest.fixture
def write(tmp_path):
    def writer(content, name="file"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return writer


def message_of(call, *given, error=InputError, **options):
    with pytest.raises(error) as caught:
        call(*given, **options)
    assert type(caught.value) is error
    return str(caught.value)


def open_files():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def lines_of(path, **options):
    with TextSource(path, **options) as source:
        return list(source.lines())


def bytes_of(path, **options):
    with ByteSource(path, **options) as source:
        return b"".join(source.pieces())


# memory


def test_exactly_what_is_allowed_may_be_taken():
    allowance = Allowance("f.csv", 1.0)
    assert (allowance.taken, allowance.most) == (0, 1e9)
    allowance.take(4e8)
    allowance.take(6e8)
    assert message_of(allowance.take, 1) == (
        "f.csv holds more than fits into 1 GB of memory: keep only the rows and columns you need, or raise memory_limit"
    )
    Allowance("f.csv", 0.5).take(5e8)


@pytest.mark.parametrize("limit", [0, -0.5, float("nan")])
def test_a_memory_limit_is_positive(limit):
    message = message_of(Allowance, "f.csv", limit)
    assert message == f"memory_limit must be positive, got {limit}: give gigabytes such as 4"


def test_half_of_the_free_memory_is_allowed(monkeypatch):
    monkeypatch.setattr(streams, "available_bytes", lambda: 3e9)
    assert Allowance("f.csv").most == 1.5e9


def test_free_memory_as_the_system_tells_it(monkeypatch):
    assert 1e6 < available_bytes() < 1e15
    told = "MemTotal:  9000 kB\nNote: a: b\nMemAvailable:   2000 kB\n"
    monkeypatch.setattr(streams, "open", lambda *_, **__: io.StringIO(told), raising=False)
    assert available_bytes() == 2000 * 1024


@pytest.mark.parametrize("told", ["MemTotal:  9000 kB\n", "MemAvailable: much\n", "no colon\n"])
def test_the_memory_of_the_machine_where_free_memory_is_not_told(monkeypatch, told):
    monkeypatch.setattr(streams, "open", lambda *_, **__: io.StringIO(told), raising=False)
    assert available_bytes() == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("error", [OSError, ValueError, AttributeError])
def test_four_gigabytes_where_nothing_is_told(monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(streams, "open", lambda *_, **__: fail() if error is OSError else io.StringIO(), raising=False)
    monkeypatch.setattr(os, "sysconf", fail)
    assert available_bytes() == 4e9


POINT = '{"geometry": {"type": "Point", "coordinates": [1, 2]}'
XY = '<data key="x">1</data><data key="y">2</data>'
# what is read, and the bytes that it counts: numbers, ids and all that is kept of each record
COUNTED = {
    "places": (read_csv, "lat,lon\n1,2\n3,4\n", 2 * (180 + 2 * 24)),
    "vectors with ids": (read_csv, "id,x,y,z\n abc ,1,2,3\nd,1,2,3\n", 2 * (180 + 3 * 24) + 4),
    "streets": (lambda path, **limit: read_streets(path, NODES, **limit), "u,v\n0,1\n1,0\n0,0\n", 3 * 5 * 24),
    "rows": (read_rows, "1\n2\n3\n", 3 * 24),
    "matrix": (read_matrix, "1,2,3\n4,5,6\n", 6 * 24),
    "geojson": (read_geojson, f'{{"features": [{POINT}}}, {POINT}}}]}}', 2 * 420),
    "geojson with ids": (
        read_geojson,
        f'{{"features": [{POINT}, "id": "abcde"}}, {POINT}, "id": "f"}}]}}',
        2 * 420 + 6,
    ),
    "word vectors": (read_word_vectors, "cat 1 2\nlion 3 4\n", 2 * (300 + 2 * 24) + 7),
    "graphml": (
        read_graphml,
        (
            f'<graphml><key id="w" attr.name="width"/><node id="abc">{XY}</node><node id="d">{XY}</node>'
            '<edge source="abc" target="d"/></graphml>'
        ),
        4 * 600 + 4 + 4,
    ),
}


@pytest.mark.parametrize("name", COUNTED)
def test_what_reading_counts_to_the_byte(name, write):
    reader, text, n_bytes = COUNTED[name]
    path = write(text)
    reader(path, memory_limit=(n_bytes + 0.5) / 1e9)
    assert "raise memory_limit" in message_of(reader, path, memory_limit=(n_bytes - 0.5) / 1e9)


def test_what_numpy_files_and_extracts_count_to_the_byte(tmp_path):
    matrix, extract = tmp_path / "m.npy", tmp_path / "town.osm.pbf"
    np.save(matrix, np.ones((2, 3), dtype=np.int8))
    with osmium.SimpleWriter(str(extract)) as writer:
        for number in (1, 2, 3):
            writer.add_node(Node(id=number, location=(12.0 + number, 57.0)))
        writer.add_way(Way(id=1, nodes=[1, 2, 3, 2], tags={"highway": "residential"}))
    for reader, path, n_bytes in ((read_matrix, matrix, 6 * 8), (read_pbf, extract, 3 * 500 + 3 * 300)):
        reader(path, memory_limit=(n_bytes + 0.5) / 1e9)
        assert "raise memory_limit" in message_of(reader, path, memory_limit=(n_bytes - 0.5) / 1e9)


# packed files


def test_sixteen_megabytes_may_always_be_unpacked(write):
    assert len(bytes_of(write(gzip.compress(bytes(16_000_000), 1)), most_ratio=50.0)) == 16_000_000
    path = write(gzip.compress(bytes(16_000_001), 1))
    assert message_of(bytes_of, path, most_ratio=50.0, error=FileFormatError) == (
        f"{path} unpacks to more than 50 times its size: if the file is right, unpack it first (gunzip) and give "
        "the plain file"
    )


def test_the_ratio_is_that_of_the_bytes_in_the_file(write, monkeypatch):
    monkeypatch.setattr(streams, "ALWAYS_UNPACKED_BYTES", 10)
    path = write(gzip.compress(b"ab" * 5000, mtime=0))
    packed = path.stat().st_size
    assert len(bytes_of(path, most_ratio=10_000.5 / packed)) == 10_000
    assert "times its size" in message_of(bytes_of, path, most_ratio=9_999.5 / packed, error=FileFormatError)
    plain = write("ab" * 5000)
    assert len(bytes_of(plain, most_ratio=0.1)) == 10_000


@pytest.mark.parametrize("reader", [read_csv, read_rows, read_matrix, read_geojson, read_word_vectors, read_graphml])
def test_every_reader_of_records_has_the_limit(reader, write, monkeypatch):
    monkeypatch.setattr(streams, "ALWAYS_UNPACKED_BYTES", 10)
    path = write(gzip.compress(b" " * 50_000 + b"\n", mtime=0))
    assert "unpacks to more than 50 times its size" in message_of(reader, path, error=FileFormatError)


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(b"cat 1\n", mtime=0)[:-5],
        gzip.compress(b"cat 1\n", mtime=0) + b"rubbish",
        b"\x1f\x8b\x08\x00" + b"x" * 40,
    ],
    ids=["cut off", "more after the end", "no packed file at all"],
)
def test_damaged_packed_files(content, write):
    path = write(content)
    for call in (bytes_of, lines_of):
        message = message_of(call, path, error=FileFormatError)
        assert message.startswith(f"{path} is a damaged gzip file (")
        assert message.endswith("): get it again")


# files that cannot be read


def test_a_socket_cannot_be_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as end:
        end.bind("s")
        message = message_of(ByteSource, "s")
    assert message == "s cannot be read (No such device or address): check the path and its permissions"


def test_a_file_that_fails_when_it_is_looked_at_is_closed(write, monkeypatch):
    def fail(_):
        raise OSError("it is gone")

    n_open, path = open_files(), write("x")
    monkeypatch.setattr(streams.os, "fstat", fail)
    with pytest.raises(InputError) as caught:
        ByteSource(path)
    monkeypatch.undo()
    assert str(caught.value) == f"{path} cannot be read (it is gone): check the path and its permissions"
    assert open_files() == n_open  # though the error still holds its frames


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_files_are_closed_at_the_end(write, pack):
    n_open = open_files()
    with ByteSource(write(pack(b"abc"))) as source:
        assert open_files() == n_open + 1
        assert list(source.pieces()) == [b"abc"]
    assert open_files() == n_open
    assert source.fraction == 1.0


# how far


def test_how_much_of_a_file_is_read(write, monkeypatch):
    monkeypatch.setattr(streams, "BYTES_AT_ONCE", 10)
    path = write(b"x" * 40)
    with ByteSource(path) as source:
        assert source.fraction == 0.0
        next(source.pieces())
        assert source.fraction in (0.25, 1.0)  # what is read may wait in a buffer
        with path.open("ab") as file:
            file.write(b"x" * 100_000)
        assert len(b"".join(source.pieces())) == 100_030
        assert source.fraction == 1.0


def test_how_much_of_a_packed_file_is_read_is_counted_in_packed_bytes(write):
    path = write(gzip.compress(os.urandom(300_000)))
    with ByteSource(path) as source:
        next(source.pieces())
        assert 0.2 < source.fraction < 0.9
        list(source.pieces())
        assert source.fraction == 1.0


def test_how_much_of_a_pipe_is_read_is_not_known(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(b"abc"))
    writer.start()
    with ByteSource(tmp_path / "pipe") as source:
        assert (source.fraction, source.size) == (None, 0)
        assert list(source.pieces()) == [b"abc"]
        assert source.fraction is None
    writer.join()


def test_a_pipe_gives_what_it_has(tmp_path):
    """A line is read as soon as it is there, though the writer goes on later."""
    os.mkfifo(tmp_path / "pipe")
    may_go_on, was_told = threading.Event(), []

    def write_slowly():
        with (tmp_path / "pipe").open("wb", buffering=0) as file:
            file.write(b"first\n")
            was_told.append(may_go_on.wait(5))
            file.write(b"second\n")

    writer = threading.Thread(target=write_slowly)
    writer.start()
    with TextSource(tmp_path / "pipe") as source:
        lines = source.lines()
        assert next(lines) == "first\n"
        may_go_on.set()
        assert list(lines) == ["second\n"]
    writer.join()
    assert was_told == [True]


# text


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_lines_in_pieces_of_any_size(write, monkeypatch, size):
    monkeypatch.setattr(streams, "BYTES_AT_ONCE", size)
    path = write("été\r\n\r\nb\rc\n\nd".encode())
    assert lines_of(path, newline="\n") == ["été\r\n", "\r\n", "b\rc\n", "\n", "d"]
    assert "".join(lines_of(path, newline="")) == "été\r\n\r\nb\rc\n\nd"
    assert lines_of(path) == ["été\n", "\n", "b\n", "c\n", "\n", "d"]
    assert lines_of(write("a\nb\n")) == ["a\n", "b\n"]


def test_pieces_of_text_are_counted_in_lines(write, monkeypatch):
    monkeypatch.setattr(streams, "BYTES_AT_ONCE", 4)
    with TextSource(write("a\nb\nc\n\n\n")) as source:
        assert source.line == 1
        assert (source.read(), source.line) == ("a\nb\n", 3)
        assert (source.read(), source.line) == ("c\n\n\n", 6)
        assert (source.read(), source.line) == ("", 6)


def test_line_ends_of_all_systems_are_one_sign_unless_they_are_kept(write):
    path = write("a\rb\r\nc\n")
    for newline, text, line in ((None, "a\nb\nc\n", 4), ("", "a\rb\r\nc\n", 3), ("\n", "a\rb\r\nc\n", 3)):
        with TextSource(path, newline=newline) as source:
            assert (source.read(), source.line) == (text, line)


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize(("content", "line"), [(b"\xff", 1), (b"\n\xff\n\xfe", 2), (b"a\nb\n\nc\xff", 4)])
def test_the_line_of_a_byte_that_is_no_text(write, monkeypatch, size, content, line):
    monkeypatch.setattr(streams, "BYTES_AT_ONCE", size)
    path = write(content)
    message = message_of(lines_of, path, is_secret=False, error=FileFormatError)
    assert message == f"{path}, line {line}, byte 0xff, is not UTF-8 text: save it as UTF-8"


def test_a_byte_is_secret_unless_said_otherwise(write):
    path = write(b"\x83")
    assert message_of(lines_of, path, error=FileFormatError) == f"{path}, line 1 is not UTF-8 text: save it as UTF-8"
    with show_values():
        assert "line 1 ('byte 0x83') is not" in message_of(lines_of, path, error=FileFormatError)


@pytest.mark.parametrize("name", [name for name in COUNTED if name != "graphml"])
def test_what_readers_of_records_read_is_no_secret(name, write):
    reader, text, _ = COUNTED[name]
    path = write(text.encode() + b"\xff")
    message = message_of(reader, path, error=FileFormatError)
    assert message == f"{path}, line {1 + text.count(chr(10))}, byte 0xff, is not UTF-8 text: save it as UTF-8"


@pytest.mark.parametrize(
    ("reader", "content"), [(read_csv, "lat,lon\n1,far\n"), (read_rows, "1\nfar\n"), (read_matrix, "1\nfar\n")]
)
def test_cells_of_records_are_shown(reader, content, write):
    assert "is 'far': it must be" in message_of(reader, write(content))


def test_a_line_of_two_to_the_24_characters_is_the_longest(write, monkeypatch):
    monkeypatch.setattr(streams, "BYTES_AT_ONCE", 1 << 25)
    line = b"a" * (1 << 24)
    assert [len(found) for found in lines_of(write(b"b\n" + line))] == [2, 1 << 24]
    path = write(b"b\n" + line + b"a")
    message = message_of(lines_of, path, error=FileFormatError)
    assert message == f"{path}, line 2 has more than 16,777,216 characters: break it into lines"
