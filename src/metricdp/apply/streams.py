"""Perturb a stream: rows from one pipe, reports to another, each batch charged before it is drawn and then written."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from metricdp.apply.copies import Copies
from metricdp.apply.snapping import check_far, check_limit, far_from_all, hint, snap_points
from metricdp.apply.stream_rows import StreamRows, check_format
from metricdp.apply.writers import (
    CsvWriter,
    FeatureLinesWriter,
    JsonLinesWriter,
    ParquetWriter,
    Writer,
    cell_of,
    coordinate_names,
)
from metricdp.budget.charging import name_of_person
from metricdp.errors import InputError, MetricDPError
from metricdp.mechanism.plane import check_of_records

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from metricdp.apply.batches import Batch
    from metricdp.budget.ledger import Ledger
    from metricdp.budget.memoized import Memoized
    from metricdp.data.readers.streams import TextSource
    from metricdp.mechanism.mechanism import Mechanism

    StreamProgress = Callable[[TextSource | None, int], None]
    """Called after each batch with the text that is read (None for Parquet) and the number of reports so far."""

OVER_POLICIES = ("refuse", "drop")
WRITERS: dict[str, Callable[..., Writer]] = {
    "csv": CsvWriter,
    "jsonl": JsonLinesWriter,
    "geojsonl": FeatureLinesWriter,
    "geojsonseq": partial(FeatureLinesWriter, has_separators=True),
    "parquet": ParquetWriter,
}


class ReaderGoneError(MetricDPError):
    """Nobody reads the reports any more: the pipe was closed at its other end."""


@dataclass(repr=False)
class StreamSummary:
    """Counts for a perturbed stream. All but ``reports`` reveal something about the rows: only for their holder.

    Attributes
    ----------
    reports
        How many reports were written.
    far
        How many rows were left out because they were too far from every record.
    over
        How many rows were left out because their person's budget was used up.
    unprotected
        How many reports are of records without any neighbour: these may be revealed completely.
    largest_snap_distance
        How far a point was from its record at most; None if records were named by their ids.
    """

    reports: int = 0
    far: int = 0
    over: int = 0
    unprotected: int = 0
    largest_snap_distance: float | None = None

    def __repr__(self) -> str:
        return f"StreamSummary({self.reports} reports)"


def perturb_stream(
    mechanism: Mechanism,
    source: IO[bytes],
    target: IO[bytes],
    *,
    format: str | None = None,  # noqa: A002  the option's name
    to: str | None = None,
    snap_limit: float | None = None,
    far: str = "refuse",
    keep: Sequence[str] = (),
    ledger: Ledger | None = None,
    person: str | None = None,
    over: str = "refuse",
    memory: Memoized | None = None,
    allow_unprotected: bool = False,
    fast_snap: bool = False,
    progress: StreamProgress | None = None,
) -> StreamSummary:
    """Write one report for each row of ``source`` to ``target``, batch by batch, in bounded memory.

    Every batch is charged (on the disk), then drawn, then written and flushed. What was written stays written if a
    later row is refused: a stream is not complete or absent, as a file is. If nobody reads the target any more,
    `ReaderGoneError` is raised.

    Parameters
    ----------
    source, target
        Binary streams. A batch ends when it is full (4,096 rows, of Parquet 65,536) or when ``source`` has no more rows
        at the moment.
    format, to
        Of the source (told from its first bytes by default) and of the target (that of the source by default): csv,
        jsonl (JSON objects), geojsonl (features in lines), geojsonseq (RFC 8142), parquet.
    snap_limit, keep, allow_unprotected, fast_snap
        As for `perturb_file`.
    far
        A point beyond the limit ends the stream before its batch is written (``"refuse"``), or is left out.
    ledger, person
        Charge the person named in this column for each row before its batch is drawn.
    over
        If a budget does not suffice, ``"refuse"`` to go on (nobody of the batch is charged), or ``"drop"`` the rows
        that do not fit. Dropped rows show whose budget is used up, not where anybody is.
    memory
        Repeat the stored answer for a person and a record that came before; only new ones are charged, to the
        memory's own ledger, and drawn. Needs ``person``; ``ledger`` must be left out or the memory's own.
    progress
        Called after each batch.
    """
    check_of_records(mechanism, "perturb_region_stream, which takes points as they are")
    check_format(to)
    check_far(far)
    check_people(ledger, person, memory, over)
    if snap_limit is not None:
        check_limit(snap_limit)
        if not allow_unprotected:
            mechanism.guarantee.for_points(snap_limit).check()
    elif far != "refuse":
        raise InputError("far goes with snap_limit: give the farthest distance at which to snap")
    elif person is not None and person.strip().lower() == "id":
        raise InputError(f"the column {person} names the true records, so it cannot name the persons: give another one")
    check_stream_columns(mechanism, keep)
    work = _Work(mechanism, snap_limit, keep, allow_unprotected=allow_unprotected, fast_snap=fast_snap)
    people = People(mechanism, ledger, memory, person, over)
    sink = StreamSink(target)
    with StreamRows(source, format) as rows:
        writer: Writer | None = None
        wanted = (*keep, *people.columns)
        for batch in rows.batches(mechanism, wanted, are_places=snap_limit is not None):
            names, kept = people.split(batch, work.n_rows)
            chosen, is_far = work.looked(batch, kept)
            outputs, is_granted = people.drawn(names, chosen)
            # drawn before it is refused: refusing takes as long as reporting
            if far == "refuse" and is_far.any():
                raise InputError(
                    f"row {work.n_rows + 1 + int(np.flatnonzero(is_far)[0])} is "
                    f"{far_from_all(snap_limit, mechanism.metric)}: its batch was not written; drop such rows, or "
                    "raise the snap limit" + hint(are_all_far=bool(is_far.all()))
                )
            is_written = is_granted & ~is_far
            if writer is None:
                writer = stream_writer(to or rows.format, mechanism, sink, keep, rows)
            writer.write(outputs[is_written], [kept[row] for row in np.flatnonzero(is_written).tolist()])
            sink.flush()
            work.count(chosen, is_written, is_far, is_granted)
            if progress is not None:
                progress(rows.source, work.summary.reports)
        if writer is not None:
            writer.end()
        sink.flush()
    return work.summary


class _Work:
    """What is done with each batch before anyone is charged, and the counts."""

    def __init__(
        self,
        mechanism: Mechanism,
        snap_limit: float | None,
        keep: Sequence[str],
        *,
        allow_unprotected: bool,
        fast_snap: bool,
    ) -> None:
        self.summary, self.n_rows = StreamSummary(), 0
        self._mechanism, self._limit = mechanism, snap_limit
        self._allow_unprotected, self._fast_snap = allow_unprotected, fast_snap
        self._copies = Copies(mechanism, keep)

    def looked(self, batch: Batch, kept: Sequence[Sequence[Any]]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the record of each row and whether it is too far; refuse what must not be reported."""
        if batch.points is not None and self._limit is not None:
            rows, distances = snap_points(self._mechanism, batch.points, fast_snap=self._fast_snap)
            is_far = distances > self._limit
            largest = self.summary.largest_snap_distance or 0.0
            self.summary.largest_snap_distance = max(largest, float(distances.max()))
        else:
            rows = np.zeros(0, dtype=np.int64) if batch.rows is None else batch.rows
            is_far = np.zeros(len(rows), dtype=bool)
            if not self._allow_unprotected:
                self._mechanism.guarantee.check_rows(rows)
        self._copies.look(kept, rows, batch.points, text_of=cell_of)
        self._copies.refuse_if_any()
        return rows, is_far

    def count(
        self,
        rows: NDArray[np.int64],
        is_written: NDArray[np.bool_],
        is_far: NDArray[np.bool_],
        is_granted: NDArray[np.bool_],
    ) -> None:
        """Count a batch that was written."""
        self.n_rows += len(rows)
        self.summary.reports += int(is_written.sum())
        self.summary.far += int((is_far & is_granted).sum())
        self.summary.over += int((~is_granted).sum())
        self.summary.unprotected += int(self._mechanism.guarantee.is_isolated[rows[is_written]].sum())


