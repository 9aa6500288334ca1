"""Streams killed in the middle, and two on one ledger: every report was paid for, no true value is left anywhere."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from datetime import timedelta
from fractions import Fraction

import numpy as np
import pytest
from benchmarks.stream_command import stream_of

import metricdp as mdp
from metricdp.apply import perturb_stream
from metricdp.budget import Ledger

EPSILON = 0.5
PLACE = (57.7012345678, 11.9698765432)  # within 200 m of the first record, and nowhere else
N_PERSONS = 40


@pytest.fixture(scope="module")
def city():
    records = mdp.Records([[57.70, 11.97], [57.71, 11.97], [57.72, 11.97]], ids=["a", "b", "c"])
    return mdp.exponential(mdp.Problem(records, epsilon=EPSILON, eta=1.5, outputs=3, loss="distance"))


@pytest.fixture(scope="module")
def region():
    box = mdp.data.region(57.69, 11.95, 57.71, 11.99, spacing=0.5)
    return mdp.solve_plane(mdp.PlaneProblem(box, epsilon=EPSILON), max_steps=50, bound=False).mechanism


@pytest.fixture
def started(tmp_path, city, region):
    """Start the command on the ledger of a folder, with all its temporary files in that folder."""
    city.save(tmp_path / "records.mdp")
    region.save(tmp_path / "region.mdp")
    (tmp_path / "tmp").mkdir()
    words = ("-", "--keep", "person", "--person", "person", "--ledger", "spent.db")
    with ExitStack() as stack:

        def start(*more, kind="records"):
            snapping = ("--snap-limit", "0.5") if kind == "records" else ()
            process = subprocess.Popen(
                [sys.executable, "-m", "metricdp", "perturb", f"{kind}.mdp", *words, *snapping, *more],
                cwd=tmp_path,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
            )
            stack.callback(finish, process)
            return process

        yield start


def finish(process):
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        with suppress(BrokenPipeError):
            pipe.close()


def fed(process, pieces):
    """Send pieces until the reader is gone."""

    def feed():
        try:
            for piece in pieces:
                process.stdin.write(piece)
                process.stdin.flush()
            process.stdin.close()
        except (BrokenPipeError, ValueError):
            pass

    thread = threading.Thread(target=feed)
    thread.start()
    return thread


def pieces_of(name, n_pieces, seed):
    chance = random.Random(seed)
    for number in range(n_pieces):
        n_rows = chance.randint(1, 400) if name != "parquet" else 200_000
        persons = [f"p{chance.randrange(N_PERSONS)}" for _ in range(n_rows)]
        piece = stream_of(name, np.tile(PLACE, (n_rows, 1)), persons)
        yield piece if name != "csv" or number == 0 else piece.split(b"\n", 1)[1]


def secrets():
    """The true place as it could lie in a file or a message: as text and as binary numbers."""
    for number in PLACE:
        yield repr(number)[:10].encode()
        yield struct.pack("<d", number)
        yield struct.pack(">d", number)


def check_nothing_left(folder, error):
    for path in folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not [secret for secret in secrets() if secret in content], path.name
    assert list((folder / "tmp").iterdir()) == []
    assert not [secret for secret in secrets() if secret in error]
    assert b"Traceback" not in error


def check_paid(folder, written, limit=None):
    """Every report that was written was charged before; return how many were charged in all."""
    with Ledger(folder / "spent.db", must_exist=True) as ledger:
        ledger.check()
        spent = {person: ledger.exactly_spent(person) for person in ledger.holders()}
    for person, reports in written.items():
        assert spent[person] >= reports * Fraction(EPSILON)
    assert limit is None or max(spent.values()) <= Fraction(limit)
    return sum(spent.values()) / Fraction(EPSILON)


def persons_in(output, name="csv"):
    """Count the reports of each person in an output whose end may be cut off."""
    whole = output[: output.rfind(b"\n") + 1].decode()
    if name == "csv":
        return Counter(row["person"] for row in csv.DictReader(io.StringIO(whole, newline="")))
    found = [json.loads(line.lstrip("\x1e")) for line in whole.split("\n")[:-1]]
    return Counter((row if name == "jsonl" else row["properties"])["person"] for row in found)


def reports_in_parquet(output):
    """Count the reports in Parquet without its end: the values of its column of persons, the last of each row group."""
    at, counts = len(b"PAR1"), []
    while at < len(output):
        try:
            fields, at = thrift(output, at)
        except IndexError:  # cut off here
            break
        at += fields[3] if isinstance(fields[3], int) else 0  # a page, or what is said about a column after it
        if 5 in fields and at <= len(output):  # a whole page of values
            counts.append(fields[5][1])
    return sum(counts[3::4])


def thrift(data, at):
    """Read a struct of Thrift's compact protocol: return its fields by number, and where it ends."""

    def varint():
        nonlocal at
        value = shift = 0
        while data[at] & 0x80:
            value, shift, at = value | (data[at] & 0x7F) << shift, shift + 7, at + 1
        value, at = value | data[at] << shift, at + 1
        return value

    def value_of(kind):
        nonlocal at
        if kind in (1, 2):
            return kind == 1
        if kind == 8:
            length = varint()
            at += length
            return data[at - length : at]
        if kind == 9:
            start, at = data[at], at + 1
            n_values = varint() if start >> 4 == 15 else start >> 4
            return [value_of(start & 15) for _ in range(n_values)]
        if kind == 12:
            inner, at = thrift(data, at)
            return inner
        number = varint()
        return number >> 1 ^ -(number & 1)

    fields, field = {}, 0
    while data[at]:
        step, kind = data[at] >> 4, data[at] & 15
        at += 1
        field = field + step if step else value_of(5)
        fields[field] = value_of(kind)
    return fields, at + 1


