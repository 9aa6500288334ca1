"""How large the experiments are: the paper's sizes, or small ones for a first look."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from metricdp.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

GAP = 0.01  # the paper's xi, taken as a relative gap
EPSILON = 10.0


@dataclass(frozen=True)
class Scale:
    """The size of every experiment; each solve has a time limit, and what it did not reach is said.

    Parameters
    ----------
    name
        For titles.
    records, outputs, blocks
        N, K and M of one instance.
    instances
        How many instances each figure is the mean of.
    epsilons
        Budgets of the loss figure.
    more_blocks
        Numbers of blocks for the sizes against M.
    sizes, more_sizes
        Records for the scaling figure: with all methods, and for the faster ones only.
    stronger
        A second, smaller budget for the convergence of subproblems: with the default one nearly all are feasible
        at once.
    plain_limit, limit
        Seconds for one solve: of the paper's plain decomposition, and of every other method.
    """

    name: str
    records: int
    outputs: int
    blocks: int
    instances: int
    epsilons: Sequence[float]
    more_blocks: Sequence[int]
    sizes: Sequence[int]
    more_sizes: Sequence[int]
    stronger: float
    plain_limit: float
    limit: float

    def with_choices(self, *, instances: int | None = None, time_limit: float | None = None) -> Self:
        """Return the same scale with another number of instances, or another limit for every solve."""
        changed = self
        if instances is not None:
            if instances < 1:
                raise InputError(f"--instances must be at least 1, got {instances}")
            changed = replace(changed, instances=instances)
        if time_limit is not None:
            if not 0 < time_limit < float("inf"):
                raise InputError(f"--time-limit must be a positive number of seconds, got {time_limit}")
            changed = replace(changed, plain_limit=time_limit, limit=time_limit)
        return changed

    def fields(self) -> dict[str, Any]:
        """Return everything for the files."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}


QUICK = Scale(
    name="quick",
    records=100,
    outputs=20,
    blocks=5,
    instances=3,
    epsilons=(2.0, 4.0, 6.0, 8.0, 10.0),
    more_blocks=(5, 6, 7, 8),
    sizes=(100, 150, 200),
    more_sizes=(500, 1_000),
    stronger=5.0,
    plain_limit=3.0,
    limit=10.0,
)
FULL = Scale(
    name="full",
    records=500,
    outputs=100,
    blocks=25,
    instances=10,
    epsilons=(2.0, 4.0, 6.0, 8.0, 10.0),
    more_blocks=tuple(range(25, 35)),
    sizes=(500, 600, 700, 800, 900, 1_000),
    more_sizes=(2_000, 4_000),
    stronger=5.0,
    plain_limit=300.0,
    limit=300.0,
)
