"""Two processes charge one ledger in batches: together they never grant more than the limit."""

from __future__ import annotations

import io
import multiprocessing
from collections import Counter

import pytest

import metricdp as mdp
from metricdp.apply import perturb_stream
from metricdp.budget import Ledger

EPSILON, EACH = 0.5, 7  # reports that the limit allows each person
PERSONS = [f"person {number}" for number in range(20)]


def city():
    return mdp.exponential(mdp.Problem(mdp.data.grid(3, 3), epsilon=EPSILON, eta=1.0))


class Piecewise(io.RawIOBase):
    """Gives a few rows at a time, so that there are many batches."""

    def __init__(self, data):
        self._pieces = [data[start : start + 64] for start in range(0, len(data), 64)]

    def readable(self):
        return True

    def readinto(self, buffer):
        piece = self._pieces.pop(0) if self._pieces else b""
        buffer[: len(piece)] = piece
        return len(piece)


def stream(path, has_window, barrier, answers):
    """Ask for five reports of each person, in many batches; tell which were written."""
    window = mdp.budget.window.window_of("1d") if has_window else None
    ledger = Ledger(path, limit=EACH * EPSILON, window=window, must_exist=True)
    data = "id,who\n" + "".join(f"r01c01,{name}\n" for _ in range(5) for name in PERSONS)
    target = io.BytesIO()
    barrier.wait()
    perturb_stream(city(), Piecewise(data.encode()), target, ledger=ledger, person="who", over="drop", keep=["who"])
    answers.put([line.split(",")[-1] for line in target.getvalue().decode().splitlines()[1:]])


@pytest.mark.parametrize("has_window", [False, True])
def test_two_processes_never_exceed_the_limit(tmp_path, has_window):
    path = tmp_path / "spent.db"
    window = mdp.budget.window.window_of("1d") if has_window else None
    Ledger(path, limit=EACH * EPSILON, window=window).check()
    spawn = multiprocessing.get_context("spawn")
    barrier, answers = spawn.Barrier(2), spawn.Queue()
    processes = [spawn.Process(target=stream, args=(path, has_window, barrier, answers)) for _ in range(2)]
    for process in processes:
        process.start()
    written = Counter(name for _ in processes for name in answers.get(timeout=60))
    for process in processes:
        process.join()
        assert process.exitcode == 0
    # each asked for 5 of each person, together 10: all 7 are granted, and not one more
    assert written == dict.fromkeys(PERSONS, EACH)
    ledger = Ledger(path, must_exist=True)
    assert all(ledger.spent(name) == EACH * EPSILON for name in PERSONS)
