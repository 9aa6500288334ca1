"""The black-box auditor: its statistics are exact, its inputs are hard, its verdicts on known pipelines are right."""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

import metricdp as mdp
from metricdp.errors import InputError
from metricdp.evaluate.auditor import (
    Neighbours,
    audit_pipeline,
    command_pipeline,
    id_pipeline,
    point_claim,
    point_neighbours,
    record_claim,
    record_neighbours,
    word_claim,
    word_neighbours,
)
from metricdp.evaluate.auditor.events import as_report, choose_event
from metricdp.evaluate.auditor.examples import arms, line, optimal, places, snapping, straight_claim
from metricdp.evaluate.auditor.self_test import EXAMPLES, Verdict
from metricdp.evaluate.auditor.statistics import detectable, largest_claim, lower_bound, matching_level, ratio_bound
from metricdp.evaluate.auditor.statistics import upper_bound as upper
from metricdp.mechanism.snap import nearest_records
from metricdp.metric.distances import CoordinateMetric

SURE = 1e-6  # chance that a test of a sound pipeline fails


def nothing_claimed(x, y):
    return 0.0


# statistics


@pytest.mark.parametrize("n", [1, 7, 40])
def test_bounds_are_wrong_as_seldom_as_they_say(n):
    """By summing the binomial distribution: no simulation."""
    counts = np.arange(n + 1)
    for level in (0.3, 0.01, 1e-7):
        low, high = lower_bound(counts, n, level), upper(counts, n, level)
        assert (low[1:] > 0).all()
        assert (high[:-1] < 1).all()
        for p in np.linspace(0.01, 0.99, 23):
            chances = binom.pmf(counts, n, p)
            assert chances[low > p].sum() <= level * (1 + 1e-9)
            assert chances[high < p].sum() <= level * (1 + 1e-9)


def test_the_matching_level_holds_for_every_order():
    """Over all 5,040 orders of seven reports the level is undercut at most as often as it says."""
    first = np.array([0, 0, 0, 1, 1, 2, 3])
    second = np.array([0, 0, 1, 1, 1, 2, 2])
    levels = [matching_level(first, np.array(order)) for order in itertools.permutations(second)]
    for level in sorted(set(levels)):
        assert np.mean(np.array(levels) <= level) <= level


