"""Word vectors, street graphs, frames and paths at their edges."""

import gzip
from pathlib import Path

import geopandas as gpd
import numpy as np
import osmium
import pandas as pd
import pytest
from osmium.osm.mutable import Node, Way
from shapely.geometry import Point

from metricdp.data import as_records, read_graphml, read_pbf, read_records, read_word_vectors
from metricdp.data.geodesy import haversine_km
from metricdp.data.readers import graphml, word_vectors
from metricdp.data.readers.files import existing_file, is_there, stem
from metricdp.data.readers.frames import array_kind
from metricdp.errors import FileFormatError, InputError


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


# word vectors


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_words_are_joined_from_parts(write, monkeypatch, n):
    monkeypatch.setattr(word_vectors, "WORDS_AT_ONCE", 2)
    records = read_word_vectors(write("".join(f"w{row} {row} -{row}\n" for row in range(n)), "my.words.txt"))
    assert records.coordinates.tolist() == [[row, -row] for row in range(n)]
    assert (records.ids, records.name) == (tuple(f"w{row}" for row in range(n)), "my.words")


def test_one_number_makes_a_vector_and_a_head_has_two(write):
    assert read_word_vectors(write("cat 1\n5 2\n")).coordinates.tolist() == [[1.0], [2.0]]
    assert read_word_vectors(write("2 1\ncat 1\n5 2\n")).ids == ("cat", "5")
    assert read_word_vectors(write("7 8 9\n1 2 3\n")).ids == ("7", "1")
    assert read_word_vectors(write("² 3\n³ 4\n")).ids == ("²", "³")
    assert read_word_vectors(write("1 2.0\n")).ids == ("1",)


def test_a_head_of_at_most_a_thousand_digits(write):
    assert "promises 111" in message_of(read_word_vectors, write("1" * 1000 + " 1\ncat 1\n"), error=FileFormatError)
    assert read_word_vectors(write("1" * 1001 + " 1\ncat 2\n")).coordinates.tolist() == [[1.0], [2.0]]


def test_lines_keep_their_number_though_some_are_blank(write):
    path = write("\n2 1\n\n \t\r\ncat 1 \t\r\n\ncat 2\n")
    message = message_of(read_word_vectors, path, error=FileFormatError)
    assert message == f"{path} has the word 'cat' in lines 5 and 7: remove one"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("3 1\ncat 1\n", "promises 3 words in line 1 but has 1: get it again, or remove that line"),
        ("0 1\ncat 1\n", "promises 0 words in line 1 but has 1: get it again, or remove that line"),
        ("0 3\n", "has no words: give one word and its vector per line"),
        (" \n\n", "is empty: give one word and its vector per line"),
    ],
)
def test_files_that_do_not_hold_their_words(write, content, message):
    path = write(content)
    assert message_of(read_word_vectors, path, error=FileFormatError) == f"{path} {message}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1 0\ncat\n", "line 2 has no numbers after the word: give word vectors as text"),
        ("cat\n", "line 1 has no numbers after the word: give word vectors as text"),
        ("a 1 2\nb 1\n", "line 2 has 1 numbers, but 2 are expected: give every word the same number"),
        ("a 1 2\nb c 5 1 2\n", "line 2 has 4 numbers, but 2 are expected: give every word the same number"),
        ("a 1 2\nb 5 c 1 2\n", "line 2 has 4 numbers, but 2 are expected: give every word the same number"),
        ("a 1 2\nb 1 x\n", "line 2 has 'x' where a number is expected: correct the line"),
        ("a 1 2\nb x y\n", "line 2 has 'x' where a number is expected: correct the line"),
        ("a 1 2\nb 1_0 2\n", "line 2 has '1_0' where a number is expected: correct the line"),
        ("a 1 " + "x" * 99 + "\n", f"line 1 has '{'x' * 39} where a number is expected: correct the line"),
        ("a 1 2\nb nan 2\n", "line 2 has a number that is not finite: correct or remove the line"),
    ],
)
def test_lines_that_are_no_word_with_its_vector(write, content, message):
    path = write(content)
    assert message_of(read_word_vectors, path, error=FileFormatError) == f"{path}, {message}"


def test_words_may_hold_spaces_and_underscores(write):
    records = read_word_vectors(write("new_york 1 2\nnew york 3 4\nnew 1_0 5 6\n. . . 7 8\n"))
    assert records.ids == ("new_york", "new york", "new 1_0", ". . .")
    assert records.coordinates.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]


# street graphs

