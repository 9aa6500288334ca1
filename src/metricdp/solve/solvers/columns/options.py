"""What can be switched in the decomposition by columns."""

from __future__ import annotations

from dataclasses import dataclass

from metricdp.errors import InputError


@dataclass(frozen=True)
class ColumnOptions:
    """Options of column generation.

    Parameters
    ----------
    patches
        Whether to start from overlapping, separately solved pieces of the problem: their unit-sum duals are a centre
        to stabilise around, their rows a first mechanism.
    records_per_patch
        How many records a piece has before it is extended by its neighbours.
    crowded
        Columns per record beyond which the pool is purged of those that have long been without weight.
    max_rounds
        Rounds after which to give up.
    """

    patches: bool = True
    records_per_patch: int = 45
    crowded: float = 4.0
    max_rounds: int = 500

    def __post_init__(self) -> None:
        if self.records_per_patch < 1:
            raise InputError(f"records_per_patch must be at least 1, got {self.records_per_patch}")
        if self.max_rounds < 1:
            raise InputError(f"max_rounds must be at least 1, got {self.max_rounds}")
