"""True distances to 50 digits, written apart from the package: decimals and fractions, no shared code."""

from __future__ import annotations

import decimal
import functools
import math
from decimal import Decimal
from fractions import Fraction

decimal_context = decimal.Context(prec=70, Emin=-99_999, Emax=99_999)
RADIUS_KM = Decimal("6371.0088")


def _pi() -> Decimal:
    """Machin: pi = 16 arctan(1/5) - 4 arctan(1/239)."""

    def arctan_of_inverse(n: int) -> Decimal:
        power, total, k = Decimal(1) / n, Decimal(0), 0
        while abs(power) > Decimal(10) ** -80:
            total += power / (2 * k + 1) * (-1) ** k
            power, k = power / (n * n), k + 1
        return total

    with decimal.localcontext(prec=90):
        return 16 * arctan_of_inverse(5) - 4 * arctan_of_inverse(239)


PI = _pi()


def _sine(x: Decimal) -> Decimal:
    term = total = x
    k = 1
    while term and abs(term) > abs(total) * Decimal(10) ** -72:
        term = -term * x * x / ((k + 1) * (k + 2))
        total += term
        k += 2
    return total


def _arcsine(x: Decimal) -> Decimal:
    """Solve sin(y) = x for x up to sqrt(1/2) by Newton; cos(y) = sin(pi/2 - y)."""
    y = Decimal(math.asin(x)) if x > Decimal("1e-300") else x
    for _ in range(3):  # 15, 30, 60 digits
        y -= (_sine(y) - x) / _sine(PI / 2 - y)
    return y


def great_circle(a, b) -> Decimal:
    """The great-circle distance in km of two places whose degrees are the exact values of their floats."""
    with decimal.localcontext(decimal_context):
        lat_a, lon_a, lat_b, lon_b = (Decimal(float(v)) for v in (*a, *b))
        half = PI / 360

        def haversine(north: Decimal, east: Decimal) -> Decimal:
            cosines = _sine((90 - abs(lat_a)) * 2 * half) * _sine((90 - abs(lat_b)) * 2 * half)
            return _sine(north * half) ** 2 + cosines * _sine(east * half) ** 2

        east = abs(lon_a - lon_b)
        east = min(east, 360 - east)
        h = haversine(abs(lat_a - lat_b), east)
        if h <= Decimal("0.5"):
            return RADIUS_KM * 2 * _arcsine(h.sqrt())
        return RADIUS_KM * (PI - 2 * _arcsine(haversine(abs(lat_a + lat_b), 180 - east).sqrt()))


def straight(a, b, power: int) -> Decimal:
    """The Manhattan (power 1) or Euclidean (power 2) distance of the exact values of floats, to 70 digits."""
    total = sum(abs(Fraction(float(x)) - Fraction(float(y))) ** power for x, y in zip(a, b, strict=True))
    with decimal.localcontext(decimal_context):
        value = Decimal(total.numerator) / Decimal(total.denominator)
        return value.sqrt() if power == 2 else value


def direction(a, b, name: str) -> Decimal:
    """The angle of two rows of floats, or one less its cosine."""
    with decimal.localcontext(decimal.Context(prec=150, Emin=-99_999, Emax=99_999)):
        dot = sum(Fraction(x) * Fraction(y) for x, y in zip(a, b, strict=True))
        square = sum(Fraction(x) ** 2 for x in a) * sum(Fraction(y) ** 2 for y in b)
        ratio = dot**2 / square
        cosine = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).sqrt().copy_sign(1 if dot >= 0 else -1)
        if name == "cosine":
            return 1 - cosine
        if cosine >= 0:
            return 2 * _arcsine((max(Decimal(0), 1 - cosine) / 2).sqrt())
        return PI - 2 * _arcsine((max(Decimal(0), 1 + cosine) / 2).sqrt())


def true_distance(name: str, a, b) -> Decimal:
    """The distance of two rows of floats; measured once, however many tests ask."""
    return _true_distance(name, tuple(map(float, a)), tuple(map(float, b)))


@functools.cache
def _true_distance(name: str, a: tuple[float, ...], b: tuple[float, ...]) -> Decimal:
    if name in ("angular", "cosine"):
        return direction(a, b, name)
    return great_circle(a, b) if name == "haversine" else straight(a, b, 1 if name == "manhattan" else 2)
