"""Draw the pictures of docs/tutorial-service.md: docs/images/service-*.png, and print the numbers it names.

Needs matplotlib: ``pip install "metricdp[plot]"``, then ``python tools/make_service_figures.py``. Takes half a
minute. The simulated people are those of fixed seeds; a service draws by `Mechanism.perturb` alone.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.collections import LineCollection
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.sparse.csgraph import dijkstra

import metricdp as mdp
from metricdp.data.geodesy import EARTH_RADIUS_KM
from metricdp.statistics import ReportCounts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.statistics.estimate import PopulationEstimate, ShareInterval

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
N, OUTPUTS, EPSILON, ETA = 300, 100, 2.5, 1.5
N_PEOPLE, SEED = 20_000, 3
SQUARES = [(57.7005, 11.9690), (57.7200, 12.0100), (57.6790, 11.9900)]  # three busy places
STEP_KM, N_STEPS, N_WALKS = 0.6, 16, 100
BLUE, ORANGE, GREEN, GREY, PALE = "#0072B2", "#D55E00", "#009E73", "#8c8c8c", "#d9d9d9"
LARGEST_DISC = 260.0


def kilometres(records: mdp.Records, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return latitudes and longitudes as kilometres east and north of the records' south-west corner."""
    corner = records.coordinates.min(axis=0)
    degree = math.pi / 180.0 * EARTH_RADIUS_KM
    north, east = ((np.asarray(points) - corner) * degree).T
    return np.column_stack((east * math.cos(math.radians(corner[0])), north))


def population(records: mdp.Records) -> NDArray[np.float64]:
    """Return the true shares: most people within a kilometre or so of three squares."""
    places, squares = kilometres(records, records.coordinates), kilometres(records, SQUARES)
    away = ((places[:, None, :] - squares) ** 2).sum(axis=2)
    weight = np.exp(-away / 0.8).sum(axis=1) + 0.05
    return weight / weight.sum()


def districts(records: mdp.Records) -> list[str]:
    """Return the district of each record: one of nine, cut at thirds of the latitudes and of the longitudes."""
    names = (("south", "middle", "north"), ("west", "centre", "east"))
    thirds = [
        [named[int(number)] for number in np.searchsorted(np.quantile(column, [1 / 3, 2 / 3]), column)]
        for column, named in zip(records.coordinates.T, names, strict=True)
    ]
    return [f"{north} {east}" for north, east in zip(*thirds, strict=True)]


def walk_of(mechanism: mdp.Mechanism) -> csr_array:
    """Return the public transition: neighbours within about a step are likelier than those farther away."""
    (i, j), d = mechanism.graph.pairs.T, mechanism.graph.distances
    weight = np.exp(-((d / STEP_KM) ** 2))
    links = coo_array((weight, (i, j)), shape=(mechanism.records.n,) * 2)
    moves = csr_array(links + links.T + diags_array(np.full(mechanism.records.n, 0.5)))
    return csr_array(diags_array(1.0 / moves.sum(axis=1)) @ moves)


def paths(mechanism: mdp.Mechanism, generator: np.random.Generator) -> list[list[int]]:
    """Return walks of one's own purpose: each goes to a far place by short steps, not by the transition."""
    (i, j), d = mechanism.graph.pairs.T, mechanism.graph.distances
    steps = csr_array((d**2, (i, j)), shape=(mechanism.records.n,) * 2)  # squares: many short steps are cheap
    found: list[list[int]] = []
    while len(found) < N_WALKS:
        begin, end = generator.choice(mechanism.records.n, 2, replace=False)
        before = dijkstra(steps, directed=False, indices=begin, return_predecessors=True)[1]
        path = [int(end)]
        while path[-1] != begin:
            path.append(int(before[path[-1]]))
        if len(path) >= N_STEPS:
            found.append(path[::-1][:N_STEPS])
    return found


