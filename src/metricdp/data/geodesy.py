"""Distances on the Earth's surface."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

EARTH_RADIUS_KM = 6371.0088  # mean radius of the Earth, as everywhere in metricdp
# Relative error of haversine_km at most, with u = 2^-53 and sines and arcsines good to 4 units in the last place (8u):
# a difference of degrees 2u, in radians 5u, its sine 13u (the condition of the sine is at most 1 up to 90 degrees),
# its square 27u, times two cosines (13u each, being sines of what is missing to 90 degrees) 55u, the sum 56u, the root
# 29u, the arcsine below sqrt(1/2) 1.28 * 29u + 8u, times the radius 48u. Beyond a quarter of the circle the way to the
# antipode is off by 107u radians, and half the circle less it by 72u of what remains. 128u leaves room.
HAVERSINE_ROUNDING = 2.0**-46
NEGLIGIBLE_SQUARED_SINE = 1e-290  # products of smaller ones lose digits; no two places on Earth are 1e-142 km apart


def haversine_km(a: ArrayLike, b: ArrayLike) -> NDArray[np.float64]:
    """Return the great-circle distance between places, element by element.

    The haversine formula ``2 R arcsin(sqrt(sin²(Δlat/2) + cos(lat_a) cos(lat_b) sin²(Δlon/2)))``, measured from the
    antipode where that is nearer. Nowhere on Earth is it off by more than a relative ``HAVERSINE_ROUNDING``: not for
    places that are millimetres apart, across the antimeridian (longitudes -180 and 180 are one), at the poles (where
    all longitudes are one) or opposite one another. It is symmetric to the last bit: absolute differences, sums and
    products, which all ignore the order of ``a`` and ``b``.

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
    >>> float(haversine_km([10.0, -180.0], [10.0, 180.0])), float(haversine_km([90.0, 0.0], [90.0, 77.0]))
    (0.0, 0.0)
    """
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    north = np.abs(first[..., 0] - second[..., 0])
    east = _degrees_east(first[..., 1], second[..., 1])
    cosines = _cosine(first[..., 0]) * _cosine(second[..., 0])
    haversine = _half_sine(north) ** 2 + cosines * _half_sine(east) ** 2
    haversine = np.where(haversine < NEGLIGIBLE_SQUARED_SINE, 0.0, haversine)
    angle = 2.0 * np.arcsin(np.sqrt(np.minimum(haversine, 1.0)))
    is_far = haversine > 0.5
    if is_far.any():
        # near 1 the arcsine loses half of the digits: the haversine of the way to the antipode does not
        across = _half_sine(np.abs(first[..., 0] + second[..., 0])) ** 2 + cosines * _half_sine(180.0 - east) ** 2
        angle = np.where(is_far, np.pi - 2.0 * np.arcsin(np.sqrt(np.minimum(across, 1.0))), angle)
    return np.asarray(EARTH_RADIUS_KM * angle)


def _degrees_east(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the difference of two longitudes, the shorter way round, to the last digits of however small it is."""
    difference = np.abs(a - b)
    is_opposite = a * b < 0
    if not is_opposite.any():
        return difference
    # not 360 less the difference, which has been rounded already: what is missing to 180 is exact where it is small
    over_the_antimeridian = np.abs((180.0 - np.abs(a)) + (180.0 - np.abs(b)))
    return np.where(is_opposite, np.minimum(difference, over_the_antimeridian), difference)


def _half_sine(degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.sin(np.radians(degrees) / 2.0)


def _cosine(latitude: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cosine, which is 0 at a pole, and near it has all its digits."""
    return np.sin(np.radians(90.0 - np.abs(latitude)))
