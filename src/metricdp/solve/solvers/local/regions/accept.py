"""What an answer of a region must look like: types, sizes and ranges, checked before it is used.

A table is checked exactly whatever the answers were, and its loss is computed from it. The lower bound is the sum of
what regions answer: a worker that lies could make it too large, so a cluster must be trusted for the gap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.errors import InputError
from metricdp.solve.answers import array_of, number_of

if TYPE_CHECKING:
    from metricdp.solve.solvers.local.regions.plan import Plan

LARGEST = 1e300


class Accepted:
    """Checks of the answers to each question of a plan; each raises an InputError."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def anything(self, region: int, answer: dict[str, Any]) -> None:
        """Accept an answer that is not used."""

    def start(self, region: int, answer: dict[str, Any]) -> None:
        """Check radii, and counts that are only shown."""
        array_of(answer, "radius", np.float64, (len(self.plan.owned[region]),), low=0.0, high=LARGEST)
        for name in ("entries", "multipliers"):
            _check_count(answer, name)

    def advance(self, region: int, answer: dict[str, Any]) -> None:
        """Check prices."""
        n = len(self.plan.owned[region])
        array_of(answer, "prices", np.float64, (n,))
        array_of(answer, "is_small", np.bool_, (n,))
        _check_count(answer, "steps")

    def bound(self, region: int, answer: dict[str, Any]) -> None:
        """Check least reduced costs: of a node without any slot it is infinite, and no other may be."""
        n, core = len(self.plan.seen[region]), int(np.diff(self.plan.cuts)[region])
        slots = array_of(answer, "slots", np.int32, (n,), low=0, high=core)
        least = answer.get("least")
        if not isinstance(least, np.ndarray) or least.dtype != np.float64 or least.shape != (n,):
            raise InputError("least must be an array of float64, one for each node")
        if np.isnan(least).any() or not np.array_equal(least == np.inf, slots == 0):
            raise InputError("least must be infinite for nodes without slots, and for no others")

    def close(self, region: int, answer: dict[str, Any]) -> None:
        """Check row sums."""
        array_of(answer, "sums", np.float64, (len(self.plan.members[region]),), low=-1e-9, high=LARGEST)
        if not number_of(answer, "background") >= 0.0:
            raise InputError("background must not be negative")

    def whole(self, region: int, answer: dict[str, Any]) -> None:
        """Check the sizes of a region's part of the table."""
        n, outputs = len(self.plan.members[region]), len(self.plan.outputs_of(region))
        array_of(answer, "counts", np.int32, (n,), low=0, high=outputs)
        array_of(answer, "grains", np.uint64, (outputs,))

    def piece(self, region: int, piece: dict[str, Any]) -> None:
        """Check a region's part of the table."""
        n, outputs = len(self.plan.members[region]), self.plan.outputs_of(region)
        start = array_of(piece, "start", np.int64, (n + 1,), low=0)
        if start[0] != 0 or (np.diff(start) < 0).any():
            raise InputError("rows must follow one another")
        array_of(piece, "outputs", np.int32, (int(start[-1]),), low=int(outputs.min()), high=int(outputs.max()))
        array_of(piece, "weights", np.uint64, (int(start[-1]),))


def _check_count(answer: dict[str, Any], name: str) -> None:
    if not isinstance(answer.get(name), int) or not 0 <= answer[name] < 1 << 62:
        raise InputError(f"{name} must be a whole number of at least 0")
