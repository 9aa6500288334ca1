"""Plots of what is known about a population (the extra ``plot``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.errors import InputError
from metricdp.report.plots import REPORTS, SOFT, new_axes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from metricdp.statistics.estimate import PopulationEstimate, ShareInterval

MAX_BARS = 40
LARGEST_DISC_AREA = 600.0  # of the record with the largest share, in square points


def plot_estimate(found: PopulationEstimate, *, axes: Any = None) -> Any:
    """Draw the estimated share of each record as a disc on the map: its area is the share."""
    records = found.mechanism.records
    if records.dimension != 2:
        raise InputError(f"a map needs records with two coordinates, and these have {records.dimension}")
    canvas = new_axes(axes)
    y, x = records.coordinates.T if records.kind == "places" else records.coordinates.T[::-1]
    canvas.scatter(x, y, s=2, color=SOFT, zorder=1)
    shares = found.distribution / found.distribution.max()
    canvas.scatter(x, y, s=LARGEST_DISC_AREA * shares, color=REPORTS, alpha=0.5, linewidths=0, zorder=2)
    if records.kind == "places":
        canvas.set_aspect(1.0 / max(0.01, float(np.cos(np.radians(y.mean())))))
    canvas.set_title(f"{records.name}: estimated from {found.n:,} reports")
    return canvas


def plot_intervals(intervals: Mapping[str, ShareInterval], *, axes: Any = None) -> Any:
    """Draw the interval of each question as a bar, and the estimate as a dot; the largest estimates of many."""
    if not intervals:
        raise InputError("there is nothing to draw: ask at least one question")
    canvas = new_axes(axes)
    shown = sorted(intervals.items(), key=lambda item: -item[1].estimate)[:MAX_BARS][::-1]
    places = np.arange(len(shown))
    low, high, middle = (np.array([getattr(one, name) for _, one in shown]) for name in ("low", "high", "estimate"))
    canvas.barh(places, 100 * (high - low), left=100 * low, color=SOFT)
    canvas.plot(100 * middle, places, "o", color=REPORTS)
    canvas.set_yticks(places, [name if len(name) <= 24 else f"{name[:21]}..." for name, _ in shown])
    canvas.set_xlabel("share of the population, %")
    canvas.set_title(f"Intervals that hold at once: {100 * shown[0][1].level:g} %")
    return canvas


def save_estimate_plot(path: Path, found: PopulationEstimate, intervals: Mapping[str, ShareInterval]) -> None:
    """Write the map, and beside it the intervals if there are any, to a file whose name says its format."""
    canvas = new_axes(None)
    figure = canvas.figure
    if intervals:
        figure.clear()
        canvas, beside = figure.subplots(1, 2)
        figure.set_size_inches(12, 5)
        plot_intervals(intervals, axes=beside)
    plot_estimate(found, axes=canvas)
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot write {path}: {error}; name a .png or .svg file") from None
