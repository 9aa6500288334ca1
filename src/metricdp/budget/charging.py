"""Charge the persons of a file before their reports are drawn: all of them, or none and nothing is written."""

from __future__ import annotations

import os
import stat
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from metricdp.budget.store import normal_name
from metricdp.data.readers.files import existing_file
from metricdp.data.writing import Target, plain_cell
from metricdp.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from metricdp.budget.ledger import Ledger
    from metricdp.data.readers.streams import TextSource
    from metricdp.mechanism.mechanism import Mechanism


class Batch(Protocol):
    """Some rows of a file: a dataclass whose ``kept`` has the requested columns, the person's last."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def kept(self) -> Sequence[Sequence[Any]]: ...


class Summary(Protocol):
    """Counts for a perturbed file."""

    persons: int | None


B = TypeVar("B", bound=Batch)
S = TypeVar("S", bound=Summary)


class Persons:
    """Counts the rows of each person while a file is read.

    Parameters
    ----------
    column
        The column (or property) with the persons' names. It is not passed on unless it is kept.
    charged
        What was charged before; the file must have the same persons with as many rows each.
    """

    def __init__(self, column: str, charged: Counter[str] | None = None) -> None:
        self.column, self.rows_of = column, Counter[str]()
        self._charged = charged

    def counting(self, read: Callable[..., Iterator[B]]) -> Callable[..., Iterator[B]]:
        """Return ``read``, which counts the persons and leaves their column out."""

        def counted(source: TextSource, mechanism: Mechanism, keep: Sequence[str], *, are_places: bool) -> Iterator[B]:
            if not are_places and self.column.strip().lower() == "id":
                raise InputError(
                    f"the column {self.column} names the true records, so it cannot name the persons: give another one"
                )
            for batch in read(source, mechanism, (*keep, self.column), are_places=are_places):
                n_before = self.rows_of.total()
                self.rows_of.update(
                    name_of_person(values[-1], f"{source.path}, row {row}", self.column)
                    for row, values in enumerate(batch.kept, start=n_before + 1)
                )
                yield replace(batch, kept=[values[:-1] for values in batch.kept])

        return counted

    def check(self) -> None:
        """Check that exactly those rows were read that were charged."""
        if self._charged is not None and self.rows_of != self._charged:
            raise changed()


def name_of_person(value: Any, where: str, column: str) -> str:
    """Return the name of a person in a cell, in Unicode's form NFC."""
    is_name = (isinstance(value, str) and value.strip()) or (isinstance(value, int) and not isinstance(value, bool))
    if not is_name:
        raise InputError(f"{where} has no person in {column!r}: give every row a name or a whole number")
    return normal_name(plain_cell(str(value)))  # without the apostrophe that protects spreadsheets


def charged(
    mechanism: Mechanism,
    source: str | Path,
    ledger: Ledger | None,
    person: str | None,
    write: Callable[..., S],
) -> S:
    """Rehearse, charge everyone in one transaction, and only then write; return what was written.

    ``write`` takes the `Persons` of a reading, or None where nobody is charged: without a ledger and a person.
    """
    if ledger is None and person is None:
        return write(None)
    if ledger is None or person is None:
        raise InputError("a ledger and the column of the persons to charge go together: give both")
    before = _state_of(source)
    first = Persons(person)
    write(first, is_rehearsal=True)
    if _state_of(source) != before:  # checked before anyone is charged
        raise changed()
    ledger.charge_many(mechanism, first.rows_of)
    try:
        summary = write(Persons(person, first.rows_of))
    except InputError as error:
        raise InputError(f"{error}. The {len(first.rows_of):,} persons stay charged: reports were drawn") from None
    summary.persons = len(first.rows_of)
    return summary


def changed() -> InputError:
    """Return the error for a file that changed between its two readings."""
    return InputError("the file changed while it was read: nothing was written; use a copy that nobody changes")


@contextmanager
def nowhere(path: str | Path, **_: object) -> Iterator[Target]:
    """Yield a target that discards its input."""
    with Path(os.devnull).open("wb") as stream:
        yield Target(path, stream)


def _state_of(source: str | Path) -> tuple[int, int, int]:
    status = existing_file(source).stat()
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{source} is read twice to charge before drawing, and is not a file: save it to a file first")
    return status.st_ino, status.st_size, status.st_mtime_ns
