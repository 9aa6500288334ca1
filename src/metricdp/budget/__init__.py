"""What reports spend: a ledger of budgets, and stored answers, so that asking again spends nothing."""

from metricdp.budget.ledger import Ledger
from metricdp.budget.memoized import Memoized, memoize
from metricdp.budget.refusals import BudgetExceededError, BudgetsExceededError
from metricdp.budget.spending import budget
from metricdp.budget.store import LedgerError

__all__ = [
    "BudgetExceededError",
    "BudgetsExceededError",
    "Ledger",
    "LedgerError",
    "Memoized",
    "budget",
    "memoize",
]
