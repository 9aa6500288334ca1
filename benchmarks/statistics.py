"""Statistics from reports: whether intervals hold, how wide they are beside a bootstrap, seconds, and how far the
estimated distribution is from the truth, against other mechanisms at the same epsilon.

    METRICDP_BENCH_PARTS="coverage error walks" python -m benchmarks statistics [--sizes N ...]

The places are real, the populations are made up: hot spots on the streets of Gothenburg and Rome, words by a Zipf law.
Sizes are numbers of reports. Draws are fixed. The bootstrap's estimates stop after BOOTSTRAP_UPDATES, so that the
sparse table does not take hours: where more updates are needed, its intervals are also off by what is missing.
"""

from __future__ import annotations

import math
import os
import time
from typing import TYPE_CHECKING, Any

import numpy as np

import metricdp as mdp
from benchmarks.instances import rome_nodes
from benchmarks.tables import table
from metricdp.evaluate.compare import BASELINES
from metricdp.statistics import ReportCounts
from metricdp.statistics.channel import Channel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from benchmarks.registry import Keep

PARTS = ("coverage", "error", "walks")
SIZES = (1_000, 10_000, 100_000, 1_000_000)
N_QUESTIONS, N_POPULATIONS, N_BOOTSTRAPS = 5, 3, 50
LEVEL = 0.95
BOOTSTRAP_UPDATES = int(os.environ.get("METRICDP_BENCH_UPDATES", "100"))
BOOTSTRAPPED = 2  # questions of each population: the others would take as long and say the same
RIVALS = ("exponential", "planar-laplace-snapped", "planar-laplace-remapped")


def run(*, keep: Keep, sizes: Sequence[int] | None = None) -> dict[str, Any]:
    wanted = os.environ.get("METRICDP_BENCH_PARTS", " ".join(PARTS)).split()
    rows, texts = [], []
    for part in wanted:
        found, text = {"coverage": coverage, "error": error, "walks": walks}[part](sizes or SIZES, keep)
        rows += found
        texts.append(text)
        print(text, flush=True)
    return {"rows": rows, "markdown": "\n".join(texts)}


def mechanisms() -> Iterator[tuple[str, mdp.Mechanism]]:
    """Yield five mechanisms: fewer outputs than records, as many, a sparse one, words, the exponential mechanism."""
    road = mdp.data.road("gothenburg", n=300, seed=0)
    yield "300 x 150, epsilon 3", mdp.solve(mdp.Problem(road, epsilon=3.0, eta=1.5, outputs=150), gap=0.02).mechanism
    problem = mdp.Problem(road, epsilon=10.0, eta=1.5, outputs=100)
    yield "300 x 100, epsilon 10", mdp.solve(problem, gap=0.02).mechanism
    yield "300 x 100, epsilon 10, exponential", BASELINES["exponential"](problem, None)[0]
    words = mdp.data.words(n=200, seed=0)
    yield "200 words x 200", mdp.solve(mdp.Problem(words, epsilon=1.0, eta=6.0), gap=0.05, time_limit=60).mechanism
    nodes = rome_nodes()
    centre = (mdp.data.road("gothenburg") if nodes is None else nodes).nearest(*_middle(nodes), 1_000)
    problem = mdp.Problem(centre, epsilon=7.0, eta=0.3)
    yield "1,000 x 1,000, epsilon 7, sparse", mdp.solve(problem, method="local", gap=0.05).mechanism


def _middle(nodes: mdp.Records | None) -> tuple[NDArray[np.float64]]:
    found = mdp.data.road("gothenburg") if nodes is None else nodes
    return (np.median(found.coordinates, axis=0),)


def population(records: mdp.Records, generator: np.random.Generator) -> NDArray[np.float64]:
    """Return a population with hot spots around three records, over a rough floor; of words by a Zipf law."""
    if records.kind != "places":
        return (1.0 / generator.permutation(np.arange(1, records.n + 1))) / sum(1.0 / np.arange(1, records.n + 1))
    points = _flat(records)
    spread = 0.1 * np.ptp(points, axis=0).max()
    spots = points[generator.integers(records.n, size=3)]
    weight = sum(np.exp(-0.5 * ((points - spot) ** 2).sum(axis=1) / spread**2) for spot in spots) + 0.05
    weight = weight * generator.gamma(1.0, size=records.n)
    return weight / weight.sum()


