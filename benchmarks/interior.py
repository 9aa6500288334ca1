"""The interior point against the general ones: HiGHS IPX on the paper's instance, Clarabel on small problems.

All on one core, in processor seconds, in turn. Ours include repair, certificate and bounds; theirs are the solver
alone, whose answer is neither private nor bounded yet. Clarabel is called directly, component by component.
"""

from __future__ import annotations

import os
import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

import metricdp as mdp
from benchmarks.instances import DATASETS, ROME_SEED, Instance, rome_nodes, rome_problem
from benchmarks.peers import Program
from benchmarks.tables import table

if TYPE_CHECKING:
    from collections.abc import Callable

ROME_EPSILONS = (5.0, 2.0, 1.0, 0.5)
ROME_GAP = 1e-4
IPX = mdp.DirectOptions(algorithm="ipx", all_rows=True, tolerance=1e-7)
IPX_LIMIT = 200.0  # seconds: twenty times as long as ours
SIZES, EXPONENTS, GAPS = (30, 100), (0.2, 1.0, 4.0), (0.01, 0.001, 0.0001)
REPETITIONS = 3


def run() -> dict[str, Any]:
    seed = int(os.environ.get("METRICDP_BENCH_SEED", "3"))
    wanted = os.environ.get("METRICDP_BENCH_PARTS", "rome small").split()
    mdp.solve(Instance("road", 30, 30, 1.0).problem())  # compiled code is loaded
    rome = against_ipx() if "rome" in wanted and rome_nodes() is not None else []
    small = against_clarabel(seed) if "small" in wanted else []
    text = table(("epsilon", "interior s", "gap %", "IPX s", "IPX ended", "IPX / interior"), [r["cells"] for r in rome])
    text += "\n" + table(("instance", "gap %", "auto s", "Clarabel s", "Clarabel / auto"), [r["cells"] for r in small])
    return {"rome": rome, "small": small, "markdown": text}


def seconds_of(work: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.process_time()
    answer = work()
    return time.process_time() - begin, answer


def against_ipx() -> list[dict[str, Any]]:
    rows = []
    for epsilon in ROME_EPSILONS:
        problem = rome_problem(ROME_SEED, epsilon=epsilon)
        own, mine = seconds_of(lambda p=problem: mdp.solve(p, method="interior", gap=ROME_GAP, threads=1))
        other, theirs = seconds_of(
            lambda p=problem: mdp.solve(p, method="direct", options=IPX, gap=ROME_GAP, threads=1, time_limit=IPX_LIMIT)
        )
        ended = theirs.status.value
        cells = [f"{epsilon:g}", f"{own:.2f}", f"{100 * mine.gap:.4f}", f"{other:.1f}", ended, f"{other / own:.1f}"]
        rows.append({"epsilon": epsilon, "interior": own, "ipx": other, "cells": cells})
        print("Rome, epsilon", "  ".join(cells), flush=True)
    return rows


def against_clarabel(seed: int) -> list[dict[str, Any]]:
    rows = []
    for n in SIZES:
        for dataset in DATASETS:
            for exponent in EXPONENTS:
                instance = Instance(dataset, n, n, exponent, seed)
                problem = instance.problem()
                for gap in GAPS:
                    rows.append(_in_turn(instance.name, problem, gap))
                    print("  ".join(rows[-1]["cells"]), flush=True)
    return rows


def _in_turn(name: str, problem: mdp.Problem, gap: float) -> dict[str, Any]:
    mine, theirs = [], []
    for _ in range(REPETITIONS):
        seconds, result = seconds_of(lambda: mdp.solve(problem, gap=gap, threads=1))
        if result.gap > gap:
            raise RuntimeError(f"{name}: the gap is {result.gap}")
        mine.append(seconds)
        theirs.append(clarabel_seconds(problem, gap))
    own, other = statistics.median(mine), statistics.median(theirs)
    cells = [name, f"{100 * gap:g}", f"{own:.3f}", f"{other:.3f}", f"{other / own:.2f}"]
    return {"instance": name, "gap": gap, "auto": mine, "clarabel": theirs, "cells": cells}


def clarabel_seconds(problem: mdp.Problem, gap: float) -> float:
    """Processor seconds of Clarabel for all components, the time to build its matrices left out."""
    import clarabel

    total = 0.0
    for rows in problem.graph.components:
        graph = problem.graph.subgraph(rows)
        if len(rows) < 2:
            continue
        program = Program(problem.costs[rows], graph.pairs, graph.distances, problem.epsilon)
        size = program.costs.size
        A = sparse.vstack((program.sums(), program.all_inequalities(), -sparse.identity(size)), format="csc")
        n_rows = program.all_inequalities().shape[0]
        b = np.concatenate((np.ones(len(rows)), np.zeros(n_rows + size)))
        settings = clarabel.DefaultSettings()
        settings.verbose, settings.max_threads = False, 1
        settings.tol_gap_rel, settings.tol_gap_abs = gap, 1e-12
        cones = [clarabel.ZeroConeT(len(rows)), clarabel.NonnegativeConeT(n_rows + size)]
        quadratic = sparse.csc_matrix((size, size))
        data = (quadratic, program.costs.ravel() / program.scale, A, b, cones, settings)
        seconds, answer = seconds_of(lambda d=data: clarabel.DefaultSolver(*d).solve())
        if str(answer.status) not in ("Solved", "AlmostSolved"):
            raise RuntimeError(f"Clarabel ended with {answer.status}")
        total += seconds
    return total
