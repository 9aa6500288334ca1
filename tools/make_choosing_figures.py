"""Draw the pictures of docs/choosing.md: docs/images/choosing-*.png.

Needs matplotlib: ``pip install "metricdp[plot]"``, then ``python tools/make_choosing_figures.py``. Takes a
minute or two.
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

import metricdp as mdp
from metricdp.data.geodesy import EARTH_RADIUS_KM
from metricdp.evaluate import attack, utility

if TYPE_CHECKING:
    from numpy.typing import NDArray

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
N, OUTPUTS, ETA = 300, 50, 1.0
EPSILONS = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0)
ETAS, EPSILON_OF_ETAS = (0.3, 0.6, 1.0), 3.0
PERSON = "g3156"  # an intersection near the centre
BLUE, ORANGE, GREEN, GREY, PALE = "#0072B2", "#D55E00", "#009E73", "#8c8c8c", "#d9d9d9"
COLOURS = (BLUE, ORANGE, GREEN, "#CC79A7", "#E69F00", "#56B4E9")


def kilometres(records: mdp.Records, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return latitudes and longitudes as kilometres east and north of the records' south-west corner."""
    corner = records.coordinates.min(axis=0)
    degree = math.pi / 180.0 * EARTH_RADIUS_KM
    north, east = ((points - corner) * degree).T
    return np.column_stack((east * math.cos(math.radians(corner[0])), north))


def problem_at(epsilon: float, eta: float = ETA) -> mdp.Problem:
    """Return the one problem of all pictures at another epsilon or eta."""
    records = mdp.data.road("gothenburg", n=N, seed=0)
    return mdp.Problem(records, epsilon=epsilon, eta=eta, outputs=f"random:{OUTPUTS}", loss="distance")


def plain(axes: plt.Axes) -> None:
    """Take the frame's upper and right side away."""
    axes.spines[["top", "right"]].set_visible(False)


def draw_odds() -> None:
    """Draw how far the odds between two places can move, against their distance."""
    figure, axes = plt.subplots(figsize=(7.5, 4.4), layout="constrained")
    distance = np.linspace(0.0, 2.0, 400)
    for colour, epsilon in zip(COLOURS, (0.5, 1.0, 2.0, 5.0, 10.0), strict=False):
        odds = np.exp(epsilon * distance)
        shown = odds <= 1500.0
        axes.plot(distance[shown], odds[shown], color=colour, linewidth=2)
        end = (distance[shown][-1], odds[shown][-1])
        axes.annotate(f"epsilon {epsilon:g}", end, (4, 0), textcoords="offset points", color=colour, va="center")
    levels = (1.0, 2.0, 10.0, 100.0, 1000.0)
    for level in levels:
        axes.axhline(level, color=PALE, linewidth=1, zorder=0)
    axes.set_yscale("log")
    axes.set_yticks(levels, labels=[f"{level:,.0f} times" for level in levels])
    axes.minorticks_off()
    axes.set_xlim(0.0, 2.32)
    axes.set_ylim(1.0, 2000.0)
    axes.set_xlabel("distance of two places, km")
    axes.set_ylabel("one report can change their odds by at most")
    axes.set_title("What epsilon per km means: exp(epsilon × distance)", fontsize=12)
    plain(axes)
    figure.savefig(IMAGES / "choosing-odds.png", dpi=110)


def draw_reports() -> None:
    """Draw what one person reports at three budgets, on the map."""
    epsilons = (1.0, 3.0, 10.0)
    figure, panels = plt.subplots(1, 3, figsize=(12.5, 5.0), sharex=True, sharey=True, layout="constrained")
    for axes, epsilon in zip(panels, epsilons, strict=True):
        problem = problem_at(epsilon)
        mechanism = mdp.solve(problem, gap=0.005).mechanism
        row = int(mechanism.rows_of([PERSON])[0])
        chances = mechanism.probabilities[row]
        records = problem.records
        here = kilometres(records, records.coordinates)
        there = kilometres(records, problem.outputs.coordinates)
        axes.scatter(*here.T, color=PALE, s=6, linewidths=0)
        axes.scatter(*there.T, s=1500 * chances, color=BLUE, alpha=0.65, linewidths=0)
        axes.scatter(*there.T, s=5, color=BLUE, linewidths=0)
        axes.scatter(*here[row], marker="+", s=110, color="black", linewidths=1.6)
        cost = utility(mechanism, problem)
        axes.set_title(
            f"epsilon {epsilon:g} per km\n"
            f"this place: {cost.per_record[row]:.2f} km off on average\n"
            f"likeliest report {100 * chances.max():.0f} %",
            fontsize=11,
        )
        axes.set_aspect("equal")
        axes.set_xlabel("km east")
        plain(axes)
    panels[0].set_ylabel("km north")
    figure.suptitle(
        "What the person at the cross reports: the area of a disc is its probability (grey: records)", fontsize=12
    )
    figure.savefig(IMAGES / "choosing-reports.png", dpi=100)


