"""Perturb a stream of points by the mechanism of a region: each batch is charged, drawn, then written."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import numpy as np

from metricdp.apply.copies import Copies
from metricdp.apply.stream_rows import StreamRows, check_format
from metricdp.apply.streams import (
    People,
    StreamSink,
    StreamSummary,
    check_people,
    check_stream_columns,
    stream_writer,
)
from metricdp.apply.writers import cell_of
from metricdp.errors import InputError
from metricdp.mechanism.plane import check_of_region, check_outside

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metricdp.apply.streams import StreamProgress
    from metricdp.apply.writers import Writer
    from metricdp.budget.ledger import Ledger
    from metricdp.mechanism.plane import PlaneMechanism


def perturb_region_stream(
    mechanism: PlaneMechanism,
    source: IO[bytes],
    target: IO[bytes],
    *,
    format: str | None = None,  # noqa: A002  the option's name
    to: str | None = None,
    outside: str = "refuse",
    keep: Sequence[str] = (),
    ledger: Ledger | None = None,
    person: str | None = None,
    over: str = "refuse",
    progress: StreamProgress | None = None,
) -> StreamSummary:
    """Write one report for each point of ``source`` to ``target``, batch by batch, in bounded memory.

    Every batch is charged (on the disk), then drawn, then written and flushed. What was written stays written if a
    later row is refused.

    Parameters
    ----------
    source, target, format, to, progress
        As for `perturb_stream`. Rows have the columns ``lat`` and ``lon`` (or ``x`` and ``y``), or are Point features.
    outside
        A point outside the region ends the stream before its batch is written (``"refuse"``; the batch stays charged;
        points whose person has no budget left are dropped with ``over="drop"``, wherever they are),
        or is moved to the ``"border"``, as far as the region's margin reaches.
    keep
        Columns (or properties) that are written beside the report **unchanged and unprotected**.
    ledger, person
        Charge the person named in this column for each row before its batch is drawn.
    over
        If a budget does not suffice, ``"refuse"`` to go on (nobody of the batch is charged), or ``"drop"`` the rows
        that do not fit.
    """
    check_of_region(mechanism, "perturb_stream")
    check_format(to)
    check_outside(outside)
    check_people(ledger, person, None, over)
    # what is read here of a mechanism (records, outputs and promise) both kinds have
    like: Any = mechanism
    check_stream_columns(like, keep)
    region, summary, n_rows = mechanism.region, StreamSummary(), 0
    people, sink, copies = People(like, ledger, None, person, over), StreamSink(target), Copies(like, keep)
    writer: Writer | None = None
    with StreamRows(source, format) as rows:
        for batch in rows.batches(like, (*keep, *people.columns), are_places=True):
            points = np.zeros((0, 2)) if batch.points is None else batch.points
            names, kept = people.split(batch, n_rows)
            copies.look(kept, mechanism.region.nearest_nodes(points), points, text_of=cell_of)
            copies.refuse_if_any()
            is_granted = people.granted(names, len(points))
            drawn = mechanism.draw_points(points)
            # drawn before it is refused: refusing takes as long as reporting
            refused = region.is_beyond(points) if outside == "border" else region.is_outside(points)
            if (refused & is_granted).any():  # rows of persons without budget say nothing, not even this
                raise InputError(_refusal(n_rows, outside))
            if writer is None:
                writer = stream_writer(to or rows.format, like, sink, keep, rows)
            writer.write(drawn[is_granted], [kept[row] for row in np.flatnonzero(is_granted).tolist()])
            sink.flush()
            n_rows += len(points)
            summary.reports += int(is_granted.sum())
            summary.over += int((~is_granted).sum())
            if progress is not None:
                progress(rows.source, summary.reports)
        if writer is not None:
            writer.end()
        sink.flush()
    return summary


def _refusal(n_before: int, outside: str) -> str:
    where = f"after row {n_before}, at least one point of the next batch is"
    if outside == "border":
        return (
            f"{where} farther outside the region than may be moved to its border: its batch was not written; leave "
            "such points out, or make the region with a larger margin"
        )
    return (
        f"{where} outside the region: its batch was not written; leave such points out, make a mechanism for a larger "
        'region, or have points outside moved to its "border", which the promise covers'
    )
