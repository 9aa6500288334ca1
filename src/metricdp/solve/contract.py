"""What every solver is: a name, options of its own, and ``run(component, incumbent, context) -> incumbent``.

A solver registers itself (`register`), and its module is named in `metricdp.solve.solvers`: nothing else has to know
it. A solver neither repairs nor certifies the final matrix, and no result of it is trusted: the matrix is repaired and
certified, and the lower bound must come from multipliers by the formula of `metricdp.solve.bounds`.
"""

from __future__ import annotations

import enum
import math
from abc import ABC, abstractmethod
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from metricdp.errors import InputError, OutOfRoomError, SolverError
from metricdp.mechanism.mechanism import relative_gap
from metricdp.solve.bounds import RowDuals, lower_bound

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from metricdp.mechanism.sparse import SparseTable
    from metricdp.partition import Partition
    from metricdp.problem.memory_model import Sizes
    from metricdp.problem.problem import Problem
    from metricdp.solve.checkpoint import Checkpoint
    from metricdp.solve.component import Component
    from metricdp.solve.division import Division
    from metricdp.solve.executor import Workers
    from metricdp.solve.result import Trace
    from metricdp.solve.stop import Stop


class Ended(enum.Enum):
    """Why a solver ended."""

    REACHED = "the gap is reached"
    STOPPED = "a time limit or the user ended it"
    USED_UP = "the iterations or the memory that were allowed are used up"
    STALLED = "no further progress is possible"
    FAILED = "the solver failed"


def ended_by(error: SolverError) -> Ended:
    """Return why a solver ended by its error: a program that would outgrow the memory has used it up."""
    return Ended.USED_UP if isinstance(error, OutOfRoomError) else Ended.FAILED


@dataclass(frozen=True)
class Incumbent:
    """What is known of a component, and what one solver passes to the next.

    ``rows`` are a matrix (n, K) or None; ``is_private`` says that they are repaired, so that they are private up to
    rounding. ``unit_duals`` are what a solver takes for the duals of the unit sums. ``ended`` says why the last
    solver ended, and ``reason`` is the message of a failure. ``solvers`` names those that a choosing solver ran, in
    their order; empty for one that does its work itself.
    """

    lower_bound: float
    rows: NDArray[np.float64] | None = None
    ended: Ended = Ended.STOPPED
    is_private: bool = False
    unit_duals: NDArray[np.float64] | None = None
    iterations: int = 0
    cuts: int = 0
    reason: str = ""
    solvers: tuple[str, ...] = ()

    @classmethod
    def nothing(cls, component: Component) -> Self:
        """Return what is known without any solver: no rows, and the bound of records that are alone."""
        return cls(lower_bound(component.costs, RowDuals.none(), cost_roundings=component.cost_roundings))

    def loss(self, component: Component) -> float:
        """Return a number that is never below the loss of the rows; infinity if there are none."""
        return math.inf if self.rows is None else component.loss(self.rows)

    def gap(self, component: Component) -> float:
        """Return the relative gap between loss and bound; 1 if there are no rows."""
        return 1.0 if self.rows is None else relative_gap(self.loss(component), self.lower_bound)

    def followed_by(self, later: Incumbent, component: Component) -> Incumbent:
        """Return this combined with a later result: the better rows, the better bound, and the sums of all counts."""
        keeps_rows = self.is_private and (not later.is_private or self.loss(component) < later.loss(component))
        best = self if keeps_rows else later
        return replace(
            later,
            rows=best.rows,
            is_private=best.is_private,
            lower_bound=max(self.lower_bound, later.lower_bound),
            iterations=self.iterations + later.iterations,
            cuts=self.cuts + later.cuts,
        )


@dataclass(frozen=True)
class Context:
    """What a run passes to every solver."""

    gap: float
    workers: Workers
    trace: Trace
    stop: Stop
    division: Division
    checkpoint: Checkpoint | None = None


@dataclass(frozen=True)
class Load:
    """What the memory of a solver depends on: the sizes of the problem, and counts of its largest component.

    Parameters
    ----------
    sizes
        Of the whole problem.
    n, n_pairs
        Records and pairs of the largest component.
    edges
        Pairs of the whole problem that may take part in first-order iterations.
    torn_pairs
        Pairs of the largest component whose records have different cheapest outputs.
    kernel_entries
        Records that the kernels of the largest component reach, all kernels together.
    factor_entries
        Entries of an inverse factor of the largest component.
    """

    sizes: Sizes
    n: float
    n_pairs: float
    edges: float = 0.0
    torn_pairs: float = 0.0
    kernel_entries: float = 0.0
    factor_entries: float = 0.0


@dataclass(frozen=True)
class NoOptions:
    """Options of a method that has none."""


