"""The command line: parse, call, print. Results go to standard output, progress and logs to standard error."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from metricdp import __version__
from metricdp.data import read_matrix, read_rows, road
from metricdp.data.named import chosen, default_eta, file_named, named
from metricdp.data.readers.files import is_there
from metricdp.data.writing import check_writable, write_whole
from metricdp.errors import CertificationError, InputError, MetricDPError, MissingExtraError
from metricdp.mechanism.baselines import exponential
from metricdp.mechanism.certify import TOTAL_BITS
from metricdp.mechanism.files import load
from metricdp.mechanism.mechanism import Mechanism, table_loss
from metricdp.partition import PARTITIONERS
from metricdp.problem import Problem
from metricdp.report.csv_reports import perturb_csv
from metricdp.report.tables import (
    ProgressLine,
    print_certificate,
    print_comparison,
    print_line,
    print_result,
    printable,
)
from metricdp.solve import METHODS, BendersOptions, DirectOptions, Result, Status, solve
from metricdp.solve.lp import ALGORITHMS, is_busy

ANSWER_IS_NO, WRONG_INPUT, PROGRAM_FAILED = 1, 2, 3
INTERRUPTED = 130  # what typer makes of Ctrl-C
DEMO_FILE = "metricdp-demo.mdp"

app = typer.Typer(
    name="metricdp",
    help="Optimal metric differential privacy that is proved, not promised.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
out = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
FileArgument = Annotated[Path, typer.Argument(metavar="FILE.mdp", help="A mechanism file.")]


@app.command("solve")
def solve_command(
    source: Annotated[
        str, typer.Argument(metavar="DATA", help="road:gothenburg | grid:20x25 | words | gaussian | a file.")
    ],
    epsilon: Annotated[float, typer.Option(help="Privacy budget per unit of distance (per km for places).")],
    eta: Annotated[float | None, typer.Option(help="Records within this distance are neighbours.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Where to write the mechanism (.mdp).")] = None,
    records: Annotated[str | None, typer.Option(help="How many records to draw, or a file of row numbers.")] = None,
    outputs: Annotated[
        str | None, typer.Option(help="How many outputs to draw, or a file of rows of the records.")
    ] = None,
    loss: Annotated[str | None, typer.Option(help="travel | distance | a matrix file (.csv, .npy).")] = None,
    prior: Annotated[str | None, typer.Option(help="uniform, or a file with one weight per chosen record.")] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="haversine | euclidean | manhattan | street; by default haversine for places, else euclidean."
        ),
    ] = None,
    streets: Annotated[
        str | None, typer.Option(help="CSV of streets u,v[,length km] between the rows of DATA.")
    ] = None,
    seed: Annotated[int, typer.Option(help="For drawing records, outputs and destinations.")] = 0,
    method: Annotated[str, typer.Option(help=" | ".join(METHODS))] = "auto",
    partition: Annotated[str, typer.Option(help=f"For benders: {' | '.join(PARTITIONERS)}.")] = "k-m-dv",
    blocks: Annotated[int | None, typer.Option(help="For benders: how many blocks; chosen by default.")] = None,
    preset: Annotated[str, typer.Option(help="For benders: best | textbook (the paper's plain form).")] = "best",
    gap: Annotated[float, typer.Option(help="Relative gap at which to stop.")] = 0.01,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds; the best certified mechanism so far is kept.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of the solver; all cores by default.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Address of a Dask scheduler for subproblems.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Folder to write progress to (benders).")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint.")] = False,
    lp: Annotated[str, typer.Option(help=f"LP algorithm of the direct method: {' | '.join(ALGORITHMS)}.")] = "simplex",
    all_rows: Annotated[bool, typer.Option("--all-rows", help="Hand all mDP rows to the LP solver at once.")] = False,
    trace: Annotated[Path | None, typer.Option(help="Write the run's log as JSON lines.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the best mechanism for DATA, certify it, and write it to a file."""
    _check_targets(
        {"--output": output, "--trace": trace},
        {
            "DATA": source,
            "--records": records,
            "--outputs": outputs,
            "--loss": loss,
            "--prior": prior,
            "--streets": streets,
        },
    )
    seed = _whole(seed)
    chosen_records = chosen(named(source, streets=streets, seed=seed), records, seed=seed)
    if prior is not None:
        chosen_records = chosen_records.with_prior(_weights(prior, chosen_records.n))
    problem = Problem(
        chosen_records,
        epsilon=epsilon,
        eta=_eta(eta, source),
        outputs=_outputs(outputs),
        loss=_loss(loss),
        metric=metric,
        seed=seed,
    )
    with ProgressLine(err, "solving") as progress:
        result = solve(
            problem,
            method=method,
            gap=gap,
            time_limit=time_limit,
            threads=threads,
            direct=DirectOptions(algorithm=lp, all_rows=all_rows),
            benders=_preset(preset),
            partition=partition,
            n_blocks=blocks,
            seed=seed,
            cluster=cluster,
            checkpoint=checkpoint,
            resume=resume,
            listener=progress,
        )
    if output is not None:
        result.mechanism.save(output)
    if trace is not None:
        write_whole(trace, (result.trace.json_lines() + "\n").encode())
    if as_json:
        _print_json(_solve_fields(result, output))
    else:
        print_result(out, result)
        if output is not None:
            print_line(out, f"written to {output}")
        if result.status is not Status.OPTIMAL:
            print_line(err, f"the gap {gap:g} was not reached: {_remedy(result.status)}")
    if result.status is not Status.OPTIMAL:
        raise typer.Exit(ANSWER_IS_NO)


