"""Street intersections of a real city."""

from __future__ import annotations

from functools import cache

import numpy as np

from metricdp.data.records import Records
from metricdp.data.shipped import load_shipped
from metricdp.data.streets import StreetNetwork
from metricdp.errors import InputError

CITIES = ("gothenburg",)


def road(city: str = "gothenburg", *, n: int | None = None, seed: int = 0) -> Records:
    """Return the street intersections of a city, with the streets between them.

    Gothenburg has 6,239 intersections and dead ends and 8,310 streets of 914 km, all connected, from OpenStreetMap
    (© OpenStreetMap contributors, ODbL). Lengths in km follow the drawn streets.

    Parameters
    ----------
    city
        Name of a shipped city: ``"gothenburg"``.
    n
        Number of intersections to draw, each equally likely; all of them if left out. The streets are always all.
    seed
        Seed of the draw.

    Examples
    --------
    >>> road("gothenburg", n=500)
    Records('gothenburg': 500 places, 2 dimensions, 8310 streets)
    """
    if city not in CITIES:
        raise InputError(f"no city {city!r} is shipped: choose one of {', '.join(CITIES)}, or read a file of your own")
    records = _whole(city)
    return records if n is None else records.sample(n, seed=seed)


@cache
def _whole(city: str) -> Records:
    tensors = load_shipped(city)
    coordinates = tensors["coordinates"].astype(np.float64) / 1e7
    streets = StreetNetwork(coordinates, tensors["edges"].astype(np.int32), tensors["lengths"].astype(np.float64) / 1e6)
    for array in (coordinates, streets.edges, streets.lengths):
        array.setflags(write=False)  # shared by all callers
    rows = np.arange(streets.n_nodes)
    ids = [f"{city[0]}{row:04d}" for row in rows]
    return Records(coordinates, ids=ids, name=city, streets=streets, street_nodes=rows)
