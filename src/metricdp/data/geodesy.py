"""Distances on the Earth's surface."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

EARTH_RADIUS_KM = 6371.0088  # mean radius of the Earth, as everywhere in metricdp


def haversine_km(a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    """Give the great-circle distance between places, element by element.

    The haversine formula ``2 R arcsin(sqrt(sin²(Δlat/2) + cos(lat_a) cos(lat_b) sin²(Δlon/2)))``, which stays
    accurate for places that are close together. It is symmetric to the last bit: absolute differences and a
    product, which both ignore the order of ``a`` and ``b``.

    Parameters
    ----------
    a, b
        Latitude and longitude in degrees in the last axis, shapes (..., 2) that broadcast.

    Returns
    -------
    Distances in km, the broadcast shape without its last axis.

    Examples
    --------
    >>> gothenburg, rome = [57.7089, 11.9746], [41.9028, 12.4964]
    >>> round(float(haversine_km(gothenburg, rome)), 2)
    1757.95
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    half_difference = np.radians(np.abs(first - second)) / 2.0
    squared_sine = np.sin(half_difference) ** 2
    cosines = np.cos(np.radians(first[..., 0])) * np.cos(np.radians(second[..., 0]))
    haversine = squared_sine[..., 0] + cosines * squared_sine[..., 1]
    return np.asarray(2.0 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.clip(haversine, 0.0, 1.0))))
