"""The facade: one solver for each component, then repair, certificate and bounds."""

from __future__ import annotations

import importlib
import math
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from metricdp.errors import InputError, SolverError, StoppedError
from metricdp.mechanism.mechanism import Mechanism, Optimality
from metricdp.metric.closure import kernel_threads
from metricdp.problem.memory_model import most_bytes
from metricdp.problem.problem import Problem
from metricdp.solve import solvers as _solvers  # noqa: F401  (they register themselves)
from metricdp.solve.by_component import Found, solve_components
from metricdp.solve.checkpoint import Checkpoint, fingerprint
from metricdp.solve.contract import Context, Ended, WholeMethod, is_checkpointed, methods, solver_for
from metricdp.solve.division import Division
from metricdp.solve.ending import Ending, certified, has_room_for_matrices, is_reached, proved, reached_by
from metricdp.solve.executor import Cluster, workers
from metricdp.solve.memory import cap_bytes, check_method_memory
from metricdp.solve.merged import Merged
from metricdp.solve.result import Result, Status, Trace, peak_megabytes
from metricdp.solve.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor
    from pathlib import Path

    from numpy.typing import NDArray

    from metricdp.solve.contract import Method, Solver

METHODS = methods()
REFUTED = 1e-9  # relative: roundings of loss and bound are far smaller


def solve(
    problem: Problem,
    *,
    method: str = "auto",
    gap: float = 0.01,
    time_limit: float | None = None,
    threads: int | None = None,
    options: Any = None,
    executor: Executor | None = None,
    cluster: str | Cluster | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    start: Mechanism | NDArray[np.float64] | None = None,
    listener: Callable[[dict[str, Any]], None] | None = None,
) -> Result:
    """Find the mechanism with the least expected loss, certified private and optimal within a proven gap.

    Ctrl-C or SIGTERM ends the search within seconds and returns the best certified mechanism so far, as a time limit
    does; a second one ends the process.

    Parameters
    ----------
    problem
        What to solve.
    method
        ``"direct"``: one linear program per component. ``"interior"``: an interior point method by outputs, for small
        gaps. ``"first-order"``: matrix-free iterations, for whole cities. ``"local"``: the same on windows around each
        output, for thousands of outputs; it makes a sparse table. ``"auto"`` chooses among these. ``"columns"``: column
        generation. ``"kernel"``: the best mixture of kernels, at once. ``"benders"``: the paper's decomposition.
    gap
        The relative gap below which the result counts as optimal. So does a loss within 1e-7 of the bound, in units of
        the loss of always reporting one place: at very weak privacy the loss itself is that small.
    time_limit
        Seconds after which the best certified mechanism so far is returned, with status LIMIT. The last repair and the
        exact certificate are part of them.
    threads
        Threads of the kernels and of subproblems; all cores by default. The answer does not depend on it.
    options
        Options of the method: `DirectOptions`, `InteriorOptions`, `FirstOrderOptions`, `LocalOptions`, `ColumnOptions`
        or `BendersOptions`. Those of another method are refused.
    executor, cluster
        Where subproblems and regions run: any ``concurrent.futures.Executor``, or a Dask cluster by the address of its
        scheduler (a `Cluster` for an encrypted connection). Their answers are checked, and every bound is computed
        here, except for regions of ``"local"``: their bound is a sum of what workers answer. A cluster must be trusted
        in any case, since Dask lets workers and scheduler run code in this process.
    checkpoint, resume
        A folder to write progress to while ``"benders"``, ``"columns"``, ``"first-order"`` or ``"local"`` runs, and
        whether to go on from it. Nothing in the folder is trusted: bounds are computed again. One run at a time uses
        a folder.
    start
        A mechanism or matrix of the same shape that is the best so far, and whose columns ``"columns"`` starts from.
    listener
        Called with each new row of the trace.

    Examples
    --------
    >>> import metricdp as mdp
    >>> problem = mdp.Problem(mdp.data.grid(2, 2), epsilon=1.0, eta=1.0, outputs=4)
    >>> result = mdp.solve(problem, gap=1e-6)
    >>> result.status.value, round(result.loss, 6)
    ('optimal', 0.495513)
    """
    if not isinstance(problem, Problem):
        raise InputError(
            f"solve takes a Problem, got {type(problem).__name__}: make one with metricdp.Problem(records, "
            "epsilon=10.0, eta=2.0)"
        )
    asked, problem = problem, problem.at_one_epsilon
    solver = solver_for(method, options)
    _check_numbers(gap, time_limit, threads)
    _check_checkpoint(solver, checkpoint, resume=resume)
    for library in solver.libraries:
        importlib.import_module(library)
    trace, stop = Trace(listener), Stop(time_limit)
    crew_of = workers(executor=executor, cluster=cluster, threads=threads)
    with kernel_threads(threads), stop.on_interrupt(), crew_of as crew:
        merged = Merged.of(problem)
        if checkpoint is None:  # the choice of a method may take a while; with a checkpoint, its folder comes first
            trace.add(stage="start", **_start_fields(problem, merged))
        chosen = solver if checkpoint is not None or start is not None else solver.chosen_for(asked, gap)
        run = Context(gap, crew, trace, stop, Division(problem, merged, stop))
        if isinstance(chosen, WholeMethod):
            if start is not None:
                raise InputError(
                    f"the method {chosen.name!r} makes its own start: leave start out, or name another method"
                )
            if checkpoint is not None:
                trace.add(stage="start", **_start_fields(problem, merged))
            outcome = _solved_whole(problem, chosen, run, checkpoint, resume=resume)
            if chosen.alternative is not None and not outcome.is_optimal and not stop.is_due:
                outcome = _gone_on(problem, outcome, chosen.alternative.solver, run)
        else:
            outcome = _solved_by_component(problem, cast("Solver", chosen), run, checkpoint, start=start, resume=resume)
    for trouble in dict.fromkeys(crew.refusals):
        trace.add(stage="trouble", trouble=f"a worker's answer was refused and its task done locally: {trouble}")
    mechanism = outcome.mechanism
    if problem is not asked:
        # solved with one epsilon and scaled distances: the true rule is checked
        mechanism = Mechanism.of(asked, mechanism.table, optimality=mechanism.optimality, solver=mechanism.solver)
    proved, check = reached_by(mechanism), mechanism.certificate.privacy
    trace.add(
        stage="certificate",
        pairs=check.n_pairs,
        outputs=check.n_outputs,
        check_seconds=round(check.seconds, 4),
    )
    trace.add(stage="certified", lower_bound=proved.lower_bound, loss=proved.loss, gap=proved.gap)
    has_failed = outcome.has_failed and not stop.is_due  # the last repair may have been cut off by the limit
    return Result(
        status=Status.OPTIMAL if outcome.is_optimal else Status.FAILED if has_failed else Status.LIMIT,
        problem=asked,
        mechanism=mechanism,
        lower_bound=proved.lower_bound,
        loss=proved.loss,
        method=method,
        solver=outcome.solver,
        iterations=outcome.iterations,
        seconds=time.perf_counter() - trace.begin,
        peak_mb=peak_megabytes(),
        trace=trace,
        partition=solver.partition,
        cuts=outcome.cuts if method == "benders" else None,
        is_interrupted=stop.is_end_requested and not outcome.is_optimal,
    )