def draw_loss() -> None:
    """Draw the cost of privacy, and the adversary's error, against epsilon."""
    best, simple, error, right = [], [], [], []
    for epsilon in EPSILONS:
        problem = problem_at(epsilon)
        result = mdp.solve(problem, gap=0.01)
        seen = attack(result.mechanism, problem)
        best.append(result.loss)
        simple.append(problem.expected_loss(mdp.exponential(problem).probabilities))
        error.append(seen.error)
        right.append(100 * seen.right)
        print(f"epsilon {epsilon:g}: {result}, error {seen.error:.4f}, right {seen.right:.4f}")
    least = float((problem.records.prior * problem.loss.min(axis=1)).sum())
    figure, (left, second) = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
    left.plot(EPSILONS, best, color=BLUE, marker="o", label="optimal mechanism (certified, within 1 %)")
    left.plot(EPSILONS, simple, color=ORANGE, marker="s", label="exponential mechanism at the same epsilon")
    left.axhline(least, color=GREY, linestyle="--", linewidth=1)
    left.annotate(
        "no privacy: everybody reports the nearest output",
        (0.42, least),
        (0, -5),
        textcoords="offset points",
        va="top",
        color="#595959",
    )
    left.set_ylabel("expected distance to the report, km")
    left.set_title("What privacy costs", fontsize=12)
    left.legend(frameon=False)
    second.plot(EPSILONS, error, color=BLUE, marker="o")
    second.set_ylabel("adversary's expected error, km", color=BLUE)
    second.set_title("What an adversary makes of a report", fontsize=12)
    other = second.twinx()
    other.plot(EPSILONS, right, color=GREEN, marker="^")
    other.set_ylabel("guesses the right record, % of the time", color=GREEN)
    other.set_ylim(bottom=0.0)
    other.spines["top"].set_visible(False)
    second.spines["top"].set_visible(False)
    plain(left)
    for axes in (left, second):
        axes.set_xscale("log")
        axes.set_xticks((0.5, 1, 2, 5, 10, 20), labels=("0.5", "1", "2", "5", "10", "20"))
        axes.minorticks_off()
        axes.set_ylim(bottom=0.0)
        axes.set_xlabel("epsilon per km")
    figure.savefig(IMAGES / "choosing-loss.png", dpi=100)


def draw_eta() -> None:
    """Draw who is connected to whom at three reaches."""
    figure, panels = plt.subplots(1, 3, figsize=(12.5, 5.2), sharex=True, sharey=True, layout="constrained")
    for axes, eta in zip(panels, ETAS, strict=True):
        problem = problem_at(EPSILON_OF_ETAS, eta)
        graph, records = problem.graph, problem.records
        result = mdp.solve(problem, gap=0.005)
        here = kilometres(records, records.coordinates)
        sizes = np.bincount(graph.labels)
        order = np.argsort(-sizes, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        is_alone = sizes[graph.labels] == 1
        axes.add_collection(LineCollection(here[graph.pairs], colors=PALE, linewidths=0.6, zorder=1))
        colours = np.array(COLOURS)[rank[graph.labels] % len(COLOURS)]
        axes.scatter(*here[~is_alone].T, c=colours[~is_alone], s=12, linewidths=0, zorder=2)
        axes.scatter(*here[is_alone].T, marker="x", color="black", s=26, linewidths=1.2, zorder=3)
        axes.set_title(
            f"eta {eta:g} km: {graph.n_pairs:,} pairs\n{graph.n_components} components, the largest has {sizes.max()}\n"
            f"{int(is_alone.sum())} alone; expected loss {result.loss:.3f} km",
            fontsize=11,
        )
        axes.set_aspect("equal")
        axes.set_xlabel("km east")
        plain(axes)
        print(f"eta {eta:g}: {result}, {graph.n_components} components, {is_alone.sum()} alone")
    panels[0].set_ylabel("km north")
    figure.suptitle(
        f"Who is protected from whom (epsilon {EPSILON_OF_ETAS:g} per km): neighbours are joined, "
        "× has none and no protection",
        fontsize=12,
    )
    figure.savefig(IMAGES / "choosing-eta.png", dpi=100)


def main() -> None:
    """Draw all four."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    draw_odds()
    draw_reports()
    draw_loss()
    draw_eta()


if __name__ == "__main__":
    main()
