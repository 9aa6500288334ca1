"""pandas and GeoPandas in and out: columns of record ids, columns of coordinates, and geometries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.data.readers.columns import find_columns, listed
from metricdp.errors import InputError, MissingExtraError
from metricdp.interfaces.snapping import check_far, check_limit, draw_points, snap_points

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from metricdp.mechanism.mechanism import Mechanism

DEGREES = "EPSG:4326"


def perturb_column(mechanism: Mechanism, column: Any, *, allow_unprotected: bool = False) -> Any:
    """Draw a report for each record id in a pandas column; the answer has the same index and name.

    Parameters
    ----------
    column
        A Series of record ids without missing values. Each row spends the budget once.
    allow_unprotected
        Report also records without any neighbour; without it, they are refused.

    Examples
    --------
    >>> import pandas, metricdp
    >>> grid = metricdp.data.grid(2, 2)
    >>> mechanism = metricdp.exponential(metricdp.Problem(grid, epsilon=50.0, eta=1.0, outputs=4))
    >>> perturb_column(mechanism, pandas.Series(["r00c00", "r01c01"], index=["Ana", "Ben"])).to_dict()
    {'Ana': 'r00c00', 'Ben': 'r01c01'}
    """
    pandas = _pandas()
    if not isinstance(column, pandas.Series):
        raise InputError(f"a column must be a pandas Series, got {type(column).__name__}: take frame['name']")
    missing = int(column.isna().sum())
    if missing:
        raise InputError(f"{missing} of {len(column)} rows have no record id: fill or remove them")
    return pandas.Series(
        mechanism.perturb(list(column), allow_unprotected=allow_unprotected),
        index=column.index,
        name=column.name,
        dtype=object,
    )


def perturb_frame(
    mechanism: Mechanism,
    frame: Any,
    *,
    snap_limit: float,
    far: str = "refuse",
    keep: Sequence[str] = (),
    allow_unprotected: bool = False,
) -> Any:
    """Draw a report for each row of a DataFrame or GeoDataFrame of points, taken to their nearest records first.

    The answer has the same index, the columns of coordinates (or the geometry, in the same reference system) with the
    reports' coordinates, the column ``report`` with their names, and the columns named by ``keep``. **Every other
    column is left out**: what stands beside a report can give the true place away, and nothing protects it.

    Parameters
    ----------
    frame
        With columns ``lat`` and ``lon``, or ``x``, ``y``, ... (a DataFrame), or with a geometry of Points. A geometry
        without a reference system is taken as longitude and latitude.
    snap_limit
        The farthest distance at which to snap, in the mechanism's unit.
    far
        ``"refuse"`` the frame if any point is farther, or ``"drop"`` these rows; that they are missing can be seen.
    keep
        Columns to pass on as they are.
    allow_unprotected
        Report also where points that are close together can be told apart; without it, the mechanism is refused.
    """
    check_limit(snap_limit)
    check_far(far)
    points, write = _points_of(mechanism, frame)
    _check_kept(frame, keep, write)
    drawn = draw_points(mechanism, points, limit=snap_limit, allow_unprotected=allow_unprotected)
    is_near = drawn.distances <= snap_limit
    if far == "refuse" and not is_near.all():
        raise InputError(
            f"{int((~is_near).sum())} of {len(frame)} points are farther than {snap_limit:g} from every record: "
            'nothing is reported; drop them with far="drop", or raise snap_limit'
        )
    outputs = drawn.outputs[is_near]
    names = np.array(mechanism.outputs.ids(mechanism.records), dtype=object)[outputs]
    kept = frame.loc[is_near, list(keep)]
    return write.reports(kept, outputs, names)


def snap_distances(mechanism: Mechanism, frame: Any) -> Any:
    """Give how far each point of a frame is from its nearest record, as a Series: to choose a limit by.

    This says something about the true points: it is for whoever holds them, never to be published with the reports.
    """
    points, _ = _points_of(mechanism, frame)
    return _pandas().Series(snap_points(mechanism, points)[1], index=frame.index, name="snap_distance")


class _CoordinateColumns:
    """Reports into the columns that the points came from."""

    def __init__(self, mechanism: Mechanism, names: list[Any]) -> None:
        self.names = names
        self._mechanism = mechanism

    def reports(self, kept: Any, outputs: NDArray[np.int64], report: NDArray[np.object_]) -> Any:
        points = self._mechanism.outputs.coordinates[outputs]
        columns = dict(zip(self.names, points.T, strict=True))
        beside = {name: kept[name].array for name in kept.columns}
        return _pandas().DataFrame({**columns, "report": report, **beside}, index=kept.index)


class _Geometry:
    """Reports into a geometry with the name and the reference system of the one the points came from."""

    def __init__(self, mechanism: Mechanism, frame: Any) -> None:
        self.names = [frame.geometry.name]
        points = mechanism.outputs.coordinates
        geopandas = _geopandas()
        places = geopandas.GeoSeries(geopandas.points_from_xy(points[:, 1], points[:, 0]), crs=DEGREES)
        # all outputs are converted, then chosen from: a report is the same to the last bit whatever the true point
        crs = frame.geometry.crs
        self._places = places.set_crs(None, allow_override=True) if crs is None else places.to_crs(crs)

    def reports(self, kept: Any, outputs: NDArray[np.int64], report: NDArray[np.object_]) -> Any:
        geopandas, name = _geopandas(), self.names[0]
        geometry = self._places.iloc[outputs].set_axis(kept.index)
        made = _pandas().DataFrame(kept).assign(report=report)
        made[name] = geometry
        return geopandas.GeoDataFrame(made, geometry=name, crs=self._places.crs)


def _points_of(mechanism: Mechanism, frame: Any) -> tuple[NDArray[np.float64], _CoordinateColumns | _Geometry]:
    pandas = _pandas()
    if not isinstance(frame, pandas.DataFrame):
        raise InputError(f"points must be in a DataFrame or GeoDataFrame, got {type(frame).__name__}")
    if len(frame) == 0:
        raise InputError("the frame has no rows: give at least one point")
    if hasattr(frame, "to_crs"):
        return _geometry_points(mechanism, frame), _Geometry(mechanism, frame)
    names, records = list(frame.columns), mechanism.records
    layout = find_columns(names, "the DataFrame")
    if layout.kind != records.kind or len(layout.coordinates) != records.dimension:
        raise InputError(
            f"the DataFrame has the columns {listed(names)}, which are {layout.kind}, but the mechanism's records are "
            f"{records.kind} with {records.dimension} coordinates: give the columns that fit"
        )
    chosen = [names[column] for column in layout.coordinates]
    try:
        points = frame[chosen].to_numpy(dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"the columns {listed(chosen)} must hold numbers: correct or remove the others") from None
    return points, _CoordinateColumns(mechanism, chosen)


def _geometry_points(mechanism: Mechanism, frame: Any) -> NDArray[np.float64]:
    if mechanism.records.kind != "places":
        raise InputError(
            "a GeoDataFrame holds places, but the mechanism's records are vectors: give a DataFrame with x, y, ..."
        )
    geometry = frame.geometry
    kinds = list(geometry.geom_type)
    wrong = next((row for row, kind in enumerate(kinds) if kind != "Point"), None)
    if wrong is not None:
        raise InputError(f"row {wrong} of the GeoDataFrame is {kinds[wrong] or 'without geometry'}: give Points")
    if geometry.crs is not None:
        geometry = geometry.to_crs(DEGREES)
    return np.column_stack([np.asarray(geometry.y), np.asarray(geometry.x)])


def _check_kept(frame: Any, keep: Sequence[str], write: _CoordinateColumns | _Geometry) -> None:
    if isinstance(keep, str):
        raise InputError(f"keep must be a list of columns, got {keep!r}: write [{keep!r}]")
    names = list(frame.columns)
    for name in keep:
        if names.count(name) != 1 or list(keep).count(name) != 1:
            raise InputError(f"keep names {name!r}, but the columns are {listed(names)}: name each once")
        if name in write.names:
            raise InputError(f"keep names {name!r}, which holds the true points: leave it out")
        if name == "report":
            raise InputError("keep names 'report', the name of the reports' own column: rename it")


def _pandas() -> Any:
    try:
        import pandas  # noqa: PLC0415, ICN001
    except ImportError:
        raise MissingExtraError("pandas", "geo", "reading and writing DataFrames") from None
    return pandas


def _geopandas() -> Any:
    try:
        import geopandas  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError("geopandas", "geo", "reading and writing GeoDataFrames") from None
    return geopandas
