"""Nothing in a checkpoint is trusted: files that somebody rewrote, seals included, and folders that misbehave."""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save

import metricdp as mdp
from metricdp.errors import FileFormatError
from metricdp.solve.checkpoint import Checkpoint, State, fingerprint

GAP = 1e-4
OPTIONS = {
    "benders": {"options": mdp.BendersOptions(n_blocks=4, halo_cuts=False, max_iterations=2)},
    "columns": {"options": mdp.ColumnOptions(records_per_patch=5, max_rounds=2)},
    "first-order": {"options": mdp.FirstOrderOptions(max_iterations=300)},
}
MORE = {
    "benders": {"options": mdp.BendersOptions(n_blocks=4, halo_cuts=False, max_iterations=5)},
    "columns": {"options": mdp.ColumnOptions(records_per_patch=5, max_rounds=5)},
    "first-order": {"options": mdp.FirstOrderOptions(max_iterations=500)},
}
METHODS = tuple(OPTIONS)


@functools.cache
def town():
    return mdp.Problem(mdp.data.road("gothenburg", n=40, seed=0), epsilon=2.0, eta=3.5, outputs=6, seed=0)


@functools.cache
def optimum():
    """The true optimum lies between the loss and the lower bound of the direct method."""
    return mdp.solve(town(), method="direct", gap=1e-9).loss


def run(method, folder, options=MORE, **more):
    return mdp.solve(town(), method=method, gap=GAP, checkpoint=folder, **options[method], **more)


@pytest.fixture(scope="module")
def half_done(tmp_path_factory):
    """A checkpoint of each method that has not reached its gap."""
    folders = {}
    for method in METHODS:
        folders[method] = tmp_path_factory.mktemp(method)
        assert run(method, folders[method], OPTIONS).gap > GAP
    return folders


@pytest.fixture
def copy_of(half_done, tmp_path):
    return lambda method: shutil.copytree(half_done[method], tmp_path / method)


