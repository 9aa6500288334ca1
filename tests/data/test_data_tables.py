"""CSV files and matrices: what is read, and one clear line for what cannot be."""

import gzip
import io
import time

import numpy as np
import pytest
from benchmarks.rome import FOLDER as ROME
from hypothesis import given
from hypothesis import strategies as st

from metricdp.data import Records, read_csv, read_matrix, read_rows, read_streets
from metricdp.data.geodesy import haversine_km
from metricdp.data.readers.columns import find_columns
from metricdp.errors import FileFormatError, InputError

needs_rome = pytest.mark.skipif(not ROME.is_dir(), reason="METRICDP_ROME names no folder with Rome's data")


@pytest.fixture
def write(tmp_path):
    def writer(content, name="places.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return writer


def fails(reader, path, *parts, error=InputError):
    with pytest.raises(error) as caught:
        reader(path)
    message = str(caught.value)
    assert "\n" not in message
    for part in (str(path), *parts):
        assert part in message
    return message


def test_places_with_ids_and_weights(write):
    records = read_csv(write("OSMID, Latitude ,lng,weight,note\n7,57.5,12,1,a\n\n9,57.6,12.5,3,\n"))
    assert (records.kind, records.ids, records.name) == ("places", ("7", "9"), "places")
    assert np.array_equal(records.coordinates, [[57.5, 12.0], [57.6, 12.5]])
    assert records.prior.tolist() == [0.25, 0.75]


@pytest.mark.parametrize(
    ("header", "dimension"),
    [("x", 1), ("x,y", 2), ("x,y,z", 3), ("x1,x2,x3,x4", 4), ("x0,x1", 2)],
)
def test_vectors(write, header, dimension):
    row = ",".join(str(value) for value in range(dimension))
    records = read_csv(write(f"{header}\n{row}\n{row}\n"))
    assert (records.kind, records.ids) == ("vectors", ("0", "1"))
    assert records.coordinates[0].tolist() == list(range(dimension))


def test_numbered_columns_go_by_number_not_by_place(write):
    header = ",".join(f"x{number}" for number in range(12, 0, -1))
    row = ",".join(str(number) for number in range(12, 0, -1))
    assert read_csv(write(f"{header}\n{row}\n")).coordinates[0].tolist() == list(range(1, 13))


def test_gzip_is_known_by_its_content(write):
    packed = write(gzip.compress(b"lat,lon\n1,2\n", mtime=0), "plain.csv")
    assert read_csv(packed).coordinates.tolist() == [[1.0, 2.0]]
    assert read_csv(write("lat,lon\n1,2\n", "named.csv.gz")).n == 1


def test_byte_order_mark_quotes_and_windows_lines(write):
    records = read_csv(write(b'\xef\xbb\xbflat,lon,id\r\n1,2,"a, b"\r\n3,4,"c\nd"\r\n'))
    assert records.ids == ("a, b", "c\nd")


@given(st.lists(st.tuples(st.floats(-90, 90), st.floats(-180, 180)), min_size=1, max_size=20))
def test_numbers_come_back_exactly(tmp_path_factory, places):
    path = tmp_path_factory.mktemp("exact") / "p.csv"
    path.write_text("lat,lon\n" + "".join(f"{latitude!r},{longitude!r}\n" for latitude, longitude in places))
    assert np.array_equal(read_csv(path).coordinates, places)


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("", ["is empty"]),
        (" \n\n", ["is empty"]),
        ("lat,lon\n", ["header but no rows"]),
        ("name,place\na,b\n", ["'name', 'place'", "lat and lon", "x1, x2"]),
        ("lat;lon\n1;2\n", ["'lat;lon'", "separate columns with commas"]),
        ("lat,lon\n1,2\n3,north\n", ["line 3", "'lon'", "'north'", "must be a number"]),
        ("lat,lon\n1,2\n3,\n", ["line 3", "'lon'", "is empty"]),
        ("lat,lon\n1,2\n1_0,3\n", ["line 3", "'lat'", "'1_0'"]),
        ("lat,lon\n1,nan\n", ["line 2", "'lon'", "'nan'", "finite"]),
        ("x,y\n1,2\n\n-inf,2\n", ["line 4", "'x'", "'-inf'"]),
        ("lat,lon,weight\n1,2,many\n", ["line 2", "'weight'", "'many'"]),
        ("lat,lon\n1,2\n3\n", ["line 3 has 1 cells", "line 1 has 2"]),
        ("lat,lon\n1,2,3\n", ["line 2 has 3 cells"]),
        ("lat,LAT,lon\n1,1,2\n", ["2 columns named 'lat'"]),
        ("x,z\n1,2\n", ["x, z", "x, then y, then z"]),
        ("x1,x3\n1,2\n", ["'x1', 'x3'", "without gaps"]),
        ("x2,x3\n1,2\n", ["without gaps"]),
        (b"lat,lon\n1,\xff\n", ["not UTF-8", "0xff", "line 2"]),
        (gzip.compress(b"lat,lon\n1,2\n", mtime=0)[:-9], ["damaged gzip"]),
        ("lat,lon\n1," + "2" * 200_000 + "\n", ["line 2", "not CSV"]),
    ],
)
def test_bad_tables_are_named_in_one_line(write, content, parts):
    fails(read_csv, write(content), *parts)


