"""Rates of the exact check, the sampler and the repair, against the memory bandwidth measured in the same run."""

from __future__ import annotations

import time

import numpy as np

import metricdp as mdp
from benchmarks.instances import rome_nodes
from benchmarks.measure import interleaved
from metricdp.mechanism.certify import check_privacy
from metricdp.mechanism.repair import repair
from metricdp.mechanism.sample import cumulative, draw, system_bits
from metricdp.metric import CoordinateMetric, MdpGraph

K = 100


def city(n: int | None) -> mdp.Records:
    """Return all of Rome if the data is available; otherwise points spread as densely over a square."""
    nodes = rome_nodes()
    if nodes is None:
        side = 0.36 * np.sqrt((n or 43_160) / 43_160)
        generator = np.random.default_rng(0)
        nodes = mdp.Records(np.array([41.7, 12.3]) + side * generator.random((n or 43_160, 2)))
    return nodes if n is None or n >= nodes.n else nodes.sample(n, seed=0)


def spread(records: mdp.Records, epsilon: float) -> np.ndarray:
    """Return half uniform, half exponential mechanism: private up to rounding by the triangle inequality."""
    outputs = np.random.default_rng(1).choice(records.n, K, replace=False)
    distances = CoordinateMetric("haversine").to_rows(records, outputs)
    weights = np.exp(-0.5 * epsilon * (distances - distances.min(axis=1, keepdims=True)))
    return 0.5 / K + 0.5 * weights / weights.sum(axis=1, keepdims=True)


def integers(Z: np.ndarray) -> np.ndarray:
    """Return floats as weights that sum to 2^63; not repaired: the check decides."""
    table = np.maximum(np.floor(Z * 2.0**63 * (1 - 1e-9)), 1).astype(np.uint64)
    table[np.arange(len(Z)), Z.argmax(axis=1)] += np.uint64(1 << 63) - table.sum(axis=1, dtype=np.uint64)
    return table


def run() -> dict:
    buffer = np.random.default_rng(0).random(30_000_000)
    copy = interleaved({"copy": buffer.copy})["copy"].median
    print(f"memory: {2 * buffer.nbytes / copy / 1e9:.1f} GB/s (copy)")
    records = city(None)
    begin = time.perf_counter()
    graph = MdpGraph.of(records, CoordinateMetric("haversine"), 2.0)
    print(f"city: {records.n:,} records, {graph.n_pairs:,} pairs found in {time.perf_counter() - begin:.1f} s")
    table = integers(spread(records, 5.0))
    begin = time.perf_counter()
    check = check_privacy(table, graph.pairs, graph.distances, 5.01)
    seconds = time.perf_counter() - begin
    constraints = 2 * graph.n_pairs * K
    print(
        f"certificate: {constraints:,} constraints in {seconds:.1f} s, {constraints / seconds / 1e6:.0f} million / s, "
        f"certified {check.certified}, {check.n_decided_exactly:,} by integers"
    )
    steps, rows = cumulative(table), np.random.default_rng(2).integers(0, len(table), 5_000_000)
    few = rows % 100
    timings = interleaved(
        {
            "draws, all records": lambda: draw(steps, rows),
            "draws, 100 records": lambda: draw(steps, few),
            "operating system's bits": lambda: system_bits(len(rows)),
        }
    )
    for name, timing in timings.items():
        print(f"{name}: {len(rows) / timing.median / 1e6:.1f} million / s")
    small = city(5_000)
    small_graph = MdpGraph.of(small, CoordinateMetric("haversine"), 2.0)
    Z = spread(small, 5.0) * np.random.default_rng(3).uniform(0.999, 1.001, (small.n, K))
    fixed = interleaved({"repair": lambda: repair(Z, small_graph, 5.0)})["repair"]
    print(f"repair of {small.n} x {K}, {small_graph.n_pairs:,} pairs: {fixed.median:.2f} s")
    return {
        "constraints_per_second": constraints / seconds,
        "certify_seconds": seconds,
        "draws_per_second": len(rows) / timings["draws, 100 records"].median,
        "repair_seconds": fixed.median,
        "bandwidth": 2 * buffer.nbytes / copy,
    }
