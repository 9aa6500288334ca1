"""Files that were edited and sealed again: whatever loads holds what it claims, judged by a second checker."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from tests.mechanism.edits import EDITS, attack, honest_files
from tests.mechanism.independent import distance_bounds, violation
from tests.mechanism.test_files import pack

import metricdp as mdp


def test_no_edited_file_loads_that_violates_its_claim(tmp_path):
    seen, found = attack(tmp_path, 600)
    assert found == []
    loaded = {edit for edit, answer in seen if answer == "loaded"}
    refused = {edit for edit, answer in seen if answer == "refused"}
    assert len(refused) == len(EDITS)
    assert len(loaded) > len(EDITS) / 2  # the edits are not all so coarse that nothing is left to judge


@pytest.mark.slow
def test_twenty_thousand_edited_files(tmp_path):
    assert attack(tmp_path, 20_000, seed=1)[1] == []


def test_honest_files_load_and_hold(tmp_path):
    for metadata, tensors in honest_files(tmp_path):
        pack(tmp_path / "m.mdp", metadata, tensors)
        assert violation(mdp.load(tmp_path / "m.mdp"), rounding=1e-12) == ""


def test_the_second_checker_sees_what_is_broken(tmp_path):
    """A checker that finds nothing must be one that can find something."""
    metadata, tensors = honest_files(tmp_path)[0]
    pack(tmp_path / "m.mdp", metadata, tensors)
    mechanism = mdp.load(tmp_path / "m.mdp")
    object.__setattr__(mechanism, "epsilon", mechanism.epsilon / 2)
    assert "not 1.0-private" in violation(mechanism)
    table = mechanism.table.copy()
    table[0, 0] += np.uint64(1)
    object.__setattr__(mechanism, "table", table)
    assert "sum" in violation(mechanism)


@pytest.mark.parametrize(
    ("metric", "a", "b", "expected"),
    [
        ("euclidean", (0, 0), (3, 4), 5.0),
        ("euclidean", (0, 0), (1, 1), math.sqrt(2)),
        ("euclidean", (1e-200, 0), (0, 0), 1e-200),
        ("manhattan", (0.5, -1), (-0.5, 1), 3.0),
        ("haversine", (0, 0), (0, 180), math.pi * 6371.0088),
        ("haversine", (90, 0), (-90, 77), math.pi * 6371.0088),
        ("haversine", (0, 180), (0, -180), 0.0),
        ("haversine", (57.7, 11.97), (57.71, 11.98), 1.260706),
        ("haversine", (0, 0), (0, 1e-9), math.radians(1e-9) * 6371.0088),
    ],
)
def test_true_distances(metric, a, b, expected):
    low, high = distance_bounds(metric, a, b)
    assert low <= high
    assert float(high - low) <= 1e-40 * float(high)
    assert float(low) == pytest.approx(expected, rel=1e-6 if expected == 1.260706 else 1e-14)
    if expected == math.sqrt(2):
        assert low**2 < 2 < high**2
        assert low < Fraction(expected) * (1 + Fraction(1, 2**52))
