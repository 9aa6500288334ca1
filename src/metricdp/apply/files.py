"""Perturb a CSV or GeoJSON file, by record ids or by coordinates, into a file of reports."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from metricdp.apply.batches import Batch, csv_batches, geojson_batches
from metricdp.apply.copies import Copies
from metricdp.apply.snapping import FAR_POLICIES, check_far, check_limit, draw_points, far_from_all, hint
from metricdp.apply.writers import CsvWriter, GeoJsonWriter, Writer, cell_of, coordinate_names
from metricdp.budget.charging import Persons, charged, nowhere
from metricdp.data.readers.files import format_of
from metricdp.data.readers.streams import TextSource
from metricdp.data.writing import Target, check_writable, replacing
from metricdp.errors import InputError
from metricdp.mechanism.plane import check_of_records

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from metricdp.budget.ledger import Ledger
    from metricdp.data.readers.streams import Progress
    from metricdp.mechanism.mechanism import Mechanism

GEOJSON_SUFFIXES = (".geojson", ".json")


@dataclass(repr=False)
class FileSummary:
    """Counts for a perturbed file. All but ``reports`` reveal something about the true records: only for their holder.

    Attributes
    ----------
    reports
        How many reports were written.
    dropped
        How many rows were left out because they were too far from every record.
    largest_snap_distance
        How far a point was from its record at most; None if records were named by their ids.
    unprotected
        How many reports are of records without any neighbour: these may be revealed completely.
    persons
        How many persons were charged; None without a ledger.
    """

    reports: int = 0
    dropped: int = 0
    largest_snap_distance: float | None = None
    unprotected: int = 0
    persons: int | None = None

    def __repr__(self) -> str:
        return f"FileSummary({self.reports} reports)"


def perturb_file(
    mechanism: Mechanism,
    source: str | Path,
    target: str | Path,
    *,
    snap_limit: float | None = None,
    far: str = "refuse",
    keep: Sequence[str] = (),
    snap_distances: str | Path | None = None,
    allow_unprotected: bool = False,
    fast_snap: bool = False,
    ledger: Ledger | None = None,
    person: str | None = None,
    progress: Progress | None = None,
) -> FileSummary:
    """Write one report for each row of ``source``, in its order, and nothing else of the row unless it is kept.

    The files may be of any length: they are read and written in pieces. ``target`` appears complete at the end or not
    at all. It is GeoJSON if its name ends so (``.geojson``, ``.json``), else CSV, and packed if ``.gz`` follows.

    Parameters
    ----------
    source
        CSV (plain or gzipped), or GeoJSON if its name ends so.
    snap_limit
        Without it, rows name records by the column (or property) ``id``. With it, rows are points (columns ``lat`` and
        ``lon``, or ``x``, ``y``, ...; Points in GeoJSON), which are snapped to their nearest record, at most this far.
    far
        What to do with points that are farther: ``"refuse"`` the whole file, or ``"drop"`` them. Anyone who knows how
        many rows there were sees that some are missing.
    keep
        Columns (or properties) that are written beside the report **unchanged and unprotected**.
    snap_distances
        A file to write the snap distance of each row to, readable by its owner only. It reveals a part of the true
        points: never publish it with the reports.
    allow_unprotected
        Report also what the mechanism does not protect: records without any neighbour, and points where those that are
        close together can be told apart. Without it, the file is refused.
    fast_snap
        Snap with a tree: the same records much sooner, but how long it takes depends on the points.
    ledger, person
        Charge the person named in this column (or property) for each row, dropped ones as well, before any report is
        drawn for the target: everyone, or no one if any budget does not suffice. ``source`` is read twice, so it must
        be a file. If the program is killed after the charge, it stays charged.
    progress
        Called after each piece.
    """
    check_of_records(mechanism, "perturb_region_file, which takes points as they are")
    check_writable(target, may_be_stream=True)
    check_far(far)
    if snap_limit is not None:
        check_limit(snap_limit)
    elif snap_distances is not None or far != FAR_POLICIES[0]:
        raise InputError("far and snap_distances go with snap_limit: give the farthest distance at which to snap")
    check_columns(mechanism, target, keep)

    write = partial(
        _write,
        mechanism,
        source,
        target,
        snap_limit=snap_limit,
        far=far,
        keep=keep,
        snap_distances=snap_distances,
        allow_unprotected=allow_unprotected,
        fast_snap=fast_snap,
        progress=progress,
    )
    return charged(mechanism, source, ledger, person, write)


def _write(
    mechanism: Mechanism,
    source: str | Path,
    target: str | Path,
    persons: Persons | None,
    *,
    snap_limit: float | None,
    far: str,
    keep: Sequence[str],
    snap_distances: str | Path | None,
    allow_unprotected: bool,
    fast_snap: bool,
    progress: Progress | None,
    is_rehearsal: bool = False,
) -> FileSummary:
    """Write the reports; a rehearsal does everything else, so that a refusal comes before anyone is charged."""
    is_features = is_geojson(source)
    is_alone = mechanism.guarantee.is_isolated
    summary, first_far = FileSummary(), 0
    with ExitStack() as stack:
        text = stack.enter_context(TextSource(source, newline=None if is_features else ""))
        into = partial(nowhere if is_rehearsal else replacing, is_private=True, may_pack=True)
        writer = writer_of(mechanism, stack.enter_context(into(target)), target, keep)
        notes = None if snap_distances is None else stack.enter_context(into(snap_distances))
        if notes is not None:
            notes.write("row,snap_distance,is_reported\r\n")
        read = geojson_batches if is_features else csv_batches
        if persons is not None:
            read = persons.counting(read)
        copies, n_read = Copies(mechanism, keep), 0
        for batch in read(text, mechanism, keep, are_places=snap_limit is not None):
            outputs, rows, distances, is_far = _drawn(
                mechanism, batch, snap_limit, allow_unprotected=allow_unprotected, fast_snap=fast_snap
            )
            if distances is not None:
                summary.largest_snap_distance = max(summary.largest_snap_distance or 0.0, float(distances.max()))
            if notes is not None and distances is not None:
                notes.write(_notes(n_read, distances, is_far))
            if is_far.any() and not first_far:
                first_far = n_read + 1 + int(np.flatnonzero(is_far)[0])
            kept = [values for values, is_out in zip(batch.kept, is_far, strict=True) if not is_out]
            writer.write(outputs[~is_far], kept)
            points = None if batch.points is None else batch.points[~is_far]
            copies.look(kept, rows[~is_far], points, text_of=cell_of)
            summary.reports += int((~is_far).sum())
            summary.dropped += int(is_far.sum())
            summary.unprotected += int(is_alone[rows[~is_far]].sum())
            n_read += len(outputs)
            if progress is not None:
                progress(text, n_read)
        writer.end()
        copies.refuse_if_any()
        if persons is not None:
            persons.check()
        # only now, so that refusing takes as long as reporting
        if summary.dropped and far == "refuse":
            raise InputError(
                f"{summary.dropped} of {n_read} places are {far_from_all(snap_limit, mechanism.metric)} (the first is "
                f"in row {first_far}): nothing was written; drop them, or raise the snap limit"
                + hint(are_all_far=summary.dropped == n_read)
            )
    return summary


def check_columns(mechanism: Mechanism, target: str | Path, keep: Sequence[str]) -> None:
    """Refuse kept columns that are named twice or like those of the reports, and GeoJSON for what is not a place."""
    twice = next((name for name in keep if list(keep).count(name) > 1), None)
    if twice is not None:
        raise InputError(f"the kept column {twice} is named more than once: name each column once")
    taken = {"report", *coordinate_names(mechanism)} & set(keep)
    if taken:
        raise InputError(f"the kept column {min(taken)} has the name of a column of the reports: rename it")
    if is_geojson(target) and mechanism.records.kind != "places":
        raise InputError(f"{target} would be GeoJSON, but the mechanism's outputs are not places: write a .csv file")


def _drawn(
    mechanism: Mechanism, batch: Batch, snap_limit: float | None, *, allow_unprotected: bool, fast_snap: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64] | None, NDArray[np.bool_]]:
    """Draw for one batch: the outputs, the records, how far these were, and whether that is too far."""
    if batch.points is not None and snap_limit is not None:
        drawn = draw_points(
            mechanism, batch.points, limit=snap_limit, allow_unprotected=allow_unprotected, fast_snap=fast_snap
        )
        return drawn.outputs, drawn.rows, drawn.distances, drawn.distances > snap_limit
    rows = np.zeros(0, dtype=np.int64) if batch.rows is None else batch.rows
    outputs = mechanism.perturb_rows(rows, allow_unprotected=allow_unprotected)
    return outputs, rows, None, np.zeros(len(rows), dtype=bool)


def _notes(n_before: int, distances: NDArray[np.float64], is_far: NDArray[np.bool_]) -> str:
    lines = zip(distances.tolist(), is_far.tolist(), strict=True)
    return "".join(
        f"{row},{distance!r},{'no' if is_out else 'yes'}\r\n"
        for row, (distance, is_out) in enumerate(lines, start=n_before + 1)
    )


def writer_of(mechanism: Mechanism, target: Target, path: str | Path, keep: Sequence[str]) -> Writer:
    """Return what writes the reports of a mechanism, as GeoJSON or CSV by the name of the file."""
    return (GeoJsonWriter if is_geojson(path) else CsvWriter)(mechanism, target, keep)


def is_geojson(path: str | Path) -> bool:
    """Return whether a file is named like GeoJSON."""
    return format_of(path) in GEOJSON_SUFFIXES
