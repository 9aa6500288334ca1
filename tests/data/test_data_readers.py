"""GeoJSON, GraphML, OpenStreetMap extracts, word vectors, frames, and the reader that chooses among them."""

import gzip
import json
import sys

import geopandas as gpd
import numpy as np
import osmium
import pandas as pd
import pytest
from osmium.osm.mutable import Node, Way
from shapely.geometry import LineString, Point

from metricdp.data import (
    Records,
    as_records,
    read_geojson,
    read_graphml,
    read_pbf,
    read_records,
    read_word_vectors,
)
from metricdp.data.geodesy import haversine_km
from metricdp.errors import FileFormatError, InputError, MissingExtraError

# as osmnx.save_graphml writes it: every value a string, both directions of a street, graph values first
GRAPHML = """<?xml version='1.0' encoding='utf-8'?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
  <key id="d9" for="edge" attr.name="length" attr.type="string" />
  <key id="d8" for="edge" attr.name="osmid" attr.type="string" />
  <key id="d5" for="node" attr.name="x" attr.type="string" />
  <key id="d4" for="node" attr.name="y" attr.type="string" />
  <key id="d0" for="graph" attr.name="crs" attr.type="string" />
  <graph edgedefault="directed">
    <data key="d0">epsg:4326</data>
    <node id="101"><data key="d4">57.70</data><data key="d5">11.97</data></node>
    <node id="102"><data key="d4">57.71</data><data key="d5">11.98</data></node>
    <node id="103"><data key="d4">57.72</data><data key="d5">11.97</data></node>
    <edge source="101" target="102" id="0"><data key="d8">5</data><data key="d9">1500.5</data></edge>
    <edge source="102" target="101" id="0"><data key="d8">5</data><data key="d9">1500.5</data></edge>
    <edge source="101" target="102" id="1"><data key="d8">6</data><data key="d9">1400.0</data></edge>
    <edge source="102" target="103" id="0"><data key="d8">7</data><data key="d9">1300.0</data></edge>
    <edge source="103" target="103" id="0"><data key="d8">8</data><data key="d9">90.0</data></edge>
  </graph>
</graphml>
"""


@pytest.fixture
def write(tmp_path):
    def writer(content, name):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return writer


def point(longitude, latitude, **more):
    return {"type": "Feature", "geometry": {"type": "Point", "coordinates": [longitude, latitude]}, **more}


def collection(*features):
    return json.dumps({"type": "FeatureCollection", "features": features})


def test_geojson_points(write):
    features = [point(12, 57.5, id="a", properties={"weight": 1}), point(13, 58, properties={"id": 7, "weight": 3})]
    records = read_geojson(write(collection(*features), "p.geojson"))
    assert (records.kind, records.ids, records.prior.tolist()) == ("places", ("a", "7"), [0.25, 0.75])
    assert records.coordinates.tolist() == [[57.5, 12.0], [58.0, 13.0]]
    assert read_geojson(write(collection(point(1, 2, properties=None)), "q.geojson")).ids == ("0",)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("{", "is not GeoJSON"),
        ('{"name":' + "[" * 100_000, "is not GeoJSON"),
        ("[1]", "FeatureCollection of Points was expected"),
        ("{}", "no list of features"),
        (" \n", "is empty"),
        ('{"crs": {"name": "EPSG:3006"}, "features": []}', "convert it to degrees"),
        (collection(), "no features"),
        (collection({"geometry": {"type": "LineString", "coordinates": []}}), "GraphML"),
        (collection({"geometry": {"type": "Polygon", "coordinates": []}}), "geometry Polygon"),
        (collection({"geometry": None}), "geometry None"),
        (collection(point(1, 2), 5), "feature 1"),
        (collection(point("1", 2)), "['1', 2]"),
        (collection(point(True, 2)), "[True, 2]"),
        (collection({"geometry": {"type": "Point", "coordinates": [1]}}), "[1]"),
        (collection(point(10**400, 2)), "that are too large"),
        (collection(point(1, 2, id="a"), point(1, 3)), "feature 1 has no id"),
        (collection(point(1, 2), point(1, 3, properties={"weight": 2})), "feature 0 has no weight"),
    ],
)
def test_bad_geojson(write, content, part):
    path = write(content, "p.geojson")
    with pytest.raises(InputError) as caught:
        read_geojson(path)
    assert part in str(caught.value)
    assert str(path) in str(caught.value)


