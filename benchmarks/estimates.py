"""Estimates of a population from reports, beside those of libqif and multi-freq-ldpy, on real priors.

    METRICDP_BENCH_PARTS="agreement error" python -m benchmarks estimates [--sizes N ...]

Agreement: the same table and the same reports, given to our estimate and to the others' iterative Bayesian update.
Error: mechanisms at one epsilon, each with our estimate, and generalized randomized response with the estimators of
multi-freq-ldpy. The populations are real: how many of Gothenburg's intersections are nearest to each of 150 of them,
and how often English words are used. No mechanism was made for them: the priors of all problems are uniform. Sizes are
numbers of reports; draws are fixed.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import eye_array, kron, vstack
from scipy.spatial import cKDTree

import metricdp as mdp
from benchmarks.tables import table
from metricdp.evaluate.compare import BASELINES
from metricdp.statistics import ReportCounts
from metricdp.statistics.channel import Channel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from benchmarks.registry import Keep

PARTS = ("agreement", "error")
SIZES = (1_000, 20_000, 1_000_000)
N_PLACES, N_WORDS, N_DRAWS = 150, 100, 3
PLACE_EPSILONS, PLACE_ETA = (3.5, 7.0), 50.0  # all pairs are neighbours: the same promise for all mechanisms
WORD_EPSILONS, WORD_ETA = (1.0,), 1e3
RIVALS = ("exponential", "planar-laplace-snapped", "planar-laplace-remapped")
SMALL_DEFICIT = 1e-3  # of the log-likelihood of all reports, where estimates are compared with one another
MAX_UPDATES = 20_000


def run(*, keep: Keep, sizes: Sequence[int] | None = None) -> dict[str, Any]:
    wanted = os.environ.get("METRICDP_BENCH_PARTS", " ".join(PARTS)).split()
    rows, texts = [], []
    for part in wanted:
        found, text = {"agreement": agreement, "error": error}[part](sizes or SIZES, keep)
        rows += found
        texts.append(text)
        print(text, flush=True)
    return {"rows": rows, "markdown": "\n".join(texts)}


def places() -> tuple[mdp.Records, NDArray[np.float64]]:
    """Return intersections of Gothenburg, and the share of all its intersections that each of them is nearest to."""
    every = mdp.data.road("gothenburg")
    records = mdp.data.road("gothenburg", n=N_PLACES, seed=0)
    scale = np.array([1.0, np.cos(np.radians(records.coordinates[:, 0].mean()))])
    nearest = cKDTree(records.coordinates * scale).query(every.coordinates * scale)[1]
    return records, np.bincount(nearest, minlength=records.n) / every.n


def words() -> tuple[mdp.Records, NDArray[np.float64]]:
    """Return words without their frequencies, and the frequencies."""
    found = mdp.data.words(n=N_WORDS, seed=0)
    return found.with_prior(np.ones(found.n)), found.prior


def randomized_response(n: int, epsilon: float) -> NDArray[np.float64]:
    """Return generalized randomized response among n values: the true one is exp(epsilon) times as likely as others."""
    matrix = np.ones((n, n)) + np.expm1(epsilon) * np.eye(n)
    return matrix / matrix.sum(axis=1, keepdims=True)


def counted(mechanism: mdp.Mechanism, counts: NDArray[np.int64]) -> ReportCounts:
    return ReportCounts(mechanism).add_outputs(np.repeat(np.arange(len(counts)), counts))


def rows_of(mechanism: mdp.Mechanism) -> NDArray[np.float64]:
    """Return a mechanism's probabilities, rows summing to 1 in floats."""
    matrix = mechanism.block()
    return matrix / matrix.sum(axis=1, keepdims=True)


