"""Tables at their edges: which columns count, which line is named, and what is exactly allowed."""

import gzip
import os
import threading

import numpy as np
import pytest

from metricdp.data import Records, read_csv, read_matrix, read_rows, read_streets
from metricdp.data.readers import tables
from metricdp.data.readers.columns import Layout, find_columns, listed
from metricdp.data.readers.streams import TextSource
from metricdp.data.readers.tables import Table, csv_tables, is_number
from metricdp.errors import FileFormatError, InputError, show_values

LARGEST, SMALLEST = 2**63 - 1, -(2**63)


@pytest.fixture
def write(tmp_path):
    def writer(content, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return writer


def message_of(call, *given, error=InputError, **options):
    with pytest.raises(error) as caught:
        call(*given, **options)
    assert type(caught.value) is error
    return str(caught.value)


def table_of(*columns, names=(), is_secret=False):
    return Table("t.csv", names, columns, range(2, 2 + len(columns[0])), is_secret=is_secret)


# columns


def test_each_accepted_name_is_known_and_the_first_of_two_wins():
    for latitude in ("lat", "latitude"):
        for longitude in ("lon", "lng", "long", "longitude"):
            assert find_columns([longitude, latitude], "f") == Layout("places", (1, 0), None, None)
    assert find_columns(["osmid", "prior", "x"], "f") == Layout("vectors", (2,), 0, 1)
    assert find_columns(["osmid", "prior", "weight", "id", "x"], "f") == Layout("vectors", (4,), 3, 2)


@pytest.mark.parametrize("name", ["lat", "lon"])
def test_one_coordinate_makes_no_place(name):
    message = message_of(find_columns, [name, "note"], "f.csv")
    assert message == (
        f"f.csv has the columns '{name}', 'note', but it needs lat and lon (places) or x, y, ... or x1, x2, ... "
        "(vectors): rename them"
    )
    assert find_columns([name, "x"], "f.csv").kind == "vectors"


@pytest.mark.parametrize(
    ("names", "is_given"),
    [
        (["lat;lon"], True),
        (["lat\tlon"], True),
        (["lat|lon"], True),
        (["place"], False),
        (["a;b", "c"], False),
        (["a", "b;c"], False),
    ],
)
def test_commas_are_advised_where_one_column_holds_another_separator(names, is_given):
    message = message_of(find_columns, names, "f.csv")
    assert message.endswith("; separate columns with commas") == is_given


def test_eight_names_are_listed_and_each_to_forty_characters():
    assert listed(list("abcdefgh")) == "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'"
    assert listed(list("abcdefghi")) == "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h' and 1 more"
    assert listed(["n" * 41, 5]) == f"'{'n' * 40}', '5'"


@pytest.mark.parametrize(
    ("names", "coordinates"),
    [(["x0", "x1"], (0, 1)), (["x1"], (0,)), (["x2", "x1", "x3"], (1, 0, 2)), (["x000000"], (0,))],
)
def test_numbered_columns_begin_with_0_or_1(names, coordinates):
    assert find_columns(names, "f").coordinates == coordinates


@pytest.mark.parametrize("names", [["x2"], ["x0", "x2"], ["x1", "x2", "x4"], ["x1", "x01"]])
def test_numbered_columns_without_gaps(names):
    assert "number them x1, x2, ... without gaps" in message_of(find_columns, names, "f")


def test_a_number_of_seven_digits_is_no_column_of_a_vector():
    assert "rename them" in message_of(find_columns, ["x0000001"], "f")


@pytest.mark.parametrize(("names", "found"), [(["y", "z"], "y, z"), (["z"], "z"), (["x", "z"], "x, z")])
def test_lettered_columns_begin_with_x(names, found):
    assert message_of(find_columns, names, "f") == f"f has the columns {found}: vectors need x, then y, then z"


# streets, row numbers, matrices


def test_the_first_street_outside_is_named(write):
    nodes = Records([[0, 0], [0, 1]], name="town")
    message = message_of(read_streets, write("u,v\n0,1\n2,0\n0,7\n"), nodes)
    assert "line 3 joins nodes 2 and 0, but town has rows 0 to 1: u and v are row numbers, not ids" in message
    assert "line 2 joins nodes 1 and -1" in message_of(read_streets, write("u,v\n1,-1\n"), nodes)


def test_streets_and_records_of_several_tables(write, monkeypatch):
    monkeypatch.setattr(tables, "ROWS_AT_ONCE", 2)
    nodes = Records([[0, number] for number in range(6)])
    streets = read_streets(write("u,v,length\n0,1,5\n1,2,6\n2,3,7\n3,4,8\n4,5,9\n"), nodes)
    assert streets.edges.tolist() == [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]]
    assert streets.edges.dtype == np.int32
    assert streets.lengths.tolist() == [5, 6, 7, 8, 9]
    records = read_csv(write("id,x,weight\n a ,1,1\nb,2,1\nc,3,2\n"))
    assert (records.ids, records.prior.tolist()) == (("a", "b", "c"), [0.25, 0.25, 0.5])
    assert read_rows(write("row\n4\n5\n6\n7\n8\n")).tolist() == [4, 5, 6, 7, 8]
    assert read_matrix(write("1,2\n3,4\n5,6\n")).tolist() == [[1, 2], [3, 4], [5, 6]]


