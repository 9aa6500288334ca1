"""Rates of sparse tables, every place of a city an output: exact check, draws, blocks; draws of short and long rows."""

from __future__ import annotations

import resource
import time
from typing import TYPE_CHECKING

import numpy as np
from sklearn.neighbors import BallTree

from benchmarks.measure import interleaved
from benchmarks.privacy_rates import city
from metricdp.mechanism.certify import check_privacy
from metricdp.mechanism.sample import system_bits
from metricdp.mechanism.sample_sparse import draw_sparse, sparse_steps
from metricdp.mechanism.sparse import SparseTable
from metricdp.metric import CoordinateMetric, MdpGraph
from metricdp.metric.closure import kernel_threads

if TYPE_CHECKING:
    import metricdp as mdp

EPSILON, ETA, REACH = 10.0, 0.3, 18.0  # per km, km, and epsilon times the radius of what is stored
EARTH_RADIUS_KM = 6371.0088
ROWS_AT_ONCE = 1_000
TOTAL = 2.0**63


def exponential_table(records: mdp.Records) -> SparseTable:
    """Return the exponential mechanism down to exp(-REACH), the same for all records beyond: private at 2 EPSILON."""
    points = np.radians(records.coordinates)
    tree, floor = BallTree(points, metric="haversine"), np.exp(-REACH)
    columns, weights, lengths, scale = [], [], [], []
    for start in range(0, records.n, ROWS_AT_ONCE):
        found, distances = tree.query_radius(
            points[start : start + ROWS_AT_ONCE], REACH / EPSILON / EARTH_RADIUS_KM, return_distance=True
        )
        for near, distance in zip(found, distances, strict=True):
            order = np.argsort(near)
            local = np.maximum(np.exp(-EPSILON * EARTH_RADIUS_KM * distance[order]) - floor, 0.0)
            unit = TOTAL * (1 - 1e-9) / (local.sum() + records.n * floor)  # of a weight of 1
            columns.append(near[order].astype(np.int32))
            weights.append(np.maximum(local * unit, 1.0).astype(np.uint64))
            lengths.append(len(near))
            scale.append(int(unit * floor / 1024))
    indptr, scales = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64), np.array(scale, dtype=np.uint64)
    flat, background = np.concatenate(weights), np.full(records.n, 1024, dtype=np.uint64)
    stored = np.add.reduceat(flat, indptr[:-1])
    rest = np.uint64(1 << 63) - scales * np.uint64(1024 * records.n) - stored
    largest = indptr[:-1] + [int(w.argmax()) for w in weights]
    flat[largest] += rest
    return SparseTable(indptr, np.concatenate(columns), flat, background, scales)


def run(n: int | None = None, n_draws: int = 1_000_000) -> dict:
    records = city(n)
    table = exponential_table(records)
    graph = MdpGraph.of(records, CoordinateMetric("haversine"), ETA)
    print(
        f"{records.n:,} records, {table.n_stored:,} stored weights, at most {table.longest:,}, {graph.n_pairs:,} pairs"
    )
    begin, cpu = time.perf_counter(), time.process_time()
    check = check_privacy(table, graph.pairs, graph.distances, 2.001 * EPSILON)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    merged = check.n_compared / 2
    print(
        f"certificate: {merged:,.0f} outputs of pairs in {seconds:.1f} s ({cpu:.1f} s of processors), "
        f"{merged / seconds / 1e6:.0f} million / s, certified {check.certified}"
    )
    steps, lengths = sparse_steps(table), np.diff(table.indptr)
    by_length, generator = np.argsort(lengths), np.random.default_rng(2)
    few = max(1, records.n // 1000)
    rows = {
        "all records": generator.integers(0, records.n, n_draws),
        "records with the shortest rows": generator.choice(by_length[:few], n_draws),
        "records with the longest rows": generator.choice(by_length[-few:], n_draws),
    }
    bits = system_bits(n_draws)
    processor = {name: [] for name in rows}
    with kernel_threads(1):  # processor seconds of one thread, in turn, so that other work on the machine matters least
        for _ in range(6):
            for name, chosen in rows.items():
                before = time.process_time()
                draw_sparse(steps, chosen, bits=lambda count: bits[:count])
                processor[name].append((time.process_time() - before) / n_draws)
    each = {name: min(seconds[1:]) for name, seconds in processor.items()}  # the first call compiles
    for name, seconds in each.items():
        print(f"draws, {name}: {1e9 * seconds:.0f} ns of one processor each")
    whole = interleaved({"draws": lambda: draw_sparse(steps, rows["all records"])})["draws"]
    print(f"draws, all records, with the system's bits: {n_draws / whole.median / 1e6:.2f} million / s")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"largest memory: {memory:.0f} MB")
    return {
        "stored": table.n_stored,
        "merged_per_second": merged / seconds,
        "certify_seconds": seconds,
        "certify_processor_seconds": cpu,
        "draws_per_second": n_draws / whole.median,
        **{f"seconds per draw, {name}": seconds for name, seconds in each.items()},
    }
