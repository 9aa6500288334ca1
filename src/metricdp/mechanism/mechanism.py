"""A mechanism: an integer table that has passed the exact check, and what can be done with it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.data.frame import data_frame
from metricdp.data.frozen import frozen
from metricdp.data.records import Records
from metricdp.errors import CertificationError, Faults, InputError, revealed
from metricdp.mechanism.as_given import Moved, moved, rounded_table
from metricdp.mechanism.blocks import BLOCK_BYTES, probabilities_of, row_blocks, weights_of
from metricdp.mechanism.certificate import Certificate, Optimality, made_again, relative_gap
from metricdp.mechanism.certify import check_privacy
from metricdp.mechanism.claims import check_claims
from metricdp.mechanism.exact import TOTAL_BITS, PrivacyCheck
from metricdp.mechanism.expected import table_loss
from metricdp.mechanism.guarantee import Guarantee
from metricdp.mechanism.merge import after_merging, best_targets, mean_loss, targets_of
from metricdp.mechanism.repair import repair as repaired
from metricdp.mechanism.sample import cumulative, draw
from metricdp.mechanism.sample_sparse import SparseSteps, draw_sparse, sparse_steps
from metricdp.mechanism.scope import scope_fault
from metricdp.mechanism.snap import REFUSAL, SnappedReports, as_points
from metricdp.mechanism.snap_index import snapped
from metricdp.mechanism.sparse import SparseTable
from metricdp.metric.graph import MdpGraph
from metricdp.problem.budgets import budget_words
from metricdp.problem.outputs import Outputs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

    from metricdp.mechanism.choice import Choice
    from metricdp.problem.losses import Losses
    from metricdp.problem.problem import Problem

__all__ = ["Certificate", "Mechanism", "Optimality", "relative_gap", "table_loss"]


@dataclass(frozen=True, eq=False, repr=False)
class Mechanism:
    """A perturbation mechanism that has passed the exact check; a table that does not pass raises an error.

    Parameters
    ----------
    table
        Integer weights, shape (N, K), rows summing to 2^63: an array, or a `SparseTable`.
    records, outputs, graph, epsilon, eta, metric
        What it protects: the records, what can be reported, the neighbour pairs, the budget.
    epsilons
        The budget of each record, shape (N,), where records have budgets of their own: between two of them the smaller
        one counts, and ``epsilon`` is the largest of all.
    optimality
        Its expected loss and a valid lower bound, where known.
    solver
        How it was made, for the record.
    losses, loss_name
        The cost of each output for each record, and its name: kept so that the mechanism can be evaluated from its file
        by the loss that it was made for. Privacy needs neither.
    moved
        How far repair moved the rows of the matrix that it was made of, where it was made of one; not kept in files.
    """

    table: NDArray[np.uint64] | SparseTable
    records: Records
    outputs: Outputs
    graph: MdpGraph
    epsilon: float
    eta: float
    metric: str
    optimality: Optimality | None = None
    solver: str = ""
    losses: Losses | None = None
    loss_name: str = "given"
    moved: Moved | None = None
    epsilons: NDArray[np.float64] | None = None
    certificate: Certificate = field(init=False)

    def __post_init__(self) -> None:
        self._certify(is_scope_known=False)

    def _certify(self, *, is_scope_known: bool) -> None:
        """Check everything that is claimed; the scope is only known where this library made the list of pairs."""
        self._check_kinds()
        # read-only copies, so that the certified table is the one that is drawn from and saved
        object.__setattr__(self, "table", _own(self.table))
        for name in ("epsilon", "eta"):
            object.__setattr__(self, name, float(getattr(self, name)))
        if self.epsilons is not None:
            object.__setattr__(self, "epsilons", frozen(self.epsilons, np.float64))
        check_claims(self)
        if not is_scope_known:
            fault = scope_fault(self.records, self.graph, self.eta, self.metric)
            if fault:
                raise CertificationError(f"the pairs are not those within eta = {self.eta:g}: {fault}")
        kind = np.dtype(np.uint64) if isinstance(self.table, SparseTable) else self.table.dtype
        if kind != np.uint64 or self.table.shape != (self.records.n, self.outputs.n):
            raise InputError(
                f"a mechanism's table must be uint64 of shape ({self.records.n}, {self.outputs.n}), got "
                f"{kind} of shape {self.table.shape}"
            )
        guarantee = Guarantee(self.epsilon, self.eta, self.metric, self.records, self.graph, self.epsilons)
        object.__setattr__(self, "certificate", Certificate(self.recheck(), guarantee, self.optimality))

    def recheck(self) -> PrivacyCheck:
        """Run the exact check again; raise if the table does not pass it."""
        budget = self.epsilon if self.epsilons is None else self.epsilons
        check = check_privacy(self.table, self.graph.pairs, self.graph.distances, budget)
        if not check.certified:
            tightest, words = check.tightest_epsilon, budget_words(self.epsilon, self.epsilons)
            least = f"; the least epsilon that holds for all is {tightest:.17g}" if math.isfinite(tightest) else ""
            raise CertificationError(f"the table is not {words}-mDP: {check.fault}{least}")
        return check

    @property
    def guarantee(self) -> Guarantee:
        """The promise, its inputs, and its limits."""
        return self.certificate.guarantee

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and unpickle through the constructor, which certifies again; claims of a file remain claims."""
        parts = (self.table, self.records, self.outputs, self.graph, self.epsilon, self.eta, self.metric)
        more = (self.optimality, self.solver, self.losses, self.loss_name, self.moved, self.epsilons)
        return made_again, (Mechanism, (*parts, *more), self.certificate.is_from_file)

    def _check_kinds(self) -> None:
        """Refuse look-alikes of the library's own objects: their attributes need not match their contents."""
        faults = Faults("the mechanism")
        for name, kind in (("records", Records), ("outputs", Outputs), ("graph", MdpGraph), ("metric", str)):
            value = getattr(self, name)
            faults.check(type(value) is kind, f"{name} must be a {kind.__name__}, got {type(value).__name__}")
        for name in ("epsilon", "eta"):
            value = getattr(self, name)
            is_number = isinstance(value, (int, float, np.floating, np.integer)) and not isinstance(value, bool)
            faults.check(is_number, f"{name} must be a number, got {type(value).__name__}")
        faults.raise_if_any()

    @classmethod
    def of(
        cls,
        problem: Problem,
        table: NDArray[np.uint64] | SparseTable,
        *,
        epsilon: float | None = None,
        optimality: Optimality | None = None,
        solver: str = "",
        moved: Moved | None = None,
    ) -> Mechanism:
        """Certify an integer table as a mechanism of ``problem``, at its budget or at another ``epsilon``."""
        return cls._made(
            is_scope_known=problem.has_own_graph,
            table=table,
            records=problem.records,
            outputs=problem.outputs,
            graph=problem.graph,
            epsilon=problem.epsilon if epsilon is None else epsilon,
            epsilons=problem.epsilons if epsilon is None else None,
            eta=problem.eta,
            metric=problem.metric.name,
            optimality=optimality,
            solver=solver,
            losses=problem.losses,
            loss_name=problem.loss_name,
            moved=moved,
        )

    @classmethod
    def _made(cls, *, is_scope_known: bool, **values: Any) -> Mechanism:
        """Certify without counting the pairs again: only for pairs that this library has made or counted itself."""
        made = object.__new__(cls)
        for name, value in values.items():
            object.__setattr__(made, name, value)
        made._certify(is_scope_known=is_scope_known)
        return made

    def with_table(self, table: NDArray[np.uint64] | SparseTable, *, solver: str, **changed: Any) -> Mechanism:
        """Certify another table over the same records and pairs, at the same budget; ``changed`` are other fields."""
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.init}
        new = {"table": table, "solver": solver, "optimality": None, "moved": None, **changed}
        return self._made(is_scope_known=True, **(own | new))

    def merge(self, into: Mapping[Any, Any]) -> Mechanism:
        """Return the mechanism that reports ``into[k]`` in place of each output k of ``into``, certified again.

        Outputs are named, or numbered from 0. Those that were merged are no longer outputs. Reports are only renamed,
        so the budget is the same; `loss` is the expected loss after it.

        Examples
        --------
        >>> import metricdp as mdp
        >>> mechanism = mdp.exponential(mdp.Problem(mdp.data.grid(1, 3), epsilon=1.0, eta=1.0))
        >>> made = mechanism.merge({"r00c02": "r00c01"})
        >>> made.outputs.ids(made.records), made.certificate.privacy.certified
        (('r00c00', 'r00c01'), True)
        """
        return after_merging(self, targets_of(self, into))

    def without(self, outputs: Any) -> Mechanism:
        """Return the mechanism without some outputs, each replaced by the best of those that stay, as `merge` does.

        The best has the least expected loss by the prior, given that the removed one was drawn. The rows are never
        scaled to 1 again, which would break the promise.
        """
        named = [outputs] if isinstance(outputs, (str, int)) else list(outputs)
        return after_merging(self, best_targets(self, named))

    @cached_property
    def loss(self) -> float | None:
        """The expected loss by the prior, rounded up; None if the mechanism has no losses."""
        return mean_loss(self)

    @classmethod
    def from_matrix(
        cls,
        problem: Problem,
        Z: NDArray[np.float64],
        *,
        lower_bound: float | None = None,
        solver: str = "",
        repair: bool = True,
    ) -> Mechanism:
        """Make an exactly private mechanism of ``problem`` from a float matrix.

        The matrix is repaired, and ``mechanism.moved`` says how far that moved its rows. With ``repair=False`` it is
        only rounded to whole numbers, and an error is raised if that does not pass the exact check.
        """
        if repair:
            even = problem.at_one_epsilon
            table = repaired(Z, even.graph, even.epsilon, costs=problem.costs)
        else:
            table = rounded_table(Z, problem.n_records)
        loss = table_loss(table, problem)
        optimality = None if lower_bound is None else Optimality(loss, min(lower_bound, loss))
        away = moved(Z, table, problem.records.prior)
        return cls.of(problem, table, optimality=optimality, solver=solver, moved=away)

    def __repr__(self) -> str:
        gap = f", within {100 * self.optimality.gap:.3g} % of optimal" if self.optimality else ""
        return (
            f"Mechanism({self.records.name!r}: {self.records.n} records x {self.outputs.n} outputs, certified "
            f"{budget_words(self.epsilon, self.epsilons)}-mDP on {self.graph.n_pairs} pairs{gap})"
        )

    def _repr_html_(self) -> str:
        from metricdp.report.notebook import mechanism_html  # noqa: PLC0415

        return mechanism_html(self)

    def plot(self, record: object = None, *, axes: Any = None) -> Any:
        """Draw the table as a heat map, or what one ``record`` reports; return matplotlib's axes (extra ``plot``)."""
        from metricdp.report.plots import plot_mechanism  # noqa: PLC0415

        return plot_mechanism(self, record, axes=axes)

    @property
    def is_sparse(self) -> bool:
        """Whether the table is a `SparseTable`: few stored weights over a common background."""
        return isinstance(self.table, SparseTable)

    def block(self, rows: Choice = None, outputs: Choice = None) -> NDArray[np.float64]:
        """Return the probabilities of ``rows`` and ``outputs``, rounded, always with two dimensions.

        Each is a number, a slice, numbers, or None for all of them: ``block(3)`` is one row, ``block(None, 7)`` one
        column. For display and evaluation, not for sampling.
        """
        return weights_of(self.table, rows, outputs) / 2.0**TOTAL_BITS

    def row_blocks(self, max_bytes: float = BLOCK_BYTES) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield all probabilities a part at a time: a slice of rows and their block, of at most ``max_bytes``."""
        for part, weights in row_blocks(self.table, max_bytes):
            yield part, weights / 2.0**TOTAL_BITS

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """The table as floats, rounded, if that fits into memory: for display, not for sampling."""
        return probabilities_of(self.table)

    def to_numpy(self) -> NDArray[np.float64]:
        """Return all probabilities as an array of its own, shape (N, K), rounded: for evaluation, not for sampling."""
        return np.array(self.probabilities)

    def to_pandas(self) -> Any:
        """Return all probabilities as a DataFrame: a row for each record's id, a column for each output's."""
        return data_frame(self.to_numpy(), index=self.records.ids, columns=self.outputs.ids(self.records))

    @cached_property
    def _row_of_id(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.records.ids)}

    @cached_property
    def _steps(self) -> NDArray[np.uint64] | SparseSteps:
        if isinstance(self.table, SparseTable):
            return sparse_steps(self.table)
        return frozen(cumulative(self.table))

    def rows_of(self, ids: Sequence[Any]) -> NDArray[np.int64]:
        """Return the rows of records named by ``ids``; the error for an unknown id names its position, not the id."""
        names = [str(name) for name in ids]
        unknown = next((place for place, name in enumerate(names) if name not in self._row_of_id), None)
        if unknown is not None:
            raise InputError(
                f"id {unknown + 1} of {len(names)}{revealed(names[unknown])} is not a record of this mechanism: use "
                "one of its record ids"
            )
        return np.array([self._row_of_id[name] for name in names], dtype=np.int64)

    def perturb_rows(self, rows: NDArray[np.int64], *, allow_unprotected: bool = False) -> NDArray[np.int64]:
        """Draw one output number for each record row, with the operating system's randomness.

        If any record has no neighbour, all are refused unless ``allow_unprotected``.
        """
        chosen = np.asarray(rows)
        if chosen.size and not np.issubdtype(chosen.dtype, np.integer):
            raise InputError(f"rows must be whole numbers, got {chosen.dtype}")
        chosen = chosen.astype(np.int64)
        steps = self._steps
        outputs = draw_sparse(steps, chosen) if isinstance(steps, SparseSteps) else draw(steps, chosen)
        if not allow_unprotected:
            self.guarantee.check_rows(chosen)
        return outputs

    def perturb(self, ids: str | Sequence[Any], *, allow_unprotected: bool = False) -> Any:
        """Draw a report for each record id: the id of the output, or its number if outputs are other points.

        A pandas column gives a column with the same name; its index is left out, since it may hold the true place.
        If any record has no neighbour, all are refused unless ``allow_unprotected``: its report may reveal it.

        Each call spends the budget again: n reports of the same record cost n times epsilon.
        """
        one = isinstance(ids, str)
        names = self.outputs.ids(self.records)
        rows = self.rows_of([ids] if one else list(ids))
        drawn = [names[k] for k in self.perturb_rows(rows, allow_unprotected=allow_unprotected)]
        column: Any = ids
        if hasattr(column, "to_frame"):
            return type(column)(drawn, name=column.name, dtype=object)
        return drawn.pop() if one else drawn

    def perturb_points(
        self, points: ArrayLike, *, limit: float, allow_unprotected: bool = False, fast_snap: bool = False
    ) -> SnappedReports:
        """Draw a report for each of ``points``, each replaced by its nearest record first.

        What is promised is ``mechanism.guarantee.for_points(limit)``; where it promises nothing for points that are
        close together, all points are refused unless ``allow_unprotected``. If any point is farther than ``limit`` from
        every record, nothing is reported, with the same message and after the same work whichever point it is; that a
        report was refused is itself visible. With ``fast_snap`` the work depends on the points (see `SnapIndex`).
        """
        promise, given = self.guarantee.for_points(limit), as_points(points, self.records)
        if not allow_unprotected:
            promise.check()
        rows, distances = snapped(given, self.records, self.metric, fast_snap=fast_snap)
        # drawn before the limit is checked: refusing takes as long as reporting
        outputs = self.perturb_rows(rows, allow_unprotected=True)
        names = self.outputs.ids(self.records)
        reports = SnappedReports(outputs, tuple(names[k] for k in outputs), distances)
        if (distances > limit).any():
            raise InputError(REFUSAL)
        return reports

    def save(self, path: str | Path) -> None:
        """Write the mechanism to a ``.mdp`` file, completely or not at all."""
        from metricdp.mechanism.files import save  # noqa: PLC0415  (files.py imports this module to load)

        save(self, path)


def _own(table: NDArray[np.uint64] | SparseTable) -> NDArray[np.uint64] | SparseTable:
    """Return a table that nobody can change; a sparse one is checked again, whatever was done to it."""
    return SparseTable.checked(table) if isinstance(table, SparseTable) else frozen(table)
