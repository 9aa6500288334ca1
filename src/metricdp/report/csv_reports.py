"""Perturb a CSV of record ids into a CSV of reports."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from metricdp.data.readers.columns import listed
from metricdp.data.readers.tables import read_table
from metricdp.data.writing import check_writable, write_whole
from metricdp.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from metricdp.mechanism.mechanism import Mechanism


def perturb_csv(mechanism: Mechanism, source: Path, target: Path) -> int:
    """Write one report for each row of ``source`` (column ``id``), in its order; give their number.

    The reports stand alone: the true ids are not written beside them.
    """
    check_writable(target)
    ids = _read_ids(source, known=set(mechanism.records.ids))
    drawn = mechanism.perturb_rows(mechanism.rows_of(ids))
    names = mechanism.outputs.ids(mechanism.records)
    points = mechanism.outputs.coordinates
    header = ["lat", "lon"] if mechanism.records.kind == "places" else [f"x{d + 1}" for d in range(points.shape[1])]
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["report", *header])
    writer.writerows([names[k], *(repr(float(v)) for v in points[k])] for k in drawn)
    write_whole(target, text.getvalue().encode())
    return len(ids)


def _read_ids(source: Path, *, known: set[str]) -> list[str]:
    table = read_table(source)
    columns = [column for column, name in enumerate(table.names) if name.lower() == "id"]
    if len(columns) != 1:
        raise InputError(f"{source} has the columns {listed(table.names)}: one column id is needed")
    # spaces around an id belong to it only if the record's own id has them
    return [cell if cell in known else cell.strip() for cell in table.columns[columns[0]]]
