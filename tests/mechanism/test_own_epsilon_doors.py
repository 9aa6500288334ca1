"""Epsilons of the records' own behind the doors that are not the solver's: parts, files, charges, filters, audits."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

import metricdp as mdp
from metricdp.evaluate.tracker import path_promise
from metricdp.extras import make_measurement
from metricdp.mechanism.part import part_of
from metricdp.solve.solvers.local.options import LocalOptions

STRICT, LOOSE = 0.5, 2.0


@pytest.fixture(scope="module")
def problem():
    records = mdp.data.road("gothenburg", n=24, seed=0)
    own = np.where(np.arange(24) % 3 == 0, STRICT, LOOSE)
    return mdp.Problem(records, epsilon=own, eta=4.0, outputs=8)


@pytest.fixture(scope="module")
def made(problem):
    return mdp.solve(problem, gap=0.05, method="direct").mechanism


@pytest.fixture
def dp():
    prelude = pytest.importorskip("opendp.prelude")
    prelude.enable_features("contrib", "honest-but-curious")
    yield prelude
    prelude.disable_features("contrib", "honest-but-curious")


def path_lengths(mechanism):
    (i, j), d, n = mechanism.graph.pairs.T, mechanism.graph.distances, mechanism.records.n
    return dijkstra(csr_array((d, (i, j)), shape=(n, n)), directed=False)


def test_the_map_of_opendp_covers_every_pair(dp, made):
    measurement = make_measurement(made)
    assert measurement.map(1.0) == LOOSE
    away, logs = path_lengths(made), np.log(made.probabilities)
    for i, j in itertools.combinations(range(24), 2):
        told = np.abs(logs[i] - logs[j]).max()
        assert told <= made.guarantee.bound(i, j) * (1 + 1e-9) <= measurement.map(away[i, j]) * (1 + 1e-8)


def test_a_filter_is_bayes_and_says_whose_epsilon_it_names(made):
    tracker = mdp.Tracker(made)
    tracker.update(3)
    found = tracker.update(5)
    Z, moves = made.probabilities, tracker.transition.toarray()
    both = (made.records.prior * Z[:, 3]) @ moves * Z[:, 5]
    np.testing.assert_allclose(found, both / both.sum(), rtol=1e-9)
    assert "at epsilon 2 (the largest of the records' own) per km each" in path_promise(made, 2)
    alike = mdp.exponential(mdp.Problem(made.records, epsilon=2.0, eta=4.0, outputs=8))
    assert "at epsilon 2 per km each" in path_promise(alike, 2)


def test_a_memory_charges_the_largest_whatever_the_record(made, tmp_path):
    with mdp.Ledger(tmp_path / "spent.db", limit=10.0) as ledger:
        memory = mdp.memoize(made, tmp_path / "answers.db", ledger=ledger)
        strict, loose = made.records.ids[0], made.records.ids[1]
        first = memory.perturb("Ana", strict)
        assert ledger.spent("Ana") == LOOSE
        assert memory.perturb("Ana", strict) == first
        assert ledger.spent("Ana") == LOOSE
        memory.perturb("Ben", loose)
        assert ledger.spent("Ben") == LOOSE  # who reads the ledger cannot tell Ana's record from Ben's


def test_a_file_with_a_ledger_charges_everyone_alike(run, made, tmp_path):
    made.save(tmp_path / "own.mdp")
    names = made.records.ids
    (tmp_path / "in.csv").write_text("id,user\n" + "".join(f"{name},u{row}\n" for row, name in enumerate(names)))
    words = ("--input", "in.csv", "--output", "out.csv", "--ledger", "b.db", "--person", "user", "--new-ledger", 5)
    code, text, complaint = run("perturb", "own.mdp", *words)
    assert code == 0, complaint
    assert "2 per km" in text
    with mdp.Ledger(tmp_path / "b.db", must_exist=True) as ledger:
        assert {ledger.spent(f"u{row}") for row in range(24)} == {LOOSE}


@pytest.mark.parametrize("method", ["benders", "columns", "first-order"])
def test_a_checkpoint_is_of_these_epsilons(problem, method, tmp_path):
    first = mdp.solve(problem, method=method, gap=0.3, checkpoint=tmp_path / "run")
    again = mdp.solve(problem, method=method, gap=0.3, checkpoint=tmp_path / "run", resume=True)
    for result in (first, again):
        np.testing.assert_array_equal(result.mechanism.epsilons, problem.epsilons)
        assert result.mechanism.certificate.privacy.certified
    others = mdp.Problem(problem.records, epsilon=np.roll(problem.epsilons, 1), eta=4.0, outputs=8)
    with pytest.raises(mdp.InputError):  # the largest is the same, the records that have it are others
        mdp.solve(others, method=method, gap=0.3, checkpoint=tmp_path / "run", resume=True)


def test_regions_keep_them():
    records = mdp.data.road("gothenburg", n=150, seed=0)
    own = np.where(np.arange(150) % 5 == 0, 2.0, 4.0)
    problem = mdp.Problem(records, epsilon=own, eta=1.5, loss="distance")
    result = mdp.solve(problem, method="local", gap=0.3, options=LocalOptions(regions=2))
    np.testing.assert_array_equal(result.mechanism.epsilons, own)
    assert mdp.audit(result.mechanism, problem).holds


@pytest.mark.parametrize("merge_outputs", [False, True])
def test_parts_keep_them(made, merge_outputs, tmp_path):
    rows = np.arange(0, 24, 2)
    part = part_of(made, rows, merge_outputs=merge_outputs)
    np.testing.assert_array_equal(part.epsilons, made.epsilons[rows])
    part.save(tmp_path / "part.mdp")
    kept = mdp.load(tmp_path / "part.mdp")
    np.testing.assert_array_equal(kept.epsilons, made.epsilons[rows])
    assert kept.certificate.privacy.certified


def test_a_part_of_strict_records_has_their_epsilon_for_all(made):
    part = part_of(made, np.arange(0, 24, 3))
    assert (part.epsilon, part.epsilons) == (STRICT, None)
    assert part.certificate.privacy.certified


def test_an_audit_takes_a_column(run, made, problem, tmp_path):
    lines = [f"{name},{lat!r},{lon!r},{own}" for name, (lat, lon), own in rows_with_budgets(problem)]
    (tmp_path / "places.csv").write_text("id,lat,lon,budget\n" + "\n".join(lines) + "\n")
    (tmp_path / "rows.csv").write_text("\n".join(str(row) for row in made.outputs.rows) + "\n")
    loose = mdp.solve(problem.with_epsilon(LOOSE), gap=0.05, method="direct").mechanism
    np.save(tmp_path / "own.npy", made.to_numpy())
    np.save(tmp_path / "loose.npy", loose.to_numpy())
    described = ("--problem", "places.csv", "--eta", "4km", "--outputs", "rows.csv", "--json")
    code, out, err = run("audit", "own.npy", *described, "--epsilon", "budget")
    assert code == 0, err
    assert json.loads(out)["holds"]
    code, out, err = run("audit", "loose.npy", *described, "--epsilon", "budget")
    assert code == 1, err
    assert json.loads(out)["violated"] > 0
    assert run("audit", "loose.npy", *described, "--epsilon", 2)[0] == 0
    code, _, err = run("audit", "own.npy", *described, "--epsilon", "nothing")
    assert code == 2
    made.save(tmp_path / "own.mdp")
    assert run("audit", "own.npy", "--problem", "own.mdp")[0] == 0
    assert run("audit", "loose.npy", "--problem", "own.mdp")[0] == 1
    code, _, err = run("audit", "own.npy", "--problem", "own.mdp", "--epsilon", "budget")
    assert code == 2
    assert "--epsilon must be a number here" in err


def rows_with_budgets(problem):
    return zip(problem.records.ids, problem.records.coordinates.tolist(), problem.epsilons.tolist(), strict=True)
