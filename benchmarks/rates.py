"""Repair, certificate, sampling and loading against the memory bandwidth measured in the same run."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import metricdp as mdp
from benchmarks import methods
from benchmarks.instances import Instance
from benchmarks.measure import interleaved
from benchmarks.tables import table
from metricdp.mechanism.certify import check_privacy
from metricdp.mechanism.repair import repair
from metricdp.mechanism.sample import cumulative, draw

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.registry import Keep, Registry

N_DRAWS = 1_000_000  # reports in each timed call of the sampler
COPIED_FLOATS = 8_000_000  # 64 MB, far more than any cache


def run(registry: Registry, *, seed: int, keep: Keep, profile: bool = False) -> dict[str, Any]:  # noqa: ARG001  (the others' signature)
    """Measure all in turn on the largest instance; bytes are the least that each must read or write once."""
    instance = Instance("road", max(registry.sizes), registry.n_outputs, 4.0, seed)
    problem = instance.problem()
    mechanism = methods.solve(problem, "kernel", gap=0.99, time_limit=60.0).mechanism
    table_, graph = mechanism.table, problem.graph
    noisy = mechanism.probabilities * np.random.default_rng(seed).uniform(0.999, 1.001, table_.shape)
    steps = cumulative(table_)
    rows = np.random.default_rng(seed).integers(0, len(table_), N_DRAWS)
    buffer, target = np.ones(COPIED_FLOATS), np.zeros(COPIED_FLOATS)  # both touched: no page is new when it is timed
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mechanism.mdp"
        mechanism.save(file)
        contestants: dict[str, tuple[int, Callable[[], Any]]] = {
            "copy": (2 * buffer.nbytes, lambda: np.copyto(target, buffer)),
            "repair": (2 * table_.nbytes, lambda: repair(noisy, graph, problem.epsilon, costs=problem.costs)),
            "certify": (
                2 * graph.n_pairs * table_.shape[1] * 8,
                lambda: check_privacy(table_, graph.pairs, graph.distances, problem.epsilon),
            ),
            "sample": (N_DRAWS * table_.shape[1] * 8, lambda: draw(steps, rows)),
            "load": (file.stat().st_size, lambda: mdp.load(file)),
        }
        timings = interleaved({name: call for name, (_, call) in contestants.items()}, rounds=registry.repetitions)
    speed = {name: contestants[name][0] / timing.median for name, timing in timings.items()}
    found = {
        name: {
            "seconds": timing.seconds,
            "bytes": contestants[name][0],
            "bytes_per_second": speed[name],
            "of_bandwidth": speed[name] / speed["copy"],
        }
        for name, timing in timings.items()
    }
    head = ("what", "seconds", "bytes it must touch", "GB/s", "of the bandwidth")
    cells = [
        (
            n,
            str(timings[n]),
            f"{f['bytes']:,}",
            f"{f['bytes_per_second'] / 1e9:.2f}",
            f"{100 * f['of_bandwidth']:.1f} %",
        )
        for n, f in found.items()
    ]
    note = (
        f"{instance.name}, {graph.n_pairs:,} pairs. The table has {table_.nbytes / 1e6:.1f} MB and may stay in "
        "the cache: what reads it many times (certify, sample) can then be above the bandwidth of "
        "memory, which is no limit there."
    )
    markdown = f"{note}\n\n" + table(head, cells)
    print(markdown)
    return {"instance": instance.name, "rates": found, "markdown": markdown}
