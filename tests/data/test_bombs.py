"""Small files that unpack to much, and files that hold more than there is room for: refused while they are read."""

import gzip
import io
import os
import resource
import subprocess
import sys
import tracemalloc
import zlib

import numpy as np
import pytest

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
from metricdp.data.readers import pbf, streams, tables
from metricdp.data.readers.streams import Allowance, ByteSource
from metricdp.errors import FileFormatError, InputError

NODES = Records([[0.0, 0.0], [0.0, 1.0]])
POINT = '{"geometry": {"type": "Point", "coordinates": [1, 2]}}'
NODE = '<node id="%d"><data key="x">1</data><data key="y">2</data></node>'
# reader: its head, its row with %d for a number, how many of which a test gives it
READERS = {
    "csv": (read_csv, "lat,lon\n", "1,2\n"),
    "csv with ids": (read_csv, "id,x,weight\n", "%d,2,3\n"),
    "streets": (lambda path, **limit: read_streets(path, NODES, **limit), "u,v\n", "0,1\n"),
    "rows": (read_rows, "", "%d\n"),
    "matrix": (read_matrix, "", "1,2,3,4\n"),
    "geojson": (read_geojson, '{"features": [' + POINT, "," + POINT),
    "graphml": (read_graphml, "<graphml>", NODE),
    "word vectors": (read_word_vectors, "", "word%d 1 2 3\n"),
}


def content(name, n):
    _, head, row = READERS[name]
    tail = {"geojson": "]}", "graphml": "</graphml>"}.get(name, "")
    return (head + "".join(row % i if "%" in row else row for i in range(n)) + tail).encode()