def by_libqif(matrix: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return libqif's iterative Bayesian update, to a change of 1e-9."""
    import qif

    return np.asarray(qif.channel.iterative_bayesian_update(matrix, shares, max_diff=1e-9, max_iter=MAX_UPDATES)[0])


def by_multi_freq(matrix: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return multi-freq-ldpy's; it multiplies by the matrix where its transpose belongs: for symmetric ones only."""
    from multi_freq_ldpy.estimators.Histogram_estimator import IBU

    if matrix.shape[0] != matrix.shape[1] or not np.allclose(matrix, matrix.T, rtol=1e-9, atol=0.0):
        raise ValueError("multi-freq-ldpy estimates by symmetric matrices only")
    return IBU(len(matrix), np.ascontiguousarray(matrix), shares, MAX_UPDATES, 1e-9, "max_abs")


def agreement(sizes: Sequence[int], keep: Keep) -> tuple[list[dict[str, Any]], str]:
    """Give one table and the same reports to each, and compare likelihoods and what is said about the reports."""
    records, truth = places()
    problem = mdp.Problem(records, epsilon=PLACE_EPSILONS[0], eta=PLACE_ETA, outputs=60)
    square = mdp.Problem(mdp.data.grid(6, 6), epsilon=2.0, eta=10.0)  # the least distance is 1
    response = randomized_response(36, 1.99)
    hilly = np.random.default_rng(2).dirichlet(np.ones(36))
    cases: list[tuple[str, mdp.Mechanism, NDArray[np.float64], dict[str, Callable[..., NDArray[np.float64]]]]] = [
        ("optimal, 150 x 60", mdp.solve(problem, gap=0.05).mechanism, truth, {"libqif": by_libqif}),
        ("exponential, 150 x 60", BASELINES["exponential"](problem, None)[0], truth, {"libqif": by_libqif}),
        (
            "randomized response, 36 x 36",
            mdp.Mechanism.from_matrix(square, response),
            hilly,
            {"libqif": by_libqif, "multi-freq-ldpy": by_multi_freq},
        ),
    ]
    rows = []
    for name, mechanism, population, others in cases:
        matrix = rows_of(mechanism)
        for n in sizes:
            counts = np.random.default_rng([n, 1]).multinomial(n, population @ matrix)
            begin = time.process_time()
            ours = mdp.estimate(mechanism, counted(mechanism, counts), max_deficit=SMALL_DEFICIT).distribution
            own_seconds = time.process_time() - begin
            for other, estimate in others.items():
                estimate(matrix, counts / n)  # compiled and loaded
                begin = time.process_time()
                theirs = estimate(matrix, counts / n)
                row = {
                    "part": "agreement",
                    "mechanism": name,
                    "n": n,
                    "other": other,
                    "ahead": likelihood(matrix, counts, ours) - likelihood(matrix, counts, theirs),
                    "reports_apart": 0.5 * float(np.abs((ours - theirs) @ matrix).sum()),
                    "shares_apart": 0.5 * float(np.abs(ours - theirs).sum()),
                    "seconds": own_seconds,
                    "their_seconds": time.process_time() - begin,
                }
                rows.append(row)
                keep([row])
                print(row, flush=True)
    head = (
        "table",
        "reports",
        "other",
        "our log-likelihood minus theirs",
        "reports apart",
        "shares apart",
        "s",
        "s other",
    )
    return rows, table(
        head,
        [
            [
                row["mechanism"],
                f"{row['n']:,}",
                row["other"],
                f"{row['ahead']:+.2g}",
                f"{row['reports_apart']:.1e}",
                f"{row['shares_apart']:.1e}",
                f"{row['seconds']:.2f}",
                f"{row['their_seconds']:.2f}",
            ]
            for row in rows
        ],
    )


def likelihood(matrix: NDArray[np.float64], counts: NDArray[np.int64], theta: NDArray[np.float64]) -> float:
    """Return the log-likelihood of all reports."""
    seen = counts > 0
    return float(counts[seen] @ np.log((theta / theta.sum() @ matrix)[seen]))


def error(sizes: Sequence[int], keep: Keep) -> tuple[list[dict[str, Any]], str]:
    """Compare how far estimates are from real populations, at the same epsilon and number of reports."""
    rows = []
    for name, (records, truth), epsilons, eta, rivals in (
        ("Gothenburg", places(), PLACE_EPSILONS, PLACE_ETA, RIVALS),
        ("words", words(), WORD_EPSILONS, WORD_ETA, RIVALS[:1]),
    ):
        for epsilon in epsilons:
            problem = mdp.Problem(records, epsilon=epsilon, eta=eta)
            made = {"optimal (gap 5 %)": mdp.solve(problem, gap=0.05, time_limit=60).mechanism}
            made |= {rival: BASELINES[rival](problem, None)[0] for rival in rivals}
            away = mdp.problem.loss.distance_loss(records, made[rivals[0]].outputs, problem.metric)
            for n in sizes:
                found = {rival: _errors(mechanism, truth, away, n) for rival, mechanism in made.items()}
                near, far = (epsilon * float(d) for d in (problem.graph.distances.min(), away.max()))
                for words_of, budget in (("same promise", near), ("epsilon x diameter", far)):
                    found |= {f"{kind}, {words_of}": one for kind, one in _response(budget, truth, away, n).items()}
                for rival, errors in found.items():
                    row = {"part": "error", "data": name, "epsilon": epsilon, "n": n, "mechanism": rival, **errors}
                    rows.append(row)
                    keep([row])
                    print(row, flush=True)
    return rows, "\n".join(_table([row for row in rows if row["data"] == data]) for data in ("Gothenburg", "words"))


def _table(rows: list[dict[str, Any]]) -> str:
    """Return a row for each epsilon and number of reports: total variation and earth mover's distance of each."""
    names = list(dict.fromkeys(row["mechanism"] for row in rows))
    cases = list(dict.fromkeys((row["data"], row["epsilon"], row["n"]) for row in rows))
    cells = {
        (row["data"], row["epsilon"], row["n"], row["mechanism"]): f"{row['variation']:.3f}, {row['moved']:.3f}"
        for row in rows
    }
    return table(
        ("population", "epsilon", "reports", *names),
        [[data, f"{e:g}", f"{n:,}", *(cells[data, e, n, name] for name in names)] for data, e, n in cases],
    )


def _errors(
    mechanism: mdp.Mechanism, truth: NDArray[np.float64], away: NDArray[np.float64], n: int
) -> dict[str, float]:
    chances = Channel(mechanism.table).chances(truth)
    found = []
    for seed in range(N_DRAWS):
        counts = np.random.default_rng([n, seed]).multinomial(n, chances / chances.sum())
        found.append(mdp.estimate(mechanism, counted(mechanism, counts)).distribution)
    return _apart(found, truth, away)


def _response(
    budget: float, truth: NDArray[np.float64], away: NDArray[np.float64], n: int
) -> dict[str, dict[str, float]]:
    """Return the errors of randomized response by both estimators of multi-freq-ldpy, where it is installed."""
    try:
        from multi_freq_ldpy.estimators.Histogram_estimator import MI
    except ImportError:
        return {}
    matrix = randomized_response(len(truth), budget)
    by_inverse, by_update = [], []
    for seed in range(N_DRAWS):
        counts = np.random.default_rng([n, seed]).multinomial(n, truth @ matrix)
        inverted = MI(counts.astype(float), n, matrix[0, 0], matrix[0, 1])
        by_inverse.append(inverted if inverted.sum() > 0 else np.full(len(truth), 1.0 / len(truth)))
        by_update.append(by_multi_freq(matrix, counts / n))
    return {
        "randomized response, inverse": _apart(by_inverse, truth, away),
        "randomized response, update": _apart(by_update, truth, away),
    }


def _apart(found: list[NDArray[np.float64]], truth: NDArray[np.float64], away: NDArray[np.float64]) -> dict[str, float]:
    shares = [one / one.sum() for one in found]
    return {
        "variation": float(np.mean([0.5 * np.abs(one - truth).sum() for one in shares])),
        "moved": float(np.mean([moved(one, truth, away) for one in shares])),
    }


def moved(a: NDArray[np.float64], b: NDArray[np.float64], away: NDArray[np.float64]) -> float:
    """Return the earth mover's distance: how far people must be moved on average to make b of a."""
    gain = a - b
    sources, sinks = np.flatnonzero(gain > 0), np.flatnonzero(gain < 0)
    if not len(sources) or not len(sinks):
        return 0.0
    leave = kron(eye_array(len(sources)), np.ones((1, len(sinks))))
    arrive = kron(np.ones((1, len(sources))), eye_array(len(sinks)))
    supply, demand = gain[sources], -gain[sinks]
    demand = demand * (supply.sum() / demand.sum())
    solved = linprog(
        away[np.ix_(sources, sinks)].ravel(),
        A_eq=vstack([leave, arrive]).tocsr(),
        b_eq=np.concatenate((supply, demand)),
        method="highs-ds",
    )
    if solved.status != 0:
        raise RuntimeError(f"the transport was not solved: {solved.message}")
    return float(solved.fun)
