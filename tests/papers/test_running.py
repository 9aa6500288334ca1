"""Finished instances are kept, broken files are done again, Ctrl-C loses nothing that is finished."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from tests.papers.conftest import SMALLEST

from metricdp.errors import InputError, MissingExtraError
from papers.qiu2024 import bench as bench_module
from papers.qiu2024 import run_paper
from papers.qiu2024.averages import correlation
from papers.qiu2024.bench import Bench, TimeLeft, noticing_interrupts
from papers.qiu2024.datasets import Datasets
from papers.qiu2024.reached import Reached
from papers.qiu2024.store import Store, Task


@pytest.fixture
def counted(monkeypatch):
    """The titles of the tasks that are really done."""
    done: list[str] = []
    real = bench_module.perform

    def perform(task, data):
        done.append(task.title)
        return real(task, data)

    monkeypatch.setattr(bench_module, "perform", perform)
    return done


@pytest.fixture
def finished(everything, tmp_path):
    """A copy of the folder of a finished run."""
    shutil.copytree(everything.out, tmp_path / "results")
    return tmp_path / "results"


def test_finished_instances_are_not_run_again(finished, counted, everything):
    for path in finished.glob("*.*"):
        path.unlink()
    for name in ("table-time", "fig-related"):
        lines: list[str] = []
        run_paper(name, scale=SMALLEST, out=finished, tell=lines.append)
        assert lines[0].endswith(", 0 to do")
        # the same figures give the same pages and pictures
        for suffix in ("md", "svg", "png"):
            file = f"{name}.{suffix}"
            assert (finished / file).read_bytes() == (everything.out / file).read_bytes()
    assert counted == []


@pytest.mark.parametrize("damage", ["missing", "cut off", "another task", "no object"])
def test_what_cannot_be_used_is_done_again(finished, counted, damage):
    path = min((finished / "instances").glob("sizes-road-*.json"))
    whole = path.read_text(encoding="utf-8")
    match damage:
        case "missing":
            path.unlink()
        case "cut off":
            path.write_text(whole[: len(whole) // 2], encoding="utf-8")
        case "another task":
            content = json.loads(whole)
            content["task"]["instance"] = 99
            path.write_text(json.dumps(content), encoding="utf-8")
        case "no object":
            path.write_text("[]", encoding="utf-8")
    run_paper("table-subproblems", scale=SMALLEST, out=finished)
    assert len(counted) == 1
    again = json.loads(path.read_text(encoding="utf-8"))
    before = json.loads(whole)
    for content in (again, before):
        del content["result"]["task_seconds"]
    assert again == before


def test_more_instances_only_add(finished, counted):
    run_paper("fig-blocks", scale=SMALLEST.with_choices(instances=3), out=finished)
    assert len(counted) == 4 * len(SMALLEST.more_blocks)
    assert all("instance 2" in title for title in counted)


def test_another_city_is_another_instance(finished, counted, places):
    run_paper("fig-blocks", scale=SMALLEST, out=finished, data=str(places))
    assert len(counted) == SMALLEST.instances * len(SMALLEST.more_blocks)
    assert all("road" in title for title in counted)


def test_an_interrupted_solve_is_not_kept(tmp_path, monkeypatch):
    """A solve takes Ctrl-C as a wish to end soon and gives what it has: that is no finished instance."""
    done = []

    def perform(task, data):
        done.append(task)
        if len(done) == 3:
            before = signal.signal(signal.SIGINT, lambda *_: None)  # as a solve does
            os.kill(os.getpid(), signal.SIGINT)
            signal.signal(signal.SIGINT, before)
        return {"task_seconds": 0.0}

    monkeypatch.setattr(bench_module, "perform", perform)
    tasks = [Task.of("sizes", instance=i) for i in range(5)]
    bench = Bench(SMALLEST, Datasets(), tmp_path, lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        bench.run(tasks)
    store = Store(tmp_path / "instances")
    assert [store.load(task) is not None for task in tasks] == [True, True, False, False, False]
    assert not list((tmp_path / "instances").glob(".*"))
    Bench(SMALLEST, Datasets(), tmp_path, lambda _: None).run(tasks)
    assert done[3:] == tasks[2:]


def test_other_signals_are_no_interrupt():
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with noticing_interrupts() as was_interrupted:
            os.kill(os.getpid(), signal.SIGUSR1)
        assert not was_interrupted()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_time_left_learns_from_like_tasks():
    slow = [Task.of("decompose", dataset="road", instance=i) for i in range(3)]
    fast = [Task.of("decompose", dataset="grid", instance=i) for i in range(2)]
    guess = TimeLeft([*slow, *fast])
    guess.note(slow[0], 100.0)
    assert guess.seconds == pytest.approx(2 * 100 + 2 * 100)  # nothing is known of the others yet
    guess.note(fast[0], 2.0)
    assert guess.seconds == pytest.approx(2 * 100 + 2)
    assert str(guess) == "about 3 min left"
    for task, seconds in ((slow[1], 100.0), (slow[2], 100.0), (fast[1], 2.0)):
        guess.note(task, seconds)
    assert str(guess) == "done"


def run_of(*, is_reached: bool, seconds: float, gap: float, status: str = "limit") -> dict:
    return {"is_reached": is_reached, "seconds": seconds, "gap": 0.0, "own_gap": gap, "status": status}


def test_what_was_not_reached_is_said():
    good = run_of(is_reached=True, seconds=2.0, gap=0.01, status="optimal")
    bad = run_of(is_reached=False, seconds=60.0, gap=0.043)
    none = run_of(is_reached=False, seconds=60.0, gap=1.0)
    failed = run_of(is_reached=False, seconds=5.0, gap=0.1, status="failed")
    assert str(Reached.of([good, good], "seconds")) == "2"
    assert str(Reached.of([good, bad], "seconds")) == "1 of 2 runs: 2; the others: gap up to 4.3 %"
    assert str(Reached.of([bad, bad], "seconds")) == "not reached: > 60, gap up to 4.3 %"
    assert str(Reached.of([bad, none], "seconds")) == "not reached: > 60, no upper bound"
    assert str(Reached.of([failed], "seconds")) == "1 failed, gap up to 10 % (after 5)"
    # a run that hit the limit never makes a mean smaller or larger
    assert Reached.of([good, bad], "seconds").figure == (2.0, 0.0)


def test_correlation_of_what_does_not_vary_is_undefined():
    assert correlation([1, 2, 3, 4], [5, 5, 5, 5]) is None
    assert correlation([1, 2], [1, 2]) is None
    assert correlation([1, 2, 3, 4], [-1, -2, -3, -4]) == -1.0


def test_without_metis_there_are_the_papers_four(monkeypatch, tmp_path):
    monkeypatch.setattr(bench_module, "find_spec", lambda name: None)
    bench = Bench(SMALLEST, Datasets(), tmp_path, lambda _: None)
    assert bench.partitioners == ("k-m-dv", "k-m-rec", "k-m-adj", "bsc")


def test_without_matplotlib_nothing_is_begun(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"metricdp\[plot\]"):
        run_paper("fig-loss", scale=SMALLEST, out=tmp_path / "results")
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"instances": 0}, "at least 1, got 0"),
        ({"time_limit": -1.0}, "got -1.0"),
        ({"time_limit": float("nan")}, "nan"),
    ],
)
def test_choices_that_make_no_sense(choices, words):
    with pytest.raises(InputError, match=words):
        SMALLEST.with_choices(**choices)


def test_one_file_knows_the_plotting_library():
    folder = Path(bench_module.__file__).parent
    users = {path.name for path in folder.glob("*.py") if "matplotlib" in path.read_text(encoding="utf-8")}
    assert users == {"figures.py"}
