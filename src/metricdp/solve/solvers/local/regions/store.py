"""States of regions as files of plain arrays: nothing that is read from a file is ever run as code."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

from metricdp.metric.graph import MdpGraph
from metricdp.solve.solvers.local.costs import WindowCosts
from metricdp.solve.solvers.local.geometry import Geometry
from metricdp.solve.solvers.local.network import Network
from metricdp.solve.solvers.local.problem import LocalProblem, Nodes
from metricdp.solve.solvers.local.regions.part import StepPart, TablePart
from metricdp.solve.solvers.local.regions.work import Rows, Steps, Table
from metricdp.solve.solvers.local.repair import Columns
from metricdp.solve.solvers.local.windows import Edges, Windows

if TYPE_CHECKING:
    from pathlib import Path

KINDS = {
    kind.__name__: kind
    for kind in (
        Columns,
        Edges,
        Geometry,
        LocalProblem,
        MdpGraph,
        Network,
        Nodes,
        Rows,
        StepPart,
        Steps,
        Table,
        TablePart,
        WindowCosts,
        Windows,
    )
}
KIND, ARRAY, RANGE = "kind", "array", "range"


def write_state(state: Any, path: Path) -> None:
    """Write a state of arrays, numbers and the classes above; what occurs twice is written once, functions never."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    names: dict[int, str] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            if id(value) not in names:
                names[id(value)] = f"a{len(names)}"
                arrays[names[id(value)]] = np.ascontiguousarray(value)
            return {ARRAY: names[id(value)]}
        if isinstance(value, range):
            return {RANGE: [value.start, value.stop]}
        if isinstance(value, dict):
            return {name: plain(one) for name, one in value.items()}
        if type(value).__name__ in KINDS:
            own = {one.name: getattr(value, one.name) for one in fields(value)}
            kept = {name: plain(one) for name, one in own.items() if not callable(one)}
            return {KIND: type(value).__name__, "fields": kept}
        return value

    text = json.dumps(plain(state))
    save_file(arrays, path, metadata={"state": text})


def read_state(path: Path) -> Any:
    """Return the state that was written to a file."""
    with safe_open(path, framework="numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dictionary)
        tree = json.loads(file.metadata()["state"])

    def made(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if ARRAY in value:
            return arrays[value[ARRAY]]
        if RANGE in value:
            return range(*value[RANGE])
        if KIND in value:
            return KINDS[value[KIND]](**{name: made(one) for name, one in value["fields"].items()})
        return {name: made(one) for name, one in value.items()}

    return made(tree)
