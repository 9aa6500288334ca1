"""Into how many regions a problem is divided: as few as the memory allows, and enough for all workers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from metricdp.metric.simd import WIDTH
from metricdp.solve.solvers.local.counts import BYTES_PER_PAIR, OTHER_BYTES, slots_within

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from metricdp.solve.executor import Workers
    from metricdp.solve.solvers.local.counts import LocalCounts
    from metricdp.solve.solvers.local.problem import LocalProblem
    from metricdp.solve.solvers.local.regions.plan import Plan

FEWEST_RECORDS = 2_000  # of a region on workers: smaller ones spend more on the halo than on their own
REGIONS_PER_WORKER = 2  # so that none waits long for the last
SMALLEST_REGION = 64  # outputs: smaller ones are nothing but halo
# state and working copy of rows, costs, weights and reduced costs; of a multiplier with its anchor and its edge
BYTES_PER_ENTRY, BYTES_PER_MULTIPLIER = 44.0, 14.0
BYTES_PER_TABLE_ENTRY = 30.0  # columns, a copy, and sums
BYTES_PER_STORED = 12.0  # of the table here: an output and a weight
UNEVEN = 1.25  # the largest region against the mean
DASK_SHARE = 0.6  # of a worker's memory: beyond, Dask moves states to disk


def region_bytes(plan: Plan, counts: LocalCounts) -> float:
    """Return about what the largest region takes at one time, where it is worked on."""
    n, n_regions = plan.problem.n_records, plan.n_regions
    share = max(map(len, plan.seen)) / n
    steps = BYTES_PER_ENTRY * counts.entries * share + BYTES_PER_MULTIPLIER * counts.multipliers * share
    table = BYTES_PER_TABLE_ENTRY * counts.table_entries * UNEVEN / n_regions
    return max(steps, table)


def bytes_grown(plan: Plan, radius: NDArray[np.float64], sizes: list[tuple[int, int]]) -> float:
    """Return about what the largest region takes with windows of larger radii.

    ``sizes`` are the entries and multipliers of each region with the plan's own radii.
    """
    most = 0.0
    for owned, (entries, multipliers) in zip(plan.owned, sizes, strict=True):
        now, then = (slots_within(plan.nodes, some, owned) for some in (plan.radius, radius))
        taken = BYTES_PER_ENTRY * entries + BYTES_PER_MULTIPLIER * multipliers
        most = max(most, taken * then / max(now, 1.0))
    return most


def table_bytes(plan: Plan) -> float:
    """Return about what the largest region takes while its columns are closed."""
    entries = WIDTH * slots_within(plan.table_nodes, plan.table_radius)
    return BYTES_PER_TABLE_ENTRY * entries * UNEVEN / plan.n_regions


def room_of_region(workers: Workers, room: float) -> float:
    """Return the bytes that one region may take, where ``room`` are those that this process may still take."""
    limit = _worker_room(workers)
    if limit is not None:
        return limit
    return room if workers.is_own else room / n_workers(workers)


def own_bytes(problem: LocalProblem, counts: LocalCounts) -> float:
    """Return about what this process takes besides the regions: pairs and the table."""
    return OTHER_BYTES + BYTES_PER_PAIR * problem.graph.n_pairs + BYTES_PER_STORED * counts.table_entries


def regions_for(plan: Plan, counts: LocalCounts, workers: Workers, room: float) -> int:
    """Return the number of regions; 1 means that the problem is solved as a whole, 0 that nothing fits.

    ``plan`` has any number of regions; ``room`` are the bytes that this process may still take.
    """
    problem = plan.problem
    if plan.options.regions is not None:
        return plan.options.regions
    at_once = 1 if workers.is_own else n_workers(workers)
    if workers.is_own and counts.n_bytes <= room:
        return 1
    fewest = 2 if workers.is_own else min(REGIONS_PER_WORKER * at_once, problem.n_records // FEWEST_RECORDS)
    limit = room_of_region(workers, room - own_bytes(problem, counts))
    n_regions = max(fewest, 1)
    while True:
        if region_bytes(plan.with_regions(n_regions), counts) <= limit:
            return n_regions
        if n_regions * SMALLEST_REGION >= problem.n_outputs:
            return 0
        n_regions = max(n_regions + 1, int(1.5 * n_regions))


def n_workers(workers: Workers) -> int:
    """Return how many tasks run at the same time."""
    if workers.client is not None:
        return n_workers_of(workers.client)
    return int(getattr(workers.executor, "_max_workers", None) or os.cpu_count() or 1)


def n_workers_of(client: Any) -> int:
    """Return how many tasks a Dask cluster runs at the same time."""
    return max(1, sum(one["nthreads"] for one in client.scheduler_info(n_workers=-1)["workers"].values()))


def _worker_room(workers: Workers) -> float | None:
    """Return the bytes that a task of a Dask cluster may take; None for workers of this machine."""
    if workers.client is None:
        return None
    known = workers.client.scheduler_info(n_workers=-1)["workers"].values()
    rooms = [one["memory_limit"] / one["nthreads"] for one in known if one.get("memory_limit")]
    return DASK_SHARE * min(rooms, default=float("inf"))
