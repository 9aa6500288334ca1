"""`metricdp evaluate`: what a mechanism costs, what an adversary learns, and how it compares."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich import box
from rich.table import Column, Table
from rich.text import Text

from metricdp.cli.app import FileArgument, JsonOption, app, one_of, out, print_json
from metricdp.cli.checks import check_ending, check_targets
from metricdp.cli.curves import epsilons_of, leakage_fields, print_sweep, print_told, sweep_fields, swept, told
from metricdp.cli.regions import print_region, refuse_options, region_fields
from metricdp.data import read_matrix, read_places
from metricdp.data.named import file_named
from metricdp.data.writing import spreadsheet_cell, write_whole
from metricdp.errors import InputError
from metricdp.evaluate.adversary import Attack, attack, distance_among_records, wrong_prior
from metricdp.evaluate.at_places import at_places
from metricdp.evaluate.compare import NAMES, OURS, QUICK_BASELINES, TIME_LIMIT_SECONDS, Comparison, compare
from metricdp.evaluate.guessing import background_share
from metricdp.evaluate.guidance import guidance
from metricdp.evaluate.problem_of_file import NAMED_LOSSES, Rebuilt, rebuild
from metricdp.evaluate.tracker import Trajectory, trajectory
from metricdp.evaluate.utility import QUANTILE_LEVELS, Utility, utility, weighted_quantiles
from metricdp.evaluate.walks import read_transition
from metricdp.mechanism.files import load
from metricdp.mechanism.plane import PlaneMechanism
from metricdp.mechanism.plane_files import is_plane_file, load_plane
from metricdp.mechanism.sparse import SparseTable
from metricdp.problem.budgets import budget_words
from metricdp.report.tables import print_line, printable, stored_line

DEFAULT_AGAINST = ",".join(QUICK_BASELINES)
REGION_BASELINES = ("exponential", "planar-laplace-snapped", "planar-laplace-remapped", "uniform")


@app.command("evaluate")
def evaluate_command(
    file: FileArgument,
    against: Annotated[
        str,
        typer.Option(
            help=f"Mechanisms to compare with: {','.join(NAMES)}; or all; or none. NAME=FILE (.npy, .csv, .mdp) "
            "among them is a mechanism or a matrix of your own, judged as it is.",
            autocompletion=one_of("all", "none", *NAMES),
        ),
    ] = DEFAULT_AGAINST,
    loss: Annotated[
        str | None,
        typer.Option(
            help="The loss, if the file does not hold its own: travel | distance | a matrix file (.csv, .npy).",
            autocompletion=one_of(*NAMED_LOSSES),
        ),
    ] = None,
    adversary_prior: Annotated[
        str | None,
        typer.Option(
            help="What the wrong adversary believes: uniform, or a file with one weight per record.",
            autocompletion=one_of("uniform"),
        ),
    ] = None,
    prior: Annotated[
        Path | None,
        typer.Option(
            help="For regions: places where people are, or a raster of counts (.asc); the centres of the cells, all "
            "alike, by default."
        ),
    ] = None,
    per_record: Annotated[Path | None, typer.Option(help="CSV to write each record's expected loss to.")] = None,
    steps: Annotated[
        int | None,
        typer.Option("--trajectory", help="Also simulate walks of so many reports, and filter what they reveal."),
    ] = None,
    epsilons: Annotated[
        str | None,
        typer.Option(
            "--sweep",
            metavar="EPSILONS",
            help="Also solve the problem at these budgets, such as 1,2,4, and show what privacy costs.",
        ),
    ] = None,
    within: Annotated[
        str | None,
        typer.Option("--gain-within", metavar="DISTANCE", help="Also how often a guess comes so near, such as 200m."),
    ] = None,
    transition: Annotated[
        Path | None,
        typer.Option(
            help="With --trajectory: the public probability of each move, N x N (.npz of scipy.sparse, .npy, .csv); by "
            "default a walk between neighbours."
        ),
    ] = None,
    time_limit: Annotated[
        float, typer.Option(help="Seconds for each comparison that solves an LP.")
    ] = TIME_LIMIT_SECONDS,
    as_json: JsonOption = False,
) -> None:
    """Show what a mechanism costs and what an adversary learns, and compare it with others on the same problem."""
    check_targets(
        {"--per-record": per_record},
        {
            "FILE.mdp": file,
            "--loss": loss,
            "--adversary-prior": adversary_prior,
            "--prior": prior,
            "--transition": transition,
        },
    )
    check_ending("--per-record", per_record, content="the CSV that is written", remedy="end it in .csv")
    region = load_plane(file) if is_plane_file(file) else None
    if region is not None and against == DEFAULT_AGAINST:
        against = ",".join(REGION_BASELINES)
    names, own = _names(against)
    if not time_limit > 0:
        raise InputError(f"--time-limit must be positive, got {time_limit}: give seconds")
    if steps is not None and steps < 1:
        raise InputError(f"--trajectory must be at least 1, got {steps}: give a number of reports")
    if transition is not None and steps is None:
        raise InputError("--transition is how people move between reports: give --trajectory STEPS with it")
    moves = None if transition is None else read_transition(transition)
    budgets = epsilons_of(epsilons)
    found = _found(file, region, prior=prior, loss=loss, steps=steps, epsilons=epsilons)
    mechanism, problem = found.mechanism, found.problem
    belief, belief_name = _belief(adversary_prior, found)
    used = utility(mechanism, problem)
    attacks = {"the true prior": attack(mechanism, problem)}
    attacks[f"a wrong prior ({belief_name})"] = attack(mechanism, problem, belief=belief)
    table = compare({OURS: mechanism, **own}, problem, names, time_limit=time_limit)
    tells, distance = told(found, within)
    curve = swept(found, budgets, names, own, time_limit)
    if per_record is not None:
        write_whole(per_record, _per_record_csv(found, used).encode(), may_pack=True)
    among = distance_among_records(problem)
    walks = None if steps is None else trajectory(mechanism, steps, transition=moves, metric=among)
    if as_json:
        of_region = {} if region is None else region_fields(region)
        print_json(
            {
                **_fields(found, used, attacks, table, file),
                **of_region,
                "leakage": leakage_fields(tells, distance),
                "sweep": sweep_fields(curve),
                "trajectory": None if walks is None else vars(walks),
            }
        )
        return
    _print_head(found, used, region)
    _print_attacks(found, attacks)
    print_told(found, tells, distance)
    _print_table(found, table)
    if curve is not None:
        print_sweep(found, curve)
    if walks is not None:
        _print_walks(walks, "" if among is None else among.name)
    if per_record is not None:
        print_line(out, f"each record's expected loss was written to {per_record}")


def _found(
    file: Path,
    region: PlaneMechanism | None,
    *,
    prior: Path | None,
    loss: str | None,
    steps: int | None,
    epsilons: str | None,
) -> Rebuilt:
    """Return the mechanism with its problem; that of a region at the places where people are."""
    if region is not None:
        given = {"trajectory": steps, "sweep": epsilons, "loss": None if loss == "distance" else loss}
        refuse_options(given, dict.fromkeys(given))
        return at_places(region, None if prior is None else read_places(prior, region.region))
    if prior is not None:
        raise InputError("--prior is for regions, and the file of records holds their prior: leave it out")
    return rebuild(file, loss=_loss(loss))


def _names(against: str) -> tuple[list[str], dict[str, Any]]:
    """Return the names of mechanisms to build, and those of one's own with what their files hold."""
    if against in ("all", "none"):
        return list(NAMES) if against == "all" else [], {}
    given = [name.strip() for name in against.split(",")]
    own: dict[str, str] = {}
    for one in given:
        name, is_own, path = (part.strip() for part in one.partition("="))
        if not is_own:
            continue
        if not name or name in own or name in (OURS, "all", "none", *NAMES):
            why = "empty" if not name else "given twice" if name in own else "taken already"
            raise InputError(f"--against {one}: the name {name!r} is {why}: write NAME={path} with a name of its own")
        own[name] = file_named("--against", path, "NAME=FILE")
    names = [name for name in given if "=" not in name]
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise InputError(f"--against does not know {unknown[0]!r}: choose among {', '.join(NAMES)}, all or none")
    return names, {name: load(path) if path.endswith(".mdp") else read_matrix(path) for name, path in own.items()}