NODES = (
    '<node id="a"><data key="y">57</data><data key="x">12</data></node>'
    '<node id="b"><data key="y">58</data><data key="x">13</data></node>'
)


def graph(*inside):
    return f"<graphml>{''.join(inside)}</graphml>"


def edge(source="a", target="b", **values):
    data = "".join(f'<data key="{key}">{value}</data>' for key, value in values.items())
    return f'<edge source="{source}" target="{target}">{data}</edge>'


def test_a_graph_without_streets_and_values_without_keys(write):
    records = read_graphml(write(graph(NODES), "my.town.graphml"))
    assert (records.ids, records.name, records.streets.n_edges) == (("a", "b"), "my.town", 0)
    assert records.coordinates.tolist() == [[57.0, 12.0], [58.0, 13.0]]


def test_keys_count_for_the_elements_that_they_name(write):
    keys = (
        '<key id="k" for="edge" attr.name="length"/><key id="k" for="node" attr.name="note"/>'
        '<key id="m" attr.name="y"/><key id="n" for="all" attr.name="x"/>'
    )
    nodes = "".join(
        f'<node id="{name}"><data key="k">far</data><data key="m">{y}</data><data key="n">{x}</data></node>'
        for name, y, x in (("a", 57, 12), ("b", 58, 13))
    )
    records = read_graphml(write(graph(keys, nodes, edge(k=2500))))
    assert records.coordinates.tolist() == [[57.0, 12.0], [58.0, 13.0]]
    assert records.streets.lengths.tolist() == [2.5]


def test_a_key_of_other_elements_does_not_hide_a_name(write):
    keys = '<key id="length" for="node" attr.name="size"/>'
    assert read_graphml(write(graph(keys, NODES, edge(length=1500)))).streets.lengths.tolist() == [1.5]


def test_values_of_the_graph_and_text_between_are_passed_over(write):
    records = read_graphml(write(graph("text", '<data key="x">5</data>', NODES, " more ", edge())))
    assert records.coordinates.tolist() == [[57.0, 12.0], [58.0, 13.0]]
    assert records.streets.lengths.tolist() == [haversine_km([57.0, 12.0], [58.0, 13.0])]


def test_values_do_not_pass_to_the_next_element(write):
    path = write(graph(NODES, '<node id="c"></node>'))
    assert message_of(read_graphml, path) == f"{path}: node c has no x and y: save it with osmnx.save_graphml"
    for key, value in (("x", 1), ("y", 2)):
        path = write(graph(f'<node id="c"><data key="{key}">{value}</data></node>'))
        assert "node c has no x and y" in message_of(read_graphml, path)


@pytest.mark.parametrize("text", ["inf", "-inf", "nan", "north", ""])
def test_a_value_that_is_no_finite_number(write, text):
    path = write(graph(NODES, edge(length=text)))
    message = message_of(read_graphml, path)
    assert message == f"{path}: street a to b has length = {text!r}: it must be a finite number"


def test_a_long_value_is_shown_shortly(write):
    message = message_of(read_graphml, write(graph(NODES, edge(length="x" * 99))))
    assert f"has length = '{'x' * 39}: it must" in message


def test_the_first_street_without_length_is_named(write):
    streets = (edge(length=1), edge("b", "a"), edge("a", "a"), edge("b", "b", length=2))
    path = write(graph(NODES, *streets))
    assert message_of(read_graphml, path) == (
        f"{path}: the street from b to a has no length though others have (2 such streets): give all streets a length "
        "in metres or none"
    )


@pytest.mark.parametrize(("ends", "unknown"), [(("a", "c"), "c"), (("c", "a"), "c"), (("d", "c"), "d")])
def test_streets_end_at_nodes_of_the_file(write, ends, unknown):
    path = write(graph(NODES, edge(), edge(*ends)))
    message = message_of(read_graphml, path, error=FileFormatError)
    assert message == f"{path} has a street at node {unknown!r}, which is not in the file: save it again"


def test_streets_and_nodes_without_names(write):
    path = write(graph(NODES, "<edge/>"))
    assert "has a street at node ''" in message_of(read_graphml, path, error=FileFormatError)
    unnamed = NODES.replace(' id="a"', "").replace(' id="b"', "")
    assert "has node '' more than once" in message_of(read_graphml, write(graph(unnamed)), error=FileFormatError)


