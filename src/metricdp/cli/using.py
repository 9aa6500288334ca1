"""`metricdp verify`: the exact check of a mechanism file."""

from __future__ import annotations

from typing import Any

import typer

from metricdp.cli.app import ANSWER_IS_NO, FileArgument, JsonOption, app, err, out, print_json
from metricdp.errors import CertificationError
from metricdp.mechanism.certify import TOTAL_BITS
from metricdp.mechanism.files import load
from metricdp.mechanism.mechanism import Mechanism
from metricdp.report.tables import print_certificate, print_line


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
