"""Plots with matplotlib (the extra ``plot``): each draws on ``axes``, or on new ones, and returns the axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.errors import InputError, MissingExtraError
from metricdp.report.convergence import convergence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from metricdp.data.records import Records
    from metricdp.evaluate.sweep import Sweep
    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.partition.partition import Partition
    from metricdp.solve.result import Result

REPORTS, TRUTH, OTHERS, SOFT = "#2b59e8", "#131a2b", "#aab4c6", "#d3dae6"
UPPER_COLOUR = "#c2410c"
LEAST_SHOWN_PROBABILITY = 1e-6  # of a probability in the heat map
LARGEST_DISC_AREA = 900.0  # of a certain report, in square points
MAX_BARS = 20
MAX_LINES = 2_000  # of the heat map, each way: more than a screen can show


def plot_mechanism(mechanism: Mechanism, record: object = None, *, axes: Any = None) -> Any:
    """Draw the table as a heat map, or what one ``record`` (its id) reports; of a large table some rows and outputs."""
    if record is not None:
        return plot_record(mechanism, record, axes=axes)
    canvas = new_axes(axes)
    from matplotlib.colors import LogNorm  # noqa: PLC0415  (an extra)

    rows = _thinned(_along_main_direction(mechanism.records.coordinates, mechanism.records.coordinates))
    columns = _thinned(_along_main_direction(mechanism.records.coordinates, mechanism.outputs.coordinates))
    shown = np.maximum(mechanism.block(rows, columns), LEAST_SHOWN_PROBABILITY)
    image = canvas.imshow(
        shown, aspect="auto", norm=LogNorm(LEAST_SHOWN_PROBABILITY, 1.0), cmap="magma", interpolation="nearest"
    )
    canvas.figure.colorbar(image, ax=canvas, label="probability of the report")
    canvas.set_xlabel("report, along the data's main direction")
    canvas.set_ylabel("true record, along the same direction")
    some = f", {len(rows):,} of {mechanism.records.n:,} records" if len(rows) < mechanism.records.n else ""
    canvas.set_title(f"{mechanism.records.name}: {mechanism.epsilon:g}-mDP mechanism{some}")
    return canvas


def plot_record(mechanism: Mechanism, record: object, *, axes: Any = None) -> Any:
    """Draw what one record reports: on the map if the records have two coordinates, else the likeliest as bars."""
    row = int(mechanism.rows_of([record])[0])
    chances = mechanism.block(row)[0]
    canvas = new_axes(axes)
    if mechanism.records.dimension == 2:
        _draw_on_map(canvas, mechanism, row, chances)
    else:
        _draw_bars(canvas, mechanism, chances)
    canvas.set_title(f"What {_short(mechanism.records.ids[row])} reports")
    return canvas


def plot_convergence(trace: Iterable[Mapping[str, Any]], *, axes: Any = None) -> Any:
    """Draw the bounds of each component of a run over time, from the rows of its trace."""
    found = convergence(trace)
    if not found.series and found.certified is None:
        raise InputError("the trace holds no bounds: give the rows of a run that has ended (result.trace.rows)")
    canvas = new_axes(axes)
    for number, one in enumerate(found.series):
        for values, colour, name in ((one.lower, REPORTS, "lower bound"), (one.upper, UPPER_COLOUR, "upper bound")):
            known = [(t, v) for t, v in zip(one.seconds, values, strict=True) if v is not None]
            if known:
                label = name if number == 0 else None
                canvas.step(*zip(*known, strict=True), where="post", color=colour, label=label, marker=".")
    is_whole = all(one.name == "all records" for one in found.series)
    if found.certified is not None and is_whole:
        for value, colour, name in zip(found.certified, (REPORTS, UPPER_COLOUR), ("lower bound", "loss"), strict=True):
            canvas.axhline(value, color=colour, linestyle=":", label=f"certified {name}")
    canvas.set_xlabel("seconds")
    canvas.set_ylabel("expected loss" if is_whole else "expected loss, by component")
    end = "" if found.certified is None else ": certified between {:.5g} and {:.5g}".format(*found.certified)
    canvas.set_title(f"How the bounds closed in{end}")
    canvas.legend()
    return canvas


def plot_partition(partition: Partition, records: Records, *, axes: Any = None) -> Any:
    """Draw the blocks in colours, the boundary records with a dark rim, and the neighbour pairs that are cut."""
    data = partition.plot_data(records)
    canvas = new_axes(axes)
    from matplotlib.collections import LineCollection  # noqa: PLC0415  (an extra)

    canvas.add_collection(LineCollection(list(data["cut_segments"]), colors=SOFT, linewidths=0.8, zorder=1))
    x, y, block, edge = data["x"], data["y"], data["block"], data["is_boundary"].astype(bool)
    colours = np.asarray(block) % 20
    look = {"cmap": "tab20", "vmin": 0, "vmax": 19}
    canvas.scatter(x[~edge], y[~edge], c=colours[~edge], s=16, label="internal", zorder=2, **look)
    canvas.scatter(
        x[edge], y[edge], c=colours[edge], s=34, edgecolors=TRUTH, linewidths=1.2, label="boundary", zorder=3, **look
    )
    _label_map(canvas, records)
    canvas.set_title(f"{partition.name}: {partition.n_blocks} blocks, {len(partition.boundary)} boundary records")
    canvas.legend()
    return canvas


def plot_loss(results: Sequence[Result], *, axes: Any = None) -> Any:
    """Draw the loss of several results against their epsilon, with the band that the lower bounds leave open."""
    if not results:
        raise InputError("there is nothing to draw: give the results of at least one budget")
    ordered = sorted(results, key=lambda result: result.problem.epsilon)
    budgets = [result.problem.epsilon for result in ordered]
    losses, bounds = [result.loss for result in ordered], [result.lower_bound for result in ordered]
    canvas = new_axes(axes)
    canvas.plot(budgets, losses, color=REPORTS, marker="o", label="certified mechanism")
    canvas.fill_between(budgets, bounds, losses, color=REPORTS, alpha=0.15, label="down to the lower bound")
    canvas.set_xlabel("epsilon per unit of distance")
    canvas.set_ylabel(f"expected loss ({ordered[0].problem.loss_name})")
    canvas.set_title("What privacy costs")
    canvas.legend()
    return canvas


def plot_sweep(swept: Sweep, *, axes: Any = None) -> Any:
    """Draw the privacy-utility curve of each mechanism, and the lower bound that no private one goes below."""
    canvas = new_axes(axes)
    for name in swept.names:
        (line,) = canvas.plot(*zip(*swept.curve(name), strict=True), marker="o", label=_short(name))
        refuted = [(point.epsilon, point.loss) for point in swept.points if point.name == name and not point.certified]
        if refuted:
            places: dict[str, Any] = {"marker": "X", "s": 110, "color": line.get_color(), "edgecolors": "black"}
            canvas.scatter(*zip(*refuted, strict=True), zorder=3, label=f"{_short(name)}: not certified", **places)
    budgets = sorted(swept.lower_bounds)
    bounds = [swept.lower_bounds[budget] for budget in budgets]
    canvas.fill_between(budgets, 0.0, bounds, color=OTHERS, alpha=0.35, label="no mechanism goes below")
    canvas.set_xlabel("epsilon per unit of distance")
    canvas.set_ylabel("expected loss")
    canvas.set_title("What privacy costs")
    canvas.legend()
    return canvas


def plot_result(result: Result, *, axes: Any = None) -> Any:
    """Draw how the bounds of a run closed in."""
    return plot_convergence(result.trace.rows, axes=axes)


def new_axes(axes: Any) -> Any:
    """Return ``axes``, or those of a new figure if there are none."""
    if axes is not None:
        return axes
    try:
        from matplotlib import pyplot as plt  # noqa: PLC0415  (an extra)
    except ImportError:
        raise MissingExtraError("matplotlib", "plot", "plotting") from None
    return plt.subplots(figsize=(7.2, 5.2), layout="constrained")[1]


def _along_main_direction(records: NDArray[np.float64], points: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the order of ``points`` along the direction in which the records differ the most."""
    centre = records.mean(axis=0)
    direction = np.linalg.svd(records - centre, full_matrices=False)[2][0]
    return np.argsort((points - centre) @ direction, kind="stable")