@app.command()
def verify(file: FileArgument, as_json: JsonOption = False) -> None:
    """Check a mechanism file exactly; exit 0 only if it is private as it claims."""
    try:
        mechanism = load(file)
    except CertificationError as error:
        if as_json:
            _print_json({"certified": False, "file": str(file), "error": str(error)})
        print_line(err, f"NOT PRIVATE: {error}")
        raise typer.Exit(ANSWER_IS_NO) from None
    if as_json:
        _print_json(_verify_fields(mechanism))
    else:
        print_line(out, repr(mechanism))
        print_certificate(out, mechanism)


@app.command()
def perturb(
    file: FileArgument,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of the true records.")] = None,
    source: Annotated[Path | None, typer.Option("--input", help="CSV with a column id.")] = None,
    target: Annotated[Path | None, typer.Option("--output", help="CSV of reports to write.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Report perturbed records. Every report spends the budget again: n reports of one record cost n * epsilon."""
    if bool(ids) == bool(source) or (source is None) != (target is None):
        raise InputError("give either record ids, or both --input CSV and --output CSV")
    _check_targets({"--output": target}, {"--input": source, "FILE.mdp": file})
    mechanism = load(file)
    if source is not None and target is not None:
        count = perturb_csv(mechanism, source, target)
        if as_json:
            _print_json({"reports": count, "file": str(target), "epsilon": mechanism.epsilon})
        else:
            print_line(out, f"{count} reports written to {target}")
        return
    reports = mechanism.perturb(ids or [])
    if as_json:
        _print_json({"reports": reports, "epsilon": mechanism.epsilon})
    else:
        shown = map(printable, reports) if sys.stdout.isatty() else reports
        sys.stdout.write("".join(f"{report}\n" for report in shown))


@app.command()
def demo(as_json: JsonOption = False) -> None:
    """Solve the shipped city, certify the mechanism, and compare it with the exponential mechanism."""
    check_writable(DEMO_FILE)
    problem = Problem(road("gothenburg", n=300, seed=0), epsilon=10.0, eta=0.5, outputs=50, seed=0)
    with ProgressLine(err, "solving") as progress:
        result = solve(problem, gap=1e-4, listener=progress)
    result.mechanism.save(DEMO_FILE)
    simple = exponential(problem)
    losses = {"optimal (metricdp)": result.loss, "exponential mechanism": table_loss(simple.table, problem)}
    if as_json:
        _print_json({**_solve_fields(result, Path(DEMO_FILE)), "losses": losses})
        return
    print_result(out, result)
    print_comparison(out, losses, "km")
    true = problem.records.ids[0]
    print_line(out, f"Somebody at intersection {true} reports: {', '.join(result.mechanism.perturb([true] * 5))}")
    print_line(out, f"The mechanism is in {DEMO_FILE}. Check it again with: metricdp verify {DEMO_FILE}")
    if result.status is not Status.OPTIMAL:
        raise typer.Exit(ANSWER_IS_NO)


def _version(wanted: bool) -> None:
    if wanted:
        print_line(out, f"metricdp {__version__}")
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Optimal metric differential privacy that is proved, not promised."""


def _check_targets(targets: dict[str, Path | None], sources: dict[str, str | Path | None]) -> None:
    """Refuse files that cannot be written, and two options that name one file where one of them writes it."""
    taken = {Path(path).resolve(): option for option, path in sources.items() if path is not None and is_there(path)}
    for option, path in targets.items():
        if path is None:
            continue
        check_writable(path)
        other = taken.setdefault(path.resolve(), option)
        if other != option:
            raise InputError(f"{other} and {option} both name {path}: give {option} a file of its own")


def _whole(seed: int) -> int:
    if seed < 0:
        raise InputError(f"--seed must be zero or more, got {seed}")
    return seed


def _eta(given: float | None, source: str) -> float:
    reach = default_eta(source) if given is None else given
    if reach is None:
        raise InputError("--eta is missing: give the distance within which records are neighbours, such as --eta 2")
    return reach


def _preset(name: str) -> BendersOptions:
    if name not in ("best", "textbook"):
        raise InputError(f"unknown preset {name!r}: choose best or textbook")
    return BendersOptions.textbook() if name == "textbook" else BendersOptions()


def _outputs(choice: str | None) -> Any:
    if choice is None:
        return None
    if re.fullmatch(r"[+-]?\d+", choice):
        return int(choice)
    return read_rows(file_named("--outputs", choice, "a whole number"))


def _weights(prior: str, n: int) -> Any:
    return [1.0] * n if prior == "uniform" else read_matrix(file_named("--prior", prior, "uniform")).ravel()


def _loss(loss: str | None) -> Any:
    if loss in (None, "travel", "distance"):
        return loss
    return read_matrix(file_named("--loss", str(loss), "travel", "distance"))


def _remedy(status: Status) -> str:
    if status is Status.FAILED:
        return "more time would not help; try --method columns or auto, or accept a larger --gap"
    return "give more time (--time-limit) or accept a larger --gap"


def _solve_fields(result: Result, output: Path | None) -> dict[str, Any]:
    problem = result.problem
    return {
        "status": result.status.value,
        "method": result.method,
        "partition": None if result.partition is None else result.partition.name,
        "blocks": None if result.partition is None else result.partition.n_blocks,
        "records": problem.n_records,
        "outputs": problem.n_outputs,
        "pairs": problem.graph.n_pairs,
        "components": problem.graph.n_components,
        "epsilon": problem.epsilon,
        "eta": problem.eta,
        "lower_bound": result.lower_bound,
        "loss": result.loss,
        "gap": result.gap,
        "certified": result.mechanism.certificate.privacy.certified,
        "seconds": result.seconds,
        "peak_mb": result.peak_mb,
        "iterations": result.iterations,
        "cuts": result.cuts,
        "file": None if output is None else str(output),
    }


def _verify_fields(mechanism: Mechanism) -> dict[str, Any]:
    certificate = mechanism.certificate
    check, worst, ids = certificate.privacy, certificate.privacy.worst, mechanism.records.ids
    return {
        "certified": check.certified,
        "records": check.n_records,
        "outputs": check.n_outputs,
        "pairs": check.n_pairs,
        "components": certificate.n_components,
        "epsilon": check.epsilon,
        "eta": certificate.eta,
        "tightest_epsilon": check.tightest_epsilon,
        "worst_pair": None if worst is None else [ids[worst.i], ids[worst.j]],
        "bits": TOTAL_BITS,
        "seconds": check.seconds,
    }


def _print_json(fields: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({k: _jsonable(v) for k, v in fields.items()}) + "\n")


def _jsonable(value: Any) -> Any:
    # infinity is no JSON number
    return str(value) if isinstance(value, float) and value in (float("inf"), float("-inf")) else value


def main() -> None:
    """Run the command line and turn every error into one line and an exit code."""
    try:
        code = app(standalone_mode=False)
    except (InputError, MissingExtraError) as error:
        _fail(error, WRONG_INPUT)
    except CertificationError as error:
        _fail(error, ANSWER_IS_NO)
    except MetricDPError as error:
        _fail(error, PROGRAM_FAILED)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        if hasattr(error, "format_message"):  # typer's: an option or argument that cannot be understood
            _complain(error)
        if os.environ.get("METRICDP_DEBUG"):
            raise
        what = f"{type(error).__name__}: {error}"
        _fail(MetricDPError(f"the program failed ({what}); set METRICDP_DEBUG=1 to see where"), PROGRAM_FAILED)
    if code == INTERRUPTED:
        _fail(MetricDPError("interrupted; nothing was written"), PROGRAM_FAILED)
    if is_busy():
        # all is written; a solver that is deaf to the limit would hold the process
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)
    sys.exit(code or 0)


def _complain(error: Any) -> NoReturn:
    """Say in one line which option or argument is wrong; without any words at all, show the help."""
    if len(sys.argv) == 1:
        error.show()
        sys.exit(WRONG_INPUT)
    message = " ".join(error.format_message().split()).rstrip(".")
    given = [
        word.removeprefix(f"{option}=") if word.startswith(f"{option}=") else following
        for option in getattr(getattr(error, "param", None), "opts", ())
        for word, following in zip(sys.argv, [*sys.argv[1:], ""], strict=True)
        if word == option or word.startswith(f"{option}=")
    ]
    value = f", got {given[-1]!r}" if given else ""
    _fail(InputError(f"{message}{value}; see metricdp --help"), WRONG_INPUT)


def _fail(error: MetricDPError, code: int) -> NoReturn:
    print_line(err, f"error: {error}")
    if "--json" in sys.argv:
        _print_json({"status": "error", "error": str(error)})
    sys.exit(code)