def test_geojson_of_numbers_that_are_not_finite(write):
    with pytest.raises(InputError, match="must be finite"):
        read_geojson(write(collection(point(float("nan"), 2)), "p.geojson"))


def test_graphml_of_osmnx(write):
    records = read_graphml(write(GRAPHML, "city.graphml"))
    assert (records.ids, records.kind, records.name) == (("101", "102", "103"), "places", "city")
    assert records.coordinates[1].tolist() == [57.71, 11.98]
    assert records.streets.edges.tolist() == [[0, 1], [1, 2]]
    assert records.streets.lengths.tolist() == [1.4, 1.3]
    assert records.street_nodes.tolist() == [0, 1, 2]
    assert read_graphml(write(gzip.compress(GRAPHML.encode()), "packed.graphml")).n == 3


def test_graphml_without_lengths_takes_the_straight_line(write):
    lines = [line for line in GRAPHML.replace("length", "width").splitlines() if "103" not in line]
    streets = read_graphml(write("\n".join(lines), "c.graphml")).streets
    assert streets.lengths.tolist() == [haversine_km([57.70, 11.97], [57.71, 11.98])]


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (("57.71", "north"), "node 102 has y = 'north'"),
        (("57.71", "nan"), "node 102 has y = 'nan'"),
        (('<data key="d4">57.71</data>', ""), "node 102 has no x and y"),
        (('<data key="d9">1300.0</data>', ""), "102 to 103 has no length"),
        (("1300.0", "long"), "street 102 to 103 has length = 'long'"),
        (('target="103" id="0"><data key="d8">7', 'target="999" id="0"><data key="d8">7'), "node '999'"),
        (('node id="102"', 'node id="101"'), "node '101' more than once"),
        (("</graphml>", ""), "is not GraphML"),
        (("encoding='utf-8'", "encoding='nonsense'"), "is not GraphML"),
    ],
)
def test_bad_graphml(write, change, part):
    assert change[0] in GRAPHML
    with pytest.raises(InputError) as caught:
        read_graphml(write(GRAPHML.replace(*change), "c.graphml"))
    assert part in str(caught.value)


def test_graphml_without_nodes(write):
    with pytest.raises(InputError, match="has no nodes"):
        read_graphml(write("<graphml/>", "c.graphml"))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_graphml_with_a_document_type_is_refused(write, encoding):
    declaration = '<!DOCTYPE graphml [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;">]><graphml>&b;</graphml>'
    with pytest.raises(FileFormatError, match="document type"):
        read_graphml(write(declaration.encode(encoding), "c.graphml"))


@pytest.fixture
def extract(tmp_path):
    # a crossing at 1 with arms to 2, 4 (by way of 3), 5 and a footpath to 6; far away a short street 7-8
    places = {
        1: (12.0, 57.0), 2: (12.01, 57.0), 3: (12.0, 57.01), 4: (12.01, 57.02),
        5: (11.99, 57.0), 6: (12.0, 56.99), 7: (13.0, 57.0), 8: (13.01, 57.0),
    }  # fmt: skip
    ways = [([2, 1, 5], "residential"), ([1, 3, 4], "tertiary"), ([1, 6], "footway"), ([7, 8], "primary")]
    path = tmp_path / "town.osm.pbf"
    with osmium.SimpleWriter(str(path)) as writer:
        for number, location in places.items():
            writer.add_node(Node(id=number, location=location))
        for number, (nodes, highway) in enumerate(ways, start=1):
            writer.add_way(Way(id=number, nodes=nodes, tags={"highway": highway}))
        # node 99 lies outside the extract
        writer.add_way(Way(id=9, nodes=[2, 99, 4], tags={"highway": "residential"}))
    return path


