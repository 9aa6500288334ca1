"""Growth over the number of records as a picture: both axes logarithmic, one line for each method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

COLOURS = ("#1f5fa8", "#c4581a", "#2a8a57", "#8a4fa3", "#7a7a7a", "#b8a01c", "#c2427e", "#3aa0b8")
MARKS = "osD^vPX*"

Lines = "Mapping[str, Sequence[tuple[float, float]]]"


def growth_figure(panels: Mapping[str, Lines], *, y_label: str = "seconds") -> Any:
    """Draw one panel for each title, with a line of (records, value) for each name; None without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(5.2 * max(len(panels), 1), 4.2), layout="constrained")
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    for number, (title, lines) in enumerate(panels.items()):
        axes = figure.add_subplot(1, len(panels), number + 1)
        for name, points in lines.items():
            if not points:
                continue
            which = names.index(name)
            look = {"color": COLOURS[which % len(COLOURS)], "marker": MARKS[which % len(MARKS)]}
            axes.plot(*zip(*sorted(points), strict=True), label=name, markersize=5, linewidth=1.6, **look)
        axes.set(xscale="log", yscale="log", title=title, xlabel="records, N", ylabel=y_label)
        axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    return figure
