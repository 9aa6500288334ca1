"""The explorer: one HTML file that shows a mechanism and its certificates, offline and without any request."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import math
import re
import tempfile
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.data.writing import check_writable, write_whole
from metricdp.errors import MetricDPError
from metricdp.evaluate.compare import (
    ANY_SIZE,
    MAX_DENSE_ENTRIES,
    QUICK_BASELINES,
    TIME_LIMIT_SECONDS,
    built,
    check_names,
    satisfies,
)
from metricdp.mechanism.expected import record_losses, table_loss
from metricdp.mechanism.plane import check_of_records
from metricdp.mechanism.sparse import SparseTable
from metricdp.report.convergence import convergence
from metricdp.report.explorer_data import mechanism_fields, packed
from metricdp.report.explorer_map import ground_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from metricdp.data.map_layers import MapFeature
    from metricdp.data.streets import StreetNetwork
    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.mechanism.plane import PlaneMechanism
    from metricdp.problem.problem import Problem

STYLES = ("page.css",)
SCRIPTS = (
    "read.js",
    "draw.js",
    "sentences.js",
    "names.js",
    "ground.js",
    "canvas.js",
    "map.js",
    "lists.js",
    "panels.js",
    "metricdp.classic.js",  # a copy of clients/js/dist, see tests/report/test_explorer.py
    "sample.js",
    "theme.js",
    "main.js",
)  # run in this order as one script
CONTENT_POLICY = (
    "default-src 'none'; script-src '{script}'; style-src '{style}'; img-src data:; base-uri 'none'; form-action 'none'"
)
MOST_SAMPLED_BYTES = 4_000_000  # of the packed mechanism file inside a page
Compared = tuple[str, float, bool]
"""A mechanism to compare with: its name, its expected loss, and whether it is certified at the same budget."""


@dataclass(frozen=True)
class SourceFile:
    """The mechanism file that a page is about."""

    name: str
    n_bytes: int
    sha256: str
    data: bytes = field(default=b"", repr=False)

    @classmethod
    def of(cls, path: Path) -> SourceFile:
        """Return the name, the size and the SHA-256 of the whole file, as ``sha256sum`` prints it."""
        data = path.read_bytes()
        return cls(path.name, len(data), hashlib.sha256(data).hexdigest(), data)


def write_explorer(target: str | Path, mechanism: Mechanism, **options: Any) -> int:
    """Write the page of `explorer_page` to ``target``, completely or not at all; return its size in bytes."""
    check_writable(target)
    data = explorer_page(mechanism, **options).encode()
    write_whole(target, data, may_pack=True)
    return len(data)


def compared_with(problem: Problem, names: Sequence[str] = QUICK_BASELINES) -> list[Compared]:
    """Build the named mechanisms on ``problem``; one that cannot be made there, or is too large, is left out."""
    check_names(names, is_built=True)
    rows = []
    is_large = problem.n_records * problem.n_outputs > MAX_DENSE_ENTRIES
    for name in names:
        if is_large and name not in ANY_SIZE:
            continue
        try:
            made, _ = built(name, problem, TIME_LIMIT_SECONDS)
        except MetricDPError:
            continue
        rows.append((name, table_loss(made.table, problem), satisfies(made, problem)))
    return rows


def explorer_page(
    mechanism: Mechanism,
    *,
    problem: Problem | None = None,
    is_own_loss: bool = True,
    compared: Sequence[Compared] = (),
    trace: Iterable[Mapping[str, Any]] = (),
    streets: StreetNetwork | None = None,
    layers: Sequence[MapFeature] = (),
    file: SourceFile | None = None,
) -> str:
    """Return a self-contained HTML page that explores a mechanism.

    Parameters
    ----------
    mechanism
        What to show.
    problem
        The problem that it solves. Without it no losses are shown.
    is_own_loss
        Whether the problem's loss is the one that the mechanism was made for, or a stand-in.
    compared
        Other mechanisms on the same problem, such as from `compared_with`: name, expected loss, certified.
    trace
        The rows of the run's trace, for the convergence of the bounds.
    streets
        Drawn beneath the records; by default those of the records, or of a shipped city.
    layers
        What else is drawn there: water, parks, streets and names, such as from `metricdp.data.readers.read_layers`.
    file
        The file that the mechanism is in. The page holds it, packed, and draws from it, unless that would take more
        than `MOST_SAMPLED_BYTES`; without ``file``, one that is written for the page.
    """
    check_of_records(mechanism, "metricdp.report.region_page")
    records = mechanism.records if problem is None else problem.records
    ground, credit = ground_of(records, streets)
    payload = mechanism_fields(mechanism, [*ground, *layers])
    payload["loss"] = None
    if problem is not None:
        losses = record_losses(mechanism.table, problem.losses)
        payload["arrays"]["losses"] = packed(losses.astype(np.float32))
        is_length = problem.loss_name.startswith(("travel", "distance")) and payload["unit"]
        payload["loss"] = {
            "name": problem.loss_name,
            "is_own": is_own_loss,
            "expected": math.fsum(losses * records.prior),
            "unit": "km" if is_length else "",
        }
    payload |= {
        "certificate": _certificate_fields(mechanism),
        "compared": [{"name": name, "loss": loss, "certified": certified} for name, loss, certified in compared],
        "convergence": convergence_fields(trace),
        "credit": credit,
        "sampling": sampling_fields(mechanism, file),
        "file": None if file is None else {"name": file.name, "bytes": file.n_bytes, "sha256": file.sha256},
    }
    return assembled(f"{records.name} · metricdp explorer", payload)


def sampling_fields(mechanism: Mechanism | PlaneMechanism, file: SourceFile | None) -> dict[str, str]:
    """Return the mechanism file for the page to draw from, packed, or why it is not in the page."""
    table = mechanism.table
    n_weights = table.n_stored if isinstance(table, SparseTable) else table.size
    if n_weights <= MOST_SAMPLED_BYTES:  # larger ones are not packed only to be left out
        file = file if file is not None and file.data else _written(mechanism)
        data = gzip.compress(file.data, mtime=0)
        if len(data) <= MOST_SAMPLED_BYTES:
            return {"file": base64.b64encode(data).decode("ascii"), "why": ""}
    most = f"{MOST_SAMPLED_BYTES / 1e6:g} MB"
    return {"file": "", "why": f"its mechanism file is too large to be inside it (more than {most} packed)"}


def _written(mechanism: Mechanism | PlaneMechanism) -> SourceFile:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.mdp"
        mechanism.save(path)
        return SourceFile.of(path)


def _certificate_fields(mechanism: Mechanism) -> dict[str, Any]:
    certificate, best = mechanism.certificate, mechanism.optimality
    check, ids = certificate.privacy, mechanism.records.ids
    return {
        "is_private": check.certified and check.n_pairs > 0,
        "pairs": check.n_pairs,
        "outputs": check.n_outputs,
        "comparisons": 2 * check.n_pairs * check.n_outputs,
        "decided_exactly": check.n_decided_exactly,
        "tightest_epsilon": check.tightest_epsilon,
        "worst": None if check.worst is None else [ids[check.worst.i], ids[check.worst.j]],
        "components": certificate.n_components,
        "isolated": certificate.n_isolated,
        "is_from_file": certificate.is_from_file,
        "solver": mechanism.solver,
        "optimality": None if best is None else {"loss": best.loss, "lower_bound": best.lower_bound, "gap": best.gap},
        "lines": certificate.lines(),
    }


def convergence_fields(trace: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the curves of the bounds as the page draws them; None without a trace."""
    rows = list(trace)
    if not rows:
        return None
    found = convergence(rows)
    return {
        "certified": found.certified,
        "series": [
            {"name": one.name, "seconds": one.seconds, "lower": one.lower, "upper": one.upper} for one in found.series
        ],
    }


def assembled(
    title: str,
    payload: dict[str, Any],
    *,
    explore: str = "records.html",
    styles: Sequence[str] = STYLES,
    scripts: Sequence[str] = SCRIPTS,
) -> str:
    """Return the whole page. Text from the data goes into the title, escaped, and into JSON that cannot end a tag."""
    style = "".join(_source(name) for name in styles)
    script = "(() => {\n" + "".join(_source(name) for name in scripts) + "})();\n"
    data = json.dumps(payload, ensure_ascii=True, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    parts = {
        "title": html.escape(title),
        "policy": CONTENT_POLICY.format(script=_fingerprint(script), style=_fingerprint(style)),
        "style": style,
        "explore": _source(explore),
        "payload": data,
        "script": script,
    }
    # one pass, so that no text inside a part is mistaken for a placeholder
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], _source("page.html"))


def _fingerprint(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def _source(name: str) -> str:
    return (files("metricdp.report") / "page" / name).read_text(encoding="utf-8")
