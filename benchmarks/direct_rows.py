"""Lazy mDP rows with a floor against all rows handed to HiGHS's simplex, on the paper's Rome instance or Gothenburg."""

from __future__ import annotations

import metricdp as mdp
from benchmarks.instances import rome_or_gothenburg
from benchmarks.measure import interleaved


def run() -> dict:
    name, problem = rome_or_gothenburg(epsilon=10.0)
    timings = interleaved(
        {
            "lazy rows": lambda: mdp.solve(problem, method="direct", gap=1e-4),
            "all rows, HiGHS's own tolerance": lambda: mdp.solve(
                problem, method="direct", gap=1e-4, options=mdp.DirectOptions(all_rows=True, tolerance=1e-7)
            ),
            "all rows, same tolerance": lambda: mdp.solve(
                problem, method="direct", gap=1e-4, options=mdp.DirectOptions(all_rows=True)
            ),
        }
    )
    ratio = min(t.median for name, t in timings.items() if name != "lazy rows") / timings["lazy rows"].median
    for contestant, timing in timings.items():
        print(f"{name}, epsilon 10, {contestant}: {timing}, gap {timing.value.gap:.2g}")
    print(f"lazy rows are {ratio:.1f} times faster than the faster of the two")
    return {"instance": name, "ratio": ratio, "seconds": {key: t.seconds for key, t in timings.items()}}
