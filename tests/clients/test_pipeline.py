"""The example batch job: reports in order, everybody charged, nothing written when a budget does not suffice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import metricdp as mdp

JOB = Path(__file__).parents[2] / "examples" / "pipeline" / "perturb_table.py"
pytest.importorskip("polars", reason="the example needs polars, which dev installs")


@pytest.fixture
def folder(tmp_path):
    places = mdp.data.road("gothenburg").nearest([57.7, 11.97], 60)
    mdp.exponential(mdp.Problem(places, epsilon=2.0, eta=1.0, outputs=20)).save(tmp_path / "city.mdp")
    rng = np.random.default_rng(0)
    rows = places.coordinates[rng.integers(60, size=120)] + rng.normal(0, 1e-4, (120, 2))
    lines = [f"p{number % 40},{lat!r},{lon!r}" for number, (lat, lon) in enumerate(rows.tolist())]
    (tmp_path / "trips.csv").write_text("person,lat,lon\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def job(folder, limit):
    ledger = mdp.Ledger(folder / "budget.db", limit=limit, key=folder / "budget.key")
    words = ["city.mdp", "trips.csv", "reports.csv", "--ledger", "budget.db", "--key", "budget.key"]
    done = subprocess.run([sys.executable, str(JOB), *words], cwd=folder, capture_output=True, text=True, check=False)
    return ledger, done


def test_every_row_is_reported_and_charged(folder):
    ledger, done = job(folder, limit=100.0)
    assert done.returncode == 0, done.stderr
    assert "120 of 120 rows" in done.stderr
    lines = (folder / "reports.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "person,report,lat,lon"
    assert [line.split(",")[0] for line in lines[1:]] == [f"p{number % 40}" for number in range(120)]
    mechanism = mdp.load(folder / "city.mdp")
    known = dict(zip(mechanism.outputs.ids(mechanism.records), mechanism.outputs.coordinates.tolist(), strict=True))
    for line in lines[1:]:
        _, name, lat, lon = line.split(",")
        assert [float(lat), float(lon)] == known[name]
    assert all(ledger.exactly_spent(f"p{number}") == 6 for number in range(40))


def test_nothing_is_written_beyond_a_budget(folder):
    _, done = job(folder, limit=5.0)
    assert done.returncode != 0
    assert done.stderr.startswith("error: ")
    assert not (folder / "reports.csv").exists()


def test_a_wrong_table_is_not_shown(folder):
    (folder / "trips.csv").write_text("person,lat,lon\nAna,57.123456,secret\n", encoding="utf-8")
    _, done = job(folder, limit=5.0)
    assert done.returncode != 0
    assert "57.123456" not in done.stderr + done.stdout
    assert "secret" not in done.stderr + done.stdout
