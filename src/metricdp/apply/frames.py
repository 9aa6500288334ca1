"""pandas and GeoPandas in and out: columns of record ids, columns of coordinates, and geometries."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.apply.batches import columns_of_secrets
from metricdp.apply.copies import Copies
from metricdp.apply.snapping import check_far, check_limit, draw_points, far_from_all, snap_points
from metricdp.data.readers.columns import listed
from metricdp.errors import InputError, MissingExtraError, revealed
from metricdp.mechanism.plane import check_of_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from metricdp.mechanism.mechanism import Mechanism

DEGREES_CRS = "EPSG:4326"


def perturb_column(
    mechanism: Mechanism, column: Any, *, keep_index: bool = False, allow_unprotected: bool = False
) -> Any:
    """Draw a report for each record id in a pandas column; the answer has the same order and name.

    Parameters
    ----------
    column
        A Series of record ids without missing values. Each row spends the budget once.
    keep_index
        Keep the index unchanged and unprotected. By default rows are numbered from 0, since an index may hold the true
        record. An index that visibly does is refused; no check finds every copy.
    allow_unprotected
        Also report records without any neighbour; without it, they are refused.

    Examples
    --------
    >>> import pandas, metricdp
    >>> grid = metricdp.data.grid(2, 2)
    >>> mechanism = metricdp.exponential(metricdp.Problem(grid, epsilon=50.0, eta=1.0, outputs=4))
    >>> homes = pandas.Series(["r00c00", "r01c01"], index=["Ana", "Ben"])
    >>> perturb_column(mechanism, homes).to_dict()
    {0: 'r00c00', 1: 'r01c01'}
    >>> perturb_column(mechanism, homes, keep_index=True).to_dict()
    {'Ana': 'r00c00', 'Ben': 'r01c01'}
    """
    check_of_records(mechanism, "perturb_region_frame, which takes points as they are")
    pandas = pandas_module()
    if not isinstance(column, pandas.Series):
        raise InputError(f"a column must be a pandas Series, got {type(column).__name__}: take frame['name']")
    missing = int(column.isna().sum())
    if missing:
        raise InputError(f"{missing} of {len(column)} rows have no record id: fill or remove them")
    ids = list(column)
    index = checked_index(mechanism, column.index, [column.name], mechanism.rows_of(ids)) if keep_index else None
    reports = mechanism.perturb(ids, allow_unprotected=allow_unprotected)
    return pandas.Series(reports, index=index, name=column.name, dtype=object)


def perturb_frame(
    mechanism: Mechanism,
    frame: Any,
    *,
    snap_limit: float,
    far: str = "refuse",
    keep: Sequence[str] = (),
    keep_index: bool = False,
    allow_unprotected: bool = False,
    fast_snap: bool = False,
) -> Any:
    """Draw a report for each row of a DataFrame or GeoDataFrame of points, snapped to their nearest records first.

    The answer has the same order, the columns of coordinates (or the geometry, in the same reference system) with the
    reports' coordinates, the column ``report`` with their names, and the columns named by ``keep``. **Every other
    column is left out, and so are the index and the frame's ``attrs``**: values beside a report can reveal the true
    place, and are not protected.

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
        Columns to keep unchanged. One that visibly holds the true place under another name is refused; no check finds
        every copy.
    keep_index
        Keep the index unchanged, under the same rule. By default rows are numbered from 0.
    allow_unprotected
        Report also where points that are close together can be told apart; without it, the mechanism is refused.
    fast_snap
        Snap with a tree: the same records much sooner, but how long it takes depends on the points.
    """
    check_of_records(mechanism, "perturb_region_frame, which takes points as they are")
    check_limit(snap_limit)
    check_far(far)
    points, write = points_of(mechanism, frame)
    check_kept(frame, keep, write)
    drawn = draw_points(mechanism, points, limit=snap_limit, allow_unprotected=allow_unprotected, fast_snap=fast_snap)
    is_near = drawn.distances <= snap_limit
    if far == "refuse" and not is_near.all():
        raise InputError(
            f"{int((~is_near).sum())} of {len(frame)} points are {far_from_all(snap_limit, mechanism.metric)}: "
            'nothing is reported; drop them with far="drop", or raise snap_limit'
        )
    outputs = drawn.outputs[is_near]
    names = np.array(mechanism.outputs.ids(mechanism.records), dtype=object)[outputs]
    kept = frame.loc[is_near, list(keep)]
    rows, true = drawn.rows[is_near], np.hstack((points, write.given))[is_near]
    refuse_copies(mechanism, keep, [kept[name] for name in keep], rows, true)
    index = checked_index(mechanism, kept.index, write.names, rows, true) if keep_index else None
    return write.reports({name: values_of(kept[name]) for name in keep}, index, outputs, names)


def snap_distances(mechanism: Mechanism, frame: Any) -> Any:
    """Return the distance of each point of a frame to its nearest record, as a Series: to choose a limit by.

    This reveals something about the true points: it is for their holder, never to be published with the reports.
    """
    check_of_records(mechanism, "perturb_region_frame, which takes points as they are")
    points, _ = points_of(mechanism, frame)
    return pandas_module().Series(snap_points(mechanism, points)[1], index=frame.index, name="snap_distance")


class _CoordinateColumns:
    """Reports into the columns that the points came from."""

    def __init__(self, mechanism: Mechanism, names: list[Any], points: NDArray[np.float64]) -> None:
        self.names, self.given = names, points
        self._mechanism = mechanism

    def reports(self, kept: dict[Any, Any], index: Any, outputs: NDArray[np.int64], report: NDArray[np.object_]) -> Any:
        points = self._mechanism.outputs.coordinates[outputs]
        columns = dict(zip(self.names, points.T, strict=True))
        return pandas_module().DataFrame({**columns, "report": report, **kept}, index=index)


class _Geometry:
    """Reports into a geometry with the name and the reference system of the one the points came from."""

    def __init__(self, mechanism: Mechanism, frame: Any) -> None:
        self.names = [frame.geometry.name]
        self.given = np.column_stack([np.asarray(frame.geometry.x), np.asarray(frame.geometry.y)])
        points = mechanism.outputs.coordinates
        geopandas = _geopandas()
        places = geopandas.GeoSeries(geopandas.points_from_xy(points[:, 1], points[:, 0]), crs=DEGREES_CRS)
        # all outputs are converted first: a report is the same to the last bit whatever the true point
        crs = frame.geometry.crs
        self._places = places.set_crs(None, allow_override=True) if crs is None else places.to_crs(crs)

    def reports(self, kept: dict[Any, Any], index: Any, outputs: NDArray[np.int64], report: NDArray[np.object_]) -> Any:
        geometry = {self.names[0]: self._places.array[outputs]}
        made = pandas_module().DataFrame({**kept, "report": report, **geometry}, index=index)
        return _geopandas().GeoDataFrame(made, geometry=self.names[0], crs=self._places.crs)


def points_of(mechanism: Mechanism, frame: Any) -> tuple[NDArray[np.float64], _CoordinateColumns | _Geometry]:
    """Return the points of a frame and what writes reports as a frame like it; refuse a frame that does not fit."""
    pandas = pandas_module()
    if not isinstance(frame, pandas.DataFrame):
        raise InputError(f"points must be in a DataFrame or GeoDataFrame, got {type(frame).__name__}")
    if len(frame) == 0:
        raise InputError("the frame has no rows: give at least one point")
    if hasattr(frame, "to_crs"):
        return _geometry_points(mechanism, frame), _Geometry(mechanism, frame)
    names, records = list(frame.columns), mechanism.records
    layout = columns_of_secrets(names, "the DataFrame")
    if layout.kind != records.kind or len(layout.coordinates) != records.dimension:
        raise InputError(
            f"the DataFrame has columns of {layout.kind}{revealed(listed(names))}, but the mechanism's records are "
            f"{records.kind} with {records.dimension} coordinates: give the columns that fit"
        )
    chosen = [names[column] for column in layout.coordinates]
    points: NDArray[np.float64] | None = None
    if not any(np.iscomplexobj(frame[name]) for name in chosen):
        with suppress(TypeError, ValueError):  # whose messages show the point
            points = frame[chosen].to_numpy(dtype=np.float64)
    if points is None:
        raise InputError(f"the columns {listed(chosen)} must hold numbers: correct or remove the others")
    return points, _CoordinateColumns(mechanism, chosen, points)


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
        geometry = geometry.to_crs(DEGREES_CRS)
    return np.column_stack([np.asarray(geometry.y), np.asarray(geometry.x)])


def check_kept(frame: Any, keep: Sequence[str], write: _CoordinateColumns | _Geometry) -> None:
    """Refuse to keep columns that are not there, that hold the true points, or that have the name of the reports."""
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


def refuse_copies(
    mechanism: Mechanism,
    names: Sequence[Any],
    columns: Sequence[Any],
    rows: NDArray[np.int64],
    points: NDArray[np.float64] | None,
) -> None:
    """Refuse columns (or levels of an index) that visibly hold the true record."""
    copies = Copies(mechanism, names)
    is_missing = pandas_module().isna
    copies.look(
        list(zip(*columns, strict=True)), rows, points, text_of=lambda v: "" if is_missing(v) is True else str(v)
    )
    copies.refuse_if_any()


def checked_index(
    mechanism: Mechanism,
    index: Any,
    secret: Sequence[Any],
    rows: NDArray[np.int64],
    points: NDArray[np.float64] | None = None,
) -> Any:
    """Return ``index`` unless one of its levels has the name of a ``secret`` column or visibly holds the true records.

    None if rows are numbered from 0: such an index reveals nothing.
    """
    if index.equals(pandas_module().RangeIndex(len(index))):
        return None
    taken = next((name for name in index.names if name is not None and name in secret), None)
    if taken is not None:
        raise InputError(f"the index is named {taken!r} like the true records: leave it out, or rename it")
    levels = [index.get_level_values(level) for level in range(index.nlevels)]
    names = ["index" if name is None else name for name in index.names]
    refuse_copies(mechanism, names, levels, rows, points)
    return index


def values_of(column: Any) -> Any:
    """Return the values of a column, without the categories that do not occur among them."""
    values = column.array
    return values.remove_unused_categories() if hasattr(values, "remove_unused_categories") else values


def pandas_module() -> Any:
    """Return pandas, imported when it is first needed."""
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
