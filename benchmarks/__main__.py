"""Run benchmarks: ``python -m benchmarks [NAME ...]``."""

from __future__ import annotations

import argparse
import importlib
import json
import platform
from pathlib import Path

NAMES = ("columns", "decomposition", "direct_rows", "privacy_rates")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of {', '.join(NAMES)}; all by default")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="folder for the JSON results")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(NAMES)
    if unknown:
        parser.error(f"unknown benchmark {', '.join(sorted(unknown))}: choose from {', '.join(NAMES)}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or NAMES:
        print(f"== {name}")
        result = importlib.import_module(f"benchmarks.{name}").run()
        machine = {"machine": platform.machine(), "python": platform.python_version()}
        (arguments.out / f"{name}.json").write_text(json.dumps({**machine, **result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
