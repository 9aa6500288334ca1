"""GeoJSON at its edges: features one after the other, in pieces of any size, and what each message says."""

import json

import pytest

from metricdp.data import read_geojson
from metricdp.data.readers import features as features_module
from metricdp.data.readers import streams
from metricdp.data.readers.features import GEOMETRIES, Feature, features
from metricdp.data.readers.streams import TextSource
from metricdp.errors import FileFormatError, InputError, show_values

WHERE = "in.json, feature 3"


@pytest.fixture
def write(tmp_path):
    def writer(content, name="in.json"):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return writer


def point(*coordinates, **more):
    return {"geometry": {"type": "Point", "coordinates": list(coordinates)}, **more}


def message_of(call, *given, error=InputError):
    with pytest.raises(error) as caught:
        call(*given)
    assert type(caught.value) is error
    return str(caught.value)


def contents(path):
    with TextSource(path) as source:
        return [feature.content for feature in features(source)]


# one feature


def test_a_feature_is_named_but_not_shown():
    assert repr(Feature({"id": "home"}, WHERE)) == f"Feature({WHERE!r})"


def test_a_place_has_latitude_first_and_may_have_a_height():
    assert Feature(point(12, 57.5), WHERE).place() == (57.5, 12.0)
    assert Feature(point(12, 57.5, "high"), WHERE).place() == (57.5, 12.0)
    assert all(type(value) is float for value in Feature(point(12, 57), WHERE).place())


@pytest.mark.parametrize("kind", GEOMETRIES[1:])
def test_known_geometries_that_are_no_points_are_named(kind):
    message = message_of(Feature({"geometry": {"type": kind, "coordinates": [1, 2]}}, WHERE).place)
    assert message == f"{WHERE} has the geometry {kind}: only Points can be perturbed; remove it"


@pytest.mark.parametrize("content", [5, None, [], {}, {"geometry": None}, {"geometry": []}, {"geometry": {}}])
def test_a_feature_without_geometry_is_no_place(content):
    message = message_of(Feature(content, WHERE).place)
    assert message == f"{WHERE} has the geometry None: only Points can be perturbed; remove it"


@pytest.mark.parametrize("kind", ["home", ["home"], {"home": 1}])
def test_an_unknown_geometry_is_shown_only_when_asked(kind):
    feature = Feature({"geometry": {"type": kind}}, WHERE)
    message = f"{WHERE} has the geometry of another kind: only Points can be perturbed; remove it"
    assert message_of(feature.place) == message
    with show_values():
        assert "home" in message_of(feature.place)


@pytest.mark.parametrize("position", [None, "12", {"0": 1, "1": 2}, [], [1], [1, "2"], ["1", 2], [True, 2], [1, False]])
def test_a_place_needs_two_numbers(position):
    content = {"geometry": {"type": "Point", "coordinates": position}}
    message = message_of(Feature(content, WHERE).place)
    assert message == f"{WHERE} has coordinates that are no [longitude, latitude]: give both in degrees"


@pytest.mark.parametrize("position", [(10**400, 2), (1, -(10**400))])
def test_coordinates_beyond_all_numbers(position):
    message = message_of(Feature(point(*position), WHERE).place)
    assert message == f"{WHERE} has coordinates beyond all numbers: give degrees"


def test_the_id_of_a_feature_is_its_own_or_its_property():
    assert Feature({"id": "a", "properties": {"id": "b"}}, WHERE).id() == "a"
    assert Feature({"id": 0, "properties": {"id": "b"}}, WHERE).id() == "0"
    assert Feature({"id": None, "properties": {"id": "b"}}, WHERE).id() == "b"
    assert Feature({"properties": {"id": 7}}, WHERE).id() == "7"


@pytest.mark.parametrize("content", [5, {}, {"properties": None}, {"properties": ["id"]}, {"properties": {"id": None}}])
def test_a_feature_without_id(content):
    message = message_of(Feature(content, WHERE).id)
    assert message.startswith(f"{WHERE} has no id: name a record of the mechanism, or give a snap limit")


def test_properties_that_are_no_object_are_none():
    assert Feature({"properties": {"a": 1}}, WHERE).properties == {"a": 1}
    assert [Feature(content, WHERE).properties for content in (5, {}, {"properties": [1]})] == [{}, {}, {}]


