"""What samples prove about two distributions, at a finite number of draws and without assumptions about their shape.

Every function here is valid for any number of independent draws: exact binomial bounds (Clopper and Pearson, 1934) and
one inequality for matches under a random permutation (Chatterjee, "Stein's method for concentration inequalities",
Probability Theory and Related Fields 138, 2007, Proposition 1.1).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betainccinv, betaincinv

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

DETECTABLE_PROBABILITY = 0.5  # probability of the event for which `detectable` is stated
N_BISECTIONS = 60  # more than the 53 bits of a double
DRAW_MARGIN_FACTOR = 1.5  # pairs of reports drawn for each one needed on average


def lower_bound(count: ArrayLike, n: int, level: float) -> NDArray[np.float64]:
    """Return what a probability is at least, given ``count`` of ``n`` draws; wrong with probability at most ``level``.

    Examples
    --------
    >>> lower_bound([0, 10], 10, 0.05).round(4).tolist()
    [0.0, 0.7411]
    """
    k = np.asarray(count, dtype=np.float64)
    return np.where(k > 0, betaincinv(np.maximum(k, 1.0), n - k + 1.0, level), 0.0)


def upper_bound(count: ArrayLike, n: int, level: float) -> NDArray[np.float64]:
    """Return what a probability is at most, given ``count`` of ``n`` draws; wrong as seldom as `lower_bound`."""
    k = np.asarray(count, dtype=np.float64)
    return np.where(k < n, betainccinv(k + 1.0, np.maximum(n - k, 1.0), level), 1.0)


def ratio_bound(count: ArrayLike, n: int, other_count: ArrayLike, other_n: int, level: float) -> NDArray[np.float64]:
    """Return what ``log(p / p')`` of an event is at least, wrong with probability at most ``level``.

    Half of the level is spent on either probability. Minus infinity where the event did not occur.
    """
    p = lower_bound(count, n, level / 2.0)
    other = upper_bound(other_count, other_n, level / 2.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p) - np.log(other))


def matching_level(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Return how likely so unusual a number of equal entries at equal places is, at most, if draws are independent.

    If ``second`` was drawn independently from one distribution, all its orders are equally likely whatever ``first``
    is. For the number of matches X under a random order, with mean m,
    ``P(|X - m| >= t) <= 2 exp(-t^2 / (4 m + 2 t))``.

    Examples
    --------
    >>> coin = np.arange(100) % 2
    >>> matching_level(coin, coin) < 1e-3, matching_level(np.zeros(100, int), np.zeros(100, int))
    (True, 1.0)
    """
    n = min(len(first), len(second))
    if n == 0:
        return 1.0
    first, second = first[:n], second[:n]
    n_codes = int(max(first.max(), second.max())) + 1
    mean = float(np.bincount(first, minlength=n_codes) @ np.bincount(second, minlength=n_codes)) / n
    distance = abs(float((first == second).sum()) - mean)
    if distance == 0:
        return 1.0
    return min(1.0, 2.0 * math.exp(-(distance**2) / (4.0 * mean + 2.0 * distance)))


def batches_needed(level: float, repeat: float) -> int:
    """Return from how many pairs of reports `matching_level` is well below ``level`` if the two are always equal.

    ``repeat`` is the probability that two independent reports are equal.

    Examples
    --------
    >>> batches_needed(1e-5, 0.25), batches_needed(1e-5, 1.0) > 10**9
    (82, True)
    """
    apart = max(1.0 - repeat, 1e-6)
    return math.ceil(DRAW_MARGIN_FACTOR * math.log(2.0 / level) * (2.0 + 2.0 * repeat) / apart**2)


def largest_claim(n: int, level: float) -> float:
    """Return the largest log ratio that ``n`` draws can prove: an event that always occurs, and never."""
    return float(ratio_bound(n, n, 0, n, level))


def detectable(n: int, level: float, claim: float) -> float:
    """Return by how much a log ratio must exceed ``claim`` to be proved by ``n`` draws of each, about every other time.

    For an event of probability 1/2 under one of the two inputs, which is about the best case: rarer events need more.
    Infinite if no excess could be proved.
    """
    count = round(DETECTABLE_PROBABILITY * n)

    def proves(excess: float) -> bool:
        other = round(DETECTABLE_PROBABILITY * n * math.exp(-(claim + excess)))
        return float(ratio_bound(count, n, other, n, level)) > claim

    low, high = 0.0, math.log(n) + 1.0  # beyond it the event is expected never to occur under the other
    if not proves(high):
        return math.inf
    for _ in range(N_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if proves(middle) else (middle, high)
    return high
