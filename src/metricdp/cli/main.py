"""The entry point: every error becomes one line and an exit code."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import typer

from metricdp.cli.app import ANSWER_IS_NO, PROGRAM_FAILED, WRONG_INPUT, app, err, lost_output, print_json
from metricdp.cli.hints import hint_for, with_remedy
from metricdp.errors import CertificationError, InputError, MetricDPError, MissingExtraError
from metricdp.report.tables import print_line

INTERRUPTED_EXIT_CODE = 130  # typer's for Ctrl-C


def main() -> None:
    """Run the command line and turn every error into one line and an exit code."""
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()  # output that cannot be written is an error like any other
    except (InputError, MissingExtraError) as error:
        _fail(error, WRONG_INPUT)
    except MetricDPError as error:
        _fail(error, ANSWER_IS_NO if _is_a_no(error) else PROGRAM_FAILED)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED_EXIT_CODE
    except Exception as error:
        if hasattr(error, "format_message"):  # typer's: an option or argument that cannot be understood
            _complain(error)
        if os.environ.get("METRICDP_DEBUG"):
            raise
        _fail(_explained(error), PROGRAM_FAILED)
    if code == INTERRUPTED_EXIT_CODE:
        _fail(MetricDPError("interrupted; no file is half written"), PROGRAM_FAILED)
    if _is_busy():
        # all is written; a solver that ignores the limit would keep the process alive
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)
    sys.exit(code or 0)


def _is_a_no(error: MetricDPError) -> bool:
    """Return whether the error is an answer: not private, or not within the budget."""
    from metricdp.budget.refusals import BudgetsExceededError  # noqa: PLC0415  (the help needs no ledger)

    return isinstance(error, (CertificationError, BudgetsExceededError))


def _is_busy() -> bool:
    """Return whether a solver is still running; False if none was imported."""
    solver = sys.modules.get("metricdp.solve.lp")
    return solver is not None and bool(solver.is_busy())


def _complain(error: Any) -> NoReturn:
    """Print in one line which option or argument is wrong; without any arguments, print the help."""
    if len(sys.argv) == 1:
        error.show()
        sys.exit(WRONG_INPUT)
    unknown = getattr(error, "option_name", None)
    if unknown is not None and _is_secret() and not getattr(error, "possibilities", None):
        _fail(InputError("an argument that begins with - is not an option: write -- before the ids"), WRONG_INPUT)
    message = " ".join(error.format_message().split()).rstrip(".")
    given = [
        word.removeprefix(f"{option}=") if word.startswith(f"{option}=") else following
        for option in getattr(getattr(error, "param", None), "opts", ())
        for word, following in zip(sys.argv, [*sys.argv[1:], ""], strict=True)
        if word == option or word.startswith(f"{option}=")
    ]
    options = getattr(getattr(error, "param", None), "opts", ("",))
    value = f", got {given[-1]!r}{hint_for(options[0], given[-1])}" if given else ""
    _fail(InputError(f"{message}{value}; see metricdp --help"), WRONG_INPUT)


def _explained(error: Exception) -> MetricDPError:
    if isinstance(error, OSError) and not _can_be_written():
        return lost_output(error)
    what = type(error).__name__ if _is_secret() else f"{type(error).__name__}: {error}"
    return MetricDPError(f"the program failed ({what}); set METRICDP_DEBUG=1 to see where")


def _is_secret() -> bool:
    """Return whether the arguments may hold true records, which messages show only on request."""
    return sys.argv[1:2] == ["perturb"] and "--show-values" not in sys.argv


def _fail(error: MetricDPError, code: int) -> NoReturn:
    message = with_remedy(str(error))
    print_line(err, f"error: {message}")
    if "--json" in sys.argv:
        with suppress(MetricDPError):
            print_json({"status": "error", "error": message})
    _can_be_written()
    sys.exit(code)


def _can_be_written() -> bool:
    """Flush standard output; if that fails (a full disk, a closed pipe), discard the output, now and later."""
    try:
        sys.stdout.flush()
    except OSError:
        with Path(os.devnull).open("w", encoding="utf-8") as nothing:
            os.dup2(nothing.fileno(), sys.stdout.fileno())
        return False
    return True
