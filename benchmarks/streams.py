"""Rates of streams: charges to a ledger, snapped points, and rows of each format from one pipe to another.

Rates are per second of the clock and per processor second; on a busy machine the second is the steadier one. Every
charge is on the disk before it counts, as always. Points are snapped to all of Rome where its data is there, else to
a synthetic city of as many records.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import metricdp as mdp
from benchmarks.rome import FOLDER as ROME
from metricdp.apply.stream_rows import FORMATS
from metricdp.apply.streams import perturb_stream
from metricdp.mechanism.snap import nearest_records
from metricdp.mechanism.snap_index import SnapIndex
from metricdp.metric.distances import CoordinateMetric

if TYPE_CHECKING:
    from collections.abc import Callable

N_ROME = 43_160
N_CHARGES, N_ONE_BY_ONE, N_POINTS, N_SLOW, N_ROWS = 50_000, 40, 200_000, 200, 50_000
N_PERSONS = 2_000  # of the stream
KEY = bytes(range(32))


def run(
    *, n_charges: int = N_CHARGES, n_points: int = N_POINTS, n_slow: int = N_SLOW, n_rows: int = N_ROWS
) -> dict[str, Any]:
    rows = [*_charges(n_charges), *_snapping(n_points, n_slow), *_streams(n_rows)]
    for row in rows:
        print(
            f"{row['what']:<62} {row['per_second']:>12,.0f} /s {row['per_processor_second']:>12,.0f} /cpu s", flush=True
        )
    lines = [f"| {row['what']} | {row['per_second']:,.0f} | {row['per_processor_second']:,.0f} |" for row in rows]
    head = "| what | per second | per processor second |\n|---|---|---|\n"
    return {"rows": rows, "markdown": head + "\n".join(lines) + "\n"}


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
    if (ROME / "nodes.csv.gz").exists():
        records = mdp.data.read_records(ROME / "nodes.csv.gz")
    else:
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


def _streams(n_rows: int) -> list[dict[str, Any]]:
    records = mdp.data.road("gothenburg", n=300, seed=0)
    mechanism = mdp.exponential(mdp.Problem(records, epsilon=10.0, eta=4.0, outputs=50))
    random = np.random.default_rng(0)
    places = records.coordinates[random.integers(0, records.n, n_rows)] + random.normal(0.0, 1e-3, (n_rows, 2))
    persons = [f"p{number}" for number in random.integers(0, N_PERSONS, n_rows)]
    rows = []
    for name in FORMATS:
        try:
            data = stream_of(name, places, persons)
        except mdp.errors.MissingExtraError:
            continue
        rows.append(_stream(f"rows, {name}", n_rows, mechanism, data))
        with tempfile.TemporaryDirectory() as folder:
            ledger = mdp.Ledger(f"{folder}/spent.db", limit=1e6, window=timedelta(days=1))
            rows.append(
                _stream(f"rows, {name}, charged to persons", n_rows, mechanism, data, ledger=ledger, person="person")
            )
    return rows


def _stream(what: str, n_rows: int, mechanism: mdp.Mechanism, data: bytes, **options: Any) -> dict[str, Any]:
    with Path(os.devnull).open("wb") as target:
        return _measured(
            what,
            n_rows,
            lambda: perturb_stream(
                mechanism, io.BytesIO(data), target, snap_limit=3.0, fast_snap=True, keep=("person",), **options
            ),
        )


def stream_of(name: str, places: np.ndarray, persons: list[str]) -> bytes:
    """Return places of persons in a format."""
    if name == "parquet":
        from metricdp.apply.writers import arrow

        pyarrow, parquet = arrow()
        made = io.BytesIO()
        parquet.write_table(pyarrow.table({"person": persons, "lat": places[:, 0], "lon": places[:, 1]}), made)
        return made.getvalue()
    lines = [] if name != "csv" else ["person,lat,lon\n"]
    for person, (lat, lon) in zip(persons, places.tolist(), strict=True):
        if name == "csv":
            lines.append(f"{person},{lat!r},{lon!r}\n")
        elif name == "jsonl":
            lines.append(json.dumps({"person": person, "lat": lat, "lon": lon}) + "\n")
        else:
            feature = {
                "type": "Feature",
                "geometry": {"type": "Point", "coordinates": [lon, lat]},
                "properties": {"person": person},
            }
            lines.append(("\x1e" if name == "geojsonseq" else "") + json.dumps(feature) + "\n")
    return "".join(lines).encode()
