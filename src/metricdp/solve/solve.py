"""The facade: components apart, one solver for each, then repair, certificate and bounds."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.errors import InputError
from metricdp.mechanism.baselines import constant_matrix, exponential_matrix
from metricdp.mechanism.mechanism import Mechanism, Optimality, table_loss
from metricdp.mechanism.repair import repair
from metricdp.metric.closure import kernel_threads
from metricdp.partition import Partition, make_partition
from metricdp.solve.benders import BendersOptions, solve_by_benders
from metricdp.solve.bounds import RowDuals, lower_bound
from metricdp.solve.checkpoint import Checkpoint, fingerprint
from metricdp.solve.components import Component
from metricdp.solve.direct import DirectOptions, solve_component
from metricdp.solve.executor import Workers, workers
from metricdp.solve.result import Result, Status, Trace, peak_megabytes
from metricdp.solve.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor
    from pathlib import Path

    from numpy.typing import NDArray

    from metricdp.metric.graph import MdpGraph
    from metricdp.problem.problem import Problem

METHODS = ("auto", "direct", "benders")
NOTHING = 1e-7  # of the loss of always reporting one place: differences below are beyond floats and beyond use
DIRECT_BELOW = 30  # records: smaller components are one small linear program


def solve(
    problem: Problem,
    *,
    method: str = "auto",
    gap: float = 0.01,
    time_limit: float | None = None,
    threads: int | None = None,
    direct: DirectOptions | None = None,
    benders: BendersOptions | None = None,
    partition: str = "k-m-dv",
    n_blocks: int | None = None,
    seed: int = 0,
    executor: Executor | None = None,
    cluster: str | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    listener: Callable[[dict[str, Any]], None] | None = None,
) -> Result:
    """Find the mechanism with the least expected loss, certified private and optimal within a proven gap.

    Ctrl-C ends the search within seconds and gives the best certified mechanism so far, as a time limit does.

    Parameters
    ----------
    problem
        What to solve.
    method
        ``"direct"``: one linear program per component. ``"benders"``: the seed's decomposition. ``"auto"`` chooses.
    gap
        The relative gap below which the result counts as optimal. So does a loss within 1e-7 of the bound, in units of
        the loss of always reporting one place: at very weak privacy the loss itself is that small.
    time_limit
        Seconds after which the best certified mechanism so far is returned, with status LIMIT.
    threads
        Threads of the kernels and of subproblems; all cores by default. The answer does not depend on it.
    direct, benders
        Options of the methods.
    partition, n_blocks, seed
        How the records are divided for ``"benders"``: the partitioner, the number of blocks, its seed.
    executor, cluster
        Where subproblems run: any ``concurrent.futures.Executor``, or the address of a Dask scheduler.
    checkpoint, resume
        A folder to write progress to after every iteration of ``"benders"``, and whether to go on from it.
    listener
        Called with each row of the trace as it comes.

    Examples
    --------
    >>> import metricdp as mdp
    >>> problem = mdp.Problem(mdp.data.grid(2, 2), epsilon=1.0, eta=1.0, outputs=4)
    >>> result = mdp.solve(problem, gap=1e-6)
    >>> result.status.value, round(result.loss, 6)
    ('optimal', 0.495513)
    """
    _check_options(method, gap, time_limit, threads)
    if resume and checkpoint is None:
        raise InputError("resume needs the folder of a checkpoint: name it with checkpoint")
    trace, stop = Trace(listener), Stop(time_limit)
    merged = _Merged.of(problem)
    trace.add(stage="start", **_start_fields(problem, merged))
    with (
        kernel_threads(threads),
        stop.on_interrupt(),
        workers(executor=executor, cluster=cluster, threads=threads) as crew,
    ):
        if method == "benders":
            plan = _BendersPlan.of(
                problem, merged, benders or BendersOptions(), method=partition, n_blocks=n_blocks, seed=seed
            )
            plan.open(checkpoint, resume=resume, parts=(problem.epsilon, merged.costs, merged.graph.distances))
        else:
            plan = None
        found = _solve_components(
            merged, problem.epsilon, direct or DirectOptions(), plan, gap=gap, crew=crew, trace=trace, stop=stop
        )
        mechanism = _certified(problem, merged, found, "benders" if plan else "direct")
    optimality = mechanism.optimality or Optimality(math.inf, found.lower_bound)
    is_reached = optimality.gap <= gap or optimality.loss - optimality.lower_bound <= NOTHING * _constant_loss(problem)
    trace.add(stage="certified", lower_bound=optimality.lower_bound, loss=optimality.loss, gap=optimality.gap)
    return Result(
        status=Status.OPTIMAL if is_reached else Status.FAILED if found.is_complete else Status.LIMIT,
        problem=problem,
        mechanism=mechanism,
        lower_bound=optimality.lower_bound,
        loss=optimality.loss,
        method="benders" if plan else "direct",
        iterations=found.iterations,
        seconds=time.perf_counter() - trace.begin,
        peak_mb=peak_megabytes(),
        trace=trace,
        partition=plan.partition if plan else None,
        cuts=found.cuts if plan else None,
    )


@dataclass(frozen=True)
class _Merged:
    """The problem with records at distance 0 merged: they must have equal rows."""

    group: NDArray[np.int64]
    graph: MdpGraph
    costs: NDArray[np.float64]
    cost_roundings: int

    @classmethod
    def of(cls, problem: Problem) -> _Merged:
        group, graph = problem.graph.merged()
        costs = np.zeros((graph.n, problem.n_outputs))
        np.add.at(costs, group, problem.costs)
        return cls(group, graph, costs, 1 + int(np.bincount(group).max()))


@dataclass
class _BendersPlan:
    """How to decompose: the options, and one partition of all records, which each component takes its part of."""

    options: BendersOptions
    partition: Partition
    checkpoint: Checkpoint | None = None

    @classmethod
    def of(
        cls, problem: Problem, merged: _Merged, options: BendersOptions, *, method: str, n_blocks: int | None, seed: int
    ) -> _BendersPlan:
        first = np.unique(merged.group, return_index=True)[1]
        partition = make_partition(
            problem.records,
            problem.metric,
            merged.graph,
            rows=first,
            method=method,
            n_blocks=n_blocks,
            seed=seed,
            separator=options.separator,
        )
        return cls(options, partition)

    def open(self, folder: str | Path | None, *, resume: bool, parts: tuple[object, ...]) -> None:
        if folder is not None:
            own = fingerprint(*parts, self.partition.block_of, replace(self.options, max_iterations=1))
            self.checkpoint = Checkpoint(folder, own, resume=resume)

    def part(self, component: Component, rows: NDArray[np.int64]) -> Partition:
        return Partition(
            component.graph, self.partition.block_of[rows], self.partition.name, separator=self.options.separator
        )


@dataclass(frozen=True)
class _Found:
    """The components' matrices put together, a bound on the whole, and the groups that a limit cut off."""

    Z: NDArray[np.float64]
    lower_bound: float
    unfinished: NDArray[np.bool_]
    iterations: int
    cuts: int

    @property
    def is_complete(self) -> bool:
        return not self.unfinished.any()