def contents(path):
    with safe_open(path, framework="numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, json.loads(file.metadata()["notes"])  # noqa: SIM118


def rewrite(path, arrays, notes):
    """Write a file of a checkpoint anew with the seal that fits: anybody can make it."""
    own = json.loads((path.parent / "run.json").read_text())["fingerprint"]
    component, part = path.stem.removeprefix("component-").split("-")
    text = json.dumps(notes)
    named = [item for name in sorted(arrays) for item in (name, arrays[name])]
    seal = fingerprint(own, int(component), part, text, *named)
    whole = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
    path.write_bytes(save(whole, metadata={"notes": text, "seal": seal}))


def check_honest(result):
    assert result.mechanism.certificate.privacy.certified
    assert result.lower_bound <= optimum() * (1 + 1e-9)
    assert result.loss >= optimum() * (1 - 1e-9)


class TestForged:
    @pytest.mark.parametrize("method", METHODS)
    def test_a_bound_above_the_optimum_is_not_believed(self, copy_of, method):
        """It used to end at once as optimal, with a lower bound above the true optimum."""
        folder = copy_of(method)
        for path in folder.glob("*-state.safetensors"):
            arrays, notes = contents(path)
            bound = float.fromhex(notes["upper"]) * (1 - GAP / 10)
            rewrite(path, arrays, {**notes, "lower": bound.hex()})
        check_honest(run(method, folder, OPTIONS, resume=True))

    @pytest.mark.parametrize("method", METHODS)
    def test_a_matrix_that_is_not_private_is_not_taken_over(self, copy_of, method):
        folder = copy_of(method)
        for path in folder.glob("*-state.safetensors"):
            arrays, notes = contents(path)
            arrays["Z"][:] = 0.0
            arrays["Z"][:, 0] = 1.0
            arrays["Z"][0] = np.roll(arrays["Z"][0], 1)
            rewrite(path, arrays, {**notes, "upper": (0.0).hex()})
        result = run(method, folder, resume=True)
        check_honest(result)
        assert result.loss <= 1.2 * optimum()

    @pytest.mark.parametrize("factor", [1.5, 30.0, 1e3])
    def test_multipliers_of_cuts(self, copy_of, factor):
        """Cuts whose multipliers are wrong used to cut the optimum off: the coefficients came from the file."""
        folder = copy_of("benders")
        for path in folder.glob("component-*-0000?.safetensors"):
            arrays, notes = contents(path)
            rewrite(path, {**arrays, "y": factor * arrays["y"]}, notes)
        check_honest(run("benders", folder, resume=True))

    def test_rows_that_are_tighter_than_the_graph_says(self, copy_of):
        """An exponent of 0 between boundary records would make their rows equal, and the bound too high."""
        folder = copy_of("benders")
        for path in folder.glob("*-state.safetensors"):
            arrays, notes = contents(path)
            assert len(arrays["proof-exponent"])
            arrays["proof-exponent"] = np.zeros_like(arrays["proof-exponent"])
            arrays["proof-y"] = 3.0 * arrays["proof-y"]
            rewrite(path, arrays, notes)
        check_honest(run("benders", folder, OPTIONS, resume=True))

    @pytest.mark.parametrize("method", METHODS)
    def test_what_was_proved_is_proved_again(self, copy_of, method):
        """An honest checkpoint loses nothing: its bounds come back to the last bit."""
        folder = copy_of(method)
        stored = [float.fromhex(contents(path)[1]["lower"]) for path in folder.glob("*-state.safetensors")]
        seen = []
        run(method, folder, OPTIONS, resume=True, listener=seen.append)
        again = [float.fromhex(contents(path)[1]["lower"]) for path in folder.glob("*-state.safetensors")]
        assert [a >= b for a, b in zip(again, stored, strict=True)] == [True] * len(stored)
        assert sum(again) > 0


class Mutator:
    """Changes one thing of one file, and makes the seal fit."""

    numbers = (0, -1, 1, 7, 10**6, 2**31, 2**62, -(2**62), 1e-320, 1e300, -1e300, float("nan"), float("inf"), -0.0)

    def __init__(self, seed):
        self.random = random.Random(seed)

    def mutate(self, folder):
        path = self.random.choice(sorted(folder.glob("component-*.safetensors")))
        arrays, notes = contents(path)
        if self.random.random() < 0.15:
            rewrite(path, arrays, self.other_notes(notes))
            return
        name = self.random.choice(sorted(arrays))
        arrays[name] = self.other_array(arrays[name])
        if arrays[name] is None:
            del arrays[name]
        rewrite(path, arrays, notes)

    def other_notes(self, notes):
        values = (None, [], {}, "x", -5, 10**30, [[1]], [["halo", 99]], [["optimality", -1]], float("inf"))
        value = self.random.choice(values)
        if isinstance(notes, dict) and self.random.random() < 0.8:
            return {**notes, self.random.choice(sorted(notes)): value}
        return value

    def other_array(self, array):  # noqa: PLR0911  (one return per way)
        way = self.random.randrange(9)
        if way == 0:
            return None
        if way == 1:
            return array[: len(array) // 2]
        if way == 2:
            return np.concatenate((array, array))
        if way == 3:
            return array.astype(self.random.choice([np.float32, np.float64, np.int64, np.int8, np.uint64, np.bool_]))
        if way == 4:
            return array[..., None]
        changed = np.array(array)
        if changed.size == 0:
            return np.ones(3, dtype=array.dtype)
        if way == 5:
            factor = self.random.choice([-1.0, 0.5, 2.0, 10.0, 1e4])
            return (factor * changed).astype(array.dtype)
        number = self.random.choice(self.numbers)
        if np.issubdtype(array.dtype, np.integer):
            number = int(number) if np.isfinite(number) and abs(number) < 2**62 else 2**62
        with np.errstate(over="ignore"):
            if way == 6:
                changed[...] = number
            else:
                for _ in range(self.random.choice([1, 5])):
                    changed.flat[self.random.randrange(changed.size)] = number
        return changed


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 220), marks=pytest.mark.slow)], ids=["20", "200"])
def test_no_mutated_checkpoint_gives_a_wrong_bound_or_a_crash(half_done, tmp_path, method, seeds):
    refused = 0
    for seed in seeds:
        folder = tmp_path / str(seed)
        shutil.copytree(half_done[method], folder)
        Mutator(f"{method} {seed}").mutate(folder)
        try:
            check_honest(run(method, folder, OPTIONS if seed % 4 else MORE, resume=True))
        except FileFormatError as error:
            assert "start anew, without resume" in str(error)  # noqa: PT017  (either is right)
            refused += 1
        shutil.rmtree(folder)
    assert 0.2 * len(seeds) < refused < len(seeds)


