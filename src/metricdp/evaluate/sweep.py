"""The privacy-utility curve: what several mechanisms cost at several budgets, with the lower bound of any."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

from metricdp.data.frame import data_frame
from metricdp.errors import InputError, MetricDPError
from metricdp.evaluate.compare import BASELINES, TIME_LIMIT_SECONDS, compared
from metricdp.solve.solve import solve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from metricdp.evaluate.matrices import AnyMechanism
    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.problem.problem import Problem

    Made = str | Callable[[Problem], AnyMechanism]

OPTIMAL = "optimal"


@dataclass(frozen=True)
class Point:
    """One mechanism at one budget.

    ``lower_bound`` is that of any mechanism that is private at this budget; the rest is as in `Row`.
    """

    name: str
    epsilon: float
    loss: float
    lower_bound: float
    loss_after_remap: float
    adversary_error: float | None
    adversary_right: float
    min_entropy_leakage: float
    tightest_epsilon: float
    certified: bool


@dataclass(frozen=True)
class Sweep:
    """All points, budget by budget; the lower bound at each budget; and why some mechanisms could not be made."""

    points: tuple[Point, ...]
    lower_bounds: dict[float, float]
    unavailable: dict[tuple[str, float], str]

    @property
    def names(self) -> tuple[str, ...]:
        """The mechanisms, in the order in which they were asked for."""
        return tuple(dict.fromkeys(point.name for point in self.points))

    def curve(self, name: str) -> tuple[tuple[float, float], ...]:
        """Return the budgets and losses of one mechanism."""
        return tuple((point.epsilon, point.loss) for point in self.points if point.name == name)

    def to_pandas(self) -> Any:
        """Return all points as a DataFrame, one row each."""
        return data_frame([vars(point) for point in self.points])


def sweep(
    problem: Problem,
    epsilons: Sequence[float],
    mechanisms: str | Sequence[str] | Mapping[str, Made] = (OPTIMAL, "exponential"),
    *,
    gap: float = 0.01,
    time_limit: float | None = TIME_LIMIT_SECONDS,
) -> Sweep:
    """Return what ``mechanisms`` cost on ``problem`` at each of ``epsilons``, and the lower bound of any mechanism.

    Parameters
    ----------
    problem
        Its records, outputs, pairs and loss; its own budget is not used.
    epsilons
        The budgets.
    mechanisms
        Names: ``"optimal"`` (solved within ``gap``) and those of `compare`. Or a mapping from names of your own to such
        names or to functions from a problem, at one of the budgets, to a mechanism or a matrix, which is judged as it
        is.
    gap, time_limit
        Of each solve, and the seconds that each may take.

    Examples
    --------
    >>> import metricdp as mdp
    >>> problem = mdp.Problem(mdp.data.grid(1, 2), epsilon=1.0, eta=1.0)
    >>> found = sweep(problem, [0.5, 2.0], ["optimal", "uniform"])
    >>> [(point.name, point.epsilon, round(point.loss, 3)) for point in found.points]
    [('optimal', 0.5, 0.378), ('uniform', 0.5, 0.5), ('optimal', 2.0, 0.119), ('uniform', 2.0, 0.5)]
    """
    if isinstance(epsilons, (str, Real)) or not all(isinstance(value, Real) for value in epsilons):
        raise InputError(f"the epsilons of a sweep must be a list of numbers, got {epsilons!r}: write [1.0, 2.0]")
    if isinstance(mechanisms, str):
        mechanisms = [mechanisms]
    wanted: dict[str, Made] = (
        dict(mechanisms) if isinstance(mechanisms, Mapping) else {name: name for name in mechanisms}
    )
    known = (OPTIMAL, *BASELINES)
    unknown = next((made for made in wanted.values() if not callable(made) and made not in known), None)
    if unknown is not None:
        raise InputError(
            f"unknown mechanism {unknown!r} to sweep: choose among {', '.join(known)}, or give a function of a problem"
        )
    double = next((name for name, how in wanted.items() if name in known and how != name), None)
    if double is not None:
        raise InputError(f"the name {double!r} is that of a mechanism to build: give yours another name")
    if problem.epsilons is not None:
        raise InputError(
            "a sweep goes through values of one epsilon, and the records of this problem have their own: sweep "
            "problem.with_epsilon(1.0) instead"
        )
    if not wanted or not len(epsilons):
        raise InputError("there is nothing to sweep: give at least one mechanism and one epsilon")
    points: list[Point] = []
    bounds: dict[float, float] = {}
    unavailable: dict[tuple[str, float], str] = {}
    for epsilon in map(float, epsilons):
        at = problem.with_epsilon(epsilon)
        result = solve(at, gap=gap, time_limit=time_limit)
        bounds[epsilon] = result.lower_bound
        made: dict[str, AnyMechanism] = {}
        for name, how in wanted.items():
            try:
                made[name] = _made(how, at, result.mechanism, time_limit)
            except MetricDPError as error:
                unavailable[name, epsilon] = str(error)
        points += [
            Point(
                row.name,
                epsilon,
                row.loss,
                result.lower_bound,
                row.loss_after_remap,
                row.adversary_error,
                row.adversary_right,
                row.min_entropy_leakage,
                row.tightest_epsilon,
                row.certified,
            )
            for row in (compared(made, at).rows if made else ())
        ]
    return Sweep(tuple(points), bounds, unavailable)


def _made(how: Made, problem: Problem, optimal: Mechanism, time_limit: float | None) -> AnyMechanism:
    if callable(how):
        return how(problem)
    return optimal if how == OPTIMAL else BASELINES[how](problem, time_limit)[0]
