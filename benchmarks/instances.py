"""The instances that benchmarks run on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import metricdp as mdp
from benchmarks.rome import FOLDER as ROME
from papers.qiu2024.datasets import Datasets

DATASETS = ("road", "grid", "text", "synthetic")
LARGEST = {"text": 2_000}  # records: the shipped words
ROME_SEED, ROME_CITY = 500, 43_160


@dataclass(frozen=True)
class Instance:
    """Records, outputs and a privacy level, drawn with a seed.

    ``exponent`` is epsilon times the median distance of neighbours: 0.2 is strong privacy, 4 is weak. The same
    exponent means the same strength whatever the unit of the distance. For "rome" it is epsilon itself, per kilometre:
    the paper's instance (500 records) and the whole city (43,160) are what they are, and no seed draws them.
    """

    dataset: str
    n: int
    n_outputs: int
    exponent: float
    seed: int = 0

    @property
    def name(self) -> str:
        privacy = f"epsilon = {self.exponent:g}" if self.dataset == "rome" else f"epsilon d = {self.exponent:g}"
        return f"{self.dataset} {self.n:,} x {self.n_outputs}, {privacy}"

    def problem(self) -> mdp.Problem:
        """Return a new problem at every call, so that no method profits from results of another."""
        if self.dataset == "rome":
            return rome_problem(self.n, epsilon=self.exponent)
        datasets = Datasets()
        drawn = datasets.problem(self.dataset, n=self.n, outputs=self.n_outputs, instance=self.seed, epsilon=1.0)
        lengths = drawn.graph.distances
        median = float(np.median(lengths[lengths > 0]))
        return datasets.problem(
            self.dataset, n=self.n, outputs=self.n_outputs, instance=self.seed, epsilon=self.exponent / median
        )


def rome_nodes() -> mdp.Records | None:
    """Return all 43,160 intersections of Rome if the data is available (METRICDP_ROME names its folder)."""
    return mdp.data.read_records(ROME / "nodes.csv.gz") if (ROME / "nodes.csv.gz").exists() else None


def rome_problem(n: int, *, epsilon: float) -> mdp.Problem:
    """Return the paper's instance of 500 records, or all of Rome; eta is 2 km."""
    nodes = rome_nodes()
    if nodes is None:
        raise FileNotFoundError(f"no Rome data in {ROME}: set METRICDP_ROME to its folder")
    if n == nodes.n:
        return mdp.Problem(nodes, epsilon=epsilon, eta=2.0, outputs="random:100")
    records = nodes.select(mdp.data.read_rows(ROME / "paper_records.csv"))
    outputs = mdp.data.read_rows(ROME / "paper_outputs.csv")
    return mdp.Problem(records, epsilon=epsilon, eta=2.0, outputs=outputs)


def rome_or_gothenburg(*, epsilon: float) -> tuple[str, mdp.Problem]:
    """Return the paper's instance, or 500 intersections of the shipped city with as many neighbours each."""
    if rome_nodes() is None:
        records = mdp.data.road("gothenburg", n=500, seed=0)
        return "Gothenburg 500 x 100", mdp.Problem(records, epsilon=epsilon, eta=0.7, outputs="random:100")
    return "Rome 500 x 100", rome_problem(ROME_SEED, epsilon=epsilon)
