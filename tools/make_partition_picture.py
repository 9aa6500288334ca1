"""Draw a partition of Gothenburg's intersections with both kinds of boundary: docs/images/partition.png.

Needs matplotlib, which metricdp itself does not: ``pip install matplotlib``, then
``python tools/make_partition_picture.py``.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D

import metricdp as mdp
from metricdp.partition import Partition, make_partition

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "partition.png"
N, ETA, BLOCKS = 500, 0.7, 25
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#A0522D", "#8A7BC8", "#7A9A01", "#D55E00")
CUT, INSIDE = "#8c8c8c", "#dddddd"
TITLES = {
    "two-sided": "two-sided boundary (the paper's)",
    "one-sided": "one-sided boundary (the default)",
}


def colours_of(partition: Partition) -> list[str]:
    """Return a colour for each block that no block near it has."""
    near: list[set[int]] = [set() for _ in range(partition.n_blocks)]
    for a, b in partition.block_of[partition.graph.pairs[partition.cut_edges]].tolist():
        near[a].add(b)
        near[b].add(a)
    chosen: dict[int, int] = {}
    for block in sorted(range(partition.n_blocks), key=lambda b: -len(near[b])):
        used = [chosen[b] for b in near[block] if b in chosen]
        counts = [list(chosen.values()).count(c) + 1000 * used.count(c) for c in range(len(COLOURS))]
        chosen[block] = int(np.argmin(counts))
    return [COLOURS[chosen[b]] for b in range(partition.n_blocks)]


def draw(axes: plt.Axes, records: mdp.Records, partition: Partition) -> None:
    """Draw records by block, boundary records with a black rim, neighbours inside a block paler than cut edges."""
    data = partition.plot_data(records)
    # kilometres from the south-west corner, so that both axes have one scale
    corner = np.array([data["x"].min(), data["y"].min()])
    size = np.array([111.32 * np.cos(np.radians(data["y"].mean())), 110.57])
    points = (np.column_stack((data["x"], data["y"])) - corner) * size
    kept = np.delete(partition.graph.pairs, partition.cut_edges, axis=0)
    axes.add_collection(LineCollection(points[kept], colors=INSIDE, linewidths=0.5, zorder=1))
    axes.add_collection(LineCollection((data["cut_segments"] - corner) * size, colors=CUT, linewidths=0.5, zorder=2))
    colours = np.array(colours_of(partition))[data["block"]]
    rim = data["is_boundary"]
    axes.scatter(*points[~rim].T, c=colours[~rim], s=15, linewidths=0, zorder=3)
    axes.scatter(*points[rim].T, c=colours[rim], s=30, edgecolors="black", linewidths=1.0, zorder=4)
    axes.set_aspect("equal")
    axes.set_xlabel("km east")
    counts = f"{rim.sum()} of {len(rim)} records on the boundary, {(~rim).sum()} inside"
    axes.set_title(f"{TITLES[partition.separator]}\n{counts}", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
    """Draw the same blocks twice, with the paper's boundary and with ours."""
    records = mdp.data.road("gothenburg", n=N, seed=0)
    problem = mdp.Problem(records, epsilon=10.0, eta=ETA, outputs="random:100")
    blocks = make_partition(records, problem.metric, problem.graph, method="metis", n_blocks=BLOCKS)
    figure, both = plt.subplots(1, 2, figsize=(12, 7.1), sharex=True, sharey=True)
    for axes, separator in zip(both, TITLES, strict=True):
        draw(axes, records, Partition(problem.graph, blocks.block_of, blocks.name, separator))
    both[0].set_ylabel("km north")
    dot = {"color": "none", "marker": "o", "markerfacecolor": COLOURS[0]}
    figure.legend(
        handles=[
            Line2D([], [], **dot, markersize=5, markeredgewidth=0, label="internal record, colour of its block"),
            Line2D([], [], **dot, markersize=6.5, markeredgecolor="black", label="boundary record"),
            Line2D([], [], color=CUT, linewidth=1, label=f"cut edge ({len(blocks.cut_edges):,})"),
            Line2D([], [], color=INSIDE, linewidth=1, label="neighbours in one block"),
        ],
        loc="lower center",
        ncols=4,
        frameon=False,
    )
    figure.suptitle(
        f"{N} intersections of Gothenburg, neighbours within {ETA} km, {blocks.n_blocks} blocks by METIS", fontsize=13
    )
    figure.subplots_adjust(left=0.05, right=0.99, bottom=0.12, top=0.87, wspace=0.05)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=110)
    print(f"{PICTURE.name}: {blocks}")


if __name__ == "__main__":
    main()
