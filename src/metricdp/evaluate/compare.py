"""The comparison table: a mechanism beside others on the same problem, each certified by the same exact check."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from metricdp.data.frame import data_frame
from metricdp.errors import InputError, MetricDPError, SolverError
from metricdp.evaluate.adversary import attack_all
from metricdp.evaluate.audit import audit
from metricdp.evaluate.const_opt import const_opt
from metricdp.evaluate.estimates import NEVER_BUILT, Estimate, estimate, promised
from metricdp.evaluate.matrices import as_probabilities
from metricdp.evaluate.plane_noise import remapped_noise, snapped_noise
from metricdp.evaluate.remap import remap, remapped_matrix
from metricdp.evaluate.spanner import spanner_mechanism
from metricdp.evaluate.utility import matrix_loss
from metricdp.evaluate.word_noise import tem_note, truncated_exponential
from metricdp.mechanism.baselines import certified_as_it_is, decay_logarithms, planar_laplace, uniform
from metricdp.mechanism.mechanism import Mechanism, table_loss
from metricdp.problem.loss import distance_loss
from metricdp.solve.result import Status
from metricdp.solve.solve import solve

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from metricdp.evaluate.matrices import AnyMechanism
    from metricdp.problem.problem import Problem

OURS = "this mechanism"
TIME_LIMIT_SECONDS = 60.0  # for each mechanism that needs a linear program
MAX_DENSE_ENTRIES = 30_000_000  # records times outputs of a table to compare with: 240 MB
ANY_SIZE = ("uniform",)
QUICK_BASELINES = ("exponential", "planar-laplace", "planar-laplace-remapped", "uniform")  # need no linear program
TIE_TOLERANCE = 1e-6  # relative; a smaller difference of two losses does not matter


@dataclass(frozen=True)
class Row:
    """One mechanism of the table.

    ``certified`` says whether the exact check passes at the problem's epsilon; ``tightest_epsilon`` is the least budget
    that holds. ``adversary_error`` and ``adversary_right`` are those of the adversary who knows the true prior;
    ``min_entropy_leakage`` is by how many bits a report helps to be right.
    """

    name: str
    loss: float
    loss_after_remap: float
    adversary_error: float | None
    adversary_right: float
    tightest_epsilon: float
    certified: bool
    note: str = ""
    min_entropy_leakage: float = 0.0


@dataclass(frozen=True)
class Comparison:
    """The rows, ours first, why some of the requested mechanisms could not be made, and losses of those not built."""

    rows: tuple[Row, ...]
    unavailable: dict[str, str]
    estimates: tuple[Estimate, ...] = ()

    @property
    def ours(self) -> Row:
        """The row of the mechanism that the others are compared with."""
        return self.rows[0]

    @property
    def better(self) -> tuple[Row, ...]:
        """Certified others with less loss than ours, before or after remapping, by more than rounding."""
        limit = self.ours.loss * (1.0 - TIE_TOLERANCE)
        return tuple(r for r in self.rows[1:] if r.certified and min(r.loss, r.loss_after_remap) < limit)

    def _repr_html_(self) -> str:
        from metricdp.report.notebook import comparison_html  # noqa: PLC0415

        return comparison_html(self)

    def to_pandas(self) -> Any:
        """Return the rows as a DataFrame, indexed by name."""
        return data_frame([vars(row) for row in self.rows]).set_index("name")


def compare(
    mechanism: AnyMechanism | Mapping[str, AnyMechanism],
    problem: Problem,
    against: Sequence[str] = (),
    *,
    time_limit: float | None = TIME_LIMIT_SECONDS,
) -> Comparison:
    """Build the mechanisms named in ``against`` on ``problem``, certify them, and put them beside ``mechanism``.

    Parameters
    ----------
    mechanism
        A mechanism, anybody's matrix of probabilities, or several of them by name: ``{"mine": Z, "theirs": other}``.
        The others are compared with the first. A matrix is judged as it is: the exact audit says whether it is
        certified at the problem's epsilon.
    against
        Names of mechanisms to build.
    time_limit
        Seconds for each that needs a linear program.

    Notes
    -----
    Multivariate Laplace noise has no table: its loss is estimated from draws, and it is not certified. Where
    records have epsilons of their own, mechanisms that are not ours are built with the smallest of them for all. Of
    problems that are too large for dense tables, expected losses of the simple mechanisms are estimated from a
    sample, and the others are left out.
    """
    check_names(against)
    given = dict(mechanism) if isinstance(mechanism, Mapping) else {OURS: mechanism}
    if not given:
        raise InputError("there is nothing to compare: give a mechanism, or several by name")
    for name in given:
        if not isinstance(name, str) or not name.strip():
            raise InputError(f"each mechanism to compare needs a name that is a text, got {name!r}: name it")
        if name in NAMES:
            raise InputError(f"the name {name!r} is that of a mechanism to build: give yours another name")
    return compared(given, problem, against, time_limit=time_limit)


def compared(
    given: Mapping[str, AnyMechanism],
    problem: Problem,
    against: Sequence[str] = (),
    *,
    time_limit: float | None = TIME_LIMIT_SECONDS,
) -> Comparison:
    """Return the comparison of mechanisms whose names have been checked."""
    entries = [_judged(name, one, problem, is_one_of_many=len(given) > 1) for name, one in given.items()]
    unavailable, estimates = {}, []
    is_large = problem.n_records * problem.n_outputs > MAX_DENSE_ENTRIES
    for name in dict.fromkeys(against):
        try:
            if name in NEVER_BUILT or (is_large and name not in ANY_SIZE):
                estimates.append(estimate(name, problem.at_smallest_epsilon))
            else:
                entries.append(_of_mechanism(name, *built(name, problem, time_limit), problem))
        except MetricDPError as error:
            unavailable[name] = str(error)
    attacks = attack_all([one.mechanism for one in entries], problem)
    rows = tuple(
        Row(
            one.name,
            one.loss,
            one.loss_after_remap,
            attack.error,
            attack.right,
            one.tightest_epsilon,
            one.certified,
            one.note,
            math.log2(attack.right / attack.blind_right),
        )
        for one, attack in zip(entries, attacks, strict=True)
    )
    return Comparison(rows, unavailable, tuple(estimates))


class _Entry(NamedTuple):
    """One mechanism to compare, and all but the adversary's success."""

    name: str
    mechanism: AnyMechanism
    loss: float
    loss_after_remap: float
    tightest_epsilon: float
    certified: bool
    note: str


