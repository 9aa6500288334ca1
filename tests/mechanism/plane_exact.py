"""The plane's promise in fractions, written apart from the package: splines by their values."""

from __future__ import annotations

import decimal
from decimal import Decimal
from fractions import Fraction
from itertools import product

from tests.metric.precise import PI, RADIUS_KM, _arcsine, _sine

STEPS = 2**31
BITS = 189  # of the fractions of probabilities


def hat(t: Fraction) -> Fraction:
    """The quadratic B-spline on whole knots, centred at 0: its three pieces."""
    t = abs(t)
    if t <= Fraction(1, 2):
        return Fraction(3, 4) - t * t
    return (Fraction(3, 2) - t) ** 2 / 2 if t < Fraction(3, 2) else Fraction(0)


def distribution(table, cells, x, y):
    """The exact probabilities at the point (x, y), in cells from the low corner, as whole numbers of 2^-189."""
    total = [0] * table.shape[1]
    for i, j in product(range(int(x), min(int(x) + 3, cells[0] + 2)), range(int(y), min(int(y) + 3, cells[1] + 2))):
        # node i is the centre of cell i - 1
        across, along = (hat(v - (n - Fraction(1, 2))) * 2**63 for v, n in ((x, i), (y, j)))
        assert across.denominator == along.denominator == 1
        weight = int(across) * int(along)
        if weight:
            row = table[i * (cells[1] + 2) + j].tolist()
            total = [t + weight * z for t, z in zip(total, row, strict=True)]
    return total


def as_lists(table):
    """The rows of a table as whole numbers without bounds."""
    return [row.tolist() for row in table]


