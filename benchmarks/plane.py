"""Mechanisms for every point of a region against what can be used for points today, and against two bounds.

Squares of n x n cells with a prior at their centres, uniform or of four clusters, and three kilometres of central Rome
with its intersections as outputs. Losses are in units of 1 / epsilon. Planar Laplace noise is integrated on a fine
grid; it is what people would get who draw it without any error of floats.
"""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import metricdp as mdp
from benchmarks.tables import table
from metricdp.data.geodesy import haversine_km
from metricdp.solve.plane.solve import any_mechanism_bound

if TYPE_CHECKING:
    from benchmarks.registry import Keep

CASES = tuple(
    (n, exponent, is_clustered) for n in (13, 21, 31) for is_clustered in (False, True) for exponent in (0.25, 0.4)
)
LIMIT = float(os.environ.get("METRICDP_BENCH_LIMIT", "600"))  # seconds of each solve and of each bound
ROME = 41.88, 12.462, 41.907, 12.4983  # south, west, north, east: 3 x 3 km
ROME_EPSILON, ROME_SPACING, ROME_OUTPUTS, ROME_CELLS = 7.0, 0.4, 300, 53
NODES = Path(os.environ.get("METRICDP_ROME", "../shared/data/rome")) / "nodes.csv.gz"
NOISE_STEP, NOISE_REACH = 0.1, 9.0  # in units of 1 / epsilon
HEAD = ("instance", "bound, any", "bound, lattice", "ours", "above any", "Laplace + Bayes", "Laplace, nearest",
        "exponential", "processor s", "of the bound", "peak MB")  # fmt: skip