def _loss(loss: str | None) -> Any:
    return loss if loss is None or loss in NAMED_LOSSES else read_matrix(file_named("--loss", loss, *NAMED_LOSSES))


def _belief(choice: str | None, found: Rebuilt) -> tuple[Any, str]:
    if choice is None:
        return wrong_prior(found.problem)
    if choice == "uniform":
        return np.ones(found.problem.n_records), "uniform"
    return read_matrix(file_named("--adversary-prior", choice, "uniform")).ravel(), "given"


def _unit(found: Rebuilt) -> str:
    return "km" if found.problem.records.kind == "places" and found.problem.loss_name != "given" else ""


def _print_head(found: Rebuilt, used: Utility, region: PlaneMechanism | None) -> None:
    problem, unit = found.problem, _unit(found)
    if region is None:
        print_line(out, repr(found.mechanism))
    else:
        print_region(region)
    stored = stored_line(found.mechanism)
    if stored is not None:
        print_line(out, stored)
    print_line(out, f"Loss: {found.loss_source}.")
    sentence = guidance(problem, found.mechanism)
    if sentence is not None:
        print_line(out, f"Note: {sentence}")
    best = found.mechanism.optimality
    bound = f"; lower bound as the file claims {best.lower_bound:.6g}" if best is not None and found.is_own_loss else ""
    print_line(out, f"Expected loss {used.loss:.6g} {unit}".rstrip() + bound)
    spread = weighted_quantiles(used.per_record, problem.records.prior, QUANTILE_LEVELS)
    worst = problem.records.ids[int(used.per_record.argmax())]
    print_line(out, f"  by record: {_quantiles(spread)}; worst {used.per_record.max():.4g} ({worst})")
    if used.distance_quantiles is None:
        print_line(out, f"  distance to the report: not known for the metric {problem.metric.name!r} from this file")
    else:
        shown = _quantiles(used.distance_quantiles)
        print_line(out, f"  distance to the report: mean {used.distance_mean:.4g}; {shown} ({problem.metric.name})")


