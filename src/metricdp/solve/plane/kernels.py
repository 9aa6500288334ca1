"""Kernels of the conic first-order steps, in single precision: what they return is repaired and checked elsewhere."""

from __future__ import annotations

import numpy as np
from numba import njit

from metricdp.metric.simd import WIDTH
from metricdp.solve.plane.tiles import cone_step

ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)
SUM_TOLERANCE = 1e-7
NEWTON_STEPS = 60
FAST = {"nsz", "contract", "arcp", "reassoc"}  # infinities stay what they are


@njit(fastmath=FAST, cache=True, nogil=True)
def unit_shift(V, steps, n, t):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return t at which ``max(0, V - steps t)`` sums to 1 over the first ``n`` entries, by Newton from ``t``."""
    for _ in range(NEWTON_STEPS):
        total, slope = 0.0, 0.0
        for k in range(n):
            x = V[k] - steps[k] * t
            total += max(x, 0.0)
            slope += steps[k] if x > 0.0 else 0.0
        if slope == 0.0:  # too far right: begin left of the solution
            highest, least = -1e300, 1e300
            for k in range(n):
                highest = max(highest, V[k] / steps[k])
                least = min(least, steps[k])
            t = highest - 1.0 / least
            continue
        t += (total - 1.0) / slope
        if abs(total - 1.0) < SUM_TOLERANCE:
            break
    return t


@njit(fastmath=FAST, cache=True, nogil=True)
def row_steps(  # type: ignore[no-untyped-def]  # noqa: ANN201, PLR0917
    first,  # noqa: ANN001
    last,  # noqa: ANN001
    starts,  # noqa: ANN001
    slots,  # noqa: ANN001
    costs,  # noqa: ANN001
    tau,  # noqa: ANN001
    omega,  # noqa: ANN001
    back,  # noqa: ANN001
    Z,  # noqa: ANN001
    anchor,  # noqa: ANN001
    plain,  # noqa: ANN001
    ahead,  # noqa: ANN001
    shift,  # noqa: ANN001
    weight,  # noqa: ANN001
    reflect,  # noqa: ANN001
    moved,  # noqa: ANN001
    V,  # noqa: ANN001
    steps,  # noqa: ANN001
):
    """Step the rows of nodes and project each on the simplex in the norm of 1 / tau.

    ``z = max(0, v - tau t)`` with t from Newton, in double precision: where outputs are far away, tau differs by many
    powers of ten. ``V`` and ``steps`` are scratch, as long as the longest row.
    """
    rest = ONE - weight
    for i in range(first, last):
        n = 0
        for slot in range(starts[i], starts[i + 1]):
            at = slots[slot]
            for lane in range(WIDTH):
                step = tau[at + lane] / omega
                steps[n + lane] = step
                V[n + lane] = Z[at + lane] - step * (costs[at + lane] + back[at + lane])
            n += WIDTH
        t = unit_shift(V, steps, n, shift[i])
        shift[i] = t
        n, squared = 0, 0.0
        for slot in range(starts[i], starts[i + 1]):
            at = slots[slot]
            for lane in range(WIDTH):
                z, before = np.float32(max(V[n + lane] - steps[n + lane] * t, 0.0)), Z[at + lane]
                squared += (z - before) * (z - before) / steps[n + lane]
                plain[at + lane] = z
                ahead[at + lane] = TWO * z - before
                Z[at + lane] = weight * (z + reflect * (z - before)) + rest * anchor[at + lane]
            n += WIDTH
        moved[i] = squared


@njit(cache=True, nogil=True)
def cone_steps(  # type: ignore[no-untyped-def]  # noqa: ANN201, PLR0917
    first,  # noqa: ANN001
    last,  # noqa: ANN001
    shapes,  # noqa: ANN001
    blocks,  # noqa: ANN001
    cones,  # noqa: ANN001
    kinds,  # noqa: ANN001
    factors,  # noqa: ANN001
    ahead,  # noqa: ANN001
    back,  # noqa: ANN001
    Y,  # noqa: ANN001
    anchor,  # noqa: ANN001
    sigma,  # noqa: ANN001
    scalars,  # noqa: ANN001
    moved,  # noqa: ANN001
):
    """Take the dual step of every cone of some groups, reflected and drawn to the anchor; ``back`` becomes A'y."""
    offsets = np.empty((4, 6), np.int64)
    for group in range(first, last):
        n, m = shapes[group]
        block, cone = blocks[group], cones[group]
        back[block : blocks[group + 1]] = ZERO
        for kind in range(4):
            for i in range(6):
                offsets[kind, i] = kinds[kind, i, 0] * m + kinds[kind, i, 1]
        squared = 0.0
        for p in range(2 * n - 3):
            for q in range(2 * m - 3):
                kind = 2 * (p % 2) + q % 2
                base = block + WIDTH * ((p // 2) * m + q // 2)
                squared += cone_step(
                    ahead, back, Y, anchor, sigma, factors, cone, kind, offsets, base, kind * 18, scalars
                )
                cone += 1
        moved[group] = squared
