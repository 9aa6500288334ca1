"""`metricdp solve`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from metricdp.cli.app import ANSWER_IS_NO, JsonOption, app, err, one_of, out, print_json
from metricdp.cli.checks import TEXT_FORMATS, after, check_ending, check_targets, tell_before_solving, warn_of_people
from metricdp.cli.problems import (
    DataArgument,
    EtaOption,
    FactorOption,
    MetricOption,
    OutputsOption,
    RecordsOption,
    ReportsOption,
    SpacingOption,
    WithinOption,
    epsilon_of,
    eta_of,
    given_budget,
    is_zero,
    length_of,
    one_epsilon,
    outputs_of,
    whole_seed,
)
from metricdp.cli.regions import WEIGHTS, refuse_options, solve_region
from metricdp.data import read_matrix
from metricdp.data.named import chosen, file_named, named
from metricdp.data.people import column_names
from metricdp.data.writing import is_packed, write_whole
from metricdp.errors import InputError
from metricdp.evaluate.guidance import guidance
from metricdp.evaluate.problem_of_file import NAMED_LOSSES
from metricdp.mechanism.files import save
from metricdp.metric import as_metric
from metricdp.partition import PARTITIONERS
from metricdp.problem import Problem
from metricdp.report.tables import ProgressLine, print_line, print_result
from metricdp.solve import METHODS, BendersOptions, Cluster, DirectOptions, LocalOptions, Result, Status, solve
from metricdp.solve.lp import ALGORITHMS

DEFAULT_GAP = 0.01
PRESETS = ("best", "textbook")


@app.command("solve")
def solve_command(
    source: DataArgument,
    epsilon: Annotated[
        str | None,
        typer.Option(
            help="Privacy budget per unit of distance (per km for places), or the column of the file DATA with each "
            "record's own."
        ),
    ] = None,
    within: WithinOption = None,
    factor: FactorOption = None,
    reports: ReportsOption = None,
    eta: EtaOption = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Where to write the mechanism (.mdp); without it nothing is kept."),
    ] = None,
    records: RecordsOption = None,
    outputs: OutputsOption = None,
    loss: Annotated[
        str | None,
        typer.Option(
            help="What a report costs: travel (the error in travel costs to destinations; the default for places) | "
            "distance (how far it is from the truth; the default for vectors and regions) | a matrix file (.csv, "
            ".npy).",
            autocompletion=one_of(*NAMED_LOSSES),
        ),
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(
            help="How likely each record is: uniform, or a file with one weight per chosen record; for a region points "
            "with weights, or a raster of counts (.asc). By default the weights of DATA, or all alike.",
            autocompletion=one_of("uniform"),
        ),
    ] = None,
    destination_prior: Annotated[
        Path | None,
        typer.Option(
            help="For the loss travel: a file with one weight per chosen record, how likely it is to go there."
        ),
    ] = None,
    metric: MetricOption = None,
    streets: Annotated[
        str | None, typer.Option(help="CSV of streets u,v[,length km] between the rows of DATA.")
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Number that random draws of records, outputs and destinations begin with.")
    ] = 0,
    method: Annotated[
        str, typer.Option(help=f"The solver: {' | '.join(METHODS)}; auto chooses.", autocompletion=one_of(*METHODS))
    ] = "auto",
    partition: Annotated[
        str | None,
        typer.Option(
            help="How records are divided, for benders (k-m-dv by default) and for local with --regions: "
            f"{' | '.join(PARTITIONERS)}.",
            autocompletion=one_of(*PARTITIONERS),
        ),
    ] = None,
    blocks: Annotated[int | None, typer.Option(help="For benders: how many blocks; chosen by default.")] = None,
    regions: Annotated[
        int | None, typer.Option(help="For local: how many regions; as many as memory and workers ask for by default.")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="For benders: best (the default) | textbook (the paper's plain form).", autocompletion=one_of(*PRESETS)
        ),
    ] = None,
    spacing: SpacingOption = None,
    margin: Annotated[
        str | None,
        typer.Option(
            help="For regions: how far outside points may be and be moved to the border, such as 0.5 (km) or 500m; a "
            "tenth of the box by default."
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            help=f"For regions: {' | '.join(WEIGHTS)} (simpler, and more loss); splines by default.",
            autocompletion=one_of(*WEIGHTS),
        ),
    ] = None,
    gap: Annotated[
        float, typer.Option(help="Stop when the loss is so near to its lower bound, relative to the loss: 0.01 is 1 %.")
    ] = DEFAULT_GAP,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds; the best certified mechanism so far is kept. No limit by default.")
    ] = None,
    memory_limit: Annotated[
        float | None,
        typer.Option(
            help="Gigabytes; a problem that would need more is refused at once. By default what is available."
        ),
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of the solver; all cores by default.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Address of a Dask scheduler for subproblems or regions.")] = None,
    tls_ca: Annotated[Path | None, typer.Option(help="For --cluster: its certificate authorities (.pem).")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="For --cluster: the certificate to show to it.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="For --cluster: that certificate's private key.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder in which progress is kept, so that --resume can go on from it.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the progress in the folder of --checkpoint.")
    ] = False,
    lp: Annotated[
        str | None,
        typer.Option(
            help=f"For direct: the algorithm of the LP solver, {' | '.join(ALGORITHMS)}; simplex by default.",
            autocompletion=one_of(*ALGORITHMS),
        ),
    ] = None,
    all_rows: Annotated[
        bool,
        typer.Option(
            "--all-rows",
            help="For direct: pass all mDP rows to the LP solver at once, not only those that are violated.",
        ),
    ] = False,
    trace: Annotated[Path | None, typer.Option(help="File to write the run's log to, as JSON lines.")] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show what the solver does, not only how far it is.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Find the best mechanism for DATA, certify it, and write it to a file."""
    check_targets(
        {"--output": output, "--trace": trace},
        {
            "DATA": source,
            "--records": records,
            "--outputs": outputs,
            "--loss": loss,
            "--prior": prior,
            "--destination-prior": destination_prior,
            "--streets": streets,
        },
    )
    check_ending("--output", output, content="a mechanism", remedy="end it in .mdp", also=TEXT_FORMATS)
    seed = whole_seed(seed)
    if output is not None and is_packed(output):
        raise InputError(
            f"{output} is named like a packed file: leave .gz out, and pack it with metricdp export --compress"
        )
    if source.startswith("region:"):
        given = {
            "eta": eta, "records": records, "destination_prior": destination_prior, "metric": metric,
            "streets": streets, "partition": partition, "blocks": blocks, "regions": regions, "preset": preset,
            "threads": threads, "cluster": cluster, "tls_ca": tls_ca,
            "tls_cert": tls_cert, "tls_key": tls_key, "checkpoint": checkpoint, "lp": lp, "resume": resume or None,
            "all_rows": all_rows or None, "seed": seed or None, "method": None if method == "auto" else method,
            "loss": None if loss == "distance" else loss,
        }  # fmt: skip
        refuse_options(given, dict.fromkeys(given))
        solve_region(
            source,
            one_epsilon(epsilon, within, factor, reports, metric="haversine"),
            spacing=length_of(spacing, "--spacing"),
            margin=0.0 if is_zero(margin) else length_of(margin, "--margin"),
            weights=weights,
            outputs=outputs,
            prior=prior,
            target=output,
            gap=gap,
            time_limit=time_limit,
            memory_limit=memory_limit,
            trace=trace,
            is_verbose=verbose,
            as_json=as_json,
        )
        return
    for name, value in (("spacing", spacing), ("margin", margin), ("weights", weights)):
        if value is not None:
            raise InputError(f"--{name} is for regions (region:SOUTH,WEST,NORTH,EAST): leave it out")
    if resume and checkpoint is None:
        raise InputError("--resume goes with --checkpoint FOLDER: name the folder of the run to go on with")
    options = _method_options(
        method,
        partition=partition,
        benders={"--blocks": blocks, "--preset": preset},
        direct={"--lp": lp, "--all-rows": all_rows or None},
        local={"--regions": regions},
        seed=seed,
    )
    all_records = named(source, streets=streets, seed=seed, memory_limit=memory_limit)
    chosen_records = chosen(all_records, records, seed=seed, option="--records")
    if prior is not None:
        chosen_records = chosen_records.with_prior(_weights(prior, chosen_records.n))
    budget = given_budget(epsilon, source, all_records, chosen_records, memory_limit=memory_limit)
    problem = Problem(
        chosen_records,
        epsilon=epsilon_of(budget, within, factor, reports, metric=as_metric(metric, chosen_records).name),
        eta=eta_of(eta, source),
        outputs=outputs_of(outputs),
        loss=_loss(loss),
        destination_prior=None if destination_prior is None else read_matrix(destination_prior).ravel(),
        metric=metric,
        seed=seed,
        memory_limit=memory_limit,
    )
    warnings = warn_of_people(all_records, columns=column_names(source))
    said = partial(tell_before_solving, problem, source, is_default=eta is None, is_written=output is not None)
    with ProgressLine(err, "solving", is_verbose=verbose) as progress:
        result = solve(
            problem,
            method=method,
            gap=gap,
            time_limit=time_limit,
            threads=threads,
            options=options,
            cluster=_cluster(cluster, tls_ca, tls_cert, tls_key),
            checkpoint=checkpoint,
            resume=resume,
            listener=after(said, progress),
        )
    if output is not None:
        save(result.mechanism, output)
    if trace is not None:
        write_whole(trace, (result.trace.json_lines() + "\n").encode(), may_pack=True)
    _answer(result, output, gap=gap, warnings=warnings, as_json=as_json)


