"""Sparse tables for tests, in plain Python: rows as dictionaries of whole numbers."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from metricdp.mechanism.exact import ENCLOSURE_BITS, exp_enclosure
from metricdp.mechanism.sparse import SparseTable

TOTAL = 1 << 63


@dataclass
class Plain:
    """``n_ik = scale[i] background[k] + local[i].get(k, 0)``."""

    local: list[dict[int, int]]
    background: list[int]
    scale: list[int]

    def copy(self):
        return Plain([dict(row) for row in self.local], list(self.background), list(self.scale))

    def rows(self):
        return [
            [scale * b + local.get(k, 0) for k, b in enumerate(self.background)]
            for scale, local in zip(self.scale, self.local, strict=True)
        ]

    def build(self) -> SparseTable:
        stored = [sorted((k, w) for k, w in row.items() if w) for row in self.local]
        flat = [entry for row in stored for entry in row]
        return SparseTable(
            np.cumsum([0] + [len(row) for row in stored]).astype(np.int64),
            np.array([k for k, _ in flat], dtype=np.int32),
            np.array([w for _, w in flat], dtype=np.uint64),
            np.array(self.background, dtype=np.uint64),
            np.array(self.scale, dtype=np.uint64),
        )


def plain_of(table: SparseTable) -> Plain:
    """Read a sparse table entry by entry."""
    starts, columns, weights = (part.tolist() for part in (table.indptr, table.columns, table.weights))
    local = [dict(zip(columns[a:b], weights[a:b], strict=True)) for a, b in itertools.pairwise(starts)]
    return Plain(local, table.background.tolist(), table.scale.tolist())


def sparse_of(table, background=None) -> SparseTable:
    """Return a dense table in sparse form.

    Each row's scale is the largest that ``background`` allows; by default the background is the smallest weight of
    each output, and every scale is 1.
    """
    dense = np.asarray(table, dtype=np.uint64)
    shared = dense.min(axis=0) if background is None else np.asarray(background, dtype=np.uint64)
    scale = np.ones(len(dense), dtype=np.uint64)
    if background is not None and shared.any():
        is_shared = shared > 0
        scale = (dense[:, is_shared] // shared[is_shared]).min(axis=1)
    local = dense - scale[:, None] * shared
    rows, columns = np.nonzero(local)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=len(dense))))).astype(np.int64)
    return SparseTable(indptr, columns.astype(np.int32), local[rows, columns], shared, scale)


def filled_up(plain: Plain) -> Plain:
    """Add to output 0 of each row what is missing to 2^63."""
    for local, row in zip(plain.local, plain.rows(), strict=True):
        local[0] = local.get(0, 0) + TOTAL - sum(row)
    return plain


def random_plain(rng, n: int, K: int, *, spread: float = 1.0, zeros: float = 0.2) -> Plain:
    """Rows near one another: weights differ by factors up to exp(spread), supports at random."""
    peak = rng.integers(20, 50, K)
    background = [int(b) if rng.random() > zeros else 0 for b in rng.integers(1, 1 << 12, K)]
    local = []
    for _ in range(n):
        stored = np.flatnonzero(rng.random(K) < rng.choice([0.0, 0.3, 0.7, 1.0]))
        local.append({int(k): int(2.0 ** peak[k] * np.exp(spread * rng.random())) for k in stored})
    scale = [int(1e6 * np.exp(spread * rng.random())) for _ in range(n)]
    return filled_up(Plain(local, background, scale))


def tight_pair(rng, exponent: float) -> Plain:
    """Two records whose weights are at the limit for ``exponent``, to one unit, at all outputs but the first two."""
    E = exp_enclosure(1.0, exponent)

    def most(weight):
        return E * weight >> ENCLOSURE_BITS

    K = int(rng.integers(5, 9))
    largest = 50 - int(exponent * 1.4427) - 1
    background = [int(b) for b in rng.integers(1, 1 << 7, K)]
    low = int(rng.integers(1 << 6, 1 << 8))
    scale = [low, most(low)] if rng.random() < 0.6 else [low, low]
    local: list[dict[int, int]] = [{}, {}]
    for k in range(2, K):
        kind = int(rng.integers(4))
        upper = int(rng.integers(2))  # the record with the larger weight
        base = [s * background[k] for s in scale]
        if kind == 0:  # both stored
            local[1 - upper][k] = max(1, int(2.0 ** rng.uniform(5, max(6, largest))))
        if kind in {0, 1}:  # in one list only, if the scales leave room
            extra = most(base[1 - upper] + local[1 - upper].get(k, 0)) - base[upper]
            if extra > 0:
                local[upper][k] = extra
    plain = filled_up(Plain(local, background, scale))
    for row in plain.local:  # the rest in equal parts to the first two
        row[1] = row[0] // 2
        row[0] -= row[1]
    return plain


def is_broken(plain: Plain, exponent: float) -> bool:
    """Whether rows 0 and 1 violate the bound, in plain whole numbers."""
    E = exp_enclosure(1.0, exponent)
    a, b = plain.rows()
    return any(x << 96 > E * y or y << 96 > E * x for x, y in zip(a, b, strict=True))
