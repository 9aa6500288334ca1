"""Edit mechanism files, seal them again, and judge whatever loads: ``python -m tools.attack_files --count 20000``.

Every kind of metric, outputs as rows and as points, with and without losses; edits by one unit, by one ulp and coarse
ones, alone and together. A second checker that shares no code with the library judges by true distances, in fractions.
Prints what was tried and ends with exit code 1 if a file loads that violates its claim.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from pathlib import Path

from tests.mechanism.edits import EDITS, attack


def main() -> None:
    """Run the attack."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    words = parser.parse_args()
    warnings.simplefilter("error")
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        seen, found = attack(Path(folder), words.count, seed=words.seed)
    for edit in EDITS:
        name = edit.__name__
        print(f"{name:28s} loaded {seen[name, 'loaded']:6,}  refused {seen[name, 'refused']:6,}")
    for one in found[:20]:
        print("VIOLATED:", *one)
    n_loaded = sum(count for (_, answer), count in seen.items() if answer == "loaded")
    print(
        f"{len(found)} violations in {n_loaded:,} files that loaded, of {words.count:,} edited and sealed again "
        f"({time.monotonic() - begin:.0f} s)"
    )
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
