"""The distribution of a population that makes its reports most likely: iterative Bayesian update, accelerated.

One update is ``theta_i <- theta_i g_i`` with ``g_i = sum_k f_k z_ik / (Z' theta)_k`` and ``f_k`` the share of output k
among n reports: an EM, which never lowers the likelihood. Two updates are extrapolated (SQUAREM, Varadhan and Roland,
Scandinavian Journal of Statistics 35, 2008, scheme S3), and the result is taken only if its likelihood is not below
that of the first of the two: so the likelihood never falls either.

When to stop: for every other distribution ``theta'``, by Jensen's inequality, the log-likelihood per report is higher
by ``sum_k f_k log(q'_k / q_k) <= log sum_i theta'_i g_i <= log max_i g_i``. So ``n log max_i g_i`` bounds how far the
log-likelihood of all reports is below its maximum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.statistics.channel import Channel

LEAST_SHARE_KEPT = 0.01  # of the plain update: an extrapolation does not go below it, so that no share becomes 0


@dataclass(frozen=True)
class Fit:
    """A distribution and how good it is.

    Attributes
    ----------
    shares
        Shape (N,), summing to 1.
    deficit
        What the log-likelihood of all reports is below its maximum, at most.
    updates
        How many Bayesian updates it took.
    """

    shares: NDArray[np.float64]
    deficit: float
    updates: int


@dataclass(frozen=True)
class _Point:
    shares: NDArray[np.float64]
    likelihood: float
    ratios: NDArray[np.float64]

    @property
    def next(self) -> NDArray[np.float64]:
        return self.shares * self.ratios


def fit(
    channel: Channel,
    counts: NDArray[np.int64],
    start: NDArray[np.float64],
    *,
    max_deficit: float,
    max_updates: int,
) -> Fit:
    """Return the shares of the records that make ``counts`` of the channel's outputs most likely.

    It ends when the log-likelihood of all reports is at most ``max_deficit`` below its maximum, or after
    ``max_updates``.
    """
    n = int(counts.sum())
    frequencies = counts / n

    def at(shares: NDArray[np.float64]) -> _Point:
        chances = channel.chances(shares)
        return _Point(shares, float(frequencies @ np.log(chances)), channel.means(frequencies / chances))

    here, updates = at(start), 1
    while _deficit(here, n) > max_deficit and updates < max_updates:
        first = at(here.next)
        ahead = at(_extrapolated(here, first))
        updates += 2
        if ahead.likelihood < first.likelihood:  # also if it is not a number
            ahead = at(first.next)
            updates += 1
        here = ahead
    return Fit(here.shares, _deficit(here, n), updates)


def _deficit(point: _Point, n: int) -> float:
    return n * max(0.0, math.log(float(point.ratios.max())))


def _extrapolated(here: _Point, first: _Point) -> NDArray[np.float64]:
    """Return ``theta - 2 a r + a^2 v`` from the two changes r and r + v that updates made, with a = -|r| / |v|."""
    plain = first.next
    change = first.shares - here.shares
    bend = plain - first.shares - change
    size = float(np.linalg.norm(bend))
    step = max(1.0, float(np.linalg.norm(change)) / size) if size > 0.0 else 1.0
    ahead = np.maximum(here.shares + 2.0 * step * change + step**2 * bend, LEAST_SHARE_KEPT * plain)
    return ahead / ahead.sum()
