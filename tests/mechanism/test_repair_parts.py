"""The steps of the repair, each against its formula in plain Python."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
from tests.conftest import small_problem

import metricdp as mdp
from metricdp.mechanism import check_privacy
from metricdp.mechanism import repair as repair_function
from metricdp.mechanism.repair import (
    _alternate,
    _best_closed,
    _close,
    _Closed,
    _closed_thinly_first,
    _column_order,
    _fallback_outputs,
    _floored,
    _keep,
    _mixing_cost,
    _normalised,
    _rungs,
    _score,
    _to_integers,
    _unfit,
    checked_matrix,
    private_matrix,
)
from metricdp.metric import MdpGraph

NEVER = {name: lambda: False for name in ("is_due", "is_over") if name in inspect.signature(_alternate).parameters}
TOTAL = 1 << 63
FLOOR = 2.0**-62


@pytest.fixture
def module():
    """The module, which the function of the same name hides."""
    import sys

    return sys.modules["metricdp.mechanism.repair"]


def graph_of(n, *edges):
    pairs = np.array([edge[:2] for edge in edges], dtype=np.int32).reshape(-1, 2)
    return MdpGraph(n, pairs, np.array([edge[2] for edge in edges], dtype=float))


TWO = graph_of(2, (0, 1, 1.0))
# a chain, a pair, and one record alone
THREE_PARTS = graph_of(6, (0, 1, 0.5), (1, 2, 2.0), (3, 4, 1.0))


def test_a_matrix_is_copied_and_its_first_fault_named():
    given = np.array([[1.0, 0.0], [2.0, 3.0]])
    made = checked_matrix(given, 2)
    made[0, 0] = 9.0
    assert given[0, 0] == 1.0
    assert checked_matrix(np.asfortranarray(given), 2).flags.c_contiguous
    given[1] = [-1.0, math.inf]
    with pytest.raises(mdp.InputError, match=r"got -1.0 for record 1 and output 0 \(2 such entries\)"):
        checked_matrix(given, 2)
    for wrong in (np.ones((3, 2)), np.ones((2, 0)), np.ones(2), np.ones((2, 2, 2))):
        with pytest.raises(mdp.InputError, match="each of the 2 records, got shape"):
            checked_matrix(wrong, 2)


def test_rows_are_scaled_to_one():
    Z = np.array([[1.0, 3.0, 0.0], [1e308, 1e308, 1e308], [1e-320, 0.0, 1e-320], [0.0, 0.0, 0.0]])
    made = _normalised(Z.copy(), None)
    third = 1 / 3
    assert made == pytest.approx(np.array([[0.25, 0.75, 0], [third] * 3, [0.5, 0, 0.5], [1, 0, 0]]), rel=1e-12)
    costs = np.array([[9.0, 9, 0], [9, 9, 0], [9, 9, 0], [3, 1, 2]])
    assert _normalised(Z.copy(), costs)[3].tolist() == [0.0, 1.0, 0.0]
    assert _normalised(Z.copy(), costs)[0].tolist() == [0.25, 0.75, 0.0]


def test_only_records_with_neighbours_are_raised_to_the_floor():
    made = _floored(np.array([[0.0, 1.0]] * 6), THREE_PARTS)
    assert made.tolist() == [[FLOOR, 1.0]] * 5 + [[0.0, 1.0]]


def plain_keep(sums, graph, epsilon):
    """1 / max of the row sums and of s_j + (s_j - s_i) / (exp(epsilon d) - 1) over the pairs, in each component."""
    need = {label: max(sums[graph.labels == label]) for label in graph.labels}
    for (i, j), d in zip(graph.pairs, graph.distances, strict=True):
        if d > 0 and sums[i] != sums[j]:
            own = max(sums[i], sums[j]) + abs(sums[i] - sums[j]) / math.expm1(min(epsilon * d, 600.0))
            need[graph.labels[i]] = max(need[graph.labels[i]], own)
    return [1.0 / need[label] for label in graph.labels]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0, 1e4])
def test_what_may_be_kept_follows_the_formula(epsilon):
    generator = np.random.default_rng(0)
    for graph in (TWO, THREE_PARTS, graph_of(3, (0, 1, 0.0), (1, 2, 1.0)), graph_of(2)):
        for _ in range(5):
            sums = generator.uniform(0.2, 3.0, graph.n)
            assert _keep(sums, graph, epsilon) == pytest.approx(plain_keep(sums, graph, epsilon), rel=1e-13)
    assert _keep(np.array([0.25, 0.5]), graph_of(2), 1.0).tolist() == [4.0, 2.0]
    assert _keep(np.array([1.0, 2.0]), TWO, math.log(2.0)) == pytest.approx([1 / 3, 1 / 3], rel=1e-14)


@pytest.mark.parametrize("held_back", [0.0, 0.25])
def test_closing_holds_back_a_share_of_the_budget(held_back):
    Z = np.array([[0.9, 0.1], [0.1, 0.9]])
    closed = _close(Z, TWO, 1.0, held_back=held_back)
    smaller = 0.9 * math.exp(-(1.0 - held_back))
    assert pytest.approx(np.array([[0.9, smaller], [smaller, 0.9]]), rel=1e-11) == closed.H
    assert (closed.H[::-1] >= closed.H * math.exp(-(1.0 - held_back)) * (1.0 + 2.0**-41)).all()  # with room
    assert closed.sums == pytest.approx([0.9 + smaller] * 2, rel=1e-11)
    assert closed.keep == pytest.approx([1.0 / (0.9 + smaller)] * 2, rel=1e-11)
    assert closed.mixed == pytest.approx(0.0, abs=1e-15)


def test_what_may_be_kept_counts_at_the_whole_budget():
    """Held back is for closing only: a Z that is far from equal sums keeps the share of the full epsilon."""
    Z = np.array([[1.0, 1.0], [0.1, 0.1]])
    closed = _close(Z, TWO, 1.0, held_back=0.5)
    assert closed.keep == pytest.approx(plain_keep(closed.sums, TWO, 1.0), rel=1e-13)


def test_the_mixed_share_is_the_largest():
    sums, keep = np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.125, 0.25])
    assert _Closed(np.ones((3, 1)), sums, keep).mixed == 0.75


def closed_example(generator, graph, K=3):
    H = generator.uniform(0.1, 1.0, (graph.n, K))
    sums = H.sum(axis=1)
    return _Closed(H, sums, np.array(plain_keep(sums, graph, 1.0)))


def test_what_is_left_goes_to_the_best_output_of_each_component():
    H = np.array([[0.1, 0.2, 0.7], [0.2, 0.7, 0.1], [0.3, 0.6, 0.1], [0.1, 0.1, 0.8], [0.5, 0.4, 0.1], [0.2, 0.5, 0.3]])
    assert _fallback_outputs(H, THREE_PARTS, None).tolist() == [1, 1, 1, 2, 2, 1]
    costs = np.array([[1.0, 5, 3], [5, 0, 3], [2, 5, 3], [0, 1, 9], [9, 1, 0], [0, 9, 9]])
    assert _fallback_outputs(H, THREE_PARTS, costs).tolist() == [0, 0, 0, 1, 1, 1]  # who is alone: where most of it is
    assert _fallback_outputs(H, THREE_PARTS, 1e-20 * costs).tolist() == [0, 0, 0, 1, 1, 1]


def test_the_score_is_the_loss_after_mixing():
    generator = np.random.default_rng(1)
    closed, costs = closed_example(generator, THREE_PARTS), generator.uniform(0.0, 1.0, (6, 3))
    outputs = _fallback_outputs(closed.H, THREE_PARTS, costs)
    mixed = closed.H * closed.keep[:, None]
    mixed[np.arange(6), outputs] += 1.0 - mixed.sum(axis=1)
    score = float((costs * mixed).sum())
    assert _score(closed, THREE_PARTS, costs) == pytest.approx(score, rel=1e-13)
    assert _score(closed, THREE_PARTS, None) == closed.mixed
    scaled = float((costs * closed.H / closed.sums[:, None]).sum())
    assert _mixing_cost(closed, THREE_PARTS, costs) == pytest.approx((score - scaled) / score, rel=1e-12)
    assert _mixing_cost(closed, THREE_PARTS, 1e-3 * costs) == pytest.approx((score - scaled) / score, rel=1e-12)
    assert _mixing_cost(closed, THREE_PARTS, None) == closed.mixed
    assert _mixing_cost(closed, THREE_PARTS, np.zeros((6, 3))) == 0.0


def test_mass_beyond_the_whole_is_not_given_back():
    """Rounding can make a kept row a little more than 1; nothing negative is mixed in then."""
    closed = _Closed(np.array([[0.5, 0.5]]), np.array([1.0]), np.array([1.5]))
    assert _score(closed, graph_of(1), np.array([[1.0, 2.0]])) == 2.25


def test_the_ladder_goes_down_to_nothing_held_back():
    rungs = _rungs(0.0)
    assert rungs == [h for h in (0.002, 0.001, 0.0005, 0.0002, 0.0001, 0.00005, 0.00002, 0.0) for _ in range(4)]


@pytest.mark.parametrize(("tolerance", "first"), [(1e-4, 4e-4), (1e-3, 0.002), (1.0, 0.002)])
def test_a_tolerance_makes_the_ladder_short(tolerance, first):
    """It begins at four times the tolerance, and twice at half of what it did not reach."""
    parts = [1.0, 1.0, 1.0, 1.0, 0.5, 0.25, 0.1, 0.0]
    assert _rungs(tolerance) == pytest.approx([first * f * part for f in (1.0, 0.5, 0.25) for part in parts], rel=1e-14)


def test_outputs_that_are_alike_come_together(module, monkeypatch):
    generator = np.random.default_rng(2)
    base = generator.uniform(0.0, 1.0, (40, 3))
    Z = np.column_stack([base, base + 1e-6])[:, [0, 1, 2, 4, 5, 3]]
    order = _column_order(Z).tolist()
    assert sorted(order) == list(range(6))
    kinds = [[0, 1, 2, 1, 2, 0][k] for k in order]
    assert kinds[::2] == kinds[1::2]
    # few or too many outputs stay as they are
    assert _column_order(Z[:, :2]).tolist() == [0, 1]
    assert sorted(_column_order(Z[:, :3]).tolist()) == [0, 1, 2]
    monkeypatch.setattr(module, "SORT_OUTPUTS_UP_TO", 6)
    assert _column_order(Z).tolist() == order
    monkeypatch.setattr(module, "SORT_OUTPUTS_UP_TO", 5)
    assert _column_order(Z).tolist() == list(range(6))


def apart(order, a, b):
    return abs(order.index(a) - order.index(b))


def test_outputs_are_compared_on_sums_of_records(module, monkeypatch):
    """Every record counts, in groups of neighbouring rows: 0 and 1 have the same sums of two, and 0 and 2 hardly."""
    generator = np.random.default_rng(5)
    first = generator.uniform(0.2, 1.0, 8)
    swapped = first.reshape(4, 2)[:, ::-1].ravel()
    other = generator.uniform(2.0, 3.0, 8)
    Z = np.column_stack([first, other, swapped, first + 0.01])
    for sampled, near in ((4, 2), (5, 3), (8, 3), (100, 3)):  # 8 // 5 = 1: one by one
        monkeypatch.setattr(module, "SAMPLED_RECORDS", sampled)
        assert apart(_column_order(Z).tolist(), 0, near) == 1
        others = Z[:, [0, 5 - near, near]]
        assert apart(_column_order(others).tolist(), 0, 2) == 1
    # the first record counts as well
    Z = np.column_stack([first, first, first + 0.01])
    Z[0, 1] += 5.0
    assert apart(_column_order(Z).tolist(), 0, 2) == 1


@pytest.mark.parametrize(
    ("sampled", "compared", "groups"),
    [(3, 10**6, [0, 3, 6, 9]), (100, 10**6, list(range(10))), (100, 40, [0, 5]), (1, 40, [0])],
)
def test_how_many_records_outputs_are_compared_on(module, monkeypatch, sampled, compared, groups):
    """At most SAMPLED groups of records, and pairs of outputs times groups at most MOST_COMPARED: 40 / 4^2 is 2."""
    monkeypatch.setattr(module, "SAMPLED_RECORDS", sampled)
    monkeypatch.setattr(module, "MAX_COMPARED", compared)
    seen, real = [], module.pdist
    monkeypatch.setattr(module, "pdist", lambda rows: (seen.append(rows), real(rows))[1])
    Z = np.random.default_rng(3).uniform(0.0, 1.0, (10, 4))
    assert sorted(_column_order(Z).tolist()) == [0, 1, 2, 3]
    sums = [Z[begin:end].sum(axis=0) for begin, end in zip(groups, [*groups[1:], 10], strict=True)]
    assert seen[0] == pytest.approx(np.sqrt(sums).T, rel=1e-12)
    _column_order(Z[:, :2])
    assert len(seen) == 1  # there is nothing to bring together


class Script:
    """Stands for `_close`: gives matrices with the mixed shares of a list, and notes what it was asked."""

    def __init__(self, *mixed):
        self.mixed, self.asked, self.given = list(mixed), [], []

    def __call__(self, Z, graph, epsilon, *, held_back=0.0, **_):
        self.asked.append(held_back)
        self.given.append(Z.copy())
        share = self.mixed[min(len(self.asked), len(self.mixed)) - 1]
        H = np.array([[1.0, 3.0], [2.0, 6.0]]) * 2.0 ** len(self.asked)  # the n-th begins with 2^n
        sums = H.sum(axis=1)
        return _Closed(H, sums, (1.0 - share) / sums)


NOTHING = _Closed(np.zeros((0, 0)), np.zeros(0), np.zeros(0))
START = _Closed(np.full((2, 2), 0.5), np.ones(2), np.full(2, 0.5))  # half of it mixed
RUNGS = [h for h in (0.002, 0.001, 0.0005, 0.0002, 0.0001, 0.00005, 0.00002, 0.0) for _ in range(4)]


def alternate(script, *, best=START, tolerance=0.0, costs=None, **more):
    return _alternate(START.H, best, TWO, 1.0, costs=costs, tolerance=tolerance, **{**NEVER, **more})


def test_alternating_goes_down_the_whole_ladder_and_keeps_the_best(module, monkeypatch):
    script = Script(0.7, 0.4, 0.3, 0.4, 0.6)
    monkeypatch.setattr(module, "_close", script)
    best = alternate(script)
    assert script.asked == RUNGS
    assert best.H[0, 0] == 2.0**3
    assert script.given[0].tolist() == START.H.tolist()
    assert script.given[1].tolist() == [[0.25, 0.75]] * 2  # each normalised before the next
    monkeypatch.setattr(module, "_close", Script(0.5))
    assert alternate(None) is START  # not better than what was there
    script = Script(0.9)
    monkeypatch.setattr(module, "_close", script)
    assert alternate(script, best=NOTHING).H[0, 0] == 2.0
    assert alternate(script, best=NOTHING, skip=3).H[0, 0] == 2.0**33
    assert len(script.asked) == 32 + 29


def test_a_rung_that_did_well_is_left_at_once(module, monkeypatch):
    """Mixed mass of at most 1e-8 is not worth another round at the same share; smaller shares are still tried."""
    for mixed, asked in ((0.9e-8, RUNGS[:2] + RUNGS[4:]), (1.1e-8, RUNGS)):
        script = Script(0.5, mixed, 0.5)
        monkeypatch.setattr(module, "_close", script)
        assert alternate(script).H[0, 0] == 2.0**2
        assert script.asked == asked
    monkeypatch.setattr(module, "NEGLIGIBLE_MIXED_SHARE", 0.25)
    script = Script(0.5, 0.25, 0.5)
    monkeypatch.setattr(module, "_close", script)
    alternate(script)
    assert script.asked == RUNGS[:2] + RUNGS[4:]


def test_alternating_ends_within_the_tolerance(module, monkeypatch):
    script = Script(0.75, 0.25, 0.1251, 0.125, 0.0)
    monkeypatch.setattr(module, "_close", script)
    assert alternate(script, tolerance=0.125).H[0, 0] == 2.0**4
    assert len(script.asked) == 4
    # with losses it is a share of these, and where all outputs cost the same mixing costs nothing
    script = Script(0.75)
    monkeypatch.setattr(module, "_close", script)
    alternate(script, tolerance=0.125, costs=np.ones((2, 2)))
    assert len(script.asked) == 1
    alternate(script, costs=np.ones((2, 2)))  # without a tolerance it goes on all the same
    assert len(script.asked) == 1 + 32


def test_alternating_ends_when_time_is_up(module, monkeypatch):
    for rounds in (0, 1, 2):
        script = Script(0.7, 0.3, 0.2)
        monkeypatch.setattr(module, "_close", script)
        best = alternate(script, is_due=lambda s=script, r=rounds: len(s.asked) >= r)
        assert len(script.asked) == rounds
        assert best is START if rounds < 2 else best.H[0, 0] == 2.0**2
    # where there is nothing yet, one closure must be made
    script = Script(0.7, 0.3, 0.2)
    monkeypatch.setattr(module, "_close", script)
    assert alternate(script, best=NOTHING, is_due=lambda: True).H[0, 0] == 2.0
    assert len(script.asked) == 1


@pytest.mark.parametrize(
    ("mixed", "tolerance", "is_polished"),
    [(0.9e-8, 0.0, False), (1.1e-8, 0.0, True), (0.25, 0.0, True), (0.25, 0.25, False), (0.26, 0.25, True)],
)
def test_polishing_only_where_something_is_to_be_gained(module, monkeypatch, mixed, tolerance, is_polished):
    monkeypatch.setattr(module, "_close", Script(mixed))
    calls = []
    monkeypatch.setattr(module, "_alternate", lambda Z, best, *_, **more: (calls.append(more), best)[1])
    Z = np.full((2, 2), 0.5)
    _best_closed(Z, TWO, 1.0, costs=None, tolerance=tolerance, **NEVER)
    assert bool(calls) == is_polished
    monkeypatch.setattr(module, "NEGLIGIBLE_MIXED_SHARE", 0.25)
    calls.clear()
    _best_closed(Z, TWO, 1.0, costs=None, tolerance=0.0, **NEVER)
    assert bool(calls) == (mixed > 0.25)
    monkeypatch.setattr(module, "NEGLIGIBLE_MIXED_SHARE", 0.0)
    calls.clear()
    # without a tolerance, also where mixing costs nothing
    _best_closed(Z, TWO, 1.0, costs=np.ones((2, 2)), tolerance=0.0, **NEVER)
    assert calls
    calls.clear()
    _best_closed(Z, graph_of(2), 1.0, costs=None, tolerance=tolerance, **NEVER)
    assert not calls


@pytest.mark.parametrize(
    ("large", "tolerance", "is_near", "is_thin"),
    [
        (1, 0.1, False, True),
        (2, 0.1, False, False),
        (1, 0.0, False, False),
        (1, 0.1, True, False),
        (1, 1.1, False, True),
    ],
)
def test_a_thin_graph_comes_first_where_there_is_much_to_do(module, monkeypatch, large, tolerance, is_near, is_thin):
    """From more than LARGE pairs times outputs on, where a tolerance allows it and the matrix is not private yet."""
    monkeypatch.setattr(module, "THIN_GRAPH_FROM", large)
    calls = []
    monkeypatch.setattr(module, "_closed_thinly_first", lambda *_, **__: calls.append("thin"))
    Z = np.array([[0.9, 0.1], [0.1, 0.9]])
    _best_closed(Z, TWO, 1.0, costs=None, tolerance=tolerance, is_near=is_near, **NEVER)
    assert bool(calls) == is_thin
    calls.clear()
    monkeypatch.setattr(module, "THIN_GRAPH_FROM", 2)
    _best_closed(np.ones((2, 3)), TWO, 1.0, costs=None, tolerance=0.1, **NEVER)
    assert calls


def test_by_default_there_is_no_tolerance_and_no_haste(module, monkeypatch):
    asked = []
    closed = _close(np.full((2, 2), 0.5), TWO, 1.0)
    monkeypatch.setattr(module, "_best_closed", lambda *_, **more: (asked.append(more), closed)[1])
    repair_function(np.ones((2, 2)), TWO, 1.0)
    private_matrix(np.ones((2, 2)), TWO, 1.0, costs=np.ones((2, 2)))
    assert [more["tolerance"] for more in asked] == [0.0, 0.0]
    assert [more["is_due"]() for more in asked] == [False, False]
    assert not asked[0]["is_near"]


def thin_example():
    """A matrix that is private but for a thousandth."""
    problem = small_problem("gaussian", seed=3, n=40, outputs=9)
    noise = np.random.default_rng(0).standard_normal((40, 9))
    return problem, mdp.exponential(problem).probabilities * (1.0 + 1e-3 * noise)


def test_the_thin_graph_gives_columns_back_in_their_order():
    problem, Z = thin_example()
    tolerance = 1e-3
    thinly = _closed_thinly_first(Z, problem.graph, problem.epsilon, costs=problem.costs, tolerance=tolerance, **NEVER)
    plainly = _best_closed(Z, problem.graph, problem.epsilon, costs=problem.costs, tolerance=tolerance, **NEVER)
    assert thinly.H.flags.c_contiguous
    assert thinly.H.sum(axis=1) == pytest.approx(thinly.sums, rel=1e-12)
    scores = [_score(closed, problem.graph, problem.costs) for closed in (thinly, plainly)]
    assert scores[0] == pytest.approx(scores[1], rel=2e-3)
    assert np.abs(thinly.H / thinly.sums[:, None] - plainly.H / plainly.sums[:, None]).max() < 2e-3
    assert _mixing_cost(thinly, problem.graph, problem.costs) <= tolerance
    table = _to_integers(thinly, _fallback_outputs(thinly.H, problem.graph, None), problem.graph, problem.epsilon)
    assert check_privacy(table, problem.graph.pairs, problem.graph.distances, problem.epsilon).certified


@pytest.mark.parametrize(("tolerance", "stretch"), [(1e-4, 1e-3), (1e-3, 0.01), (0.5, 0.01)])
def test_the_detours_of_the_thin_graph_are_held_back_too(module, monkeypatch, tolerance, stretch):
    problem, Z = thin_example()
    asked, budgets, ended = [], [], []
    real_edges, real_closure = module.thin_edges, MdpGraph.closure

    def edges(graph, by, **_):
        asked.append(by)
        return real_edges(graph, by)

    def closure(self, values, epsilon, **more):
        budgets.append((self.n_pairs, epsilon, more["slack"]))
        return real_closure(self, values, epsilon, **more)

    def alternate_noted(Z, best, graph, epsilon, **more):
        ended.append((Z.sum(axis=1), len(best.H), more["skip"], more["tolerance"], more["costs"].shape))
        return _close(Z, graph, epsilon)

    monkeypatch.setattr(module, "thin_edges", edges)
    monkeypatch.setattr(MdpGraph, "closure", closure)
    monkeypatch.setattr(module, "_alternate", alternate_noted)
    more = {"costs": problem.costs, "tolerance": tolerance}
    _closed_thinly_first(Z, problem.graph, problem.epsilon, **NEVER, **more)
    assert asked == pytest.approx([stretch], rel=1e-14)
    thin = budgets[:-1]
    assert len(thin) == 6
    assert {n for n, _, _ in thin} == {len(real_edges(problem.graph, stretch))}
    share = (1.0 - min(0.002, 4.0 * tolerance)) / (1.0 + stretch)
    assert [e for _, e, _ in thin] == pytest.approx([problem.epsilon * share] * 6, rel=1e-14)
    assert {slack for _, _, slack in budgets} == {2.0**-40}
    sums, n_best, skip, asked_tolerance, shape = ended[0]
    assert sums == pytest.approx(np.ones(40), rel=1e-12)
    assert (n_best, skip, asked_tolerance, shape) == (0, 3, tolerance, (40, 9))
    # no time: the thin rounds are left out
    budgets.clear()
    _closed_thinly_first(Z, problem.graph, problem.epsilon, **{**NEVER, **more, "is_due": lambda: True})
    assert len(budgets) == 1
    budgets.clear()
    left = [False, False, True]
    _closed_thinly_first(Z, problem.graph, problem.epsilon, **{**NEVER, **more, "is_due": lambda: left.pop(0)})
    assert len(budgets) == 3


def test_the_columns_of_the_losses_go_with_those_of_the_matrix(module, monkeypatch):
    problem, Z = thin_example()
    seen = []

    def unchanged(Z, *_, costs, **__):
        seen.append((Z, costs))
        return _Closed(Z, Z.sum(axis=1), np.ones(len(Z)))

    monkeypatch.setattr(module, "_alternate", unchanged)
    monkeypatch.setattr(module, "THIN_ROUNDS", 0)
    more = {"tolerance": 0.1, **NEVER}
    order = _column_order(Z)
    assert not np.array_equal(order, np.arange(9))
    result = _closed_thinly_first(Z, problem.graph, problem.epsilon, costs=problem.costs, **more)
    assert np.array_equal(seen[0][0], Z[:, order])
    assert np.array_equal(seen[0][1], problem.costs[:, order])
    assert np.array_equal(result.H, Z)
    _closed_thinly_first(Z, problem.graph, problem.epsilon, costs=None, **more)
    assert seen[1][1] is None


def integers(H, keep, graph, epsilon, outputs):
    H = np.array(H, dtype=float)
    closed = _Closed(H, H.sum(axis=1), np.array(keep, dtype=float))
    return _to_integers(closed, np.array(outputs), graph, epsilon).tolist()


def test_integers_of_a_record_alone_are_exact():
    assert integers([[0.25, 0.75, 0.0]], [1.0], graph_of(1), 1.0, [2]) == [[TOTAL // 4, 3 * (TOTAL // 4), 0]]
    # half is kept, and half goes to the given output
    assert integers([[0.25, 0.75, 0.0]], [0.5], graph_of(1), 1.0, [2]) == [[TOTAL // 8, 3 * (TOTAL // 8), TOTAL // 2]]
    third = integers([[1.0, 1.0, 1.0]], [1 / 3], graph_of(1), 1.0, [1])[0]
    assert third[0] == third[2] == math.floor((1 / 3) * 2.0**63)
    assert sum(third) == TOTAL


def test_integers_keep_a_little_back_for_rows_with_neighbours():
    """2^-36 of the mass, which goes to one output so that rows sum to 2^63 again."""
    reserve = TOTAL >> 36
    rows = integers([[0.5, 0.5], [0.5, 0.5]], [1.0, 1.0], TWO, 1.0, [1, 1])
    half = (TOTAL - reserve) // 2
    assert rows == [[half, half + reserve]] * 2
    parts = integers([[0.5, 0.5]] * 6, [1.0] * 6, THREE_PARTS, 1.0, [0, 0, 0, 1, 1, 1])
    assert parts == [[half + reserve, half]] * 3 + [[half, half + reserve]] * 2 + [[TOTAL // 2, TOTAL // 2]]


def test_entries_above_zero_stay_above_zero():
    rows = integers([[1.0, 2.0**-70], [1.0, 2.0**-70]], [1.0, 1.0], TWO, 1.0, [0, 0])
    assert rows == [[TOTAL - 1, 1]] * 2
    assert integers([[1.0, 2.0**-70, 0.0]], [1.0 - 2.0**-50], graph_of(1), 1.0, [0]) == [[TOTAL - 1, 1, 0]]
    # others are rounded down
    assert integers([[1.0 - 2.0**-50, 2.75 * 2.0**-63]], [1.0], graph_of(1), 1.0, [0]) == [[TOTAL - 2, 2]]


def test_one_too_many_is_too_many():
    """2^63 and 1 do not fit: a little is held back, and goes where it is said."""
    reserve = TOTAL >> 36
    assert integers([[1.0, 2.0**-70, 0.0]], [1.0], graph_of(1), 1.0, [2]) == [[TOTAL - reserve, 1, reserve - 1]]


def test_the_reserve_of_a_component_grows_until_what_is_left_is_private():
    """Row sums 1 and 1 - 2^-30 at epsilon d = log 2: the left-over of one may be at most twice that of the other."""
    H = [[0.5, 0.5], [0.5, 0.5 - 2.0**-30]] + [[0.5, 0.5]] * 2
    graph = graph_of(4, (0, 1, 1.0), (2, 3, 1.0))
    rows = integers(H, [1.0] * 4, graph, math.log(2.0), [0, 0, 0, 0])
    table = np.array(rows, dtype=np.uint64)
    assert check_privacy(table, graph.pairs, graph.distances, math.log(2.0)).certified
    # 2^-36 doubles until r / (r + 2^-30) >= 1/2: at 2^-29, as the float for log 2 is a little less than it
    assert rows[0][1] == round(0.5 * TOTAL * (1.0 - 2.0**-29))
    assert rows[2][1] == (TOTAL - (TOTAL >> 36)) // 2


def test_rows_that_cannot_be_made_private_are_refused():
    """Twice the mass in one row: with half of it held back one has nothing left over and the other half."""
    with pytest.raises(mdp.CertificationError, match="every share was tried"):
        integers([[1.9, 0.09], [0.95, 0.05]], [1.0, 1.0], TWO, 0.7, [0, 0])
    one_more = graph_of(3, (0, 1, 1.0))
    with pytest.raises(mdp.CertificationError, match="every share was tried"):
        integers([[1.9, 0.09], [0.95, 0.05], [0.5, 0.5]], [1.0] * 3, one_more, 0.7, [0, 0, 0])


def test_half_of_the_mass_may_be_held_back():
    rows = integers([[0.75, 0.75]], [1.0], graph_of(1), 1.0, [0])
    assert rows == [[5 * (TOTAL >> 3), 3 * (TOTAL >> 3)]]


def test_what_is_left_over_must_be_private_too():
    """At epsilon d = log 2 one may be at most twice the other; at 2^-45, far less than the room, equal floats do."""
    pairs = np.array([[0, 1], [2, 1]], dtype=np.int32)
    for left, unfit in (
        ([10, 20, 10], []),
        ([10, 21, 11], [0]),
        ([11, 10, 21], [2]),
        ([1, 0, 0], [0]),
        ([5, 5, 5], []),
    ):
        assert _unfit(np.array(left), pairs, np.full(2, math.log(2.0) + 1e-9), 1.0).tolist() == unfit
    for more, unfit in ((1, []), (10**6, [0])):
        assert _unfit(np.array([2**60, 2**60 + more]), TWO.pairs, np.array([2.0**-45]), 1.0).tolist() == unfit


def test_a_private_matrix_sums_to_one_and_is_private():
    problem = small_problem("gaussian", seed=3, n=20, outputs=5)
    Z = np.random.default_rng(0).dirichlet(np.full(5, 0.3), size=20)
    matrix = private_matrix(Z, problem.graph, problem.epsilon, costs=problem.costs)
    assert matrix.sum(axis=1) == pytest.approx(np.ones(20), rel=1e-12)
    i, j = problem.graph.pairs.T
    growth = np.exp(problem.epsilon * problem.graph.distances)[:, None] * (1.0 + 1e-9)
    assert (matrix[i] <= growth * matrix[j]).all()
    assert (matrix[j] <= growth * matrix[i]).all()
    table = repair_function(matrix, problem.graph, problem.epsilon, costs=problem.costs, is_near=True)
    assert table / 2.0**63 == pytest.approx(matrix, abs=1e-9)


def test_a_private_matrix_takes_nothing_back_from_a_row_that_is_full(module, monkeypatch):
    closed = _Closed(np.array([[0.6, 0.6], [0.25, 0.25]]), np.array([1.2, 0.5]), np.ones(2))
    monkeypatch.setattr(module, "_best_closed", lambda *_, **__: closed)
    made = private_matrix(np.ones((2, 2)), graph_of(2), 1.0, costs=np.array([[1.0, 2.0], [2.0, 1.0]]))
    assert made.tolist() == [[0.6, 0.6], [0.75, 0.25]]
