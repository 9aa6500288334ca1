"""Many processes charge a ledger with a window, with clocks that disagree and are set back, and are killed."""

import json
import mmap
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from contextlib import closing
from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from metricdp.budget.ledger import Ledger
from metricdp.budget.refusals import BudgetExceededError

SECOND = 10**9
NOON = 1_800_000_000 * SECOND
WINDOW = timedelta(seconds=20)
WINDOW_NS = 20 * SECOND
LIMIT = 10 * Fraction(0.1)
HOLDERS = ("Ana", "Ben")
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108


def check_never_above_the_budget_of_a_window(folder, *, n_lanes, n_ticks, n_kills, has_key):
    """Run this file as a program; then add up every window of its charges, and compare them with what was granted."""
    path, key = folder / "budget.db", folder / "key" if has_key else None
    options = {"n_lanes": n_lanes, "n_ticks": n_ticks, "n_kills": n_kills, "key": key and str(key)}
    command = [sys.executable, __file__, str(path), json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    kills = json.loads(done.stdout)["kills"]
    assert 0 < kills <= n_kills

    ledger = Ledger(path, limit=LIMIT, window=WINDOW, key=key)
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT holder, moment, epsilon FROM charges ORDER BY charge").fetchall()
    assert ledger.check() == len(rows)
    moments = [moment for _, moment, _ in rows]
    assert moments == sorted(moments)
    for holder in {holder for holder, _, _ in rows}:
        own = [(moment, Fraction(float.fromhex(epsilon))) for name, moment, epsilon in rows if name == holder]
        most = max(sum(amount for moment, amount in own if 0 <= end - moment < WINDOW_NS) for end, _ in own)
        assert LIMIT / 2 < most <= LIMIT
        assert sum(amount for _, amount in own) > 2 * LIMIT  # budgets were freed again

    granted = Counter(path.with_suffix(".granted").read_text().split())
    counted = Counter(epsilon for _, _, epsilon in rows)
    assert granted <= counted
    # each kill can leave at most one charge that is on the disk and was not granted any more
    assert counted.total() <= granted.total() + kills
    print(f"{granted.total()} granted, {counted.total()} counted, {kills} kills")  # noqa: T201  (figures for `pytest -s`)


@pytest.mark.parametrize("has_key", [False, True])
def test_killed_writers_never_spend_more_than_the_budget_of_a_window(has_key):
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        check_never_above_the_budget_of_a_window(Path(folder), n_lanes=4, n_ticks=300, n_kills=12, has_key=has_key)


@pytest.mark.slow
def test_16_processes_with_random_kills_and_clocks_set_back(tmp_path):
    check_never_above_the_budget_of_a_window(tmp_path, n_lanes=16, n_ticks=6000, n_kills=100, has_key=True)


class SharedClock:
    """Seconds that all processes count up together; each reading is right, a little wrong, or set far back."""

    def __init__(self):
        self._memory = mmap.mmap(-1, 8)
        self.rng = random.Random()

    @property
    def tick(self):
        return int.from_bytes(self._memory[:8], "little")

    def advance(self):
        self._memory[:8] = (self.tick + 1).to_bytes(8, "little")

    def __call__(self):
        back = self.rng.choice([0, 0, 0, self.rng.randrange(3 * SECOND), self.rng.randrange(100 * WINDOW_NS)])
        return NOON + self.tick * SECOND - back


def charge_in_lane(ledger, log, clock, n_ticks):
    """Charge, and only then write down that it was granted."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while clock.tick < n_ticks:
        clock.advance()
        epsilon = clock.rng.choice([0.1, 0.2, 0.3])
        try:
            ledger.charge(clock.rng.choice(HOLDERS), epsilon)
        except BudgetExceededError:
            continue
        os.write(handle, f"{epsilon.hex()}\n".encode())


def main(path, *, n_lanes, n_ticks, n_kills, key):
    """Fork the lanes, kill random ones at random ticks, and start a successor for each."""
    warnings.simplefilter("ignore", DeprecationWarning)  # libraries have started threads, which do nothing here
    rng, clock, log = random.Random(0), SharedClock(), path.with_suffix(".granted")
    log.touch()
    ledger = Ledger(path, limit=LIMIT, window=WINDOW, key=key and Path(key), timeout=600.0)
    time.time_ns = clock

    def start():
        pid, seed = os.fork(), rng.random()
        if pid == 0:
            try:
                clock.rng.seed(seed)
                charge_in_lane(ledger, log, clock, n_ticks)
                os._exit(0)
            except BaseException as error:  # noqa: BLE001
                print(repr(error), file=sys.stderr, flush=True)  # noqa: T201
                os._exit(1)
        return pid

    due = sorted(rng.sample(range(n_ticks), n_kills), reverse=True)
    kills, lanes = 0, {start() for _ in range(n_lanes)}
    while lanes:
        time.sleep(rng.uniform(0.0, 0.003))
        if due and clock.tick >= due[-1]:
            due.pop()
            os.kill(rng.choice(sorted(lanes)), signal.SIGKILL)
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            continue
        lanes.remove(pid)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            kills += 1
            lanes.add(start())
        elif status != 0:
            sys.exit(f"a lane failed with status {status}")
    print(json.dumps({"kills": kills}))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), **json.loads(sys.argv[2]))
