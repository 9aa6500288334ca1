"""What a report tells, in the measures of quantitative information flow, whatever the loss.

The secret is a record x with the prior pi, the channel is the mechanism C. An adversary with the gain g(w, x) for the
guess w gains ``V_g(pi) = max_w sum_x pi_x g(w, x)`` before a report, and ``V_g(pi, C) = sum_y max_w sum_x pi_x C_xy
g(w, x)`` after it. With a gain of 1 for the right record and 0 otherwise this is the Bayes vulnerability, and the
binary logarithm of its ratio the min-entropy leakage. Shannon's measures are entropies in bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import InputError
from metricdp.evaluate.adversary import checked_belief, distance_among_records
from metricdp.evaluate.matrices import as_probabilities
from metricdp.mechanism.mechanism import Mechanism

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import ArrayLike, NDArray

    from metricdp.evaluate.matrices import AnyMechanism
    from metricdp.problem.problem import Problem

    Gain = Callable[[int, int], float] | ArrayLike

ENTRIES_AT_ONCE = 4_000_000


@dataclass(frozen=True)
class Vulnerability:
    """What an adversary gains by guessing, before and after a report."""

    before: float
    after: float

    @property
    def ratio(self) -> float:
        """How many times more is gained after a report (multiplicative leakage); 1 if nothing can be gained."""
        return self.after / self.before if self.before > 0 else 1.0 if self.after == 0 else math.inf

    @property
    def difference(self) -> float:
        """How much more is gained after a report (additive leakage)."""
        return self.after - self.before


@dataclass(frozen=True)
class Leakage:
    """What a report tells.

    Parameters
    ----------
    bayes
        The chance to name the right record.
    gain
        The expected gain by a gain function of one's own; None without one.
    entropy, conditional_entropy
        Shannon's, of the record before and after a report, in bits.
    """

    bayes: Vulnerability
    gain: Vulnerability | None
    entropy: float
    conditional_entropy: float

    @property
    def min_entropy_leakage(self) -> float:
        """By how many bits a report lowers the min-entropy, the binary logarithm of the Bayes vulnerability's ratio."""
        return math.log2(self.bayes.ratio)

    @property
    def mutual_information(self) -> float:
        """By how many bits a report lowers Shannon's entropy."""
        return self.entropy - self.conditional_entropy


def leakage(
    mechanism: AnyMechanism, problem: Problem, *, gain: Gain | None = None, belief: ArrayLike | None = None
) -> Leakage:
    """Return what a report of ``mechanism``, or of anybody's matrix, tells about the record.

    Parameters
    ----------
    gain
        What a guess w gains if the record is x: a matrix with a row for each guess and a column for each record, or a
        function of the two numbers, called for all records as guesses. `gain_within` makes a common one.
    belief
        The prior of the records, by default the problem's.

    Examples
    --------
    >>> import metricdp as mdp
    >>> problem = mdp.Problem(mdp.data.grid(1, 2), epsilon=1.0, eta=1.0)
    >>> told = leakage([[0.75, 0.25], [0.25, 0.75]], problem)
    >>> told.bayes.before, told.bayes.after, round(told.min_entropy_leakage, 4), round(told.mutual_information, 4)
    (0.5, 0.75, 0.585, 0.1887)
    """
    prior = checked_belief(belief, problem.records.prior)
    G = None if gain is None else gains(gain, problem.n_records)
    right = gained = conditional = 0.0
    for Z in _blocks(mechanism, problem):
        joint = prior[:, None] * Z
        right += math.fsum(joint.max(axis=0))
        conditional += _entropy(joint) - _entropy(joint.sum(axis=0))
        if G is not None:
            gained += math.fsum((G @ joint).max(axis=0))
    return Leakage(
        Vulnerability(float(prior.max()), right),
        None if G is None else Vulnerability(float((G @ prior).max()), gained),
        _entropy(prior),
        conditional,
    )


def gain_within(problem: Problem, distance: float) -> NDArray[np.float64]:
    """Return the gain of an adversary who is content with a guess within ``distance`` of the truth: 1 there, else 0."""
    if not distance >= 0:
        raise InputError(f"the distance of a gain must be zero or positive, got {distance!r}")
    metric = distance_among_records(problem)
    if metric is None:
        raise InputError(
            f"distances among records are not known for the metric {problem.metric.name!r}: give a gain as a matrix"
        )
    away = metric.to_rows(problem.records, np.arange(problem.n_records)).T
    return (away <= distance).astype(np.float64)


def gains(gain: Gain, n: int) -> NDArray[np.float64]:
    """Return a gain as a matrix, one row for each guess and one column for each of ``n`` records."""
    if callable(gain):
        made = np.array([[gain(w, x) for x in range(n)] for w in range(n)], dtype=np.float64)
    else:
        made = np.asarray(gain, dtype=np.float64)
    if made.ndim != 2 or made.shape[1] != n or len(made) == 0:
        raise InputError(
            f"a gain needs a row for each guess and a column for each of the {n} records, got shape {made.shape}"
        )
    if not (np.isfinite(made) & (made >= 0)).all():
        raise InputError("gains must be finite and not negative: add a constant")
    return made


def _blocks(mechanism: AnyMechanism, problem: Problem) -> Iterator[NDArray[np.float64]]:
    """Yield the probabilities of all records, some outputs at a time."""
    if not isinstance(mechanism, Mechanism):
        yield as_probabilities(mechanism, problem)
        return
    step = max(1, ENTRIES_AT_ONCE // problem.n_records)
    for start in range(0, problem.n_outputs, step):
        yield mechanism.block(None, slice(start, start + step))


def _entropy(weights: NDArray[np.float64]) -> float:
    """Return ``- sum w log2 w``, in which zeros count nothing."""
    positive = weights[weights > 0]
    return -math.fsum(positive * np.log2(positive))
