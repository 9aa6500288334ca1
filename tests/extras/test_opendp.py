"""A mechanism as a measurement of OpenDP: drawn by us, composed and accounted for there."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import metricdp as mdp
from metricdp.errors import MissingExtraError
from metricdp.extras import make_measurement
from metricdp.extras.measurement import privacy_map


@pytest.fixture(scope="module")
def mechanism():
    return mdp.exponential(mdp.Problem(mdp.data.grid(3, 3), epsilon=0.7, eta=1.0, outputs=9))


@pytest.fixture
def dp():
    from opendp import prelude

    prelude.enable_features("contrib", "honest-but-curious")
    yield prelude
    prelude.disable_features("contrib", "honest-but-curious")


def test_draws_and_map(dp, mechanism):
    measurement = make_measurement(mechanism)
    assert {measurement("r00c00") for _ in range(50)} <= set(mechanism.records.ids)
    assert measurement.map(0.5) == pytest.approx(0.35)
    assert measurement.map(0) == 0.0
    assert measurement.map(math.inf) == math.inf
    assert measurement.check(1.0, 0.7000001)
    assert not measurement.check(1.0, 0.69)
    assert measurement.input_domain.member("r00c00")
    assert not measurement.input_domain.member("nobody")


def test_composition(dp, mechanism):
    measurement = make_measurement(mechanism)
    both = dp.c.make_composition([measurement, make_measurement(mechanism)])
    assert len(both("r01c01")) == 2
    assert both.map(1.0) == pytest.approx(1.4)


def test_errors_come_through(dp, mechanism):
    measurement = make_measurement(mechanism)
    with pytest.raises(dp.OpenDPException, match="id 1 of 1 is not a record"):
        measurement("nobody")
    with pytest.raises(dp.OpenDPException, match="zero or more, got -1"):
        measurement.map(-1.0)


def test_opendp_is_asked_for_trust(dp, mechanism):
    dp.disable_features("honest-but-curious")
    with pytest.raises(dp.OpenDPException, match="honest-but-curious"):
        make_measurement(mechanism)
    dp.enable_features("honest-but-curious")


def test_the_map_is_never_too_small(mechanism):
    for d in (0.1, 1e-300, 3, np.float32(0.3), Fraction(1, 3)):
        exact = Fraction(d) if isinstance(d, int | Fraction) else Fraction(float(d))
        assert Fraction(privacy_map(mechanism, d)) >= Fraction(mechanism.epsilon) * exact
    for bad in (-1, math.nan, "1", True, None):
        with pytest.raises(mdp.InputError, match="zero or more"):
            privacy_map(mechanism, bad)


def test_the_map_bounds_every_pair_at_its_path_distance(mechanism):
    """Max divergence between the reports of any two records, against the shortest path in the graph."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import shortest_path

    graph, n = mechanism.graph, mechanism.records.n
    ways = coo_array((graph.distances, (graph.pairs[:, 0], graph.pairs[:, 1])), shape=(n, n))
    paths = shortest_path(ways.tocsr(), directed=False)
    logs = np.log(mechanism.probabilities)
    for i in range(n):
        for j in range(n):
            assert (logs[i] - logs[j]).max() <= privacy_map(mechanism, paths[i, j]) + 1e-12


def test_without_opendp(mechanism, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "opendp.prelude", None)
    with pytest.raises(MissingExtraError, match="opendp"):
        make_measurement(mechanism)
