"""Make a synthetic country: places of towns of very different sizes, with villages and farms between them.

    python tools/make_country.py 250000 country.csv [--towns 20] [--seed 0]

Towns are as large as their rank says (the k-th has a size proportional to 1 / k). Within a town streets are laid out
in quarters, each a bent grid of its own direction, which is dense in the middle and loose at the rim: about 150
crossings per square kilometre in the middle, as in European cities. One place in eight lies outside of towns: in
villages along roads, and alone. The same numbers give the same file.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

TOWN_SHARE = 0.875
DENSITY = 150.0  # crossings per square kilometre in the middle of a town
RIM = 0.35  # of the middle's density, that a town has on average
SPREAD = 9.0  # the country's area over that of its towns
KM_PER_DEGREE = 111.195
SOUTH, WEST = 48.0, 8.0
QUARTER_KM = 1.2
JITTER = 0.18  # of the distance between two streets
VILLAGE = 40  # places, on average


def towns(n: int, n_towns: int, side: float, rng: np.random.Generator) -> np.ndarray:
    """Return places of towns in km."""
    share = 1.0 / np.arange(1, n_towns + 1)
    sizes = np.floor(n * share / share.sum()).astype(int)
    sizes[0] += n - sizes.sum()
    radius = np.sqrt(sizes / (np.pi * DENSITY * RIM))
    centres: list[np.ndarray] = []
    for size in radius:
        inner = max(side - 2.0 * size, 1.0)
        tries = size + inner * rng.random((200, 2))
        apart = [min((np.linalg.norm(t - c) for c in centres), default=np.inf) for t in tries]
        centres.append(tries[int(np.argmax(apart))])
    return np.concatenate([town(k, r, rng) + c for k, r, c in zip(sizes, radius, centres, strict=True)])


def town(n: int, radius: float, rng: np.random.Generator) -> np.ndarray:
    """Return the crossings of one town around the origin, in km."""
    n_quarters = max(1, round(np.pi * radius**2 / QUARTER_KM**2))
    middle = radius * np.sqrt(rng.random(n_quarters))[:, None] * _unit(2.0 * np.pi * rng.random(n_quarters))
    direction = rng.uniform(0.0, 0.5 * np.pi, n_quarters)
    away = np.minimum(-radius / 2.5 * np.log1p(-rng.random(4 * n + 64)), 1.3 * radius)
    points = away[:, None] * _unit(2.0 * np.pi * rng.random(len(away)))
    quarter = ((points[:, None, :] - middle[None, :, :]) ** 2).sum(axis=2).argmin(axis=1)
    density = DENSITY * np.exp(-1.2 * np.linalg.norm(middle, axis=1) / max(radius, 1e-9))
    street = 1.0 / np.sqrt(density)[quarter]
    turn = direction[quarter]
    along = (points * _unit(turn)).sum(axis=1) / street
    across = (points * _unit(turn + 0.5 * np.pi)).sum(axis=1) / street
    cell = np.column_stack((quarter, np.rint(along), np.rint(across))).astype(np.int64)
    _, first = np.unique(cell, axis=0, return_index=True)
    first = np.sort(first)[:n]
    grid = cell[first, 1:] + JITTER * rng.standard_normal((len(first), 2))
    turn, street = turn[first], street[first]
    found = street[:, None] * (grid[:, :1] * _unit(turn) + grid[:, 1:] * _unit(turn + 0.5 * np.pi))
    missing = n - len(found)  # suburbs, where the grid is full
    more = (
        1.3 * radius * np.sqrt(rng.random(max(missing, 0)))[:, None] * _unit(2.0 * np.pi * rng.random(max(missing, 0)))
    )
    return np.concatenate((found, more))


def countryside(n: int, side: float, rng: np.random.Generator) -> np.ndarray:
    """Return villages along roads, and farms, in km."""
    n_villages = max(1, int(0.7 * n / VILLAGE))
    centres = side * rng.random((n_villages, 2))
    of = rng.integers(0, n_villages, int(0.7 * n))
    road = _unit(np.pi * rng.random(n_villages))[of]
    stretch = rng.laplace(0.0, 0.25, len(of))[:, None] * road
    return np.concatenate(
        (centres[of] + stretch + 0.04 * rng.standard_normal((len(of), 2)), side * rng.random((n - len(of), 2)))
    )


def _unit(angle: np.ndarray) -> np.ndarray:
    return np.column_stack((np.cos(angle), np.sin(angle)))


def country(n: int, *, n_towns: int = 20, seed: int = 0) -> np.ndarray:
    """Return latitudes and longitudes of n places, shape (n, 2), in degrees with seven digits."""
    rng = np.random.default_rng(seed)
    in_towns = int(TOWN_SHARE * n)
    side = float(np.sqrt(SPREAD * in_towns / (DENSITY * RIM)))
    km = np.concatenate((towns(in_towns, n_towns, side, rng), countryside(n - in_towns, side, rng)))
    latitude = SOUTH + km[:, 1] / KM_PER_DEGREE
    longitude = WEST + km[:, 0] / (KM_PER_DEGREE * np.cos(np.radians(latitude)))
    return np.round(np.column_stack((latitude, longitude)), 7)


def main() -> None:
    """Write the places that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("places", type=int, help="how many places")
    parser.add_argument("file", type=Path, help="where to write them, as CSV with the columns lat and lon")
    parser.add_argument("--towns", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    places = country(arguments.places, n_towns=arguments.towns, seed=arguments.seed)
    np.savetxt(arguments.file, places, fmt="%.7f", delimiter=",", header="lat,lon", comments="")


if __name__ == "__main__":
    main()