def _answer(result: Result, output: Path | None, *, gap: float, warnings: list[str], as_json: bool) -> None:
    """Print the result; exit with 1 if the gap was not reached."""
    if as_json:
        print_json({**solve_fields(result, output), "warnings": warnings})
    else:
        print_result(out, result)
        advice = guidance(result.problem, result.mechanism)
        if advice is not None:
            print_line(out, advice)
        if output is not None:
            print_line(out, f"written to {output}")
        if result.status is not Status.OPTIMAL:
            print_line(err, f"the gap {gap:g} was not reached: {_remedy(result)}")
    if output is None:
        print_line(err, "the mechanism was not written: name a file with -o FILE.mdp to keep it")
    if result.status is not Status.OPTIMAL:
        raise typer.Exit(ANSWER_IS_NO)


def solve_fields(result: Result, output: Path | None) -> dict[str, Any]:
    """Return the fields of a result that `--json` prints."""
    problem = result.problem
    return {
        "status": result.status.value,
        "interrupted": result.is_interrupted,
        "method": result.method,
        "solver": result.solver,
        "partition": None if result.partition is None else result.partition.name,
        "blocks": None if result.partition is None else result.partition.n_blocks,
        "records": problem.n_records,
        "outputs": problem.n_outputs,
        "pairs": problem.graph.n_pairs,
        "components": problem.graph.n_components,
        "epsilon": problem.epsilon,
        "smallest_epsilon": problem.at_smallest_epsilon.epsilon,
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


def _cluster(address: str | None, ca: Path | None, cert: Path | None, key: Path | None) -> Cluster | None:
    if address is None:
        if (ca, cert, key) != (None, None, None):
            raise InputError("--tls-ca, --tls-cert and --tls-key are for a cluster: name it with --cluster")
        return None
    return Cluster(address, ca=ca, cert=cert, key=key)


def _method_options(
    method: str,
    *,
    partition: str | None,
    benders: dict[str, Any],
    direct: dict[str, Any],
    local: dict[str, Any],
    seed: int,
) -> Any:
    """Return the options of the chosen method; those that belong to another one are refused."""
    for owner, given in (("benders", benders), ("direct", direct), ("local", local)):
        named_ones = [flag for flag, value in given.items() if value is not None]
        if named_ones and method != owner:
            verb = "belong" if len(named_ones) > 1 else "belongs"
            raise InputError(
                f"{' and '.join(named_ones)} {verb} to --method {owner}, and the method is {method}: choose --method "
                f"{owner}, or leave these options out"
            )
    if partition is not None and method not in ("benders", "local"):
        raise InputError(
            f"--partition belongs to --method benders or local, and the method is {method}: choose one of these, or "
            "leave --partition out"
        )
    if method == "direct":
        return DirectOptions(algorithm=direct["--lp"] or "simplex", all_rows=bool(direct["--all-rows"]))
    if method == "local":
        if partition not in (None, LocalOptions.partition) and local["--regions"] is None:
            raise InputError(
                "--partition divides into a given number of regions: give --regions, such as --regions 4, or leave "
                "--partition out"
            )
        return LocalOptions(regions=local["--regions"], partition=partition or LocalOptions.partition)
    if method != "benders":
        return None
    preset = benders["--preset"] or "best"
    if preset not in PRESETS:
        raise InputError(f"unknown preset {preset!r}: choose best or textbook")
    make = BendersOptions.textbook if preset == "textbook" else BendersOptions
    return make(partition=partition or "k-m-dv", n_blocks=benders["--blocks"], seed=seed)


def _weights(prior: str, n: int) -> Any:
    return [1.0] * n if prior == "uniform" else read_matrix(file_named("--prior", prior, "uniform")).ravel()


def _loss(loss: str | None) -> Any:
    if loss is None or loss in NAMED_LOSSES:
        return loss
    return read_matrix(file_named("--loss", loss, *NAMED_LOSSES))


def _remedy(result: Result) -> str:
    if result.is_interrupted:
        return (
            "the run was interrupted, and this is the best mechanism until then; give it more time, or a larger --gap"
        )
    if result.status is Status.FAILED:
        return "more time would not help; try another --method, such as direct, or accept a larger --gap"
    return "give more time (--time-limit) or accept a larger --gap"
