"""Map layers of GeoJSON files, and the shipped map."""

from __future__ import annotations

import json

import numpy as np
import pytest

import metricdp as mdp
from metricdp.data.map_layers import city_map, city_of
from metricdp.data.readers.layers import read_layers
from metricdp.errors import FileFormatError, InputError

SQUARE = [[11.0, 57.0], [12.0, 57.0], [12.0, 58.0], [11.0, 57.0]]


def write(path, *features):
    rows = [{"type": "Feature", "properties": p, "geometry": {"type": t, "coordinates": c}} for p, t, c in features]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": rows}))
    return path


@pytest.mark.parametrize(
    ("properties", "shape", "coordinates", "kind"),
    [
        ({"natural": "water"}, "Polygon", [SQUARE], "water"),
        ({"waterway": "river"}, "LineString", SQUARE, "water"),
        ({"leisure": "park"}, "MultiPolygon", [[SQUARE], [SQUARE]], "park"),
        ({"landuse": "forest"}, "Polygon", [SQUARE], "park"),
        ({"highway": "primary_link"}, "LineString", SQUARE, "main street"),
        ({"highway": "residential"}, "MultiLineString", [SQUARE, SQUARE], "street"),
        ({"highway": "footway"}, "LineString", SQUARE, "path"),
        ({"highway": "pedestrian"}, "Polygon", [SQUARE], "square"),
        ({"place": "suburb"}, "Point", [11.0, 57.0], "place"),
        ({"place": "suburb"}, "MultiPoint", [[11.0, 57.0], [12.0, 58.0]], "place"),
        ({"kind": "park", "natural": "water"}, "Polygon", [SQUARE], "park"),
    ],
)
def test_tags_say_what_a_feature_is(tmp_path, properties, shape, coordinates, kind):
    path = write(tmp_path / "a.geojson", ({**properties, "name": " Haga "}, shape, coordinates), ({}, "Point", [0, 0]))
    (found,) = read_layers(path)
    assert (found.kind, found.name, found.is_area) == (kind, "Haga", shape.endswith("Polygon"))
    assert found.parts[0][0].tolist() == [57.0, 11.0]
    assert len(found.parts) == (2 if shape.startswith("Multi") else 1)


@pytest.mark.parametrize(
    ("shape", "coordinates", "message"),
    [
        ("Polygon", SQUARE, "not positions"),
        ("Polygon", [[[11.0, 95.0]]], "not positions"),
        ("LineString", [["a", "b"]], "not positions"),
        ("LineString", [], "not positions"),
        ("LineString", [[1, 2], [3]], "not positions"),
        ("Point", None, "not positions"),
        ("Point", [float("nan"), 1.0], "not"),
        ("Circle", [0, 0], "is a 'Circle'"),
        (["Point"], [0, 0], "give Point"),
    ],
)
def test_bad_features_are_refused_in_one_line(tmp_path, shape, coordinates, message):
    path = write(tmp_path / "a.geojson", ({"natural": "water"}, shape, coordinates))
    with pytest.raises((InputError, FileFormatError), match=message) as caught:
        read_layers(path)
    assert "\n" not in str(caught.value)


def test_nothing_to_draw_names_the_remedy(tmp_path):
    path = write(tmp_path / "a.geojson", ({"amenity": "bench"}, "Point", [0, 0]))
    with pytest.raises(InputError, match="give features the property kind"):
        read_layers(path)


def test_the_shipped_map_fits_the_shipped_streets():
    """Every intersection lies on the map: within the tolerance that its lines were simplified with."""
    points = np.concatenate([part for f in city_map("gothenburg") if f.kind != "square" for part in f.parts])
    places = mdp.data.road("gothenburg").coordinates[::50]
    metres = np.array([111_195.0, 111_195.0 * np.cos(np.radians(57.7))])
    nearest = [np.hypot(*((points - place) * metres).T).min() for place in places]
    assert np.median(nearest) < 2.0
    names = {f.name for f in city_map("gothenburg")}
    assert {"Kungsportsplatsen", "Gustaf Adolfs Torg"} <= names
    assert city_of(mdp.data.road("gothenburg", n=5)) == "gothenburg"
    with pytest.raises(InputError, match="no city 'rome'"):
        city_map("rome")