def test_only_the_first_line_of_row_numbers_may_be_a_name(write, monkeypatch):
    monkeypatch.setattr(tables, "ROWS_AT_ONCE", 2)
    assert "line 3, column 1 is 'row'" in message_of(read_rows, write("1\n2\nrow\n4\n"))
    assert "line 4, column 1 is 'x'" in message_of(read_rows, write("row\n\n2\nx\n"))


def test_row_numbers_have_one_column(write):
    message = message_of(read_rows, write("a,b\n"), error=FileFormatError)
    assert message.endswith("has 2 columns: give one row number per line")


def test_a_numpy_file_of_truth_values_is_a_matrix_and_one_row_is_enough(tmp_path):
    np.save(tmp_path / "m.npy", np.array([[True, False]]))
    assert read_matrix(tmp_path / "m.npy").tolist() == [[1.0, 0.0]]


def test_a_numpy_array_does_not_come_through_a_pipe(tmp_path, write):
    array = write(b"", "m.npy")
    np.save(array, np.ones((2, 2)))
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(array.read_bytes()))
    writer.start()
    message = message_of(read_matrix, tmp_path / "pipe")
    writer.join()
    assert message == f"{tmp_path / 'pipe'} is a pipe or device: save the NumPy array to a file and name that"


# cells


def test_a_table_says_what_it_is_but_not_what_it_holds():
    table = table_of(("home", "work"), ("1", "2"))
    assert repr(table) == "Table('t.csv': 2 rows, 2 columns)"
    assert (table.n_rows, table.label(0), table.label(1)) == (2, "column 1", "column 2")
    assert table_of(("1",), ("2",), names=("a", "b")).label(1) == "column 'b'"


@pytest.mark.parametrize("read", [Table.numbers, Table.whole_numbers])
def test_the_first_cell_that_is_no_number_is_named(read):
    table = table_of(("1", "2", "far", "near"), names=("where",))
    what = "a number" if read is Table.numbers else "a whole number"
    assert message_of(read, table, 0) == (
        f"t.csv, line 4, column 'where' is 'far': it must be {what}; correct or remove the line"
    )
    for cells in (("1", "1_0"), ("1", "1_0", "x")):
        assert "line 3, column 1 is '1_0'" in message_of(read, table_of(cells), 0)
    assert "line 2, column 1 is empty" in message_of(read, table_of((" ", "x")), 0)


def test_what_is_a_number():
    cells = ("1", " -1e3 ", "nan", "", "x", "1_0", "_")
    assert [is_number(cell) for cell in cells] == [True, True, True, False, False, False, False]


def test_the_first_number_that_is_not_finite_is_named_unless_it_may_be_so():
    table = table_of(("1", "inf", "nan"))
    assert message_of(table.numbers, 0) == (
        "t.csv, line 3, column 1 is 'inf': it must be a finite number; correct or remove the line"
    )
    assert table.numbers(0, is_finite=False)[:2].tolist() == [1.0, np.inf]


def test_whole_numbers_of_64_bits():
    table = table_of((str(LARGEST), str(SMALLEST), " 7 ", "-0"))
    assert table.whole_numbers(0).tolist() == [LARGEST, SMALLEST, 7, 0]
    for beyond in (LARGEST + 1, SMALLEST - 1):
        message = message_of(table_of(("1", str(beyond))).whole_numbers, 0)
        assert message.startswith(f"t.csv, line 3, column 1 is '{beyond}': it must be a whole number")


def test_whole_numbers_are_searched_past_those_at_the_edge():
    table = table_of((str(LARGEST), str(SMALLEST), "no"))
    assert "line 4, column 1 is 'no'" in message_of(table.whole_numbers, 0)


