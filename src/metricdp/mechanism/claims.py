"""What a mechanism says of itself, before its table is looked at."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from metricdp.errors import Faults
from metricdp.mechanism.scope import is_known
from metricdp.problem.budgets import budget_fault

if TYPE_CHECKING:
    from metricdp.mechanism.mechanism import Mechanism


def check_claims(mechanism: Mechanism) -> None:
    """Refuse budgets, metrics, outputs and bounds that cannot be; all faults are reported together."""
    faults = Faults("the mechanism")
    faults.check(
        math.isfinite(mechanism.epsilon) and mechanism.epsilon > 0,
        f"epsilon must be positive and finite, got {mechanism.epsilon!r}",
    )
    if mechanism.epsilons is not None:
        fault = budget_fault(mechanism.epsilon, mechanism.epsilons, mechanism.records.n)
        faults.check(not fault, fault)
    faults.check(mechanism.eta > 0, f"eta must be positive, got {mechanism.eta!r}")
    faults.check(
        is_known(mechanism.metric), f"unknown metric {mechanism.metric!r}: this version does not know its scope"
    )
    faults.check(
        mechanism.graph.n == mechanism.records.n,
        f"the graph is of {mechanism.graph.n} records, but there are {mechanism.records.n}",
    )
    rows = mechanism.outputs.rows
    faults.check(
        rows is None or (len(rows) == mechanism.outputs.n and rows.min() >= 0 and rows.max() < mechanism.records.n),
        f"each of the {mechanism.outputs.n} outputs must be a row of the {mechanism.records.n} records",
    )
    best = mechanism.optimality
    faults.check(
        best is None or (math.isfinite(best.loss) and 0.0 <= best.lower_bound <= best.loss),
        f"bounds must be finite with 0 <= lower bound <= loss, got {best}",
    )
    faults.raise_if_any()
