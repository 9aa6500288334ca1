"""Column generation against HiGHS on all rows, on the paper's Rome instance from weak to strong privacy.

HiGHS gets all rows at once by its simplex, IPX and HiPO, each with a limit; its best is the one that reaches the gap
first. Its answers go through the same repair, certificate and bound as ours.
"""

from __future__ import annotations

import os

import metricdp as mdp
from benchmarks.instances import rome_or_gothenburg

LIMIT = float(os.environ.get("METRICDP_BENCH_LIMIT", "300"))
PEERS = os.environ.get("METRICDP_BENCH_PEERS", "simplex,ipx,hipo").split(",")
CASES = ((10.0, 1e-3, True), (5.0, 1e-3, True), (2.0, 1e-3, True), (1.0, 1e-2, False))  # with peers or without


def row(name: str, epsilon: float, gap: float, method: str, result: mdp.Result) -> dict:
    reached = result.gap <= gap
    print(
        f"{name}, epsilon {epsilon:g}, gap {100 * gap:g} %, {method}: {result.seconds:.2f} s, "
        f"{'reached' if reached else 'NOT reached'} ({100 * result.gap:.4f} %), {result.iterations} rounds",
        flush=True,
    )
    return {"epsilon": epsilon, "gap": gap, "method": method, "seconds": result.seconds, "reached": reached}


def run() -> dict:
    rows = []
    warm = mdp.Problem(mdp.data.grid(4, 4), epsilon=1.0, eta=1.5, outputs="random:9")
    for method in ("columns", "direct", "kernel"):
        mdp.solve(warm, method=method)
    for epsilon, gap, with_peers in CASES:
        name, problem = rome_or_gothenburg(epsilon=epsilon)
        ours = [row(name, epsilon, gap, "columns", mdp.solve(problem, method="columns", gap=gap, time_limit=LIMIT))]
        rows.append(row(name, epsilon, gap, "kernel", mdp.solve(problem, method="kernel", gap=gap)))
        rows.append(row(name, epsilon, gap, "direct", mdp.solve(problem, method="direct", gap=gap, time_limit=LIMIT)))
        peers = []
        for algorithm in PEERS if with_peers else ():
            options = mdp.DirectOptions(algorithm=algorithm, all_rows=True, tolerance=1e-7)
            result = mdp.solve(problem, method="direct", gap=gap, options=options, time_limit=LIMIT)
            peers.append(row(name, epsilon, gap, f"HiGHS {algorithm}, all rows", result))
        ours.append(row(name, epsilon, gap, "columns", mdp.solve(problem, method="columns", gap=gap, time_limit=LIMIT)))
        mean = sum(r["seconds"] for r in ours) / len(ours)
        best = min((r["seconds"] for r in peers if r["reached"]), default=None)
        against = f"{best / mean:.1f} times faster than HiGHS's best" if best else f"HiGHS: not in {LIMIT:g} s"
        print(f"epsilon {epsilon:g}: columns in {mean:.2f} s (mean of before and after), {against}", flush=True)
        rows += ours + peers
    name, problem = rome_or_gothenburg(epsilon=2.0)
    rows.append(row(name, 2.0, 1e-4, "columns", mdp.solve(problem, method="columns", gap=1e-4, time_limit=LIMIT)))
    return {"instance": name, "limit": LIMIT, "rows": rows}
