"""The same answer to the same question: asking again costs no budget, but the answers can be linked."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from functools import cached_property
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
from metricdp.errors import Faults, InputError
from metricdp.mechanism.plane import check_of_records
from metricdp.mechanism.snap import REFUSAL, SnappedReports, as_points
from metricdp.mechanism.snap_index import snapped
from metricdp.mechanism.sparse import SparseTable

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from metricdp.budget.ledger import Ledger
    from metricdp.mechanism.mechanism import Mechanism

Pair = tuple[str, str]
"""A holder and the id of a record."""

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
        check_of_records(mechanism, "Ledger.perturb_region: points are not remembered")
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
        _check(holder)
        names = [ids] if isinstance(ids, str) else [str(name) for name in ids]
        rows = self.mechanism.rows_of(names)  # an unknown id costs nothing
        if not allow_unprotected:
            self.mechanism.guarantee.check_rows(rows)  # a stored answer may have been allowed before
        answer_of = self._answers([(holder, name) for name in names], self._charge_one)
        return answer_of[holder, ids] if isinstance(ids, str) else [answer_of[holder, name] for name in names]

    def perturb_points(
        self,
        holder: str,
        points: ArrayLike,
        *,
        limit: float,
        allow_unprotected: bool = False,
        fast_snap: bool = False,
    ) -> SnappedReports:
        """Return the report of each point's nearest record, as `perturb` does; see `Mechanism.perturb_points`.

        All points of one record of ``holder`` get the same report. If any point is beyond ``limit``, nothing is
        reported, but new answers are charged and stored all the same, since the refusal is visible.
        """
        _check(holder)
        mechanism = self.mechanism
        promise, given = mechanism.guarantee.for_points(limit), as_points(points, mechanism.records)
        if not allow_unprotected:
            promise.check()
        rows, distances = snapped(given, mechanism.records, mechanism.metric, fast_snap=fast_snap)
        names = [mechanism.records.ids[row] for row in rows.tolist()]
        answer_of = self._answers([(holder, name) for name in names], self._charge_one)
        reports = tuple(answer_of[holder, name] for name in names)
        outputs = np.array([self._output_of[report] for report in reports], dtype=np.int64)
        if (distances > limit).any():
            raise InputError(REFUSAL)
        return SnappedReports(outputs, reports, distances)

    def perturb_rows_of(
        self, holders: Sequence[str], rows: NDArray[np.int64], *, may_drop: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return for each holder and record row the output, and whether the budget had room for it.

        All new answers are charged together, then drawn and stored together. With ``may_drop``, rows beyond a budget
        are not granted, and their output is 0; without it, `BudgetsExceededError` is raised and nobody is charged.
        """
        for holder in set(holders):
            _check(holder)
        pairs = [(holder, self.mechanism.records.ids[row]) for holder, row in zip(holders, rows.tolist(), strict=True)]
        answer_of = self._answers(pairs, self._charge_what_fits if may_drop else self._charge_all)
        try:
            outputs = [self._output_of[answer_of[pair]] if pair in answer_of else -1 for pair in pairs]
        except KeyError:
            raise self._file.damaged("an answer is not an output of the mechanism") from None
        drawn = np.array(outputs, dtype=np.int64)
        return np.maximum(drawn, 0), drawn >= 0

    def _answers(self, pairs: Sequence[Pair], charge: Callable[[Counter[str]], Mapping[str, int]]) -> dict[Pair, str]:
        """Return the answer for each holder and record, without those that ``charge`` grants nothing for."""
        question_of = {pair: self._question(*pair) for pair in pairs}
        with self._file.reading() as connection:
            answer_of = _stored(connection, question_of)
        return answer_of if len(answer_of) == len(question_of) else self._answer(question_of, charge)

    def _answer(
        self, question_of: Mapping[Pair, str], charge: Callable[[Counter[str]], Mapping[str, int]]
    ) -> dict[Pair, str]:
        # exclusive from the lookup to the commit, so that no other process pays for or draws the same question
        with self._file.writing() as connection:
            answer_of = _stored(connection, question_of)
            missing = list({question: pair for pair, question in question_of.items() if pair not in answer_of}.values())
            if self.ledger is not None and missing:
                left = dict(charge(Counter(holder for holder, _ in missing)))
                missing = [pair for pair in missing if _taken(left, pair[0])]
            rows = self.mechanism.rows_of([name for _, name in missing])
            names = self.mechanism.outputs.ids(self.mechanism.records)
            drawn = [names[k] for k in self.mechanism.perturb_rows(rows, allow_unprotected=True).tolist()]
            new = {question_of[pair]: answer for pair, answer in zip(missing, drawn, strict=True)}
            connection.executemany("INSERT INTO answers VALUES (?, ?)", new.items())
        # two spellings of one holder's name ask one question
        return answer_of | {pair: new[question] for pair, question in question_of.items() if question in new}

    def _charge_one(self, asked: Counter[str]) -> Mapping[str, int]:
        for holder, reports in asked.items():
            self._needed_ledger.charge_for(holder, self.mechanism, reports=reports)
        return asked

    def _charge_all(self, asked: Counter[str]) -> Mapping[str, int]:
        self._needed_ledger.charge_many(self.mechanism, asked)
        return asked

    def _charge_what_fits(self, asked: Counter[str]) -> Mapping[str, int]:
        return self._needed_ledger.charge_up_to(self.mechanism, asked)

    @property
    def _needed_ledger(self) -> Ledger:
        if self.ledger is None:
            raise InputError("nobody can be charged without a ledger: make the memory with one")
        return self.ledger

    @cached_property
    def _output_of(self) -> dict[str, int]:
        names = self.mechanism.outputs.ids(self.mechanism.records)
        return {name: k for k, name in enumerate(names)}

    def _question(self, holder: str, name: str) -> str:
        question = json.dumps([self._fingerprint, normal_name(holder), name])
        return question if self._key is None else keyed(self._key, question)


def fingerprint(mechanism: Mechanism) -> str:
    """Return the SHA-256 of all that an answer depends on: table, epsilon, records and outputs."""
    digest = hashlib.sha256()
    names = [mechanism.records.ids, mechanism.outputs.ids(mechanism.records)]
    digest.update(json.dumps([mechanism.table.shape, mechanism.epsilon.hex(), *names]).encode())
    if mechanism.epsilons is not None:
        digest.update(np.ascontiguousarray(mechanism.epsilons, dtype="<f8").tobytes())
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


def _stored(connection: sqlite3.Connection, question_of: Mapping[Pair, str]) -> dict[Pair, str]:
    answer_of = {}
    for pair, question in question_of.items():
        for (answer,) in connection.execute("SELECT answer FROM answers WHERE question = ?", (question,)):
            answer_of[pair] = answer
    return answer_of


def _check(holder: str) -> None:
    faults = Faults("the question")
    check_holder(holder, faults)
    faults.raise_if_any()


def _taken(left: dict[str, int], holder: str) -> bool:
    """Take one report of what is left for ``holder``; return whether there was one."""
    left[holder] -= 1
    return left[holder] >= 0
