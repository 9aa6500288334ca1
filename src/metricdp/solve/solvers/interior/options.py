"""What can be switched in the interior point method."""

from __future__ import annotations

from dataclasses import dataclass

from metricdp.errors import InputError


@dataclass(frozen=True)
class InteriorOptions:
    """Options of the interior point method.

    Parameters
    ----------
    correctors
        The most of Gondzio's correctors in an iteration: each costs some products with the factors and may save
        iterations.
    max_iterations
        Iterations after which to give up.
    """

    correctors: int = 2
    max_iterations: int = 200

    def __post_init__(self) -> None:
        if self.correctors < 0:
            raise InputError(f"correctors must be 0 or more, got {self.correctors}: 2 is usual")
        if self.max_iterations < 1:
            raise InputError(f"max_iterations must be at least 1, got {self.max_iterations}")
