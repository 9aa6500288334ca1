"""Records in shapes where the promise for points is hard to keep: long ways round, gaps, poles, the date line."""

from __future__ import annotations

import numpy as np

import metricdp as mdp

KM = 1.0 / 111.195  # degrees of latitude


def horseshoe(n: int = 60) -> mdp.Records:
    """Two parallel arms 0.35 km apart, joined far away: close together, and a long way round along neighbours."""
    half = n // 2
    along = np.linspace(0.0, 4.0, half)
    arms = [np.column_stack((along, np.zeros(half))), np.column_stack((along, np.full(half, 0.35)))]
    bend = np.column_stack((np.full(3, 4.1), np.linspace(0.08, 0.27, 3)))
    return places(np.concatenate([*arms, bend]), 57.7, 12.0)


def two_groups(n: int = 80, gap: float = 0.7) -> mdp.Records:
    """Two groups of places with a river between them."""
    rng = np.random.default_rng(5)
    here = rng.uniform([0.0, 0.0], [1.5, 1.0], (n // 2, 2))
    there = rng.uniform([0.0, 1.0 + gap], [1.5, 2.0 + gap], (n // 2, 2))
    return places(np.concatenate((here, there)), 41.9, 12.5)


def date_line(n: int = 80) -> mdp.Records:
    """Places on both sides of the antimeridian."""
    return places(np.random.default_rng(6).uniform(-0.8, 0.8, (n, 2)), -16.8, 180.0)


def pole(n: int = 80) -> mdp.Records:
    """Places around the north pole."""
    rng = np.random.default_rng(7)
    latitude = 90.0 - 1.2 * KM * np.sqrt(rng.uniform(size=n))
    return mdp.Records(np.column_stack((latitude, rng.uniform(-180.0, 180.0, n))), name="pole")


def city(n: int = 150) -> mdp.Records:
    """The intersections of a real city around its middle."""
    whole = mdp.data.road("gothenburg")
    middle = np.median(whole.coordinates, axis=0, keepdims=True)
    distances = mdp.metric.as_metric("haversine", whole).to_points(whole, middle)[:, 0]
    return whole.select(np.sort(np.argsort(distances)[:n]))


def places(km: np.ndarray, latitude: float, longitude: float) -> mdp.Records:
    """Places given in km north and east of a point."""
    degrees = np.column_stack((latitude + km[:, 0] * KM, longitude + km[:, 1] * KM / np.cos(np.radians(latitude))))
    degrees[:, 1] = np.remainder(degrees[:, 1] + 180.0, 360.0) - 180.0
    return mdp.Records(degrees, name="shape")


SHAPES = {
    # name: (records, eta, snap limit) in km
    "horseshoe": (horseshoe, 0.3, 0.3),
    "two groups, cells apart": (two_groups, 0.35, 0.15),
    "date line": (date_line, 0.45, 0.3),
    "pole": (pole, 0.6, 0.4),
    "city": (city, 0.45, 0.2),
}


def mechanism_of(name: str, *, epsilon: float = 5.0) -> tuple[mdp.Mechanism, float]:
    """A mechanism with tight rows on one of the shapes, and the snap limit to use with it."""
    make, eta, limit = SHAPES[name]
    problem = mdp.Problem(make(), epsilon=epsilon, eta=eta, outputs=12, loss="distance")
    return mdp.solve(problem, method="kernel", gap=0.99).mechanism, limit
