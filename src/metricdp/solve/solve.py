"""The facade: components apart, one solver for each, then repair, certificate and bounds."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.errors import InputError
from metricdp.mechanism.mechanism import Mechanism
from metricdp.metric.closure import kernel_threads
from metricdp.partition import PARTITIONERS
from metricdp.solve.benders import BendersOptions
from metricdp.solve.columns import ColumnOptions
from metricdp.solve.direct import DirectOptions
from metricdp.solve.dispatch import Merged, Plan, solve_components
from metricdp.solve.ending import Ending, certified, is_reached, reached_by
from metricdp.solve.executor import Cluster, workers
from metricdp.solve.firstorder import FirstOrderOptions
from metricdp.solve.memory import cap_bytes, check_method_memory, columns_fit
from metricdp.solve.result import Result, Status, Trace, peak_megabytes
from metricdp.solve.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor
    from pathlib import Path

    from numpy.typing import NDArray

    from metricdp.problem.problem import Problem

METHODS = ("auto", "direct", "benders", "columns", "kernel", "first-order")
CHECKPOINTED = ("benders", "columns", "first-order")
GAVE_UP = ("infeasible", "gave up")  # rows of the trace that say that it was not a limit that ended a method


def solve(
    problem: Problem,
    *,
    method: str = "auto",
    gap: float = 0.01,
    time_limit: float | None = None,
    threads: int | None = None,
    direct: DirectOptions | None = None,
    benders: BendersOptions | None = None,
    columns: ColumnOptions | None = None,
    first_order: FirstOrderOptions | None = None,
    partition: str = "k-m-dv",
    n_blocks: int | None = None,
    seed: int = 0,
    executor: Executor | None = None,
    cluster: str | Cluster | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    start: Mechanism | NDArray[np.float64] | None = None,
    listener: Callable[[dict[str, Any]], None] | None = None,
) -> Result:
    """Find the mechanism with the least expected loss, certified private and optimal within a proven gap.

    Ctrl-C or SIGTERM ends the search within seconds and gives the best certified mechanism so far, as a time limit
    does; a second one ends for good.

    Parameters
    ----------
    problem
        What to solve.
    method
        ``"direct"``: one linear program per component. ``"benders"``: the paper's decomposition. ``"columns"``: column
        generation. ``"kernel"``: the best mixture of kernels, at once. ``"first-order"``: matrix-free iterations, for
        whole cities. ``"auto"`` chooses for each component.
    gap
        The relative gap below which the result counts as optimal. So does a loss within 1e-7 of the bound, in units of
        the loss of always reporting one place: at very weak privacy the loss itself is that small.
    time_limit
        Seconds after which the best certified mechanism so far is returned, with status LIMIT. The last repair and the
        exact certificate are part of them.
    threads
        Threads of the kernels and of subproblems; all cores by default. The answer does not depend on it.
    direct, benders, columns, first_order
        Options of the methods.
    partition, n_blocks, seed
        How the records are divided for ``"benders"``: the partitioner, the number of blocks, its seed.
    executor, cluster
        Where subproblems run: any ``concurrent.futures.Executor``, or a Dask cluster by the address of its scheduler
        (a `Cluster` for an encrypted connection). Their answers are checked and every bound is computed here; all the
        same, a cluster must be trusted, since Dask lets workers and scheduler run code in this process.
    checkpoint, resume
        A folder to write progress to while ``"benders"``, ``"columns"`` or ``"first-order"`` runs, and whether to go on
        from it. Nothing in the folder is trusted: bounds are computed again. One run at a time uses a folder.
    start
        For ``"columns"``: a mechanism or matrix of the same shape whose columns to start from.
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
    _check_benders(method, partition, n_blocks, checkpoint, resume=resume)
    trace, stop = Trace(listener), Stop(time_limit)
    crew_of = workers(executor=executor, cluster=cluster, threads=threads)
    with kernel_threads(threads), stop.on_interrupt(), crew_of as crew, ExitStack() as stack:
        merged = Merged.of(problem)
        plan = Plan(
            method,
            problem,
            merged,
            direct or DirectOptions(),
            benders or BendersOptions(),
            columns or ColumnOptions(),
            first_order or FirstOrderOptions(),
            partition,
            n_blocks,
            seed,
            first=_first_matrix(start, problem, merged),
            stop=stop,
        )
        check_method_memory(problem, method, METHODS, gap=gap, first_order=plan.first_order)
        stop.most_bytes = cap_bytes(problem)
        ending = Ending() if time_limit is None else Ending.estimated(problem)
        stop.keep_back(ending.kept_back(stop.time_limit))
        stack.enter_context(plan.opened(checkpoint, resume=resume, trace=trace))
        trace.add(stage="start", **_start_fields(problem, merged))
        found = [solve_components(plan, gap=gap, crew=crew, trace=trace, stop=stop)]
        mechanism = certified(problem, merged, found, method, gap=gap, stop=stop, ending=ending)
        proved = reached_by(mechanism)
        is_optimal = is_reached(proved.loss, proved.lower_bound, problem, gap)
        has_room = columns_fit(merged.graph.n, problem.n_outputs, merged.graph.n_pairs)
        if method == "auto" and not is_optimal and not stop.is_due and not plan.is_large and has_room:
            # at very weak privacy the floor of the LP shows, and columns need none; first-order iterations may stall
            tried = sorted({row["method"] for row in trace.rows if row["stage"] == "choice"}) or ["direct"]
            reason = f"the gap is {proved.gap:.2g} after {' and '.join(tried)}"
            trace.add(stage="choice", method="columns", reason=reason)
            plan.method, plan.first = "columns", found[0].Z
            found.append(solve_components(plan, gap=gap, crew=crew, trace=trace, stop=stop))
            mechanism = certified(problem, merged, found, method, gap=gap, stop=stop, ending=ending)
            proved = reached_by(mechanism)
            is_optimal = is_reached(proved.loss, proved.lower_bound, problem, gap)
    for trouble in dict.fromkeys(crew.refusals):
        trace.add(stage="trouble", trouble=f"a worker's answer was refused and its task done here: {trouble}")
    check = mechanism.certificate.privacy
    trace.add(
        stage="certificate",
        pairs=check.n_pairs,
        outputs=check.n_outputs,
        check_seconds=round(check.seconds, 4),
    )
    trace.add(stage="certified", lower_bound=proved.lower_bound, loss=proved.loss, gap=proved.gap)
    has_failed = all(one.is_complete for one in found) or any(row["stage"] in GAVE_UP for row in trace.rows)
    return Result(
        status=Status.OPTIMAL if is_optimal else Status.FAILED if has_failed else Status.LIMIT,
        problem=problem,
        mechanism=mechanism,
        lower_bound=proved.lower_bound,
        loss=proved.loss,
        method=method,
        iterations=max(one.iterations for one in found),
        seconds=time.perf_counter() - trace.begin,
        peak_mb=peak_megabytes(),
        trace=trace,
        partition=plan.partition,
        cuts=found[0].cuts if method == "benders" else None,
    )