@dataclass(frozen=True)
class _Outcome:
    """A certified mechanism, and how it was found."""

    mechanism: Mechanism
    is_optimal: bool
    has_failed: bool
    solver: str
    iterations: int
    cuts: int = 0


def _solved_by_component(
    problem: Problem,
    solver: Solver,
    context: Context,
    checkpoint: str | Path | None,
    *,
    start: Mechanism | NDArray[np.float64] | None,
    resume: bool,
) -> _Outcome:
    """Solve on whole matrices, one component after the other."""
    gap, stop, trace, merged = context.gap, context.stop, context.trace, context.division.merged
    has_folder = checkpoint is not None
    with ExitStack() as stack:
        check_method_memory(problem, solver, gap=gap)
        first = _first_matrix(start, problem, merged)
        stop.most_bytes = cap_bytes(problem)
        ending = Ending() if math.isinf(stop.time_limit) else Ending.estimated(problem)
        stop.keep_back(ending.kept_back(stop.time_limit))
        try:
            solver.prepare(context)
        except StoppedError:
            checkpoint = None  # there is nothing to write
        if checkpoint is not None:
            opened = _opened(checkpoint, solver, merged, trace, resume=resume)
            context = replace(context, checkpoint=stack.enter_context(opened))
        if has_folder:
            trace.add(stage="start", **_start_fields(problem, merged))
        found = solve_components(solver, merged, context, start=first)
        ran = ", ".join(found.solvers) or solver.name
        mechanism = certified(problem, merged, found, ran, gap=gap, stop=stop, ending=ending)
    proved = reached_by(mechanism)
    is_optimal = is_reached(proved.loss, proved.lower_bound, problem, gap)
    return _Outcome(mechanism, is_optimal, found.has_failed, ran, found.iterations, found.cuts)


