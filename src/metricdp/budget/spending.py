"""What a batch of reports spends, in plain words."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from metricdp.budget.amounts import round_up

if TYPE_CHECKING:
    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.mechanism.plane import PlaneMechanism


def budget(mechanism: Mechanism | PlaneMechanism, n_reports: int) -> float:
    """Return ``n_reports * epsilon``, rounded up: what fresh reports spend together if they are all of one holder."""
    return round_up(n_reports * Fraction(mechanism.epsilon))