def test_values_out_of_range_and_double_ids_are_faults_of_the_records(write):
    with pytest.raises(InputError, match="latitude must be between"):
        read_csv(write("lat,lon\n91,2\n"))
    with pytest.raises(InputError, match="'a' occurs more than once"):
        read_csv(write("id,x\na,1\na,2\n"))


def test_missing_file_and_directory(tmp_path):
    fails(read_csv, tmp_path / "none.csv", "there is no file")
    fails(read_csv, tmp_path, "is a directory")
    with pytest.raises(InputError, match="cannot be read"):
        read_csv("\0")


def test_many_columns_do_not_flood_the_message():
    with pytest.raises(InputError, match="and 992 more") as caught:
        find_columns([f"feature {number}" for number in range(1000)], "wide.csv")
    assert len(str(caught.value)) < 400


def test_forty_thousand_rows_take_well_below_a_second(write):
    rows = np.random.default_rng(0).uniform(-90, 90, (43_160, 2))
    path = write("lat,lon\n" + "".join(f"{a:.7f},{b:.7f}\n" for a, b in rows))
    started = time.process_time()
    assert read_csv(path).n == 43_160
    assert time.process_time() - started < 1.0


@needs_rome
def test_rome():
    nodes = read_csv(ROME / "nodes.csv.gz")
    assert (nodes.n, nodes.kind, nodes.ids[0]) == (43_160, "places", "21637960")
    streets = read_streets(ROME / "edges.csv.gz", nodes)
    assert (streets.n_nodes, streets.n_edges) == (43_160, 60_021)
    rows, outputs = read_rows(ROME / "paper_records.csv"), read_rows(ROME / "paper_outputs.csv")
    assert (len(rows), len(outputs), rows.dtype) == (500, 100, np.int64)
    chosen = nodes.select(rows).coordinates
    pairs = np.triu(haversine_km(chosen[:, None], chosen[None]) <= 2.0, k=1)
    assert pairs.sum() == 2727