def _first_matrix(
    start: Mechanism | NDArray[np.float64] | None, problem: Problem, merged: Merged
) -> NDArray[np.float64] | None:
    """Give a starting matrix of the merged records: merged ones take the row of their first."""
    if start is None:
        return None
    Z = start.probabilities if isinstance(start, Mechanism) else np.asarray(start, dtype=np.float64)
    if Z.shape != problem.costs.shape:
        raise InputError(f"start must have shape {problem.costs.shape}, got {Z.shape}: solve the same problem again")
    return Z[np.unique(merged.group, return_index=True)[1]]


def _start_fields(problem: Problem, merged: Merged) -> dict[str, Any]:
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


def _check_benders(
    method: str, partition: str, n_blocks: int | None, checkpoint: str | Path | None, *, resume: bool
) -> None:
    """Check the options of the decomposition, also when another method would not look at them."""
    if partition not in PARTITIONERS:
        raise InputError(f"unknown partitioner {partition!r}: choose one of {', '.join(PARTITIONERS)}")
    if n_blocks is not None and n_blocks < 1:
        raise InputError(f"n_blocks must be at least 1, got {n_blocks}")
    if resume and checkpoint is None:
        raise InputError("resume needs the folder of a checkpoint: name it with checkpoint")
    if checkpoint is not None and method not in CHECKPOINTED:
        raise InputError(f"checkpoints are written by the methods {', '.join(CHECKPOINTED)}, not by {method!r}")