# the collection


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ('{"features": [1]} 5', "text after the collection"),
        ('{} "features"', "text after the collection"),
        ('{"features": [1] 5', "the end of the collection was expected"),
        ('{"features": [1 5]}', "a comma or the end of the features was expected"),
        ('{"features": 5}', "a list of features was expected"),
        ('{"features" [1]}', "a colon after each name was expected"),
        ('{"features": [1,]}', "Expecting value"),
        ('{"a": 1, }', "Expecting value"),
        ('{"a": 1', "the end of the collection was expected"),
        ('{"features": ["', "Unterminated string"),
        ('["features"]', "a GeoJSON FeatureCollection of Points was expected"),
    ],
)
def test_what_is_no_collection(write, content, part):
    path = write(content)
    message = message_of(contents, path, error=FileFormatError)
    assert message.startswith(f"{path} is not GeoJSON ({part}")
    assert message.endswith("): save it again as GeoJSON")


def test_a_second_list_of_features(write):
    path = write('{"features": [1], "features": [2]}')
    assert message_of(contents, path, error=FileFormatError) == f"{path} has two lists of features: keep one"


def test_members_around_the_features_are_passed_over(write):
    assert contents(write('{"a": {"features": 5}, "features": [1, 2], "b": [3], "type": "x"}')) == [1, 2]
    assert contents(write(' {"features" : [ 1 , {"a" : 2} ] } \n')) == [1, {"a": 2}]


@pytest.mark.parametrize(
    "system", [None, {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}, "EPSG:4326", {"properties": {"name": "epsg:4326"}}]
)
def test_degrees_are_the_reference_system(write, system):
    assert contents(write({"crs": system, "features": [1]})) == [1]


def test_another_reference_system_is_named_shortly_wherever_it_stands(write):
    path = write({"features": [1], "crs": "EPSG:3006" + "x" * 200})
    message = message_of(contents, path)
    shown = '"EPSG:3006' + "x" * 70
    assert message == f"{path} has the reference system {shown}: convert it to degrees (EPSG:4326)"
    assert contents(write({"features": [1], "system": "EPSG:3006"})) == [1]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_values_that_go_on_in_the_next_piece(write, monkeypatch, size):
    monkeypatch.setattr(streams, "BYTES_AT_ONCE", size)
    document = {"n": 1.5, "features": [1234567, -0.5, 1e-30, 2.5e30, "été", [1, [2]], {"a": None}, True], "end": 678}
    text = json.dumps(document, indent=1) + "\n\n"
    for blanks in range(size):  # so that each sign is once the last of its piece
        assert contents(write(" " * blanks + text)) == document["features"]


def test_features_come_before_the_file_is_at_its_end(write, monkeypatch):
    monkeypatch.setattr(streams, "BYTES_AT_ONCE", 8)
    with TextSource(write('{"features": [1, 2, 3' + " " * 1000)) as source:
        found = features(source)
        assert [next(found).content, next(found).content] == [1, 2]
        assert source.fraction < 0.1
        with pytest.raises(FileFormatError):
            list(found)


def test_a_long_value_is_refused_before_it_is_read(write, monkeypatch):
    monkeypatch.setattr(streams, "BYTES_AT_ONCE", 16)
    monkeypatch.setattr(features_module, "LONGEST_VALUE", 100)
    path = write('{"features": ["' + "a" * 5000 + '"]}')
    with TextSource(path) as source:
        message = message_of(list, features(source), error=FileFormatError)
        assert source.fraction < 0.1
    assert message.startswith(f"{path} is not GeoJSON (a value of more than 100 characters)")


def test_the_longest_value_is_counted_from_its_beginning(write, monkeypatch):
    """What is read of a value may be 2^24 characters, and the whole value more if the rest is there at once."""
    path = write('{"n": "' + "a" * (1 << 24) + '", "features": [1]}')
    with path.open("rb") as file:
        first = len(file.peek())  # comes as a piece of its own
    following = len('{"n": ') + (1 << 24) - first
    monkeypatch.setattr(streams, "BYTES_AT_ONCE", following)
    assert contents(path) == [1]
    monkeypatch.setattr(streams, "BYTES_AT_ONCE", following + 1)
    assert "a value of more than 16,777,216 characters" in message_of(contents, path, error=FileFormatError)


