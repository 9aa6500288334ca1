"""The mutation tool itself: which faults it makes, and that they do what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "mutants"


@pytest.fixture(scope="module")
def tool():
    """The module that makes mutants; the tool is a folder that is run, not a package."""
    sys.path.insert(0, str(TOOL))
    try:
        import mutations
    finally:
        sys.path.remove(str(TOOL))
    return mutations


SOURCE = '''
"""Text is left alone."""
from numba import njit

LIMIT = 3


@njit
def kernel(x):
    return x + 1


class Box:
    def holds(self, x: int, *, at_most: int = 5) -> bool:
        """Say so."""
        if x < 0 or not isinstance(x, int):
            raise ValueError(f"got {x + 1}")
        x += 1
        return x <= at_most


def first(values):
    for value in values:
        if value is None:
            continue
        return min(value, LIMIT)
    return ""
'''

EXPECTED = {
    "module: LIMIT = 3 => LIMIT = 4",
    "module: LIMIT = 3 => LIMIT = 2",
    "Box.holds: def holds(self, x, *, at_most=5) => def holds(self, x, *, at_most=6)",
    "Box.holds: def holds(self, x, *, at_most=5) => def holds(self, x, *, at_most=4)",
    "Box.holds: if x < 0 or not isinstance(x, int) => if not (x < 0 or not isinstance(x, int))",
    "Box.holds: if x < 0 or not isinstance(x, int) => if x < 0 and (not isinstance(x, int))",
    "Box.holds: if x < 0 or not isinstance(x, int) => if not isinstance(x, int)",
    "Box.holds: if x < 0 or not isinstance(x, int) => if x < 0",
    "Box.holds: if x < 0 or not isinstance(x, int) => if x <= 0 or not isinstance(x, int)",
    "Box.holds: if x < 0 or not isinstance(x, int) => if x >= 0 or not isinstance(x, int)",
    "Box.holds: if x < 0 or not isinstance(x, int) => if x < 1 or not isinstance(x, int)",
    "Box.holds: if x < 0 or not isinstance(x, int) => if x < -1 or not isinstance(x, int)",
    "Box.holds: if x < 0 or not isinstance(x, int) => if x < 0 or isinstance(x, int)",
    "Box.holds: raise ValueError(f'got {x + 1}') => (removed)",
    "Box.holds: x += 1 => (removed)",
    "Box.holds: x += 1 => x -= 1",
    "Box.holds: x += 1 => x += 2",
    "Box.holds: x += 1 => x += 0",
    "Box.holds: return x <= at_most => return None",
    "Box.holds: return x <= at_most => return x < at_most",
    "Box.holds: return x <= at_most => return x > at_most",
    "first: for value in values => for value in []",
    "first: if value is None => if value is not None",
    "first: continue => break",
    "first: continue => (removed)",
    "first: return min(value, LIMIT) => return None",
    "first: return min(value, LIMIT) => return max(value, LIMIT)",
    "first: return '' => return None",
    "first: return '' => return 'XX'",
}


def test_all_faults_of_a_small_file(tool):
    assert {mutant.name for mutant in tool.find_mutants("small.py", SOURCE)} == EXPECTED
    assert tool.kernels(SOURCE) == ["kernel"]


def test_a_fault_is_where_it_says_and_nowhere_else(tool):
    mutants = {mutant.name: mutant for mutant in tool.find_mutants("small.py", SOURCE)}
    space = {}
    exec(tool.compile_mutant(mutants["Box.holds: return x <= at_most => return x < at_most"], SOURCE), space)  # noqa: S102
    assert not space["Box"]().holds(4)
    assert space["Box"]().holds(3)
    assert space["LIMIT"] == 3
    with pytest.raises(ValueError, match="got 0"):
        space["Box"]().holds(-1)


def test_equal_faults_have_different_names(tool):
    names = [mutant.name for mutant in tool.find_mutants("twice.py", "def f(x):\n    if x: return 1\n    return 1\n")]
    assert len(set(names)) == len(names)
    assert "f: return 1 => return 2 (occurrence 2)" in names


def test_it_runs_and_finds_a_survivor(tmp_path):
    """One line of the lower bound against a test that cannot tell: alive, exit code 1, named in the report."""
    test = tmp_path / "test_weak.py"
    test.write_text(
        "import numpy as np\n"
        "from metricdp.solve.bounds import RowDuals, growth_rounded_up\n"
        "def test_weak():\n"
        "    assert (growth_rounded_up(np.zeros(2)) >= 1.0).all()\n"
    )
    words = ["--file", "solve/bounds.py", "--name", "growth_rounded_up: return", "--tests", str(test), "--jobs", "1"]
    done = subprocess.run(
        [sys.executable, str(TOOL), *words, "--report", str(tmp_path / "report.md")],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    report = (tmp_path / "report.md").read_text()
    alive = report.split("## Alive and not accepted")[1].split("## Alive, with")[0]
    assert "(2.0 + ROUND_UP)" in alive
    assert "(1.0 - ROUND_UP)" not in alive
    assert "return None" not in alive