def _flat(records: mdp.Records) -> NDArray[np.float64]:
    """Return places in km around their middle; other coordinates as they are."""
    if records.kind != "places":
        return records.coordinates
    narrow = np.cos(np.radians(records.coordinates[:, 0].mean()))
    return np.radians(records.coordinates - records.coordinates.mean(axis=0)) * 6371.0088 * [1.0, narrow]


def questions(records: mdp.Records, generator: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Yield districts: the records around a random one, from a twentieth to two fifths of all."""
    points = _flat(records)
    for _ in range(N_QUESTIONS):
        away = ((points - points[generator.integers(records.n)]) ** 2).sum(axis=1)
        yield np.argsort(away)[: int(records.n * generator.uniform(0.05, 0.4))]


def counted(mechanism: mdp.Mechanism, counts: NDArray[np.int64]) -> ReportCounts:
    return ReportCounts(mechanism).add_outputs(np.repeat(np.arange(len(counts)), counts))


def draw(chances: NDArray[np.float64], n: int, generator: np.random.Generator) -> NDArray[np.int64]:
    return generator.multinomial(n, chances / chances.sum())


def coverage(sizes: Sequence[int], keep: Keep) -> tuple[list[dict[str, Any]], str]:
    """Ask questions about many populations, and see how often the intervals hold and how wide they are."""
    rows = []
    for name, mechanism in mechanisms():
        for n in sizes:
            row = _covered(name, mechanism, n)
            rows.append(row)
            keep([row])
            print(cells(row), flush=True)
    head = ("mechanism", "reports", "questions", "held", "bootstrap held", "width", "bootstrap width", "s estimate")
    total, held = sum(row["questions"] for row in rows), sum(row["held"] for row in rows)
    text = table((*head, "s interval", "s bootstrap"), [cells(row) for row in rows])
    return rows, text + f"\n{held} of {total} intervals held (level {LEVEL:g})\n"


def _covered(name: str, mechanism: mdp.Mechanism, n: int) -> dict[str, Any]:
    generator = np.random.default_rng([n, mechanism.records.n, mechanism.outputs.n])
    channel = Channel(mechanism.table)
    row: dict[str, Any] = {"mechanism": name, "n": n, "questions": 0, "held": 0, "boot": 0, "boot_held": 0}
    widths, boot_widths, seconds = [], [], {"estimate": 0.0, "interval": 0.0, "bootstrap": 0.0}
    for _ in range(N_POPULATIONS):
        theta = population(mechanism.records, generator)
        counts = draw(channel.chances(theta), n, generator)
        begin = time.perf_counter()
        found = mdp.estimate(mechanism, counted(mechanism, counts))
        seconds["estimate"] += time.perf_counter() - begin
        asked = list(questions(mechanism.records, generator))
        for records in asked:
            begin = time.perf_counter()
            one = found.interval(records, LEVEL)
            seconds["interval"] += time.perf_counter() - begin
            row["questions"] += 1
            row["held"] += int(one.low <= theta[records].sum() <= one.high)
            widths.append(one.high - one.low)
        begin = time.perf_counter()
        again = bootstrap(mechanism, counts, asked[:BOOTSTRAPPED], generator)
        seconds["bootstrap"] += time.perf_counter() - begin
        for records, (low, high) in zip(asked, again, strict=False):
            row["boot"] += 1
            row["boot_held"] += int(low <= theta[records].sum() <= high)
            boot_widths.append(high - low)
    each = {"estimate": N_POPULATIONS, "interval": row["questions"], "bootstrap": N_POPULATIONS}
    row |= {f"{what}_seconds": value / each[what] for what, value in seconds.items()}
    return row | {"width": float(np.mean(widths)), "boot_width": float(np.mean(boot_widths))}


def bootstrap(
    mechanism: mdp.Mechanism,
    counts: NDArray[np.int64],
    asked: list[NDArray[np.int64]],
    generator: np.random.Generator,
) -> list[tuple[float, float]]:
    """Return percentile intervals of the estimate from reports drawn again with replacement: no guarantee."""
    shares = []
    for _ in range(N_BOOTSTRAPS):
        found = mdp.estimate(
            mechanism,
            counted(mechanism, draw(counts / counts.sum(), int(counts.sum()), generator)),
            max_updates=BOOTSTRAP_UPDATES,
        )
        shares.append([found.share(records) for records in asked])
    tail = 100 * (1 - LEVEL) / 2
    return [tuple(np.percentile(column, [tail, 100 - tail])) for column in np.array(shares).T]


def cells(row: dict[str, Any]) -> list[str]:
    return [
        row["mechanism"],
        f"{row['n']:,}",
        str(row["questions"]),
        str(row["held"]),
        f"{row['boot_held']} of {row['boot']}",
        f"{row['width']:.3f}",
        f"{row['boot_width']:.3f}",
        f"{row['estimate_seconds']:.2f}",
        f"{row['interval_seconds']:.2f}",
        f"{row['bootstrap_seconds']:.1f}",
    ]


def error(sizes: Sequence[int], keep: Keep) -> tuple[list[dict[str, Any]], str]:
    """Compare mechanisms at one epsilon: how far the estimate is from the truth, and the mean width of intervals."""
    rows = []
    centre = mdp.data.road("gothenburg").nearest(*_middle(None), 200)
    for epsilon in (3.5, 7.0):
        problem = mdp.Problem(centre, epsilon=epsilon, eta=1.75)
        made = {"optimal (gap 2 %)": mdp.solve(problem, gap=0.02).mechanism}
        made |= {name: BASELINES[name](problem, None)[0] for name in RIVALS}
        for n in sizes:
            for name, mechanism in made.items():
                row = {"epsilon": epsilon, "mechanism": name, "n": n, **_errors(mechanism, n)}
                rows.append(row)
                keep([row])
                print(row, flush=True)
    head = ("epsilon", "reports", "mechanism", "loss km", "total variation", "error of a district", "mean width")
    return rows, table(
        head,
        [
            [
                f"{row['epsilon']:g}",
                f"{row['n']:,}",
                row["mechanism"],
                f"{row['loss']:.3f}",
                f"{row['variation']:.3f}",
                f"{row['district']:.4f}",
                f"{row['width']:.3f}",
            ]
            for row in rows
        ],
    )


def _errors(mechanism: mdp.Mechanism, n: int) -> dict[str, float]:
    """Return total variation distance, the root mean square error of district shares, and widths of intervals."""
    generator = np.random.default_rng([n, 7])  # the same populations for all mechanisms
    channel = Channel(mechanism.table)
    variation, squares, widths = [], [], []
    for _ in range(N_POPULATIONS):
        theta = population(mechanism.records, generator)
        asked = list(questions(mechanism.records, generator))
        counts = draw(channel.chances(theta), n, np.random.default_rng([n, int(1e6 * theta[0])]))
        found = mdp.estimate(mechanism, counted(mechanism, counts))
        variation.append(0.5 * np.abs(found.distribution - theta).sum())
        for number, records in enumerate(asked):
            squares.append((found.share(records) - theta[records].sum()) ** 2)
            if number < 2:
                one = found.interval(records, LEVEL)
                widths.append(one.high - one.low)
    distances = mdp.problem.loss.distance_loss(
        mechanism.records, mechanism.outputs, mdp.metric.as_metric(None, mechanism.records)
    )
    loss = float((mechanism.records.prior[:, None] * mechanism.block() * distances).sum())
    return {
        "loss": loss,
        "variation": float(np.mean(variation)),
        "district": math.sqrt(float(np.mean(squares))),
        "width": float(np.mean(widths)),
    }


def walks(_sizes: Sequence[int], keep: Keep) -> tuple[list[dict[str, Any]], str]:
    """Filter the reports of people who walk on streets from intersection to intersection, at three budgets."""
    rows = []
    centre = mdp.data.road("gothenburg").nearest(*_middle(None), 150)
    moves = mdp.evaluate.street_walk(centre)
    for epsilon in (3.5, 7.0, 14.0):
        mechanism = mdp.solve(mdp.Problem(centre, epsilon=epsilon, eta=0.3), gap=0.02).mechanism
        found = mdp.evaluate.trajectory(mechanism, 20, n_walks=100, transition=moves)
        rows.append({"epsilon": epsilon, **vars(found)})
        keep(rows[-1:])
    head = ("epsilon", "loss km", "remapped", "filtered", "adversary off by km, one report", "with the filter")
    names = ("loss", "loss_remapped", "loss_filtered", "error_alone", "error_filtered", "right_alone", "right_filtered")
    scale = (1.0, 1.0, 1.0, 1.0, 1.0, 100.0, 100.0)
    return rows, table(
        (*head, "right, one report %", "right, filter %"),
        [
            [f"{row['epsilon']:g}", *(f"{by * row[name]:.3g}" for name, by in zip(names, scale, strict=True))]
            for row in rows
        ],
    )
