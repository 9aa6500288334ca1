"""One matrix per output, all with the graph's pattern: their inverse factors, and the sum of their inverses.

``H_k = G' diag(y_k / w_k) G`` is symmetric with an entry for each pair. With ``X`` the inverse of its Cholesky factor,
``H_k^-1 = X'X``: solving is two products, and the sum over all outputs a product of stacked rows. Blocks of the
elimination are treated for several outputs at once; how outputs are grouped does not depend on the number of
threads, so neither does any digit of the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dsyrk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Executor

    from numpy.typing import NDArray

    from metricdp.solve.solvers.interior.elimination import Elimination

N_GROUPS = 8  # of outputs that are worked on side by side
SMALLEST_HALVED = 12  # records: smaller triangles are inverted as they are
BYTES_AT_ONCE = 4e6  # of the factors of outputs that are treated together: they stay in the processor's cache


@dataclass(frozen=True)
class _Entries:
    """Where the pairs of one block stand in its dense rows, and the blocks below that they touch."""

    places: NDArray[np.int64]
    pairs: NDArray[np.int64]
    below: list[int]


class Pattern:
    """The blocks of an elimination with the places of the pairs ``(i, j)``, both in its order."""

    def __init__(self, elimination: Elimination, i: NDArray[np.int64], j: NDArray[np.int64], n_outputs: int) -> None:
        self.blocks = elimination.blocks
        self.n = len(elimination.order)
        low, high = np.minimum(i, j), np.maximum(i, j)
        self.entries = [self._entries(number, low, high) for number in range(len(self.blocks))]
        together = int(np.clip(BYTES_AT_ONCE / (8.0 * elimination.entries), 1, n_outputs))
        self.chunks = [slice(k, min(k + together, n_outputs)) for k in range(0, n_outputs, together)]
        # each group has its own sum, whatever the number of threads: sums do not depend on the order of completion
        self.groups = [list(part) for part in np.array_split(np.arange(len(self.chunks)), N_GROUPS) if len(part)]
        self.groups = [[self.chunks[c] for c in part] for part in self.groups]

    def _entries(self, number: int, low: NDArray[np.int64], high: NDArray[np.int64]) -> _Entries:
        block = self.blocks[number]
        own = np.flatnonzero((high >= block.first) & (high < block.end))
        a, b = high[own] - block.first, low[own] - block.start
        inside = np.flatnonzero(low[own] >= block.first)
        # the lower half of the block itself is enough, but its mirror makes the block whole
        places = np.concatenate(
            (a * block.width + b, (low[own[inside]] - block.first) * block.width + high[own[inside]] - block.start)
        )
        columns = np.unique(low[own])
        below = [
            c
            for c in range(number)
            if self.blocks[c].start >= block.start
            and np.searchsorted(columns, self.blocks[c].start) < np.searchsorted(columns, self.blocks[c].end)
        ]
        return _Entries(places, np.concatenate((own, own[inside])), below)


class Factors:
    """The inverse factors of all outputs at given weights, and the factor of the sum of the inverses."""

    def __init__(
        self,
        pattern: Pattern,
        diagonal: NDArray[np.float64],
        pairs: NDArray[np.float64],
        pool: Executor,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Factorise; ``diagonal`` has shape (K, n), ``pairs`` (K, pairs). LinAlgError says where that breaks down.

        ``check`` is called before each part, also of later solves, and may raise an error to break off.
        """
        self.pattern, self.pool, self.check = pattern, pool, check

        def factorise(chunks: list[slice]) -> tuple[list[list[NDArray[np.float64]]], NDArray[np.float64]]:
            part = np.zeros((pattern.n, pattern.n), order="F")
            blocks = []
            for chunk in chunks:
                check()
                blocks.append(_inverse_factors(pattern, diagonal[chunk], pairs[chunk], part))
            return blocks, part

        total = np.zeros((pattern.n, pattern.n), order="F")
        self.inverse: list[list[NDArray[np.float64]]] = []
        for blocks, part in self._in_groups(factorise):
            self.inverse += blocks
            total += part
        self.scale = 1.0 / np.sqrt(total.diagonal())
        total *= self.scale[:, None] * self.scale[None, :]
        self.total = cho_factor(total, lower=True, overwrite_a=True, check_finite=True)

    def _in_groups(self, work: Callable[[list[slice]], Any]) -> Iterable[Any]:
        groups = self.pattern.groups
        return map(work, groups) if len(groups) == 1 else self.pool.map(work, groups)

    def solve(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``H_k^-1 right_k`` for all outputs, shape (K, n)."""
        answer = np.zeros_like(right)
        factor_of = {chunk.start: blocks for chunk, blocks in zip(self.pattern.chunks, self.inverse, strict=True)}

        def work(chunks: list[slice]) -> None:
            for chunk in chunks:
                self.check()
                some, out = right[chunk, :, None], answer[chunk, :, None]
                for block, X in zip(self.pattern.blocks, factor_of[chunk.start], strict=True):
                    below = slice(block.start, block.end)
                    out[:, below] += np.matmul(X.swapaxes(1, 2), np.matmul(X, some[:, below]))

        for _ in self._in_groups(work):
            pass
        return answer

    def solve_total(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``(sum_k H_k^-1)^-1 right``."""
        return self.scale * cho_solve(self.total, self.scale * right, check_finite=False)


def _inverse_factors(
    pattern: Pattern, diagonal: NDArray[np.float64], pairs: NDArray[np.float64], total: NDArray[np.float64]
) -> list[NDArray[np.float64]]:
    """Return each block's rows of the inverse factor, shape (outputs, rows, width), and add the inverses to ``total``.

    For rows s with D below them: ``L_sD = H_sD X_D'``, ``L_ss L_ss' = H_ss - L_sD L_sD'``, ``X_ss = L_ss^-1`` and
    ``X_sD = -X_ss L_sD X_D``. The lower half of the total is what counts.
    """
    q = len(diagonal)
    inverse: list[NDArray[np.float64]] = []
    for block, entries in zip(pattern.blocks, pattern.entries, strict=True):
        r, width, below = block.end - block.first, block.width, block.first - block.start
        rows = np.zeros((q, r * width))
        rows[:, entries.places] = pairs[:, entries.pairs]
        rows[:, np.arange(r) * (width + 1) + below] = diagonal[:, block.first : block.end]
        H = rows.reshape(q, r, width)
        L, product = np.zeros((q, r, below)), np.zeros((q, r, below))
        for c in entries.below:
            other, X = pattern.blocks[c], inverse[c]
            part, own = (
                slice(other.start - block.start, other.end - block.start),
                slice(other.first - block.start, other.end - block.start),
            )
            L[:, :, own] = np.matmul(H[:, :, part], X.swapaxes(1, 2))
            product[:, :, part] += np.matmul(L[:, :, own], X)
        rest = H[:, :, below:] - np.matmul(L, L.swapaxes(1, 2)) if below else H
        X_own = inverse_of_lower(np.linalg.cholesky(rest))
        X = np.empty((q, r, width))
        np.matmul(X_own, product, out=X[:, :, :below])
        np.negative(X[:, :, :below], out=X[:, :, :below])
        X[:, :, below:] = X_own
        inverse.append(X)
        reach = slice(block.start, block.end)
        total[reach, reach] += dsyrk(1.0, X.reshape(q * r, width).T, lower=1)
    return inverse


def inverse_of_lower(L: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the inverses of lower triangular matrices, shape (outputs, n, n): by halves, so that products do most."""
    n = L.shape[1]
    if n <= SMALLEST_HALVED:
        return np.tril(np.linalg.inv(L))
    first, second = slice(0, n // 2), slice(n // 2, n)
    X = np.zeros_like(L)
    X[:, first, first] = inverse_of_lower(L[:, first, first])
    X[:, second, second] = inverse_of_lower(L[:, second, second])
    product = np.matmul(L[:, second, first], X[:, first, first])
    X[:, second, first] = -np.matmul(X[:, second, second], product)
    return X