def test_pbf_gives_contracted_streets_for_cars(extract):
    records = read_pbf(extract)
    assert (records.ids, records.kind, records.name) == (("2", "1", "5", "4"), "places", "town")
    names = {tuple(sorted((records.ids[u], records.ids[v]))) for u, v in records.streets.edges}
    assert names == {("1", "2"), ("1", "4"), ("1", "5")}
    by_way_of_3 = haversine_km([57.0, 12.0], [57.01, 12.0]) + haversine_km([57.01, 12.0], [57.02, 12.01])
    assert records.streets.lengths.max() == pytest.approx(by_way_of_3, rel=1e-12)
    assert np.array_equal(records.coordinates[1], [57.0, 12.0])


def test_pbf_without_streets_and_damaged(tmp_path, write):
    path = tmp_path / "empty.osm.pbf"
    with osmium.SimpleWriter(str(path)) as writer:
        writer.add_node(Node(id=1, location=(12.0, 57.0)))
    with pytest.raises(InputError, match="no streets for cars"):
        read_pbf(path)
    with pytest.raises(FileFormatError, match="not an OpenStreetMap extract"):
        read_pbf(write(b"this is not a map", "bad.osm.pbf"))
    with pytest.raises(InputError, match="there is no file"):
        read_pbf(tmp_path / "none.osm.pbf")


def test_pbf_names_the_extra_to_install(extract, monkeypatch):
    monkeypatch.setitem(sys.modules, "osmium", None)
    with pytest.raises(MissingExtraError, match=r"metricdp\[geo\]"):
        read_pbf(extract)


@pytest.mark.parametrize(
    "content",
    [
        "cat 1 2.5\ndog -1e-1 0\n",
        "2 2\ncat 1 2.5 \ndog -0.1 0 \n",
        gzip.compress(b"cat 1 2.5\r\ndog -0.1 0\r\n", mtime=0),
    ],
)
def test_word_vectors(write, content):
    records = read_word_vectors(write(content, "glove.txt"))
    assert (records.kind, records.ids) == ("vectors", ("cat", "dog"))
    assert records.coordinates.tolist() == [[1.0, 2.5], [-0.1, 0.0]]


def test_words_may_hold_spaces_and_odd_separators(write):
    records = read_word_vectors(write("a\u2028b 1 2\n. . . 3 4\nc\xa0d 5 6\n7 7 8\n", "glove.txt"))
    assert records.ids == ("a\u2028b", ". . .", "c\xa0d", "7")
    assert records.coordinates[1].tolist() == [3.0, 4.0]


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("cat 1 2\ndog 1\n", "line 2 has 1 numbers, but 2"),
        ("cat 1 2\ndog 1 2 3\n", "line 2 has 3 numbers, but 2"),
        ("2 3\ncat 1 2\ndog 1 2\n", "line 2 has 2 numbers, but 3"),
        ("3 2\ncat 1 2\ndog 1 2\n", "promises 3 words in line 1 but has 2"),
        ("0 0\n", "has no words"),
        ("1 0\ncat\n", "no numbers"),
        ("hello\nworld\n", "no numbers"),
        ("cat 1 2\ncat 3 4\n", "'cat' in lines 1 and 2"),
        ("cat 1 2\ndog 1 x\n", "'x'"),
        ("cat 1 inf\n", "not finite"),
        (b"cat 1 2\nd\xf8g 1 2\n", "not UTF-8"),
        ("", "is empty"),
    ],
)
def test_bad_word_vectors(write, content, part):
    with pytest.raises(InputError) as caught:
        read_word_vectors(write(content, "w.vec"))
    assert part in str(caught.value)


def test_the_suffix_chooses_the_reader(write, extract):
    places, vectors = b"lat,lon\n1,2\n", b"cat 1 2\n"
    found = [
        read_records(path).kind
        for path in (
            write(places, "a.csv"),
            write(gzip.compress(places, mtime=0), "a.CSV.gz"),
            write(collection(point(1, 2)), "a.geojson"),
            write(collection(point(1, 2)), "a.json"),
            write(GRAPHML, "a.graphml"),
            extract,
            write(vectors, "a.txt"),
            write(gzip.compress(vectors, mtime=0), "glove.6B.100d.vec.gz"),
        )
    ]
    assert found == ["places"] * 6 + ["vectors"] * 2


@pytest.mark.parametrize("name", ["a.xlsx", "noname", "a.gz"])
def test_unknown_suffix_names_the_known(write, name):
    with pytest.raises(InputError, match=r"\.csv, \.geojson, \.json, \.graphml, \.pbf, \.txt, \.vec"):
        read_records(write("x", name))


