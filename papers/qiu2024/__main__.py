"""Reproduce tables and figures of the paper: ``python -m papers.qiu2024 NAME --quick|--full --out DIR``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NoReturn

from metricdp.errors import InputError, MetricDPError, MissingExtraError
from papers.qiu2024.run import ALL, EXPERIMENTS, run_paper
from papers.qiu2024.scale import FULL, QUICK

DEFAULT_FOLDER = Path("qiu2024-results")
WRONG_INPUT, PROGRAM_FAILED = 2, 3


class Parser(argparse.ArgumentParser):
    """Raises faults of the arguments as errors, so that they are reported like all others."""

    def error(self, message: str) -> NoReturn:
        """Raise the fault as an InputError."""
        raise InputError(f"{message}; see python -m papers.qiu2024 --help")


def main() -> None:
    """Run the command line; every error becomes one line and an exit code."""
    try:
        _run(_parser().parse_args())
    except (InputError, MissingExtraError) as error:
        _fail(error, WRONG_INPUT)
    except MetricDPError as error:
        _fail(error, PROGRAM_FAILED)


def _parser() -> Parser:
    parser = Parser(prog="python -m papers.qiu2024", description="The paper's tables and figures on the exact problem.")
    parser.add_argument("name", metavar="NAME", help=f"{ALL} | {' | '.join(EXPERIMENTS)}")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="small sizes, minutes for all of them (the default)")
    size.add_argument("--full", action="store_true", help="the paper's sizes: hours for all of them")
    parser.add_argument(
        "--out", type=Path, default=DEFAULT_FOLDER, help="folder for the results; what is finished is not run again"
    )
    parser.add_argument(
        "--data", help="places for the road network: a file, or a folder with nodes.csv; Gothenburg by default"
    )
    parser.add_argument("--instances", type=int, help="how many instances to run, 10 in the paper")
    parser.add_argument("--time-limit", type=float, help="seconds for each solve")
    return parser


def _run(given: argparse.Namespace) -> None:
    scale = (FULL if given.full else QUICK).with_choices(instances=given.instances, time_limit=given.time_limit)
    try:
        paths = run_paper(given.name, scale=scale, out=given.out, data=given.data, tell=_tell)
    except KeyboardInterrupt:
        raise MetricDPError(
            f"interrupted; what is finished is kept in {given.out}: run the same command again to go on"
        ) from None
    for path in paths:
        sys.stdout.write(f"{path}\n")


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _fail(error: MetricDPError, code: int) -> NoReturn:
    _tell(f"error: {error}")
    sys.exit(code)


if __name__ == "__main__":
    main()
