"""The exact tightest epsilon of any matrix as it is: nothing is repaired, rounded or scaled.

Entries are the exact values of their floats. Each constraint ``z_ik <= exp(epsilon d_ij) z_jk`` of neighbours i and j,
both ways, for each output k, is decided: floats with a guard far wider than their rounding decide the clear ones, and
whole numbers all others (`metricdp.mechanism.ratios`), so that both verdicts are proofs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from metricdp.evaluate.matrices import as_entries, row_sum_error
from metricdp.mechanism.exact import Worst
from metricdp.mechanism.guarantee import Guarantee
from metricdp.mechanism.mechanism import Mechanism
from metricdp.mechanism.ratios import Growth, Ratio, least_epsilon, rate
from metricdp.metric.budgets import pair_budgets
from metricdp.problem.budgets import budget_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from metricdp.evaluate.matrices import AnyMechanism
    from metricdp.mechanism.sparse import SparseTable
    from metricdp.problem.problem import Problem

    Entries = NDArray[np.float64] | NDArray[np.uint64] | SparseTable

ENTRIES_AT_ONCE = 1 << 20
# of a logarithm of a ratio, absolute and relative: up to three roundings of the ratio, and a few units of the logarithm
GUARD = 2.0**-48


@dataclass(frozen=True)
class MatrixAudit:
    """What the exact audit of a matrix found.

    Parameters
    ----------
    epsilon
        The tightest budget: the least float at which every constraint holds. It is proved to hold, and the float before
        it is proved not to; infinite if an output tells two neighbours apart with certainty, 0 if the rows of
        all neighbours are equal (no float is before it).
    claimed
        The budget of the problem, at which violations are counted.
    worst
        Record, neighbour, output and distance where the tightest budget is needed; None if it is 0.
    pair, output, probabilities
        The same by name: the records' ids, the output's, and its two probabilities.
    n_constraints, n_violated
        How many there are (all outputs of all pairs, both ways), and how many of them are violated at ``claimed``.
    row_sum_error
        How far the sum of a row is from 1 at most.
    scope
        Which records are protected from one another at all, in words.
    own
        The range of the records' own budgets in words, where they have them: ``claimed`` is the largest.
    """

    epsilon: float
    claimed: float
    worst: Worst | None
    pair: tuple[str, str] | None
    output: str | None
    probabilities: tuple[float, float] | None
    n_pairs: int
    n_constraints: int
    n_violated: int
    row_sum_error: float
    scope: tuple[str, ...]
    own: str = ""

    @property
    def holds(self) -> bool:
        """Whether every constraint holds at the claimed budget, and there are any."""
        return self.n_violated == 0 and self.n_pairs > 0

    @property
    def share_violated(self) -> float:
        """The share of the constraints that are violated at the claimed budget."""
        return self.n_violated / max(self.n_constraints, 1)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """Return what was found in plain words, the verdict first."""
        if self.n_pairs == 0:
            return list(self.scope)
        at = self.own or f"{self.claimed:g}"
        found = [
            f"PRIVATE at epsilon = {at}: all {self.n_constraints:,} constraints hold, exactly."
            if self.holds
            else f"NOT PRIVATE at epsilon = {at}: {self.n_violated:,} of {self.n_constraints:,} "
            f"constraints ({100 * self.share_violated:.3g} %) are violated."
        ]
        if math.isinf(self.epsilon):
            found.append("No epsilon holds.")
        elif self.epsilon == 0.0:
            found.append("Tightest epsilon that holds: 0.0, so any does: neighbours report alike.")
        else:
            found.append(f"Tightest epsilon that holds: {self.epsilon!r} (the float before it does not).")
        if self.worst is not None and self.pair is not None and self.probabilities is not None:
            x, y = self.probabilities
            found.append(
                f"Worst: {self.pair[0]} reports {self.output} with probability {x:.6g}, and {self.pair[1]} at distance "
                f"{self.worst.distance:.6g} with {y:.6g}."
            )
        found.append(f"Rows sum to 1 within {self.row_sum_error:.2g}; entries were taken as they are.")
        return [*found, *self.scope]


def audit(matrix: AnyMechanism, problem: Problem) -> MatrixAudit:
    """Return the exact tightest epsilon of a matrix on the neighbour pairs of ``problem``, and what it violates.

    Parameters
    ----------
    matrix
        Probabilities, one row for each record and one column for each output: an array, a DataFrame, a mechanism, or
        whole weights with one sum for all rows. It is audited as it is.
    problem
        Its records, outputs and neighbour pairs, and the budget that is claimed.

    Examples
    --------
    >>> import metricdp as mdp
    >>> problem = mdp.Problem(mdp.data.grid(1, 2), epsilon=0.7, eta=1.0)
    >>> found = mdp.audit([[0.6, 0.4], [0.3, 0.7]], problem)
    >>> found.epsilon, found.n_violated, found.n_constraints, found.pair, found.output
    (0.6931471805599454, 0, 4, ('r00c00', 'r00c01'), 'r00c00')
    """
    entries: Entries = matrix.table if isinstance(matrix, Mechanism) else as_entries(matrix, problem)
    graph = problem.graph
    scan = _Scan(entries, problem.graph.pairs, problem.graph.distances)
    budget = problem.epsilon if problem.epsilons is None else problem.epsilons
    n_violated = scan.violated(pair_budgets(budget, graph.pairs))
    epsilon, worst = scan.tightest()
    pair = output = probabilities = None
    if worst is not None:
        ids = problem.records.ids
        pair, output = (ids[worst.i], ids[worst.j]), problem.outputs.ids(problem.records)[worst.output]
        x, y = (scan.probability(row, worst.output) for row in (worst.i, worst.j))
        probabilities = (x, y)
    promise = Guarantee(problem.epsilon, problem.eta, problem.metric.name, problem.records, graph, problem.epsilons)
    return MatrixAudit(
        epsilon,
        problem.epsilon,
        worst,
        pair,
        output,
        probabilities,
        graph.n_pairs,
        2 * graph.n_pairs * problem.n_outputs,
        n_violated,
        row_sum_error(entries) if isinstance(entries, np.ndarray) else 0.0,
        tuple(promise.lines()),
        "" if problem.epsilons is None else f"{budget_words(problem.epsilon, problem.epsilons)}, each record's own",
    )


class _Part(NamedTuple):
    """Some pairs: their numbers, the larger and the smaller entry of each output, and the logarithm of their ratio."""

    numbers: NDArray[np.int64]
    larger: NDArray[np.float64] | NDArray[np.uint64]
    smaller: NDArray[np.float64] | NDArray[np.uint64]
    is_first_larger: NDArray[np.bool_]
    loss: NDArray[np.float64]


class _Scan:
    """All constraints of a matrix, a part at a time."""

    def __init__(self, entries: Entries, pairs: NDArray[np.int32], distances: NDArray[np.float64]) -> None:
        self.entries, self.pairs, self.distances = entries, pairs, distances

    def probability(self, row: int, output: int) -> float:
        """Return an entry, as a share of its row's sum where entries are whole weights."""
        (weights,) = self._rows(np.array([row]))
        return float(weights[output]) / (1.0 if weights.dtype == np.float64 else float(weights.sum(dtype=np.float64)))

    def _rows(self, rows: NDArray[np.integer]) -> NDArray[np.float64] | NDArray[np.uint64]:
        return self.entries[rows] if isinstance(self.entries, np.ndarray) else self.entries.block(rows)

    def _parts(self, numbers: NDArray[np.int64]) -> Iterator[_Part]:
        at_once = max(1, ENTRIES_AT_ONCE // self.entries.shape[1])
        for start in range(0, len(numbers), at_once):
            some = numbers[start : start + at_once]
            a, b = (self._rows(self.pairs[some, side]) for side in (0, 1))
            larger, smaller = np.maximum(a, b), np.minimum(a, b)
            x, y = larger.astype(np.float64), smaller.astype(np.float64)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                loss = np.log(x / y)
                # the quotient of two floats may be above the largest one
                loss = np.where(np.isinf(loss) & (y > 0), np.log(x) - np.log(y), loss)
            loss[larger == smaller] = 0.0
            yield _Part(some, larger, smaller, a > b, loss)

    def violated(self, budgets: NDArray[np.float64]) -> int:
        """Return how many constraints are violated at the epsilon of each pair: exact."""
        found = 0
        for part in self._parts(np.arange(len(self.pairs))):
            bound = (budgets * self.distances)[part.numbers, None]
            with np.errstate(invalid="ignore"):
                margin = GUARD * (1.0 + part.loss + bound)
                is_violated = (part.loss - bound > margin) | ((part.smaller == 0) & (part.larger > 0))
                is_held = (bound - part.loss > margin) | (part.larger == part.smaller)
            found += int(is_violated.sum())
            rows, outputs = np.nonzero(~(is_violated | is_held))
            found += sum(
                _growth(float(budgets[part.numbers[row]]), float(self.distances[part.numbers[row]])).count_below(
                    _ratios(part, row, outputs[begin:end])
                )
                for row, begin, end in _runs(rows)
            )
        return found

    def tightest(self) -> tuple[float, Worst | None]:
        """Return the least float at which all constraints hold, and where it is needed."""
        highest, surest = np.zeros(len(self.pairs)), 0.0
        apart: tuple[float, Worst] | None = None  # the likeliest report that tells two neighbours apart for sure
        for part in self._parts(np.arange(len(self.pairs))):
            distances = self.distances[part.numbers]
            is_apart = (part.larger > part.smaller) & ((part.smaller == 0) | (distances[:, None] == 0))
            if is_apart.any():
                row, output = np.unravel_index(np.argmax(np.where(is_apart, part.larger, 0)), is_apart.shape)
                weight = float(part.larger[row, output])
                if apart is None or weight > apart[0]:
                    apart = weight, self._worst(part, int(row), int(output))
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                loss = np.where(part.larger > part.smaller, part.loss, 0.0).max(axis=1)
                above = np.where(loss > 0, loss * (1.0 + GUARD) + GUARD, GUARD) / distances
                highest[part.numbers] = np.where((part.larger > part.smaller).any(axis=1), above, 0.0)
                surest = max(surest, float(np.nan_to_num((loss * (1.0 - GUARD) - GUARD) / distances).max(initial=0.0)))
        if apart is not None:
            return math.inf, apart[1]
        return self._largest(np.flatnonzero((highest >= surest) & (highest > 0)), surest)

    def _largest(self, numbers: NDArray[np.int64], surest: float) -> tuple[float, Worst | None]:
        """Return the exact tightest budget of some pairs, of which one is known to need at least ``surest``."""
        best: dict[float, tuple[Ratio, Worst]] = {}  # the largest ratio at each distance
        for part in self._parts(numbers):
            distances = self.distances[part.numbers, None]
            with np.errstate(over="ignore"):
                is_near = (part.larger > part.smaller) & ((part.loss * (1.0 + GUARD) + GUARD) / distances >= surest)
            for row, output in np.argwhere(is_near).tolist():
                ratio = _ratio(part, row, output)
                distance = float(distances[row, 0])
                if distance not in best or ratio > best[distance][0]:
                    best[distance] = ratio, self._worst(part, row, output)
        if not best:
            return 0.0, None
        epsilon = max(least_epsilon(ratio, distance) for distance, (ratio, _) in best.items())
        return epsilon, max(best.items(), key=lambda item: rate(item[1][0], item[0]))[1][1]

    def _worst(self, part: _Part, row: int, output: int) -> Worst:
        i, j = (int(record) for record in self.pairs[part.numbers[row]])
        if not part.is_first_larger[row, output]:
            i, j = j, i
        return Worst(i, j, output, float(self.distances[part.numbers[row]]))


@lru_cache(maxsize=4096)
def _growth(epsilon: float, distance: float) -> Growth:
    return Growth(epsilon, distance)  # distances of a grid repeat


def _ratio(part: _Part, row: int, output: int) -> Ratio:
    return Ratio.of(part.larger[row, output].item(), part.smaller[row, output].item())


def _ratios(part: _Part, row: int, outputs: NDArray[np.int64]) -> Iterator[Ratio]:
    return map(Ratio.of, part.larger[row, outputs].tolist(), part.smaller[row, outputs].tolist())


def _runs(rows: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """Yield each number of a sorted list with the places where it begins and ends."""
    ends = np.append(np.flatnonzero(np.diff(rows)) + 1, len(rows)) if len(rows) else np.zeros(0, dtype=np.int64)
    begin = 0
    for end in ends.tolist():
        yield int(rows[begin]), begin, end
        begin = end