def test_what_is_detectable_is_about_what_is_detected():
    n, level, claim = 5_000, 1e-5, 0.7
    excess = detectable(n, level, claim)
    for factor, proved in ((1.05, True), (0.95, False)):
        other = round(n / 2 * math.exp(-(claim + factor * excess)))
        assert (ratio_bound(n // 2, n, other, n, level) > claim) == proved
    assert detectable(20_000, level, claim) < excess
    assert detectable(60, 1e-9, 5.0) == math.inf
    assert largest_claim(20_000, level) > largest_claim(n, level) > claim


def test_the_event_is_the_likelihood_ratio_set():
    event = choose_event(["a"] * 60 + ["b"] * 30 + ["c"] * 10, ["a"] * 10 + ["b"] * 10 + ["c"] * 80, 0.01)
    assert event.count(["a", "b", "c", "never seen"]) == 2
    assert str(event) == "the report is a or b"


# false alarms


def tight_pair():
    """Randomised response whose ratio is exactly what is claimed."""
    generator = np.random.default_rng(5)
    truth = math.exp(0.5) / (1.0 + math.exp(0.5))
    return lambda xs: [x if u < truth else 1 - x for x, u in zip(xs, generator.random(len(xs)), strict=True)]


def test_false_alarms_are_as_rare_as_stated():
    rate, n_audits, pipeline = 0.3, 150, tight_pair()
    pairs = [Neighbours(0, 1), Neighbours(1, 0)]
    alarms = sum(
        not audit_pipeline(pipeline, pairs, lambda x, y: 0.5, n_draws=200, false_alarm_rate=rate).passed
        for _ in range(n_audits)
    )
    assert alarms <= binom.ppf(1 - SURE, n_audits, rate)
    # and the bound is not idle: at half the claim the same pipeline is caught
    assert not audit_pipeline(pipeline, pairs, lambda x, y: 0.25, n_draws=20_000).passed


@pytest.mark.slow
def test_two_thousand_audits_of_sound_pipelines_at_the_usual_rate():
    mechanism = optimal(line())
    pairs, claim = record_neighbours(mechanism, n_pairs=7), record_claim(mechanism)
    alarms = sum(
        not audit_pipeline(id_pipeline(mechanism), pairs, claim, n_draws=2_000, false_alarm_rate=1e-3).passed
        for _ in range(2_000)
    )
    assert alarms <= binom.ppf(1 - SURE, 2_000, 1e-3)


# verdicts


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_every_shipped_pipeline_gets_the_right_verdict(example):
    verdict = Verdict(example, example.audit())
    assert verdict.is_right, verdict.audit.lines()
    assert example.story.endswith(".")


def test_the_shipped_set_covers_what_was_found_around_the_core():
    broken = {example.name for example in EXAMPLES if not example.is_sound}
    assert {"horseshoe-snapping", "two-components-snapping", "tripled-distances", "edited-table"} <= broken
    assert len(broken) >= 15
    assert sum(example.is_sound for example in EXAMPLES) >= 6


@pytest.mark.parametrize("joined", [True, False])
def test_snapping_refutes_the_straight_claim_and_not_the_claim_by_paths(joined):
    mechanism = arms(joined=joined)
    pairs = point_neighbours(mechanism, limit=0.7)
    found = audit_pipeline(snapping(mechanism), pairs, straight_claim(mechanism), n_draws=1_000)
    assert any("across a border" in alarm.sentence for alarm in found.alarms)
    claim = point_claim(mechanism, limit=np.inf)
    assert audit_pipeline(snapping(mechanism), pairs, claim, n_draws=1_000, false_alarm_rate=SURE).passed


@pytest.mark.parametrize(("spread", "passes"), [(1.0, True), (0.5, False)])
def test_reports_that_never_come_twice_are_compared_by_where_they_lie(spread, passes):
    generator = np.random.default_rng(1)

    def laplace(points):
        return np.array(points) + generator.laplace(scale=spread, size=(len(points), 1))

    found = audit_pipeline(laplace, [Neighbours((0.0,), (1.0,))], lambda x, y: 1.0, false_alarm_rate=SURE)
    assert found.passed == passes


def test_successive_reports_that_depend_on_one_another_are_found():
    generator = np.random.default_rng(2)

    def sticky(ids):
        reports = generator.integers(0, 4, len(ids))
        reports[1::2] = np.where(
            generator.random(len(reports[1::2])) < 0.3, reports[: len(reports) - 1 : 2], reports[1::2]
        )
        return reports

    found = audit_pipeline(sticky, [Neighbours("a", "b")], nothing_claimed)
    assert "dependent" in {alarm.kind for alarm in found.alarms}


@pytest.mark.parametrize(
    ("answer", "event"), [("error", "(refused)"), ("nothing", "(no report)"), ("two", "('0', '0')")]
)
def test_to_refuse_to_be_silent_and_to_answer_twice_are_reports_too(answer, event):
    def report(ids):
        if "secret" in ids:
            if answer == "error":
                raise KeyError("secret")
            return [] if answer == "nothing" else ["0"] * 2 * len(ids)
        return ["0"] * len(ids)

    found = audit_pipeline(report, [Neighbours("home", "secret")], nothing_claimed, outputs=["0", ("0", "0")])
    assert {alarm.kind for alarm in found.alarms} == {"ratio"}
    assert any(event in alarm.event for alarm in found.alarms)
    assert found.n_refused == (answer != "two")


def test_a_report_that_is_no_output_is_an_alarm():
    found = audit_pipeline(lambda ids: ["a"] * len(ids), [Neighbours("x", "y")], nothing_claimed, outputs=["b"])
    assert [alarm.kind for alarm in found.alarms] == ["output"]
    assert "'a' is reported" in found.lines()[0]


def test_reports_of_any_shape_can_be_counted():
    assert as_report(np.array([1.0, 2.0])) == (1.0, 2.0)
    assert as_report([np.int64(3), "a"]) == (3, "a")
    assert as_report(np.float64(1.5)) == 1.5
    assert as_report(frozenset()) == "frozenset()"


# inputs


def test_record_pairs_begin_with_the_least_room_and_hold_each_pair_once():
    mechanism = optimal(places())
    pairs = record_neighbours(mechanism, n_pairs=12)
    assert len({(pair.x, pair.y) for pair in pairs}) == len(pairs) == 12
    claim = record_claim(mechanism)
    assert all(0 < claim(pair.x, pair.y) <= mechanism.epsilon * mechanism.eta for pair in pairs)
    i, j = mechanism.rows_of([pairs[0].x, pairs[0].y])
    ratio = np.abs(np.log(mechanism.probabilities[i] / mechanism.probabilities[j])).max()
    assert ratio == pytest.approx(claim(pairs[0].x, pairs[0].y), rel=1e-6)


def around(lat, lon, *, step=0.01):
    """Records around a place, longitudes brought back to -180..180."""
    points = np.array([[lat + step * i, lon + step * j] for i in range(-1, 2) for j in range(-1, 2)])
    points[:, 1] = (points[:, 1] + 180.0) % 360.0 - 180.0
    return mdp.Records(points)


@pytest.mark.parametrize(
    "records",
    [
        around(57.7, 12.0),
        around(10.0, 179.995),
        mdp.Records([[89.99, lon] for lon in (-170.0, -80.0, 10.0, 100.0)]),
        mdp.Records(np.random.default_rng(0).random((20, 3)), kind="vectors"),
    ],
    ids=["city", "antimeridian", "pole", "vectors"],
)
def test_point_pairs_lie_on_two_sides_of_borders(records):
    limit = 1.0
    mechanism = mdp.exponential(mdp.Problem(records, epsilon=1.0, eta=5.0, loss="distance"))
    metric = CoordinateMetric(mechanism.metric)
    pairs = point_neighbours(mechanism, limit=limit)
    borders = [pair for pair in pairs if "border" in pair.why]
    assert borders
    for pair in borders:
        points = np.array([pair.x, pair.y])
        rows, distances = nearest_records(points, records, metric)
        assert rows[0] != rows[1]
        assert distances.max() <= limit
        assert metric.elementwise(points[0], points[1]) <= 1e-3
    assert min(float(metric.elementwise(*np.array([pair.x, pair.y]))) for pair in borders) <= 1e-8
    edges = [pair for pair in pairs if "just within" in pair.why]
    for pair in edges:
        _, distances = nearest_records(np.array([pair.x, pair.y]), records, metric)
        assert distances[0] <= limit < distances[1] < 1.001 * limit
    assert edges
    assert audit_pipeline(
        snapping(mechanism), pairs, point_claim(mechanism, limit=np.inf), n_draws=200, false_alarm_rate=SURE
    ).passed


def test_one_place_with_two_longitudes_is_asked_for_at_the_seams():
    def seams(records):
        mechanism = mdp.exponential(mdp.Problem(records, epsilon=1.0, eta=5.0, loss="distance"))
        pairs = point_neighbours(mechanism, limit=2.0)
        return [(pair.x, pair.y) for pair in pairs if "written differently" in pair.why]

    [(x, y)] = seams(around(10.0, 179.995))
    assert (abs(x[0] - 10.0) < 0.02, x[1], y[1]) == (True, 180.0, -180.0)
    assert ((90.0, 0.0), (90.0, 120.0)) in seams(mdp.Records([[89.99, -170.0], [89.99, 10.0]]))
    assert seams(around(57.7, 12.0)) == []


def test_points_are_claimed_as_their_records_and_not_beyond_the_limit():
    mechanism = optimal(places())
    x, y = (60.0, 25.0), (60.0, 25.001)
    claim = point_claim(mechanism, limit=0.5)
    i, j = (int(v) for v in mechanism.rows_of(["0", "1"]))
    assert claim(x, y) == 0.0  # of one record
    assert claim(x, (60.0, 25.009)) == mechanism.guarantee.bound(i, j)
    assert claim(x, (60.0, 25.009)) <= mechanism.guarantee.for_points(0.5).bound(0.6)
    assert claim(x, (61.0, 25.0)) == math.inf
    assert claim((61.0, 25.0), (61.0, 26.0)) == 0.0


def test_word_pairs_have_capitals_and_strangers():
    records = mdp.Records(np.arange(5.0)[:, None], ids=["ache", "cold", "cough", "fever", "flu"], kind="vectors")
    mechanism = mdp.exponential(mdp.Problem(records, epsilon=1.0, eta=1.5))
    pairs, claim = word_neighbours(mechanism), word_claim(mechanism)
    spelled = [pair for pair in pairs if pair.x.upper() == pair.y]
    assert len(spelled) == 2
    assert [claim(pair.x, pair.y) for pair in (*spelled, pairs[-1])] == [0.0, 0.0, 0.0]
    assert claim("ache", "COLD") == pytest.approx(1.0)
    assert claim("ache", "zebra") == math.inf


# programs

ECHO = "import random, sys\nfor line in sys.stdin:\n    print(random.choice('ab'))\n"


def test_a_program_is_audited_line_by_line(tmp_path):
    script = tmp_path / "a service.py"
    script.write_text(ECHO, encoding="utf-8")
    pipeline = command_pipeline(f"'{sys.executable}' -I '{script}'")
    assert set(pipeline(["x", "with, comma"])) <= {"a", "b"}
    script.write_text(
        "import csv, sys\nfor row in csv.reader(sys.stdin):\n    print(*row[::-1], sep=',')\n", encoding="utf-8"
    )
    assert pipeline([(1.5, -0.1)]) == [("-0.1", "1.5")]
    assert pipeline(["with, comma\nand line"]) == [("with", " comma"), "and line"]
    script.write_text("import sys\nsys.exit(3)\n", encoding="utf-8")
    with pytest.raises(InputError, match="exit code 3"):
        pipeline(["x"])
    with pytest.raises(InputError, match="refused every input"):
        audit_pipeline(pipeline, [Neighbours("x", "y")], nothing_claimed, n_draws=100)


@pytest.mark.parametrize("command", ["", "no-such-program --now", "'unfinished"])
def test_a_program_that_is_not_there_is_an_error(command):
    with pytest.raises(InputError, match=r"there is no program|cannot be parsed"):
        command_pipeline(command)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pairs": []}, "no pairs"),
        ({"n_draws": 99}, "at least 100"),
        ({"false_alarm_rate": 0.0}, "between 0 and 1"),
        ({"batch": 0}, "at least 1"),
        ({"claim": lambda x, y: math.nan}, "zero or more"),
        ({"claim": lambda x, y: math.inf}, "cannot refute"),
    ],
)
def test_options_that_make_no_sense_are_refused(changes, message):
    options = {"pairs": [Neighbours("x", "y")], "claim": nothing_claimed, **changes}
    with pytest.raises(InputError, match=message):
        audit_pipeline(lambda ids: ["a"] * len(ids), **options)


