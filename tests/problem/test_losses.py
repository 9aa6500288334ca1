"""Losses that are computed where they are needed: blocks, whole matrices, what is refused, and what it takes."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.instances import rome_nodes

import metricdp as mdp
from metricdp.data import Records, StreetNetwork
from metricdp.mechanism.files import save
from metricdp.metric import CoordinateMetric, Metric
from metricdp.problem import (
    DistanceLosses,
    FunctionLosses,
    GivenLosses,
    Losses,
    Outputs,
    TravelLosses,
    distance_loss,
    memory_model,
)

ROOT = Path(__file__).resolve().parents[2]


def squared(records, outputs):
    """A loss of two tables of coordinates."""
    return ((records[:, None, :] - outputs[None, :, :]) ** 2).sum(axis=-1)


def farthest(a, b):
    """A distance of two vectors."""
    return float(np.abs(a - b).max())


class Twice(CoordinateMetric):
    """A metric of one's own: only what a Metric must have is asked of it."""

    def __init__(self):
        super().__init__("euclidean")
        self.name = "function twice"

    def elementwise(self, a, b):
        return 2.0 * super().elementwise(a, b)

    def pairs_within(self, records, eta):
        pairs, distances = CoordinateMetric("euclidean").pairs_within(records, eta / 2.0)
        return pairs, 2.0 * distances


def vectors(n, dimension, seed=0):
    return Records(np.random.default_rng(seed).normal(size=(n, dimension)), kind="vectors")


def made(kind):
    city = mdp.data.road("gothenburg", n=60, seed=3)
    apart = np.abs(np.arange(20.0)[:, None] - np.arange(20.0)[None, :])
    points = city.coordinates[::4] + 0.003
    records, options = {
        "haversine": (city, {"loss": "distance"}),
        "haversine, other points": (city, {"loss": "distance", "outputs": points}),
        "around the world": (
            Records(np.random.default_rng(1).uniform([-90, -180], [90, 180], (40, 2)), kind="places"),
            {"loss": "distance"},
        ),
        "street": (city, {"loss": "distance", "metric": "street"}),
        "euclidean, 2": (vectors(50, 2), {}),
        "euclidean, 13": (vectors(50, 13), {}),
        "manhattan, 9": (vectors(50, 9), {"metric": "manhattan"}),
        "matrix": (np.arange(20.0), {"metric": apart}),
        "function metric": (vectors(15, 2), {"metric": farthest}),
        "own metric": (vectors(25, 3), {"metric": Twice()}),
        "travel": (city, {"loss": "travel"}),
        "travel, other points": (city, {"loss": "travel", "outputs": points}),
        "travel, few destinations": (mdp.data.grid(6, 6), {"loss": "travel", "destinations": 3}),
        "given": (np.arange(6.0), {"loss": np.random.default_rng(0).random((6, 6))}),
        "function": (vectors(30, 2), {"loss": squared}),
    }[kind]
    return mdp.Problem(records, **{"epsilon": 1.0, "eta": 0.5, **options})


KINDS = [
    *("haversine", "haversine, other points", "around the world", "street", "euclidean, 2", "euclidean, 13"),
    *("manhattan, 9", "matrix", "function metric", "own metric"),
    *("travel", "travel, other points", "travel, few destinations", "given", "function"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_block_is_a_part_of_the_whole_to_the_last_bit(kind):
    losses = made(kind).losses
    (n, K), random = losses.shape, np.random.default_rng(5)
    whole = losses.whole()
    assert whole.shape == losses.shape
    assert whole.dtype == np.float64
    assert losses.whole() is whole
    for _ in range(10):
        rows, outputs = random.integers(0, n, random.integers(0, n)), random.integers(0, K, random.integers(0, K))
        assert np.array_equal(losses.block(rows, outputs), whole[np.ix_(rows, outputs)])
        first, last = np.sort(random.integers(0, n, 2))
        assert np.array_equal(losses.block(slice(first, last), outputs), whole[first:last][:, outputs])
        assert np.array_equal(losses.block(rows, slice(None, None, 3)), whole[rows][:, ::3])
        i, k = random.integers(n), random.integers(K)
        assert losses.block(np.array([i]), np.array([k])) == [[whole[i, k]]]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "function" not in kind and "given" not in kind])
def test_the_whole_is_what_the_metric_says(kind):
    """The matrix is the one that metrics gave before there were blocks."""
    problem = made(kind)
    if kind.startswith("travel"):
        ways = problem.losses
        expected = [np.abs(ways.from_records - way).mean(axis=1) for way in ways.from_outputs]
        assert np.array_equal(problem.loss, np.column_stack(expected))
    else:
        assert np.array_equal(problem.loss, distance_loss(problem.records, problem.outputs, problem.metric))


