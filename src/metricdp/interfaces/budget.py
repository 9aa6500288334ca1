"""What a batch of reports spends, in plain words."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from metricdp.mechanism.ledger import round_up

if TYPE_CHECKING:
    from metricdp.mechanism.mechanism import Mechanism


def budget(mechanism: Mechanism, n_reports: int) -> float:
    """Give ``n_reports * epsilon``, rounded up: what fresh reports spend together if they are all of one holder."""
    return round_up(n_reports * Fraction(mechanism.epsilon))


def scope_lines(mechanism: Mechanism, n_unprotected: int) -> list[str]:
    """Say what the reports do not hide; nothing if every pair of records is protected."""
    lines = []
    n_components = mechanism.certificate.n_components
    if n_unprotected:
        lines.append(
            f"NOT PROTECTED: {n_unprotected:,} reports are of records without any neighbour within {mechanism.eta:g} "
            f"({mechanism.metric}); they may show the true one. Make a mechanism with a larger eta."
        )
    if n_components > 1:
        lines.append(
            f"Scope: the records form {n_components} components; a report may show in which one the true record is."
        )
    return lines
