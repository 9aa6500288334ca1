"""What the experiments are made of: one function per kind of task, each giving plain figures."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from metricdp.mechanism.baselines import exponential
from metricdp.mechanism.mechanism import table_loss
from metricdp.partition import Partition, make_partition
from metricdp.solve import BendersOptions, DirectOptions, Result, Status, solve

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from metricdp.problem import Problem
    from papers.qiu2024.datasets import Datasets
    from papers.qiu2024.store import Task

THREADS = 1  # of every solve: times do not depend on the number of cores, and the paper's code uses one as well
ALL_ROWS_TOLERANCE = 1e-7  # the default of LP solvers, which the classic comparison uses
PRESETS: dict[str, Callable[..., BendersOptions]] = {"plain": BendersOptions.textbook, "ours": BendersOptions}
CLASSIC = {
    "dual simplex": DirectOptions(algorithm="simplex", all_rows=True, tolerance=ALL_ROWS_TOLERANCE),
    "interior point": DirectOptions(algorithm="ipx", all_rows=True, tolerance=ALL_ROWS_TOLERANCE),
    "lazy rows": DirectOptions(),
}


def perform(task: Task, data: Datasets) -> dict[str, Any]:
    """Do one task."""
    begin = time.perf_counter()
    found = KINDS[task.kind](task, data)
    return {**found, "task_seconds": time.perf_counter() - begin}


def _problem(task: Task, data: Datasets) -> Problem:
    own = dict(task.fields)
    return data.problem(
        own["dataset"], n=own["n"], outputs=own["outputs"], instance=own["instance"], epsilon=own["epsilon"]
    )


def _divide(task: Task, problem: Problem) -> Partition:
    return make_partition(
        problem.records,
        problem.metric,
        problem.graph,
        method=task["method"],
        n_blocks=task["n_blocks"],
    )


def sizes(task: Task, data: Datasets) -> dict[str, Any]:
    """Divide the records and count (the paper's Tables 1 and 2)."""
    problem = _problem(task, data)
    part = _divide(task, problem)
    crossing = cross_components(part)
    return {
        **asdict(part.quality),
        "records": problem.n_records,
        "pairs": problem.graph.n_pairs,
        "components": problem.graph.n_components,
        "eta": problem.eta,
        "block_sizes": [len(rows) for rows in part.blocks],
        "internal_sizes": [len(rows) for rows in part.internal],
        "master_sizes": [len(rows) for rows in part.master_components],
        "cross_sizes": crossing,
        "cross_mean": float(np.mean(crossing)) if crossing else 0.0,
        "cross_max": max(crossing, default=0),
    }


def cross_components(part: Partition) -> list[int]:
    """Return the sizes of the boundary's components if only pairs in different blocks are edges.

    This is how the paper's published code counts its master components: it leaves out the pairs of boundary records in
    one block, though they are constraints of the master like the others.
    """
    pairs: NDArray[np.int32] = part.graph.pairs[part.cut_edges]
    graph = csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(part.graph.n, part.graph.n))
    _, labels = connected_components(graph, directed=False)
    counts = np.bincount(labels[part.boundary]) if len(part.boundary) else np.zeros(0, dtype=np.int64)
    return sorted((int(count) for count in counts if count), reverse=True)


def picture(task: Task, data: Datasets) -> dict[str, Any]:
    """Divide the records and return the data for a picture."""
    problem = _problem(task, data)
    part = _divide(task, problem)
    points = part.plot_data(problem.records)
    if problem.records.kind != "places" and problem.records.dimension > 2:
        centred = problem.records.coordinates - problem.records.coordinates.mean(axis=0)
        _, _, axes = np.linalg.svd(centred, full_matrices=False)
        projected = centred @ axes[:2].T
        points["x"], points["y"] = projected[:, 0], projected[:, 1]
    return {
        "x": [round(float(v), 6) for v in points["x"]],
        "y": [round(float(v), 6) for v in points["y"]],
        "block": part.block_of.tolist(),
        "is_boundary": part.is_boundary.tolist(),
        "n_blocks": part.n_blocks,
        "kind": problem.records.kind,
    }


