"""What is given as epsilon: one number for all records, or one for each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.data.frozen import frozen
from metricdp.errors import InputError
from metricdp.metric.budgets import WIDEST_RANGE

if TYPE_CHECKING:
    from numpy.typing import NDArray

MEANING = "a budget per unit of distance such as 10 per km"


def as_budget(epsilon: Any, records: Any, n: int) -> tuple[float, NDArray[np.float64] | None]:
    """Return the largest epsilon, and that of each record, shape (N,), or None if it is one for all.

    Parameters
    ----------
    epsilon
        A number, a list of one for each record, or the name of a column of ``records``, if these are a DataFrame.
    records, n
        The records as they were given, and how many there are.
    """
    given = _column(records, epsilon) if isinstance(epsilon, str) else epsilon
    try:
        values = frozen(given, np.float64)
    except InputError as error:  # a masked array
        raise InputError(f"epsilon cannot be used: {error}") from None
    except (TypeError, ValueError):
        raise InputError(f"epsilon must be a number, got {epsilon!r:.80}: give {MEANING}") from None
    if values.ndim and values.shape != (n,):
        raise InputError(
            f"epsilon must be one number, or one for each of the {n} records, got shape {values.shape}; budgets of "
            "pairs cannot be given: between two records the smaller epsilon counts, since the larger one or the mean "
            "would break the promise to the other"
        )
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if bad.size:
        where = f" in row {int(bad[0])} ({bad.size} such rows)" if values.ndim else ""
        raise InputError(
            f"epsilon must be positive and finite, got {float(values.flat[bad[0]])!r}{where}: give {MEANING}"
        )
    smallest, largest = float(values.min()), float(values.max())
    if largest > WIDEST_RANGE * smallest:
        raise InputError(
            f"epsilons of records must be within a factor of {WIDEST_RANGE:g}, got {smallest!r} and {largest!r}: make "
            "the largest one smaller"
        )
    return largest, None if smallest == largest else values


def budget_fault(epsilon: float, epsilons: NDArray[np.float64], n: int) -> str:
    """Return what is wrong with epsilons of ``n`` records of which ``epsilon`` is said to be the largest."""
    if epsilons.shape != (n,):
        return f"epsilons must be one for each of the {n} records, got shape {epsilons.shape}"
    if not (np.isfinite(epsilons) & (epsilons > 0)).all():
        return "epsilons must be positive and finite"
    if epsilons.max() > WIDEST_RANGE * epsilons.min():
        return f"epsilons must be within a factor of {WIDEST_RANGE:g}"
    if float(epsilons.max()) != epsilon:
        return f"epsilon must be the largest of the records' own, {float(epsilons.max())!r}, got {epsilon!r}"
    return ""


def budget_words(epsilon: float, epsilons: NDArray[np.float64] | None) -> str:
    """Return epsilon for a summary: a number, or the range of the records' own.

    Examples
    --------
    >>> budget_words(2.0, None), budget_words(2.0, np.array([0.5, 2.0]))
    ('2', '0.5 to 2')
    """
    return f"{epsilon:g}" if epsilons is None else f"{float(epsilons.min()):g} to {epsilon:g}"


def _column(records: Any, name: str) -> Any:
    if not hasattr(records, "columns"):
        raise InputError(
            f"epsilon must be a number, got {name!r:.80}: a column can be named for a DataFrame only; give {MEANING}, "
            "or an array with one for each record"
        )
    if list(records.columns).count(name) != 1:
        raise InputError(f"the DataFrame has no single column {name!r:.80}: name one that holds each record's epsilon")
    return records[name]
