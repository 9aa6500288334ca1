"""`metricdp verify`: the exact check of a mechanism file."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from metricdp.cli.app import ANSWER_IS_NO, FileArgument, JsonOption, app, err, out, print_json
from metricdp.cli.regions import verify_region
from metricdp.errors import CertificationError, UnmetError
from metricdp.mechanism.certify import TOTAL_BITS
from metricdp.mechanism.files import load
from metricdp.mechanism.mechanism import Mechanism
from metricdp.mechanism.plane_files import is_plane_file
from metricdp.report.tables import print_certificate, print_line


@app.command("verify")
def verify(
    file: FileArgument,
    require: Annotated[
        str | None,
        typer.Option(help='What must hold: "epsilon<=10, eta>=0.5, metric=haversine, records=HASH".'),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check a mechanism file exactly; exit 0 only if it is as private as it claims and protects any records."""
    try:
        if is_plane_file(file):
            verify_region(file, require, as_json=as_json)
            return
        mechanism = load(file, require=require)
    except UnmetError as error:
        if as_json:
            print_json({"certified": False, "requirement_met": False, "file": str(file), "error": str(error)})
        print_line(err, f"NOT AS REQUIRED: {error}. It is private as it claims itself, at its own epsilon")
        raise typer.Exit(ANSWER_IS_NO) from None
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
        print_line(out, f"Records: {mechanism.guarantee.records_hash}")
    fault = _protects_nothing(mechanism)
    if fault:
        print_line(err, f"NOT PROTECTED: {fault}")
        raise typer.Exit(ANSWER_IS_NO)


def _protects_nothing(mechanism: Mechanism) -> str:
    """Return why a file should not be relied on although it is as private as it claims; empty if there is no reason."""
    promise = mechanism.guarantee
    if promise.graph.n_pairs == 0:
        return "no record has a neighbour, so any report may reveal its record; solve again with a larger eta"
    if promise.n_isolated and not promise.is_recomputed:
        return (
            f"{promise.n_isolated:,} of {promise.graph.n:,} records have no neighbour in the file, and with the metric "
            f"{promise.metric!r} it is unknown whether their pairs were left out; solve again with a larger eta, or "
            "without these records"
        )
    return ""


def _verify_fields(mechanism: Mechanism) -> dict[str, Any]:
    certificate, promise = mechanism.certificate, mechanism.guarantee
    check, worst, ids = certificate.privacy, certificate.privacy.worst, mechanism.records.ids
    return {
        "certified": check.certified,
        "records": check.n_records,
        "outputs": check.n_outputs,
        "pairs": check.n_pairs,
        "components": certificate.n_components,
        "epsilon": check.epsilon,
        "smallest_epsilon": float(promise.budgets.min()),
        "eta": certificate.eta,
        "tightest_epsilon": None if _protects_nothing(mechanism) else check.tightest_epsilon,
        "worst_pair": None if worst is None else [ids[worst.i], ids[worst.j]],
        "bits": TOTAL_BITS,
        "seconds": check.seconds,
        "isolated": certificate.n_isolated,
        "records_hash": promise.records_hash,
        "promise": promise.sentence,
    }
