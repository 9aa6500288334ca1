"""Rates of streams: charges to a ledger, snapped points, and the whole command from one pipe to another.

Rates are per second of the clock and per processor second; on a busy machine the second is the steadier one. Every
charge is on the disk before it counts, as always. Points are snapped to all of Rome where its data is there, else to
a synthetic city of as many records; the command is run for it only with the data.
"""

from __future__ import annotations

import tempfile
import time
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

import metricdp as mdp
from benchmarks.instances import rome_nodes
from benchmarks.stream_command import FORMATS, of_rome, of_small_city
from metricdp.mechanism.snap import nearest_records
from metricdp.mechanism.snap_index import SnapIndex
from metricdp.metric.distances import CoordinateMetric

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

N_ROME = 43_160
N_CHARGES, N_ONE_BY_ONE, N_POINTS, N_SLOW, N_ROWS, N_ROWS_ROME = 50_000, 40, 200_000, 200, 200_000, 1_000_000
KEY = bytes(range(32))


def run(
    *,
    n_charges: int = N_CHARGES,
    n_points: int = N_POINTS,
    n_slow: int = N_SLOW,
    n_rows: int = N_ROWS,
    n_rows_rome: int = N_ROWS_ROME,
    formats: Sequence[str] = FORMATS,
) -> dict[str, Any]:
    rows = [*_charges(n_charges), *_snapping(n_points, n_slow), *of_small_city(n_rows, formats), *of_rome(n_rows_rome)]
    for row in rows:
        print(f"{row['what']:<62} {' '.join(f'{cell:>14}' for cell in _cells(row))}", flush=True)
    lines = [f"| {row['what']} | {' | '.join(_cells(row))} |" for row in rows]
    head = "| what | of the clock | of the processor |\n|---|---|---|\n"
    return {"rows": rows, "markdown": head + "\n".join(lines) + "\n"}


def _cells(row: dict[str, Any]) -> list[str]:
    """Return a rate, or the seconds of a start."""
    if "seconds" in row:
        return [f"{row['seconds']:.1f} s", f"{row['processor_seconds']:.1f} s"]
    return [f"{row['per_second']:,.0f} /s", f"{row['per_processor_second']:,.0f} /s"]


def _measured(what: str, count: int, work: Callable[[], object]) -> dict[str, Any]:
    clock, processor = time.perf_counter(), time.process_time()
    work()
    seconds, processor_seconds = time.perf_counter() - clock, time.process_time() - processor
    return {"what": what, "n": count, "per_second": count / seconds, "per_processor_second": count / processor_seconds}


def _charges(count: int) -> list[dict[str, Any]]:
    mechanism = mdp.exponential(mdp.Problem(mdp.data.grid(5, 5), epsilon=0.5, eta=1.0))
    people = {f"person {number}": 1 for number in range(count)}
    several = dict.fromkeys(list(people)[: max(1, count // 10)], 10)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, window, key in (
            ("for ever", None, None),
            ("window 1d", timedelta(days=1), None),
            ("window 1d, key", timedelta(days=1), KEY),
        ):
            ledger = mdp.Ledger(f"{folder}/{name}.db", limit=1000.0, window=window, key=key)
            for turn, reports_of in (("new persons", people), ("again", people), ("10 reports each", several)):
                work = partial(ledger.charge_many, mechanism, reports_of)
                rows.append(_measured(f"charges, {name}, {turn}", sum(reports_of.values()), work))
        ledger = mdp.Ledger(f"{folder}/one.db", limit=1000.0)
        work = partial(_one_by_one, ledger, mechanism)
        rows.append(_measured("charges, one by one", N_ONE_BY_ONE, work))
    return rows


def _one_by_one(ledger: mdp.Ledger, mechanism: mdp.Mechanism) -> None:
    for _ in range(N_ONE_BY_ONE):
        ledger.charge_for("Ana", mechanism)


def _snapping(n_points: int, n_slow: int) -> list[dict[str, Any]]:
    random = np.random.default_rng(0)
    records = rome_nodes()
    if records is None:
        places = random.uniform((41.7, 12.3), (42.1, 12.8), (N_ROME, 2))
        records = mdp.Records(places, kind="places")
    metric = CoordinateMetric("haversine")
    low, high = records.coordinates.min(axis=0), records.coordinates.max(axis=0)
    points = random.uniform(low, high, (n_points, 2))
    index = SnapIndex(records, metric)
    fast = _measured(f"points, {records.n:,} records, fast snap", n_points, lambda: index.nearest(points))
    slow = _measured(
        f"points, {records.n:,} records, all records measured",
        n_slow,
        lambda: nearest_records(points[:n_slow], records, metric),
    )
    return [fast, slow]
