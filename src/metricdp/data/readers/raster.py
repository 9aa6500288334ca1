"""Reader of rasters of counts in the text format of ESRI ("ASCII grid"), as population grids are published."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from metricdp.data.readers.streams import BYTES_PER_NUMBER, MAX_UNPACK_RATIO, Allowance, TextSource
from metricdp.data.readers.tables import refuse_underscores
from metricdp.errors import FileFormatError

if TYPE_CHECKING:
    from os import PathLike

    from numpy.typing import NDArray

_SIZES = ("ncols", "nrows")
_KEYS = (*_SIZES, "xllcorner", "yllcorner", "xllcenter", "yllcenter", "cellsize", "dx", "dy", "nodata_value")
_EITHER = (("xllcorner", "xllcenter"), ("yllcorner", "yllcenter"), ("cellsize", "dx"), ("cellsize", "dy"))
UNKNOWN = -9999.0  # where the header names no number for it
MOST_CELLS = 1 << 32  # of a header: beyond it no text file of a raster is meant
_LEAST_HEADER = "ncols, nrows, xllcorner, yllcorner and cellsize"


class Raster(NamedTuple):
    """Counts in cells of equal sides; what is no number is not known."""

    counts: NDArray[np.float64]
    """Shape (rows, columns), the northernmost row first."""

    extent: tuple[float, float, float, float]
    """South, west, north, east."""


def read_raster(path: str | PathLike[str], *, memory_limit: float | None = None) -> Raster:
    """Read counts from an ASCII grid (``.asc``), plain or gzipped.

    Parameters
    ----------
    path
        Lines with ``ncols``, ``nrows``, ``xllcorner`` and ``yllcorner`` (or those of the centre of the south-western
        cell, ``xllcenter`` and ``yllcenter``), ``cellsize`` (or ``dx`` and ``dy``) and, if there is one, the number for
        cells that are not known, ``NODATA_value`` (-9999); then the numbers, row by row from the north. Places need
        degrees.
    memory_limit
        Gigabytes that reading may take; by default half of the free memory.
    """
    allowance = Allowance(path, memory_limit)
    header: dict[str, float] = {}
    counts = array("d")  # one line may have one number only, and an object for each would be large
    with TextSource(path, newline=None, most_ratio=MAX_UNPACK_RATIO, is_secret=False) as source:
        for number, line in enumerate(source.lines(), start=1):
            cells = line.split()
            key = cells[0].lower() if len(cells) == 2 and not counts else ""
            if key in _KEYS:
                if key in header:
                    raise FileFormatError(f"{path}, line {number}: {key} stands there twice: get it again")
                header[key] = _numbers(cells[1:], f"{path}, line {number}")[0]
            elif cells:
                allowance.take(BYTES_PER_NUMBER * len(cells))
                counts.extend(_numbers(cells, f"{path}, line {number}"))
    n_rows, n_columns, extent = _shape(header, path)
    found = np.array(counts)
    if len(found) != n_rows * n_columns:
        raise FileFormatError(
            f"{path} has {len(found)} cells, but its first lines promise {n_rows} rows of {n_columns}: get it again"
        )
    found[found == header.get("nodata_value", UNKNOWN)] = np.nan
    return Raster(found.reshape(n_rows, n_columns), extent)


def _numbers(cells: list[str], where: str) -> list[float]:
    try:
        refuse_underscores(cells)
        return list(map(float, cells))
    except ValueError:
        raise FileFormatError(
            f"{where} is no line of an ASCII grid: begin with {_LEAST_HEADER}, then give numbers, row by row"
        ) from None


def _shape(header: dict[str, float], path: str | PathLike[str]) -> tuple[int, int, tuple[float, float, float, float]]:
    """Return rows, columns, and the extent."""
    for one, other in _EITHER:
        if one in header and other in header:
            raise FileFormatError(f"{path} has {one} and {other}, of which only one is meant: leave one out")
    width, height = (header.get(key, header.get("cellsize", np.nan)) for key in ("dx", "dy"))
    west, south = (
        header.get(f"{axis}llcorner", header.get(f"{axis}llcenter", np.nan) - side / 2.0)
        for axis, side in (("x", width), ("y", height))
    )
    n_columns, n_rows = (header.get(key, np.nan) for key in _SIZES)
    sizes_are_whole = all(1 <= size <= MOST_CELLS and size == int(size) for size in (n_columns, n_rows))
    if not sizes_are_whole or not (width > 0 and height > 0) or not np.isfinite([west, south, width, height]).all():
        raise FileFormatError(f"{path} does not say where its cells are: an ASCII grid begins with {_LEAST_HEADER}")
    extent = south, west, south + n_rows * height, west + n_columns * width
    return int(n_rows), int(n_columns), extent
