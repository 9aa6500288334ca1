"""MetricPrivacy as scikit-learn wants its transformers, apart from what randomness forbids."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import metricdp as mdp
from metricdp.extras import MetricPrivacy
from metricdp.metric import connecting_eta

RANDOM = "reports are drawn from the operating system's randomness: two calls of transform differ by design"
# scikit-learn itself passes over check_pipeline_consistency, check_transformer_general and
# check_transformer_data_not_an_array for estimators that say they are not deterministic
EXCEPTIONS = {
    "check_estimators_pickle": f"compares transform before and after pickling; {RANDOM}",
    "check_fit_idempotent": f"compares transform after two fits; {RANDOM}",
}


class Certain(MetricPrivacy):
    """With so large a budget that each report is certain, nothing is left to chance, and every check must pass."""

    def __init__(self, *, epsilon=1e6, outputs=None):
        # the linear program sees at once that everybody may report himself; other methods get there by many steps
        super().__init__(epsilon=epsilon, outputs=outputs, kind="vectors", method="direct")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = False
        return tags


def exceptions_of(estimator):
    return {} if isinstance(estimator, Certain) else EXCEPTIONS


@parametrize_with_checks([MetricPrivacy(outputs=5, kind="vectors"), Certain()], expected_failed_checks=exceptions_of)
def test_scikit_learn_agrees(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def public():
    return mdp.data.grid(3, 4).coordinates


def test_fit_finds_the_optimal_mechanism(public):
    privacy = MetricPrivacy(epsilon=2.0, eta=1.5, gap=1e-6, kind="vectors").fit(public)
    best = mdp.solve(mdp.Problem(mdp.data.grid(3, 4), epsilon=2.0, eta=1.5, outputs=12), gap=1e-6)
    assert privacy.mechanism_.optimality.loss == pytest.approx(best.loss, rel=1e-5)
    assert (privacy.eta_, privacy.snap_limit_) == (1.5, 1.5)


def test_rows_that_occur_often_have_a_larger_prior(public):
    privacy = MetricPrivacy(epsilon=2.0, kind="vectors").fit(np.vstack((public, public[:1])))
    assert privacy.mechanism_.records.prior.max() == pytest.approx(2 / 13)
    assert privacy.mechanism_.records.n == 12


def test_transform_gives_outputs_of_the_nearest_record(public):
    privacy = MetricPrivacy(epsilon=60.0, kind="vectors").fit(public)
    assert privacy.transform([[0.6, 0.5], [2.4, 3.4]]).tolist() == [[0.5, 0.5], [2.5, 3.5]]
    reports = privacy.perturb([[0.6, 0.5]])
    assert reports.snap_distances == pytest.approx([0.1])
    with pytest.raises(mdp.InputError, match="farther from every record than the limit"):
        privacy.transform([[9.0, 9.0]])
    with pytest.raises(mdp.InputError, match="farther from every record"):
        clone(privacy).set_params(snap_limit=0.05).fit(public).transform([[0.6, 0.5]])


def test_two_calls_differ(public):
    privacy = MetricPrivacy(epsilon=0.01, kind="vectors").fit(public)
    secret = np.repeat(public[:1], 200, axis=0)
    drawn = privacy.transform(secret)
    assert not np.array_equal(drawn, privacy.transform(secret))
    assert set(map(tuple, drawn)) <= set(map(tuple, public))


def test_pandas_out_and_pipelines(public):
    import pandas as pd

    frame = pd.DataFrame(public, columns=["x", "y"])
    privacy = MetricPrivacy(epsilon=60.0, kind="vectors").set_output(transform="pandas").fit(frame)
    answer = privacy.transform(frame.iloc[::-1].reset_index(drop=True))
    assert list(answer.columns) == ["x", "y"]
    assert np.array_equal(answer, frame.iloc[::-1])
    with pytest.raises(mdp.InputError, match="'index' holds the true record"):  # the numbers of the records
        privacy.transform(frame.iloc[::-1])
    scaled = make_pipeline(StandardScaler(), MetricPrivacy(epsilon=100.0, kind="vectors")).fit(public)
    assert scaled.transform(public).shape == public.shape


def test_places_and_a_mechanism_made_before(tmp_path):
    records = mdp.data.road("gothenburg", n=12, seed=0)
    privacy = MetricPrivacy(epsilon=1.0, kind="places", outputs=4).fit(records.coordinates)
    assert privacy.mechanism_.metric == "haversine"
    assert privacy.mechanism_.certificate.n_components == 1
    assert privacy.mechanism_.outputs.n == 4
    privacy.mechanism_.save(tmp_path / "city.mdp")
    for mechanism in (privacy.mechanism_, tmp_path / "city.mdp", str(tmp_path / "city.mdp")):
        again = clone(MetricPrivacy(mechanism=mechanism, snap_limit=0.5)).fit(records.coordinates[:1])
        assert np.array_equal(again.mechanism_.table, privacy.mechanism_.table)
        assert again.transform(records.coordinates[:3]).shape == (3, 2)
    with pytest.raises(mdp.InputError, match="2 coordinates, got X with 3 columns"):
        MetricPrivacy(mechanism=privacy.mechanism_).fit(np.zeros((2, 3)))
    streets = mdp.exponential(mdp.Problem(records, epsilon=1.0, eta=1.0, outputs=4, metric="street"))
    with pytest.raises(mdp.InputError, match="cannot be snapped by the metric 'street'"):
        MetricPrivacy(mechanism=streets).fit(records.coordinates)


def test_a_gap_that_is_not_reached_is_said():
    with pytest.warns(ConvergenceWarning, match="the mechanism is private, but .* raise time_limit"):
        privacy = MetricPrivacy(time_limit=0.2, gap=1e-9).fit(load_iris().data)
    assert privacy.mechanism_.certificate.privacy.certified


@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
def test_eta_joins_all_records_and_no_less_does(metric):
    records = mdp.Records(np.random.default_rng(0).normal(size=(30, 3)), kind="vectors")
    eta = connecting_eta(records, metric)
    assert mdp.Problem(records, epsilon=1.0, eta=eta, metric=metric).graph.n_components == 1
    assert mdp.Problem(records, epsilon=1.0, eta=eta * (1 - 1e-8), metric=metric).graph.n_components == 2
    assert connecting_eta(mdp.Records([[0.0, 180.0], [0.0, -180.0]])) > 0


def test_columns_that_could_be_degrees_are_named_or_refused():
    """Degrees taken for plain coordinates would protect a hundredth of what is meant."""
    degrees = mdp.data.road("gothenburg", n=12, seed=0).coordinates
    with pytest.raises(mdp.InputError, match="kind='places' or kind='vectors'"):
        MetricPrivacy().fit(degrees)
    assert MetricPrivacy(kind="places", outputs=3, gap=0.5).fit(degrees).mechanism_.metric == "haversine"
    assert MetricPrivacy(metric="haversine", outputs=3, gap=0.5).fit(degrees).mechanism_.records.kind == "places"
    assert MetricPrivacy(metric="manhattan", outputs=3, gap=0.5).fit(degrees).mechanism_.records.kind == "vectors"
    assert MetricPrivacy(outputs=3, gap=0.5).fit(1000.0 * degrees).mechanism_.metric == "euclidean"
