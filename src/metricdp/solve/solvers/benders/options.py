"""What can be switched in the decomposition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from metricdp.errors import InputError
from metricdp.partition import PARTITIONERS

if TYPE_CHECKING:
    from metricdp.solve.component import Component

SMALLEST_FLOOR, LARGEST_FLOOR = 1e-9, 1e-6


@dataclass(frozen=True)
class BendersOptions:
    """The decomposition's parts; every acceleration can be switched off.

    Parameters
    ----------
    partition, n_blocks, seed
        How the records are divided: the partitioner, the number of blocks (chosen by default), and its seed.
    separator
        ``"one-sided"``: the boundary is a small vertex cover of the cut edges; ``"two-sided"``: the paper's definition.
    lazy_rows
        Whether mDP rows of the master are added when they are violated, otherwise all at once.
    path_rows
        ``"lazy"`` (among the records around a block), ``"initial"`` (the paper's initial cuts: all boundary pairs), or
        ``"none"``.
    is_elastic
        Whether subproblems may miss their unit sums at a penalty, so that one kind of cut replaces the paper's
        feasibility and optimality cuts. Otherwise feasibility cuts come from rays.
    unit_sum_rounds
        How often in an iteration to add unit-sum cuts, necessary conditions on the boundary that need no LP; 0: never.
    halo_cuts
        Whether each block is first solved together with its surroundings, whose duals give the first cut.
    in_out
        How far to step from the best private boundary towards the master's, in (0, 1]; 1 is the plain method.
    repair_always
        Whether repair gives an upper bound in every iteration; otherwise only when all subproblems are feasible.
    penalty
        Of a missed unit of probability, in units of the largest difference of losses.
    floor
        The least probability while solving; by default so small that it costs at most a tenth of the gap.
    tolerance
        The LP solver's tolerance.
    max_iterations
        Iterations after which to give up.
    """

    partition: str = "k-m-dv"
    n_blocks: int | None = None
    seed: int = 0
    separator: str = "one-sided"
    lazy_rows: bool = True
    path_rows: str = "lazy"
    is_elastic: bool = True
    unit_sum_rounds: int = 3
    halo_cuts: bool = True
    in_out: float = 0.5
    repair_always: bool = True
    penalty: float = 2.0
    floor: float | None = None
    tolerance: float = 1e-9
    max_iterations: int = 1000

    def __post_init__(self) -> None:
        if self.partition not in PARTITIONERS:
            raise InputError(f"unknown partitioner {self.partition!r}: choose one of {', '.join(PARTITIONERS)}")
        if self.n_blocks is not None and self.n_blocks < 1:
            raise InputError(f"n_blocks must be at least 1, got {self.n_blocks}")
        if self.separator not in ("one-sided", "two-sided"):
            raise InputError(f"unknown separator {self.separator!r}: choose one-sided or two-sided")
        if self.path_rows not in ("lazy", "initial", "none"):
            raise InputError(f"unknown path_rows {self.path_rows!r}: choose lazy, initial or none")
        if not 0.0 < self.in_out <= 1.0:
            raise InputError(f"in_out must be above 0 and at most 1, got {self.in_out}: 1 is the plain method")
        if self.floor is not None and not 0.0 < self.floor < 1e-3:
            raise InputError(f"the floor must be above 0 and below 0.001, got {self.floor}: try 1e-8")
        if self.penalty <= 0:
            raise InputError(f"the penalty must be positive, got {self.penalty}")

    @classmethod
    def textbook(cls, **options: Any) -> Self:
        """Return the paper's plain form: initial path cuts, feasibility cuts from rays, optimality cuts, no more."""
        return cls(
            **options,
            separator="two-sided",
            lazy_rows=False,
            path_rows="initial",
            is_elastic=False,
            unit_sum_rounds=0,
            halo_cuts=False,
            in_out=1.0,
            repair_always=False,
        )

    def with_floor_for(self, component: Component, gap: float) -> Self:
        """Return the same options with a floor that costs at most a tenth of ``gap``, if none was chosen."""
        if self.floor is not None:
            return self
        # mass f on every output costs f times the sum of all losses; the loss is at least that of the cheapest outputs
        everywhere, least = float(component.costs.sum()), float(component.costs.min(axis=1).sum())
        wanted = 0.1 * gap * least / everywhere if everywhere > 0 else SMALLEST_FLOOR
        return replace(self, floor=min(max(wanted, SMALLEST_FLOOR), LARGEST_FLOOR))

    def without(self, acceleration: str) -> Self:
        """Return the same options with one acceleration switched off, for the ablation."""
        off = {
            "one-sided separator": {"separator": "two-sided"},
            "lazy master rows": {"lazy_rows": False},
            "elastic subproblems": {"is_elastic": False},
            "unit-sum cuts": {"unit_sum_rounds": 0},
            "halo cuts": {"halo_cuts": False},
            "in-out steps": {"in_out": 1.0},
            "repair in every iteration": {"repair_always": False},
        }
        if acceleration not in off:
            raise InputError(f"unknown acceleration {acceleration!r}: choose one of {', '.join(off)}")
        return replace(self, **off[acceleration])  # type: ignore[arg-type]
