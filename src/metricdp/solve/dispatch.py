"""One solver for each component: what the user named, or what its size and privacy suggest."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import OutOfRoomError, SolverError, StoppedError
from metricdp.mechanism.mechanism import relative_gap
from metricdp.partition import Partition, make_partition
from metricdp.solve.benders import BendersOptions, solve_by_benders
from metricdp.solve.bounds import RowDuals, lower_bound
from metricdp.solve.checkpoint import Checkpoint, fingerprint
from metricdp.solve.choice import choose, most_first_order_steps
from metricdp.solve.columns import ColumnOptions, solve_by_columns, solve_by_kernels
from metricdp.solve.components import Component, ComponentSolution
from metricdp.solve.direct import DirectOptions, solve_component
from metricdp.solve.firstorder import FirstOrderOptions, solve_by_first_order
from metricdp.solve.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from metricdp.metric.graph import MdpGraph
    from metricdp.problem.problem import Problem
    from metricdp.solve.executor import Workers
    from metricdp.solve.result import Trace

DIRECT_BELOW = 30  # records: smaller components are one small linear program
MANY_PAIRS = 500_000
AT_ONCE = 20_000_000  # pairs times outputs: too large to be taken apart


@dataclass(frozen=True)
class Merged:
    """The problem with records at distance 0 merged: they must have equal rows."""

    group: NDArray[np.int64]
    graph: MdpGraph
    costs: NDArray[np.float64]
    cost_roundings: int

    @classmethod
    def of(cls, problem: Problem) -> Merged:
        """Merge the records of ``problem``."""
        group, graph = problem.graph.merged()
        if graph.n == problem.n_records:
            return cls(group, graph, problem.costs, 2)
        costs = np.zeros((graph.n, problem.n_outputs))
        np.add.at(costs, group, problem.costs)
        return cls(group, graph, costs, 1 + int(np.bincount(group).max()))


@dataclass
class Plan:
    """How to solve: the method, its options, and one partition of all records that components take their part of."""

    method: str
    problem: Problem
    merged: Merged
    direct: DirectOptions = field(default_factory=DirectOptions)
    benders: BendersOptions = field(default_factory=BendersOptions)
    columns: ColumnOptions = field(default_factory=ColumnOptions)
    first_order: FirstOrderOptions = field(default_factory=FirstOrderOptions)
    partitioner: str = "k-m-dv"
    n_blocks: int | None = None
    seed: int = 0
    first: NDArray[np.float64] | None = None
    partition: Partition | None = None
    checkpoint: Checkpoint | None = None
    stop: Stop = field(default_factory=Stop)

    @property
    def is_large(self) -> bool:
        """Whether the problem is too large to be taken apart, and for linear programs."""
        return self.merged.graph.n_pairs * self.merged.costs.shape[1] > AT_ONCE

    @contextmanager
    def opened(self, folder: str | Path | None, *, resume: bool, trace: Trace) -> Iterator[None]:
        """Divide the records if the method needs it, and open the checkpoint."""
        graph = self.merged.graph
        if self.method == "benders":
            try:
                self.partition = self.divide(np.arange(graph.n), graph, self.partitioner, self.n_blocks)
            except StoppedError:
                folder = None  # there is nothing to write
        if folder is not None:
            blocks = None if self.partition is None else self.partition.block_of
            options = (
                replace(self.benders, max_iterations=1),
                replace(self.columns, max_rounds=1),
                replace(self.first_order, max_iterations=1),
            )
            own = fingerprint(
                self.method, self.problem.epsilon, self.merged.costs, graph.pairs, graph.distances, blocks, options
            )

            def warn(trouble: str) -> None:
                trace.add(stage="checkpoint", trouble=trouble)

            with Checkpoint(folder, own, resume=resume, warn=warn) as self.checkpoint:
                yield
        else:
            yield

    def divide(self, groups: NDArray[np.int64], graph: MdpGraph, method: str, n_blocks: int | None) -> Partition:
        """Divide merged records ``groups`` with their ``graph``."""
        first = np.unique(self.merged.group, return_index=True)[1]
        return self.stop.waiting_for(
            lambda: make_partition(
                self.problem.records,
                self.problem.metric,
                graph,
                rows=first[groups],
                method=method,
                n_blocks=n_blocks,
                seed=self.seed,
                separator=self.benders.separator,
            )
        )

    def part(self, component: Component, groups: NDArray[np.int64]) -> Partition | None:
        """Give a component's part of the partition; None if it is too small to be divided."""
        if self.partition is None or component.n < DIRECT_BELOW:
            return None
        part = Partition(
            component.graph, self.partition.block_of[groups], self.partition.name, separator=self.benders.separator
        )
        return part if part.n_blocks > 1 else None

    def pieces(self, component: Component, groups: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Give the pieces of a component from which column generation starts."""
        n_pieces = max(1, round(component.n / self.columns.records_per_patch))
        if n_pieces == 1:
            return [np.arange(component.n)]
        method = "metis" if find_spec("pymetis") is not None else "k-m-rec"
        # which pieces does not matter much, and METIS cannot be broken off: of many pairs it is given the short ones
        graph = component.graph if component.graph.n_pairs <= MANY_PAIRS else component.graph.skeleton
        return self.divide(groups, graph, method, n_pieces).blocks


@dataclass(frozen=True)
class Found:
    """The components' matrices put together, a bound on the whole, and the groups that a limit cut off."""

    Z: NDArray[np.float64]
    lower_bound: float
    unfinished: NDArray[np.bool_]
    iterations: int
    cuts: int
    is_private: bool = False  # up to rounding

    @property
    def is_complete(self) -> bool:
        """Whether no limit cut anything off."""
        return not self.unfinished.any()


def solve_components(plan: Plan, *, gap: float, crew: Workers, trace: Trace, stop: Stop) -> Found:
    """Solve every component, small ones first."""
    graph, costs, roundings = plan.merged.graph, plan.merged.costs, plan.merged.cost_roundings
    if plan.method in ("auto", "first-order") and plan.is_large:
        return _solve_at_once(plan, gap=gap, crew=crew, trace=trace, stop=stop)
    Z = np.zeros(costs.shape)
    unfinished = np.zeros(graph.n, dtype=bool)
    # a component of one record puts all its mass on its cheapest output
    alone = np.array([rows[0] for rows in graph.components if len(rows) == 1], dtype=np.int64)
    Z[alone, costs[alone].argmin(axis=1)] = 1.0
    bounds = [lower_bound(costs[alone], RowDuals.none(), cost_roundings=roundings)] if len(alone) else []
    iterations, cuts, is_private = 0, 0, True
    several = [(number, rows) for number, rows in enumerate(graph.components) if len(rows) > 1]
    for number, rows in sorted(several, key=lambda item: len(item[1])):
        component = Component(costs[rows], graph.subgraph(rows), plan.problem.epsilon, roundings, number)
        try:
            found = _solve_one(plan, component, rows, gap=gap, crew=crew, trace=trace, stop=stop)
        except StoppedError:  # while something was being built
            found = ComponentSolution.nothing(component)
        except OutOfRoomError as error:
            trace.add(stage="gave up", component=component.number, records=component.n, reason=str(error))
            found = ComponentSolution.nothing(component)
        Z[rows] = found.Z
        is_private &= found.is_private
        unfinished[rows] = not found.is_complete
        bounds.append(found.lower_bound or ComponentSolution.nothing(component).lower_bound)
        iterations, cuts = max(iterations, found.iterations), cuts + found.cuts
    bound = max(0.0, math.nextafter(math.fsum(bounds), -math.inf))
    return Found(Z, bound, unfinished, iterations, cuts, is_private)


def _solve_at_once(plan: Plan, *, gap: float, crew: Workers, trace: Trace, stop: Stop) -> Found:
    """Solve all components together by first-order iterations: no part of a large graph is copied."""
    merged = plan.merged
    whole = Component(merged.costs, merged.graph, plan.problem.epsilon, merged.cost_roundings)
    reason = f"large: {whole.graph.n_pairs} pairs, {whole.n} x {whole.n_outputs}"
    trace.add(stage="choice", component=0, records=whole.n, method="first-order", reason=reason)
    try:
        found = _first_order(plan, whole, gap=gap, crew=crew, trace=trace, stop=stop, checkpoint=plan.checkpoint)
    except StoppedError:  # while something was being built
        found = ComponentSolution.nothing(whole)
    unfinished = np.full(whole.n, not found.is_complete)
    return Found(found.Z, found.lower_bound, unfinished, found.iterations, 0, found.is_private)


def _solve_one(  # noqa: PLR0911  (one return per method)
    plan: Plan,
    component: Component,
    groups: NDArray[np.int64],
    *,
    gap: float,
    crew: Workers,
    trace: Trace,
    stop: Stop,
) -> ComponentSolution:
    method, part, kernels = plan.method, plan.part(component, groups), None
    if component.n < DIRECT_BELOW:
        method = "direct"
    elif method == "auto":
        method, kernels = _choose(plan, component, gap=gap, crew=crew, trace=trace, stop=stop)
        if method == "kernel" and kernels is not None:
            return kernels
    if method == "first-order":
        return _first_order(
            plan,
            component,
            gap=gap,
            crew=crew,
            trace=trace,
            stop=stop,
            checkpoint=plan.checkpoint,
            start=kernels,
        )
    if method == "kernel":
        return solve_by_kernels(component, workers=crew, trace=trace, stop=stop, options=plan.columns)
    if method == "first-order, columns":
        return _first_order_then_columns(plan, component, gap=gap, crew=crew, trace=trace, stop=stop)
    if method == "columns":
        first = kernels.Z if kernels is not None else None if plan.first is None else plan.first[groups]
        return solve_by_columns(
            component,
            plan.pieces(component, groups),
            options=plan.columns,
            gap=gap,
            workers=crew,
            trace=trace,
            stop=stop,
            first=first,
            known_bound=0.0 if kernels is None else kernels.lower_bound,
            checkpoint=plan.checkpoint,
        )
    if method == "benders" and part is not None:
        return solve_by_benders(
            component,
            part,
            options=plan.benders,
            gap=gap,
            workers=crew,
            trace=trace,
            stop=stop,
            checkpoint=plan.checkpoint,
        )
    return _direct(plan, component, kernels, trace=trace, stop=stop)


def _direct(
    plan: Plan, component: Component, kernels: ComponentSolution | None, *, trace: Trace, stop: Stop
) -> ComponentSolution:
    try:
        found = solve_component(component, options=plan.direct, trace=trace, stop=stop)
        return found if kernels is None else _better(component, found, kernels)
    except StoppedError:
        if kernels is None:
            raise
        return replace(kernels, is_complete=False)
    except SolverError as error:
        # what is private is known without a solver: the facade's simple mechanisms, and the bound of no rows at all
        trace.add(stage="gave up", component=component.number, records=component.n, reason=str(error))
        if kernels is not None:
            return replace(kernels, is_complete=False)
        return ComponentSolution.nothing(component)


def _choose(
    plan: Plan, component: Component, *, gap: float, crew: Workers, trace: Trace, stop: Stop
) -> tuple[str, ComponentSolution | None]:
    """Choose a method; kernels are tried at once, and are what is chosen if they are enough."""

    def chosen(*, after_kernels: bool) -> str:
        method, reason = choose(component, gap, after_kernels=after_kernels)
        trace.add(stage="choice", component=component.number, records=component.n, method=method, reason=reason)
        return method

    method = chosen(after_kernels=False)
    if method != "kernel":
        return method, None
    found = solve_by_kernels(component, workers=crew, trace=trace, stop=stop, options=plan.columns)
    if not found.is_private:  # a limit or the LP solver ended it before there was a mechanism
        return chosen(after_kernels=True), None
    is_reached = relative_gap(_loss(component, found), found.lower_bound) <= gap
    if is_reached or stop.is_due:
        return method, replace(found, is_complete=is_reached)
    return chosen(after_kernels=True), found


def _better(component: Component, found: ComponentSolution, kernels: ComponentSolution) -> ComponentSolution:
    """Put a linear program's answer and the kernels' together: kernels are private, what was cut off need not be."""
    has_better_rows = found.is_complete and _loss(component, found) <= _loss(component, kernels)
    rows = found.Z if has_better_rows else kernels.Z
    is_private = found.is_private if has_better_rows else kernels.is_private
    return replace(found, Z=rows, lower_bound=max(found.lower_bound, kernels.lower_bound), is_private=is_private)


def _loss(component: Component, found: ComponentSolution) -> float:
    return math.fsum((component.costs * found.Z).ravel())


def _first_order(
    plan: Plan,
    component: Component,
    *,
    gap: float,
    crew: Workers,
    trace: Trace,
    stop: Stop,
    checkpoint: Checkpoint | None = None,
    start: ComponentSolution | None = None,
    most_steps: float = math.inf,
) -> ComponentSolution:
    return solve_by_first_order(
        component,
        options=plan.first_order,
        gap=gap,
        workers=crew,
        trace=trace,
        stop=stop,
        checkpoint=checkpoint,
        start=start,
        most_steps=most_steps,
    )


def _first_order_then_columns(
    plan: Plan, component: Component, *, gap: float, crew: Workers, trace: Trace, stop: Stop
) -> ComponentSolution:
    """Iterate; if that is slow, its columns and unit-sum duals are where column generation starts."""
    most = most_first_order_steps(component, plan.first_order.max_iterations)
    rough = _first_order(plan, component, gap=gap, crew=crew, trace=trace, stop=stop, most_steps=most)
    reached = relative_gap(_loss(component, rough), rough.lower_bound)
    if reached <= gap or stop.is_due:
        return replace(rough, is_complete=rough.is_private and reached <= gap)
    trace.add(stage="hand over", component=component.number, iteration=rough.iterations, gap=reached, most_steps=most)
    fine = solve_by_columns(
        component,
        [],
        options=plan.columns,
        gap=gap,
        workers=crew,
        trace=trace,
        stop=stop,
        first=rough.Z,
        centre=rough.unit_duals,
        known_bound=rough.lower_bound,
    )
    return replace(fine, iterations=rough.iterations + fine.iterations)
