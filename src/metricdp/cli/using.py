"""`metricdp verify` and `metricdp perturb`: what is done with a mechanism file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from metricdp.cli.app import ANSWER_IS_NO, FileArgument, JsonOption, app, check_targets, err, out, print_json
from metricdp.errors import CertificationError, InputError
from metricdp.mechanism.certify import TOTAL_BITS
from metricdp.mechanism.files import load
from metricdp.mechanism.mechanism import Mechanism
from metricdp.report.csv_reports import perturb_csv
from metricdp.report.tables import print_certificate, print_line, printable


@app.command()
def verify(file: FileArgument, as_json: JsonOption = False) -> None:
    """Check a mechanism file exactly; exit 0 only if it is private as it claims."""
    try:
        mechanism = load(file)
    except CertificationError as error:
        if as_json:
            print_json({"certified": False, "file": str(file), "error": str(error)})
        print_line(err, f"NOT PRIVATE: {error}")
        raise typer.Exit(ANSWER_IS_NO) from None
    if as_json:
        print_json(_verify_fields(mechanism))
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
    check_targets({"--output": target}, {"--input": source, "FILE.mdp": file})
    mechanism = load(file)
    if source is not None and target is not None:
        count = perturb_csv(mechanism, source, target)
        if as_json:
            print_json({"reports": count, "file": str(target), "epsilon": mechanism.epsilon})
        else:
            print_line(out, f"{count} reports written to {target}")
        return
    reports = mechanism.perturb(ids or [])
    if as_json:
        print_json({"reports": reports, "epsilon": mechanism.epsilon})
    else:
        shown = map(printable, reports) if sys.stdout.isatty() else reports
        sys.stdout.write("".join(f"{report}\n" for report in shown))


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
