"""Perturb a CSV of record ids into a CSV of reports."""

from __future__ import annotations

import csv
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from metricdp.errors import InputError

if TYPE_CHECKING:
    from metricdp.mechanism.mechanism import Mechanism


def perturb_csv(mechanism: Mechanism, source: Path, target: Path) -> int:
    """Write one report for each row of ``source`` (column ``id``), in its order; give their number.

    The reports stand alone: the true ids are not written beside them.
    """
    ids = _read_ids(source)
    drawn = mechanism.perturb_rows(mechanism.rows_of(ids))
    names = mechanism.outputs.ids(mechanism.records)
    points = mechanism.outputs.coordinates
    header = ["lat", "lon"] if mechanism.records.kind == "places" else [f"x{d + 1}" for d in range(points.shape[1])]
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(["report", *header])
            writer.writerows([names[k], *(repr(float(v)) for v in points[k])] for k in drawn)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return len(ids)


def _read_ids(source: Path) -> list[str]:
    try:
        with source.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream)
            if not reader.fieldnames or "id" not in reader.fieldnames:
                raise InputError(f"{source} has the columns {reader.fieldnames or 'none'}: a column id is needed")
            return [row["id"] for row in reader]
    except UnicodeDecodeError:
        raise InputError(f"{source} is not UTF-8: save it as UTF-8") from None
    except OSError as error:
        raise InputError(f"cannot read {source}: {error.strerror}") from None
