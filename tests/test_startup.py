"""What is imported when: counted by modules, not by the clock."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import metricdp
from metricdp.cli.app import COMMANDS, app

LIBRARIES = ("numpy", "scipy", "sklearn", "numba", "highspy", "pandas", "matplotlib", "safetensors", "opendp")
COMMAND_LINE = ("typer", "rich")


def loaded_by(program: str) -> set[str]:
    """The modules that a fresh interpreter has after a program."""
    tail = "import sys, json; sys.stderr.write('\\n' + json.dumps(sorted(sys.modules)))"
    code = f"try:\n    {program}\nexcept SystemExit: pass\n{tail}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_the_front_door_loads_no_library():
    loaded = loaded_by("import metricdp")
    assert loaded.isdisjoint((*LIBRARIES, *COMMAND_LINE))
    assert {name for name in loaded if name.startswith("metricdp.")} == {"metricdp.errors"}


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["no-such-command"], []])
def test_the_help_loads_no_library_and_no_command(words):
    loaded = loaded_by(f"import sys; sys.argv = ['metricdp', *{words!r}]; from metricdp.cli import main; main()")
    assert loaded.isdisjoint(LIBRARIES)
    assert loaded.isdisjoint(f"metricdp.cli.{name}" for name in COMMANDS)
    assert "typer" in loaded


def test_a_problem_and_a_mechanism_need_neither_scikit_learn_nor_a_solver():
    loaded = loaded_by("import metricdp; metricdp.Problem, metricdp.load, metricdp.Ledger, metricdp.apply")
    assert loaded.isdisjoint(("sklearn", "highspy", "pandas", "matplotlib", "opendp", "metricdp.solve"))


def test_solvers_need_no_scikit_learn_until_blocks_are_made():
    assert loaded_by("import metricdp; metricdp.solve.METHODS").isdisjoint(("sklearn", "pandas", "matplotlib"))


@pytest.mark.parametrize(("partition", "is_loaded"), [("k-m-dv", True), ("bsc", True), ("metis", False)])
def test_what_makes_blocks_is_imported_before_the_time_limit_begins(partition, is_loaded):
    program = (
        "import sys, importlib, metricdp as mdp; "
        "importlib.import_module('metricdp.solve.solve').Stop = lambda limit: sys.exit(); "
        "problem = mdp.Problem(mdp.data.grid(2, 2), epsilon=1.0, eta=1.0); "
        f"mdp.solve(problem, method='benders', options=mdp.BendersOptions(partition='{partition}'))"
    )
    assert ("sklearn.cluster" in loaded_by(program)) is is_loaded


def test_every_public_name_is_there_and_listed():
    assert set(metricdp.__all__) <= set(dir(metricdp))
    assert len(set(metricdp.__all__)) == len(metricdp.__all__)
    for name in metricdp.__all__:
        assert getattr(metricdp, name) is not None
    everything: dict = {}
    exec("from metricdp import *", everything)  # noqa: S102
    assert set(metricdp.__all__) <= set(everything)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        metricdp.nothing  # noqa: B018


def test_type_checkers_see_what_programs_get():
    """The imports for type checkers name the same things, from the same rooms, as the table for programs."""
    tree = ast.parse(Path(metricdp.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        (alias.name, str(node.module))
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == {
        *((name, "metricdp") for name in metricdp.ROOMS if name != "solve"),
        *((name, f"metricdp.{room}") for name, room in metricdp.ROOM_OF.items()),
        ("Room", "metricdp.solve"),
    }
    eager = {"CertificationError", "FileFormatError", "InputError", "MetricDPError", "MissingExtraError", "__version__"}
    assert set(metricdp.__all__) == {*metricdp.ROOMS, *metricdp.ROOM_OF, *eager}


def test_the_room_and_the_function_of_one_name():
    import metricdp.solve.solve
    from metricdp.solve import Result, Status

    room = importlib.import_module("metricdp.solve")
    assert metricdp.solve is room
    assert room.Status is Status is metricdp.Status
    assert room.Result is Result
    assert callable(metricdp.solve)
    assert inspect.signature(metricdp.solve) == inspect.signature(room.solve)
    assert pickle.loads(pickle.dumps(metricdp.solve)) is room  # noqa: S301
    problem = metricdp.Problem(metricdp.data.grid(2, 2), epsilon=1.0, eta=1.5)
    assert metricdp.solve(problem, gap=0.1).status is Status.OPTIMAL


def test_the_help_says_what_each_command_says():
    for name, line in COMMANDS.items():
        importlib.import_module(f"metricdp.cli.{name}")
        (info,) = [info for info in app.registered_commands if info.name == name]
        assert inspect.getdoc(info.callback).splitlines()[0] == line
    assert {info.name for info in app.registered_commands} == set(COMMANDS)