def _quantiles(values: dict[float, float]) -> str:
    return ", ".join(f"{100 * level:g} % {value:.4g}" for level, value in values.items())


def _print_attacks(found: Rebuilt, attacks: dict[str, Attack]) -> None:
    metric = distance_among_records(found.problem)
    for name, one in attacks.items():
        print_line(
            out,
            f"Adversary with {name}: guesses right with probability {one.right:.4g} (blind {one.blind_right:.4g})",
        )
        if metric is not None:
            about = (
                f", standard error {one.standard_error:.2g}, from a sample of the outputs" if one.standard_error else ""
            )
            print_line(
                out, f"  is off by {one.error:.4g} on average{about} (blind {one.blind_error:.4g}; {metric.name})"
            )
    if metric is None:
        print_line(out, f"  distances among records are not known for the metric {found.problem.metric.name!r}")


def _print_walks(walks: Trajectory, metric: str) -> None:
    print_line(
        out,
        f"Walks of {walks.n_steps} reports ({walks.n_walks} simulated): loss {walks.loss:.4g} as reported, "
        f"{walks.loss_remapped:.4g} remapped, {walks.loss_filtered:.4g} with a filter over the reports so far; the "
        f"adversary is right {100 * walks.right_alone:.3g} % from one report, {100 * walks.right_filtered:.3g} % with "
        "the filter",
    )
    if walks.error_alone is not None:
        print_line(
            out,
            f"  the adversary is off by {walks.error_alone:.4g} on average from one report, {walks.error_filtered:.4g} "
            f"with the filter ({metric})",
        )
    print_line(out, f"  {walks.promise}")


