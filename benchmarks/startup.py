"""Start-up times: importing, printing the help, and the first solve with nothing compiled yet.

Processor seconds of a fresh process each, user and system. Repetitions go through all measurements in turn, so that
what else the machine does falls on all of them; the least of each counts.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile

REPETITIONS = 5
SOLVE_PROGRAM = (
    "import metricdp as mdp; "
    "records = mdp.data.road('gothenburg', n={n}, seed=0); "
    "problem = mdp.Problem(records, epsilon=10.0, eta=1.5, outputs='random:{k}', seed=0); "
    "mdp.solve(problem, gap={gap})"
)
SMALLER, LARGER = SOLVE_PROGRAM.format(n=300, k=50, gap=1e-4), SOLVE_PROGRAM.format(n=500, k=100, gap=0.01)
# name: what Python runs, and whether compiled code is there already
MEASURED_COMMANDS = {
    "python": (["-c", "pass"], True),
    "import metricdp": (["-c", "import metricdp"], True),
    "metricdp --help": (["-m", "metricdp", "--help"], True),
    "300 x 50, warm": (["-c", SMALLER], True),
    "300 x 50, cold": (["-c", SMALLER], False),
    "500 x 100, warm": (["-c", LARGER], True),
    "500 x 100, cold": (["-c", LARGER], False),
}


def run() -> dict:
    seconds: dict[str, list[float]] = {name: [] for name in MEASURED_COMMANDS}
    with tempfile.TemporaryDirectory() as kept:
        for words, is_warm in MEASURED_COMMANDS.values():  # once, uncounted, so that warm is warm
            if is_warm:
                processor_seconds(words, kept)
        for repetition in range(REPETITIONS):
            for name, (words, is_warm) in MEASURED_COMMANDS.items():
                with tempfile.TemporaryDirectory() as fresh:
                    seconds[name].append(processor_seconds(words, kept if is_warm else fresh))
            print(repetition + 1, {name: round(values[-1], 2) for name, values in seconds.items()}, flush=True)
    best = {name: min(values) for name, values in seconds.items()}
    rows = "\n".join(f"| {name} | {value:.2f} |" for name, value in best.items())
    return {"seconds": seconds, "best": best, "markdown": f"| what | processor seconds |\n|---|---|\n{rows}\n"}


def processor_seconds(words: list[str], cache: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *words],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
