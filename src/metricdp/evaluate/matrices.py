"""Anybody's mechanism as a matrix: checked, but neither repaired nor certified."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from metricdp.data.frozen import frozen, refuse_masked
from metricdp.errors import InputError
from metricdp.mechanism.as_given import ROW_SUM_TOLERANCE
from metricdp.mechanism.mechanism import Mechanism
from metricdp.mechanism.plane import AT_PLACES, check_of_records

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from metricdp.problem.problem import Problem

    AnyMechanism: TypeAlias = Mechanism | ArrayLike


def as_entries(matrix: Any, problem: Problem) -> NDArray[np.float64] | NDArray[np.uint64]:
    """Return a matrix of ``problem`` as it is: floats that sum to about 1 in each row, or whole weights.

    Whole numbers are weights: rows must have one and the same sum, as the integer tables of mechanisms do. Anything
    that numpy reads as a matrix is taken, a DataFrame by its position.
    """
    check_of_records(matrix, AT_PLACES)
    refuse_masked(matrix)
    try:
        given = np.asarray(matrix)
    except ValueError as error:
        raise InputError(f"a matrix to be judged must be a table of numbers: {error}") from None
    shape = problem.n_records, problem.n_outputs
    if given.shape != shape or given.dtype.kind not in "fiub":
        raise InputError(
            f"a matrix to be judged needs one row of numbers for each of the {shape[0]} records and one column for "
            f"each of the {shape[1]} outputs, got {given.dtype} of shape {given.shape}"
        )
    if given.dtype.kind == "f" and given.dtype.itemsize > 8:
        raise InputError(f"a matrix to be judged exactly must hold floats of 64 bits at most, got {given.dtype}")
    bad = ~(np.isfinite(given) & (given >= 0))
    if bad.any():
        i, k = (int(v) for v in np.argwhere(bad)[0])
        raise InputError(
            f"probabilities must be finite and not negative, got {given[i, k]} in row {i + 1}, column {k + 1} "
            f"({int(bad.sum())} such entries): correct them"
        )
    if given.dtype.kind == "f":
        return _floats(frozen(given, np.float64))
    return _weights(frozen(given, np.uint64))


def row_sum_error(entries: NDArray[np.float64] | NDArray[np.uint64]) -> float:
    """Return how far the sum of a row is from 1 at most; 0 for weights, whose sums are equal."""
    if entries.dtype != np.float64:
        return 0.0
    return max(abs(math.fsum(row) - 1.0) for row in entries)


def as_probabilities(given: AnyMechanism, problem: Problem) -> NDArray[np.float64]:
    """Return the probabilities of a mechanism or of a matrix, shape (N, K), rounded where they are whole weights."""
    if isinstance(given, Mechanism):
        return given.probabilities
    entries = as_entries(given, problem)
    total = 1.0 if entries.dtype == np.float64 else float(entries[0].sum(dtype=np.float64))
    return entries / total


def _floats(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    sums = matrix.sum(axis=1)
    wrong = ~(np.abs(sums - 1.0) <= ROW_SUM_TOLERANCE)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"row {row + 1} of the matrix sums to {float(sums[row])!r} ({int(wrong.sum())} such rows), and "
            "probabilities sum to 1: divide each row by its sum"
        )
    return matrix


def _weights(matrix: NDArray[np.uint64]) -> NDArray[np.uint64]:
    sums = [sum(map(int, row)) for row in matrix]
    other = next((row for row, total in enumerate(sums) if total != sums[0] or total == 0), None)
    if other is not None:
        raise InputError(
            f"row {other + 1} of the matrix has the weights' sum {sums[other]}, and row 1 has {sums[0]}: give whole "
            "numbers with one positive sum for all rows, or probabilities"
        )
    return matrix