def _solve_components(
    merged: _Merged,
    epsilon: float,
    direct: DirectOptions,
    plan: _BendersPlan | None,
    *,
    gap: float,
    crew: Workers,
    trace: Trace,
    stop: Stop,
) -> _Found:
    graph, costs = merged.graph, merged.costs
    Z = np.zeros(costs.shape)
    unfinished = np.zeros(graph.n, dtype=bool)
    # a component of one record puts all its mass on its cheapest output
    alone = np.array([rows[0] for rows in graph.components if len(rows) == 1], dtype=np.int64)
    Z[alone, costs[alone].argmin(axis=1)] = 1.0
    bounds = [lower_bound(costs[alone], RowDuals.none(), cost_roundings=merged.cost_roundings)] if len(alone) else []
    iterations = cuts = 0
    several = [(number, rows) for number, rows in enumerate(graph.components) if len(rows) > 1]
    for number, rows in sorted(several, key=lambda item: len(item[1])):
        component = Component(costs[rows], graph.subgraph(rows), epsilon, merged.cost_roundings, number)
        divided = plan.part(component, rows) if plan is not None and component.n >= DIRECT_BELOW else None
        if plan is None or divided is None or divided.n_blocks == 1:
            found = solve_component(component, options=direct, trace=trace, stop=stop)
        else:
            found = solve_by_benders(
                component,
                divided,
                options=plan.options,
                gap=gap,
                workers=crew,
                trace=trace,
                stop=stop,
                checkpoint=plan.checkpoint,
            )
        Z[rows] = found.Z
        unfinished[rows] = not found.is_complete
        bounds.append(found.lower_bound)
        iterations, cuts = max(iterations, found.iterations), cuts + found.cuts
    return _Found(Z, max(0.0, math.nextafter(math.fsum(bounds), -math.inf)), unfinished, iterations, cuts)


def _certified(problem: Problem, merged: _Merged, found: _Found, solver: str) -> Mechanism:
    """Repair what was found, and what a simple mechanism gives where a limit cut the search off; certify the better."""
    candidates = [found.Z[merged.group]]
    if not found.is_complete:
        simple = _simple_matrix(problem)
        cut_off = found.unfinished[merged.group][:, None]
        candidates.append(np.where(cut_off, simple, candidates[0]))
    tables = [repair(Z, problem.graph, problem.epsilon, costs=problem.costs) for Z in candidates]
    losses = [table_loss(table, problem) for table in tables]
    best = int(np.argmin(losses))
    return Mechanism.of(
        problem,
        tables[best],
        optimality=Optimality(losses[best], min(found.lower_bound, losses[best])),
        solver=solver if best == 0 else f"{solver}, cut off; exponential mechanism where unfinished",
    )


def _simple_matrix(problem: Problem) -> NDArray[np.float64]:
    try:
        return exponential_matrix(problem)
    except InputError:  # the metric cannot measure to these outputs
        return constant_matrix(problem)


def _constant_loss(problem: Problem) -> float:
    """Give the loss of the best mechanism that says nothing at all: everybody reports one place."""
    return float(problem.costs.sum(axis=0).min())


def _start_fields(problem: Problem, merged: _Merged) -> dict[str, Any]:
    """Give the sizes, and the smallest and largest epsilon d: rows have the coefficients 1 and exp of these."""
    exponents = problem.epsilon * problem.graph.distances if problem.graph.n_pairs else np.zeros(1)
    return {
        "records": problem.n_records,
        "merged": merged.graph.n,
        "outputs": problem.n_outputs,
        "pairs": problem.graph.n_pairs,
        "components": merged.graph.n_components,
        "largest_component": max(len(rows) for rows in merged.graph.components),
        "exponents": (float(exponents.min()), float(exponents.max())),
    }


def _check_options(method: str, gap: float, time_limit: float | None, threads: int | None) -> None:
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}: choose one of {', '.join(METHODS)}")
    if not (math.isfinite(gap) and gap >= 0):
        raise InputError(f"gap must be zero or positive, got {gap}: 0.01 means one percent")
    if time_limit is not None and not time_limit > 0:
        raise InputError(f"time_limit must be positive, got {time_limit}: give seconds")
    if threads is not None and threads < 1:
        raise InputError(f"threads must be at least 1, got {threads}")
