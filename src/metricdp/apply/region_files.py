"""Perturb the points of a CSV or GeoJSON file by the mechanism of a region."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.apply.batches import csv_batches, geojson_batches
from metricdp.apply.copies import Copies
from metricdp.apply.files import FileSummary, check_columns, is_geojson, writer_of
from metricdp.apply.writers import cell_of
from metricdp.budget.charging import Persons, charged, nowhere
from metricdp.data.readers.streams import TextSource
from metricdp.data.writing import check_writable, replacing
from metricdp.errors import InputError
from metricdp.mechanism.plane import BEYOND, REFUSED, check_of_region, check_outside

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from metricdp.budget.ledger import Ledger
    from metricdp.data.readers.streams import Progress
    from metricdp.mechanism.plane import PlaneMechanism


def perturb_region_file(
    mechanism: PlaneMechanism,
    source: str | Path,
    target: str | Path,
    *,
    outside: str = "refuse",
    keep: Sequence[str] = (),
    ledger: Ledger | None = None,
    person: str | None = None,
    progress: Progress | None = None,
) -> FileSummary:
    """Write one report for each point of ``source``, in its order, and nothing else of the row unless it is kept.

    The promise is that of ``mechanism.guarantee``: for points, with no snapping. Files may be of any length. ``target``
    appears complete at the end or not at all.

    Parameters
    ----------
    source
        CSV with the columns ``lat`` and ``lon`` (or ``x`` and ``y``), or GeoJSON Points if its name ends so.
    outside
        ``"refuse"`` the file if any point is outside the region, or move such points to its ``"border"``.
    keep
        Columns (or properties) that are written beside the report **unchanged and unprotected**.
    ledger, person
        Charge the person named in this column (or property) for each row before any report is drawn for the target:
        everyone, or no one if any budget does not suffice. ``source`` is read twice, so it must be a file. If the
        program is killed after the charge, it stays charged.
    progress
        Called after each piece.
    """
    check_of_region(mechanism, "perturb_file")
    check_writable(target, may_be_stream=True)
    check_outside(outside)
    # what is read here of a mechanism (records and outputs) both kinds have
    like: Any = mechanism
    check_columns(like, target, keep)

    write = partial(_write, mechanism, source, target, outside=outside, keep=keep, progress=progress)
    return charged(like, source, ledger, person, write)


def _write(
    mechanism: PlaneMechanism,
    source: str | Path,
    target: str | Path,
    persons: Persons | None,
    *,
    outside: str,
    keep: Sequence[str],
    progress: Progress | None,
    is_rehearsal: bool = False,
) -> FileSummary:
    """Write the reports; a rehearsal does everything else, so that a refusal comes before anyone is charged."""
    like: Any = mechanism
    region, summary = mechanism.region, FileSummary()
    is_outside = is_beyond = False
    with ExitStack() as stack:
        text = stack.enter_context(TextSource(source, newline=None if is_geojson(source) else ""))
        into = partial(nowhere if is_rehearsal else replacing, is_private=True, may_pack=True)
        writer = writer_of(like, stack.enter_context(into(target)), target, keep)
        copies, read = Copies(like, keep), geojson_batches if is_geojson(source) else csv_batches
        if persons is not None:
            read = persons.counting(read)
        for batch in read(text, like, keep, are_places=True):
            points = np.zeros((0, 2)) if batch.points is None else batch.points
            drawn = mechanism.draw_points(points)
            is_outside |= bool(region.is_outside(points).any())
            is_beyond |= bool(region.is_beyond(points).any())
            writer.write(drawn, batch.kept)
            copies.look(batch.kept, mechanism.region.nearest_nodes(points), points, text_of=cell_of)
            summary.reports += len(drawn)
            if progress is not None:
                progress(text, summary.reports)
        writer.end()
        copies.refuse_if_any()
        if persons is not None:
            persons.check()
        # only now, so that refusing takes as long as reporting
        if is_outside and outside == "refuse":
            raise InputError(REFUSED)
        if is_beyond:
            raise InputError(BEYOND)
    return summary