def test_a_missing_file_is_said_before_its_suffix(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        read_records(tmp_path / "none.xlsx")


def test_records_pass_through_and_arrays_are_vectors():
    records = Records([[1.0, 2.0]])
    assert as_records(records) is records
    for rows in (np.array([[1, 2], [3, 400]]), [[1, 2], [3, 400]], ((1.0, 2.0), (3.0, 400.0))):
        made = as_records(rows)
        assert (made.kind, made.coordinates.tolist()) == ("vectors", [[1.0, 2.0], [3.0, 400.0]])


@pytest.mark.parametrize("rows", [np.array([[57.7, 11.97], [57.71, 11.98]]), [[0, 0]], [(-90.0, 180.0)]])
def test_two_columns_that_could_be_degrees_are_never_taken_silently(rows):
    with pytest.raises(InputError, match="kind='places' or kind='vectors'"):
        as_records(rows)
    assert as_records(rows, kind="places").kind == "places"
    assert as_records(rows, kind="vectors").kind == "vectors"


def test_frames_have_the_columns_of_csv_files():
    places = as_records(pd.DataFrame({"Name": ["a", "b"], "LAT": [1, 2], "Lon": [3, 4], "ID": [8, 9], "prior": [1, 3]}))
    assert (places.kind, places.ids, places.prior.tolist()) == ("places", ("8", "9"), [0.25, 0.75])
    assert places.coordinates.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    vectors = as_records(pd.DataFrame({"x2": [1.0], "x1": [2.0]}))
    assert (vectors.kind, vectors.coordinates.tolist()) == ("vectors", [[2.0, 1.0]])


@pytest.mark.parametrize(
    ("frame", "part"),
    [
        (pd.DataFrame({"a": [1]}), "the DataFrame has the columns 'a'"),
        (pd.DataFrame({"lat": ["north"], "lon": [1]}), "column 'lat' of the DataFrame must hold numbers"),
        (pd.DataFrame({"lat": [None], "lon": [1.0]}), "must be finite"),
        (pd.DataFrame([[1, 2]]), "'0', '1'"),
        ("nodes.csv", "read_records"),
        ([["a", "b"]], "must be numbers"),
        (None, "coordinates must be"),
    ],
)
def test_what_cannot_become_records(frame, part):
    with pytest.raises(InputError) as caught:
        as_records(frame)
    assert part in str(caught.value)


def test_geo_frames_are_converted_to_degrees():
    frame = gpd.GeoDataFrame({"osmid": [4, 5], "Weight": [1.0, 1.0]}, geometry=[Point(12, 57), Point(13, 58)])
    bare = as_records(frame)
    metres = as_records(frame.set_crs("EPSG:4326").to_crs("EPSG:3006"))
    assert (bare.ids, bare.kind) == (("4", "5"), "places")
    assert bare.coordinates.tolist() == [[57.0, 12.0], [58.0, 13.0]]
    assert np.allclose(metres.coordinates, bare.coordinates, atol=1e-7)


@pytest.mark.parametrize("geometry", [LineString([(0, 0), (1, 1)]), None])
def test_geo_frames_of_other_shapes_are_refused(geometry):
    with pytest.raises(InputError, match="row 1 of the GeoDataFrame is"):
        as_records(gpd.GeoDataFrame(geometry=[Point(0, 0), geometry]))


@pytest.mark.parametrize("reader", [read_records, read_geojson])
def test_each_fault_is_said_once(write, tmp_path, reader):
    empty = write("", "empty.geojson")
    with pytest.raises(InputError) as caught:
        reader(empty)
    assert str(caught.value) == f"{empty} is empty: give a file with at least one record"
    with pytest.raises(InputError) as caught:
        reader(tmp_path)
    assert str(caught.value) == f"{tmp_path} is a directory: name a file in it"


def test_text_that_is_not_utf8_is_not_called_bad_json(write):
    with pytest.raises(FileFormatError) as caught:
        read_geojson(write(b"\xff", "a.geojson"))
    assert "is not UTF-8 text" in str(caught.value)
    assert "is not JSON" not in str(caught.value)