class Method(ABC):
    """What ``method=`` names: a `Solver`, which solves component by component, or a `WholeMethod`.

    Attributes
    ----------
    name
        What ``method=`` calls it.
    options_type
        A frozen dataclass with its options and their defaults.
    limits
        Names of options that only say when to give up: a checkpoint can be resumed with other ones.
    is_checkpointed
        Whether it writes to ``context.checkpoint``.
    partition
        The division of the records that it works with, if it has one; for the result.
    """

    name: ClassVar[str]
    options_type: ClassVar[type] = NoOptions
    limits: ClassVar[tuple[str, ...]] = ()
    is_checkpointed: ClassVar[bool] = False
    partition: Partition | None = None

    def __init__(self, options: Any = None) -> None:
        if options is not None and type(options) is not self.options_type:
            raise InputError(_wrong_options(self, options))
        self.options: Any = self.options_type() if options is None else options

    @property
    def libraries(self) -> tuple[str, ...]:
        """Modules that take long to import and that it is sure to need: imported before the time limit begins."""
        return ()

    def chosen_for(self, problem: Problem, gap: float) -> Method:
        """Return the method that solves ``problem``: itself, unless it chooses among others."""
        return self

    def identity(self) -> Any:
        """Return the options without those that only say when to give up."""
        defaults: Any = self.options_type()
        return replace(self.options, **{name: getattr(defaults, name) for name in self.limits})


class Solver(Method):
    """One way to solve a component, on whole matrices."""

    def bytes_beyond(self, load: Load) -> float:
        """Return its bytes in addition to the shared ones (`metricdp.solve.memory`): at the peak, or at least."""
        return 0.0

    def prepare(self, context: Context) -> None:
        """Prepare the work on all components, before the first is solved."""

    def takes_all_at_once(self, component: Component) -> bool:
        """Return whether all components are to be solved as this one, which holds them all."""
        return False

    @abstractmethod
    def run(self, component: Component, incumbent: Incumbent, context: Context) -> Incumbent:
        """Solve a component with at least two records, all distances positive, from what is known of it."""


@dataclass(frozen=True, eq=False)
class FoundTable:
    """A sparse table of the whole problem that should be private, and what was proved on the way.

    Parameters
    ----------
    table
        Whole numbers; the exact check decides.
    loss
        Not below the table's expected loss.
    lower_bound
        Not above the optimum of the full problem.
    steps
        Number of steps.
    ended
        Why the search ended.
    """

    table: SparseTable
    loss: float
    lower_bound: float
    steps: int
    ended: Ended

    @property
    def gap(self) -> float:
        """The relative gap between loss and bound."""
        return relative_gap(self.loss, self.lower_bound)


@dataclass(frozen=True)
class Alternative:
    """What goes on if so many steps have not reached the gap."""

    solver: Solver
    steps: int


class WholeMethod(Method):
    """A way to solve the whole problem at once on parts of its matrices; it returns a table of whole numbers.

    ``reason`` says why another method chose it, empty if it was named; ``alternative`` is what that method has instead.
    """

    reason: str = ""
    alternative: Alternative | None = None

    @abstractmethod
    def bytes_for(self, problem: Problem, gap: float) -> float:
        """Return the bytes that it will take in addition to what this process holds, at the peak."""

    @abstractmethod
    def check_memory(self, problem: Problem, gap: float, workers: Workers) -> None:
        """Raise an InputError that says what would fit, if the problem does not fit into memory."""

    @abstractmethod
    def prediction(self, problem: Problem, gap: float) -> str:
        """Return one sentence on the size of the problem, and the time and memory that it will take."""

    @abstractmethod
    def seconds_of_check(self, problem: Problem, gap: float) -> float:
        """Return about how long the exact check of the table will take."""

    @abstractmethod
    def fingerprint(self, problem: Problem, gap: float) -> str:
        """Return what identifies a run of this problem, for a checkpoint; its memory was checked before."""

    @abstractmethod
    def solve(self, problem: Problem, context: Context) -> FoundTable:
        """Return the best table that was found until the gap was reached or ``stop`` was due."""


AnyMethod = TypeVar("AnyMethod", bound=Method)
_registered: dict[str, type[Method]] = {}


def register(solver: type[AnyMethod]) -> type[AnyMethod]:
    """Register a solver under its name."""
    name = getattr(solver, "name", None)
    if not isinstance(name, str) or not name:
        raise InputError(f"{solver.__name__} must have a name, a text that is not empty")
    if not is_dataclass(solver.options_type) or any(
        field.default is MISSING and field.default_factory is MISSING for field in fields(solver.options_type)
    ):
        raise InputError(f"the options of {name!r} must be a dataclass in which every field has a default")
    if solver.name in _registered:
        raise InputError(f"there is already a solver named {solver.name!r}: choose another name")
    _registered[solver.name] = solver
    return solver


def forget(name: str) -> None:
    """Remove a registered solver."""
    del _registered[name]


def methods() -> tuple[str, ...]:
    """Return the names of all solvers in alphabetical order: ``auto`` comes first."""
    return tuple(sorted(_registered))


def is_checkpointed(method: str) -> bool:
    """Return whether a method writes checkpoints."""
    return _registered[method].is_checkpointed


def solver_for(method: str, options: Any = None) -> Method:
    """Return the solver of a name with its options; those of another method are refused."""
    if method not in _registered:
        raise InputError(f"unknown method {method!r}: choose one of {', '.join(methods())}")
    return _registered[method](options)


def _wrong_options(solver: Method, options: Any) -> str:
    own = solver.options_type
    whose = next((one.name for one in _registered.values() if one.options_type is type(options)), None)
    takes = f"takes {own.__name__}" if fields(own) else "takes no options"
    if whose is None:
        return f"the method {solver.name!r} {takes}, got {type(options).__name__}"
    return (
        f"{type(options).__name__} belong to the method {whose!r}, and {solver.name!r} {takes}: name the method that "
        "they are for, or leave them out"
    )
