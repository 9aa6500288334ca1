"""Where the time goes: the share of each stage, from the trace, and the functions that take longest."""

from __future__ import annotations

import cProfile
import pstats
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from metricdp import Result

PARTS = {
    "first-order": {
        "step_seconds": "first-order: steps",
        "bound_seconds": "first-order: bounds",
        "repair_seconds": "first-order: repair",
    },
    "columns": {
        "master_seconds": "columns: master",
        "pricing_seconds": "columns: pricing",
        "pure_seconds": "columns: mechanism",
    },
    "benders": {"master_seconds": "benders: master", "block_seconds": "benders: blocks"},
    "edges": {"edge_seconds": "first-order: graph"},
}


def shares(result: Result) -> dict[str, float]:
    """Return the share of each stage of a run, largest first; the rest of the time is ``other``."""
    spent: dict[str, float] = {}
    last = 0.0
    for row in result.trace.rows:
        stage = row["stage"]
        parts = PARTS.get(stage, {})
        for key, name in parts.items():
            spent[name] = spent.get(name, 0.0) + row[key]
        if stage == "direct":
            spent["direct: linear program"] = spent.get("direct: linear program", 0.0) + row["seconds"] - last
        elif stage == "kernel":
            spent["kernel: pricing"] = spent.get("kernel: pricing", 0.0) + row["seconds"] - last
        elif stage in ("certificate", "certified"):
            name = "final repair and certificate"
            spent[name] = spent.get(name, 0.0) + row["seconds"] - last
        last = row["seconds"]
    total = max(result.seconds, 1e-9)
    spent["other"] = max(0.0, total - sum(spent.values()))
    return {name: seconds / total for name, seconds in sorted(spent.items(), key=lambda item: -item[1])}


def hot_functions(run: Callable[[], Any], *, count: int = 15) -> tuple[Any, list[list[Any]]]:
    """Run under the profiler; return the value and the functions with the most own time (seconds, calls, name)."""
    profiler = cProfile.Profile()
    value = profiler.runcall(run)
    stats = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    rows = [
        [own, calls, f"{Path(file).name}:{line} {function}"]
        for (file, line, function), (_, calls, own, _, _) in stats.items()
    ]
    return value, sorted(rows, reverse=True)[:count]
