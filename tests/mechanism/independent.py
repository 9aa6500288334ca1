"""A second checker, written apart from the package: fractions and plain loops, no shared code."""

from __future__ import annotations

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
    rows = [[int(v) for v in row] for row in table]
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
