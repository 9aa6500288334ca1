"""How often each output was reported: all that the statistics need, whatever the number of reports."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from metricdp.data.readers.columns import not_one_column
from metricdp.data.readers.features import features
from metricdp.data.readers.files import format_of
from metricdp.data.readers.streams import TextSource
from metricdp.data.readers.tables import ROWS_AT_ONCE, csv_tables
from metricdp.data.writing import plain_cell
from metricdp.errors import InputError, revealed
from metricdp.mechanism.snap import SnappedReports

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from os import PathLike

    from numpy.typing import ArrayLike, NDArray

    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.mechanism.plane import PlaneMechanism

REPORT_COLUMN = "report"
WEIGHT_COLUMNS = (
    *("weight", "weights", "wt", "wgt", "pweight", "multiplicity", "repeats"),
    *("count", "counts", "n", "freq", "frequency", "frequencies", "n_reports", "num_reports", "reports_count"),
)
GEOJSON_SUFFIXES = (".geojson", ".json")


class ReportCounts:
    """Counts reports of a mechanism as they come; n reports take no more memory than one.

    Parameters
    ----------
    mechanism
        The mechanism that made the reports.
    are_persons_named
        Whether each report comes with its person, so that a second report of anyone is refused. Names are kept in
        memory until the end.

    Examples
    --------
    >>> import metricdp as mdp
    >>> mechanism = mdp.exponential(mdp.Problem(mdp.data.grid(2, 2), epsilon=1.0, eta=1.5))
    >>> counts = ReportCounts(mechanism).add(["r00c00", "r01c01"]).add(["r01c01"])
    >>> counts.n, counts.of_outputs.tolist()
    (3, [1, 0, 0, 2])
    """

    def __init__(self, mechanism: Mechanism | PlaneMechanism, *, are_persons_named: bool = False) -> None:
        names = mechanism.outputs.ids(mechanism.records)
        self._number_of = {name: number for number, name in enumerate(names)}
        if len(self._number_of) < len(names):
            raise InputError("two outputs of this mechanism have one name: count reports by output with add_outputs")
        self._counts = np.zeros(len(names), dtype=np.int64)
        self._persons: set[str] | None = set() if are_persons_named else None

    @property
    def of_outputs(self) -> NDArray[np.int64]:
        """How often each output was reported, shape (K,)."""
        return self._counts.copy()

    @property
    def n(self) -> int:
        """Number of reports."""
        return int(self._counts.sum())

    def add(self, reports: Iterable[Any], persons: Iterable[Any] | None = None) -> Self:
        """Count reports by the outputs' names, as `Mechanism.perturb` returns them."""
        names = [str(name) for name in reports]
        unknown = next((place for place, name in enumerate(names) if name not in self._number_of), None)
        if unknown is not None:
            raise InputError(
                f"report {unknown + 1} of {len(names)}{revealed(names[unknown])} is not an output of this mechanism: "
                "give reports of this mechanism only"
            )
        return self.add_outputs([self._number_of[name] for name in names], persons)

    def add_outputs(self, outputs: ArrayLike, persons: Iterable[Any] | None = None) -> Self:
        """Count reports by the outputs' numbers, as `Mechanism.perturb_rows` returns them."""
        numbers = np.asarray(outputs)
        if numbers.size and (numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.integer)):
            raise InputError(f"output numbers must be whole numbers in one row, got {numbers.dtype}")
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(self._counts):
            raise InputError(f"output numbers must be between 0 and {len(self._counts) - 1}")
        self._note(None if persons is None else [str(person) for person in persons], numbers.size)
        self._counts += np.bincount(numbers.astype(np.int64), minlength=len(self._counts))
        return self

    def _note(self, persons: list[str] | None, n_reports: int) -> None:
        """Refuse a person who has reported before: two reports of one person are not independent."""
        if (persons is None) != (self._persons is None):
            raise InputError("give the person of every report, or of none")
        if persons is None or self._persons is None:
            return
        if len(persons) != n_reports:
            raise InputError(f"there are {n_reports} reports but {len(persons)} persons: give one for each")
        for place, person in enumerate(persons, start=1):
            if person in self._persons:
                raise InputError(
                    f"the person of report {place} of {n_reports}{revealed(person)} has reported before: the "
                    "statistics are of one report per person; keep one report of each, chosen without looking at it"
                )
            self._persons.add(person)


