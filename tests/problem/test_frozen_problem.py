"""Nothing that a certificate rests on can be changed afterwards, or be something else than it seems."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import metricdp as mdp
from metricdp.metric import CoordinateMetric, FunctionMetric, MatrixMetric, MdpGraph, Metric
from metricdp.problem.outputs import Outputs


@pytest.fixture(scope="module")
def problem():
    return mdp.Problem(mdp.data.road("gothenburg", n=30, seed=0), epsilon=5.0, eta=1.5, outputs=8)


def arrays(problem):
    matrix = MatrixMetric(np.ones((3, 3)) - np.eye(3))
    points = mdp.Problem(problem.records, epsilon=1.0, eta=1.0, outputs=problem.records.coordinates[:2] + 0.001)
    return {
        "distances": problem.graph.distances,
        "pairs": problem.graph.pairs,
        "labels": problem.graph.labels,
        "loss": problem.loss,
        "given loss": mdp.Problem([[0.0], [1.0]], epsilon=1.0, eta=1.0, outputs=2, loss=np.eye(2)).loss,
        "coordinates": problem.records.coordinates,
        "prior": problem.records.prior,
        "given prior": mdp.Records([[0.0], [1.0]], prior=[0.5, 0.5], kind="vectors").prior,
        "scaled prior": mdp.Records([[0.0], [1.0]], prior=[1, 3], kind="vectors").prior,
        "street nodes": problem.records.street_nodes,
        "outputs": problem.outputs.coordinates,
        "rows": problem.outputs.rows,
        "output points": points.outputs.coordinates,
        "no pairs": MdpGraph(2, np.zeros((0, 2), dtype=np.int32), np.zeros(0)).labels,
        "matrix": matrix.matrix,
    }


def pickled(thing):
    return pickle.loads(pickle.dumps(thing))  # noqa: S301


@pytest.mark.parametrize("again", [lambda x: x, copy.deepcopy, pickled])
def test_no_array_can_be_made_writable(problem, again):
    for name, array in arrays(again(problem)).items():
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.setflags(write=True)
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
        assert not array.flags.writeable, name


def test_three_times_the_distances_were_three_times_the_budget(problem):
    """The attack: make every distance longer, solve, and take the certificate for the true ones."""
    with pytest.raises(ValueError, match="read-only"):
        problem.graph.distances *= 3
    with pytest.raises(ValueError, match="WRITEABLE"):
        problem.graph.distances.setflags(write=True)


def test_what_was_given_is_copied_once():
    pairs, distances = np.array([[0, 1]], dtype=np.int32), np.array([1.0])
    graph = MdpGraph(2, pairs, distances)
    pairs[:], distances[:] = 9, 9.0
    assert graph.pairs.tolist() == [[0, 1]]
    assert graph.distances.tolist() == [1.0]
    again = MdpGraph(2, graph.pairs, graph.distances)
    assert np.shares_memory(again.pairs, graph.pairs)
    assert np.shares_memory(again.distances, graph.distances)


def test_paths_and_components_are_those_of_the_pairs_for_good():
    graph = MdpGraph(4, np.array([[0, 1], [2, 3]], dtype=np.int32), np.ones(2))
    for values, other in ((graph.adjacency.indices, [2, 3, 0, 1]), (graph.adjacency.data, 3.0)):
        with pytest.raises(ValueError, match="read-only"):
            values[:] = other
    assert graph.labels.tolist() == [0, 0, 1, 1]
    assert graph.path_distances(np.array([0])).tolist() == [[0.0, 1.0, np.inf, np.inf]]


@pytest.mark.parametrize(
    "make",
    [
        lambda masked: mdp.Records(masked([[0.0], [1.0]])),
        lambda masked: mdp.Records([[0.0], [1.0]], prior=masked([1.0, 3.0]), kind="vectors"),
        lambda masked: mdp.Problem([[0.0], [1.0]], epsilon=1.0, eta=1.0, loss=masked([[0.0, 1.0], [1.0, 0.0]])),
        lambda masked: mdp.Problem([[0.0], [1.0]], epsilon=1.0, eta=1.0, metric=masked([[0.0, 1.0], [1.0, 0.0]])),
        lambda masked: mdp.Problem([[0.0], [1.0]], epsilon=1.0, eta=1.0, outputs=masked([[0.0], [0.5]])),
        lambda masked: mdp.Problem([[0.0], [1.0]], epsilon=1.0, eta=1.0, outputs=masked([0, 1])),
        lambda masked: MatrixMetric(masked([[0.0, 1.0], [1.0, 0.0]])),
        lambda masked: MdpGraph(2, masked([[0, 1]]), np.array([1.0])),
        lambda masked: MdpGraph(2, np.array([[0, 1]]), masked([1.0])),
        lambda masked: Outputs(masked([[1.0]])),
    ],
)
def test_masked_arrays_are_refused(make):
    with pytest.raises(mdp.InputError, match="masked array hides"):
        make(lambda values: np.ma.array(values, mask=np.zeros(np.shape(values), dtype=bool)))


class Shorter(CoordinateMetric):
    """Leaves out the longest pair."""

    def pairs_within(self, records, eta):
        pairs, distances = super().pairs_within(records, eta)
        keep = np.arange(len(pairs)) != distances.argmax()
        return pairs[keep], distances[keep]


class Longer(CoordinateMetric):
    """Says that all are farther apart, but not beyond eta."""

    def pairs_within(self, records, eta):
        pairs, distances = super().pairs_within(records, eta)
        return pairs, np.minimum(3.0 * distances, eta)


class Nothing(Metric):
    """No subclass of the library's metric, only named after it."""

    name = "haversine"

    def pairs_within(self, records, eta):
        return np.zeros((0, 2), dtype=np.int32), np.zeros(0)

    def to_rows(self, records, rows):
        return CoordinateMetric("haversine").to_rows(records, rows)

    def to_points(self, records, points):
        return CoordinateMetric("haversine").to_points(records, points)


