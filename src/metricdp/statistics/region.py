"""Every population that explains the reports, and the least and the largest share of some records in it.

With n independent reports, the number of reports in a group of outputs is binomial, whatever the population. So each
group's probability lies between its two limits of Clopper and Pearson (1934) except with probability alpha / J, and
all J groups at once except with probability alpha. The populations ``theta`` whose reports respect all limits,
``lo_j <= (G' Z' theta)_j <= hi_j``, are a polytope that holds the true one with probability 1 - alpha. Whatever is
asked about the population, its least and largest value over that polytope is an interval that holds, and all such
intervals hold at once, also those of questions that were thought of after looking at the reports.

The least value of ``c theta`` is a linear program. By weak duality, *any* multipliers y give a valid bound,

    c theta >= sum_j (lo_j max(y_j, 0) - hi_j max(-y_j, 0)) + min_i (c_i - (Z G y)_i),

since theta sums to 1. The solver only proposes y; the bound is computed here, for all records, and rounded outwards.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import InputError, SolverError
from metricdp.evaluate.auditor.statistics import lower_bound, upper_bound
from metricdp.solve.lp import SMALLEST_COEFFICIENT, LinearProgram

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from metricdp.statistics.channel import Channel

ROUNDING = 2.0**-53
# relative: what the limits are moved outwards. SciPy's inverse of the incomplete beta function is good to 1e-12.
LIMIT_MARGIN = 2.0**-30
LARGEST_MULTIPLIER = 1e5  # the price of breaking a limit, so that the program always has a solution
RECORDS_AT_ONCE = 64  # added to the program in a round
MAX_ROUNDS = 200
TIGHT = 1e-4  # of a share: a bound that is this close to the best is good enough


def limits(counts: NDArray[np.int64], n: int, alpha: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what each probability is at least and at most; all hold at once except with probability ``alpha``.

    Examples
    --------
    >>> low, high = limits(np.array([0, 500]), 1000, 0.05)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.464], [0.004, 0.536])
    """
    each = 0.5 * alpha / len(counts)
    low = lower_bound(counts, n, each) * (1.0 - LIMIT_MARGIN)
    high = np.minimum(upper_bound(counts, n, each) * (1.0 + LIMIT_MARGIN), 1.0)
    return low, high


class Region:
    """The populations that explain the counts of groups of outputs.

    Parameters
    ----------
    channel
        The mechanism's probabilities.
    groups
        Which outputs are in which group, shape (K, J).
    counts
        Of reports of each output, shape (K,).
    alpha
        The probability with which the true population may be outside.
    likely
        Records to begin with: where most of the population is.
    """

    def __init__(
        self,
        channel: Channel,
        groups: csr_array,
        counts: NDArray[np.int64],
        *,
        alpha: float,
        likely: NDArray[np.int64],
    ) -> None:
        self.channel, self.groups = channel, groups
        self.low, self.high = limits(np.asarray(counts @ groups, dtype=np.int64), int(counts.sum()), alpha)
        self.likely = likely

    def bounds(self, question: NDArray[np.float64]) -> tuple[float, float]:
        """Return what ``question theta`` is at least and at most, for a question with values from 0 to 1.

        An error if no population can explain the reports: one of the two bounds would contradict the other.
        """
        # a program of its own for each question, so that the answer does not depend on what was asked before
        records = _Records(self)
        low, high = self._least(records, question), -self._least(records, -question)
        if low > high:
            raise InputError(
                "no population explains these reports at this level: check that they are reports of this mechanism, "
                "one of each person, none left out"
            )
        return max(0.0, low), min(1.0, high)

    def _least(self, records: _Records, cost: NDArray[np.float64]) -> float:
        """Return a valid lower bound of ``cost theta`` over all populations of the region."""
        best = float(cost.min())
        for _ in range(MAX_ROUNDS):
            costs = np.concatenate((np.full(2 * len(self.low), LARGEST_MULTIPLIER), cost[records.numbers]))
            records.program.set_costs(costs)
            try:
                solution = records.program.solve()
            except SolverError:  # what was found so far is valid
                break
            multipliers, one = solution.row_dual[:-1], solution.row_dual[-1]
            reduced, bound = self._bound(cost, multipliers)
            best = max(best, bound)
            entering = np.argsort(reduced)[:RECORDS_AT_ONCE]
            entering = entering[reduced[entering] < one]
            entering = entering[~np.isin(entering, records.numbers)]
            if best >= float(costs @ solution.x) - TIGHT or not len(entering):
                break
            records.add(entering)
        return best

    def _bound(self, cost: NDArray[np.float64], multipliers: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Return ``c - Z G y``, and the bound of the multipliers y, rounded down."""
        prices = self.groups @ multipliers
        reduced = cost - self.channel.means(prices)
        terms = np.where(multipliers > 0.0, self.low, self.high) * multipliers
        # Each row of Z sums to 1, so no product is larger than the largest price. Rounded: K conversions and K sums of
        # the products and of the background's, and up to J additions in a price.
        largest = float((self.groups @ np.abs(multipliers)).max())
        n_outputs, n_groups = self.groups.shape
        slack = (4.0 * n_outputs + 2.0 * n_groups + 64.0) * ROUNDING * (largest + 1.0)
        slack += 8.0 * ROUNDING * float(np.abs(terms).sum())
        return reduced, math.fsum(terms) + float(reduced.min()) - slack


class _Records:
    """The linear program, with some of the records as its columns."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.numbers = np.zeros(0, dtype=np.int64)  # in the order of the columns
        J = len(region.low)
        # the first columns raise or lower each group's probability, at a high price
        self.program = LinearProgram(
            np.full(2 * J, LARGEST_MULTIPLIER), np.zeros(2 * J), np.full(2 * J, np.inf), is_primal=True
        )
        groups = np.arange(J, dtype=np.int32)
        self.program.add_rows(
            np.append(region.low, 1.0),
            np.append(region.high, 1.0),
            np.append(2 * groups, 2 * J),
            np.column_stack((groups, groups + J)).ravel(),
            np.tile([1.0, -1.0], J),
        )
        self.add(region.likely)

    def add(self, records: NDArray[np.int64]) -> None:
        """Add records as columns."""
        block = np.asarray(self.region.channel.rows(records) @ self.region.groups)
        block = np.column_stack((block, np.ones(len(records))))
        is_kept = block >= SMALLEST_COEFFICIENT
        starts = np.concatenate(([0], np.cumsum(is_kept.sum(axis=1))[:-1]))
        self.program.add_columns(
            np.zeros(len(records)), starts.astype(np.int32), np.nonzero(is_kept)[1].astype(np.int32), block[is_kept]
        )
        self.numbers = np.concatenate((self.numbers, records))