@pytest.mark.parametrize(
    ("kind", "type_of", "name"),
    [
        ("haversine", DistanceLosses, "distance"),
        ("travel", TravelLosses, "travel"),
        ("given", GivenLosses, "given"),
        ("function", FunctionLosses, "function"),
        ("function metric", GivenLosses, "distance"),  # a function of two vectors is slow: it is asked once
    ],
)
def test_kinds_and_names(kind, type_of, name):
    problem = made(kind)
    assert type(problem.losses) is type_of
    assert isinstance(problem.losses, Losses)
    assert problem.loss_name == problem.losses.name == name
    n, K = problem.losses.shape
    assert repr(problem.losses) == f"{type_of.__name__}({n} records x {K} outputs, {name})"
    other = problem.losses.named("mine")
    assert (type(other), other.name) == (type_of, "mine")
    assert np.array_equal(other.whole(), problem.loss)
    assert problem.losses.named(name) is problem.losses


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "function" not in kind])
def test_copies_give_the_same_losses(kind):
    problem = made(kind)
    whole = problem.loss
    for again in (copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):  # noqa: S301
        assert np.array_equal(again.loss, whole)
        with pytest.raises(ValueError, match="WRITEABLE"):
            again.loss.setflags(write=True)


def test_a_pickle_does_not_hold_what_can_be_made():
    losses = made("haversine").losses
    before = len(pickle.dumps(losses))
    losses.whole()
    assert len(pickle.dumps(losses)) == before


def test_matrices_are_made_when_they_are_asked_for():
    problem = made("haversine")
    assert not problem.has_costs
    problem.losses.block(slice(0, 3), slice(0, 3))
    assert "_made" not in vars(problem.losses)
    assert problem.costs is problem.costs
    assert problem.has_costs
    assert problem.loss is problem.losses.whole()
    assert np.array_equal(problem.costs, problem.records.prior[:, None] * problem.loss)


class TestFunctions:
    def test_solved_like_its_matrix(self):
        records = vectors(12, 2)
        by_function = mdp.Problem(records, epsilon=1.0, eta=2.0, loss=squared)
        matrix = squared(records.coordinates, records.coordinates)
        by_matrix = mdp.Problem(records, epsilon=1.0, eta=2.0, loss=matrix)
        assert np.array_equal(by_function.loss, by_matrix.loss)
        first, second = mdp.solve(by_function), mdp.solve(by_matrix)
        assert np.array_equal(first.mechanism.table, second.mechanism.table)
        assert first.mechanism.loss_name == "function"

    def test_in_parts(self, monkeypatch):
        asked = []

        def spied(records, outputs):
            asked.append((len(records), len(outputs)))
            return squared(records, outputs)

        monkeypatch.setattr("metricdp.problem.losses._parts.__defaults__", (70,))
        losses = mdp.Problem(vectors(10, 2), epsilon=1.0, eta=1.0, loss=spied).losses
        asked.clear()
        assert np.array_equal(losses.whole(), made_once(losses))
        assert asked[:2] == [(7, 10), (3, 10)]

    @pytest.mark.parametrize(
        ("function", "part"),
        [
            (lambda a, b: 1 / 0, r"the loss function failed for tables of 2 records and 3 outputs \(ZeroDivisionError"),
            (lambda a, b: np.zeros(len(a)), r"one column per output, \(2, 3\), got ndarray of shape \(2,\)"),
            (lambda a, b: "near", r"the loss function must give numbers with one row per record .* got str"),
            (lambda a, b: squared(a, b) - 1.0, "losses must be finite and not negative, got -1.0 for record 0 and"),
            (lambda a, b: squared(a, b) * np.nan, "losses must be finite and not negative, got nan"),
            (lambda a, b: np.ma.masked_less(squared(a, b), 1.0), "masked array hides"),
        ],
    )
    def test_what_is_refused_at_once(self, function, part):
        with pytest.raises(mdp.InputError, match=part):
            mdp.Problem(vectors(5, 2), epsilon=1.0, eta=1.0, loss=function)

    def test_what_is_refused_where_it_is_computed(self):
        records = Records(np.arange(9.0), kind="vectors")
        odd = mdp.Problem(records, epsilon=1.0, eta=1.0, loss=lambda a, b: squared(a, b) / (a != 7.0))
        assert odd.losses.block(slice(0, 5), slice(None)).shape == (5, 9)
        with (
            np.errstate(all="ignore"),
            pytest.raises(mdp.InputError, match="got inf for record 7 and output 0"),
        ):
            odd.losses.block(np.array([2, 7]), slice(None))
        with np.errstate(all="ignore"), pytest.raises(mdp.InputError, match="losses must be finite"):
            mdp.solve(odd)


