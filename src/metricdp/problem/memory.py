"""How much memory a problem takes, reckoned before anything large is allocated.

The model counts bytes per pair (pairs and distances, both directions for the closure, factors, the sorting of pairs),
per record and output (losses, table, copies that repair and bounds need) and for the program itself. It was fitted to
measured peaks (docs/scaling.md) and errs on the large side. Pairs are estimated from a sample of records.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.data.records import Records
    from metricdp.metric.distances import Metric

PROGRAM_BYTES = 350e6
BYTES_PER_PAIR = 130.0
BYTES_PER_ENTRY = 170.0  # of the table: one record and one output
SAMPLE = 100
CHECKED_FROM = 2_000  # records: smaller problems fit anywhere
GIGABYTE = 1e9


@dataclass(frozen=True)
class MemoryModel:
    """The parts of the estimate, in bytes."""

    n_records: int
    n_outputs: int
    n_pairs: float

    @property
    def needed(self) -> float:
        """Bytes at the peak of a solve."""
        entries = self.n_records * self.n_outputs
        return PROGRAM_BYTES + BYTES_PER_PAIR * self.n_pairs + BYTES_PER_ENTRY * entries


def check_memory(
    records: Records, metric: Metric, *, eta: float, n_outputs: int, limit: float | None
) -> MemoryModel | None:
    """Refuse a problem that would not fit into ``limit`` gigabytes, or into the machine's memory if none is given."""
    if limit is not None and not limit > 0:
        raise InputError(f"memory_limit must be positive, got {limit}: give gigabytes such as 4")
    if limit is None and records.n < CHECKED_FROM:
        return None
    distances = _sampled(records, metric)
    model = MemoryModel(records.n, n_outputs, _pairs(distances, records.n, eta))
    most = machine_bytes() if limit is None else limit * GIGABYTE
    if model.needed <= most:
        return model
    whose = "the machine's" if limit is None else "the limit of"
    raise InputError(
        f"the problem would need about {model.needed / GIGABYTE:.1f} GB for {records.n:,} records, {n_outputs} outputs "
        f"and about {model.n_pairs:,.0f} pairs within eta = {eta:g}, more than {whose} {most / GIGABYTE:.1f} GB: "
        f"{_what_fits(distances, model, most)}"
    )


def machine_bytes() -> float:
    """Give the machine's memory."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):  # not told on this system
        return float("inf")


def _sampled(records: Records, metric: Metric) -> NDArray[np.float64]:
    """Give all distances to evenly spread records, sorted, without those to themselves."""
    rows = np.unique(np.linspace(0, records.n - 1, SAMPLE).astype(np.int64))
    distances = np.array(metric.to_rows(records, rows), dtype=np.float64)
    distances[rows, np.arange(len(rows))] = np.inf
    return np.sort(distances.ravel())


def _pairs(distances: NDArray[np.float64], n: int, eta: float) -> float:
    """Estimate the number of pairs within ``eta``."""
    return n * n / len(distances) * float(np.searchsorted(distances, eta, side="right")) / 2.0


def _what_fits(distances: NDArray[np.float64], model: MemoryModel, most: float) -> str:
    """Say which eta, and how many records, would fit."""
    n, K = model.n_records, model.n_outputs
    room = (most - MemoryModel(n, K, 0).needed) / BYTES_PER_PAIR
    parts = []
    if room > 0:
        place = int(room * 2.0 * len(distances) / (n * n))
        if place > 0 and np.isfinite(distances[place - 1]):
            parts.append(f"eta = {distances[place - 1]:.3g}")
    share = model.n_pairs / (n * n)
    low, high = 0, n
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if MemoryModel(middle, K, share * middle * middle).needed <= most else (low, middle)
    if low >= 2:
        parts.append(f"{low:,} of the records")
    return f"{' or '.join(parts)} would fit" if parts else "not even a few of the records would fit; raise the limit"
