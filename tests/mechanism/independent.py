"""A second checker, written apart from the package: fractions and plain loops, no shared code."""

from __future__ import annotations

import itertools
import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction


def exp_bounds(x: Fraction) -> tuple[Fraction, Fraction]:
    """Rational bounds on exp(x), x >= 0: halve until small, Taylor with remainder, square back; rounded to 400 bits."""
    halvings = 0
    while x > Fraction(1, 2):
        x /= 2
        halvings += 1
    term, total = Fraction(1), Fraction(1)
    for n in range(1, 60):
        term = term * x / n
        total += term
    low, high = total, total + 2 * term  # the rest is below the last term for x <= 1/2
    for _ in range(halvings):
        low, high = rounded(low * low, up=False), rounded(high * high, up=True)
    return low, high


def rounded(value: Fraction, *, up: bool) -> Fraction:
    scaled = value * 2**400
    whole = scaled.numerator // scaled.denominator
    return Fraction(whole + (1 if up else 0), 2**400)


def is_private(table, pairs, distances, epsilon) -> bool:
    """Check epsilon-mDP of integer weights; an entry within 2^-90 of the bound counts as broken on neither side."""
    rows = weights_of(table)
    for row in rows:
        if sum(row) != 2**63 or min(row) < 0:
            return False
    for (i, j), d in zip(pairs, distances, strict=True):
        exponent = Fraction(float(epsilon)) * Fraction(float(d))
        low = exp_bounds(exponent)[0] if exponent < 64 else Fraction(2**64)
        for a, b in zip(rows[int(i)], rows[int(j)], strict=True):
            if a > low * b or b > low * a:
                return False
    return True


EARTH_RADIUS_KM = Decimal("6371.0088")  # the mean radius that docs/file-format.md names
DIGITS = Context(prec=70)
CLOSE = Fraction(1, 10**50)  # relative; far more than 70 digits can be off


def distance_bounds(metric: str, a, b) -> tuple[Fraction, Fraction]:
    """Rational bounds on the true distance of two points, given by the exact values of their doubles."""
    a, b = ([Fraction(float(v)) for v in point] for point in (a, b))
    if metric == "manhattan":
        total = sum(abs(u - v) for u, v in zip(a, b, strict=True))
        return total, total
    if metric == "euclidean":
        squares = sum((u - v) ** 2 for u, v in zip(a, b, strict=True))
        scale = 2 ** max(0, 600 - squares.numerator.bit_length() + squares.denominator.bit_length())
        root = math.isqrt(squares.numerator * scale * scale // squares.denominator)
        return Fraction(root, scale), Fraction(root + 1, scale) if squares else Fraction(0)
    middle = great_circle(a, b)
    return middle * (1 - CLOSE), middle * (1 + CLOSE)


def great_circle(a, b) -> Fraction:
    """Length of the great circle in km, to some 60 digits: the chord gives sine and cosine of half the angle."""
    with localcontext(DIGITS):
        lat1, lat2 = (decimal(point[0]) * PI / 180 for point in (a, b))
        dlat, dlon = decimal(b[0] - a[0]) * PI / 360, decimal(b[1] - a[1]) * PI / 360
        h = sine(dlat) ** 2 + sine(PI / 2 - lat1) * sine(PI / 2 - lat2) * sine(dlon) ** 2
        s, c = h.sqrt(), max(Decimal(0), 1 - h).sqrt()
        angle = Decimal(math.atan2(float(s), float(c)))
        for _ in range(4):  # the error is cubed by each step
            angle += s * sine(PI / 2 - angle) - c * sine(angle)
        if h < Decimal("1e-60"):
            return Fraction(0)
        return Fraction(2 * EARTH_RADIUS_KM * angle)


def decimal(value: Fraction) -> Decimal:
    return DIGITS.divide(Decimal(value.numerator), Decimal(value.denominator))


def sine(x: Decimal) -> Decimal:
    x = x.remainder_near(2 * PI)
    term, total, n = x, x, 1
    while abs(term) > Decimal("1e-80"):
        term *= -x * x / ((n + 1) * (n + 2))
        n += 2
        total += term
    return total


def arctangent_of_inverse(n: int) -> Fraction:
    return sum((Fraction((-1) ** k, (2 * k + 1) * n ** (2 * k + 1)) for k in range(60)), Fraction(0))


PI = decimal(16 * arctangent_of_inverse(5) - 4 * arctangent_of_inverse(239))  # Machin


def weights_of(table) -> list[list[int]]:
    """The weights of a table, dense or sparse, as plain whole numbers."""
    if not hasattr(table, "indptr"):
        return [[int(v) for v in row] for row in table]
    background, starts = table.background.tolist(), table.indptr.tolist()
    rows = [[scale * b for b in background] for scale in table.scale.tolist()]
    for row, begin, end in zip(rows, starts, starts[1:], strict=False):
        for column, weight in zip(table.columns[begin:end].tolist(), table.weights[begin:end].tolist(), strict=True):
            row[column] += weight
    return rows


def violation(mechanism, *, rounding: float = 0.0) -> str:
    """What a mechanism claims and does not hold; empty if it holds.

    By its own epsilon, eta and metric: every pair of records that is truly within eta is private at its true distance
    (longer by a relative ``rounding``), and rows sum to 2^63. Metrics that do not follow from coordinates are judged by
    the stored pairs.
    """
    rows = weights_of(mechanism.table)
    if any(sum(row) != 2**63 or min(row) < 0 for row in rows):
        return "a row does not sum to 2^63"
    if mechanism.metric in ("euclidean", "manhattan", "haversine"):
        points = mechanism.records.coordinates
        eta = mechanism.eta if math.isinf(mechanism.eta) else Fraction(mechanism.eta)
        bounds = (
            (i, j, *distance_bounds(mechanism.metric, points[i], points[j]))
            for i, j in itertools.combinations(range(len(points)), 2)
        )
        pairs = [(i, j, high) for i, j, _, high in bounds if high <= eta]
    else:
        stored = zip(mechanism.graph.pairs.tolist(), mechanism.graph.distances.tolist(), strict=True)
        pairs = [(i, j, Fraction(d)) for (i, j), d in stored]
    for i, j, distance in pairs:
        exponent = Fraction(mechanism.epsilon) * distance * (1 + Fraction(rounding))
        # entries that are far below the bound in floats need no fractions
        rough = math.exp(float(min(exponent, Fraction(64)))) * (1 - 1e-9)
        doubtful = [(a, b) for a, b in zip(rows[i], rows[j], strict=True) if max(a, b) > rough * min(a, b)]
        if not doubtful:
            continue
        high = exp_bounds(exponent)[1] if exponent < 64 else Fraction(2**64)
        if any(a > high * b or b > high * a for a, b in doubtful):
            return f"records {i} and {j} at distance {float(distance)!r} are not {mechanism.epsilon!r}-private"
    return ""