def packed(head: bytes, piece: bytes, n: int) -> bytes:
    """A gzip file made without holding what it unpacks to."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join((packer.compress(head), *(packer.compress(piece) for _ in range(n)), packer.flush()))


def members(head: bytes, piece: bytes, n: int) -> bytes:
    """The same made faster: a gzip file may be made of many."""
    return gzip.compress(head, mtime=0) + n * gzip.compress(piece, mtime=0)


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(streams, "BYTES_AT_ONCE", 1 << 12)
    monkeypatch.setattr(tables, "ROWS_AT_ONCE", 64)


def refused(reader, path, **limit) -> str:
    with pytest.raises(InputError) as caught:
        reader(path, **limit)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    assert len(message) < 500
    return message


@pytest.mark.parametrize("name", READERS)
@pytest.mark.usefixtures("small_pieces")
def test_a_bomb_is_refused_while_it_unpacks(name, tmp_path, monkeypatch):
    """4 MB of rows in some 10 kB, with 100 kB as what is always allowed."""
    reader, head, row = READERS[name]
    monkeypatch.setattr(streams, "ALWAYS_UNPACKED_BYTES", 100_000)
    piece = b"".join((row % i if "%" in row else row).encode() for i in range(10))
    (tmp_path / "bomb.gz").write_bytes(packed(head.encode(), piece * 100, 4_000_000 // len(piece) // 100))
    tracemalloc.start()
    message = refused(reader, tmp_path / "bomb.gz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # repeated words and nodes are noticed even before
    assert "unpacks to more than 50 times" in message or "word" in message or "more than once" in message
    assert peak < 4e6


@pytest.mark.parametrize("name", READERS)
def test_what_is_held_is_counted_while_reading(name, tmp_path):
    reader = READERS[name][0]
    path = tmp_path / "file"
    path.write_bytes(content(name, 2_000))
    assert "raise memory_limit" in refused(reader, path, memory_limit=1e-5)
    with pytest.raises(InputError, match="must be positive"):
        reader(path, memory_limit=0)
    reader(path, memory_limit=1.0)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.usefixtures("small_pieces")
def test_the_count_covers_what_reading_takes(name, tmp_path, monkeypatch):
    """The allowance counts at least what is taken at the peak, beyond the pieces that are read at one time."""
    reader = READERS[name][0]
    counted = []
    take = Allowance.take
    monkeypatch.setattr(Allowance, "take", lambda self, n: (take(self, n), counted.append(self.taken))[0])
    peaks = []
    for n in (3_000, 9_000):
        path = tmp_path / "file"
        path.write_bytes(content(name, n))
        counted.clear()
        tracemalloc.start()
        reader(path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    grown = peaks[1] - peaks[0]
    assert grown < counted[-1] * 2 / 3  # as what two thirds of the rows were counted
    assert grown > counted[-1] / 12  # and not far more, or honest files would be refused


def test_a_real_bomb_in_little_memory(tmp_path):
    """1.5 MB of gzip that hold 1.5 GB of rows, and one line of 1.5 GB, in a process that may have 1.5 GB in all."""
    (tmp_path / "rows.csv.gz").write_bytes(members(b"a,lat,lon\n", b"1,2,3\n" * 1_000_000, 250))
    (tmp_path / "line.csv.gz").write_bytes(members(b"lat,lon\n", b"1" * 10_000_000, 150))
    (tmp_path / "line.txt.gz").write_bytes(members(b"", b"word " * 2_000_000, 150))
    assert 1e6 < (tmp_path / "rows.csv.gz").stat().st_size < 2e7
    program = """if True:
        import sys
        from metricdp.data import read_records
        from metricdp.errors import InputError
        for path in sys.argv[1:]:
            try:
                read_records(path)
            except InputError as error:
                print(error)
    """
    answer = subprocess.run(
        [sys.executable, "-c", program, *map(str, sorted(tmp_path.iterdir()))],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1_500_000_000, 1_500_000_000)),
    )
    lines = answer.stdout.splitlines()
    assert answer.returncode == 0, answer.stderr
    assert len(lines) == 3, answer.stdout
    assert all("more than" in line for line in lines)


def test_honest_packed_files_of_any_ratio_are_read_up_to_the_floor(tmp_path):
    (tmp_path / "zeros.csv.gz").write_bytes(gzip.compress((b"0," * 999 + b"0\n") * 1000))
    assert read_matrix(tmp_path / "zeros.csv.gz").shape == (1000, 1000)


def test_what_streams_through_may_be_of_any_ratio(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "ALWAYS_UNPACKED_BYTES", 1_000)
    (tmp_path / "same.gz").write_bytes(packed(b"", b"a" * 1_000_000, 3))
    with ByteSource(tmp_path / "same.gz") as source:
        assert sum(map(len, source.pieces())) == 3_000_000


def test_quotes_cannot_make_a_row_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "LONGEST_LINE", 10_000)
    (tmp_path / "q.csv").write_text('lat,lon\n1,2\n"' + '\n","' * 10_000)
    assert "close the quotes" in refused(read_csv, tmp_path / "q.csv")


def test_long_values_of_graphml_are_refused(tmp_path):
    for inside in ('<data key="x">' + "1" * (1 << 24 | 1) + "</data>", '<data key="x">1</data>' * 2 + "1" * 10):
        (tmp_path / "g.graphml").write_text(f'<graphml><node id="1">{inside}</node></graphml>')
        refused(read_graphml, tmp_path / "g.graphml")


def test_extracts_count_their_nodes(tmp_path, monkeypatch):
    import osmium
    from osmium.osm.mutable import Node, Way

    path = tmp_path / "town.osm.pbf"
    with osmium.SimpleWriter(str(path)) as writer:
        for number in range(50):
            writer.add_node(Node(id=number, location=(12.0, 57.0 + number / 100)))
        writer.add_way(Way(id=1, nodes=list(range(50)), tags={"highway": "residential"}))
    assert read_pbf(path).n == 2
    monkeypatch.setattr(pbf, "BYTES_PER_NODE", 1e9)
    assert "memory_limit" in refused(read_pbf, path, memory_limit=10)
    assert "memory_limit" in refused(read_records, path, memory_limit=10)


def test_numpy_files_are_counted_before_they_are_copied(tmp_path):
    buffer = io.BytesIO()
    np.save(buffer, np.zeros((400, 400)))
    (tmp_path / "m.npy").write_bytes(buffer.getvalue())
    assert "memory_limit" in refused(read_matrix, tmp_path / "m.npy", memory_limit=1e-3)
    assert read_matrix(tmp_path / "m.npy", memory_limit=1e-2).shape == (400, 400)


def test_a_damaged_gzip_file_is_named(tmp_path):
    data = bytearray(gzip.compress(os.urandom(50_000), mtime=0))
    data[2_000] ^= 0xFF
    (tmp_path / "d.csv.gz").write_bytes(data)
    with pytest.raises(FileFormatError, match=r"damaged gzip|not UTF-8"):
        read_csv(tmp_path / "d.csv.gz")