def _solved_whole(
    problem: Problem, method: WholeMethod, context: Context, checkpoint: str | Path | None, *, resume: bool
) -> _Outcome:
    """Solve on parts of the matrices, and certify the sparse table."""
    gap, stop, trace = context.gap, context.stop, context.trace
    method.check_memory(problem, gap, context.workers)
    if method.alternative is not None and not _fits(problem, method.alternative.solver, gap):
        method.alternative = None
    stop.most_bytes = most_bytes(problem.memory_limit)
    reason = "; ".join(filter(None, (method.prediction(problem, gap), method.reason)))
    trace.add(stage="choice", records=problem.n_records, method=method.name, reason=reason)
    if math.isfinite(stop.time_limit):
        stop.keep_back(Ending(check=method.seconds_of_check(problem, gap)).kept_back(stop.time_limit))
    with ExitStack() as stack:
        if checkpoint is not None:
            own = method.fingerprint(problem, gap)
            opened = Checkpoint(checkpoint, own, resume=resume, warn=_warning(trace))
            context = replace(context, checkpoint=stack.enter_context(opened))
        found = method.solve(problem, context)
    if found.lower_bound > found.loss * (1.0 + REFUTED):
        raise SolverError(
            f"the method {method.name!r} claimed a lower bound of {found.lower_bound:.6g}, and a private table loses "
            f"only {found.loss:.6g}: this is a fault of the library, please report it"
        )
    proof = Optimality(found.loss, min(found.lower_bound, found.loss))
    has_failed = found.ended not in (Ended.STOPPED, Ended.USED_UP)
    if not found.table.n_stored and proof.gap > gap and has_room_for_matrices(problem, stop):
        merged, ending = context.division.merged, Ending.estimated(problem)
        nothing = Found.nothing(merged, found)
        simple = certified(problem, merged, nothing, method.name, gap=gap, stop=stop, ending=ending)
        return _Outcome(simple, is_optimal=False, has_failed=has_failed, solver=simple.solver, iterations=found.steps)
    mechanism = Mechanism.of(problem, found.table, optimality=proof, solver=method.name)
    return _Outcome(mechanism, proof.gap <= gap, has_failed, method.name, found.steps)


def _gone_on(problem: Problem, found: _Outcome, solver: Solver, context: Context) -> _Outcome:
    """Solve on whole matrices after parts of them; return the better mechanism with the better bound.

    They make their own start: from the mechanism that was found steps took up to ten times as long.
    """
    before = reached_by(found.mechanism)
    reason = f"the gap is {100 * before.gap:.3g} % after {found.iterations:,} steps on windows"
    context.trace.add(stage="choice", records=problem.n_records, method=solver.name, reason=reason)
    other = _solved_by_component(problem, solver, context, None, start=None, resume=False)
    after = reached_by(other.mechanism)
    best = other.mechanism if after.loss <= before.loss else found.mechanism
    proof = proved(min(after.loss, before.loss), max(after.lower_bound, before.lower_bound), problem)
    return _Outcome(
        replace(best, optimality=proof),
        is_reached(proof.loss, proof.lower_bound, problem, context.gap),
        other.has_failed,
        f"{found.solver}, {other.solver}",
        found.iterations + other.iterations,
        other.cuts,
    )


def _fits(problem: Problem, solver: Solver, gap: float) -> bool:
    try:
        check_method_memory(problem, solver, gap=gap)
    except InputError:
        return False
    return True


def _opened(folder: str | Path, solver: Solver, merged: Merged, trace: Trace, *, resume: bool) -> Checkpoint:
    """Open the checkpoint of this problem, method and options."""
    graph = merged.graph
    own = fingerprint(solver.name, merged.epsilon, merged.costs, graph.pairs, graph.distances, solver.identity())
    return Checkpoint(folder, own, resume=resume, warn=_warning(trace))


def _warning(trace: Trace) -> Callable[[str], None]:
    return lambda trouble: trace.add(stage="checkpoint", trouble=trouble)


def _first_matrix(
    start: Mechanism | NDArray[np.float64] | None, problem: Problem, merged: Merged
) -> NDArray[np.float64] | None:
    """Return a starting matrix of the merged records: a group has the row of its first record."""
    if start is None:
        return None
    try:
        Z = (
            start.probabilities
            if isinstance(start, Mechanism)
            else np.asarray(start).astype(np.float64, casting="safe")
        )
    except (TypeError, ValueError):
        raise InputError("start must be a mechanism or a matrix of numbers") from None
    if Z.shape != problem.losses.shape:
        raise InputError(f"start must have shape {problem.losses.shape}, got {Z.shape}: solve the same problem again")
    if not (np.isfinite(Z).all() and (Z >= 0.0).all()):
        raise InputError("start must hold probabilities: finite numbers, none below 0")
    return Z[merged.first]


def _start_fields(problem: Problem, merged: Merged) -> dict[str, Any]:
    """Return the sizes, and the smallest and largest epsilon d: rows have the coefficients 1 and exp of these."""
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


def _check_numbers(gap: float, time_limit: float | None, threads: int | None) -> None:
    if not _is_number(gap) or not 0.0 <= gap < 1.0:
        raise InputError(f"gap must be at least 0 and below 1, got {gap!r}: 0.01 means one percent")
    if time_limit is not None and not (_is_number(time_limit) and time_limit > 0):
        raise InputError(f"time_limit must be positive, got {time_limit!r}: give seconds")
    if threads is not None and not (isinstance(threads, Integral) and threads >= 1):
        raise InputError(f"threads must be a whole number of at least 1, got {threads!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _check_checkpoint(solver: Method, checkpoint: str | Path | None, *, resume: bool) -> None:
    if checkpoint is not None and not str(checkpoint):
        raise InputError("checkpoint must name a folder, got nothing")
    if resume and checkpoint is None:
        raise InputError("resume needs the folder of a checkpoint: name it with checkpoint")
    if checkpoint is not None and not solver.is_checkpointed:
        able = [name for name in methods() if is_checkpointed(name)]
        raise InputError(f"checkpoints are written by the methods {', '.join(able)}, not by {solver.name!r}")
