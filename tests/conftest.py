"""Problems and oracles that several tests share."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.rome import FOLDER as ROME
from hypothesis import settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import coo_array

import metricdp as mdp
from metricdp.cli import main

settings.register_profile("default", deadline=None, max_examples=40, derandomize=bool(os.environ.get("CI")))
settings.load_profile("default")

ROME_500 = Path(__file__).parent / "rome500"


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run the command line in this process, in an empty folder: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["metricdp", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return stop.value.code or 0, captured.out, captured.err

    return call


def linprog_optimum(problem: mdp.Problem) -> float:
    """The true optimum by scipy on the whole LP, written independently of the package's solvers."""
    n, K = problem.loss.shape
    own = problem.epsilons
    rows, columns, values, row = [], [], [], 0
    for (i, j), d in zip(problem.graph.pairs.tolist(), problem.graph.distances.tolist(), strict=True):
        g = math.exp((problem.epsilon if own is None else min(own[i], own[j])) * d)
        for a, b in ((i, j), (j, i)):
            for k in range(K):
                rows += [row, row]
                columns += [a * K + k, b * K + k]
                values += [1.0, -g]
                row += 1
    unit = coo_array((np.ones(n * K), (np.repeat(np.arange(n), K), np.arange(n * K))), shape=(n, n * K))
    inequality = {}
    if row:
        inequality = {"A_ub": coo_array((values, (rows, columns)), shape=(row, n * K)).tocsr(), "b_ub": np.zeros(row)}
    cost = (problem.records.prior[:, None] * problem.loss).ravel()
    scale = cost.max() or 1.0
    answer = linprog(cost / scale, A_eq=unit.tocsr(), b_eq=np.ones(n), bounds=(0, 1), method="highs", **inequality)
    assert answer.status == 0, answer.message
    return float(answer.fun * scale)


def small_problem(
    dataset: str, seed: int, *, n: int = 12, outputs: int | str = 6, exponent: float = 1.0
) -> mdp.Problem:
    """A random problem of one of the four datasets, with epsilon times the median neighbour distance = exponent."""
    records, eta = {
        "road": lambda: (mdp.data.road("gothenburg", n=n, seed=seed), 2.5),
        "grid": lambda: (mdp.data.grid(6, 8, n=n, seed=seed), 3.0),
        "words": lambda: (mdp.data.words(n=n, seed=seed), 6.0),
        "gaussian": lambda: (mdp.data.gaussian(n, seed=seed), 4.0),
    }[dataset]()
    distances = mdp.metric.as_metric(None, records).pairs_within(records, eta)[1]
    median = float(np.median(distances)) if len(distances) else 1.0
    return mdp.Problem(records, epsilon=exponent / median, eta=eta, outputs=outputs, seed=seed)


DATASETS = ("road", "grid", "words", "gaussian")


def exponents(low: float, high: float) -> st.SearchStrategy[float]:
    """Values of epsilon times a typical distance, small and large ones equally likely."""
    return st.floats(math.log10(low), math.log10(high)).map(lambda power: 10.0**power)


@pytest.fixture(scope="session")
def rome() -> Path:
    """The folder of the whole city of Rome, 43,160 intersections."""
    if not (ROME / "nodes.csv.gz").exists():
        pytest.skip("the data of all of Rome is not here: METRICDP_ROME names the folder of nodes.csv.gz")
    return ROME


def rome_problem(epsilon: float = 10.0) -> mdp.Problem:
    """The paper's instance: 500 records, 100 outputs, eta 2 km."""
    records = mdp.data.read_records(ROME_500 / "records.csv")
    return mdp.Problem(records, epsilon=epsilon, eta=2.0, outputs=mdp.data.read_rows(ROME_500 / "outputs.csv"))