def chances(rows, cells, point):
    """What `distribution` returns, from the steps of a point: all in whole numbers, for many points."""
    ways = []
    for step, n in zip(point, cells, strict=True):
        cell = min(step // STEPS, n - 1)
        weights = []
        for i in range(cell, cell + 3):
            away = abs(2 * step - (2 * i - 1) * STEPS)  # from the node, in half steps
            weights.append((3 * STEPS**2 - away**2) // 2 if away <= STEPS else (3 * STEPS - away) ** 2 // 4)
        ways.append((cell, weights))
    (i, across), (j, along) = ways
    total = [0] * len(rows[0])
    for a, first in enumerate(across):
        for b, second in enumerate(along):
            weight = first * second
            if weight:
                row = rows[(i + a) * (cells[1] + 2) + j + b]
                total = [t + weight * z for t, z in zip(total, row, strict=True)]
    return total


def bernstein(values):
    """Coefficients of degree 2 from the values at 0, 1/2 and 1."""
    a, b, c = values
    return [a, 2 * b - (a + c) / 2, c]


def slope(t: Fraction) -> Fraction:
    """The derivative of `hat`."""
    sign = 1 if t > 0 else -1
    s = abs(t)
    if s <= Fraction(1, 2):
        return -2 * t
    return -sign * (Fraction(3, 2) - s) if s < Fraction(3, 2) else Fraction(0)


def is_private(table, cells, epsilon, sides) -> bool:
    """Whether every Bernstein coefficient of every cell and output satisfies the inequality, in fractions."""
    weights = [-(-(1 << 64) // (Fraction(epsilon) * side) ** 2) for side in sides]
    rows = [[[int(z) for z in table[i * (cells[1] + 2) + j]] for j in range(cells[1] + 2)] for i in range(cells[0] + 2)]
    half = [Fraction(0), Fraction(1, 2), Fraction(1)]
    value = [[hat(t - k - Fraction(1, 2)) for k in (-1, 0, 1)] for t in half]
    change = [[slope(t - k - Fraction(1, 2)) for k in (-1, 0, 1)] for t in half]
    for i, j, k in product(range(cells[0]), range(cells[1]), range(table.shape[1])):
        z = [[rows[i + a][j + b][k] for b in range(3)] for a in range(3)]

        def at(first, second, z=z):
            return [[sum(f[a] * s[b] * z[a][b] for a in range(3) for b in range(3)) for s in second] for f in first]

        def coefficients(grid):
            by_rows = [bernstein(row) for row in grid]
            return [bernstein(column) for column in zip(*by_rows, strict=True)]

        u, g, h = (coefficients(at(*both)) for both in ((value, value), (change, value), (value, change)))
        for p, q in product(range(3), range(3)):
            if weights[0] * g[p][q] ** 2 + weights[1] * h[p][q] ** 2 > u[p][q] ** 2 * 2**64:
                return False
    return True


def great_circle(a, b) -> Decimal:
    """The great-circle distance in km of two places given as fractions of degrees."""
    with decimal.localcontext(prec=60):
        (lat_a, lon_a), (lat_b, lon_b) = ([Decimal(v.numerator) / Decimal(v.denominator) for v in p] for p in (a, b))
        half = PI / 360
        cosines = _sine((90 - abs(lat_a)) * 2 * half) * _sine((90 - abs(lat_b)) * 2 * half)
        squared = _sine(abs(lat_a - lat_b) * half) ** 2 + cosines * _sine(abs(lon_a - lon_b) * half) ** 2
        return 2 * RADIUS_KM * _arcsine(squared.sqrt())


def factor(epsilon: float, distance: Decimal) -> Fraction:
    """exp(epsilon distance), rounded down by 50 digits."""
    with decimal.localcontext(prec=60):
        return Fraction((Decimal(epsilon) * distance).exp() * (1 - Decimal(10) ** -50))


def triangle_at(cells, x, y):
    """The corners (row, column) of the triangle around (x, y), in cells, and their weights: by trying both kinds."""
    row = min(int(x), cells[0] - 1)
    up = x - row

    def across(r, column):
        return column - (Fraction(1, 4) if r % 2 == 0 else Fraction(3, 4))

    # two corners on one row of nodes, and one on the other, above or below their middle
    for flat, tip, weight in ((row, row + 1, up), (row + 1, row, 1 - up)):
        for column in range(int(y) - 1, int(y) + 3):
            middle = across(flat, column) + Fraction(1, 2)
            other = next(c for c in range(column - 1, column + 3) if across(tip, c) == middle)
            right = y - weight * middle - (1 - weight) * across(flat, column)
            left = 1 - weight - right
            if left >= 0 and right >= 0:
                corners = {(flat, column): left, (flat, column + 1): right, (tip, other): weight}
                return {corner: share for corner, share in corners.items() if share}
    raise AssertionError((x, y))


def triangle_chances(rows, cells, point):
    """The exact probabilities at a point in steps, over triangles."""
    total = [Fraction(0)] * len(rows[0])
    for (i, j), weight in triangle_at(cells, *(Fraction(v, STEPS) for v in point)).items():
        total = [t + weight * z for t, z in zip(total, rows[i * (cells[1] + 2) + j], strict=True)]
    return total


def is_private_over_triangles(table, cells, epsilon, sides) -> bool:
    """Whether no output is steeper in any triangle than epsilon times its least corner, from the plane through them."""
    weights = [-(-(1 << 64) // (Fraction(epsilon) * side) ** 2) for side in sides]
    rows = as_lists(table)
    for i, j, tip in product(range(cells[0] + 1), range(cells[1] + 1), (-1, 1)):
        if not 0 <= i + tip <= cells[0]:
            continue
        # the node in the other row that is half a cell further
        other = j if i % 2 == 1 else j + 1
        corners = [rows[r * (cells[1] + 2) + c] for r, c in ((i, j), (i, j + 1), (i + tip, other))]
        for left, right, top in zip(*corners, strict=True):
            up, along = top - Fraction(left + right, 2), right - left
            if weights[0] * up**2 + weights[1] * along**2 > min(left, right, top) ** 2 * 2**64:
                return False
    return True
