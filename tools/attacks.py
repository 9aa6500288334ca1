"""Attacks on the exact core, to be run for as long as one likes: ``python -m tools.attacks tables --count 1000``.

Random problems of the four datasets, at budgets from nearly nothing to nearly certainty, are solved by every method.

- ``tables``: every certified table is checked again by a second checker that shares no code with the library.
- ``bounds``: no lower bound of any method may exceed the loss of any certified mechanism of the same problem.

Each prints what was tried and ends with exit code 1 if anything was found. What was found when is in docs/attacks.md.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

import numpy as np
from tests.conftest import DATASETS, small_problem
from tests.mechanism.independent import is_private

import metricdp as mdp

METHODS = ("auto", "direct", "kernel", "columns", "first-order", "benders")
SECONDS_EACH = 5.0


def random_problem(rng: np.random.Generator, *, most_records: int) -> mdp.Problem:
    """Return a problem of random size and budget; some have records in one place, some a prior with zeros."""
    dataset = DATASETS[rng.integers(len(DATASETS))]
    n = int(rng.integers(3, most_records + 1))
    outputs = int(rng.integers(2, n + 1))
    exponent = float(10.0 ** rng.uniform(-2.0, 1.5))
    problem = small_problem(dataset, int(rng.integers(1 << 30)), n=n, outputs=outputs, exponent=exponent)
    records = problem.records
    points, prior = records.coordinates.copy(), np.array(records.prior)
    if rng.random() < 0.2:
        points[rng.integers(n)] = points[rng.integers(n)]
    if rng.random() < 0.2:
        prior[rng.integers(n)] = 0.0
        prior[rng.integers(n)] += 1e-9
    changed = mdp.Records(points, prior=prior, kind=records.kind, name=records.name)
    return mdp.Problem(changed, epsilon=problem.epsilon, eta=problem.eta, outputs=outputs, seed=int(rng.integers(99)))


def solved(problem: mdp.Problem, method: str, gap: float) -> mdp.Result | None:
    """Return what a method finds; nothing if it refuses the problem."""
    try:
        return mdp.solve(problem, method=method, gap=gap, time_limit=SECONDS_EACH)
    except mdp.MetricDPError as error:
        print(f"  {method}: {error}", file=sys.stderr)
        return None


def attack_tables(count: int, rng: np.random.Generator) -> int:
    """Check certified tables by the independent checker; return the number that do not pass."""
    n_tables = n_compared = n_broken = 0
    begin = time.monotonic()
    while n_tables < count:
        problem = random_problem(rng, most_records=30)
        result = solved(problem, METHODS[n_tables % len(METHODS)], float(10.0 ** rng.uniform(-4, -1)))
        if result is None:
            continue
        made = result.mechanism
        n_tables += 1
        n_compared += 2 * made.graph.n_pairs * made.outputs.n
        if not is_private(made.table, made.graph.pairs, made.graph.distances, made.epsilon):
            n_broken += 1
            print(f"BROKEN: {problem!r} by {result.method}")
    print(
        f"{n_broken} of {n_tables:,} certified tables broken in {n_compared:,} comparisons "
        f"({time.monotonic() - begin:.0f} s)"
    )
    return n_broken


def attack_bounds(count: int, rng: np.random.Generator) -> int:
    """Compare the lower bounds of all methods with the least certified loss; return the number above it."""
    n_bounds = n_broken = 0
    begin = time.monotonic()
    while n_bounds < count:
        problem = random_problem(rng, most_records=20)
        found = {method: solved(problem, method, 1e-5) for method in METHODS}
        results = {method: result for method, result in found.items() if result is not None}
        least = min(result.loss for result in results.values())
        for method, result in results.items():
            n_bounds += 1
            if result.lower_bound > least:
                n_broken += 1
                print(f"BROKEN: {problem!r} by {method}: bound {result.lower_bound!r}, loss {least!r}")
    print(f"{n_broken} of {n_bounds:,} lower bounds above a certified loss ({time.monotonic() - begin:.0f} s)")
    return n_broken


def main() -> None:
    """Run one attack."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("attack", choices=("tables", "bounds"))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    words = parser.parse_args()
    warnings.simplefilter("error")
    attack = {"tables": attack_tables, "bounds": attack_bounds}[words.attack]
    sys.exit(1 if attack(words.count, np.random.default_rng(words.seed)) else 0)


if __name__ == "__main__":
    main()
