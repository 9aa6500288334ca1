"""Streams killed in the middle, and two on one ledger: every report was paid for, no true value is left anywhere."""

from __future__ import annotations

import csv
import io
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
from benchmarks.streams import stream_of

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


@pytest.fixture
def started(tmp_path, city):
    """Start the command on the ledger of a folder, with all its temporary files in that folder."""
    city.save(tmp_path / "city.mdp")
    (tmp_path / "tmp").mkdir()
    words = ("perturb", "city.mdp", "-", "--snap-limit", "0.5", "--keep", "person", "--person", "person")
    with ExitStack() as stack:

        def start(*more):
            process = subprocess.Popen(
                [sys.executable, "-m", "metricdp", *words, "--ledger", "spent.db", *more],
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
        n_rows = chance.randint(1, 400)
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
    """Every report that was written was charged before."""
    with Ledger(folder / "spent.db", must_exist=True) as ledger:
        ledger.check()
        for person, reports in written.items():
            assert ledger.exactly_spent(person) >= reports * Fraction(EPSILON)
        for person in ledger.holders() if limit is not None else ():
            assert ledger.exactly_spent(person) <= Fraction(limit)


def persons_in(output):
    rows = list(csv.reader(io.StringIO(output.decode(), newline="")))[1:]
    return Counter(row[3] for row in rows if len(row) == 4)  # the last line may be cut


@pytest.mark.parametrize("seed", range(5))
def test_killed_in_the_middle(started, tmp_path, seed):
    process = started("--limit", "100000", "--window", "1d")
    thread = fed(process, pieces_of("csv", 100_000, seed))
    chance = random.Random(seed)
    wanted, output = chance.randint(1, 60_000), b""  # bytes that are read before the kill
    while len(output) < wanted:
        piece = process.stdout.read1(4096)
        assert piece, process.stderr.read()
        output += piece
    process.send_signal(signal.SIGKILL)
    output += process.stdout.read()
    error = process.stderr.read()
    assert process.wait() == -signal.SIGKILL
    thread.join()
    written = persons_in(output)
    assert written
    check_paid(tmp_path, written)
    check_nothing_left(tmp_path, error)
    # and the ledger goes on from there
    again = started("--limit", "100000", "--window", "1d")
    more, error = again.communicate(b"".join(pieces_of("csv", 1, seed)))
    assert again.returncode == 0, error
    check_paid(tmp_path, written + persons_in(more))


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
