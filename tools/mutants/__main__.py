"""Mutation testing of the exact core: put small faults into the code, one at a time, and see that a test fails.

    python tools/mutants                                   all files, as `make mutants` does
    python tools/mutants --file mechanism/certify.py       one file
    python tools/mutants --file certify.py --name lower    the mutants of one file whose name holds a text

The report goes to build/mutants.md. Survivors must be listed in tests/mutants-accepted.toml with the reason.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from mutations import find_mutants, kernels
from session import MutationSession, Outcome

if TYPE_CHECKING:
    from mutations import Mutant

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "metricdp"
FILES = ("mechanism/*.py", "metric/remade.py", "budget/*.py", "solve/bounds.py", "data/readers/*.py")
TESTS = (
    "tests/mechanism",
    "tests/metric/test_remade.py",
    "tests/budget",
    "tests/apply/test_perturb_ledger.py",
    "tests/data",
    "tests/solve/test_bounds.py",
    "tests/golden",
    "tests/evaluate/test_baselines.py",
)
ACCEPTED = ROOT / "tests" / "mutants-accepted.toml"
REPORT = ROOT / "build" / "mutants.md"
LEAST_SCORE = 0.95
ALIVE_OUTCOMES = ("survived", "not reached", "broken")  # what was not run is not known to be killed


def main() -> int:
    """Run the mutants that the command line asks for; 0 if enough are killed and all others are accepted."""
    parser = argparse.ArgumentParser(description="Mutation testing of the exact core")
    parser.add_argument("--file", action="append", help="only files whose path ends like this; can be repeated")
    parser.add_argument("--name", default="", help="only mutants whose name holds this text")
    parser.add_argument("--new", action="store_true", help="leave out the survivors that are accepted already")
    parser.add_argument("--tests", action="append", help="only these tests; can be repeated")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--report", type=Path, default=REPORT)
    options = parser.parse_args()
    say = _saying()
    paths = [path for pattern in FILES for path in sorted(PACKAGE.glob(pattern))]
    if options.file:
        paths = [path for path in paths if any(str(path).endswith(end) for end in options.file)]
    sources = {str(path): path.read_text(encoding="utf-8") for path in paths}
    mutants = [m for file, source in sources.items() for m in find_mutants(file, source) if options.name in m.name]
    accepted = _accepted()
    if options.new:
        mutants = [m for m in mutants if _key(m) not in accepted]
    begin = time.monotonic()
    session = MutationSession(mutants, sources, options.jobs, say)
    words = ["-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist", f"--rootdir={ROOT}"]
    os.chdir(ROOT)
    code = pytest.main([*words, *(options.tests or TESTS)], plugins=[session])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) or len(session.outcomes) < len(mutants):
        return 2
    text, is_good = report(session.outcomes, sources, accepted, time.monotonic() - begin)
    options.report.parent.mkdir(parents=True, exist_ok=True)
    options.report.write_text(text, encoding="utf-8")
    say(text if options.file else text.split("\n## ")[0])
    return 0 if is_good else 1


def report(
    outcomes: dict[Mutant, Outcome], sources: dict[str, str], accepted: dict[tuple[str, str], str], seconds: float
) -> tuple[str, bool]:
    """Return the report as Markdown, and whether the score suffices and every survivor is accepted."""
    alive = {m: o for m, o in outcomes.items() if o.status in ALIVE_OUTCOMES}
    unknown = [m for m in alive if _key(m) not in accepted]
    score = 1.0 - len(alive) / max(len(outcomes), 1)
    lines = [
        "# Mutation testing",
        "",
        (
            f"{len(outcomes)} mutants in {seconds / 60:.0f} minutes: {score:.1%} killed, {len(alive)} alive, "
            f"{len(unknown)} of them not in tests/mutants-accepted.toml."
        ),
        "",
        "| file | mutants | killed | of these by timeout | alive | accepted | score |",
        "| --- | --: | --: | --: | --: | --: | --: |",
    ]
    for file in sources:
        mine = {m: o for m, o in outcomes.items() if m.file == file}
        lost = [m for m in mine if m in alive]
        if mine:
            late = sum(o.status == "timeout" for o in mine.values())
            n_accepted = sum(_key(m) in accepted for m in lost)
            share = 1.0 - len(lost) / len(mine)
            lines.append(
                f"| {_short(file)} | {len(mine)} | {len(mine) - len(lost)} | {late} | {len(lost)} | {n_accepted} | "
                f"{share:.1%} |"
            )
    lines += ["", "## Alive and not accepted", ""]
    lines += [f"- {_short(m.file)}:{m.line} {alive[m].status} ({alive[m].n_tests} tests): `{m.name}`" for m in unknown]
    lines += ["", "## Alive, with the reason", ""]
    lines += [f"- {_short(m.file)}:{m.line}: `{m.name}`: {accepted[_key(m)]}" for m in alive if m not in unknown]
    killed = {_key(m) for m, o in outcomes.items() if m not in alive}
    known = {_key(m) for m in outcomes}
    gone = [key for key in accepted if key not in known and any(_short(file) == key[0] for file in sources)]
    lines += ["", "## Accepted, but killed", ""] + [f"- {f}: `{name}`" for f, name in accepted if (f, name) in killed]
    lines += ["", "## Accepted, but no such mutant", ""] + [f"- {file}: `{name}`" for file, name in gone]
    lines += ["", "## Compiled kernels, not mutated (their tests compare them with plain references)", ""]
    lines += [f"- {_short(file)}: {', '.join(kernels(source))}" for file, source in sources.items() if kernels(source)]
    lines += ["", "## Broken runs", ""]
    lines += [f"- {_short(m.file)}:{m.line}: `{m.name}`" for m, o in outcomes.items() if o.status == "broken"]
    return "\n".join(lines) + "\n", score >= LEAST_SCORE and not unknown


def _accepted() -> dict[tuple[str, str], str]:
    if not ACCEPTED.exists():
        return {}
    groups = tomllib.loads(ACCEPTED.read_text(encoding="utf-8"))["accepted"]
    return {(group["file"], name): group["reason"] for group in groups for name in group["mutants"]}


def _key(mutant: Mutant) -> tuple[str, str]:
    return _short(mutant.file), mutant.name


def _short(file: str) -> str:
    return Path(file).relative_to(PACKAGE).as_posix()


def _saying():  # noqa: ANN202
    """Return a way to print that goes past pytest's capture."""
    out = os.fdopen(os.dup(sys.stderr.fileno()), "w")

    def say(text: str) -> None:
        out.write(text + "\n")
        out.flush()

    return say


if __name__ == "__main__":
    sys.exit(main())
