"""The bounds of a run as they closed in, read from the rows of its trace."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from metricdp.errors import FileFormatError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


@dataclass(frozen=True)
class BoundsSeries:
    """Lower and upper bound of one component after each step; a bound that is not known yet is None."""

    name: str
    seconds: tuple[float, ...]
    lower: tuple[float | None, ...]
    upper: tuple[float | None, ...]


@dataclass(frozen=True)
class Convergence:
    """What a trace says about the bounds.

    ``series`` has one entry for each component that was solved step by step, the longest first; ``certified`` are the
    lower bound and the loss that the whole run ended with, if it did.
    """

    series: tuple[BoundsSeries, ...]
    certified: tuple[float, float] | None


def read_trace(path: Path) -> list[dict[str, Any]]:
    """Read the JSON lines that ``metricdp solve --trace`` writes."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise InputError(f"cannot read the trace {path}: {error}") from None
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict) or "stage" not in row or not _is_number(row.get("seconds")):
            raise FileFormatError(
                f"{path} is not a trace: line {number} is not a JSON object with seconds and stage; "
                "give the log that a run has written"
            )
        rows.append(row)
    if not rows:
        raise FileFormatError(f"the trace {path} is empty: give the log that a run has written")
    return rows


def convergence(rows: Iterable[Mapping[str, Any]]) -> Convergence:
    """Gather the bounds of each component from the rows of a trace.

    Examples
    --------
    >>> found = convergence([
    ...     {"seconds": 1.0, "stage": "columns", "component": 0, "lower_bound": 0.5, "upper_bound": float("inf")},
    ...     {"seconds": 2.0, "stage": "columns", "component": 0, "lower_bound": 0.7, "upper_bound": 0.8},
    ...     {"seconds": 3.0, "stage": "certified", "lower_bound": 0.7, "loss": 0.8},
    ... ])
    >>> found.series[0].lower, found.series[0].upper, found.certified
    ((0.5, 0.7), (None, 0.8), (0.7, 0.8))
    """
    points: dict[Any, list[tuple[float, float | None, float | None]]] = defaultdict(list)
    certified = None
    for row in rows:
        lower, upper = _finite(row.get("lower_bound")), _finite(row.get("upper_bound"))
        if row.get("stage") == "certified":
            loss = _finite(row.get("loss"))
            certified = None if lower is None or loss is None else (lower, loss)
        elif lower is not None or upper is not None:
            points[row.get("component")].append((float(row["seconds"]), lower, upper))
    series = [
        BoundsSeries("all records" if component is None else _group(component), *zip(*steps, strict=True))
        for component, steps in points.items()
    ]
    return Convergence(tuple(sorted(series, key=lambda one: -len(one.seconds))), certified)


def _group(component: Any) -> str:
    return f"group {component + 1}" if isinstance(component, int) else f"group {component}"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _finite(value: Any) -> float | None:
    return float(value) if _is_number(value) and math.isfinite(value) else None