def test_streets_have_given_or_straight_lengths(write):
    nodes = Records([[0, 0], [0, 1], [1, 1]])
    straight = read_streets(write("u,v\n0,1\n1,0\n2,1\n2,2\n"), nodes)
    assert straight.edges.tolist() == [[0, 1], [1, 2]]
    assert straight.lengths[0] == haversine_km([0, 0], [0, 1])
    given_lengths = read_streets(write("Length,V,U\n9,0,1\n7,1,0\n"), nodes)
    assert (given_lengths.edges.tolist(), given_lengths.lengths.tolist()) == ([[0, 1]], [7.0])


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("from,to\n0,1\n", ["'from', 'to'", "u and v"]),
        ("u,v\n0,1\n0,5\n", ["line 3", "nodes 0 and 5", "rows 0 to 1"]),
        ("u,v\n0,-1\n", ["line 2"]),
        ("u,v\n0,0.5\n", ["line 2", "'v'", "'0.5'", "whole number"]),
        ("u,v,length\n0,1,far\n", ["line 2", "'length'", "'far'"]),
    ],
)
def test_bad_streets(write, content, parts):
    nodes = Records([[0, 0], [0, 1]])
    fails(lambda path: read_streets(path, nodes), write(content), *parts)


def test_streets_need_places_and_lengths_that_are_not_negative(write):
    with pytest.raises(InputError, match="streets join places"):
        read_streets(write("u,v\n0,1\n"), Records([[0, 0], [0, 1]], kind="vectors"))
    with pytest.raises(InputError, match="not negative"):
        read_streets(write("u,v,length\n0,1,-2\n"), Records([[0, 0], [0, 1]]))


@pytest.mark.parametrize(
    "content", ["node_row\n3\n1\n2\n", "3\n1\n2", "\n3\r\n1\r\n\r\n2\r\n", gzip.compress(b"3\n1\n2\n", mtime=0)]
)
def test_row_numbers(write, content):
    rows = read_rows(write(content, "rows.csv"))
    assert rows.tolist() == [3, 1, 2]
    assert rows.dtype == np.int64


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("node_row\n", ["header but no rows"]),
        ("row\n1\ntwo\n", ["line 3", "'two'", "whole number"]),
        ("1.5\n2\n", ["line 1", "'1.5'"]),
        ("1\n2.0\n", ["line 2", "'2.0'"]),
        ("1\n99999999999999999999\n", ["line 2", "9999"]),
        ("1,2\n3,4\n", ["2 columns"]),
        ("", ["is empty"]),
    ],
)
def test_bad_row_numbers(write, content, parts):
    fails(read_rows, write(content, "rows.csv"), *parts)


def test_matrices_from_text_and_numpy(write):
    expected = [[0.0, 1.5], [np.inf, np.nan]]
    assert np.array_equal(read_matrix(write("0,1.5\ninf,nan\n", "m.csv")), expected, equal_nan=True)
    assert np.array_equal(
        read_matrix(write(gzip.compress(b"0,1.5\ninf,nan\n", mtime=0), "m.gz")), expected, equal_nan=True
    )
    buffer = io.BytesIO()
    np.save(buffer, np.arange(6, dtype=np.int32).reshape(2, 3))
    matrix = read_matrix(write(buffer.getvalue(), "anything"))
    assert matrix.dtype == np.float64
    assert matrix.tolist() == [[0, 1, 2], [3, 4, 5]]
    matrix[0, 0] = 1.0  # a copy that may be written to


@pytest.mark.parametrize(
    ("array", "part"),
    [
        (np.zeros(3), "shape (3,)"),
        (np.zeros((0, 3)), "shape (0, 3)"),
        (np.array([["a"]]), "<U1"),
        (np.ones((1, 1), dtype=complex), "complex"),
        (np.array([[{}]], dtype=object), "not a NumPy file of numbers"),
    ],
)
def test_numpy_files_that_are_no_matrix(write, array, part):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    fails(read_matrix, write(buffer.getvalue(), "m.npy"), part, error=FileFormatError)


def test_a_numpy_header_cannot_claim_more_than_the_file_holds(write):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**6)})
    fails(read_matrix, write(buffer.getvalue() + bytes(64), "m.npy"), "not a NumPy file", error=FileFormatError)


@pytest.mark.parametrize(
    ("content", "parts"), [("a,b\n1,2\n", ["line 1", "column 1", "'a'"]), ("1,2\n3\n", ["line 2"])]
)
def test_bad_matrices(write, content, parts):
    fails(read_matrix, write(content, "m.csv"), *parts)