def _judged(name: str, given: AnyMechanism, problem: Problem, *, is_one_of_many: bool) -> _Entry:
    """Return a mechanism or a matrix of somebody's with its losses and what it satisfies."""
    if isinstance(given, Mechanism):
        return _of_mechanism(name, given, "", problem)
    try:
        Z, found = as_probabilities(given, problem), audit(given, problem)
    except InputError as error:
        if is_one_of_many:
            raise InputError(f"in {name}: {error}") from None
        raise
    note = "a matrix as it is" if found.holds else f"{100 * found.share_violated:.3g} % of its constraints are violated"
    remapped = matrix_loss(remapped_matrix(Z, problem), problem)
    return _Entry(name, Z, matrix_loss(Z, problem), remapped, found.epsilon, found.holds, note)


def _of_mechanism(name: str, made: Mechanism, note: str, problem: Problem) -> _Entry:
    return _Entry(
        name,
        made,
        table_loss(made.table, problem),
        table_loss(remap(made, problem).table, problem),
        made.certificate.privacy.tightest_epsilon,
        satisfies(made, problem),
        note,
    )


def satisfies(made: Mechanism, problem: Problem) -> bool:
    """Return whether a mechanism is certified at the problem's budgets, or at smaller ones, for every record."""
    asked = problem.epsilon if problem.epsilons is None else problem.epsilons
    return bool((made.guarantee.budgets <= asked).all())


def built(name: str, problem: Problem, time_limit: float | None) -> tuple[Mechanism, str]:
    """Return the mechanism of that name and a note on it; with one epsilon for all unless it is ours."""
    if problem.epsilons is None or name == "kernel":
        return BASELINES[name](problem, time_limit)
    made, note = BASELINES[name](problem.at_smallest_epsilon, time_limit)
    return made, f"{note}; with the smallest epsilon for all"


def check_names(names: Sequence[str], *, is_built: bool = False) -> None:
    """Refuse names that are not in ``NAMES``, or not in ``BASELINES`` where the mechanism itself is needed."""
    known = tuple(BASELINES) if is_built else NAMES
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(f"unknown mechanism {unknown[0]!r} to compare with: choose among {', '.join(known)}")


def _exponential(problem: Problem, _time_limit: float | None) -> tuple[Mechanism, str]:
    distances = distance_loss(problem.records, problem.outputs, problem.metric)
    logarithms = decay_logarithms(distances, 0.5 * problem.epsilon)
    return certified_as_it_is(problem, logarithms, solver="exponential"), promised("guarantees epsilon", problem)


def _planar_laplace(problem: Problem, _time_limit: float | None) -> tuple[Mechanism, str]:
    return planar_laplace(problem), promised("guarantees 2 epsilon", problem)


def _snapped_laplace(problem: Problem, _time_limit: float | None) -> tuple[Mechanism, str]:
    return snapped_noise(problem)


def _remapped_laplace(problem: Problem, _time_limit: float | None) -> tuple[Mechanism, str]:
    return remapped_noise(problem)


def _truncated(problem: Problem, _time_limit: float | None) -> tuple[Mechanism, str]:
    return truncated_exponential(problem), f"{promised('guarantees epsilon', problem)}; {tem_note(problem)}"


def _uniform(problem: Problem, _time_limit: float | None) -> tuple[Mechanism, str]:
    return uniform(problem), "guarantees any epsilon"


def _const_opt(problem: Problem, time_limit: float | None) -> tuple[Mechanism, str]:
    return const_opt(problem, time_limit=time_limit)


def _spanner(problem: Problem, time_limit: float | None) -> tuple[Mechanism, str]:
    return spanner_mechanism(problem, time_limit=time_limit)


def _kernel(problem: Problem, time_limit: float | None) -> tuple[Mechanism, str]:
    result = solve(problem, method="kernel", time_limit=time_limit)
    if result.status is Status.INFEASIBLE:
        raise SolverError("no mixture of kernels was found")
    note = "metricdp's own mixture of kernels; small components exactly"
    return result.mechanism, f"{note}; stopped by the time limit" if result.status is Status.LIMIT else note


BASELINES: dict[str, Callable[[Problem, float | None], tuple[Mechanism, str]]] = {
    "exponential": _exponential,
    "planar-laplace": _planar_laplace,
    "planar-laplace-snapped": _snapped_laplace,
    "planar-laplace-remapped": _remapped_laplace,
    "truncated-exponential": _truncated,
    "uniform": _uniform,
    "const-opt": _const_opt,
    "spanner": _spanner,
    "kernel": _kernel,
}
NAMES = (*BASELINES, *NEVER_BUILT)
"""All mechanisms to compare with; of some only the expected loss is estimated."""
