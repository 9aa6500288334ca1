"""The methods of this library, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import metricdp as mdp

if TYPE_CHECKING:
    from metricdp import Problem, Result

PARTITIONERS = ("k-m-dv", "k-m-rec", "k-m-adj", "bsc", "metis")
METHODS: dict[str, dict[str, Any]] = {
    "auto": {"method": "auto"},
    "direct": {"method": "direct"},
    "interior": {"method": "interior"},
    "first-order": {"method": "first-order"},
    "columns": {"method": "columns"},
    "kernel": {"method": "kernel"},
    **{
        f"benders {name}": {"method": "benders", "options": mdp.BendersOptions(partition=name)} for name in PARTITIONERS
    },
}
SINGLE = tuple(name for name in METHODS if name != "auto")


def solve(problem: Problem, name: str, *, gap: float, time_limit: float, **options: Any) -> Result:
    """Solve with one of the methods."""
    return mdp.solve(problem, **METHODS[name], gap=gap, time_limit=time_limit, **options)


def warm_up() -> None:
    """Compile every kernel, so that it is not part of any run's time."""
    small = mdp.Problem(mdp.data.grid(6, 6), epsilon=1.0, eta=1.5, outputs="random:12")
    for name in METHODS:
        solve(small, name, gap=0.05, time_limit=10.0)
    larger = mdp.Problem(mdp.data.grid(10, 10), epsilon=2.0, eta=1.5, outputs="random:60")
    dense = mdp.Problem(mdp.data.grid(10, 10), epsilon=2.0, eta=4.0, outputs="random:60")  # many pairs: thinned first
    for problem in (larger, dense):
        for name in ("first-order", "kernel"):
            solve(problem, name, gap=0.05, time_limit=10.0)