def _thinned(order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return at most `MAX_LINES` of the numbers, evenly spread."""
    if len(order) <= MAX_LINES:
        return order
    return order[np.linspace(0, len(order) - 1, MAX_LINES).round().astype(np.int64)]


def _draw_on_map(canvas: Any, mechanism: Mechanism, row: int, chances: NDArray[np.float64]) -> None:
    records = mechanism.records
    places, spots = _flat(records, records.coordinates), _flat(records, mechanism.outputs.coordinates)
    if records.streets is not None:
        from matplotlib.collections import LineCollection  # noqa: PLC0415  (an extra)

        lines = _flat(records, records.streets.coordinates)[records.streets.edges]
        canvas.add_collection(LineCollection(list(lines), colors=SOFT, linewidths=0.5, zorder=0))
    canvas.scatter(*places.T, s=6, color=OTHERS, label="records", zorder=1)
    canvas.scatter(
        *spots.T,
        s=LARGEST_DISC_AREA * chances,
        color=REPORTS,
        alpha=0.6,
        label="reports, area by probability",
        zorder=2,
    )
    canvas.scatter(*places[row], s=70, color=TRUTH, edgecolors="white", linewidths=1.5, label="true record", zorder=3)
    _label_map(canvas, records)
    low, high = places.min(axis=0), places.max(axis=0)
    margin = 0.05 * (high - low) + 1e-9
    canvas.set_xlim(low[0] - margin[0], high[0] + margin[0])
    canvas.set_ylim(low[1] - margin[1], high[1] + margin[1])
    for handle in canvas.legend(loc="best").legend_handles:
        handle.set_sizes([40.0])


def _draw_bars(canvas: Any, mechanism: Mechanism, chances: NDArray[np.float64]) -> None:
    likely = np.argsort(-chances, kind="stable")[:MAX_BARS][::-1]
    names = mechanism.outputs.ids(mechanism.records)
    canvas.barh(np.arange(len(likely)), chances[likely], color=REPORTS)
    canvas.set_yticks(np.arange(len(likely)), [_short(names[k]) for k in likely])
    canvas.set_xlabel("probability")
    canvas.set_ylabel("report")


def _flat(records: Records, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return x and y: longitude and latitude of places, the coordinates of vectors as they are."""
    return points[:, ::-1] if records.kind == "places" else points


def _label_map(canvas: Any, records: Records) -> None:
    if records.kind == "places":
        canvas.set_xlabel("longitude (degrees)")
        canvas.set_ylabel("latitude (degrees)")
        canvas.set_aspect(1.0 / max(0.05, float(np.cos(np.radians(records.coordinates[:, 0].mean())))))
        canvas.ticklabel_format(useOffset=False)
        canvas.locator_params(axis="x", nbins=5)
    else:
        canvas.set_xlabel("first coordinate")
        canvas.set_ylabel("second coordinate" if records.dimension > 1 else "")
        canvas.set_aspect("equal", adjustable="datalim")


def _short(name: str) -> str:
    # a dollar sign would start a formula
    return (name if len(name) <= 30 else f"{name[:29]}…").replace("$", r"\$")
