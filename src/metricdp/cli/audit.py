"""`metricdp audit`: what a matrix satisfies, exactly, and whether a pipeline's reports refute its promise."""

from __future__ import annotations

import io
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from metricdp.apply.text import Words
from metricdp.cli.app import ANSWER_IS_NO, JsonOption, app, one_of, out, print_json
from metricdp.cli.problems import (
    EtaOption,
    MetricOption,
    OutputsOption,
    RecordsOption,
    length_of,
    problem_of_data,
)
from metricdp.data import read_matrix
from metricdp.errors import InputError
from metricdp.evaluate.audit import MatrixAudit
from metricdp.evaluate.audit import audit as audit_matrix
from metricdp.evaluate.auditor.auditor import (
    BATCH_SIZE,
    FALSE_ALARM_RATE,
    N_ALONE,
    N_DRAWS,
    Audit,
    Claim,
    Neighbours,
    Pipeline,
    audit_pipeline,
)
from metricdp.evaluate.auditor.claims import point_claim, record_claim, word_claim
from metricdp.evaluate.auditor.neighbours import (
    N_PAIRS,
    point_neighbours,
    record_neighbours,
    word_neighbours,
)
from metricdp.evaluate.auditor.pipelines import command_pipeline, id_pipeline, point_pipeline
from metricdp.evaluate.auditor.self_test import self_test
from metricdp.evaluate.problem_of_file import rebuild
from metricdp.mechanism.files import load
from metricdp.mechanism.mechanism import Mechanism
from metricdp.problem import Problem
from metricdp.report.tables import print_line

KINDS = ("ids", "points", "words")
BUILTIN = "builtin:"
MECHANISM_SUFFIX = ".mdp"
N_ALONE_BY_COMMAND = 100  # a program is started for each