def test_the_values_of_an_element_have_a_limit_together(write, monkeypatch):
    assert graphml.LONGEST_VALUES == 1 << 24
    monkeypatch.setattr(graphml, "LONGEST_VALUES", 10)
    node = '<node id="{}"><data key="y">57</data><data key="x">12</data><data key="n">{}</data>{}</node>'
    long = "text that is in no value"
    assert read_graphml(write(graph(node.format(1, "123456", long), node.format(2, "123456", long)))).n == 2
    path = write(graph(node.format(1, "1234567", "")))
    message = message_of(read_graphml, path, error=FileFormatError)
    assert message == f"{path} has an element with more than 10 characters: save it with osmnx.save_graphml"


def test_the_values_of_the_graph_itself_have_the_same_limit(write, monkeypatch):
    monkeypatch.setattr(graphml, "LONGEST_VALUES", 10)
    assert read_graphml(write(graph('<data key="n">1234567890</data>', NODES))).n == 2
    path = write(graph('<data key="n">12345678901</data>', NODES))
    assert "more than 10 characters" in message_of(read_graphml, path, error=FileFormatError)


def test_values_within_values_end_the_outer_one(write):
    path = write(graph('<node id="c"><data key="x">1<data key="y">2</data>3</data></node>'))
    assert "node c has no x and y" in message_of(read_graphml, path)
    key = '<key for="node" attr.name="x"/>'
    path = write(graph(key, '<node id="c"><data key="n">1<data key="y">2</data>3</data></node>'))
    assert "node c has no x and y" in message_of(read_graphml, path)


def test_what_is_no_graph_is_said_with_the_reason(write):
    for content, reason in ((graph("<a>"), "mismatched tag"), ("<?xml version='1.0' encoding='x'?><a/>", "unknown")):
        path = write(content)
        message = message_of(read_graphml, path, error=FileFormatError)
        assert message.startswith(f"{path} is not GraphML ({reason}")
        assert message.endswith("): save it with osmnx.save_graphml")


# extracts


def test_nodes_outside_an_extract_interrupt_a_street(tmp_path):
    path = tmp_path / "my.town.osm.pbf"
    with osmium.SimpleWriter(str(path)) as writer:
        for number in range(1, 6):
            writer.add_node(Node(id=10 * number, location=(12.0 + number / 100, 57.0)))
        writer.add_way(Way(id=1, nodes=[10, 20], tags={"highway": "footway"}))
        writer.add_way(Way(id=2, nodes=[99, 20, 30, 98, 97, 40], tags={"highway": "residential"}))
        writer.add_way(Way(id=3, nodes=[30, 50], tags={"highway": "residential"}))
        writer.add_way(Way(id=4, nodes=[10, 40], tags={"building": "yes"}))
    records = read_pbf(path)
    assert (records.ids, records.name) == (("20", "50"), "my.town")
    assert records.streets.edges.tolist() == [[0, 1]]
    by_way_of_30 = haversine_km([57.0, 12.02], [57.0, 12.03]) + haversine_km([57.0, 12.03], [57.0, 12.05])
    assert records.streets.lengths.tolist() == pytest.approx([by_way_of_30], rel=1e-12)
    assert records.street_nodes.tolist() == [0, 1]


# frames


@pytest.mark.parametrize("given", ["a.csv", b"a.csv", Path("a.csv")])
def test_names_of_files_are_no_records(given):
    message = message_of(as_records, given)
    assert message == f"records cannot be made from {given!r}: read a file with metricdp.data.read_records"


def test_things_that_only_look_like_frames():
    class Thing:
        columns = ("x",)

    for thing in (Thing(), gpd.GeoSeries([Point(1, 2)])):
        with pytest.raises(InputError, match=r"coordinates must be"):
            as_records(thing)


@pytest.mark.parametrize(
    "rows",
    [
        [[90.1, 0.0]],
        [[-90.1, 0.0]],
        [[0.0, 180.1]],
        [[0.0, 0.0], [0.0, -180.1]],
        [[1.0]],
        [[1.0, 2.0, 3.0]],
        [1.0, 2.0],
    ],
)
def test_numbers_that_cannot_be_degrees_are_vectors(rows):
    assert array_kind(rows) == "vectors"


@pytest.mark.parametrize("rows", ["text", [["a", "b"]], [[1.0, 2.0], [3.0]], [[{}, {}]]])
def test_what_is_no_table_of_numbers_is_left_to_the_records(rows):
    assert array_kind(rows) == "vectors"


@pytest.mark.parametrize("row", [[90.0, 180.0], [-90.0, -180.0], [90.0, 0.0]])
def test_degrees_at_their_limits_could_be_places(row):
    assert "could be latitude and longitude in degrees" in message_of(array_kind, [row])


