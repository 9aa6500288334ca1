"""Budgets of the records' own: which epsilon counts between two records.

Between records i and j it is ``min(epsilon_i, epsilon_j)``: each of them is promised its own epsilon against every
neighbour, so the stricter of the two decides. The larger one, or the mean, would break the stricter one's promise.
The exact check imports this file, which imports nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Budget = float | NDArray[np.float64]

WIDEST_RANGE = 1e9  # between the smallest and the largest epsilon of one list


def pair_budgets(epsilon: Budget, pairs: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the epsilon of each pair, shape (P,): that of all, or the smaller one of its two records.

    Examples
    --------
    >>> pair_budgets(np.array([1.0, 2.0, 3.0]), np.array([[0, 1], [1, 2]])).tolist()
    [1.0, 2.0]
    """
    if np.ndim(epsilon) == 0:
        return np.broadcast_to(np.float64(epsilon), (len(pairs),))
    each = np.asarray(epsilon)
    return np.minimum(each[pairs[:, 0]], each[pairs[:, 1]])
