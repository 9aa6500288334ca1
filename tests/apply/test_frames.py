"""pandas and GeoPandas: the same kind comes out as went in, and nothing beside the reports unless it is named."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import metricdp as mdp
from metricdp.apply import perturb_column, perturb_frame, snap_distances


@pytest.fixture(scope="module")
def city():
    records = mdp.Records([[57.70, 11.97], [57.71, 11.97], [57.72, 11.97]], ids=["a", "b", "c"])
    return mdp.exponential(mdp.Problem(records, epsilon=200.0, eta=1.5, outputs=3, loss="distance"))


@pytest.fixture(scope="module")
def grid():
    return mdp.exponential(mdp.Problem(mdp.data.grid(4, 4), epsilon=60.0, eta=1.5, outputs=16))


@pytest.fixture
def frame():
    return pd.DataFrame(
        {"who": ["Ana", "Ben", "Cleo"], "lat": [57.7001, 57.7202, 57.71], "lon": 11.97}, index=[7, 5, 5]
    )


def test_a_mechanism_gives_a_column_for_a_column(city):
    column = pd.Series(["a", "c", "b"], index=[3, 1, 1], name="home")
    pd.testing.assert_series_equal(city.perturb(column), column.reset_index(drop=True), check_dtype=False)


def test_columns(city):
    column = pd.Series(["a", "c", "b", "b"], index=[3, 1, 4, 1], name="home")
    answer = perturb_column(city, column)
    pd.testing.assert_series_equal(answer, column.reset_index(drop=True), check_dtype=False)
    kept = perturb_column(city, column, keep_index=True)
    pd.testing.assert_series_equal(kept, column, check_dtype=False)
    assert len(perturb_column(city, column.iloc[:0])) == 0
    assert list(perturb_column(city, column.astype("category"))) == ["a", "c", "b", "b"]
    with pytest.raises(mdp.InputError, match="1 of 2 rows have no record id"):
        perturb_column(city, pd.Series(["a", None]))
    with pytest.raises(mdp.InputError, match="id 2 of 2 is not a record"):
        perturb_column(city, pd.Series(["a", "z"]))
    with pytest.raises(mdp.InputError, match="a pandas Series, got list"):
        perturb_column(city, ["a"])


def test_frames_of_places(city, frame):
    answer = perturb_frame(city, frame, snap_limit=0.1)
    assert list(answer.columns) == ["lat", "lon", "report"]
    assert list(answer.index) == [0, 1, 2]
    assert answer["report"].tolist() == ["a", "c", "b"]
    assert answer["lat"].tolist() == [57.70, 57.72, 57.71]
    kept = perturb_frame(city, frame, snap_limit=0.1, keep=["who"], keep_index=True)
    assert kept["who"].tolist() == ["Ana", "Ben", "Cleo"]
    assert list(kept.index) == [7, 5, 5]
    assert snap_distances(city, frame).tolist() == pytest.approx([0.01112, 0.02224, 0.0], rel=1e-3)


def test_frames_of_vectors(grid):
    points = pd.DataFrame({"Y": [0.5, 3.3], "x": [0.6, 3.5]})
    answer = perturb_frame(grid, points, snap_limit=0.5)
    assert answer["report"].tolist() == ["r00c00", "r03c03"]
    assert answer[["x", "Y"]].to_numpy().tolist() == [[0.5, 0.5], [3.5, 3.5]]


def test_rows_beyond_the_limit(city, frame):
    far = pd.concat([frame, pd.DataFrame({"who": "Dan", "lat": 57.9, "lon": 11.97}, index=[9])])
    with pytest.raises(mdp.InputError, match="1 of 4 points are farther than 0.1") as caught:
        perturb_frame(city, far, snap_limit=0.1)
    assert "57.9" not in str(caught.value)
    answer = perturb_frame(city, far, snap_limit=0.1, far="drop", keep=["who"])
    assert answer["who"].tolist() == ["Ana", "Ben", "Cleo"]


@pytest.mark.parametrize(
    ("change", "options", "part"),
    [
        (lambda frame: frame, {"snap_limit": 0.0}, "snap limit must be positive, got 0"),
        (lambda frame: frame, {"far": "pass"}, "unknown policy 'pass'"),
        (lambda frame: frame, {"keep": "who"}, "keep must be a list of columns"),
        (lambda frame: frame, {"keep": ["lat"]}, "holds the true points"),
        (lambda frame: frame, {"keep": ["age"]}, "keep names 'age'"),
        (lambda frame: frame.assign(report=1), {"keep": ["report"]}, "the reports' own column"),
        (lambda frame: frame.iloc[:0], {}, "no rows"),
        (lambda frame: frame[["who"]], {}, "needs lat and lon"),
        (lambda frame: frame.assign(lat="north"), {}, "must hold numbers"),
        (lambda frame: frame.assign(lat=np.nan), {}, "finite"),
        (lambda frame: frame.rename(columns={"lat": "x", "lon": "y"}), {}, "columns of vectors"),
        (lambda frame: frame["lat"], {}, "DataFrame or GeoDataFrame, got Series"),
    ],
)
def test_bad_frames(city, frame, change, options, part):
    with pytest.raises(mdp.InputError, match=part):
        perturb_frame(city, change(frame), **{"snap_limit": 0.1, **options})


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:3006", None])
def test_geo_frames_keep_their_reference_system(city, frame, crs):
    import geopandas

    places = geopandas.GeoDataFrame(
        frame[["who"]], geometry=geopandas.points_from_xy(frame["lon"], frame["lat"]), crs="EPSG:4326"
    ).rename_geometry("where")
    given = places.set_crs(None, allow_override=True) if crs is None else places.to_crs(crs)
    answer = perturb_frame(city, given, snap_limit=0.1, keep=["who"], keep_index=True)
    assert isinstance(answer, geopandas.GeoDataFrame)
    assert answer.geometry.name == "where"
    assert answer.crs == given.crs
    assert set(answer.columns) == {"who", "report", "where"}
    assert list(answer.index) == [7, 5, 5]
    assert answer["report"].tolist() == ["a", "c", "b"]
    degrees = answer.geometry if crs is None else answer.geometry.to_crs("EPSG:4326")
    assert degrees.y.tolist() == pytest.approx([57.70, 57.72, 57.71], abs=1e-6)
    with pytest.raises(mdp.InputError, match="true points"):
        perturb_frame(city, given, snap_limit=0.1, keep=["where"])


def test_equal_reports_are_equal_to_the_last_bit(city):
    """Converted coordinates carry nothing of the true point."""
    import geopandas

    rng = np.random.default_rng(0)
    places = geopandas.GeoSeries(
        geopandas.points_from_xy(11.97 + 1e-4 * rng.random(50), 57.70 + 1e-4 * rng.random(50)), crs="EPSG:4326"
    )
    answer = perturb_frame(city, geopandas.GeoDataFrame(geometry=places.to_crs("EPSG:3006")), snap_limit=0.1)
    assert len({(point.x, point.y) for point in answer.geometry}) == 1


def test_bad_geo_frames(city, grid):
    import geopandas
    import shapely

    line = geopandas.GeoDataFrame(geometry=[shapely.LineString([(0, 0), (1, 1)])])
    with pytest.raises(mdp.InputError, match="row 0 of the GeoDataFrame is LineString"):
        perturb_frame(city, line, snap_limit=1.0)
    with pytest.raises(mdp.InputError, match="records are vectors"):
        perturb_frame(grid, geopandas.GeoDataFrame(geometry=[shapely.Point(1, 1)]), snap_limit=1.0)