def made_once(losses):
    return squared(losses.records.coordinates, losses.outputs.coordinates)


class TestRefusals:
    @pytest.mark.parametrize("shape", [(5, 4), (4, 5), (6,), (5, 5, 1)])
    def test_other_shapes(self, shape):
        with pytest.raises(mdp.InputError, match="one row per record and one column per output"):
            mdp.Problem(np.arange(5.0), epsilon=1.0, eta=1.0, loss=np.ones(shape))

    def test_losses_of_another_problem(self):
        losses = GivenLosses(np.ones((4, 4)), "mine")
        assert mdp.Problem(np.arange(4.0), epsilon=1.0, eta=1.0, loss=losses).loss_name == "mine"
        with pytest.raises(mdp.InputError, match=r"\(5, 5\), got shape \(4, 4\)"):
            mdp.Problem(np.arange(5.0), epsilon=1.0, eta=1.0, loss=losses)

    @pytest.mark.parametrize(
        ("outputs", "part"),
        [(None, "record 0 and output 2 "), ([0, 1], "record 2 and output 0 "), ([1, 3, 2], "record 0 and output 1 ")],
    )
    def test_no_way_along_the_streets(self, outputs, part):
        """Two streets without a connection: no path has to be searched for that."""
        places = np.array([[0.0, 0.0], [0.0, 0.01], [0.0, 0.02], [0.0, 0.03]])
        streets = StreetNetwork(places, np.array([[0, 1], [2, 3]], dtype=np.int32), np.array([1.0, 0.0]))
        records = Records(places, kind="places", streets=streets, street_nodes=np.arange(4))
        with pytest.raises(mdp.InputError, match=f"{part}are infinitely far apart"):
            mdp.Problem(records, epsilon=1.0, eta=2.0, loss="distance", metric="street", outputs=outputs)
        losses = DistanceLosses(records, Outputs.of(outputs, records, seed=0), mdp.metric.StreetMetric())
        infinite = np.argwhere(np.isinf(losses.whole()))[0]
        assert f"record {infinite[0]} and output {infinite[1]} " == part

    def test_streets_that_end_nowhere(self):
        places = np.array([[0.0, 0.0], [0.0, 0.01], [0.0, 0.02]])
        streets = StreetNetwork(places, np.array([[0, 1], [1, 2]], dtype=np.int32), np.array([1e308, 1e308]))
        records = Records(places, kind="places", streets=streets, street_nodes=np.arange(3))
        with pytest.raises(mdp.InputError, match="record 0 and output 2 are infinitely far apart"):
            mdp.Problem(records, epsilon=1.0, eta=2.0, loss="distance", metric="street")

    def test_other_infinite_distances(self):
        far = np.array([[0.0, np.inf], [np.inf, 0.0]])
        huge = np.array([[-1e308], [1e308]])
        for records, metric in ((np.arange(2.0), far), (huge, "manhattan"), (huge, lambda a, b: float(np.ptp([a, b])))):
            with (
                np.errstate(over="ignore"),
                pytest.raises(mdp.InputError, match="record 0 and output 1 are infinitely far apart"),
            ):
                mdp.Problem(records, epsilon=1.0, eta=2.0, loss="distance", metric=metric)

    def test_by_blocks_of_outputs(self, monkeypatch):
        """A metric of one's own is asked for a few outputs at a time."""
        asked = []

        class Farther(Metric):
            name = "function farther"

            def pairs_within(self, records, eta):
                return CoordinateMetric("euclidean").pairs_within(records, eta)

            def to_rows(self, records, rows):
                asked.append(len(rows))
                found = CoordinateMetric("euclidean").to_rows(records, rows)
                return np.where((rows == 7)[None, :], np.inf, found)

            def to_points(self, records, points):
                raise NotImplementedError

        monkeypatch.setattr("metricdp.problem.losses._parts.__defaults__", (36,))
        with pytest.raises(mdp.InputError, match="record 0 and output 7 are infinitely far apart"):
            mdp.Problem(np.arange(12.0), epsilon=1.0, eta=2.0, metric=Farther())
        assert asked == [3, 3, 3]

    def test_a_matrix_that_does_not_fit(self, monkeypatch):
        problem = mdp.Problem(mdp.data.grid(40, 40), epsilon=1.0, eta=1.0, loss="distance")
        monkeypatch.setattr(memory_model, "available_bytes", lambda: 1e6)
        message = r"a matrix of all losses of 1,600 records and 1,600 outputs .* the available .* losses.block"
        for ask in (lambda: problem.loss, lambda: problem.costs, problem.losses.whole):
            with pytest.raises(mdp.InputError, match=message):
                ask()
        assert not problem.losses.fits()
        assert problem.losses.block(slice(0, 9), slice(None)).shape == (9, 1600)
        with pytest.raises(mdp.InputError, match="more than the limit of 0.1 GB"):
            problem.losses.whole(memory_limit=0.1)
        monkeypatch.undo()
        assert problem.loss.shape == (1600, 1600)
        monkeypatch.setattr(memory_model, "available_bytes", lambda: 1e6)
        assert problem.losses.fits()  # it is there

    def test_a_file_goes_without_losses_that_do_not_fit(self, monkeypatch, tmp_path):
        mechanism = mdp.exponential(made("euclidean, 2"))
        lean = copy.deepcopy(mechanism)
        monkeypatch.setattr(memory_model, "ENTRIES_CHECKED_FROM", 0)
        monkeypatch.setattr(memory_model, "available_bytes", lambda: 1.0)
        save(lean, tmp_path / "lean.mdp")
        assert mdp.load(tmp_path / "lean.mdp").losses is None
        save(mechanism, tmp_path / "whole.mdp")  # they have been made already
        assert mdp.load(tmp_path / "whole.mdp").losses.whole().shape == (50, 50)


