"""Whole cities: growth of the first-order method over N, Rome end to end, the paper's instance at strong privacy.

`growth` keeps the density of a neighbourhood fixed, in two ways: samples of the city, where eta falls like 1 / sqrt(N)
and epsilon rises like sqrt(N), so that a record has as many neighbours, and epsilon d the same sizes, at every N; and
regions around the middle, where nothing changes but their size.
"""

from __future__ import annotations

import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import metricdp as mdp
from benchmarks.figures import growth_figure
from benchmarks.instances import rome_nodes, rome_or_gothenburg

GROWTH_SIZES = (1000, 2000, 5000, 10000, 20000, 43160)
GROWTH_ETA, GROWTH_EPSILON = 0.7, 10.0  # at 43,160 records
CITY = (
    (5000, 10.0, 0.01),
    (5000, 5.0, 0.01),
    (5000, 2.0, 0.01),
    (43160, 10.0, 0.005),
    (43160, 5.0, 0.01),
    (43160, 2.0, 0.01),
)
STRONG_EPSILONS = (2.0, 1.0, 0.5)
STRONG_GAPS = {"1 %": 0.01, "0.1 %": 0.001}


def limit(seconds: float) -> float:
    """Return a time limit that METRICDP_BENCH_LIMIT can make shorter."""
    return min(seconds, float(os.environ.get("METRICDP_BENCH_LIMIT", seconds)))


def run() -> dict:
    found = growth()
    return {"growth": found, "city": city(), "strong": strong(), "figure": figure(found)}


def figure(found: dict) -> Any:
    """Return the picture of seconds over N of `growth`."""

    def lines(rows: dict) -> dict[str, list[tuple[float, float]]]:
        sizes = [key for key in rows if key.isdigit()]
        return {
            "whole solve": [(int(n), rows[n]["seconds"]) for n in sizes],
            "steps to 1 %": [(int(n), rows[n]["step_seconds"]) for n in sizes],
            "one step": [(int(n), rows[n]["step_seconds"] / max(rows[n]["iterations"], 1)) for n in sizes],
        }

    titles = {"samples": "samples of Rome", "regions": "regions of Rome, epsilon 10"}
    return growth_figure({titles[kind]: lines(rows) for kind, rows in found.items()}) if found else None


def growth() -> dict:
    """(a) Seconds of the steps to 1 % over N at a fixed density, and the exponent of their growth."""
    nodes = rome_nodes()
    if nodes is None:
        print("the growth benchmark needs the Rome data (METRICDP_ROME)")
        return {}
    return {kind: grow(kind, nodes) for kind in ("samples", "regions")}


def grow(kind: str, nodes: mdp.Records) -> dict:
    """Run over samples of the whole city, or over regions around its middle."""
    rows = {}
    for n in GROWTH_SIZES:
        problem = _sample(nodes, n) if kind == "samples" else _region(nodes, n)
        result = mdp.solve(problem, method="first-order", gap=0.01)
        steps = sum(row["step_seconds"] for row in result.trace.rows if row["stage"] == "first-order")
        rows[n] = {
            "pairs": problem.graph.n_pairs,
            "step_seconds": steps,
            "iterations": result.iterations,
            "seconds": result.seconds,
            "peak_mb": result.peak_mb,
            "gap": result.gap,
        }
        print(
            f"{kind}, N = {n:,}: {problem.graph.n_pairs:,} pairs, {result.iterations} steps in {steps:.2f} s, "
            f"{1e6 * steps / max(result.iterations, 1) / n:.2f} us per step and record, whole {result.seconds:.1f} s",
            flush=True,
        )
    sizes = np.array(list(rows))
    for name, values in {
        "steps to 1 %": [row["step_seconds"] for row in rows.values()],
        "one step": [row["step_seconds"] / max(row["iterations"], 1) for row in rows.values()],
        "whole solve": [row["seconds"] for row in rows.values()],
    }.items():
        exponent = np.polyfit(np.log(sizes), np.log(values), 1)[0]
        rows[f"exponent, {name}"] = float(exponent)
        print(f"{kind}, growth exponent of {name}: {exponent:.2f}")
    return {str(key): value for key, value in rows.items()}


def _sample(nodes: mdp.Records, n: int) -> mdp.Problem:
    """Return a sample of the city; eta and 1 / epsilon grow as it gets thinner."""
    scale = np.sqrt(n / nodes.n)
    records = nodes if n >= nodes.n else nodes.sample(n, seed=0)
    return mdp.Problem(records, epsilon=GROWTH_EPSILON * scale, eta=GROWTH_ETA / scale, outputs="random:100")


