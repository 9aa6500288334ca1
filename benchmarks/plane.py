"""Mechanisms for every point of a region against what can be used for points today, and against two bounds.

Squares of n x n cells with a prior at their centres, uniform or of four clusters; three kilometres of central Rome with
all of its intersections as outputs, each as likely as the streets that meet there are long, and the same of Gothenburg,
which no constant was chosen on; and Rome as AIPO's authors took it. Losses are in units of 1 / epsilon. Planar Laplace
noise is integrated on a fine grid; it is what people would get who draw it without any error of floats. Each row is
measured in a process of its own, after a small problem has loaded all compiled code.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

import metricdp as mdp
from benchmarks.grouped import grouped_bound
from benchmarks.processes import ROOT, forget_peak, peak_mb
from benchmarks.rome import FOLDER
from benchmarks.tables import table
from metricdp.data.geodesy import haversine_km
from metricdp.solve.plane.any_mechanism import any_mechanism_bound

if TYPE_CHECKING:
    from benchmarks.registry import Keep

CASES = tuple(
    (n, exponent, is_clustered) for n in (13, 21, 31) for is_clustered in (False, True) for exponent in (0.25, 0.4)
)
GAP = 0.005  # to the bound of the lattice, at which a row ends early
LIMIT = float(os.environ.get("METRICDP_BENCH_LIMIT", "600"))  # seconds of each solve and of each bound
BOXES = {  # south, west, north, east: 3 x 3 km
    "Rome": (41.88, 12.462, 41.907, 12.4983),
    "Gothenburg": (57.6937, 11.9415, 57.7207, 11.992),
}
CITY_EPSILON, CITY_CELLS = 7.0, {0.4: 53, 0.25: 84}
AIPO_EPSILONS, AIPO_OUTPUTS, AIPO_EXPONENT = tuple(round(0.2 * i, 1) for i in range(1, 9)), 20, 0.4
NOISE_STEP, NOISE_REACH = 0.1, 9.0  # in units of 1 / epsilon
HEAD = ("instance", "bound, any", "bound, lattice", "ours", "above any", "Laplace + Bayes", "Laplace, nearest",
        "exponential", "processor s", "of the bound", "peak MB")  # fmt: skip
MOST_PLACES = 10_000  # beyond it places are compared in groups
GROUPS = 0.2, 4.0  # squares of groups, and the distance within which they are compared, in units of 1 / epsilon
LEAST_SIDE, MOST_SIDE = 0.5, 1.0  # km of such squares
LARGEST_NOISE = 2e11  # grid points times places times outputs: beyond it noise is not integrated


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


def city(name: str, exponent: float) -> mdp.PlaneProblem | None:
    """Return the centre of a city with all of its intersections as places and outputs; None without the data."""
    records = rome_by_streets() if name == "Rome" else mdp.data.road("gothenburg")
    if records is None:
        return None
    region = mdp.data.region(*BOXES[name], spacing=exponent / CITY_EPSILON)
    inside = records.select(np.flatnonzero(~region.is_outside(records.coordinates)))
    return mdp.PlaneProblem(region, epsilon=CITY_EPSILON, outputs=inside.coordinates, places=inside)


def rome_by_streets() -> mdp.Records | None:
    """Return Rome's intersections, each as likely as half the length of its streets."""
    if not (FOLDER / "edges.csv.gz").exists():
        return None
    nodes = mdp.data.read_csv(FOLDER / "nodes.csv.gz")
    ends = np.loadtxt(FOLDER / "edges.csv.gz", delimiter=",", skiprows=1, dtype=np.int64)
    lengths = haversine_km(nodes.coordinates[ends[:, 0]], nodes.coordinates[ends[:, 1]])
    weights = np.bincount(ends.ravel(), weights=np.repeat(lengths, 2) / 2.0, minlength=nodes.n)
    used = np.flatnonzero(weights > 0)
    return nodes.select(used).with_prior(weights[used])


def aipo(epsilon: float, exponent: float = AIPO_EXPONENT) -> mdp.PlaneProblem | None:
    """Return the whole of Rome with 20 of its intersections as outputs, all equally likely, as AIPO's authors did.

    Which 20 were drawn is not known, nor the losses: here they are distances.
    """
    if not (FOLDER / "nodes.csv.gz").exists():
        return None
    nodes = mdp.data.read_csv(FOLDER / "nodes.csv.gz")
    region = mdp.data.region_around(nodes, beyond=0.001, spacing=exponent / epsilon)
    outputs = nodes.coordinates[np.random.default_rng(0).choice(nodes.n, AIPO_OUTPUTS, replace=False)]
    return mdp.PlaneProblem(region, epsilon=epsilon, outputs=outputs, places=nodes)


def problem_of(task: dict[str, Any]) -> mdp.PlaneProblem | None:
    """Return the problem of a row."""
    kind = task["kind"]
    if kind == "square":
        return square(task["n"], task["exponent"], is_clustered=task["is_clustered"])
    return city(task["city"], task["exponent"]) if kind == "city" else aipo(task["epsilon"])


