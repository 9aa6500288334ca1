"""The expected distance to the truth of the optimum and of what people use, at the same guarantee.

All mechanisms are certified at epsilon for the pairs within eta. Noise on the plane and the exponential mechanism
protect *all* pairs at their straight distance; the optimum protects neighbours and, over chains, all pairs of a
component at their path distance. So the table also has the largest path over straight distance, the budget that really
holds for all pairs, and, for few records, the optimum that protects all pairs as the rivals do.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse.csgraph import dijkstra

import metricdp as mdp
from benchmarks.place_process import contiguous
from benchmarks.tables import table
from metricdp.evaluate.compare import OURS, compare
from metricdp.mechanism.baselines import tightest_budget
from metricdp.metric import MdpGraph

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.registry import Keep

CITIES, SIZES, EPSILONS = ("rome", "gothenburg"), (300, 1_000), (3.5, 7.0, 10.0)
ETA, GAP = 0.3, 0.01
ETAS = (0.3, 0.5, 0.75, 1.0)  # km, of which paths are compared with straight distances
EVERYWHERE = 1_000.0  # km: every pair of a city's records is within it
ALL_PAIRS_UP_TO = 300  # records: 44,850 pairs
ALL_SOURCES_UP_TO, SAMPLED_SOURCES = 1_000, 300  # records from which path distances are computed
TIME_LIMIT = 300.0  # seconds
AGAINST = ("kernel", "exponential", "planar-laplace-snapped", "planar-laplace-remapped")
NAMES = {
    OURS: "optimum",
    "kernel": "kernel mechanism",
    "exponential": "exponential mechanism",
    "planar-laplace-snapped": "planar Laplace, snapped",
    "planar-laplace-remapped": "planar Laplace, Bayes remap",
}
PROTECTED = {
    OURS: "within eta, chains",
    "kernel": "within eta, chains",
    "exponential": "all pairs",
    "planar-laplace-snapped": "all pairs",
    "planar-laplace-remapped": "all pairs",
}
HEAD = (
    "places",
    "epsilon",
    "mechanism",
    "km to the truth",
    "after remap",
    "over the optimum",
    "over that of all pairs",
    "protected at epsilon",
    "epsilon of all pairs (at most)",
)
PATH_HEAD = ("places", "eta km", "pairs", "components", "longest path over straight distance", "on average")


def run(sizes: Sequence[int], keep: Keep) -> tuple[list[dict[str, Any]], str]:
    """Return a row for each mechanism, city, size and budget, and a table of paths for several eta."""
    rows, lines, lengths = [], [], []
    for city in CITIES:
        if contiguous(city, 1) is None:
            lines.append(f"- {city}: skipped, there is no data of it (METRICDP_ROME names the folder of Rome)")
            continue
        for n in sizes:
            records = contiguous(city, n)
            for epsilon in EPSILONS:
                found = compared(city, mdp.Problem(records, epsilon=epsilon, eta=ETA, loss="distance"))
                keep(found)
                rows += found
                for row in found:
                    print("  ".join(cells(row)), flush=True)
            for eta in ETAS:
                problem = mdp.Problem(records, epsilon=EPSILONS[0], eta=eta, loss="distance")
                lengths.append({"city": city, "n": n, "eta": eta, **paths(problem)})
            keep(lengths[-len(ETAS) :])
    text = table(HEAD, [cells(row) for row in rows]) + "\n" + table(PATH_HEAD, [path_cells(row) for row in lengths])
    return rows + lengths, "\n".join([text, *lines])


def compared(city: str, problem: mdp.Problem) -> list[dict[str, Any]]:
    """Return the optimum, the rivals, and the optimum of all pairs where there are few."""
    begin, processor = time.perf_counter(), time.process_time()
    result = mdp.solve(problem, method="local", gap=GAP, time_limit=TIME_LIMIT)
    taken = {"seconds": time.perf_counter() - begin, "processor": time.process_time() - processor}
    proof = {"lower_bound": result.lower_bound, "gap": result.gap, **taken}
    base = {"city": city, "n": problem.n_records, "epsilon": problem.epsilon, "eta": problem.eta, **paths(problem)}
    found = compare(result.mechanism, problem, AGAINST)
    rows = [
        {
            **base,
            "mechanism": NAMES[row.name],
            "loss": row.loss,
            "remapped": row.loss_after_remap,
            "protected": PROTECTED[row.name],
            "certified": row.certified,
            "note": row.note,
            "optimum": result.loss,
        }
        for row in found.rows
    ]
    rows[0] |= proof
    if problem.n_records <= ALL_SOURCES_UP_TO:
        rows[0]["epsilon_of_all_pairs"] = budget_of_all_pairs(result.mechanism, problem)
    rows += [
        {**base, "mechanism": NAMES[name], "failed": why, "protected": PROTECTED[name]}
        for name, why in found.unavailable.items()
    ]
    if problem.n_records <= ALL_PAIRS_UP_TO:
        rows.insert(1, {**base, **optimum_of_all_pairs(problem), "optimum": result.loss})
        rows = [{**row, "optimum_of_all_pairs": rows[1]["loss"]} for row in rows]
    return rows


def optimum_of_all_pairs(problem: mdp.Problem) -> dict[str, Any]:
    """Return the optimum that protects what the rivals protect: every pair at its straight distance."""
    whole = mdp.Problem(problem.records, epsilon=problem.epsilon, eta=EVERYWHERE, loss="distance")
    result = mdp.solve(whole, method="local", gap=GAP, time_limit=TIME_LIMIT)
    (row,) = compare(result.mechanism, whole).rows
    proof = {"lower_bound": result.lower_bound, "gap": result.gap, "certified": row.certified}
    own = {"mechanism": "optimum of all pairs", "protected": "all pairs", "epsilon_of_all_pairs": whole.epsilon}
    return {**own, **proof, "loss": row.loss, "remapped": row.loss_after_remap}


def paths(problem: mdp.Problem) -> dict[str, Any]:
    """Return the components, and how much longer paths over neighbours are than straight distances."""
    graph, n = problem.graph, problem.n_records
    sources = np.arange(n)
    if n > ALL_SOURCES_UP_TO:
        sources = np.sort(np.random.default_rng(0).choice(n, SAMPLED_SOURCES, replace=False))
    away = dijkstra(graph.adjacency, directed=False, indices=sources)
    straight = problem.metric.to_rows(problem.records, sources).T
    is_met = np.isfinite(away) & (straight > 0.0)
    ratios = away[is_met] / straight[is_met]
    return {
        "pairs": graph.n_pairs,
        "components": graph.n_components,
        "largest_component": max(len(rows) for rows in graph.components),
        "stretch": float(ratios.max()),
        "stretch_mean": float(ratios.mean()),
        "stretch_exact": len(sources) == n,
    }


def budget_of_all_pairs(mechanism: mdp.Mechanism, problem: mdp.Problem) -> float:
    """Return the least epsilon at which a mechanism protects all pairs of its components at their straight distance."""
    rates = [0.0]
    for rows in problem.graph.components:
        if len(rows) > 1:
            everything = MdpGraph.of(problem.records.select(rows), problem.metric, EVERYWHERE)
            block = mechanism.block(rows)
            rates.append(tightest_budget(np.log(block[:, block.min(axis=0) > 0.0]), everything))
    return max(rates)


def cells(row: dict[str, Any]) -> list[str]:
    """Return a row of the table."""
    first = [f"{row['city'].title()} {row['n']:,}", f"{row['epsilon']:g}", row["mechanism"]]
    if "failed" in row:
        return [*first, row["failed"], "", "", "", row["protected"], ""]
    own = {"optimum": "optimum", "optimum of all pairs": "optimum_of_all_pairs"}.get(row["mechanism"])
    over = [
        f"within {100 * row['gap']:.2f} %" if name == own else _over(row["loss"], row.get(name))
        for name in ("optimum", "optimum_of_all_pairs")
    ]
    budget = f"{row['epsilon']:.2f}"
    if row["protected"] != "all pairs":
        most = f"{row['epsilon'] * row['stretch']:.2f}"
        budget = f"{row['epsilon_of_all_pairs']:.2f} ({most})" if "epsilon_of_all_pairs" in row else f"({most})"
        over[1] = "-"  # it protects less
    protected = row["protected"] if row["certified"] else f"NOT CERTIFIED: {row['note']}"
    return [*first, f"{row['loss']:.4f}", f"{row['remapped']:.4f}", *over, protected, budget]


def _over(loss: float, best: float | None) -> str:
    return "-" if best is None else f"{100 * (loss / best - 1.0):+.1f} %"


def path_cells(row: dict[str, Any]) -> list[str]:
    """Return a row of the table of paths."""
    return [
        f"{row['city'].title()} {row['n']:,}",
        f"{row['eta']:g}",
        f"{row['pairs']:,}",
        str(row["components"]),
        f"{row['stretch']:.3f}" if row["stretch_exact"] else f"at least {row['stretch']:.3f}",
        f"{row['stretch_mean']:.4f}",
    ]
