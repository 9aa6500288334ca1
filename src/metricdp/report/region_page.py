"""The explorer of a region: one HTML file in which any point can be chosen, with what is reported from it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.data.records import Records
from metricdp.data.writing import check_writable, write_whole
from metricdp.errors import InputError
from metricdp.evaluate.guessing import output_chances
from metricdp.mechanism.exact import TOTAL_BITS
from metricdp.mechanism.expected import record_losses
from metricdp.report.explorer import assembled, convergence_fields, sampling_fields
from metricdp.report.explorer_data import LOG_LEVELS, packed, table_arrays
from metricdp.report.explorer_map import Frame, ground_fields, ground_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from metricdp.data.map_layers import MapFeature
    from metricdp.data.streets import StreetNetwork
    from metricdp.evaluate.problem_of_file import Rebuilt
    from metricdp.mechanism.plane import PlaneMechanism
    from metricdp.report.explorer import Compared, SourceFile

SPLINES = "bspline2"  # the weights that region-read.js computes
STYLES = ("page.css", "region.css")
SCRIPTS = (
    "read.js",
    "draw.js",
    "sentences.js",
    "names.js",
    "ground.js",
    "canvas.js",
    "region-read.js",
    "region-map.js",
    "panels.js",
    "metricdp.plane.classic.js",  # a copy of clients/js/dist, see tests/report/test_region_page.py
    "theme.js",
    "region.js",
)  # run in this order as one script


def write_region_page(target: str | Path, mechanism: PlaneMechanism, **options: Any) -> int:
    """Write the page of `region_page` to ``target``, completely or not at all; return its size in bytes."""
    check_writable(target)
    data = region_page(mechanism, **options).encode()
    write_whole(target, data, may_pack=True)
    return len(data)


def region_page(
    mechanism: PlaneMechanism,
    *,
    found: Rebuilt | None = None,
    compared: Sequence[Compared] = (),
    trace: Iterable[Mapping[str, Any]] = (),
    streets: StreetNetwork | None = None,
    layers: Sequence[MapFeature] = (),
    file: SourceFile | None = None,
) -> str:
    """Return a self-contained HTML page that explores the mechanism of a region.

    Parameters
    ----------
    mechanism
        What to show.
    found
        The mechanism at the places where people are, such as from `at_places`, for its loss. Without it none is shown.
    compared
        Other mechanisms at these places, such as from `compared_with`: name, expected loss, certified.
    trace, streets, layers, file
        As for `explorer_page`.
    """
    region = mechanism.region
    if region.weights != SPLINES:
        raise InputError(
            f"the page draws regions with {SPLINES} as weights, and this one has {region.weights}: evaluate it"
        )
    corners = Records(np.array([region.low, region.high]), kind=region.kind)
    frame = Frame.around(corners)
    ground, credit = ground_of(corners, streets, is_region=True)
    arrays = _arrays(mechanism)
    ground_arrays, about = ground_fields((*ground, *layers) if region.kind == "places" else (), frame)
    unit = "km" if region.kind == "places" else ""
    name = "Region " + ", ".join(f"{value:.6g}" for value in (*region.low, *region.high))
    payload: dict[str, Any] = {
        "name": name,
        "kind": region.kind,
        "metric": region.metric,
        "unit": unit,
        "epsilon": mechanism.epsilon,
        "eta": None,
        "ids": mechanism.records.ids,
        "outputs": mechanism.outputs.ids(mechanism.records),
        "map": {"scale": frame.scale, "unit": unit, "is_round": True, **about},
        "region": {
            "low": region.low,
            "high": region.high,
            "cells": region.cells,
            "centre": frame.centre.tolist(),
            "stretch": frame.stretch.tolist(),
            "is_places": region.kind == "places",
            "outputs": mechanism.outputs.coordinates.tolist(),
            "rounding": region.rounding,
        },
        "certificate": _certificate(mechanism),
        "compared": [{"name": one, "loss": loss, "certified": is_private} for one, loss, is_private in compared],
        "loss": None if found is None else _loss(found, unit),
        "convergence": convergence_fields(map(_bounds, trace)),
        "credit": credit,
        "shown": {
            "is_all": len(arrays["levels"]) == int(np.count_nonzero(mechanism.table)),
            "left_out": _left_out(arrays, region.inner),
        },
        "sampling": sampling_fields(mechanism, file),
        "file": None if file is None else {"name": file.name, "bytes": file.n_bytes, "sha256": file.sha256},
        "arrays": {key: packed(values) for key, values in (arrays | ground_arrays).items()},
    }
    return assembled(f"{name} · metricdp explorer", payload, explore="region.html", styles=STYLES, scripts=SCRIPTS)


def _bounds(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row of a region's trace as one of records: the lower bound of steps is that of the lattice."""
    if row.get("stage") == "plane":
        return {**row, "lower_bound": row.get("class_bound"), "upper_bound": row.get("loss")}
    if row.get("stage") == "end":
        return {**row, "stage": "certified", "lower_bound": row.get("bound")}
    return row


def _arrays(mechanism: PlaneMechanism) -> dict[str, NDArray[Any]]:
    """Return the rows of the nodes as the page reads rows of records, all nodes alike."""
    n = len(mechanism.table)
    prior = np.full(n, 1.0 / n)
    return {
        "prior": prior.astype(np.float32),
        "component": np.zeros(n, dtype=np.uint32),
        "chance": output_chances(mechanism.table, prior).astype(np.float32),
        **table_arrays(mechanism.table, prior),
    }


def _left_out(arrays: dict[str, NDArray[Any]], inner: NDArray[np.int64]) -> float:
    """Return which share of the reports is not on the page, for people at the centres of the cells."""
    sums = np.concatenate(([0.0], np.cumsum(2.0 ** (-TOTAL_BITS * (LOG_LEVELS + 1.0 - arrays["levels"]) / LOG_LEVELS))))
    starts = arrays["starts"].astype(np.int64)
    return max(0.0, 1.0 - float((sums[starts[inner + 1]] - sums[starts[inner]]).mean()))


def _loss(found: Rebuilt, unit: str) -> dict[str, Any]:
    losses = record_losses(found.mechanism.table, found.problem.losses)
    return {
        "name": "distance",
        "is_own": False,
        "expected": math.fsum(losses * found.problem.records.prior),
        "unit": unit,
        "words": f"Expected {found.loss_source}: the file says neither where people are nor what they lose. A "
        "mechanism made for other places or losses need not be the best here.",
    }


def _certificate(mechanism: PlaneMechanism) -> dict[str, Any]:
    certificate, best = mechanism.certificate, mechanism.optimality
    check = certificate.privacy
    return {
        "inequalities": check.n_compared,
        "coefficients": check.n_coefficients,
        "tightest_epsilon": check.tightest_epsilon,
        "is_from_file": certificate.is_from_file,
        "solver": mechanism.solver,
        "optimality": None if best is None else {"loss": best.loss, "lower_bound": best.lower_bound, "gap": best.gap},
        "lines": certificate.lines(),
    }