def test_frames_without_ids_and_weights():
    records = as_records(pd.DataFrame({"lat": [1.0, 2.0], "lon": [3.0, 4.0]}))
    assert (records.ids, records.prior.tolist(), records.kind) == (("0", "1"), [0.5, 0.5], "places")


@pytest.mark.parametrize("value", [{}, "far"])
def test_the_column_of_a_frame_without_numbers_is_named(value):
    for frame in (pd.DataFrame({"x": [value]}), pd.DataFrame({"x": [1], "weight": [value]})):
        name = frame.columns[-1]
        assert message_of(as_records, frame).startswith(f"column {name!r} of the DataFrame must hold numbers: ")


def test_geo_frames_have_optional_ids_and_weights():
    points = [Point(12, 57), Point(13, 58)]
    bare = as_records(gpd.GeoDataFrame({"name": ["a", "b"]}, geometry=points))
    assert (bare.ids, bare.prior.tolist()) == (("0", "1"), [0.5, 0.5])
    columns = {"ID": ["a", "b"], "osmid": [1, 2], "PRIOR": [1, 1], "weight": [1, 3]}
    full = as_records(gpd.GeoDataFrame(columns, geometry=points, crs="EPSG:4326"))
    assert (full.ids, full.prior.tolist()) == (("a", "b"), [0.25, 0.75])
    prior = as_records(gpd.GeoDataFrame({"Osmid": [1, 2], "Prior": [3, 1]}, geometry=points))
    assert (prior.ids, prior.prior.tolist()) == (("1", "2"), [0.75, 0.25])


def test_the_first_geometry_that_is_no_point_is_named():
    disc, points = Point(0, 0).buffer(1), [Point(0, 0)] * 2
    frame = gpd.GeoDataFrame(geometry=[*points, disc, None])
    assert message_of(as_records, frame) == "row 2 of the GeoDataFrame is Polygon: records are Points"
    frame = gpd.GeoDataFrame(geometry=[*points, None, disc])
    assert message_of(as_records, frame) == "row 2 of the GeoDataFrame is without geometry: records are Points"


# paths


def test_names_that_no_file_can_have_are_not_there(tmp_path):
    assert is_there(tmp_path)
    assert not any(map(is_there, (tmp_path / "none", "a\0b", "a" * 5000)))


@pytest.mark.parametrize(
    ("name", "reason"),
    [("a\0b", "embedded null byte"), ("a" * 5000, "File name too long"), ("file/below", "Not a directory")],
)
def test_paths_that_cannot_be_read_are_said_with_the_reason(tmp_path, write, name, reason):
    write("x")
    message = message_of(existing_file, f"{tmp_path}/{name}")
    assert message == f"{tmp_path}/{name} cannot be read ({reason}): check the path and its permissions"


def test_files_that_are_there(tmp_path, write):
    assert existing_file(str(write("x"))) == tmp_path / "file"
    assert existing_file("/dev/null") == Path("/dev/null")
    assert message_of(existing_file, tmp_path) == f"{tmp_path} is a directory: name a file in it"
    assert message_of(existing_file, tmp_path / "a") == f"there is no file {tmp_path / 'a'}: check the path"
    empty = write("", "empty")
    assert message_of(existing_file, empty) == f"{empty} is empty: give a file with at least one record"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("a/b.c.d", "b.c"),
        ("b", "b"),
        ("a/.hidden", ".hidden"),
        (Path("x.y"), "x"),
        ("a.b/x.csv.gz", "x"),
        ("x.GZ", "x"),
        ("x.1.osm.pbf", "x.1"),
    ],
)
def test_records_are_called_by_the_name_without_its_format(path, name):
    assert stem(path) == name


def test_the_memory_limit_reaches_the_reader(write):
    for name in ("a.csv", "a.json", "a.graphml", "a.txt", "a.pbf"):
        assert "memory_limit must be positive" in message_of(read_records, write("x", name), memory_limit=-1)


def test_only_the_last_suffix_counts_and_gz_only_at_the_end(write):
    assert read_records(write(gzip.compress(b"x\n1\n"), "a.txt.csv.gz")).kind == "vectors"
    for name in ("a.csv.gz.gz", "a.gz.xlsx", "gz", "csv"):
        assert "has an unknown suffix" in message_of(read_records, write("x\n1\n", name))
    assert np.array_equal(read_records(write("x\n1\n", "a.gz.csv")).coordinates, [[1.0]])