def test_what_stands_before_a_value_in_its_piece_does_not_count(write, monkeypatch):
    with write("x" * (1 << 20)).open("rb") as file:
        first = len(file.peek())
    monkeypatch.setattr(features_module, "LONGEST_VALUE", 100)
    before = '{"features": [1'.ljust(first - 51) + ","
    assert contents(write(before + '"' + "a" * 80 + '"]}')) == [1, "a" * 80]


def test_brackets_too_deep_are_refused_at_once(write, monkeypatch):
    monkeypatch.setattr(features_module, "LONGEST_VALUE", 1000)
    message = message_of(contents, write('{"features": ' + "[" * 200_000), error=FileFormatError)
    assert "recursion" in message
    assert len(message) < 300


# records


def test_a_height_of_any_kind_is_left_out(write):
    assert read_geojson(write({"features": [point(12, 57, None)]})).coordinates.tolist() == [[57.0, 12.0]]


@pytest.mark.parametrize("kind", ["LineString", "MultiLineString"])
def test_lines_are_sent_to_the_readers_of_streets(write, kind):
    path = write({"features": [{"geometry": {"type": kind, "coordinates": []}}]})
    assert message_of(read_geojson, path) == (
        f"{path}, feature 0 is a {kind}, but records are Points: read streets from GraphML (.graphml) or "
        "OpenStreetMap (.osm.pbf) instead"
    )


@pytest.mark.parametrize("content", [5, {}, {"geometry": []}, {"geometry": {"coordinates": [1, 2]}}])
def test_records_need_a_geometry(write, content):
    path = write({"features": [point(1, 2), content]})
    message = message_of(read_geojson, path)
    assert message == f"{path}, feature 1 has the geometry None: records are Points; remove the feature"


@pytest.mark.parametrize("position", [None, "12", {"0": 1, "1": 2}, [1], [1, "2"], ["1", 2], [1, False], [None, 2]])
def test_records_need_two_numbers(write, position):
    path = write({"features": [{"geometry": {"type": "Point", "coordinates": position}}]})
    message = message_of(read_geojson, path)
    assert message == f"{path}, feature 0 has the coordinates {position!r}: give [longitude, latitude] in degrees"


def test_long_coordinates_are_shown_shortly(write):
    message = message_of(read_geojson, write({"features": [point("a" * 100, 2)]}))
    assert f"the coordinates {str(['a' * 100])[:60]}: give" in message


@pytest.mark.parametrize("position", [(10**400, 2), (1, 10**400)])
def test_records_beyond_all_numbers(write, position):
    message = message_of(read_geojson, write({"features": [point(*position)]}))
    assert message.endswith("feature 0 has coordinates beyond all numbers: give longitude and latitude")


@pytest.mark.parametrize("weight", ["1", True, [1], 2e300, -2e300, 10**301])
def test_weights_are_numbers_of_a_usual_size(write, weight):
    path = write({"features": [point(1, 2, properties={"weight": weight})]})
    message = message_of(read_geojson, path)
    assert message == f"{path}, feature 0 has the weight {weight!r:.40}: give a number, zero or more"


def test_the_largest_weight_and_no_weight_at_all(write):
    heavy = [point(1, 2, properties={"weight": 1e300}), point(1, 3, properties={"weight": 0})]
    assert read_geojson(write({"features": heavy})).prior.tolist() == [1.0, 0.0]
    none = [point(1, 2, properties={"weight": None}), point(1, 3)]
    assert read_geojson(write({"features": none})).prior.tolist() == [0.5, 0.5]


def test_ids_and_weights_are_for_all_or_none(write):
    some = [point(1, 2, id=0), point(1, 3), point(1, 4), point(1, 5, id=1)]
    path = write({"features": some})
    assert message_of(read_geojson, path) == (
        f"{path}, feature 1 has no id though others have (2 such features): give all features a id or none"
    )
    records = read_geojson(write({"features": [point(1, 2, id=0), point(1, 3, id="", properties={"id": "b"})]}, "c.d"))
    assert (records.ids, records.name) == (("0", ""), "c")