def clustered(n: int, seed: int = 0) -> np.ndarray:
    """Return a prior of four round clusters over n x n cells."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0.2, 0.8, (4, 2)) * n
    cells = np.stack(np.meshgrid(np.arange(n), np.arange(n), indexing="ij"), axis=-1).reshape(-1, 2) + 0.5
    return sum(np.exp(-((cells - c) ** 2).sum(axis=1) / (2.0 * (0.08 * n) ** 2)) for c in centres) + 1e-4


def square(n: int, exponent: float, *, is_clustered: bool) -> mdp.PlaneProblem:
    region = mdp.data.region(0.0, 0.0, n * exponent, n * exponent, spacing=exponent, kind="vectors")
    places = region.records.select(region.inner)
    if is_clustered:
        places = places.with_prior(clustered(n))
    return mdp.PlaneProblem(region, epsilon=1.0, places=places)


def rome() -> mdp.PlaneProblem | None:
    """Return central Rome with the prior at its intersections, some of which are the outputs; None without the data."""
    if not NODES.exists():
        return None
    region = mdp.data.region(*ROME, spacing=ROME_SPACING / ROME_EPSILON)
    every = mdp.data.read_csv(NODES)
    inside = every.select(np.flatnonzero(~region.is_outside(every.coordinates)))
    outputs = mdp.problem.Outputs.of(min(ROME_OUTPUTS, inside.n), inside, seed=0)
    return mdp.PlaneProblem(region, epsilon=ROME_EPSILON, outputs=outputs.coordinates, places=inside)


def noise(problem: mdp.PlaneProblem) -> tuple[float, float]:
    """Return the loss of planar Laplace noise with Bayes remap, and moved to the nearest output."""
    epsilon, places, outputs = problem.epsilon, problem.places, problem.outputs.coordinates
    here, there = _flat(problem, places.coordinates), _flat(problem, outputs)
    step = NOISE_STEP / epsilon
    axes = [np.arange(a - NOISE_REACH / epsilon, b + NOISE_REACH / epsilon, step)
            for a, b in zip(here.min(axis=0), here.max(axis=0), strict=True)]  # fmt: skip
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    snapped, best, mass = 0.0, 0.0, 0.0
    for part in np.array_split(grid, max(1, len(grid) * len(here) // 4_000_000)):
        away = np.linalg.norm(here[:, None] - part[None], axis=2)
        P = places.prior[:, None] * np.exp(-epsilon * away)
        expected = P.T @ problem.losses
        nearest = np.linalg.norm(part[:, None] - there[None], axis=2).argmin(axis=1)
        snapped += expected[np.arange(len(part)), nearest].sum()
        best += expected.min(axis=1).sum()
        mass += P.sum()
    return epsilon * best / mass, epsilon * snapped / mass


def exponential(problem: mdp.PlaneProblem) -> float:
    """Return the loss of the exponential mechanism on true points, with weights exp(-epsilon d / 2)."""
    if problem.region.kind == "places":
        away = haversine_km(problem.places.coordinates[:, None], problem.outputs.coordinates[None])
    else:
        away = np.linalg.norm(problem.places.coordinates[:, None] - problem.outputs.coordinates[None], axis=2)
    Z = np.exp(-0.5 * problem.epsilon * away)
    Z /= Z.sum(axis=1, keepdims=True)
    return float(problem.epsilon * (problem.places.prior[:, None] * Z * problem.losses).sum())


def _flat(problem: mdp.PlaneProblem, points: np.ndarray) -> np.ndarray:
    region = problem.region
    scale = np.array([float(side) for side in region.sides]) * region.cells / np.subtract(region.high, region.low)
    return (points - region.low) * scale


def measured(name: str, problem: mdp.PlaneProblem) -> dict[str, Any]:
    """Solve one instance and everything that it is compared with."""
    begin = time.process_time()
    result = mdp.solve_plane(problem, bound=False, time_limit=LIMIT)
    middle = time.process_time()
    bound = any_mechanism_bound(problem, time_limit=LIMIT).lower_bound
    end = time.process_time()
    remapped, snapped = noise(problem)
    unit = problem.epsilon
    return {
        "instance": name,
        "cells": problem.region.cells,
        "outputs": problem.n_outputs,
        "any_bound": unit * bound,
        "class_bound": unit * result.class_bound,
        "loss": unit * result.loss,
        "laplace_bayes": remapped,
        "laplace_nearest": snapped,
        "exponential": exponential(problem),
        "processor_seconds": middle - begin,
        "bound_seconds": end - middle,
        "steps": result.steps,
        "check_seconds": result.mechanism.certificate.privacy.seconds,
        "stretch": problem.region.stretch,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def run(*, keep: Keep, sizes: list[int] | None = None, old: Path | None = None) -> dict[str, Any]:  # noqa: ARG001
    """Measure all squares, or those of the given ``sizes`` only, and Rome (its number of cells each way)."""
    rows = []
    mdp.solve_plane(square(3, 0.25, is_clustered=False), max_steps=2)
    named = [
        (f"{n} x {n}, epsilon x spacing {a:g}, {'four clusters' if c else 'uniform'}", square(n, a, is_clustered=c))
        for n, a, c in CASES
        if sizes is None or n in sizes
    ]
    if sizes is None or ROME_CELLS in sizes:
        city = rome()
        if city is not None:
            named.append((f"Rome, epsilon {ROME_EPSILON:g} per km, epsilon x spacing {ROME_SPACING:g}", city))
    for name, problem in named:
        row = measured(name, problem)
        rows.append(row)
        keep([row])
        print(cells(row), flush=True)
    return {"limit": LIMIT, "rows": rows, "markdown": table(HEAD, map(cells, rows))}


def cells(row: dict[str, Any]) -> list[str]:
    above = 100 * (row["loss"] / row["any_bound"] - 1) if row["any_bound"] > 0 else float("nan")
    numbers = (row[name] for name in ("any_bound", "class_bound", "loss"))
    others = (row[name] for name in ("laplace_bayes", "laplace_nearest", "exponential"))
    return [
        row["instance"],
        *(f"{value:.4f}" for value in numbers),
        f"{above:.1f} %",
        *(f"{value:.4f}" for value in others),
        *(f"{row[name]:.0f}" for name in ("processor_seconds", "bound_seconds", "peak_mb")),
    ]
