"""Checkpoints: a run that is killed goes on where it was; what is damaged or not its own is refused."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from safetensors import safe_open

import metricdp as mdp
from metricdp.errors import FileFormatError, StoppedError
from metricdp.solve.checkpoint import Checkpoint, State, fingerprint
from metricdp.solve.solvers.benders.loop import Run

GAP = 1e-4
WORDS = ("road:gothenburg", "--records", "300", "--outputs", "50", "--epsilon", "8", "--eta", "0.5")


def city(epsilon=8.0, eta=0.5):
    return mdp.Problem(mdp.data.road("gothenburg", n=300, seed=0), epsilon=epsilon, eta=eta, outputs=50, seed=0)


def town(epsilon=8.0, seed=0):
    """Small, and still of some twenty iterations."""
    return mdp.Problem(mdp.data.road("gothenburg", n=80, seed=seed), epsilon=epsilon, eta=1.2, outputs=10, seed=seed)


def run(problem, folder, **more):
    options = {"options": mdp.BendersOptions(n_blocks=4).without("halo cuts"), "gap": 1e-3, **more}
    return mdp.solve(problem, method="benders", checkpoint=folder, **options)


def steps(result):
    return [row for row in result.trace.rows if row["stage"] == "benders"]


def stored(folder):
    """Iteration and lower bound of the component that got farthest; None if there is none yet."""
    return max(stored_by_component(folder).values(), default=None)


def stored_by_component(folder):
    """Iteration and lower bound of each component that was divided, read without the package."""
    found = {}
    for path in folder.glob("component-*-state.safetensors"):
        with safe_open(path, framework="numpy") as file:
            notes = json.loads(file.metadata()["notes"])
        found[int(path.name.split("-")[1])] = (notes["iteration"], float.fromhex(notes["lower"]))
    return found


@pytest.fixture(scope="module")
def half_done(tmp_path_factory):
    """A checkpoint after three iterations of the town."""
    folder = tmp_path_factory.mktemp("half")
    result = run(town(), folder, options=mdp.BendersOptions(n_blocks=4, halo_cuts=False, max_iterations=3))
    assert result.status is mdp.Status.LIMIT
    assert result.iterations == 3
    return folder


@pytest.fixture
def copy(half_done, tmp_path):
    return shutil.copytree(half_done, tmp_path / "copy")


class TestResume:
    def test_goes_on_where_it_was(self, copy):
        iteration, bound = stored(copy)
        assert iteration == 2
        result = run(town(), copy, resume=True)
        first = steps(result)[0]
        assert first["iteration"] == 3
        assert first["lower_bound"] >= bound
        assert result.status is mdp.Status.OPTIMAL
        exact = mdp.solve(town(), method="direct", gap=1e-6)
        assert result.lower_bound <= exact.loss
        assert result.loss <= exact.loss / (1 - 1e-3) + 1e-12

    def test_what_is_done_is_not_done_again(self, tmp_path):
        whole = run(town(), tmp_path)
        again = run(town(), tmp_path, resume=True)
        assert whole.status is again.status is mdp.Status.OPTIMAL
        assert steps(again) == []
        assert (again.iterations, again.lower_bound) == (whole.iterations, whole.lower_bound)
        assert again.loss == pytest.approx(whole.loss, rel=1e-9)

    def test_a_smaller_gap_goes_on_from_a_larger_one(self, tmp_path):
        coarse = run(town(), tmp_path, gap=0.2)
        fine = run(town(), tmp_path, gap=1e-4, resume=True)
        assert fine.status is mdp.Status.OPTIMAL
        last = {row["component"]: row for row in steps(coarse)}
        first = {row["component"]: row for row in reversed(steps(fine))}
        assert first
        for component, row in first.items():
            assert row["iteration"] == last[component]["iteration"] + 1
            assert row["lower_bound"] >= last[component]["lower_bound"]

    def test_bounds_of_an_iteration_that_was_broken_off_are_kept(self, tmp_path):
        """A time limit falls into the middle of an iteration; what it has proved is not lost."""
        bounds = []
        for attempt in range(4):
            result = mdp.solve(
                city(3.0, 0.7), method="benders", checkpoint=tmp_path, resume=attempt > 0, time_limit=0.5, gap=1e-6
            )
            assert result.status is mdp.Status.LIMIT
            bounds.append(stored(tmp_path))
        kept = [each for each in bounds if each is not None]  # a limit may come before there is anything to keep
        assert kept == sorted(kept)
        assert kept == bounds[len(bounds) - len(kept) :]
        assert (np.diff([lower for _, lower in kept]) >= 0).all()

    def test_an_iteration_that_was_broken_off_after_its_cuts_is_done_again(self, tmp_path, monkeypatch):
        """It has a number by then, and no file: a state that named it could not be gone on from."""
        note_feasible, calls = Run._note_feasible, []

        def interrupted(self, answers, progress):
            calls.append(progress.iteration)
            if progress.iteration == 2:
                raise StoppedError("it was time to stop")
            return note_feasible(self, answers, progress)

        monkeypatch.setattr(Run, "_note_feasible", interrupted)
        first = run(town(), tmp_path)
        assert calls == [0, 1, 2]
        iteration, bound = stored(tmp_path)
        assert iteration == 1
        monkeypatch.undo()
        again = run(town(), tmp_path, resume=True)
        assert steps(again)[0]["iteration"] == 2
        assert steps(again)[0]["lower_bound"] >= bound
        assert again.status is mdp.Status.OPTIMAL
        assert again.lower_bound >= first.lower_bound

    def test_without_resume_an_old_run_is_replaced(self, copy):
        (copy / ".metricdp-0123456789abcdef.tmp").write_bytes(b"left by a kill")
        (copy / "notes.txt").write_text("mine")
        result = run(town(9.0), copy)
        assert result.status is mdp.Status.OPTIMAL
        assert steps(result)[0]["iteration"] == 0
        assert not list(copy.glob(".metricdp*"))
        assert (copy / "notes.txt").read_text() == "mine"

    def test_no_state_yet_starts_the_component_again(self, copy):
        """Killed between the first iteration's file and the state's."""
        for path in copy.glob("*-state.safetensors"):
            path.unlink()
        result = run(town(), copy, resume=True)
        assert steps(result)[0]["iteration"] == 0
        assert result.status is mdp.Status.OPTIMAL


class TestRefusals:
    @pytest.mark.parametrize(
        ("problem", "more"),
        [
            (lambda: town(8.5), {}),
            (lambda: town(seed=1), {}),
            (town, {"options": mdp.BendersOptions(n_blocks=5, halo_cuts=False)}),
            (town, {"options": mdp.BendersOptions(partition="k-m-rec", n_blocks=4, halo_cuts=False)}),
            (town, {"options": mdp.BendersOptions(n_blocks=4)}),
        ],
        ids=["epsilon", "records", "blocks", "partitioner", "options"],
    )
    def test_of_another_problem(self, copy, problem, more):
        before = {path.name: path.read_bytes() for path in copy.iterdir()}
        with pytest.raises(mdp.InputError, match="of another problem or other options"):
            run(problem(), copy, resume=True, **more)
        assert {path.name: path.read_bytes() for path in copy.iterdir()} == before

    def test_nothing_there(self, tmp_path):
        with pytest.raises(mdp.InputError, match="there is no checkpoint in"):
            run(town(), tmp_path / "nothing", resume=True)
        assert not (tmp_path / "nothing").exists()

    def test_resume_without_a_folder(self):
        with pytest.raises(mdp.InputError, match="resume needs the folder"):
            mdp.solve(town(), method="benders", resume=True)

    @pytest.mark.parametrize("resume", [True, False])
    def test_unwritable(self, tmp_path, resume):
        (tmp_path / "file").write_text("not a folder")
        message = "there is no checkpoint" if resume else "cannot write the checkpoint folder"
        with pytest.raises(mdp.InputError, match=message):
            run(town(), tmp_path / "file" / "folder", resume=resume)

    def test_folder_that_disappears_costs_the_checkpoint_only(self, tmp_path):
        def remove(row):
            if row["stage"] == "benders" and row["iteration"] == 1:
                shutil.rmtree(tmp_path / "gone")

        result = run(town(), tmp_path / "gone", listener=remove)
        assert result.status is mdp.Status.OPTIMAL
        [warning] = [row for row in result.trace.rows if row["stage"] == "checkpoint"]
        assert "could not be written" in warning["trouble"]

    @pytest.mark.parametrize(
        "text", ["", "{", "[]", "{}", '{"format": "metricdp-checkpoint-0"}', "[" * 100_000, "\udcff"]
    )
    def test_damaged_head(self, copy, text):
        (copy / "run.json").write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(FileFormatError, match=r"run\.json is"):
            run(town(), copy, resume=True)

    @pytest.mark.parametrize("part", ["state", "00000", "00002"])
    @pytest.mark.parametrize("length", [0, 5, 8, 200, -1])
    def test_truncated(self, copy, part, length):
        path = self.largest(copy, part)
        path.write_bytes(path.read_bytes()[:length])
        with pytest.raises(FileFormatError, match="damaged"):
            run(town(), copy, resume=True)

    def test_iteration_that_is_missing(self, copy):
        self.largest(copy, "00001").unlink()
        with pytest.raises(FileFormatError, match="missing or damaged"):
            run(town(), copy, resume=True)

    def test_file_in_another_ones_place(self, copy):
        shutil.copy(self.largest(copy, "00001"), self.largest(copy, "00002"))
        with pytest.raises(FileFormatError, match="damaged or of another run"):
            run(town(), copy, resume=True)

    def test_command_line(self, copy, tmp_path, monkeypatch, capsys):
        from metricdp.cli import main

        words = ["solve", *WORDS, "--method", "benders", "--checkpoint", str(copy), "--resume", "--json"]
        monkeypatch.setattr(sys, "argv", ["metricdp", *words])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 2
        output = capsys.readouterr()
        assert json.loads(output.out)["status"] == "error"
        assert "of another problem" in output.err
        assert "Traceback" not in output.err

    @staticmethod
    def largest(folder, part):
        return max(folder.glob(f"component-*-{part}.safetensors"), key=lambda path: path.stat().st_size)


class TestFiles:
    own = fingerprint("run", np.arange(3))

    def saved(self, folder):
        with Checkpoint(folder, self.own, resume=False) as checkpoint:
            state = State(0, 0.25, float("inf"), np.eye(3), {"y": np.ones(2)}, {"feasible": [1]})
            checkpoint.save(7, state, {"a": np.arange(5), "empty": np.zeros((0, 2))}, [{"kind": "halo"}])
        return Checkpoint(folder, self.own, resume=True)

    def test_what_is_saved_comes_back(self, tmp_path):
        with self.saved(tmp_path) as checkpoint:
            saved = checkpoint.load(7)
            assert checkpoint.load(8) is None
        assert (saved.iteration, saved.state.notes["feasible"]) == (0, [1])
        assert np.array_equal(saved.state.arrays["Z"], np.eye(3))
        assert saved.state.proof["y"].tolist() == [1.0, 1.0]
        [step] = saved.steps
        assert step.arrays["a"].tolist() == [0, 1, 2, 3, 4]
        assert step.arrays["empty"].shape == (0, 2)
        assert step.notes == [{"kind": "halo"}]

    def test_iteration_without_anything_new(self, tmp_path):
        with Checkpoint(tmp_path, self.own, resume=False) as checkpoint:
            checkpoint.save(0, State(0, 0.0, 1.0, np.zeros((0, 0))), {}, [])
        with Checkpoint(tmp_path, self.own, resume=True) as checkpoint:
            [step] = checkpoint.load(0).steps
        assert (step.arrays, step.notes) == ({}, [])

    def test_no_pickle_inside(self, half_done):
        files = list(half_done.iterdir())
        assert len(files) > 3
        for path in files:
            assert path.suffix in (".json", ".safetensors") or (path.suffix == ".lock" and not path.read_bytes())

    @pytest.mark.parametrize("part", ["state", "00000"])
    def test_no_byte_can_change_unnoticed(self, tmp_path, part):
        """Any byte of a file changed in any way: refused, or the same contents (such as white space in its header)."""
        path = tmp_path / f"component-7-{part}.safetensors"
        with self.saved(tmp_path) as checkpoint:
            self.change_every_byte(checkpoint, path)

    @staticmethod
    def change_every_byte(checkpoint, path):
        whole = path.read_bytes()
        generator = random.Random(path.name)
        refused = 0
        for place in range(len(whole)):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << generator.randrange(8)
            path.write_bytes(damaged)
            try:
                saved = checkpoint.load(7)
            except FileFormatError:
                refused += 1
            else:
                [step] = saved.steps
                assert (saved.iteration, saved.state.arrays["Z"].tolist()) == (0, np.eye(3).tolist())
                assert (step.arrays["a"].tolist(), step.notes) == ([0, 1, 2, 3, 4], [{"kind": "halo"}])
        assert refused > 0.9 * len(whole)

    def test_fingerprint_tells_arrays_apart(self):
        parts = [
            np.arange(4),
            np.arange(4).reshape(2, 2),
            np.arange(4.0),
            np.arange(4)[::-1],
            "1",
            1,
            1.0,
        ]
        assert len({fingerprint(part) for part in parts}) == len(parts)
        assert fingerprint("ab", "c") != fingerprint("a", "bc")
        assert fingerprint(np.arange(8)[::2]) == fingerprint(np.array([0, 2, 4, 6]))


class Killed:
    """A solve by the command line that is killed at random moments and goes on, until it is let through."""

    def __init__(self, folder, seed):
        self.folder, self.random = folder / "checkpoint", random.Random(seed)
        self.file = folder / "found.mdp"
        self.kills = 0

    def start(self, *more):
        words = [
            *WORDS,
            "--method",
            "benders",
            "--gap",
            str(GAP),
            "--checkpoint",
            str(self.folder),
            "--json",
            "--verbose",
        ]
        # before the first word of the checkpoint is written there is nothing to go on from
        resume = ["--resume"] if (self.folder / "run.json").exists() else []
        return subprocess.Popen(
            [sys.executable, "-m", "metricdp", "solve", *words, *more, *resume, "-o", str(self.file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def kill_once(self):
        """Start, and kill within the solve: at any time, or while a file is being written."""
        before = stored(self.folder) if self.folder.exists() else None
        with self.start() as process:
            assert any(" start " in line for line in process.stderr), "its progress never said that it starts"
            if self.random.random() < 0.5:
                self.wait_for_a_write(process)
            else:
                time.sleep(self.random.uniform(0.0, 0.8))
            process.send_signal(signal.SIGKILL)
            _, errors = process.communicate()
        if process.returncode == 0:
            shutil.rmtree(self.folder)  # it was done before: once more from the beginning
            return
        assert process.returncode == -signal.SIGKILL, errors
        self.kills += 1
        after = stored(self.folder)
        if before is not None:
            assert after[0] >= before[0]
            assert after[1] >= before[1]

    def wait_for_a_write(self, process):
        for _ in range(self.random.randrange(1, 12)):
            while process.poll() is None and not list(self.folder.glob(".metricdp-*.tmp")):
                pass
            while process.poll() is None and list(self.folder.glob(".metricdp-*.tmp")) and self.random.random() < 0.9:
                pass

    def finish(self, exact):
        """Let it through: it goes on from the iteration after the last one stored, with a bound that is no lower."""
        before = stored_by_component(self.folder)
        trace = self.folder.parent / "trace.jsonl"
        with self.start("--trace", str(trace)) as process:
            output, errors = process.communicate()
        assert process.returncode == 0, errors
        rows = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
        first = {row["component"]: row for row in reversed(rows) if row["stage"] == "benders"}
        for component, (iteration, bound) in before.items():
            if component in first:  # else it was done already
                assert first[component]["iteration"] == iteration + 1
                assert first[component]["lower_bound"] >= bound
        found = json.loads(output)
        assert found["status"] == "optimal"
        assert found["lower_bound"] <= exact.loss * (1 + 1e-12)
        assert exact.lower_bound <= found["loss"] * (1 + 1e-12)
        assert found["loss"] <= exact.loss / (1 - GAP)
        mdp.load(self.file)


def kill_and_resume(folder, seed, n_kills):
    exact = mdp.solve(city(), method="direct", gap=1e-6)
    killed = Killed(folder, seed)
    for _ in range(30 * n_kills):  # one that was done before it was killed does not count
        if killed.kills == n_kills:
            break
        killed.kill_once()
    assert killed.kills == n_kills
    killed.finish(exact)


def test_killed_and_resumed(tmp_path):
    kill_and_resume(tmp_path, seed=1, n_kills=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(15))
def test_killed_twice_and_resumed(tmp_path, seed):
    kill_and_resume(tmp_path, seed, n_kills=2)
