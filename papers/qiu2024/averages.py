"""Means, spreads and correlations, and how tables show them."""

from __future__ import annotations

import math
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from papers.qiu2024.published import Figure

SPREAD_FACTOR = 1.96  # standard deviations, as in the paper's tables


def mean_spread(values: Sequence[float]) -> Figure:
    """Return the mean and 1.96 standard deviations (0 for a single value).

    Examples
    --------
    >>> mean_spread([1.0, 3.0])
    (2.0, 2.7718585822512662)
    """
    return fmean(values), SPREAD_FACTOR * stdev(values) if len(values) > 1 else 0.0


def shown(figure: Figure | None, *, missing: str = "–", decimals: int | None = None) -> str:
    """Return a mean with its spread in significant digits, or with ``decimals``.

    Examples
    --------
    >>> shown((128.0, 10.0)), shown((0.0423, 0.0)), shown(None)
    ('128 ± 10', '0.042', '–')
    >>> shown((3.0, 0.0)), shown((2.5, 1.0))
    ('3', '2.5 ± 1.0')
    """
    if figure is None:
        return missing
    mean, spread = figure
    size = max(abs(mean), abs(spread))
    is_whole = mean == round(mean) and spread == round(spread)
    digits = 0 if size >= 100 or is_whole else 1 if size >= 1 else 3 if size >= 0.01 else 5
    digits = digits if decimals is None else decimals
    number = f"{mean:.{digits}f}"
    return f"{number} ± {spread:.{digits}f}" if spread > 0 else number


def correlation(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return Pearson's coefficient; None where one side does not vary or there are fewer than three points.

    Examples
    --------
    >>> correlation([1, 2, 3], [2, 4, 6]), correlation([1, 2, 3], [1, 1, 1])
    (1.0, None)
    """
    if len(x) < 3 or len(set(x)) < 2 or len(set(y)) < 2:
        return None
    value = float(np.corrcoef(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))[0, 1])
    return min(1.0, max(-1.0, round(value, 12))) if math.isfinite(value) else None


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a Markdown table.

    Examples
    --------
    >>> print(markdown_table(["a", "b"], [[1, 2]]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "|" + "|".join(line) + "|" if line[0] == "---" else "| " + " | ".join(str(cell) for cell in line) + " |"
        for line in lines
    )


def beside(ours: str, paper: str | None) -> str:
    """Return our figure with the paper's in brackets."""
    return ours if paper is None else f"{ours} ({paper})"