def test_reports_are_counted_in_parquet_without_its_end(city):
    source = io.BytesIO(b"".join(pieces_of("csv", 60, 0)))
    n_rows, target = source.getvalue().count(b"\n") - 1, io.BytesIO()
    perturb_stream(city, source, target, to="parquet", keep=["person"], snap_limit=0.5)
    whole = target.getvalue()
    body = whole[: -8 - int.from_bytes(whole[-8:-4], "little")]
    assert reports_in_parquet(body) == n_rows > 2 * 4096
    assert n_rows - 4096 <= reports_in_parquet(body[:-1500]) < n_rows


TEXTS = ("csv", "jsonl", "geojsonl", "geojsonseq")


@pytest.mark.parametrize("kind", ["records", "region"])
@pytest.mark.parametrize(
    ("name", "to", "seed"),
    [
        *((name, name, 0) for name in TEXTS),
        *(("csv", "csv", n) for n in (1, 2)),
        ("csv", "parquet", 0),
        ("parquet",) * 2 + (0,),
    ],
)
def test_killed_in_the_middle(started, tmp_path, kind, name, to, seed):
    process = started("--limit", "1000000", "--window", "1d", "--to", to, kind=kind)
    thread = fed(process, pieces_of(name, 100_000 if name != "parquet" else 1, seed))
    chance = random.Random(seed)
    wanted, output = chance.randint(1, 60_000), b""  # bytes that are read before the kill
    while len(output) < wanted or (to == "parquet" and not reports_in_parquet(output)):
        piece = process.stdout.read1(4096)
        assert piece, process.stderr.read()
        output += piece
    process.send_signal(signal.SIGKILL)
    output += process.stdout.read()
    error = process.stderr.read()
    assert process.wait() == -signal.SIGKILL
    thread.join()
    written = Counter() if to == "parquet" else persons_in(output, to)
    n_written = reports_in_parquet(output) if to == "parquet" else written.total()
    n_charged = check_paid(tmp_path, written)
    # at most one batch, or the part of one that the pipe had no room for, was charged and not written
    assert n_written > 0
    assert 0 <= n_charged - n_written <= (65_536 if name == "parquet" else 4096)
    assert not [secret for secret in secrets() if secret in output]
    check_nothing_left(tmp_path, error)
    # and the ledger goes on from there
    again = started("--limit", "1000000", "--window", "1d", kind=kind)
    more, error = again.communicate(b"".join(pieces_of("csv", 1, seed)))
    assert again.returncode == 0, error
    now = persons_in(more)
    assert check_paid(tmp_path, written + now) == n_charged + now.total()
    check_nothing_left(tmp_path, error)


def test_parquet_from_a_pipe_leaves_no_file_when_it_is_killed(started, tmp_path):
    process = started("--limit", "100000")
    data = stream_of("parquet", np.tile(PLACE, (5000, 1)), [f"p{number}" for number in range(5000)])
    thread = fed(process, [data[:-100]])  # it waits for the end, with all but the end copied
    thread.join()
    process.send_signal(signal.SIGKILL)
    error = process.stderr.read()
    process.stdout.close()
    process.wait()
    check_nothing_left(tmp_path, error)


def test_two_streams_on_one_ledger_never_pass_the_limit(started, tmp_path):
    limit = 30 * EPSILON
    Ledger(tmp_path / "spent.db", limit=limit)
    words = ("--limit", str(limit), "--over", "drop")
    processes = [started(*words) for _ in range(2)]
    threads = [fed(process, pieces_of("csv", 20, seed)) for seed, process in enumerate(processes)]
    outputs = [b"", b""]

    def read(number):
        outputs[number] = processes[number].stdout.read()

    readers = [threading.Thread(target=read, args=(number,)) for number in range(2)]
    for thread in readers:
        thread.start()
    for thread in (*threads, *readers):
        thread.join()
    errors = [process.stderr.read() for process in processes]
    assert [process.wait() for process in processes] == [0, 0], errors
    written = persons_in(outputs[0]) + persons_in(outputs[1])
    assert set(written.values()) == {30}  # the whole budget of everyone, and no more
    check_paid(tmp_path, written, limit)
    for error in errors:
        check_nothing_left(tmp_path, error)


def test_a_window_is_never_exceeded(city, tmp_path, monkeypatch):
    """Over some days, with a clock that also goes back: in any 24 hours no more than the limit."""
    hour, now = 3_600_000_000_000, [10**18]
    monkeypatch.setattr(time, "time_ns", lambda: now[0])
    ledger = Ledger(tmp_path / "daily.db", limit=5 * EPSILON, window=timedelta(hours=24))
    chance, moments, latest = random.Random(0), [], 0
    for _ in range(60):
        now[0] += chance.randint(-hour, 4 * hour)
        latest = max(latest, now[0])
        rows = b"id,user\n" + b"a,Ana\n" * chance.randint(1, 4)
        target = io.BytesIO()
        summary = perturb_stream(city, io.BytesIO(rows), target, ledger=ledger, person="user", over="drop")
        assert summary.reports + summary.over == rows.count(b"Ana")
        moments += [latest] * summary.reports
    assert len(moments) > 10
    for moment in moments:
        assert sum(moment <= other < moment + 24 * hour for other in moments) <= 5