@pytest.mark.parametrize(
    ("metric", "part"),
    [
        (Shorter("haversine"), "not among the protected pairs"),
        (Longer("haversine"), "is stored"),
        (Nothing(), "not among the protected pairs"),
    ],
)
def test_a_metric_of_ones_own_under_our_name_is_counted_after(problem, metric, part):
    with pytest.raises(mdp.InputError, match=f"pairs of {type(metric).__name__} are not those .*{part}"):
        mdp.Problem(problem.records, epsilon=5.0, eta=1.5, outputs=8, metric=metric)


def test_a_method_put_onto_our_metric_is_not_asked(problem):
    metric = CoordinateMetric("haversine")
    metric.pairs_within = Nothing().pairs_within
    metric.rounded_down = lambda a, b, margin=0: np.zeros(len(a))
    again = mdp.Problem(problem.records, epsilon=5.0, eta=1.5, outputs=8, metric=metric)
    assert np.array_equal(again.graph.pairs, problem.graph.pairs)
    assert np.array_equal(again.graph.distances, problem.graph.distances)


class Honest(CoordinateMetric):
    """All pairs, at distances as numpy rounds them."""

    def pairs_within(self, records, eta):
        pairs, _ = super().pairs_within(records, eta)
        return pairs, np.minimum(self.elementwise(*records.coordinates[pairs.T]), eta)


def test_an_honest_metric_of_ones_own_has_its_distances_rounded_down(problem):
    again = mdp.Problem(problem.records, epsilon=5.0, eta=1.5, outputs=8, metric=Honest("haversine"))
    assert np.array_equal(again.graph.pairs, problem.graph.pairs)
    exact = problem.metric.elementwise(*problem.records.coordinates[problem.graph.pairs.T])
    assert (again.graph.distances < exact).all()
    assert again.graph.distances == pytest.approx(exact, rel=1e-13)
    assert not again.has_own_graph


def test_a_problem_knows_whether_its_graph_is_our_own(problem):
    assert problem.has_own_graph
    line = mdp.Records(np.arange(4.0), kind="vectors")
    apart = FunctionMetric(lambda a, b: float(abs(a - b).sum()))
    for metric in (None, "manhattan", MatrixMetric(np.ones((4, 4)) - np.eye(4)), apart):
        assert mdp.Problem(line, epsilon=1.0, eta=2.0, outputs=2, metric=metric).has_own_graph


@pytest.mark.parametrize(
    "change",
    [
        lambda p: object.__setattr__(p, "graph", MdpGraph(30, p.graph.pairs[1:], p.graph.distances[1:])),
        lambda p: object.__setattr__(p, "records", p.records.with_prior(np.ones(30))),
        lambda p: object.__setattr__(p, "eta", 99.0),
        lambda p: setattr(p.metric, "name", "euclidean"),
    ],
)
def test_a_problem_that_was_changed_no_longer_says_so(change):
    changed = mdp.Problem(mdp.data.road("gothenburg", n=30, seed=0), epsilon=5.0, eta=1.5, outputs=8)
    change(changed)
    assert not changed.has_own_graph


def test_a_copy_does_not_say_that_its_graph_is_our_own(problem):
    for again in (copy.copy(problem), copy.deepcopy(problem), pickled(problem)):
        assert not again.has_own_graph
        assert np.array_equal(again.graph.distances, problem.graph.distances)
