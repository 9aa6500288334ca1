"""The promise for points in small cases whose numbers are known: sentences, limits, blocks and who is the worst."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import metricdp as mdp
from metricdp.mechanism import points
from metricdp.mechanism.guarantee import Guarantee
from metricdp.mechanism.points import PointGuarantee, Reach
from metricdp.metric import CoordinateMetric, MdpGraph, cells


def promise(places, *, eta, limit, epsilon=1.0, metric="euclidean"):
    """The promise for points around records on a line or in the plane; no table is needed for it."""
    records = mdp.Records(np.array(places, dtype=float), kind="vectors")
    graph = MdpGraph.of(records, CoordinateMetric(metric), eta)
    return Guarantee(epsilon, eta, metric, records, graph).for_points(limit)


def ring(n, steps):
    """Records on a circle at distance 1 of the next, each a neighbour of so many on both sides; the eta of that."""
    angle = 2.0 * np.pi * np.arange(n) / n
    radius = 0.5 / math.sin(math.pi / n)
    chord = [2.0 * radius * math.sin(math.pi * step / n) for step in (steps, steps + 1)]
    # in space, where cells are known by their limit only
    return radius * np.column_stack((np.cos(angle), np.sin(angle), np.zeros(n))), sum(chord) / 2.0


# a line of four with a gap of 3 after the second: eta 3 makes neighbours of the two sides
LINE = [[0.0], [1.0], [4.0], [5.0]]


class TestTheBound:
    def test_is_epsilon_times_the_path_rounded_up_by_a_billionth(self):
        found = promise([[0.0], [1.0]], eta=1.0, limit=0.6, epsilon=2.0)
        above = Fraction(found.bound(0.0)) / 2 - 1
        assert abs(above * 10**9 - 1) < Fraction(1, 10**5)

    def test_the_reach_names_the_records_that_are_farthest_apart(self):
        found = promise(LINE, eta=3.0, limit=1.6)
        assert found.reach(0.0) == Reach(3.0, *sorted((found.reach(0.0).i, found.reach(0.0).j)))
        assert {found.reach(0.0).i, found.reach(0.0).j} == {1, 2}

    def test_records_that_are_no_neighbours_are_as_far_as_the_path(self):
        """Cells of radius 1.6 around 0 and 2 meet, though only 0, 1 and 2 one after the other are neighbours."""
        found = promise([[0.0], [1.0], [2.0]], eta=1.0, limit=1.6)
        assert (found.reach(0.0).distance, {found.reach(0.0).i, found.reach(0.0).j}) == (2.0, {0, 2})

    def test_cells_that_do_not_meet_count_from_the_distance_between_them(self):
        """Cells of radius 0.4 around records at distance 1: nothing below 0.2, each neighbour from there on."""
        found = promise([[0.0], [1.0], [2.0]], eta=1.0, limit=0.4)
        assert found.reach(0.0) == Reach(0.0)
        assert (found.reach(0.0).i, found.reach(0.0).j, found.bound(0.0)) == (-1, -1, 0.0)
        assert found.bound(0.19) == 0.0
        assert found.bound(0.21) == pytest.approx(1.0)
        assert found.bound(1.19) == pytest.approx(1.0)
        assert found.bound(1.21) == pytest.approx(2.0)

    def test_across_groups_the_two_records_are_named(self):
        found = promise([[0.0], [1.0], [9.0], [10.0]], eta=1.0, limit=0.6)
        assert found.bound(1.0) == pytest.approx(1.0)
        worst = found.reach(7.0)
        assert (worst.distance, {worst.i, worst.j}) == (math.inf, {1, 2})
        assert found.bound(6.7) < math.inf

    def test_each_distance_is_looked_at_once(self):
        found = promise(LINE, eta=3.0, limit=1.6)
        assert found.reach(0.5) is found.reach(0.5)

    @pytest.mark.parametrize("r", [-1e-300, -1.0, math.nan, math.inf])
    def test_no_distance(self, r):
        with pytest.raises(mdp.InputError, match="a distance must be a number, zero or more, got"):
            promise(LINE, eta=3.0, limit=1.0).reach(r)

    def test_neighbours_at_exactly_eta_are_measured_along_paths_and_the_same(self):
        """Distances that rounding could have put beyond eta are not trusted to be edges: the path is as long."""
        found = promise([[0.0], [1.0], [2.0]], eta=2.0, limit=1.2)
        assert found.reach(0.0).distance == 2.0

    def test_the_farthest_neighbours_are_named_with_their_own_distance(self):
        found = promise([[0.0], [1.0], [2.5], [4.5], [7.0]], eta=99.0, limit=9.0)
        assert (found.reach(0.0).distance, {found.reach(0.0).i, found.reach(0.0).j}) == (7.0, {0, 4})
        assert promise([[0.0], [1.0]], eta=99.0, limit=9.0).reach(0.0).distance == 1.0

    @pytest.mark.parametrize("at_once", [1, 2, 5, 2048])
    def test_a_long_way_round_is_not_forgotten_for_a_shorter_edge(self, monkeypatch, at_once):
        """Three sides of a square: the ends are 2 apart and 6 along the path, whichever records are looked at first."""
        monkeypatch.setattr(cells, "RECORDS_AT_ONCE", at_once)
        side = [[0, 0], [1, 0], [2, 0], [2, 1], [2, 2], [1, 2], [0, 2]]
        for order in (range(7), range(6, -1, -1), (3, 6, 0, 5, 1, 4, 2)):
            found = promise([side[place] for place in order], eta=1.05, limit=1.2)
            worst = found.reach(0.0)
            assert worst.distance == pytest.approx(6.0, rel=1e-12)
            assert {order[worst.i], order[worst.j]} == {0, 6}

    def test_a_hair_beyond_eta_is_no_edge(self):
        """Four records around a hole: two of them are a hair farther apart than eta, and 2.8 along the path."""
        found = promise([[0.0, 0.0], [0.9, 0.0], [0.9, 1.0], [0.0, 1.0 + 5e-10]], eta=1.0, limit=0.8)
        assert found.graph.n_pairs == 3
        assert found.reach(0.0).distance == pytest.approx(2.8, rel=1e-9)

    def test_cells_with_others_between_them_do_not_count(self):
        """Three rows joined at alternate ends: the first and the third are farthest, and the second is between them."""
        rows = [[[x, y] for x in range(4)] for y in (0.0, 1.2, 2.4)]
        found = promise([*rows[0], [3.5, 0.6], *rows[1], [-0.5, 1.8], *rows[2]], eta=1.05, limit=1.3)
        bend = 2.0 * math.hypot(0.5, 0.6)
        assert found.reach(0.0).distance == pytest.approx(6.0 + bend, rel=1e-9)
        assert float(found.graph.path_distances(np.array([0])).max()) == pytest.approx(9.0 + 2.0 * bend)

    def test_across_groups_the_two_that_come_near_are_named(self):
        """Of two rows that face each other, each record meets the one across and no other."""
        found = promise([[x, y, 0.0] for x in (0.0, 5.0) for y in (0.0, 1.0, 2.0)], eta=1.0, limit=0.6)
        worst = found.reach(3.85)
        assert (worst.distance, abs(worst.i - worst.j)) == (math.inf, 3)
        assert found.reach(3.75).distance < math.inf

    @pytest.mark.parametrize("entries", [1, 3, 6, 8, 4_000_000])
    def test_paths_in_blocks_of_any_size(self, monkeypatch, entries):
        """Cells of records that are no neighbours meet, and the longest path begins at the first ones or the last."""
        monkeypatch.setattr(points, "PATHS_AT_ONCE", entries)
        line = [0.0, 1.0, 2.0, 3.0, 4.9, 5.9]
        for places in (line, [5.9 - x for x in line], [0.0, 1.9, 2.9, 3.9, 4.9, 5.9], [*line, 6.9, 7.9]):
            found = promise([[x] for x in places], eta=1.95, limit=1.46)
            # halfway between records that are up to 2.92 apart
            meet = [
                (abs(a - b), {i, j})
                for i, a in enumerate(places)
                for j, b in enumerate(places)
                if i < j and abs(a - b) <= 2.92
            ]
            longest = max(distance for distance, _ in meet)
            worst = found.reach(0.0)
            assert worst.distance == pytest.approx(longest, rel=1e-12)
            assert {worst.i, worst.j} in [pair for distance, pair in meet if distance > longest * (1 - 1e-9)]

    @pytest.mark.parametrize(
        ("entries", "blocks"), [(1, [1] * 6), (7, [1] * 6), (14, [2] * 3), (34, [4, 2]), (42, [6])]
    )
    def test_a_block_holds_as_many_paths_as_fit_and_those_of_one_record_at_least(self, monkeypatch, entries, blocks):
        monkeypatch.setattr(points, "PATHS_AT_ONCE", entries)
        original, asked = MdpGraph.path_distances, []
        note = lambda graph, sources: asked.append(len(sources)) or original(graph, sources)  # noqa: E731
        monkeypatch.setattr(MdpGraph, "path_distances", note)
        # on a line of seven every record but one has a cell that meets those of later ones that are no neighbours
        assert promise(np.arange(7)[:, None], eta=0.9, limit=9.0)._worst_paths(
            *np.triu_indices(7, k=1), 0.0, Reach(0.0)
        )
        assert asked == blocks

    @pytest.mark.parametrize("at_once", [1, 2048])
    def test_of_equal_ones_the_first_is_named(self, monkeypatch, at_once):
        monkeypatch.setattr(cells, "RECORDS_AT_ONCE", at_once)
        side = [[0, 0], [1, 0], [2, 0], [2, 1], [2, 2], [1, 2], [0, 2]]
        found = promise([*side, *([x + 64, y] for x, y in side)], eta=1.05, limit=1.2)
        assert {found.reach(0.0).i, found.reach(0.0).j} == {0, 6}
        found = promise([[0.0], [1.0], [64.0], [65.0]], eta=1.05, limit=0.6)
        assert {found.reach(0.0).i, found.reach(0.0).j} == {0, 1}

    def test_the_farthest_of_many_neighbours_whose_cells_meet(self):
        """More neighbours than are looked at in one go, and the farthest of them do not meet."""
        grid = [[x, y] for x in range(40) for y in range(40)]
        grid[0] = [-0.5, -0.5]
        found = promise(grid, eta=4.0, limit=1.0)
        assert found.reach(0.0).distance <= math.hypot(1.5, 1.5) + 1e-9
        assert found.reach(0.0).distance >= math.hypot(1.5, 0.5) - 1e-9
        assert 0 in (found.reach(0.0).i, found.reach(0.0).j)


class TestLimits:
    def test_any_positive_one(self):
        assert promise(LINE, eta=3.0, limit=5e-324).limit == 5e-324
        assert promise(LINE, eta=3.0, limit=math.inf).bound(0.0) == pytest.approx(5.0)

    @pytest.mark.parametrize("limit", [0.0, -1.0, math.nan])
    def test_others_are_refused(self, limit):
        with pytest.raises(mdp.InputError, match=r"must be positive, got .*: give the farthest distance"):
            promise(LINE, eta=3.0, limit=limit)

    def test_metrics_that_are_not_of_coordinates_are_refused_with_the_ways_out(self):
        whole = promise(LINE, eta=3.0, limit=1.0)
        with pytest.raises(
            mdp.InputError, match="'matrix': name records by their ids, or make a mechanism with one of .*haversine"
        ):
            PointGuarantee.of(whole.records, whole.graph, "matrix", epsilon=1.0, eta=3.0, limit=1.0)


class TestWhatIsSaid:
    def test_one_group(self):
        found = promise(LINE, eta=3.0, limit=1.6, epsilon=0.5)
        assert found.fault == ""
        assert found.check() is None
        assert found.sentence == (
            "Points within 1.6 of a record: of two points next to each other, whose records can be a path of 3 "
            "apart, any report is at most 4.48 times (exp(1.5)) more likely from one than from the other. For points "
            "within 1.6 of one another it is 7.39 times (exp(2))."
        )
        assert repr(found) == f"PointGuarantee(limit 1.6: {found.sentence!r})"

    def test_two_groups(self):
        found = promise([[0.0], [1.0], [9.0], [10.0]], eta=1.0, limit=0.6)
        assert not found.fault
        assert found.sentence.endswith(
            " Points in the areas of different groups of records (2) are not protected from one another."
        )
        assert "groups" not in promise(LINE, eta=3.0, limit=1.6).sentence

    def test_lone_records(self):
        found = promise([[0.0], [1.0], [9.0], [19.0]], eta=1.0, limit=0.6)
        assert found.fault == "2 of 4 records have no neighbour, so a report may reveal a point near one"
        assert found.sentence == f"Points within 0.6 of the records are NOT protected: {found.fault}."
        with pytest.raises(mdp.InputError, match="^points within 0.6 of the records are not protected: 2 of 4 records"):
            found.check()

    def test_groups_that_come_within_the_limit(self):
        """Cells that end at 0.6 leave 0.8 between them at 2: closer than a limit of 0.7 leaves."""
        assert not promise([[0.0], [1.0], [3.0], [4.0]], eta=1.0, limit=0.6).fault
        found = promise([[0.0], [1.0], [3.0], [4.0]], eta=1.0, limit=0.7)
        assert found.fault.startswith("points within 0.7 of one another can belong to records that no path of neigh")

    def test_the_eta_that_joins_all_is_named_and_does(self):
        """Rounded to four digits, but never to less than what is needed."""
        places = [[0.0], [1.0], [3.00049], [4.0]]
        found = promise(places, eta=1.0, limit=0.9)
        with pytest.raises(mdp.InputError, match=r"an eta that joins all records \(2.002 or more\), use a smaller"):
            found.check()
        assert promise(places, eta=2.002, limit=0.9).check() is None

    @pytest.mark.parametrize(("n", "is_told"), [(3_000, True), (3_001, False)])
    def test_among_many_records_it_is_not_named(self, monkeypatch, n, is_told):
        monkeypatch.setattr(points, "connecting_eta", lambda *_: 2.0)  # takes seconds for so many
        found = promise(2.0 * np.arange(n)[:, None], eta=1.0, limit=0.5)
        with pytest.raises(mdp.InputError, match="eta that joins all records") as caught:
            found.check()
        assert ("(2.002 or more)" in str(caught.value)) == is_told
        assert ("joins all records, use" in str(caught.value)) != is_told

    @pytest.mark.parametrize(("n", "is_told"), [(2_000, True), (2_001, False)])
    def test_among_many_records_farther_points_are_not_spoken_of(self, n, is_told):
        found = promise(np.arange(n)[:, None], eta=1.5, limit=0.6)
        assert found.sentence.startswith("Points within 0.6 of a record: of two points next to each other")
        assert ("For points within 0.6 of one another it is" in found.sentence) == is_told

    @pytest.mark.parametrize(
        ("logarithm", "text"), [(0.0, "1"), (1.0, "2.72"), (699.9, "9.18e+303"), (700.0, "e^700 or more")]
    )
    def test_factors_that_are_too_large_to_write(self, logarithm, text):
        assert points._factor(logarithm) == text


@pytest.mark.parametrize(("n", "steps", "is_thin"), [(2_000, 9, False), (2_001, 8, False), (2_001, 9, True)])
def test_paths_of_large_dense_graphs_go_over_thin_ones(n, steps, is_thin):
    """From 2,001 records and more than eight pairs each on: paths are a little longer there, never shorter."""
    places, eta = ring(n, steps)
    found = promise(places, eta=eta, limit=0.5)
    assert found.graph.n_pairs == n * steps
    assert (found._roads is found.graph) != is_thin
    far = np.array([0])
    if is_thin:
        assert found._roads is found.graph.skeleton
        assert (found._roads.path_distances(far) >= found.graph.path_distances(far) * (1 - 1e-12)).all()
    # of neighbours the distance itself counts, also where paths over the thin graph are longer
    straight = float(found.graph.distances.max())
    assert found.reach(steps - 0.9).distance == pytest.approx(straight, rel=1e-12)
    assert not is_thin or found._roads.path_distances(far)[0, steps] > straight * (1.0 + 1e-6)
