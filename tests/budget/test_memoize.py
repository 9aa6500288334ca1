"""Memoised reports: the same answer to the same question, at the cost of the first, for everyone who asks."""

import json
import math
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from metricdp.budget.ledger import Ledger
from metricdp.budget.memoized import Memoized, fingerprint, memoize
from metricdp.budget.refusals import BudgetExceededError
from metricdp.budget.store import LedgerError
from metricdp.data import Records, grid
from metricdp.errors import FileFormatError, InputError
from metricdp.mechanism.baselines import exponential, uniform
from metricdp.problem import Problem

KEY = b"a key of 32 bytes for the tests."
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108


def make(records=None, *, epsilon=0.01):
    """Return a mechanism that is nearly uniform over its outputs, so that fresh draws differ."""
    return exponential(Problem(grid(5, 5) if records is None else records, epsilon=epsilon, eta=2.0))


@pytest.fixture(scope="module")
def mechanism():
    return make()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "answers.db"


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "budget.db", limit=1.0)


def test_the_same_question_has_the_same_answer(mechanism, path):
    ids = mechanism.records.ids
    first = memoize(mechanism, path).perturb("Ana", ids)
    assert set(first) <= set(ids)
    with Memoized(mechanism, path) as again:
        assert again.perturb("Ana", ids) == first
        assert [again.perturb("Ana", name) for name in ids] == first
        assert again.perturb("Ana", [ids[3], ids[3], ids[0]]) == [first[3], first[3], first[0]]
        assert again.perturb("Ana", []) == []


def test_other_holders_get_their_own_answers(mechanism, path):
    memory = memoize(mechanism, path)
    ids = mechanism.records.ids
    # 25 nearly uniform draws among 25 agree by chance about once in 25^25
    assert memory.perturb("Ana", ids) != memory.perturb("Ben", ids)


def test_holders_and_records_are_not_confused(path):
    memory = memoize(make(Records([[0.0, 0.0], [0.0, 1.0]], ids=["b", '", "b'], kind="vectors")), path)
    memory.perturb('a", "', "b")
    memory.perturb("a", '", "b')
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM answers").fetchone() == (2,)


def test_only_the_first_answer_is_paid_for(mechanism, path, ledger):
    memory = memoize(mechanism, path, ledger=ledger)
    ids = mechanism.records.ids
    for _ in range(3):
        memory.perturb("Ana", ids[0])
    assert ledger.spent("Ana") == mechanism.epsilon
    memory.perturb("Ana", [ids[0], ids[1], ids[1]])
    assert ledger.exactly_spent("Ana") == 2 * Fraction(mechanism.epsilon)
    assert ledger.spent("Ben") == 0.0


def test_past_the_limit_only_known_answers_are_given(mechanism, path, tmp_path):
    ledger = Ledger(tmp_path / "budget.db", limit=mechanism.epsilon)
    memory = memoize(mechanism, path, ledger=ledger)
    known, new = mechanism.records.ids[:2]
    answer = memory.perturb("Ana", known)
    with pytest.raises(BudgetExceededError):
        memory.perturb("Ana", [known, new])
    assert memory.perturb("Ana", known) == answer
    ledger.change_limit(1.0)
    assert memory.perturb("Ana", [known, new])[0] == answer


def test_another_mechanism_draws_afresh(mechanism, path, ledger):
    other = make(epsilon=0.02)
    memoize(mechanism, path, ledger=ledger).perturb("Ana", mechanism.records.ids[0])
    memoize(other, path, ledger=ledger).perturb("Ana", other.records.ids[0])
    assert ledger.spent("Ana") == pytest.approx(mechanism.epsilon + other.epsilon)


def test_the_fingerprint_is_of_all_that_an_answer_depends_on(mechanism):
    square = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    moved = [[x + 1.0, y] for x, y in square]
    seen = {
        fingerprint(make(Records(square, kind="vectors"))),
        fingerprint(make(Records(moved, kind="vectors"))),
        fingerprint(make(Records(square, ids="abcd", kind="vectors"))),
        fingerprint(make(Records(square, kind="vectors"), epsilon=0.02)),
        fingerprint(mechanism),
    }
    assert len(seen) == 5
    assert fingerprint(make()) == fingerprint(mechanism)


def test_another_table_for_the_same_records_is_another_mechanism(path):
    """Same records, outputs and epsilon, other probabilities: an answer of one is none of the other."""
    problem = Problem(grid(2, 2), epsilon=0.01, eta=2.0)
    first, second = exponential(problem), uniform(problem)
    assert fingerprint(first) != fingerprint(second)
    for mechanism in (first, second):
        memoize(mechanism, path).perturb("Ana", mechanism.records.ids[0])
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM answers").fetchone() == (2,)


def test_what_is_known_is_answered_without_writing(mechanism, path):
    memory = memoize(mechanism, path)
    ids = mechanism.records.ids[:3]
    answers = memory.perturb("Ana", ids)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # nobody else may write now
        assert memoize(mechanism, path, timeout=0.0).perturb("Ana", ids) == answers


def test_it_says_what_and_where_it_is(mechanism, path):
    memory = memoize(mechanism, path)
    assert memory.path == path
    assert repr(memory) == f"Memoized({mechanism!r}, {str(path)!r})"


