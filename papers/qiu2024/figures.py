"""Pictures. This is the only file that imports the plotting library."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from metricdp.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# one colour per method in every picture (Okabe and Ito's, which colour-blind people can tell apart, and two greys)
COLOURS = {
    "k-m-dv": "#0072B2",
    "k-m-rec": "#E69F00",
    "k-m-adj": "#009E73",
    "bsc": "#D55E00",
    "metis": "#CC79A7",
    "dual simplex": "#56B4E9",
    "interior point": "#9A7D0A",
    "lazy rows": "#7F7F7F",
    "auto": "#000000",
    "exponential": "#8B2500",
}
NAMES = {
    "k-m-dv": "k-m-DV",
    "k-m-rec": "k-m-rec",
    "k-m-adj": "k-m-adj",
    "bsc": "BSC",
    "metis": "METIS",
    "dual simplex": "dual simplex, all rows",
    "interior point": "interior point, all rows",
    "lazy rows": "dual simplex, lazy rows (ours)",
    "auto": "method chosen by metricdp",
    "exponential": "exponential mechanism",
}
TITLES = {
    "road": "road network",
    "grid": "grid map",
    "grid 1.5": "grid, 1.5 km cells",
    "text": "text (words)",
    "synthetic": "synthetic vectors",
}
PAPER_COLOUR = "#222222"
BLOCK_COLOURS = (
    *("#1F77B4", "#AEC7E8", "#FF7F0E", "#FFBB78", "#2CA02C", "#98DF8A", "#D62728", "#FF9896", "#9467BD", "#C5B0D5"),
    *("#8C564B", "#C49C94", "#E377C2", "#F7B6D2", "#7F7F7F", "#C7C7C7", "#BCBD22", "#DBDB8D", "#17BECF", "#9EDAE5"),
)
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.hashsalt": "metricdp",
    "figure.dpi": 100,
}


def check_plotting() -> None:
    """Raise now, before long work, if no picture could be drawn later."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise MissingExtraError("matplotlib", "plot", "drawing the paper's figures") from None


def rendered(draw: Callable[[], Any]) -> dict[str, bytes]:
    """Return a picture as PNG and SVG; the same figures give the same bytes."""
    import matplotlib as mpl

    contents = {}
    with mpl.rc_context(STYLE):
        figure = draw()
        for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            stream = io.BytesIO()
            figure.savefig(stream, format=suffix, dpi=150, metadata=metadata)
            contents[suffix] = stream.getvalue()
            figure.set_layout_engine("none")  # it is laid out now
    return contents


def panels(rows: int, columns: int, *, width: float, height: float, **options: Any) -> tuple[Any, Any]:
    """Return a figure with ``rows`` × ``columns`` panels of ``width`` × ``height`` inches, axes as a 2-D array."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def legend_below(figure: Any, axes: Any, *, columns: int = 5) -> None:
    """Put one legend for all panels below them."""
    found: dict[str, Any] = {}
    for panel in axes.ravel():
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if found:
        figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=min(columns, len(found)))


def log_axis(panel: Any, which: str) -> None:
    """Make an axis logarithmic with plain numbers on it, and more of them where it spans little."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    panel.set(**{f"{which}scale": "log"})
    axis = getattr(panel, f"{which}axis")
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0,) if high > 200 * low else (1.0, 2.0, 5.0), numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def whole_numbers(panel: Any) -> None:
    """Put whole numbers only on the horizontal axis."""
    from matplotlib.ticker import MaxNLocator

    panel.xaxis.set_major_locator(MaxNLocator(integer=True))


def symlog_axis(panel: Any) -> None:
    """Make the vertical axis one for counts: 0, then 1, 10, 100, ... in equal steps."""
    panel.set_yscale("symlog", linthresh=1)
    panel.set_ylim(-0.1, max(10.0, 1.6 * panel.get_ylim()[1]))
    ticks = [0] + [10**power for power in range(6) if 10**power <= panel.get_ylim()[1]]
    panel.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
    panel.minorticks_off()


Bar = tuple[float, float, bool]  # height, spread, whether it is a whole figure and not a limit that was hit


def grouped_bars(
    panel: Any,
    groups: Sequence[str],
    methods: Sequence[str],
    bars: dict[tuple[str, str], Bar],
    paper: dict[tuple[str, str], tuple[float, float]],
    *,
    is_log: bool = False,
) -> None:
    """Draw a bar for each method in each group, and the paper's figure as a diamond on it; both with their spread.

    Hatched bars hit a limit: the true figure is larger.
    """
    width = 0.8 / len(methods)
    for method in methods:
        # in the legend a method has its colour, whether it hit a limit or not
        panel.fill_between([], [], color=COLOURS[method], linewidth=0, label=NAMES[method])
    for place, method in enumerate(methods):
        for number, group in enumerate(groups):
            x = number + (place - (len(methods) - 1) / 2) * width
            if (group, method) in bars:
                height, spread, is_whole = bars[group, method]
                panel.bar(
                    x,
                    height,
                    width * 0.92,
                    color=COLOURS[method] if is_whole else "white",
                    edgecolor=COLOURS[method],
                    hatch=None if is_whole else "////",
                    linewidth=0.8,
                )
                _whisker(panel, x, height, spread, "#555555", is_log=is_log)
            if (group, method) in paper:
                height, spread = paper[group, method]
                label = "the paper's figure"
                panel.plot(x, height, "D", color="white", markeredgecolor=PAPER_COLOUR, markersize=4.5, label=label)
                _whisker(panel, x, height, spread, PAPER_COLOUR, is_log=is_log)
    if any(not is_whole for _, _, is_whole in bars.values()):
        panel.bar(0, 0, color="white", edgecolor="#555555", hatch="////", label="not all runs reached 1 %")
    if is_log:
        log_axis(panel, "y")
    panel.set_xlim(-0.6, len(groups) - 0.4)
    panel.set_xticks(range(len(groups)), [TITLES.get(group, group) for group in groups])
    panel.grid(axis="x", visible=False)


def _whisker(panel: Any, x: float, height: float, spread: float, colour: str, *, is_log: bool) -> None:
    if spread > 0:
        low = max(height - spread, height / 10 if is_log else 0.0)
        panel.plot([x, x], [low, height + spread], color=colour, linewidth=0.9, zorder=3)
