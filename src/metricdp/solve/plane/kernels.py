"""Kernels of the conic first-order steps, in single precision: what they return is repaired and checked elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

ZERO, ONE = np.float32(0), np.float32(1)
TINY = np.float32(1e-30)
SUM_TOLERANCE = 1e-7
NEWTON_STEPS = 60


@njit(cache=True, nogil=True)
def project_rows(V, tau, shift, Z):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Project each row of V on the simplex in the norm of 1 / tau: ``z = max(0, v - tau t)`` with t from Newton.

    In double precision: where outputs are far away, tau differs by many powers of ten.
    """
    n, K = V.shape
    for i in range(n):
        t = shift[i]
        for _ in range(NEWTON_STEPS):
            total, slope = 0.0, 0.0
            for k in range(K):
                step = np.float64(tau[i, k])
                x = np.float64(V[i, k]) - step * t
                if x > 0.0:
                    total += x
                    slope += step
            if slope == 0.0:  # too far right: begin left of the solution
                highest, least = -np.inf, np.inf
                for k in range(K):
                    step = np.float64(tau[i, k])
                    highest = max(highest, np.float64(V[i, k]) / step)
                    least = min(least, step)
                t = highest - 1.0 / least
                continue
            t += (total - 1.0) / slope
            if abs(total - 1.0) < SUM_TOLERANCE:
                break
        shift[i] = t
        for k in range(K):
            Z[i, k] = np.float32(max(np.float64(V[i, k]) - np.float64(tau[i, k]) * t, 0.0))


@njit(fastmath=True, cache=True, nogil=True)
def cone_pass(nodes, factors, theta, sigma, Z, Y, anchor, back, weight, reflect):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0917
    """Take the dual step of every cone, reflected and drawn to the anchor; ``back`` becomes A'y of the plain step.

    Returns the squared length of the step.
    """
    n, K = len(nodes), Z.shape[1]
    back[:] = ZERO
    squared = 0.0
    shrink = ONE / (ONE + theta * theta)
    rest = ONE - weight
    for c in range(n):
        a0, a1, a2, a3, a4, a5 = factors[c, 0]
        b0, b1, b2, b3, b4, b5 = factors[c, 1]
        c0, c1, c2, c3, c4, c5 = factors[c, 2]
        i0, i1, i2, i3, i4, i5 = nodes[c]
        here: Any = ZERO
        for k in range(K):
            s = sigma[c, k]
            one_by_s = ONE / s
            x0, x1, x2, x3, x4, x5 = Z[i0, k], Z[i1, k], Z[i2, k], Z[i3, k], Z[i4, k], Z[i5, k]
            y0, y1, y2 = Y[c, 0, k], Y[c, 1, k], Y[c, 2, k]
            u = y0 * one_by_s + a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3 + a4 * x4 + a5 * x5
            v = y1 * one_by_s + b0 * x0 + b1 * x1 + b2 * x2 + b3 * x3 + b4 * x4 + b5 * x5
            w = y2 * one_by_s + c0 * x0 + c1 * x1 + c2 * x2 + c3 * x3 + c4 * x4 + c5 * x5
            g = np.sqrt(u * u + v * v) + TINY
            inside = g <= theta * w
            # the nearest point of the cone |g| <= theta w
            height = max((w + theta * g) * shrink, ZERO)
            r = g if inside else theta * height
            top = w if inside else height
            f = s * (ONE - r / g)
            n0, n1, n2 = f * u, f * v, s * (w - top)
            back[i0, k] += a0 * n0 + b0 * n1 + c0 * n2
            back[i1, k] += a1 * n0 + b1 * n1 + c1 * n2
            back[i2, k] += a2 * n0 + b2 * n1 + c2 * n2
            back[i3, k] += a3 * n0 + b3 * n1 + c3 * n2
            back[i4, k] += a4 * n0 + b4 * n1 + c4 * n2
            back[i5, k] += a5 * n0 + b5 * n1 + c5 * n2
            here += one_by_s * ((n0 - y0) ** 2 + (n1 - y1) ** 2 + (n2 - y2) ** 2)
            Y[c, 0, k] = weight * (n0 + reflect * (n0 - y0)) + rest * anchor[c, 0, k]
            Y[c, 1, k] = weight * (n1 + reflect * (n1 - y1)) + rest * anchor[c, 1, k]
            Y[c, 2, k] = weight * (n2 + reflect * (n2 - y2)) + rest * anchor[c, 2, k]
        squared += here
    return squared
