"""Run benchmarks: ``python -m benchmarks [NAME ...]``; results go to a folder as JSON and Markdown,
and rows to NAME.jsonl as they come."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import secrets
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks import registry
from benchmarks.methods import METHODS
from benchmarks.peers import PEERS

REGISTERED = {
    "peers": ("versus", registry.PEERS_FULL, registry.PEERS_QUICK),
    "growth": ("growth", registry.GROWTH_FULL, registry.GROWTH_QUICK),
    "rates": ("rates", registry.GROWTH_FULL, registry.GROWTH_QUICK),
    "auto": ("auto", registry.AUTO_FULL, registry.AUTO_QUICK),
}
# studies of one part of the library
OTHERS = (
    "clients",
    "columns",
    "decomposition",
    "direct_rows",
    "headline",
    "interior",
    "limits",
    "memory",
    "privacy_rates",
    "scaling",
    "sparse_rates",
    "startup",
    "streams",
)
KEEPING = ("places", "country", "statistics", "estimates", "plane")  # studies that save rows as they come
NAMES = (*REGISTERED, *KEEPING, *OTHERS)
NARROWING = ("seed", "limit", "repetitions", "datasets", "ours", "peers", "sizes", "exponents", "gaps", "old")
USED = {
    "peers": set(NARROWING) - {"old"},
    "growth": set(NARROWING) - {"gaps", "old"},
    "auto": set(NARROWING) - {"peers", "old"},
    "rates": {"seed", "repetitions", "sizes"},
    "places": {"sizes", "old"},
    "country": {"sizes"},
    "statistics": {"sizes"},
    "estimates": {"sizes"},
    "plane": {"sizes"},
    "others": set(),
}
PACKAGES = (
    "metricdp",
    "numpy",
    "scipy",
    "highspy",
    "highspy-extras",
    "ortools",
    "cvxpy",
    "clarabel",
    "qif",
    "multi-freq-ldpy",
)


def main() -> None:
    arguments = parse()
    arguments.out.mkdir(parents=True, exist_ok=True)
    seed = secrets.randbelow(1_000_000) if arguments.seed is None else arguments.seed
    for name in arguments.names or (REGISTERED if arguments.quick else NAMES):
        print(f"== {name}, seed {seed}", flush=True)
        check_options(name, arguments)
        result = run(name, arguments, seed)
        markdown, figure = result.pop("markdown", None), result.pop("figure", None)
        text = json.dumps({**machine(), "seed": seed, "quick": arguments.quick, **result}, indent=1)
        (arguments.out / f"{name}.json").write_text(text + "\n")
        if markdown is not None:
            (arguments.out / f"{name}.md").write_text(f"## {name}, seed {seed}\n\n{markdown}")
        if figure is not None:
            figure.savefig(arguments.out / f"{name}.png", dpi=150)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"any of {', '.join(NAMES)}; all by default, with --quick the first four",
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="folder for the results")
    parser.add_argument("--quick", action="store_true", help="few small instances, short limits: half an hour")
    parser.add_argument("--seed", type=int, help="of all draws; a new one every time by default")
    parser.add_argument("--profile", action="store_true", help="show the functions that take longest (peers, growth)")
    parser.add_argument("--limit", type=float, help="seconds that one run may take")
    parser.add_argument("--repetitions", type=int, help="interleaved repetitions of every run")
    parser.add_argument("--datasets", nargs="+", choices=(*registry.DATASETS, "rome"), help="only these")
    parser.add_argument(
        "--ours", nargs="+", choices=tuple(METHODS), metavar="METHOD", help="only these methods of ours"
    )
    parser.add_argument("--peers", nargs="+", choices=tuple(PEERS), metavar="PEER", help="only these peers")
    parser.add_argument("--sizes", nargs="+", type=int, help="numbers of records")
    parser.add_argument("--exponents", nargs="+", type=float, help="epsilon times the median neighbour distance")
    parser.add_argument("--gaps", nargs="+", type=float, help="certified gaps to reach, for example 0.01 0.001")
    parser.add_argument("--old", type=Path, help="a checkout of another version of the library to compare with")
    arguments = parser.parse_intermixed_args()
    unknown = set(arguments.names) - set(NAMES)
    if unknown:
        parser.error(f"unknown benchmark {', '.join(sorted(unknown))}: choose from {', '.join(NAMES)}")
    for option in ("limit", "repetitions", "sizes", "exponents", "gaps"):
        value = getattr(arguments, option)
        values = value if isinstance(value, list) else [value]
        if value is not None and not all(number > 0 for number in values):
            parser.error(f"--{option} must be positive, got {value}")
    return arguments


def check_options(name: str, arguments: argparse.Namespace) -> None:
    """Warn when an option has no effect on a benchmark."""
    given = {option for option in NARROWING if getattr(arguments, option) is not None}
    unused = given - USED[name if name in USED else "others"]
    if unused:
        options = ", ".join(f"--{option}" for option in sorted(unused))
        print(f"note: {name} does not look at {options}", flush=True)


def options_of(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options that a study takes."""
    return {option: getattr(arguments, option) for option in sorted(USED[name])}


def run(name: str, arguments: argparse.Namespace, seed: int) -> dict[str, Any]:
    if name in OTHERS:
        return importlib.import_module(f"benchmarks.{name}").run()
    if name in KEEPING:
        keep = _keeper(arguments.out / f"{name}.jsonl", {**machine(), "seed": seed})
        return importlib.import_module(f"benchmarks.{name}").run(keep=keep, **options_of(name, arguments))
    module, full, quick = REGISTERED[name]
    chosen = quick if arguments.quick else full
    for option in ("limit", "repetitions"):
        if getattr(arguments, option) is not None:
            chosen = replace(chosen, **{option: getattr(arguments, option)})
    for option in ("datasets", "sizes", "exponents", "gaps", "ours", "peers"):
        if getattr(arguments, option) is not None:
            chosen = replace(chosen, **{option: tuple(getattr(arguments, option))})
    if arguments.datasets is not None:
        chosen = replace(
            chosen,
            datasets=tuple(name for name in arguments.datasets if name != "rome"),
            rome=chosen.rome if "rome" in arguments.datasets else (),
        )
    keep = _keeper(arguments.out / f"{name}.jsonl", {**machine(), "seed": seed, "registry": asdict(chosen)})
    work = importlib.import_module(f"benchmarks.{module}").run
    return work(chosen, seed=seed, keep=keep, profile=arguments.profile)


def _keeper(kept: Path, first: dict[str, Any]) -> registry.Keep:
    """Return a function that adds rows to a new file of JSON lines, which begins with ``first``."""
    if kept.exists():
        kept.replace(kept.with_suffix(".jsonl.old"))

    def keep(rows: list[dict[str, Any]]) -> None:
        head = [] if kept.exists() else [first]
        with kept.open("a") as lines:
            lines.writelines(json.dumps(row) + "\n" for row in (*head, *rows))

    return keep


def machine() -> dict[str, Any]:
    """Return the versions of all programs that take part, and the load at the start."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    cores = os.cpu_count()
    own = {"machine": platform.machine(), "python": platform.python_version(), "cores": cores, "load": load}
    return own | {"versions": found}


if __name__ == "__main__":
    main()
