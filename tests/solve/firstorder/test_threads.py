"""Rows shared out among threads: each is in one part, whatever their number."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metricdp.solve.solvers.firstorder import threads
from metricdp.solve.solvers.firstorder.threads import in_threads


@given(n=st.integers(0, 300), workers=st.integers(1, 5), is_large=st.booleans())
def test_every_row_is_in_exactly_one_part(n, workers, is_large):
    rows = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "get_num_threads", lambda: workers)
        in_threads(lambda first, last: rows.extend(range(first, last)), n, is_large=is_large)
    assert sorted(rows) == list(range(n))


def test_large_work_runs_in_as_many_threads_as_there_may_be(monkeypatch):
    monkeypatch.setattr(threads, "get_num_threads", lambda: 2)
    both = threading.Barrier(2, timeout=30)  # broken if one thread had to do all parts
    names = []

    def work(first, last):
        both.wait()
        names.append(threading.current_thread().name)

    in_threads(work, 64, is_large=True)
    assert len(set(names)) == 2


def test_an_error_in_a_part_is_raised(monkeypatch):
    monkeypatch.setattr(threads, "get_num_threads", lambda: 2)

    def work(first, last):
        if first > 0:
            raise ValueError("in a part")

    with pytest.raises(ValueError, match="in a part"):
        in_threads(work, 64, is_large=True)
