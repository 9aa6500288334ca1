"""The tasks that experiments share; the same task is done once for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from papers.qiu2024.published import DATASETS
from papers.qiu2024.scale import EPSILON, GAP
from papers.qiu2024.store import Task

if TYPE_CHECKING:
    from papers.qiu2024.bench import Bench

SIZED_DATASETS = ("road", "grid", "grid 1.5", "text", "synthetic")  # with the cells of the published code
CLASSIC_METHODS = ("dual simplex", "interior point", "lazy rows")
RECORDS_PER_BLOCK = 20


def base(
    bench: Bench, dataset: str, instance: int, *, n: int | None = None, epsilon: float = EPSILON
) -> dict[str, Any]:
    """Return the fields that say which problem it is."""
    count = bench.scale.records if n is None else n
    return {
        "dataset": dataset,
        "road": bench.data.road_name if dataset.startswith("road") else "",
        "n": count,
        "outputs": min(bench.scale.outputs, count),
        "instance": instance,
        "epsilon": epsilon,
    }


def size_task(bench: Bench, dataset: str, method: str, instance: int, n_blocks: int | None = None) -> Task:
    """Return one partition, counted."""
    blocks = bench.scale.blocks if n_blocks is None else n_blocks
    return Task.of("sizes", **base(bench, dataset, instance), method=method, n_blocks=blocks)


def size_tasks(bench: Bench) -> list[Task]:
    """Return all partitions of the two tables of sizes."""
    return [
        size_task(bench, dataset, method, instance)
        for dataset in SIZED_DATASETS
        for instance in range(bench.scale.instances)
        for method in bench.partitioners
    ]


def decompose_task(
    bench: Bench,
    dataset: str,
    method: str,
    preset: str,
    instance: int,
    *,
    n: int | None = None,
    epsilon: float = EPSILON,
) -> Task:
    """Return one run of the decomposition; larger problems have as many blocks as the paper's ratio gives."""
    blocks = bench.scale.blocks if n in (None, bench.scale.records) else round(n / RECORDS_PER_BLOCK)
    return Task.of(
        "decompose",
        **base(bench, dataset, instance, n=n, epsilon=epsilon),
        method=method,
        preset=preset,
        n_blocks=blocks,
        gap=GAP,
        limit=bench.scale.plain_limit if preset == "plain" else bench.scale.limit,
    )


def decompose_tasks(bench: Bench, *presets: str) -> list[Task]:
    """Return every dataset, partitioner and instance."""
    return [
        decompose_task(bench, dataset, method, preset, instance)
        for dataset in DATASETS
        for instance in range(bench.scale.instances)
        for method in bench.partitioners
        for preset in presets
    ]


def classic_task(bench: Bench, dataset: str, method: str, instance: int, *, n: int | None = None) -> Task:
    """Return one run as a single linear program."""
    return Task.of("classic", **base(bench, dataset, instance, n=n), method=method, gap=GAP, limit=bench.scale.limit)


def classic_tasks(bench: Bench) -> list[Task]:
    """Return every dataset, LP method and instance."""
    return [
        classic_task(bench, dataset, method, instance)
        for dataset in DATASETS
        for instance in range(bench.scale.instances)
        for method in CLASSIC_METHODS
    ]


def best_task(bench: Bench, dataset: str, instance: int, *, n: int | None = None, epsilon: float = EPSILON) -> Task:
    """Return one run of the method that suits the problem."""
    return Task.of("best", **base(bench, dataset, instance, n=n, epsilon=epsilon), gap=GAP, limit=bench.scale.limit)