def _region(nodes: mdp.Records, n: int) -> mdp.Problem:
    """Return the n intersections nearest to the middle, at the same epsilon, eta and density."""
    middle = np.median(nodes.coordinates, axis=0)
    squeeze = np.array([1.0, np.cos(np.radians(middle[0]))])
    near = np.argsort((((nodes.coordinates - middle) * squeeze) ** 2).sum(axis=1))[:n]
    return mdp.Problem(nodes.select(np.sort(near)), epsilon=GROWTH_EPSILON, eta=GROWTH_ETA, outputs="random:100")


def city() -> dict:
    """(b) Rome from the file to the saved mechanism, one run each, in its own process: its memory is its own."""
    if rome_nodes() is None:
        return {}
    rows = {}
    for n, epsilon, gap in CITY:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
            row = alone.submit(one_city, n, epsilon, gap).result()
        rows[f"{n}, epsilon {epsilon:g}"] = row
        print(
            f"Rome {n:,} x 100, epsilon {epsilon:g}: gap {100 * row['gap']:.2f} % in {row['seconds']:.1f} s end to end "
            f"(exact certificate {row['certificate_seconds']:.1f} s), {row['iterations']} steps, "
            f"peak {row['peak_mb']:.0f} MB",
            flush=True,
        )
    return rows


def one_city(n: int, epsilon: float, gap: float) -> dict:
    """Do one run of `city`."""
    begin = time.perf_counter()
    nodes = rome_nodes()
    records = nodes if n >= nodes.n else nodes.sample(n, seed=0)
    problem = mdp.Problem(records, epsilon=epsilon, eta=2.0, outputs="random:100")
    result = mdp.solve(problem, method="first-order", gap=gap, time_limit=limit(900.0))
    with tempfile.TemporaryDirectory() as folder:
        result.mechanism.save(Path(folder) / "city.mdp")
    stages = [row for row in result.trace.rows if row["stage"] == "first-order"]
    return {
        "seconds": time.perf_counter() - begin,
        "certificate_seconds": result.mechanism.certificate.privacy.seconds,
        "step_seconds": sum(row["step_seconds"] for row in stages),
        "bound_seconds": sum(row["bound_seconds"] for row in stages),
        "repair_seconds": sum(row["repair_seconds"] for row in stages),
        "gap": result.gap,
        "peak_mb": result.peak_mb,
        "iterations": result.iterations,
        "pairs": problem.graph.n_pairs,
    }


def strong() -> dict:
    """(c) The paper's instance at strong privacy against HiGHS on all rows, which gets 5 minutes for each algorithm.

    Ours run before each of them; the median counts. A peer counts for a gap that it reached; when none did, all that is
    known is that it takes more than the limit.
    """
    most = limit(300.0)
    rows: dict[str, dict] = {}
    for epsilon in STRONG_EPSILONS:
        name, problem = rome_or_gothenburg(epsilon=epsilon)
        mdp.solve(problem, method="first-order", gap=0.1, time_limit=most)  # compiled code is loaded
        own: dict[str, list[float]] = {label: [] for label in STRONG_GAPS}
        peers: dict[str, tuple[float, float]] = {}
        for algorithm in os.environ.get("METRICDP_BENCH_PEERS", "simplex,ipx,hipo").split(","):
            for label, gap in STRONG_GAPS.items():
                result = mdp.solve(problem, method="first-order", gap=gap, time_limit=most)
                own[label].append(result.seconds if result.gap <= gap else np.inf)
            options = mdp.DirectOptions(all_rows=True, algorithm=algorithm, tolerance=1e-7)
            begin = time.perf_counter()
            result = mdp.solve(problem, method="direct", gap=0.001, options=options, time_limit=most)
            peers[algorithm] = (time.perf_counter() - begin, result.gap)
        rows[f"epsilon {epsilon:g}"] = {"own": own, "peers": peers}
        shown = ", ".join(f"{peer} {seconds:.1f} s (gap {100 * gap:.2g} %)" for peer, (seconds, gap) in peers.items())
        print(f"{name}, epsilon {epsilon:g}: HiGHS on all rows, at most {most:g} s: {shown}")
        for label, seconds in own.items():
            reached = [taken for taken, gap in peers.values() if gap <= STRONG_GAPS[label]]
            times = f"{min(reached, default=most) / median(seconds):.0f} times"
            print(
                f"  first-order {label} in {median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f}), "
                + (
                    f"{times} faster than the best of HiGHS"
                    if reached
                    else f"which none of HiGHS reached in {times} it"
                ),
                flush=True,
            )
    return rows