@app.command("audit")
def audit(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[MATRIX | FILE.mdp]",
            help="A matrix of probabilities (.npy, .csv) or a mechanism, with --problem; or the mechanism whose "
            "promise the pipeline should keep.",
        ),
    ] = None,
    problem: Annotated[
        str | None,
        typer.Option(
            help="What the matrix is of: a mechanism file, or DATA as for solve with the options below; the exact "
            "tightest epsilon is printed, and nothing is repaired."
        ),
    ] = None,
    epsilon: Annotated[
        str | None,
        typer.Option(
            help="For --problem: the budget that is claimed, by default that of the file; or the column of DATA that "
            "has each record's own."
        ),
    ] = None,
    eta: EtaOption = None,
    records: RecordsOption = None,
    outputs: OutputsOption = None,
    metric: MetricOption = None,
    pipeline: Annotated[
        str | None,
        typer.Option(
            help="A command that reads inputs and writes reports, line by line; or builtin:ids | builtin:points | "
            "builtin:words for the file's own.",
            autocompletion=one_of(*(BUILTIN + kind for kind in KINDS)),
        ),
    ] = None,
    inputs: Annotated[
        str | None,
        typer.Option(
            help="What a command reads: ids | points | words; points with --snap-limit.", autocompletion=one_of(*KINDS)
        ),
    ] = None,
    snap_limit: Annotated[
        str | None,
        typer.Option(help="The farthest distance at which the pipeline snaps points to records: 0.5 or 500m."),
    ] = None,
    draws: Annotated[int, typer.Option(help="How many reports to draw for each input.")] = N_DRAWS,
    pairs: Annotated[int, typer.Option(help="How many pairs of inputs to compare.")] = N_PAIRS,
    false_alarm_rate: Annotated[
        float, typer.Option(help="The chance that a sound pipeline raises an alarm is at most this.")
    ] = FALSE_ALARM_RATE,
    batch: Annotated[int, typer.Option(help="The most inputs to give to the pipeline at a time.")] = BATCH_SIZE,
    seed: Annotated[int, typer.Option(help="Number that random choices of pairs, records and outputs begin with.")] = 0,
    shipped: Annotated[
        bool, typer.Option("--self-test", help="Audit the broken and the sound pipelines that ship with metricdp.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Say which epsilon a matrix satisfies, exactly, or whether a pipeline's reports refute a promise; exit 1 on no."""
    if shipped:
        if file is not None or pipeline is not None or problem is not None:
            raise InputError("--self-test audits the shipped pipelines: leave out FILE.mdp, --pipeline and --problem")
        _self_test(as_json=as_json)
        return
    if file is None or (pipeline is None) == (problem is None):
        raise InputError("give FILE.mdp and --pipeline, or a matrix and --problem, or --self-test alone")
    described = {"--epsilon": epsilon, "--eta": eta, "--records": records, "--outputs": outputs, "--metric": metric}
    if problem is not None:
        _audit_matrix(file, problem, described, seed=seed, as_json=as_json)
        return
    unused = next((option for option, value in described.items() if value is not None), None)
    if pipeline is None or unused is not None:
        raise InputError(f"{unused} goes with --problem: leave it out for a pipeline")
    if pairs < 1 or seed < 0:
        raise InputError(f"--pairs must be at least 1 and --seed zero or more, got {pairs} and {seed}")
    mechanism = load(file)  # first of all: a file of another kind needs other options, or none
    kind = _kind(pipeline, inputs, snap_limit)
    limit = length_of(snap_limit, "--snap-limit", mechanism.metric)
    neighbours, claim = _compared(mechanism, kind, limit, n_pairs=pairs, seed=seed)
    found = audit_pipeline(
        _pipeline(mechanism, pipeline, kind, limit),
        neighbours,
        claim,
        outputs=_outputs(mechanism, pipeline, kind),
        n_draws=draws,
        false_alarm_rate=false_alarm_rate,
        batch=batch,
        n_alone=N_ALONE if pipeline.startswith(BUILTIN) else N_ALONE_BY_COMMAND,
    )
    if as_json:
        print_json(_fields(found))
    else:
        for line in found.lines():
            print_line(out, line)
    if not found.passed:
        raise typer.Exit(ANSWER_IS_NO)


def _audit_matrix(file: Path, source: str, described: dict[str, Any], *, seed: int, as_json: bool) -> None:
    """Audit a matrix on the problem of a mechanism file or of DATA."""
    if source.endswith(MECHANISM_SUFFIX):
        other = next(
            (option for option, value in described.items() if value is not None and option != "--epsilon"), None
        )
        if other is not None:
            raise InputError(f"{other} goes with DATA: leave it out, {source} holds it")
        owner = rebuild(source).problem
        asked = owner if described["--epsilon"] is None else owner.with_epsilon(_number(described["--epsilon"]))
    else:
        asked = problem_of_data(source, described, seed=seed)
    matrix = load(file) if file.name.endswith(MECHANISM_SUFFIX) else read_matrix(file)
    try:
        found = audit_matrix(matrix, asked)
    except InputError as error:
        raise InputError(f"in {file}: {error}") from None
    is_claimed = described["--epsilon"] is not None or source.endswith(MECHANISM_SUFFIX)
    if as_json:
        print_json(_matrix_fields(found, asked, is_claimed=is_claimed))
    else:
        for line in found.lines() if is_claimed or not found.n_pairs else found.lines()[1:]:
            print_line(out, line)
    if not found.n_pairs or (is_claimed and not found.holds):
        raise typer.Exit(ANSWER_IS_NO)


def _number(text: str) -> float:
    """Return the budget that is claimed on the problem of a mechanism file."""
    try:
        return float(text)
    except ValueError:
        raise InputError(
            f"--epsilon must be a number here, got {text!r:.80}: a column can be named for a file of records only"
        ) from None


def _matrix_fields(found: MatrixAudit, problem: Problem, *, is_claimed: bool) -> dict[str, Any]:
    return {
        "holds": found.holds if is_claimed else None,
        "epsilon": found.epsilon if found.n_pairs else None,
        "claimed": found.claimed if is_claimed else None,
        "worst_pair": found.pair,
        "worst_output": found.output,
        "worst_distance": None if found.worst is None else found.worst.distance,
        "worst_probabilities": found.probabilities,
        "records": problem.n_records,
        "outputs": problem.n_outputs,
        "pairs": found.n_pairs,
        "components": problem.graph.n_components,
        "eta": problem.eta,
        "metric": problem.metric.name,
        "constraints": found.n_constraints,
        "violated": found.n_violated if is_claimed else None,
        "share_violated": found.share_violated if is_claimed else None,
        "row_sum_error": found.row_sum_error,
    }


def _kind(pipeline: str, inputs: str | None, snap_limit: str | None) -> str:
    """Return the kind of inputs that the pipeline reads."""
    if pipeline.startswith(BUILTIN):
        if inputs is not None:
            raise InputError("--inputs goes with a command of your own: leave it out for a builtin pipeline")
        kind = pipeline.removeprefix(BUILTIN)
    else:
        kind = inputs or ("ids" if snap_limit is None else "points")
    if kind not in KINDS:
        raise InputError(f"unknown inputs {kind!r}: choose {', '.join(KINDS)}")
    if (kind == "points") != (snap_limit is not None):
        raise InputError("--snap-limit goes with points: give it for them, and leave it out for ids and words")
    return kind


def _compared(
    mechanism: Mechanism, kind: str, snap_limit: float | None, *, n_pairs: int, seed: int
) -> tuple[list[Neighbours], Claim]:
    if kind == "points" and snap_limit is not None:
        pairs = point_neighbours(mechanism, limit=snap_limit, n_pairs=n_pairs, seed=seed)
        return pairs, point_claim(mechanism, limit=snap_limit)
    if kind == "words":
        return word_neighbours(mechanism, n_pairs=n_pairs, seed=seed), word_claim(mechanism)
    return record_neighbours(mechanism, n_pairs=n_pairs, seed=seed), record_claim(mechanism)


def _pipeline(mechanism: Mechanism, pipeline: str, kind: str, snap_limit: float | None) -> Pipeline:
    if not pipeline.startswith(BUILTIN):
        return command_pipeline(pipeline)
    if kind == "points" and snap_limit is not None:
        return point_pipeline(mechanism, limit=snap_limit)
    return word_pipeline(mechanism) if kind == "words" else id_pipeline(mechanism)


def word_pipeline(mechanism: Mechanism) -> Pipeline:
    """Return the pipeline of `metricdp perturb --text --unknown mask`, from words to words."""

    def report(words: list[Any]) -> list[str]:
        text: Any = io.StringIO()
        Words(mechanism, unknown="mask", keep_punctuation=False, allow_unprotected=False).write("\n".join(words), text)
        return str(text.getvalue()).split("\n")

    return report


def _outputs(mechanism: Mechanism, pipeline: str, kind: str) -> tuple[str, ...] | None:
    # a program may name its reports freely, and a text has masks
    return mechanism.outputs.ids(mechanism.records) if pipeline.startswith(BUILTIN) and kind != "words" else None


def _fields(found: Audit) -> dict[str, Any]:
    return {"passed": found.passed, **asdict(found)}


def _self_test(*, as_json: bool) -> None:
    verdicts = list(self_test())
    if as_json:
        rows = [
            {"name": v.example.name, "sound": v.example.is_sound, "passed": v.audit.passed, "right": v.is_right}
            for v in verdicts
        ]
        print_json({"right": all(v.is_right for v in verdicts), "pipelines": rows})
    else:
        table = Table("pipeline", "expected", "found", "what it does", box=box.SIMPLE_HEAD, pad_edge=False)
        for v in verdicts:
            expected = "passes" if v.example.is_sound else "alarm"
            table.add_row(v.example.name, expected, "passes" if v.audit.passed else "alarm", v.example.story)
        out.print(table)
        wrong = [v.example.name for v in verdicts if not v.is_right]
        print_line(out, f"WRONG: {', '.join(wrong)}" if wrong else f"All {len(verdicts)} verdicts are right.")
    if not all(v.is_right for v in verdicts):
        raise typer.Exit(ANSWER_IS_NO)