def counts_of(
    mechanism: Mechanism | PlaneMechanism,
    reports: ReportCounts | SnappedReports | Iterable[Any],
    persons: Iterable[Any] | None = None,
) -> ReportCounts:
    """Return the counts of reports in any form that `estimate` takes."""
    if isinstance(reports, ReportCounts):
        if persons is not None:
            raise InputError("give the persons when the reports are counted, with are_persons_named=True")
        if len(reports.of_outputs) != mechanism.outputs.n:
            raise InputError(f"counts of {len(reports.of_outputs)} outputs, but there are {mechanism.outputs.n}")
        return reports
    if isinstance(reports, (str, bytes)):
        raise InputError("reports must be a list of output names: for a file use count_file")
    counts = ReportCounts(mechanism, are_persons_named=persons is not None)
    if isinstance(reports, SnappedReports):
        return counts.add_outputs(reports.outputs, persons)
    return counts.add(reports, persons)


def count_file(
    mechanism: Mechanism | PlaneMechanism, path: str | PathLike[str], *, person: str | None = None
) -> ReportCounts:
    """Count the reports of a file as `perturb_file` writes it: CSV with a column ``report``, or GeoJSON.

    The file may be of any length. With ``person``, the column (or property) of that name must name someone else in
    every row. A column of weights is refused: the statistics are of reports that count alike.
    """
    counts = ReportCounts(mechanism, are_persons_named=person is not None)
    is_geojson = format_of(path) in GEOJSON_SUFFIXES
    with TextSource(path, newline=None if is_geojson else "") as source:
        for reports, persons in _geojson(source, person) if is_geojson else _csv(source, person):
            # an apostrophe before a name may be for spreadsheets
            known = [name if name in counts._number_of else plain_cell(name) for name in reports]  # noqa: SLF001
            try:
                counts.add(known, persons)
            except InputError as error:
                if counts.n == 0:
                    raise InputError(f"in {source.path}: {error}") from None
                raise InputError(f"in {source.path}, after the first {counts.n:,} reports: {error}") from None
    return counts


def _csv(source: TextSource, person: str | None) -> Iterator[tuple[list[str], list[str] | None]]:
    for table in csv_tables(source):
        wanted = [REPORT_COLUMN] if person is None else [REPORT_COLUMN, person]
        for name in wanted:
            if table.names.count(name) != 1:
                raise not_one_column(table.source, name, table.names)
        _refuse_weights(table.names, table.source)
        columns = [[cell.strip() for cell in table.columns[table.names.index(name)]] for name in wanted]
        yield columns[0], None if person is None else columns[1]


def _geojson(source: TextSource, person: str | None) -> Iterator[tuple[list[str], list[str] | None]]:
    found = features(source)
    while batch := list(islice(found, ROWS_AT_ONCE)):
        for feature in batch:
            _refuse_weights(tuple(feature.properties), feature.where)
            for name in (REPORT_COLUMN, *(() if person is None else (person,))):
                if name not in feature.properties:
                    raise InputError(f"{feature.where} has no property {name!r}: it is needed in every feature")
        reports = [str(feature.properties[REPORT_COLUMN]) for feature in batch]
        yield reports, None if person is None else [str(feature.properties[person]) for feature in batch]


def _refuse_weights(names: tuple[str, ...], where: str) -> None:
    weight = next((name for name in names if name.strip().lower().replace(" ", "_") in WEIGHT_COLUMNS), None)
    if weight is not None:
        raise InputError(
            f"{where} has a column {weight!r} of weights, and the intervals are of reports that count alike: leave the "
            "column out to count every report once"
        )