class People:
    """Who is charged for the rows of a batch, and the draws that were granted."""

    def __init__(
        self, mechanism: Mechanism, ledger: Ledger | None, memory: Memoized | None, person: str | None, over: str
    ) -> None:
        self.columns = () if person is None else (person,)
        self._mechanism, self._ledger, self._memory, self._is_drop = mechanism, ledger, memory, over == "drop"
        self._column = person

    def split(self, batch: Batch, n_before: int) -> tuple[list[str], Sequence[Sequence[Any]]]:
        """Return the persons of a batch, none if nobody is charged, and the other kept columns."""
        if self._column is None:
            return [], batch.kept
        names = [
            name_of_person(values[-1], f"row {row}", self._column)
            for row, values in enumerate(batch.kept, start=n_before + 1)
        ]
        return names, [values[:-1] for values in batch.kept]

    def drawn(self, names: list[str], rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Charge, then draw: return the output of each row, and whether it was granted (the output is 0 if not)."""
        if self._memory is not None:
            return self._memory.perturb_rows_of(names, rows, may_drop=self._is_drop)
        is_granted = self.granted(names, len(rows))
        outputs = np.zeros(len(rows), dtype=np.int64)
        outputs[is_granted] = self._mechanism.perturb_rows(rows[is_granted], allow_unprotected=True)
        return outputs, is_granted

    def granted(self, names: list[str], n_rows: int) -> NDArray[np.bool_]:
        """Charge; return for which of the rows reports may be drawn."""
        if self._ledger is None or not n_rows:
            return np.ones(n_rows, dtype=bool)
        asked = Counter(names)
        if self._is_drop:
            return first_of_each(names, self._ledger.charge_up_to(self._mechanism, asked))
        self._ledger.charge_many(self._mechanism, asked)
        return np.ones(n_rows, dtype=bool)


def first_of_each(names: list[str], granted: dict[str, int]) -> NDArray[np.bool_]:
    """Return whether each row is among the granted ones of its person, in the order of the rows."""
    left = dict(granted)
    is_granted = np.zeros(len(names), dtype=bool)
    for row, name in enumerate(names):
        is_granted[row] = left[name] > 0
        left[name] -= 1
    return is_granted


class StreamSink:
    """Gathers what is written and passes it on at each flush; a closed pipe is an error of its own."""

    closed = False  # for pyarrow, which asks before it writes

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._waiting = stream, bytearray()

    def write(self, data: str | bytes) -> int:
        """Take bytes, or a text as UTF-8; return how many bytes."""
        raw = data.encode() if isinstance(data, str) else data
        self._waiting += raw
        return len(raw)

    def flush(self) -> None:
        """Pass everything on."""
        waiting, self._waiting = self._waiting, bytearray()
        try:
            with memoryview(waiting) as view:
                n_written = 0
                while n_written < len(view):
                    n_written += self._stream.write(view[n_written:])
            self._stream.flush()
        except BrokenPipeError:
            raise ReaderGoneError("the reader of the reports closed the pipe") from None
        except OSError as error:
            raise MetricDPError(
                f"the reports cannot be written ({error.strerror}): use a disk with free space or an open pipe"
            ) from None


def stream_writer(name: str, mechanism: Mechanism, sink: StreamSink, keep: Sequence[str], rows: StreamRows) -> Writer:
    """Return what writes the reports of a stream in one of the formats."""
    if name.startswith("geojson") and mechanism.records.kind != "places":
        raise InputError("the target would be GeoJSON, but the mechanism's outputs are not places: name another format")
    if name == "parquet":
        return ParquetWriter(mechanism, sink, keep, types=rows.types)
    return WRITERS[name](mechanism, sink, keep)


def check_people(ledger: Ledger | None, person: str | None, memory: Memoized | None, over: str) -> None:
    """Refuse a ledger without persons, persons without a ledger, and policies that are not known."""
    if over not in OVER_POLICIES:
        raise InputError(f"unknown policy {over!r} for rows beyond a budget: choose {' or '.join(OVER_POLICIES)}")
    if (person is None) != (ledger is None and memory is None):
        raise InputError("a ledger or a memory and the column of the persons go together: give both")
    if memory is not None and ledger is not None and memory.ledger is not ledger:
        raise InputError("the memory charges another ledger: make it with this ledger, or leave the ledger out")
    if over != "refuse" and ledger is None and (memory is None or memory.ledger is None):
        raise InputError("over goes with a ledger: name the ledger that holds the budgets")


def check_stream_columns(mechanism: Mechanism, keep: Sequence[str]) -> None:
    """Refuse kept columns that are named twice or like those of the reports."""
    twice = next((name for name in keep if list(keep).count(name) > 1), None)
    if twice is not None:
        raise InputError(f"the kept column {twice} is named more than once: name each column once")
    taken = {"report", *coordinate_names(mechanism)} & set(keep)
    if taken:
        raise InputError(f"the kept column {min(taken)} has the name of a column of the reports: rename it")


def standard_streams() -> tuple[IO[bytes], IO[bytes]]:
    """Return standard input and output as binary streams of their own, which stay open when they are dropped."""
    return os.fdopen(0, "rb", closefd=False), os.fdopen(1, "wb", buffering=0, closefd=False)
