"""What the shipped examples of pipelines are made from: small mechanisms, and parts that are not certified."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.data.records import Records
from metricdp.evaluate.auditor.auditor import N_DRAWS, Neighbours
from metricdp.evaluate.auditor.claims import record_claim
from metricdp.evaluate.auditor.neighbours import record_neighbours
from metricdp.mechanism.certify import TOTAL_BITS
from metricdp.mechanism.sample import cumulative, draw, system_bits
from metricdp.mechanism.snap import nearest_records
from metricdp.metric.distances import CoordinateMetric
from metricdp.problem.problem import Problem
from metricdp.solve import solve

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Sequence

    from numpy.typing import NDArray

    from metricdp.evaluate.auditor.auditor import Claim, Pipeline
    from metricdp.mechanism.mechanism import Mechanism

N_FEW = 6  # pairs of inputs of each example


@dataclass(frozen=True)
class Setting:
    """All that an audit needs."""

    pipeline: Pipeline
    pairs: Sequence[Neighbours]
    claim: Claim
    outputs: Collection[Hashable] | None = None
    n_draws: int = N_DRAWS


@cache
def line() -> Problem:
    """Return the problem of eight records on a line, neighbours one apart."""
    return Problem(Records(np.arange(8.0)[:, None], kind="vectors", name="line"), epsilon=0.7, eta=1.5)


@cache
def optimal(problem: Problem) -> Mechanism:
    """Return the best mechanism of a problem, a vertex: its tight rows leave a broken pipeline no room."""
    return solve(problem, method="direct").mechanism


@cache
def arms(*, joined: bool) -> Mechanism:
    """Return a mechanism on two rows of records more than eta apart, joined around a bend or not at all."""
    arm = np.arange(12.0)
    bend = [[12.0, 0.0], [12.5, 0.55], [12.0, 1.1]] if joined else []
    points = [[x, y] for y in (0.0, 1.1) for x in arm] + bend
    records = Records(points, kind="vectors", name="horseshoe" if joined else "two rows")
    return optimal(Problem(records, epsilon=1.0, eta=1.05, outputs=len(points)))


@cache
def places() -> Problem:
    """Return the problem of 4 x 4 places at 60 degrees north, about 500 m apart."""
    lat, lon = np.meshgrid(60.0 + 0.0045 * np.arange(4), 25.0 + 0.009 * np.arange(4), indexing="ij")
    records = Records(np.column_stack((lat.ravel(), lon.ravel())), name="places")
    return Problem(records, epsilon=2.0, eta=0.6, outputs=16, loss="distance")


@cache
def vocabulary() -> Mechanism:
    """Return a mechanism on eight words."""
    words = ("ache", "cold", "cough", "fever", "flu", "measles", "mumps", "rash")
    return optimal(
        Problem(Records(np.arange(8.0)[:, None], ids=words, kind="vectors", name="words"), epsilon=0.7, eta=1.5)
    )


def on_ids(mechanism: Mechanism, pipeline: Pipeline, **changes: Any) -> Setting:
    """Return a setting on pairs of record ids under the mechanism's own claim, unless ``changes`` say otherwise."""
    parts: dict[str, Any] = {
        "pairs": record_neighbours(mechanism, n_pairs=N_FEW),
        "claim": record_claim(mechanism),
        "outputs": mechanism.outputs.ids(mechanism.records),
    }
    return Setting(pipeline=pipeline, **(parts | changes))


def from_table(
    mechanism: Mechanism,
    table: NDArray[np.float64],
    *,
    bits: Callable[[int], NDArray[np.uint64]] = system_bits,
) -> Pipeline:
    """Return a pipeline that draws from any table of floats, as if it had been certified."""
    weights = (table / table.sum(axis=1, keepdims=True) * 2.0**TOTAL_BITS).astype(np.uint64)
    weights[np.arange(len(weights)), weights.argmax(axis=1)] += np.uint64(2**TOTAL_BITS) - weights.sum(
        axis=1, dtype=np.uint64
    )
    steps, names = cumulative(weights), mechanism.outputs.ids(mechanism.records)
    return lambda ids: [names[k] for k in draw(steps, mechanism.rows_of(ids), bits=bits)]


def snapping(mechanism: Mechanism) -> Pipeline:
    """Return the pipeline that takes any point to its nearest record and draws, whatever that protects."""
    names, metric = mechanism.outputs.ids(mechanism.records), CoordinateMetric(mechanism.metric)

    def report(points: list[Any]) -> list[str]:
        rows, _ = nearest_records(np.array(points), mechanism.records, metric)
        return [names[k] for k in mechanism.perturb_rows(rows)]

    return report


def straight_claim(mechanism: Mechanism) -> Claim:
    """Return what was once documented for snapped points, epsilon (d + s + s'): false where paths make detours."""
    metric = CoordinateMetric(mechanism.metric)

    def claim(x: Any, y: Any) -> float:
        points = np.array([x, y])
        _, snapped = nearest_records(points, mechanism.records, metric)
        return mechanism.epsilon * float(metric.elementwise(points[0], points[1]) + snapped.sum())

    return claim