def _print_table(found: Rebuilt, comparison: Comparison) -> None:
    titles = ("mechanism", "loss", "remap", "error", "right", "tightest", "certified")
    table = Table(
        *(Column(title, no_wrap=True) for title in titles),
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
    )
    for row in sorted(comparison.rows, key=lambda row: row.loss):
        table.add_row(
            Text(printable(row.name)),
            f"{row.loss:.5g}",
            f"{row.loss_after_remap:.5g}",
            "–" if row.adversary_error is None else f"{row.adversary_error:.4g}",
            f"{row.adversary_right:.3g}",
            f"{row.tightest_epsilon:.4g}",
            "yes" if row.certified else "NO",
        )
    out.print(table)
    print_line(
        out,
        "  remap: the loss after optimal remapping; error, right: of the adversary with the true prior; "
        f"tightest: the least epsilon that holds; certified: at epsilon = "
        f"{budget_words(found.problem.epsilon, found.problem.epsilons)}",
    )
    for row in comparison.rows:
        if row.note:
            print_line(out, f"  {row.name}: {row.note}")
    for one in comparison.estimates:
        print_line(
            out,
            f"  {one.name}, estimated: loss {one.loss:.5g}, standard error {one.standard_error:.2g} ({one.note})",
        )
    for name, reason in comparison.unavailable.items():
        print_line(out, f"  {name} could not be made: {reason}")
    if len(comparison.rows) > 1:
        print_line(out, _verdict(found, comparison))


def _verdict(found: Rebuilt, comparison: Comparison) -> str:
    if not comparison.better:
        return "No certified mechanism of these costs less than this one."
    names = ", ".join(f"{row.name} ({row.loss_after_remap:.6g} after remap)" for row in comparison.better)
    reason = "" if found.is_own_loss else f"; but this one {found.made_for}"
    return f"Certified and cheaper than this one: {names}{reason}."


def _per_record_csv(found: Rebuilt, used: Utility) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["id", "prior", "expected_loss"])
    records = found.problem.records
    for name, prior, value in zip(records.ids, records.prior, used.per_record, strict=True):
        writer.writerow([spreadsheet_cell(name), repr(float(prior)), repr(float(value))])
    return text.getvalue()


def _fields(
    found: Rebuilt, used: Utility, attacks: dict[str, Attack], comparison: Comparison, file: Path
) -> dict[str, Any]:
    problem, best, table = found.problem, found.mechanism.optimality, found.mechanism.table
    true, wrong = attacks.values()
    metric = distance_among_records(problem)
    return {
        "file": str(file),
        "records": problem.n_records,
        "outputs": problem.n_outputs,
        "pairs": problem.graph.n_pairs,
        "epsilon": problem.epsilon,
        "smallest_epsilon": problem.at_smallest_epsilon.epsilon,
        "eta": problem.eta,
        "metric": problem.metric.name,
        "certified": found.mechanism.certificate.privacy.certified,
        "loss_source": found.loss_source,
        "is_own_loss": found.is_own_loss,
        "loss": used.loss,
        "loss_after_remap": comparison.ours.loss_after_remap,
        "claimed_loss": None if best is None else best.loss,
        "claimed_lower_bound": None if best is None else best.lower_bound,
        "loss_by_record": _by_level(weighted_quantiles(used.per_record, problem.records.prior, QUANTILE_LEVELS)),
        "worst_record": problem.records.ids[int(used.per_record.argmax())],
        "distance_mean": used.distance_mean,
        "distance": None if used.distance_quantiles is None else _by_level(used.distance_quantiles),
        "adversary_metric": None if metric is None else metric.name,
        "adversary": _attack_fields(true),
        "min_entropy_leakage": comparison.ours.min_entropy_leakage,
        "adversary_with_wrong_prior": {"belief": list(attacks)[1], **_attack_fields(wrong)},
        "stored_weights": table.n_stored if isinstance(table, SparseTable) else None,
        "background_share": background_share(table, problem.records.prior) if isinstance(table, SparseTable) else None,
        "estimates": [vars(one) for one in comparison.estimates],
        "comparison": [vars(row) for row in comparison.rows],
        "unavailable": comparison.unavailable,
        "better": [row.name for row in comparison.better],
        "guidance": guidance(problem, found.mechanism),
    }


def _by_level(values: dict[float, float]) -> dict[str, float]:
    return {f"{level:g}": value for level, value in values.items()}


def _attack_fields(one: Attack) -> dict[str, Any]:
    return {
        "error": one.error,
        "error_standard_error": one.standard_error,
        "right": one.right,
        "blind_error": one.blind_error,
        "blind_right": one.blind_right,
    }