def plain(axes: plt.Axes, title: str) -> None:
    """Make a map: kilometres on both sides, nothing else."""
    axes.set_aspect("equal")
    axes.set_title(title, fontsize=11)
    axes.set_xlabel("km east")
    axes.spines[["top", "right"]].set_visible(False)


def draw_heat(
    found: PopulationEstimate, truth: NDArray[np.float64], named: list[str], intervals: dict[str, ShareInterval]
) -> None:
    """Draw the truth, the estimate and the intervals of nine districts beside the true shares."""
    records = found.mechanism.records
    points = kilometres(records, records.coordinates)
    figure, (left, right, beside) = plt.subplots(
        1, 3, figsize=(14, 5.4), width_ratios=(1, 1, 0.9), layout="constrained"
    )
    largest = max(truth.max(), found.distribution.max())
    for axes, shares, title in (
        (left, truth, "the truth, which nobody collects"),
        (right, found.distribution, f"estimated from {found.n:,} reports"),
    ):
        axes.scatter(*points.T, s=3, color=PALE, zorder=1)
        axes.scatter(
            *points.T,
            s=LARGEST_DISC * shares / largest,
            color=BLUE if axes is left else ORANGE,
            alpha=0.6,
            linewidths=0,
        )
        plain(axes, title)
    left.set_ylabel("km north")
    shown = sorted(intervals, key=lambda name: intervals[name].estimate)
    true_shares = [100 * truth[[one == name for one in named]].sum() for name in shown]
    low, high, middle = (
        100 * np.array([getattr(intervals[name], what) for name in shown]) for what in ("low", "high", "estimate")
    )
    rows = np.arange(len(shown))
    beside.barh(rows, high - low, left=low, height=0.6, color=PALE, label="interval, 95 % for all at once")
    beside.plot(middle, rows, "o", color=ORANGE, label="estimate")
    beside.plot(true_shares, rows, "|", color=BLUE, markersize=17, markeredgewidth=2.5, label="truth")
    beside.set_xlim(left=0)
    beside.set_yticks(rows, shown)
    beside.set_xlabel("share of the people, %")
    beside.set_title("nine districts", fontsize=11)
    beside.spines[["top", "right"]].set_visible(False)
    beside.legend(loc="lower right", frameon=False, fontsize=9)
    figure.savefig(IMAGES / "service-heat.png", dpi=110)
    plt.close(figure)


def follow(
    mechanism: mdp.Mechanism, tracker: mdp.Tracker, path: list[int], generator: np.random.Generator
) -> tuple[list[int], list[int]]:
    """Return the outputs that are reported along a path, and those that the filter has in their place."""
    tracker.reset()
    reported, filtered = [], []
    for place in path:
        row = mechanism.block(place)[0]
        reported.append(int(generator.choice(len(row), p=row / row.sum())))
        tracker.update(reported[-1])
        filtered.append(tracker.best_output())
    return reported, filtered


