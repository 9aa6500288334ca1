"""Pipelines to audit: a mechanism's own functions, and any program that reads lines and writes lines."""

from __future__ import annotations

import csv
import io
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

from metricdp.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metricdp.evaluate.auditor.auditor import Pipeline
    from metricdp.mechanism.mechanism import Mechanism

TIMEOUT_SECONDS = 600  # for one batch


def id_pipeline(mechanism: Mechanism) -> Pipeline:
    """Return the pipeline from record ids to reports."""
    return lambda ids: list(mechanism.perturb(ids))


def point_pipeline(mechanism: Mechanism, *, limit: float) -> Pipeline:
    """Return the pipeline from points, each snapped to its nearest record within ``limit``, to reports.

    Refused if the mechanism promises nothing for points: see ``mechanism.guarantee.for_points``.
    """
    mechanism.guarantee.for_points(limit).check()
    return lambda points: mechanism.perturb_points(points, limit=limit).ids


def command_pipeline(command: str) -> Pipeline:
    """Return the pipeline through a program: one input per line of its standard input, one report per line out.

    Lines are CSV without a header: a name, or the coordinates of a point. The program is started once for each batch,
    without a shell. An exit code other than 0 is a refusal of the batch.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InputError(f"the command {command!r} cannot be parsed ({error}): check its quotes") from None
    if not words or shutil.which(words[0]) is None:
        raise InputError(
            f"there is no program {command!r}: name one that reads inputs and writes reports, line by line"
        )

    def run(inputs: list[Any]) -> Sequence[Any]:
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([value] if isinstance(value, str) else [repr(part) for part in value] for value in inputs)
        try:
            done = subprocess.run(
                words, input=text.getvalue().encode(), capture_output=True, check=False, timeout=TIMEOUT_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise InputError(
                f"the program gave no answer within {TIMEOUT_SECONDS} seconds: give it smaller batches"
            ) from None
        if done.returncode != 0:
            raise InputError(f"the program refused the batch with exit code {done.returncode}")
        return _reports(done.stdout)

    return run


def _reports(written: bytes) -> list[Any]:
    lines = io.StringIO(written.decode("utf-8", "backslashreplace"), newline="")
    try:
        return [row[0] if len(row) == 1 else tuple(row) for row in csv.reader(lines)]
    except csv.Error as error:
        raise InputError(f"the program's output is not CSV ({error}): write one report per line") from None
