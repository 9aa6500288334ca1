"""The command as it is used: `cat points | metricdp perturb FILE.mdp -`, with a pipe at each end and reports to a file.

Rates are from the first report that comes out, whose batch is left aside, to the last one. What is before and after is
given apart: Python, the mechanism's file with its exact check, the index, and the promise for points, which is printed.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import metricdp as mdp
from benchmarks.instances import rome_nodes
from metricdp.apply.stream_rows import ROWS_OF_GROUP
from metricdp.data.readers.tables import ROWS_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMATS = ("csv", "jsonl", "geojsonl", "parquet")
ROME_FORMATS = ("csv", "parquet")
N_PERSONS = 2_000
BYTES_AT_ONCE = 1 << 16
TICKS = os.sysconf("SC_CLK_TCK")
SNAPPING = ("--snap-limit", "0.3", "--allow-unprotected", "--fast-snap")
CHARGING = ("--person", "person", "--limit", "1000000", "--window", "1d")


def of_small_city(n_rows: int, formats: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rates of 300 records, in each format."""
    records = mdp.data.road("gothenburg", n=300, seed=0)
    return _rates(mdp.Problem(records, epsilon=10.0, eta=4.0, outputs=50), n_rows, formats)


def of_rome(n_rows: int) -> list[dict[str, Any]]:
    """Return the rates of all of Rome's records; nothing without its data."""
    records = rome_nodes()
    if records is None:
        return []
    return _rates(mdp.Problem(records, epsilon=10.0, eta=0.5, outputs="random:100"), n_rows, ROME_FORMATS)


def _rates(problem: mdp.Problem, n_rows: int, formats: Sequence[str]) -> list[dict[str, Any]]:
    random, records = np.random.default_rng(0), problem.records
    places = records.coordinates[random.integers(0, records.n, n_rows)] + random.normal(0.0, 2e-4, (n_rows, 2))
    persons = [f"p{number}" for number in random.integers(0, N_PERSONS, n_rows)]
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mdp.exponential(problem).save(folder / "mechanism.mdp")
        for form in formats:
            try:
                (folder / "points").write_bytes(stream_of(form, places.round(7), persons))
            except mdp.errors.MissingExtraError:
                continue
            for charging in ((), (*CHARGING, "--ledger", f"spent-{form}.db")):
                what = f"{records.n:,} records, {form}{', charged to persons' if charging else ''}"
                rows += _measured(what, folder, (*SNAPPING, *charging), n_rows, first_batch(form))
    return rows


def first_batch(form: str) -> int:
    """Return how many rows the first batch has at most."""
    return ROWS_OF_GROUP if form == "parquet" else ROWS_AT_ONCE


def _measured(what: str, folder: Path, options: Sequence[str], n_rows: int, n_first: int) -> list[dict[str, Any]]:
    """Return the seconds of start and end, and the rate of the rows after the first batch."""
    command = [sys.executable, "-m", "metricdp", "perturb", "mechanism.mdp", "-", *options]
    begin = time.perf_counter()
    with (
        (folder / "reports").open("wb") as target,
        (folder / "log").open("wb") as log,
        subprocess.Popen(["cat", folder / "points"], stdout=subprocess.PIPE) as writer,
        subprocess.Popen(command, cwd=folder, stdin=writer.stdout, stdout=subprocess.PIPE, stderr=log) as process,
    ):
        if writer.stdout is None or process.stdout is None:
            raise RuntimeError("no pipes")
        writer.stdout.close()  # the command has it
        target.write(os.read(process.stdout.fileno(), BYTES_AT_ONCE))
        first = last = _clocks(process.pid)
        while piece := os.read(process.stdout.fileno(), BYTES_AT_ONCE):
            target.write(piece)
            last = _clocks(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        whole = time.perf_counter() - begin, usage.ru_utime + usage.ru_stime
        process.returncode = os.waitstatus_to_exitcode(status)
    said = (folder / "log").read_text(encoding="utf-8")
    if process.returncode or f"{n_rows:,} reports written" not in said:
        raise RuntimeError(f"the command failed: {said}")
    seconds, processor = last[0] - first[0], max(last[1] - first[1], 1 / TICKS)
    n = max(n_rows - n_first, 0)
    return [
        {"what": f"start and end, {what}", "seconds": whole[0] - seconds, "processor_seconds": whole[1] - processor},
        {"what": f"rows, {what}", "n": n, "per_second": n / max(seconds, 1e-9), "per_processor_second": n / processor},
    ]


def _clocks(pid: int) -> tuple[float, float]:
    """Return the time, and what a running process has used of the processor as Linux counts it."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return time.perf_counter(), (int(fields[11]) + int(fields[12])) / TICKS


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