def draw_walk(mechanism: mdp.Mechanism) -> None:
    """Draw one walk with its reports and the filter's places, and the mean error of many by step."""
    records, outputs = mechanism.records, mechanism.outputs
    generator = np.random.default_rng(SEED)
    tracker = mdp.Tracker(mechanism, transition=walk_of(mechanism))
    walks = paths(mechanism, generator)
    places, reports = kilometres(records, records.coordinates), kilometres(records, outputs.coordinates)
    errors = np.zeros((2, N_WALKS, N_STEPS))
    answers = []
    for number, path in enumerate(walks):
        answers.append(follow(mechanism, tracker, path, generator))
        for kind, chosen in enumerate(answers[-1]):
            errors[kind, number] = np.linalg.norm(reports[chosen] - places[path], axis=1)
    means = errors.mean(axis=(1, 2))
    saved = 1 - errors[1].mean(axis=1) / errors[0].mean(axis=1)
    shown = int(np.argsort(saved)[N_WALKS // 2])  # the walk of the median gain
    print(f"walks: {means[0]:.3f} km as reported, {means[1]:.3f} km filtered ({1 - means[1] / means[0]:.1%} less)")
    print(f"shown: {errors[0, shown].mean():.3f} km and {errors[1, shown].mean():.3f} km")
    worse = (errors[1].mean(axis=1) > errors[0].mean(axis=1)).sum()
    print(f"worse with the filter: {worse} of {N_WALKS} walks")
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 6), width_ratios=(1.1, 1), layout="constrained")
    path, (reported, filtered) = walks[shown], answers[shown]
    left.scatter(*places.T, s=4, color=PALE, zorder=1)
    for line, colour, name, width in (
        (places[path], BLUE, "the walk", 2.5),
        (reports[reported], GREY, "the reports, as they come", 1.0),
        (reports[filtered], ORANGE, "the filter after each report", 2.0),
    ):
        left.plot(*line.T, "o-", color=colour, label=name, linewidth=width, markersize=4, alpha=0.85)
    left.add_collection(
        LineCollection(np.stack((places[path], reports[filtered]), axis=1), colors=ORANGE, linewidths=0.6, alpha=0.6)
    )
    left.plot(*places[path[0]], "o", color=BLUE, markersize=10, fillstyle="none", markeredgewidth=2)
    plain(left, "one walk, the one of the median gain; it begins at the ring")
    left.set_ylabel("km north")
    left.legend(loc="upper right", frameon=True, framealpha=0.9, fontsize=9)
    steps = np.arange(1, N_STEPS + 1)
    for kind, colour, name in ((0, GREY, "as reported"), (1, ORANGE, "filtered")):
        middle = errors[kind].mean(axis=0)
        margin = 1.96 * errors[kind].std(axis=0, ddof=1) / math.sqrt(N_WALKS)
        right.fill_between(steps, middle - margin, middle + margin, color=colour, alpha=0.2, linewidth=0)
        right.plot(steps, middle, "o-", color=colour, label=name)
    right.set_ylim(bottom=0)
    right.set_xlabel("report")
    right.set_ylabel("mean distance to the true place, km")
    right.set_title(f"{N_WALKS} walks; the bands are 95 % of the means", fontsize=11)
    right.spines[["top", "right"]].set_visible(False)
    right.legend(loc="lower left", frameon=False)
    figure.savefig(IMAGES / "service-walk.png", dpi=110)
    plt.close(figure)


def main() -> None:
    """Make the mechanism once, and both pictures of it."""
    records = mdp.data.road("gothenburg", n=N, seed=0)
    problem = mdp.Problem(records, epsilon=EPSILON, eta=ETA, outputs=OUTPUTS, loss="distance")
    mechanism = mdp.solve(problem, gap=0.02).mechanism
    print(mechanism, mechanism.certificate)
    truth, named = population(records), districts(records)
    generator = np.random.default_rng(SEED)
    people = generator.multinomial(N_PEOPLE, truth)
    table = mechanism.block()
    chances = table / table.sum(axis=1, keepdims=True)
    counts = np.sum([generator.multinomial(n, row) for n, row in zip(people, chances, strict=True)], axis=0)
    reports = ReportCounts(mechanism).add_outputs(np.repeat(np.arange(len(counts)), counts))
    found = mdp.estimate(mechanism, reports)
    intervals = found.intervals(named)
    variation = 0.5 * np.abs(found.distribution - truth).sum()
    print(found, f"total variation {variation:.3f}")
    for name, one in sorted(intervals.items(), key=lambda item: -item[1].estimate):
        true = truth[[other == name for other in named]].sum()
        print(f"{name:15} {one.low:6.1%} {one.high:6.1%}  estimate {one.estimate:6.1%}  truth {true:6.1%}")
    large, small = (found.distribution > 3 * truth).sum(), (3 * found.distribution < truth).sum()
    print(f"single records: {large} more than three times too large, {small} too small")
    IMAGES.mkdir(parents=True, exist_ok=True)
    draw_heat(found, truth, named, intervals)
    draw_walk(mechanism)


if __name__ == "__main__":
    main()