def noise(problem: mdp.PlaneProblem) -> tuple[float, float]:
    """Return the loss of planar Laplace noise with Bayes remap, and moved to the nearest output."""
    epsilon, places, outputs = problem.epsilon, problem.places, problem.outputs.coordinates
    here, there = _flat(problem, places.coordinates), _flat(problem, outputs)
    step = NOISE_STEP / epsilon
    axes = [np.arange(a - NOISE_REACH / epsilon, b + NOISE_REACH / epsilon, step)
            for a, b in zip(here.min(axis=0), here.max(axis=0), strict=True)]  # fmt: skip
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    if float(len(grid)) * len(here) * len(there) > LARGEST_NOISE:
        return float("nan"), float("nan")
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
    forget_peak()
    begin = time.process_time()
    result = mdp.solve_plane(problem, gap=GAP, bound=False, time_limit=LIMIT)
    middle, peak = time.process_time(), peak_mb()
    bound = bound_of(problem)
    end = time.process_time()
    remapped, snapped = noise(problem)
    unit = problem.epsilon
    return {
        "instance": name,
        "cells": problem.region.cells,
        "outputs": problem.n_outputs,
        "places": problem.places.n,
        "any_bound": unit * bound,
        "class_bound": unit * result.class_bound,
        "loss": unit * result.loss,
        "laplace_bayes": remapped,
        "laplace_nearest": snapped,
        "exponential": exponential(problem),
        "processor_seconds": middle - begin,
        "seconds": result.seconds,
        "bound_seconds": end - middle,
        "steps": result.steps,
        "check_seconds": result.mechanism.certificate.privacy.seconds,
        "stretch": problem.region.stretch,
        "peak_mb": peak,
        "peak_mb_bound": peak_mb(),
    }


def bound_of(problem: mdp.PlaneProblem) -> float:
    """Return a bound for any mechanism: from the places as records, or from groups of them where they are many."""
    if problem.places.n <= MOST_PLACES:
        return any_mechanism_bound(problem, time_limit=LIMIT).lower_bound
    side, eta = (size / problem.epsilon for size in GROUPS)
    side = min(max(side, LEAST_SIDE), MOST_SIDE)
    nearest = float(problem.places.prior @ problem.losses.min(axis=1))
    return max(nearest, grouped_bound(problem, side, eta, time_limit=LIMIT).lower_bound)


def tasks(sizes: list[int] | None) -> list[dict[str, Any]]:
    """Return all rows, or those with the given numbers of cells each way; 20 stands for AIPO's 20 outputs."""
    found: list[dict[str, Any]] = [
        {
            "name": f"{n} x {n}, epsilon x spacing {a:g}, {'four clusters' if c else 'uniform'}",
            "kind": "square", "n": n, "exponent": a, "is_clustered": c, "size": n,
        }
        for n, a, c in CASES
    ]  # fmt: skip
    for name in BOXES:
        for exponent, n in CITY_CELLS.items():
            title = f"{name}, epsilon {CITY_EPSILON:g} per km, epsilon x spacing {exponent:g}"
            found.append({"name": title, "kind": "city", "city": name, "exponent": exponent, "size": n})
    found += [
        {"name": f"AIPO's Rome, epsilon {epsilon:g}", "kind": "aipo", "epsilon": epsilon, "size": AIPO_OUTPUTS}
        for epsilon in AIPO_EPSILONS
    ]
    return [task for task in found if sizes is None or task["size"] in sizes]


def ask(task: dict[str, Any]) -> dict[str, Any]:
    """Measure one row in a process of its own."""
    words = [sys.executable, "-W", "ignore", "-m", "benchmarks.plane", json.dumps(task)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"ended with code {done.returncode}"]
        return {"instance": task["name"], "failed": lines[-1][-200:]}
    return json.loads(done.stdout.splitlines()[-1])


def run(*, keep: Keep, sizes: list[int] | None = None) -> dict[str, Any]:
    """Measure all rows, or those of the given ``sizes`` only."""
    rows = []
    for task in tasks(sizes):
        row = ask(task)
        rows.append(row)
        keep([row])
        print(row["failed"] if "failed" in row else cells(row), flush=True)
    good = [row for row in rows if "failed" not in row]
    return {"limit": LIMIT, "rows": rows, "markdown": table(HEAD, map(cells, good))}


def main(task: dict[str, Any]) -> None:
    """Measure one row in this process and print it as JSON."""
    problem = problem_of(task)
    if problem is None:
        print(json.dumps({"instance": task["name"], "failed": "skipped: Rome's data is not at METRICDP_ROME"}))
        return
    warm = square(4, 0.4, is_clustered=True)
    mdp.solve_plane(warm, max_steps=120)
    print(json.dumps(measured(task["name"], problem)))


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


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
