"""The same answer to the same question: asking again costs no budget, but the answers can be linked."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from metricdp.budget.store import (
    TIMEOUT_SECONDS,
    Kind,
    SqliteFile,
    check_holder,
    check_options,
    key_check,
    keyed,
    normal_name,
    secret_of,
)
from metricdp.errors import Faults
from metricdp.mechanism.sparse import SparseTable

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from metricdp.budget.ledger import Ledger
    from metricdp.mechanism.mechanism import Mechanism

ANSWERS = Kind(
    application_id=0x6D64704D,  # "mdpM"
    version=1,
    schema=("CREATE TABLE answers (question TEXT PRIMARY KEY, answer TEXT NOT NULL) WITHOUT ROWID",),
)


def memoize(
    mechanism: Mechanism,
    path: str | Path,
    *,
    ledger: Ledger | None = None,
    key: bytes | Path | None = None,
    must_exist: bool = False,
    timeout: float = TIMEOUT_SECONDS,
) -> Memoized:
    """Return ``mechanism`` with a memory at ``path``: `Memoized` explains what it does not hide."""
    return Memoized(mechanism, path, ledger=ledger, key=key, must_exist=must_exist, timeout=timeout)


class Memoized:
    """A mechanism that draws once for each holder and record, and from then on repeats that answer.

    Repeating an answer reveals nothing new about the record, so it costs nothing: however often a holder reports one
    record, the cost is one epsilon. It is one epsilon for **each distinct record**: reports of m different records of a
    holder are together (m epsilon)-mDP.

    What it does not hide (**trackability**): an observer of the reports sees when the same answer comes again. Equal
    answers can be linked, a place that is often visited stands out, and the set of answers can become a fingerprint of
    the holder. If that must be hidden, draw fresh reports and pay for each. When the budget is used up, a refusal
    itself tells that the record is one that was not asked before.

    The store is a secret as well: it holds which records each holder asked about. Its loss means new draws at new cost.

    Parameters
    ----------
    mechanism
        Answers are bound to it (its table, epsilon, records and outputs): another mechanism draws afresh.
    path
        An SQLite file on a local disk, made if it does not exist (readable by its owner only). Any number of processes
        and threads may use it at once; all get the same answers.
    ledger
        Charged before a new answer is drawn.
    key
        With a key (at least 16 secret bytes, or the Path of a file that holds them), the file holds HMAC-SHA256 of the
        questions in place of holders and records. The answers stay readable.
    must_exist
        Refuse to make the file: a removed memory would otherwise start again and draw every answer anew.
    timeout
        Seconds to wait for other writers.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        path: str | Path,
        *,
        ledger: Ledger | None = None,
        key: bytes | Path | None = None,
        must_exist: bool = False,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        faults = Faults("the memory")
        check_options(key, timeout, faults)
        faults.raise_if_any()
        self.mechanism = mechanism
        self.ledger = ledger
        self._key = secret_of(key, can_make=not must_exist and not Path(path).exists())
        self._fingerprint = fingerprint(mechanism)
        self._file = SqliteFile(
            path,
            kind=ANSWERS,
            settings={"key": key_check(self._key)},
            timeout=timeout,
            must_exist=must_exist,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Leave: every transaction has closed its own connection, so nothing is left to close."""

    def __repr__(self) -> str:
        return f"Memoized({self.mechanism!r}, {str(self.path)!r})"

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    def perturb(self, holder: str, ids: str | Sequence[Any], *, allow_unprotected: bool = False) -> Any:
        """Return the report of each record id of ``holder``: the stored one, or a new one that is then stored."""
        faults = Faults("the question")
        check_holder(holder, faults)
        faults.raise_if_any()
        names = [ids] if isinstance(ids, str) else [str(name) for name in ids]
        rows = self.mechanism.rows_of(names)  # an unknown id costs nothing
        if not allow_unprotected:
            self.mechanism.guarantee.check_rows(rows)  # a stored answer may have been allowed before
        question_of = {name: self._question(holder, name) for name in names}
        with self._file.reading() as connection:
            answer_of = _stored(connection, question_of)
        if len(answer_of) < len(question_of):
            answer_of = self._answer(holder, question_of, allow_unprotected=allow_unprotected)
        return answer_of[ids] if isinstance(ids, str) else [answer_of[name] for name in names]

    def _answer(self, holder: str, question_of: dict[str, str], *, allow_unprotected: bool) -> dict[str, str]:
        # exclusive from the lookup to the commit, so that no other process pays for or draws the same question
        with self._file.writing() as connection:
            answer_of = _stored(connection, question_of)
            missing = [name for name in question_of if name not in answer_of]
            if missing and self.ledger is not None:
                self.ledger.charge_for(holder, self.mechanism, reports=len(missing))
            reports = self.mechanism.perturb(missing, allow_unprotected=allow_unprotected)
            drawn = dict(zip(missing, reports, strict=True))
            connection.executemany(
                "INSERT INTO answers VALUES (?, ?)", [(question_of[name], drawn[name]) for name in missing]
            )
        return answer_of | drawn

    def _question(self, holder: str, name: str) -> str:
        question = json.dumps([self._fingerprint, normal_name(holder), name])
        return question if self._key is None else keyed(self._key, question)


def fingerprint(mechanism: Mechanism) -> str:
    """Return the SHA-256 of all that an answer depends on: table, epsilon, records and outputs."""
    digest = hashlib.sha256()
    names = [mechanism.records.ids, mechanism.outputs.ids(mechanism.records)]
    digest.update(json.dumps([mechanism.table.shape, mechanism.epsilon.hex(), *names]).encode())
    for part, kind in _table_parts(mechanism.table):
        digest.update(np.ascontiguousarray(part, dtype=kind).data)
    for coordinates in (mechanism.records.coordinates, mechanism.outputs.coordinates):
        digest.update(np.ascontiguousarray(coordinates, dtype="<f8").tobytes())
    return digest.hexdigest()


def _table_parts(table: NDArray[np.uint64] | SparseTable) -> list[tuple[NDArray[Any], str]]:
    """Return the arrays of a table with the types in which they count; a sparse one begins with its stored number."""
    if not isinstance(table, SparseTable):
        return [(table, "<u8")]
    kinds = ("<i8", "<i4", "<u8", "<u8", "<u8")
    return [(np.array([table.n_stored]), "<i8"), *zip(table.parts, kinds, strict=True)]


def _stored(connection: sqlite3.Connection, question_of: dict[str, str]) -> dict[str, str]:
    answer_of = {}
    for name, question in question_of.items():
        for (answer,) in connection.execute("SELECT answer FROM answers WHERE question = ?", (question,)):
            answer_of[name] = answer
    return answer_of
