"""Memory of regions: counted before anything large is made."""

from __future__ import annotations

import math

import pytest

import metricdp as mdp
from metricdp.errors import InputError
from metricdp.problem.memory_model import held_bytes
from metricdp.solve.plane import memory
from metricdp.solve.plane.cones import Cones
from metricdp.solve.plane.loop import Loop

REGION = mdp.data.region(0.0, 0.0, 40.0, 40.0, spacing=0.8, kind="vectors")


@pytest.fixture(scope="module")
def problem():
    return mdp.PlaneProblem(REGION, epsilon=1.0, outputs=REGION.inner[::9])


def test_a_problem_that_does_not_fit_is_refused_before_it_begins(problem):
    with pytest.raises(InputError, match="would need about .* GB, more than the .* that are left"):
        mdp.solve_plane(problem, memory_limit=held_bytes() / 1e9 + 0.01)
    with pytest.raises(InputError, match="memory_limit must be positive"):
        mdp.solve_plane(problem, memory_limit=0)


def test_windows_become_smaller_to_fit(problem, monkeypatch):
    monkeypatch.setattr(memory, "held_bytes", lambda: 0.0)
    needed = [memory.bytes_needed(problem, reach) for reach in memory.REACHES]
    assert needed == sorted(needed, reverse=True)
    assert memory.reach_within(problem, 1.001 * needed[0] / 1e9) == math.inf
    assert memory.reach_within(problem, 1.001 * needed[2] / 1e9) == memory.REACHES[2]
    with pytest.raises(InputError, match="coarser lattice"):
        memory.reach_within(problem, 0.99 * needed[-1] / 1e9)


def test_windows_hold_about_what_was_counted(problem):
    for reach in (9.0, math.inf):
        windows = Loop(problem, Cones.of(REGION), share=1.0, reach=reach).windows
        share = windows.n_entries / (problem.n_nodes * problem.n_outputs)
        # windows end at the border of the region, and some groups have fewer than 8 outputs
        assert 0.6 * memory.filled(problem, reach) < share < 1.25 * memory.filled(problem, reach)
