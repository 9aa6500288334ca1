"""Mechanisms over sparse tables: certified by construction, asked by blocks, drawn from."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from fractions import Fraction

import numpy as np
import pytest
from tests.mechanism.sparse_tables import sparse_of

import metricdp as mdp
from metricdp.mechanism import blocks, expected
from metricdp.mechanism.certify import check_privacy
from metricdp.mechanism.mechanism import Optimality, table_loss
from metricdp.mechanism.sparse import SparseTable

TOTAL = 1 << 63


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(2)
    return mdp.Problem(rng.random((20, 2)), epsilon=3.0, eta=0.7, outputs=list(range(20)), metric="euclidean")


@pytest.fixture(scope="module")
def dense(problem):
    return mdp.exponential(problem)


@pytest.fixture(scope="module")
def sparse(problem, dense):
    return mdp.Mechanism.of(problem, sparse_of(dense.table), solver="s")


def moved(table, row):
    """Move all that one record stores to one output."""
    block = table.block()
    block[row] = 0
    block[row, 0] = TOTAL
    return sparse_of(block)


def test_it_is_certified_as_the_dense_one(sparse, dense):
    assert (sparse.is_sparse, dense.is_sparse) == (True, False)
    ours, theirs = sparse.certificate.privacy, dense.certificate.privacy
    assert (ours.tightest_epsilon, ours.worst, ours.n_pairs) == (theirs.tightest_epsilon, theirs.worst, theirs.n_pairs)
    assert repr(sparse) == repr(dense)
    assert sparse.certificate.lines()[0].startswith("Private: every one of")
    assert f"of {ours.n_compared:,} comparisons" in str(sparse.certificate)
    assert sparse.recheck().certified


def test_a_table_that_is_not_private_is_refused(problem, sparse):
    for make in (
        lambda table: mdp.Mechanism.of(problem, table),
        lambda table: sparse.with_table(table, solver="again"),
        lambda table: dataclasses.replace(sparse, table=table),
    ):
        with pytest.raises(mdp.CertificationError, match="the table is not 3-mDP: records"):
            make(moved(sparse.table, 4))
        short = sparse_of(sparse.table.block() - np.eye(20, dtype=np.uint64))
        with pytest.raises(mdp.CertificationError, match="row 0 sums to"):
            make(short)
        assert make(sparse.table).is_sparse


def test_sizes_and_look_alikes_are_refused(problem, sparse):
    with pytest.raises(mdp.InputError, match=r"must be uint64 of shape \(20, 20\), got uint64 of shape \(19, 20\)"):
        mdp.Mechanism.of(problem, sparse_of(sparse.table.block(slice(0, 19))))

    class Alike:
        shape, dtype = (20, 20), np.dtype(np.uint64)
        block = sparse.table.block

    with pytest.raises(mdp.InputError):
        mdp.Mechanism.of(problem, Alike())

    class Liar(SparseTable):
        def block(self, rows=None, outputs=None):
            raise AssertionError

    liar = Liar(*sparse.table.parts)
    assert type(mdp.Mechanism.of(problem, liar).table) is SparseTable


def test_a_table_that_was_tampered_with_is_checked_again(problem, sparse):
    forged = copy.copy(sparse.table)
    object.__setattr__(forged, "columns", np.full(forged.n_stored, 10**6, dtype=np.int32))
    with pytest.raises(mdp.InputError, match="stores an output that does not exist"):
        mdp.Mechanism.of(problem, forged)


def test_what_is_cached_in_a_table_is_not_believed(problem, sparse):
    short = sparse_of(sparse.table.block() - np.eye(20, dtype=np.uint64))
    short.__dict__["stored_totals"] = sparse.table.stored_totals
    with pytest.raises(mdp.CertificationError, match="row 0 sums to"):
        mdp.Mechanism.of(problem, short)
    assert not check_privacy(short, problem.graph.pairs, problem.graph.distances, 3.0).certified


def test_copies_certify_again(sparse):
    for again in (copy.copy(sparse), copy.deepcopy(sparse), pickle.loads(pickle.dumps(sparse))):  # noqa: S301
        assert again.is_sparse
        assert again.solver == "s"
        assert np.array_equal(again.block(), sparse.block())
    forged = copy.copy(sparse)
    object.__setattr__(forged, "table", moved(sparse.table, 4))
    for again in (copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))):  # noqa: S301
        with pytest.raises(mdp.CertificationError):
            again(forged)


def test_nothing_can_be_changed(sparse):
    with pytest.raises(dataclasses.FrozenInstanceError):
        sparse.table = None
    for part in sparse.table.parts:
        with pytest.raises(ValueError, match="WRITEABLE"):
            part.setflags(write=True)


def test_blocks_of_both_kinds_agree(sparse, dense):
    Z = dense.table / 2.0**63
    for rows, outputs in ((None, None), (3, None), (None, 7), ([5, 2, 2], slice(4, 9)), (slice(3, 6), [1, 0])):
        ours, theirs = sparse.block(rows, outputs), dense.block(rows, outputs)
        assert ours.dtype == np.float64
        assert ours.ndim == 2
        assert np.array_equal(ours, theirs)
    assert np.array_equal(sparse.block(3)[0], Z[3])
    assert np.array_equal(sparse.block(None, 7)[:, 0], Z[:, 7])
    assert np.array_equal(sparse.probabilities, Z)
    for mechanism in (sparse, dense):
        for max_bytes in (1, 20 * 8, 20 * 8 * 3, 1e9):
            parts = list(mechanism.row_blocks(max_bytes))
            assert [p.start for p, _ in parts] == [0, *(p.stop for p, _ in parts[:-1])]
            assert np.array_equal(np.vstack([block for _, block in parts]), Z)
            assert max(block.nbytes for _, block in parts) <= max(max_bytes, 160)


def test_a_matrix_that_does_not_fit_is_refused(monkeypatch, sparse, dense):
    for mechanism, needed in ((sparse, 6400), (dense, 3200)):
        monkeypatch.setattr(blocks, "available_bytes", lambda needed=needed: needed)
        assert mechanism.probabilities.shape == (20, 20)
        monkeypatch.setattr(blocks, "available_bytes", lambda needed=needed: needed - 1)
        with pytest.raises(mdp.InputError, match=r"20 records and 20 outputs at once need .*block\(rows\).*row_blocks"):
            _ = mechanism.probabilities


def test_reports(sparse):
    rows = np.arange(20).repeat(5)
    drawn = sparse.perturb_rows(rows)
    assert drawn.dtype == np.int64
    assert ((drawn >= 0) & (drawn < 20)).all()
    assert set(sparse.perturb(list(sparse.records.ids))) <= set(sparse.outputs.ids(sparse.records))
    reports = sparse.perturb_points(sparse.records.coordinates[:3], limit=0.1)
    assert len(reports.ids) == 3
    assert sparse.perturb([]) == []


@pytest.mark.parametrize("is_in_space", [True, False])
def test_the_expected_loss_is_rounded_up(monkeypatch, problem, sparse, is_in_space):
    if not is_in_space:  # by blocks of losses
        monkeypatch.setattr(expected, "space_of", lambda _: None)
    exact = (
        sum(
            Fraction(float(p)) * Fraction(float(c)) * int(n)
            for p, costs, weights in zip(problem.records.prior, problem.loss, sparse.table.block(), strict=True)
            for c, n in zip(costs, weights, strict=True)
        )
        / TOTAL
    )
    found = table_loss(sparse.table, problem)
    assert exact <= Fraction(found) <= exact * (1 + Fraction(1, 2**43))
    assert found == pytest.approx(table_loss(sparse.table.block(), problem), rel=1e-12)


def test_bounds_and_losses_are_kept(problem, sparse):
    made = mdp.Mechanism.of(problem, sparse.table, optimality=Optimality(0.5, 0.25))
    assert repr(made).endswith("within 50 % of optimal)")
    assert copy.deepcopy(made).optimality == Optimality(0.5, 0.25)
    assert made.with_table(sparse.table, solver="x").optimality is None
