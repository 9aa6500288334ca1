"""Every script in examples/ runs from an empty folder and says something."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(path, tmp_path):
    done = subprocess.run([sys.executable, path], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "private" in done.stdout.lower()  # every journey ends with a verdict


def test_the_low_bits_of_noise_in_floats_tell_who_it_was(monkeypatch):
    """The threat model says so: Bob can only give every 64th float near the corner, Alice gives nearly all others."""
    monkeypatch.syspath_prepend(str(EXAMPLES[0].parent))
    float_noise = importlib.import_module("float_noise")
    monkeypatch.setattr(float_noise, "N", 400_000)
    rng = np.random.default_rng(1)
    alice, bob = (float_noise.noisy(who, rng) for who in (float_noise.ALICE, float_noise.BOB))
    assert min(len(alice), len(bob)) > 300
    assert float_noise.on_the_grid(bob) == 1.0
    assert float_noise.on_the_grid(alice) < 0.1
    assert float_noise.radius(np.array([np.nextafter(1.0, 0.0)]))[0] < 41.0
