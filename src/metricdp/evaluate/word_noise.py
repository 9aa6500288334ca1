"""The two mechanisms that are common for words: noise in all dimensions with the nearest word, and TEM.

Multivariate Laplace noise (Feyisetan et al., WSDM 2020) has a density proportional to ``exp(-epsilon |x|)`` in all D
dimensions: a gamma radius with shape D in a uniform direction. The nearest output is reported. What its probabilities
are is not known, so there is no table that could be checked: its loss is estimated from draws, and nothing is
certified.

The truncated exponential mechanism (TEM, Carvalho et al., 2021) draws a word within gamma with a probability
proportional to ``exp(-epsilon d / 2)``, and any other with ``exp(-epsilon gamma / 2)``. That is the exponential
mechanism of ``min(d, gamma)``: a table that passes the exact check. Programs that draw it with floats do not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import InputError
from metricdp.evaluate.problem_of_file import StoredMetric
from metricdp.mechanism.baselines import certified_as_it_is, decay_logarithms
from metricdp.metric.distances import CoordinateMetric
from metricdp.problem.loss import distance_loss
from metricdp.problem.loss_space import space_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.problem.problem import Problem

DRAWS = 10_000
ENTRIES_AT_ONCE = 4_000_000  # of the distances from noisy points to outputs
TEM_BETA = 0.001  # of TEM: how likely a word beyond gamma is at most, if all words were there


def noisy_words(problem: Problem, effort: float) -> tuple[NDArray[np.float64], str]:
    """Return the losses of draws of multivariate Laplace noise with the nearest output, and what they are."""
    metric = problem.metric.base if isinstance(problem.metric, StoredMetric) else problem.metric
    if type(metric) is not CoordinateMetric or metric.name != "euclidean":
        raise InputError("multivariate Laplace noise is for the Euclidean distance of vectors: use metric='euclidean'")
    n, rng = max(2, round(DRAWS * effort)), np.random.default_rng(0)
    rows = rng.choice(problem.n_records, size=n, p=problem.records.prior)
    here, outputs = problem.records.coordinates, problem.outputs.coordinates
    to = np.empty(n, dtype=np.int64)
    squares = (outputs**2).sum(axis=1)
    step = max(1, ENTRIES_AT_ONCE // (problem.n_outputs + problem.records.dimension))
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        noisy = here[rows[part]] + laplace_noise(rng, part.stop - part.start, here.shape[1], problem.epsilon)
        to[part] = (squares - 2.0 * noisy @ outputs.T).argmin(axis=1)
    note = f"NOT CERTIFIED: no table to check; {n:,} draws, each moved to the nearest output"
    return _losses(problem, rows, to), note


def laplace_noise(rng: np.random.Generator, n: int, dimension: int, epsilon: float) -> NDArray[np.float64]:
    """Return noise with a density proportional to ``exp(-epsilon |x|)``, shape (n, dimension): only for estimates."""
    direction = rng.normal(size=(n, dimension))
    radius = rng.gamma(dimension, 1.0 / epsilon, size=n)
    return direction * (radius / np.linalg.norm(direction, axis=1))[:, None]


def truncated_exponential(problem: Problem, *, gamma: float | None = None) -> Mechanism:
    """Return TEM, certified: at epsilon where distances satisfy the triangle inequality.

    ``gamma`` is the distance of truncation; by default that of its authors,
    ``2 / epsilon ln((1 - b) (K - 1) / b)`` with b = 0.001.
    """
    reach = _gamma(problem) if gamma is None else float(gamma)
    if not reach > 0:
        raise InputError(f"gamma must be positive, got {gamma}: give a distance beyond which words are equally likely")
    distances = np.minimum(distance_loss(problem.records, problem.outputs, problem.metric), reach)
    return certified_as_it_is(problem, decay_logarithms(distances, 0.5 * problem.epsilon), solver="TEM")


def tem_note(problem: Problem) -> str:
    """Return how TEM was made, in words."""
    return f"truncated at gamma = {_gamma(problem):.4g}; as a table, not as programs draw it with floats"


def _gamma(problem: Problem) -> float:
    odds = (1.0 - TEM_BETA) * max(1, problem.n_outputs - 1) / TEM_BETA
    return 2.0 / problem.epsilon * math.log(odds)


def _losses(problem: Problem, rows: NDArray[np.int64], to: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the loss of each row with the output at the same place."""
    space = space_of(problem.losses)
    if space is not None:
        return space.between(rows, to)
    if problem.losses.fits(memory_limit=problem.memory_limit):
        return problem.loss[rows, to]
    return np.array([problem.losses.block(rows[a : a + 1], to[a : a + 1])[0, 0] for a in range(len(rows))])
