"""Fixtures of windowed ledgers."""

import time

import pytest
from tests.budget.windows import DAY, Clock

from metricdp.budget.ledger import Ledger


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(time, "time_ns", clock)
    return clock


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


@pytest.fixture
def ledger(path, clock):
    return Ledger(path, limit=1.0, window=DAY)
