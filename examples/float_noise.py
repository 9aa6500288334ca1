"""What planar Laplace noise tells beyond its promise when it is drawn in floats, and a region's mechanism does not.

Two people, 1 km apart, on a local map in km; epsilon is 1 per km, so that no report may be more than e = 2.72 times as
likely from one as from the other. Noise as it is usually written (Andres et al., CCS 2013) is added to each.

1. **Low-order bits.** A float near 1 is a whole number of 2^-53. The sum of 1 and noise near -1 is near 0, where floats
   are far finer, but it stays a whole number of 2^-53: who is at 1 can only give every 64th float from 8 to 16 m.
   Who is near 0 gives all of them. So nearly every report near 0 tells which of the two it was, with certainty.
2. **Finite range.** A radius drawn from a double between 0 and 1 is at most about 40 / epsilon: reports farther away
   rule a person out.

The published algorithm truncates and rounds to a grid against this, at a price of budget and care that few pay.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from scipy.special import lambertw

import metricdp as mdp

EPSILON, N = 1.0, 4_000_000
ALICE, BOB = (0.003, 0.2), (1.003, 0.2)  # km east and north of a corner of the map
STEP = Fraction(1, 2**53)  # BOB's first coordinate and noise near it are whole numbers of it


def radius(p: np.ndarray) -> np.ndarray:
    """Return the distance that noise stays below with probability p."""
    return -(lambertw((p - 1.0) / np.e, -1).real + 1.0) / EPSILON


def noisy(point: tuple[float, float], rng: np.random.Generator) -> np.ndarray:
    """Return a point with planar Laplace noise, in doubles: reports east of the corner, by less than 16 m."""
    angle, away = rng.uniform(0.0, 2.0 * np.pi, N), radius(rng.random(N))
    east, north = point[0] + away * np.cos(angle), point[1] + away * np.sin(angle)
    near = (east > 2.0**-7) & (east < 2.0**-6)
    return np.column_stack((east, north))[near]


def on_the_grid(reports: np.ndarray) -> float:
    """Return which share of the reports is a whole number of 2^-53 to the east."""
    return float(np.mean([(Fraction(x) / STEP).denominator == 1 for x in reports[:, 0].tolist()]))


def main() -> None:
    """Count what the reports of both look like, and compare with a region's mechanism at the same two points."""
    rng = np.random.default_rng(0)  # of an attack, not of a mechanism
    found = {name: noisy(point, rng) for name, point in (("Alice", ALICE), ("Bob", BOB))}
    for name, reports in found.items():
        share = on_the_grid(reports)
        print(f"{name}: {len(reports):,} of {N:,} reports 8 to 16 m east, {100 * share:.2f} % on Bob's grid")
    alices = next(x for x in found["Alice"][:, 0].tolist() if (Fraction(x) / STEP).denominator > 1)
    print(f"The report {alices.hex()} cannot come from Bob at {BOB[0].hex()}: the ratio is infinite, not e = 2.72.")
    largest = radius(np.array([np.nextafter(1.0, 0.0)]))[0]
    print(f"No noise is longer than {largest:.1f} / epsilon: reports farther away rule a person out.")

    box = mdp.data.region(-2.0, -2.0, 3.0, 3.0, spacing=0.5, kind="vectors")
    mechanism = mdp.solve_plane(mdp.PlaneProblem(box, epsilon=EPSILON), max_steps=200, bound=False).mechanism
    one, other = mechanism.probabilities_at([ALICE, BOB])
    worst = max(float((one / other).max()), float((other / one).max()))
    print(f"A region's mechanism: {mechanism.outputs.n} outputs, each at most {worst:.3f} times as likely from one.")
    print(mechanism.certificate.lines()[0])


if __name__ == "__main__":
    main()