def test_mechanisms_without_anything_to_compare_are_refused():
    alone = mdp.exponential(mdp.Problem(mdp.Records([[0.0], [9.0]], kind="vectors"), epsilon=1.0, eta=1.0))
    with pytest.raises(InputError, match="nothing is claimed"):
        record_neighbours(alone)
    single = mdp.exponential(mdp.Problem(mdp.Records([[0.0]], kind="vectors"), epsilon=1.0, eta=1.0))
    with pytest.raises(InputError, match="one record"):
        point_neighbours(single, limit=1.0)
    with pytest.raises(InputError, match="limit must be positive"):
        point_neighbours(alone, limit=0.0)
    matrix = mdp.exponential(
        mdp.Problem(mdp.Records([[0.0], [9.0]], kind="vectors"), epsilon=1.0, eta=2.0, metric=[[0, 1], [1, 0]])
    )
    with pytest.raises(InputError, match="record ids instead"):
        point_neighbours(matrix, limit=1.0)


def test_the_page_lists_every_shipped_pipeline():
    page = (Path(__file__).resolve().parents[2] / "docs" / "auditing.md").read_text(encoding="utf-8")
    for example in EXAMPLES:
        verdict = "passes" if example.is_sound else "alarm"
        assert f"| `{example.name}` | {verdict} | {example.story} |" in page
    n_sound = sum(example.is_sound for example in EXAMPLES)
    assert f"{len(EXAMPLES) - n_sound} broken and {n_sound} sound pipelines" in page
