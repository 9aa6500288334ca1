"""Small files that would take minutes or gigabytes to load: the work follows from the size of the file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from tests.mechanism.test_files import pack, refused

import metricdp as mdp
from metricdp.mechanism.certify import check_privacy
from metricdp.metric import distances
from metricdp.metric.distances import CoordinateMetric
from metricdp.metric.graph import MdpGraph
from metricdp.metric.recount import recount_fault

TOTAL = 1 << 63


def flat(points, eta, metric="euclidean", kind="vectors", pairs=None):
    """A file of one output, which everybody reports: private whatever the pairs are."""
    n = len(points)
    pairs = np.zeros((0, 2), dtype="<i4") if pairs is None else pairs
    metadata = {
        "format": "metricdp-1", "epsilon": (1.0).hex(), "eta": float(eta).hex(), "metric": metric, "kind": kind,
        "name": "x", "ids": json.dumps([str(i) for i in range(n)]), "solver": "", "created": "",
    }  # fmt: skip
    tensors = {
        "table": np.full((n, 1), TOTAL, dtype="<u8"), "pairs": pairs, "distances": np.zeros(len(pairs)),
        "outputs": np.zeros(1, dtype="<i4"), "records": points.astype("<f8"), "prior": np.full(n, 1 / n),
    }  # fmt: skip
    return metadata, tensors


CASES = {
    "one spot": (np.zeros((3000, 2)), 1.0),
    "two spots at eta": (np.repeat([[0.0, 0.0], [1.0, 0.0]], 1500, axis=0), 1.0),
    "nearly eta": (np.repeat([[0.0, 0.0], [1.0 + 1e-12, 0.0]], 1500, axis=0), 1.0),
    "thirteen dimensions": (np.zeros((3000, 13)), 1.0),
    "three hundred dimensions": (np.zeros((800, 300)), 1.0),
    "far too far": (np.full((1000, 2), 1e200), 1e-3),
}


@pytest.mark.parametrize("name", CASES)
def test_pairs_that_a_file_leaves_out_are_noticed_before_all_are_listed(name, tmp_path, monkeypatch):
    points, eta = CASES[name]
    monkeypatch.setattr(distances, "PAIRS_AT_ONCE", 100_000)
    monkeypatch.setattr(distances, "CHUNK_ENTRIES", 100_000)
    monkeypatch.setattr(distances, "ROWS_AT_ONCE", 256)
    pack(tmp_path / "m.mdp", *flat(points, eta))
    seen = []
    parts = CoordinateMetric.needed_in_parts
    monkeypatch.setattr(
        CoordinateMetric, "needed_in_parts", lambda *a: (seen.append(len(part)) or part for part in parts(*a))
    )
    tracemalloc.start()
    assert "not among the protected pairs" in refused(tmp_path / "m.mdp")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(seen) <= 3
    assert max(seen) <= 100_000
    assert peak < 60e6


def test_pairs_in_parts_are_all_pairs_once(monkeypatch):
    monkeypatch.setattr(distances, "CHUNK_ENTRIES", 500)
    monkeypatch.setattr(distances, "PAIRS_AT_ONCE", 500)
    monkeypatch.setattr(distances, "ROWS_AT_ONCE", 16)
    generator = np.random.default_rng(0)
    kinds = [("euclidean", 2), ("manhattan", 3), ("haversine", 2), ("euclidean", 20), ("manhattan", 14)]
    for metric, dimension, scale in (*((*kind, 1.0) for kind in kinds), ("euclidean", 2, 1e200)):
        points = generator.normal(size=(150, dimension)) * scale
        points[:20] = points[20:40]
        records = mdp.Records(points, kind="places" if metric == "haversine" else "vectors")
        measure = CoordinateMetric(metric)
        eta = 1.000001 * float(np.median(measure.pairs_within(records, np.inf)[1]))
        found = np.concatenate(list(measure.needed_in_parts(records, eta)))
        listed, _ = measure.pairs_within(records, eta)
        assert sorted(map(tuple, found.tolist())) == list(map(tuple, listed.tolist()))
        graph = MdpGraph.of(records, measure, eta)
        assert recount_fault(records, graph, eta, measure) == ""
        for p in generator.integers(len(listed), size=3):
            short = MdpGraph(graph.n, np.delete(graph.pairs, p, axis=0), np.delete(graph.distances, p))
            assert "not among" in recount_fault(records, short, eta, measure)


def test_too_many_records_with_huge_coordinates_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(distances, "MAX_HUGE_RECORDS", 100)
    pack(tmp_path / "m.mdp", *flat(np.arange(101.0)[:, None] * 1e150, 1e-3))
    assert "one by one (limit 100)" in refused(tmp_path / "m.mdp")


def test_stored_pairs_of_many_dimensions_are_measured_in_blocks(tmp_path, monkeypatch):
    """60,000 pairs of 400 coordinates would be 200 MB at one time, several times over."""
    monkeypatch.setattr(distances, "CHUNK_ENTRIES", 100_000)
    monkeypatch.setattr("metricdp.metric.recount.CHUNK_ENTRIES", 100_000)
    points = np.random.default_rng(0).normal(size=(350, 400))
    pairs = np.column_stack(np.triu_indices(350, k=1)).astype("<i4")
    pack(tmp_path / "m.mdp", *flat(points, 1e9, pairs=pairs))
    tracemalloc.start()
    assert mdp.load(tmp_path / "m.mdp").graph.n_pairs == 350 * 349 // 2
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6


def test_tables_at_their_limit_everywhere_are_decided_many_entries_at_once():
    """Every pair and half of all entries in doubt: some numpy calls for each block, none for each entry."""
    n, K = 60, 40
    place = np.linspace(0, 1, n)
    weights = np.linspace(0.5, 1, K - 1) / K
    both = np.column_stack([np.exp(-place if k % 2 else place - 1) * weight for k, weight in enumerate(weights)])
    table = np.floor(both * 2.0**62).astype(np.uint64)
    table = np.column_stack((table, np.uint64(TOTAL) - table.sum(axis=1, dtype=np.uint64)))
    i, j = np.triu_indices(n, k=1)
    pairs = np.column_stack((i, j)).astype(np.int32)
    calls = []
    sys.setprofile(lambda frame, event, _: calls.append(event) if event == "call" else None)
    try:
        check = check_privacy(table, pairs, place[j] - place[i] + 1e-14, 1.0 + 1e-13)
    finally:
        sys.setprofile(None)
    assert check.certified
    assert check.n_decided_exactly > len(pairs) * K / 4
    assert len(calls) < 20 * len(pairs)  # mostly the exponential of each distance


@pytest.mark.slow
def test_a_file_of_five_megabytes_that_took_minutes(tmp_path):
    """40,000 records of 13 coordinates, none within eta of another: compared with one another in seconds."""
    points = np.random.default_rng(0).normal(size=(36_000, 13)) * 100
    pack(tmp_path / "m.mdp", *flat(points, 1.0))
    assert (tmp_path / "m.mdp").stat().st_size < 5.5e6
    program = "import sys, metricdp; print(metricdp.load(sys.argv[1]).graph.n_pairs)"
    answer = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "m.mdp")],
        capture_output=True, text=True, timeout=300, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert answer.stdout.split() == ["0"]