def test_an_unknown_record_costs_nothing(mechanism, path, ledger):
    with pytest.raises(InputError, match="is not a record of this mechanism"):
        memoize(mechanism, path, ledger=ledger).perturb("Ana", [mechanism.records.ids[0], "nowhere"])
    assert ledger.holders() == []


@pytest.mark.parametrize("holder", ["", None, 7])
def test_holders_that_cannot_be(mechanism, path, holder):
    with pytest.raises(InputError, match="holder must be"):
        memoize(mechanism, path).perturb(holder, mechanism.records.ids[0])


def test_options_that_cannot_be(mechanism, path):
    with pytest.raises(InputError, match=r"2 faults.*key must be.*timeout must be"):
        memoize(mechanism, path, key=b"short", timeout=-1.0)


def test_without_a_key_the_store_holds_the_secrets_and_with_one_it_does_not(mechanism, path, tmp_path):
    ids = mechanism.records.ids
    memoize(mechanism, path).perturb("Ana Andersson", ids[7])
    assert b"Ana Andersson" in path.read_bytes()
    secret = tmp_path / "secret.db"
    answer = memoize(mechanism, secret, key=KEY).perturb("Ana Andersson", ids[7])
    assert b"Ana" not in secret.read_bytes()
    assert answer == ids[7] or ids[7].encode() not in secret.read_bytes()
    assert memoize(mechanism, secret, key=KEY).perturb("Ana Andersson", ids[7]) == answer
    with pytest.raises(InputError, match="made with another key"):
        memoize(mechanism, secret)


def test_a_ledger_is_no_store_of_answers(mechanism, ledger):
    with pytest.raises(FileFormatError, match="belongs to something else"):
        memoize(mechanism, ledger.path)


def test_a_failed_store_gives_no_answer_but_the_charge_stays(mechanism, path, ledger):
    memory = memoize(mechanism, path, ledger=ledger)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TRIGGER full BEFORE INSERT ON answers BEGIN SELECT raise(ABORT, 'no'); END")
    with pytest.raises(LedgerError, match="nothing was granted"):
        memory.perturb("Ana", mechanism.records.ids[0])
    assert ledger.spent("Ana") == mechanism.epsilon


def test_threads_get_the_same_answers_at_the_cost_of_one(mechanism, path, ledger):
    memory = memoize(mechanism, path, ledger=ledger)
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(memory.perturb("Ana", mechanism.records.ids[0])))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert len(set(answers)) == 1
    assert ledger.spent("Ana") == mechanism.epsilon


@pytest.mark.parametrize("n_faster", [0, 1, 2])
def test_what_another_process_answers_meanwhile_is_taken_and_not_paid_for_again(mechanism, path, ledger, n_faster):
    """Between the look at the file and the lock on it."""
    ids, answers = list(mechanism.records.ids[:2]), {}

    class Slow(Memoized):
        def _answer(self, question_of, charge):
            for name in ids[:n_faster]:
                answers[name] = memoize(mechanism, path, ledger=ledger).perturb("Ana", name)
            return super()._answer(question_of, charge)

    found = Slow(mechanism, path, ledger=ledger).perturb("Ana", ids)
    assert found[:n_faster] == list(answers.values())
    assert found == memoize(mechanism, path).perturb("Ana", ids)
    assert ledger.spent("Ana") == 2 * mechanism.epsilon


def test_processes_that_are_killed_and_start_again_get_the_same_answers():
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        command = [sys.executable, __file__, folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        kills = json.loads(done.stdout)["kills"]
        seen = {tuple(line.split()) for line in (Path(folder) / "seen").read_text().splitlines()}
        spent = Ledger(Path(folder) / "budget.db", limit=math.inf).spent("Ana")
    ids = grid(5, 5).ids
    assert kills > 0
    assert sorted(name for name, _ in seen) == sorted(ids)  # one answer each, whoever asked
    assert len(ids) <= round(spent / 0.01) <= len(ids) + kills


def ask(folder):
    memory = memoize(make(), folder / "answers.db", ledger=Ledger(folder / "budget.db", limit=math.inf))
    handle = os.open(folder / "seen", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for name in memory.mechanism.records.ids:
        os.write(handle, f"{name} {memory.perturb('Ana', name)}\n".encode())


def main(folder, *, n_processes=4, n_kills=6):
    """Let processes ask the same new questions at once; kill some when answers come, and start them again."""
    warnings.simplefilter("ignore", DeprecationWarning)  # libraries have started threads, which do nothing here
    rng = random.Random(0)
    seen = folder / "seen"
    seen.touch()

    def start():
        pid = os.fork()
        if pid == 0:
            try:
                ask(folder)
                os._exit(0)
            finally:
                os._exit(1)
        return pid

    due = sorted(rng.sample(range(1, 80), n_kills), reverse=True)  # at these numbers of answers
    running, kills = {start() for _ in range(n_processes)}, 0
    while running:
        time.sleep(rng.uniform(0.0, 0.002))
        if due and len(seen.read_text().splitlines()) >= due[-1]:
            due.pop()
            os.kill(rng.choice(sorted(running)), signal.SIGKILL)
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            continue
        running.remove(pid)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            kills += 1
            running.add(start())
        elif status != 0:
            sys.exit(f"a process failed with status {status}")
    print(json.dumps({"kills": kills}))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