def test_a_cell_is_shown_to_forty_characters():
    assert f" is '{'a' * 40}': it" in message_of(table_of(("a" * 40,)).numbers, 0)
    assert f" is '{'a' * 40}...': it" in message_of(table_of(("a" * 41,)).numbers, 0)


def test_a_secret_cell_is_not_shown_unless_asked():
    table = table_of(("home",), is_secret=True)
    assert "line 2, column 1 is not a number" in message_of(table.numbers, 0)
    with show_values():
        assert "line 2, column 1 ('home') is not a" in message_of(table.numbers, 0)
    assert not Table("t", (), (("1",),), [1]).is_secret


# lines


def tables_in(path, **options):
    with TextSource(path, newline="", is_secret=False) as source:
        return list(csv_tables(source, **options))


def test_blank_lines_are_passed_over_and_lines_keep_their_number(write):
    (table,) = tables_in(write("\n , \n a , b \n\n1,2\n\n\n3,4\n"))
    assert (table.names, table.lines) == (("a", "b"), [5, 8])
    assert table.columns == (("1", "3"), ("2", "4"))
    (plain,) = tables_in(write("\n1,2\n3,4\n"), has_header=False)
    assert (plain.names, plain.lines, plain.columns) == ((), [2, 3], (("1", "3"), ("2", "4")))


def test_a_row_of_blanks_below_the_header_is_a_row(write):
    (table,) = tables_in(write("a,b\n , \n"))
    assert (table.columns, table.lines) == (((" ",), (" ",)), [2])


def test_lines_of_another_width_are_named_with_the_first_line(write):
    message = message_of(tables_in, write("\na,b\n1,2\n1\n"), error=FileFormatError)
    assert message.endswith("line 4 has 1 cells, but line 2 has 2: give every line the same number of cells")


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_tables_of_at_most_some_rows(write, monkeypatch, n):
    monkeypatch.setattr(tables, "ROWS_AT_ONCE", 2)
    found = tables_in(write("a\n" + "".join(f"{row}\n" for row in range(n))))
    assert [table.n_rows for table in found] == [2] * (n // 2) + [1] * (n % 2)
    assert [cell for table in found for cell in table.columns[0]] == [str(row) for row in range(n)]
    assert [line for table in found for line in table.lines] == list(range(2, 2 + n))


@pytest.mark.parametrize(("cells_at_once", "sizes"), [(7, [2, 1]), (6, [2, 1]), (5, [1, 1, 1]), (1, [1, 1, 1])])
def test_wide_tables_have_fewer_rows(write, monkeypatch, cells_at_once, sizes):
    monkeypatch.setattr(tables, "CELLS_AT_ONCE", cells_at_once)
    assert [table.n_rows for table in tables_in(write("a,b,c\n" + "1,2,3\n" * 3))] == sizes


def test_tables_hold_4096_rows_and_a_quarter_of_a_million_cells(write):
    assert [table.n_rows for table in tables_in(write("a\n" + "1\n" * 4097))] == [4096, 1]
    wide = ",".join("1" * (1 << 16)) + "\n"
    assert [table.n_rows for table in tables_in(write(wide * 5), has_header=False)] == [4, 1]


def test_a_row_of_exactly_the_longest_length_is_read(write, monkeypatch):
    """Quotes join lines to a row; what counts is the row, and each row anew."""
    monkeypatch.setattr(tables, "LONGEST_LINE", 10)
    row = '"abc\ndefg"\n'
    assert len(row) == 11
    (table,) = tables_in(write('a\n"abc\ndef"\n"abc\ndef"\n"x"\n'))
    assert table.columns == (("abc\ndef", "abc\ndef", "x"),)
    message = message_of(tables_in, write("a\n" + row), error=FileFormatError)
    assert message.endswith("line 3 is part of a row of more than 10 characters: close the quotes")
    assert tables_in(write("abcdefghi\n1\n"))[0].names == ("abcdefghi",)
    message = message_of(tables_in, write("abcdefghij\n1\n"), error=FileFormatError)
    assert "line 1 is part of a row of more than 10 characters" in message


def test_damaged_rows_are_named(write):
    message = message_of(tables_in, write('a\n1\n"2" 3\n'), error=FileFormatError)
    assert "line 3 is not CSV (" in message
    assert message.endswith("): correct the line")


def test_tables_are_named_without_their_format(write):
    assert read_csv(write(gzip.compress(b"x\n1\n"), "my.places.csv.gz")).name == "my.places"
    assert read_csv(write("x\n1\n", ".hidden")).name == ".hidden"