class TestFolder:
    def test_a_planted_link_is_not_followed(self, tmp_path):
        """The temporary name used to be known beforehand, and a link under it was written through."""
        victim = tmp_path / "victim"
        victim.write_text("precious")
        folder = tmp_path / "run"
        folder.mkdir()
        names = ["run.json", "component-0-state.safetensors", "component-0-00000.safetensors"]
        for name in [*names, *(f".{name}.new" for name in names)]:
            (folder / name).symlink_to(victim)
        with Checkpoint(folder, "a" * 64, resume=False) as checkpoint:
            checkpoint.save(0, State(0, 0.0, 1.0, np.eye(2)), {"a": np.arange(3)}, [])
        assert victim.read_text() == "precious"
        assert not any((folder / name).is_symlink() for name in names)

    def test_a_planted_lock_is_not_followed(self, tmp_path):
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "run.lock").symlink_to(tmp_path / "victim")
        with pytest.raises(mdp.InputError, match="cannot write the checkpoint folder"):
            Checkpoint(tmp_path / "run", "a" * 64, resume=False)
        assert not (tmp_path / "victim").exists()

    def test_only_the_owner_can_read_it(self, tmp_path):
        before = os.umask(0o000)
        try:
            run("columns", tmp_path / "run", OPTIONS)
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700
        modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "run").iterdir()}
        assert modes == {0o600}

    def test_two_runs_refuse_each_other(self, copy_of):
        folder = copy_of("columns")
        before = {path.name: path.read_bytes() for path in folder.iterdir()}

        def again(row):
            if row["stage"] == "start":
                for resume in (True, False):
                    with pytest.raises(mdp.InputError, match="another run is using the checkpoint folder .*: choose"):
                        run("columns", folder, resume=resume)
                seen.append({path.name: path.read_bytes() for path in folder.iterdir()})

        seen = []
        run("columns", folder, resume=True, listener=again)
        assert seen == [before]
        run("columns", folder, resume=True)  # the folder is free again

    def test_a_run_that_was_killed_leaves_the_folder_free_and_clean(self, tmp_path):
        program = f"""
import os, signal
import numpy as np
from metricdp.solve.checkpoint import Checkpoint
from pathlib import Path
checkpoint = Checkpoint({str(tmp_path)!r}, "a" * 64, resume=False)
if os.fork() == 0:  # a worker that outlives the run must not hold the folder
    os.close(1)
    os.close(2)
    signal.pause()
def killed(self, target):
    os.kill(os.getpid(), signal.SIGKILL)
Path.replace = killed  # in the middle of a write
from metricdp.solve.checkpoint import State
print(os.getpid(), flush=True)
checkpoint.save(0, State(0, 0.0, 1.0, np.eye(2)), {{}}, [])
"""
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            process.communicate(timeout=120)
            assert process.returncode == -signal.SIGKILL
            assert list(tmp_path.glob(".metricdp-*.tmp"))
            Checkpoint(tmp_path, "a" * 64, resume=True).close()
            assert not list(tmp_path.glob(".metricdp-*.tmp"))
        finally:
            os.killpg(process.pid, signal.SIGKILL)

    def test_a_full_disk_costs_the_checkpoint_and_not_the_run(self, tmp_path):
        """No file may grow beyond 3 kB from the second iteration on: a real error of the operating system."""
        program = f"""
import json, resource
import metricdp as mdp
def listen(row):
    if row["stage"] == "benders" and row["iteration"] == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
problem = mdp.Problem(mdp.data.road("gothenburg", n=40, seed=0), epsilon=2.0, eta=3.5, outputs=6, seed=0)
options = mdp.BendersOptions(n_blocks=4, halo_cuts=False, max_iterations=5)
result = mdp.solve(problem, method="benders", gap={GAP}, options=options, checkpoint={str(tmp_path)!r},
    listener=listen)
troubles = [row["trouble"] for row in result.trace.rows if row["stage"] == "checkpoint"]
iterations = sum(row["stage"] == "benders" for row in result.trace.rows)
print(json.dumps([iterations, result.lower_bound, troubles]))
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        iterations, bound, troubles = json.loads(done.stdout)
        assert iterations == 5
        assert 0 < bound <= optimum() * (1 + 1e-9)
        assert len(troubles) == 1
        assert "could not be written" in troubles[0]
        assert "File too large" in troubles[0]
        assert "the run continues without it" in troubles[0]
        # what was written before is whole, and goes on from there
        rows = []
        check_honest(run("benders", tmp_path, resume=True, listener=rows.append))
        assert min(row["iteration"] for row in rows if row["stage"] == "benders") == 1
