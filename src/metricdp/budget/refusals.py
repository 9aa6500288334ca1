"""What is raised when a budget does not suffice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metricdp.budget.amounts import round_up
from metricdp.errors import MetricDPError, revealed

if TYPE_CHECKING:
    from datetime import timedelta
    from fractions import Fraction

ROUNDING_HINT = (
    "Doubles are counted exactly, and ten times the double 0.1 is a little more than 1: for room for exactly n reports "
    "give limit=n * Fraction(epsilon)"
)


class BudgetExceededError(MetricDPError):
    """A charge would pass the limit; nothing was recorded and nothing may be drawn.

    Attributes
    ----------
    holder, spent, asked, limit
        The holder, and the exact amounts.
    window
        The time over which the limit holds; None if it holds for ever.
    """

    def __init__(
        self, holder: str, spent: Fraction, asked: Fraction, limit: Fraction, window: timedelta | None = None
    ) -> None:
        self.holder, self.spent, self.asked, self.limit, self.window = holder, spent, asked, limit, window
        period = "" if window is None else f" in any window of {window}"
        excess = spent + asked - limit
        super().__init__(
            f"the budget of {holder!r} does not suffice: spent {round_up(spent):g}, asked {round_up(asked):g}, limit "
            f"{round_up(limit):g}{period}, too much by {round_up(excess):.3g}; nothing was recorded, draw no report"
            + (f". {ROUNDING_HINT}" if excess < limit / 10**12 else "")
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # made from the amounts again when it comes back from a worker process
        return type(self), (self.holder, self.spent, self.asked, self.limit, self.window)


class BudgetsExceededError(MetricDPError):
    """One or more of many charges would pass the limit; none was recorded and nothing may be drawn.

    Attributes
    ----------
    holders, n_asked
        The holders whose budgets do not suffice, and how many were asked for. The message says how many, but not who.
    """

    def __init__(self, holders: tuple[str, ...], n_asked: int) -> None:
        self.holders, self.n_asked = holders, n_asked
        super().__init__(
            f"the budgets of {len(holders):,} of {n_asked:,} holders{revealed(', '.join(holders))} do not suffice: "
            "nothing was recorded for anyone, draw no report; leave these holders out, or raise the limit"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.holders, self.n_asked)