class TestEveryRecordIsAnOutput:
    @pytest.mark.parametrize("records", [mdp.data.grid(2, 3), mdp.data.grid(11, 12), np.arange(150.0)])
    def test_by_default(self, records):
        problem = mdp.Problem(records, epsilon=1.0, eta=1.0)
        assert problem.outputs.rows.tolist() == list(range(problem.n_records))
        assert problem.outputs.ids(problem.records) == problem.records.ids
        assert np.shares_memory(problem.outputs.coordinates, problem.records.coordinates)
        all_of_them = mdp.Problem(records, epsilon=1.0, eta=1.0, outputs=problem.n_records)
        assert np.array_equal(all_of_them.outputs.rows, problem.outputs.rows)

    def test_on_the_command_line(self, run):
        words = ["solve", "grid:11x10", "--epsilon", 4, "--eta", 1, "--gap", 0.5, "--json"]
        code, text, _ = run(*words)
        assert (code, json.loads(text)["outputs"]) == (0, 110)
        code, text, _ = run(*words, "--outputs", 20)
        assert (code, json.loads(text)["outputs"]) == (0, 20)

    def test_as_a_transformer(self):
        public = mdp.data.grid(11, 10).coordinates
        for outputs, K in ((None, 110), (20, 20), (500, 110)):
            privacy = mdp.MetricPrivacy(epsilon=4.0, kind="vectors", outputs=outputs, gap=0.5).fit(public)
            assert privacy.mechanism_.outputs.n == K


WHOLE_CITY = """
import json, sys
import numpy as np
import metricdp as mdp
from metricdp.problem.memory_model import held_bytes
from metricdp.solve.result import peak_megabytes
sys.path.insert(0, {root!r})
from benchmarks.instances import rome_nodes
records = rome_nodes() if {is_rome} else mdp.Records(
    np.random.default_rng(0).normal([41.9, 12.5], 0.1, (20_000, 2)), kind="places"
)
before = held_bytes()
problem = mdp.Problem(records, epsilon=10.0, eta=0.05, loss={loss!r}, memory_limit=8.0)
blocks = [problem.losses.block(np.arange(i, i + 50), slice(None)).sum() for i in (0, 10_000)]
try:
    mdp.solve(problem, method="first-order")
    refused = ""
except mdp.InputError as error:
    refused = str(error)
more = 1e6 * peak_megabytes() - before
print(json.dumps(dict(shape=problem.losses.shape, more=more, refused=refused, costs=problem.has_costs)))
"""


@pytest.mark.parametrize("loss", ["distance", "travel"])
@pytest.mark.parametrize("is_rome", [True, False])
def test_a_whole_city_takes_no_matrix(loss, is_rome):
    """A matrix of 20,000 x 20,000 losses would take 3.2 GB, one of 43,160 x 43,160 14.9 GB."""
    if is_rome and rome_nodes() is None:
        pytest.skip("the nodes of Rome are not here")
    program = WHOLE_CITY.format(root=str(ROOT), is_rome=is_rome, loss=loss)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    found = json.loads(done.stdout)
    assert found["shape"] == ([43_160, 43_160] if is_rome else [20_000, 20_000])
    assert found["more"] < 500e6, found
    assert found["refused"].startswith("the method 'first-order' would need about"), found
    assert not found["costs"]
