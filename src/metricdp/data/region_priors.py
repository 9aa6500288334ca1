"""Where people are in a region: points or counts on a grid, or alike inside the convex hull of a polygon."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from metricdp.data.readers.dispatch import read_records
from metricdp.data.readers.files import format_of
from metricdp.data.readers.raster import read_raster
from metricdp.data.records import Records
from metricdp.data.region import Region, region_around
from metricdp.data.regions import Region as Polygons
from metricdp.errors import InputError

if TYPE_CHECKING:
    from os import PathLike
    from typing import Any

    from numpy.typing import ArrayLike, NDArray

    Extent = tuple[float, float, float, float]

RASTER, OTHER_RASTERS = ".asc", (".tif", ".tiff", ".vrt", ".nc", ".bil", ".img")


def region_of_polygon(polygon: str | Path | ArrayLike, **options: Any) -> tuple[Region, Records]:
    """Return the box around a polygon, and the places of its lattice inside the polygon's convex hull.

    The promise holds on the whole box, which is more than on the polygon. The places are for `PlaneProblem`: points
    outside the hull are then only a matter of loss.

    Parameters
    ----------
    polygon
        A GeoJSON file of polygons, or corners, shape (n, 2), as latitude and longitude.
    options
        Those of `region_around`.
    """
    if isinstance(polygon, (str, Path)):
        corners = np.vstack(Polygons.of(str(polygon)).rings)[:, ::-1]
    else:
        corners = _table(polygon, "a polygon needs corners, a table of latitude and longitude")
    box = region_around(Records(corners, kind="places"), **options)
    return box, places_in_hull(box, corners)


def read_places(path: str | PathLike[str], region: Region) -> Records:
    """Read where people are in a region.

    Parameters
    ----------
    path
        A raster of counts (``.asc``, see `read_raster`), of which the cells in the region are taken, or points with
        weights in any file that `read_records` reads. Both may be packed: ``.gz``.
    region
        Where a promise is wanted.
    """
    suffix = format_of(path)
    if suffix in OTHER_RASTERS:
        raise InputError(
            f"{path} is a raster of another format: gdal_translate -of AAIGrid {path} people.asc makes one"
        )
    if suffix != RASTER:
        return read_records(path)
    counts, extent = read_raster(path)
    return places_of_counts(region, counts, extent=extent)


def places_in_hull(region: Region, corners: ArrayLike) -> Records:
    """Return the inner nodes of a region that lie in the convex hull of some points, all alike likely.

    Examples
    --------
    >>> from metricdp.data import region
    >>> square = region(0.0, 0.0, 4.0, 4.0, spacing=1.0, kind="vectors")
    >>> places_in_hull(square, [[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]]).n
    10
    """
    points = np.asarray(corners, dtype=np.float64)
    try:
        sides = ConvexHull(points).equations
    except (QhullError, ValueError):
        raise InputError("a polygon needs at least three corners that are not on one line") from None
    nodes = region.records.select(region.inner)
    slack = 1e-12 * np.abs(points).max()
    inside = (nodes.coordinates @ sides[:, :2].T + sides[:, 2] <= slack).all(axis=1)
    if not inside.any():
        raise InputError("no node of the region's lattice lies in the hull of the polygon: use a smaller spacing")
    return nodes.select(np.flatnonzero(inside))


def places_of_counts(region: Region, counts: ArrayLike, *, extent: Extent | None = None) -> Records:
    """Return the middles of a raster's cells that lie in a region, with their counts as the prior.

    `PlaneProblem` distributes them over the nodes by the weights. Cells outside the region, cells without people, and
    cells that are no number are left out.

    Parameters
    ----------
    counts
        Shape (rows, columns): people, or any weights, not negative. The first row is the northernmost one, as in images
        (the one with the largest first coordinate for vectors).
    extent
        South, west, north, east of the raster; the region's box if left out.

    Examples
    --------
    >>> from metricdp.data import region
    >>> square = region(0.0, 0.0, 4.0, 4.0, spacing=1.0, kind="vectors")
    >>> people = places_of_counts(square, [[0, 3], [1, 0]])
    >>> people.coordinates.tolist(), people.prior.tolist()
    ([[3.0, 3.0], [1.0, 1.0]], [0.75, 0.25])
    """
    raster = _raster(counts)
    box = (*region.low, *region.high)
    ends = _table(box if extent is None else extent, "the extent of a raster needs four numbers")
    if ends.shape != (4,) or not np.isfinite(ends).all() or not (ends[:2] < ends[2:]).all():
        raise InputError("the extent of a raster needs south, west, north and east, finite, with south < north")
    low, high = ends[:2], ends[2:]
    rows, columns = np.nonzero(raster > 0)  # what is no number is left out
    shares = np.stack([(len(raster) - rows - 0.5) / len(raster), (columns + 0.5) / raster.shape[1]], axis=1)
    middles = low + shares * (high - low)
    inside = ~region.is_outside(middles)
    if not inside.any():
        raise InputError(
            "no cell of the raster with people lies in the region: check its extent, its unit (degrees for places) and "
            "its order of rows"
        )
    return Records(middles[inside], prior=raster[rows[inside], columns[inside]], kind=region.kind)


def _raster(counts: ArrayLike) -> NDArray[np.float64]:
    raster = _table(counts, "a raster must be a table of numbers")
    if raster.ndim != 2 or not raster.size or np.isinf(raster).any() or (raster < 0).any():
        raise InputError("a raster must be a table of finite counts, not negative; what is no number means no one")
    return raster


def _table(values: ArrayLike, fault: str) -> NDArray[np.float64]:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(fault) from None