def decompose(task: Task, data: Datasets) -> dict[str, Any]:
    """Solve by Benders decomposition, in the paper's plain form or in ours, and keep every iteration."""
    problem = _problem(task, data)
    result = solve(
        problem,
        method="benders",
        options=PRESETS[task["preset"]](partition=task["method"], n_blocks=task["n_blocks"], seed=task["instance"]),
        gap=task["gap"],
        time_limit=task["limit"],
        threads=THREADS,
    )
    steps = [row for row in result.trace.rows if row["stage"] == "benders"]
    blocks = [row for row in result.trace.rows if row["stage"] == "blocks"]
    last = {row["component"]: row["gap"] for row in steps}
    # the plain form by its own bounds; ours by the certified mechanism, with the simple ones that every solve tries
    own_gap = max((last.get(row["component"], 1.0) for row in blocks), default=result.gap)
    is_plain = task["preset"] == "plain"
    is_reached = own_gap <= task["gap"] if is_plain else result.status is Status.OPTIMAL
    return {
        **_outcome(result, problem),
        "is_reached": is_reached,
        "own_gap": own_gap if is_plain else result.gap,
        "iterations": max((row["iteration"] + 1 for row in steps), default=0),
        "steps": [
            {key: row[key] for key in STEP_FIELDS} | {"upper_bound": row["upper_bound"] if row["gap"] < 1 else None}
            for row in steps
        ],
        "blocks": [
            {key: row[key] for key in ("component", "sizes", "attached", "iterations_to_feasibility", "boundary")}
            for row in blocks
        ],
        "troubles": [
            row["trouble"] if row["stage"] == "trouble" else row["reason"]
            for row in result.trace.rows
            if row["stage"] in ("trouble", "gave up")
        ],
    }


STEP_FIELDS = (
    "component",
    "iteration",
    "seconds",
    "lower_bound",
    "gap",
    "infeasible_blocks",
    "master_rows",
    "master_seconds",
    "block_seconds",
)


def classic(task: Task, data: Datasets) -> dict[str, Any]:
    """Solve as one linear program, with all rows as in the paper's comparison, or with rows that enter when needed."""
    problem = _problem(task, data)
    result = solve(
        problem,
        method="direct",
        options=CLASSIC[task["method"]],
        gap=task["gap"],
        time_limit=task["limit"],
        threads=THREADS,
    )
    steps = [row for row in result.trace.rows if row["stage"] == "direct"]
    is_solved = bool(steps) and all(row["solver"] == "Optimal" for row in steps) and result.status is Status.OPTIMAL
    return {
        **_outcome(result, problem),
        "is_reached": is_solved or not steps,
        "lp_iterations": sum(row["lp_iterations"] for row in steps),
        "lp_rows": max((row["rows"] for row in steps), default=0),
    }


def best(task: Task, data: Datasets) -> dict[str, Any]:
    """Solve by the method that suits the problem, and compare with the exponential mechanism."""
    problem = _problem(task, data)
    result = solve(problem, method="auto", gap=task["gap"], time_limit=task["limit"], threads=THREADS)
    return {
        **_outcome(result, problem),
        "is_reached": result.status is Status.OPTIMAL,
        "exponential_loss": table_loss(exponential(problem).table, problem),
        "cheapest_loss": float(problem.costs.min(axis=1).sum()),
        "chosen": sorted({row["method"] for row in result.trace.rows if row["stage"] == "choice"}),
    }


def _outcome(result: Result, problem: Problem) -> dict[str, Any]:
    graph = problem.graph
    return {
        "status": result.status.value,
        "seconds": result.seconds,
        "lower_bound": result.lower_bound,
        "loss": result.loss,
        "gap": result.gap,
        "certified": result.mechanism.certificate.privacy.certified,
        "records": problem.n_records,
        "outputs": problem.n_outputs,
        "pairs": graph.n_pairs,
        "components": graph.n_components,
        "largest_component": max(len(rows) for rows in graph.components),
        "eta": problem.eta,
        "peak_mb": result.peak_mb,
    }


KINDS: dict[str, Callable[[Task, Datasets], dict[str, Any]]] = {
    "sizes": sizes,
    "picture": picture,
    "decompose": decompose,
    "classic": classic,
    "best": best,
}
