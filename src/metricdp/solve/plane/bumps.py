"""Kernels of the repair: how much is missing in a column, and the bumps that supply it."""

from __future__ import annotations

import numpy as np
from numba import njit

# the neighbours on one side, to 2.7 % of all directions: bumps are carried on over these, there and back
STEPS = np.array([(-1, 0), (0, -1), (-1, -1), (-1, 1), (-1, -2), (-1, 2), (-2, -1), (-2, 1)], dtype=np.int64)


@njit(cache=True, nogil=True)
def missing_in(z, shape, kinds, factors, theta, heights):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0917
    """Set the height of each node to the most that is missing in u of a cone it takes part in; return the largest.

    What is missing of a cone is ``|(g, g')| / theta - u``. A height is 0 where nothing is.
    """
    n, m = shape
    heights[:] = 0.0
    most = -np.inf
    for p in range(2 * n - 3):
        for q in range(2 * m - 3):
            kind, base = 2 * (p % 2) + q % 2, (p // 2) * m + q // 2
            g, h, u = 0.0, 0.0, 0.0
            for i in range(6):
                value = z[base + kinds[kind, i, 0] * m + kinds[kind, i, 1]]
                g += factors[kind, 0, i] * value
                h += factors[kind, 1, i] * value
                u += factors[kind, 2, i] * value
            lack = np.sqrt(g * g + h * h) / theta - u
            most = max(most, lack)
            if lack > 0.0:
                for i in range(6):
                    node = base + kinds[kind, i, 0] * m + kinds[kind, i, 1]
                    heights[node] = max(heights[node], lack)
    return most


@njit(cache=True, nogil=True)
def add_bumps(first, last, Z, shape, kinds, factors, theta, steps, falls, gain):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0917
    """Add to some columns, rows of ``Z``, at each node the highest of all bumps there, times ``gain``."""
    n, m = shape
    heights = np.empty(n * m)
    for k in range(first, last):
        if missing_in(Z[k], shape, kinds, factors, theta, heights) <= 0.0:
            continue
        for way in range(2):
            sign = 1 if way == 0 else -1
            for place in range(n * m):
                node = place if way == 0 else n * m - 1 - place
                i, j = node // m, node % m
                height = heights[node]
                for s in range(len(steps)):
                    a, b = i + sign * steps[s, 0], j + sign * steps[s, 1]
                    if 0 <= a < n and 0 <= b < m:
                        height = max(height, falls[s] * heights[a * m + b])
                heights[node] = height
        for node in range(n * m):
            Z[k, node] += gain * heights[node]


@njit(cache=True, nogil=True)
def most_missing(first, last, Z, shape, kinds, factors, theta, most):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0917
    """Set what is missing at most in each of some columns, rows of ``Z``."""
    heights = np.empty(shape[0] * shape[1])
    for k in range(first, last):
        most[k] = missing_in(Z[k], shape, kinds, factors, theta, heights)
