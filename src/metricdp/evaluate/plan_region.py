"""From words to numbers for a region: budget, lattice, outputs, memory and time, and which of three to take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from metricdp.evaluate.expected_distance import at_most, least_loss
from metricdp.evaluate.lattice import COARSEST, solve_bytes, with_spacing
from metricdp.evaluate.plan import duration
from metricdp.mechanism.promise import Promise
from metricdp.metric.units import in_words
from metricdp.problem.memory_model import GIGABYTE, available_bytes
from metricdp.problem.outputs import Outputs
from metricdp.problem.plane import LARGEST_EXPONENT, MAX_ENTRIES
from metricdp.problem.problem import CONNECT, Problem

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from metricdp.data.region import Region


# measured with squares of 9 x 9 to 45 x 45 cells: 0.015 to 0.029 microseconds of processor time a step for each entry,
# 4,500 to 8,800 steps. So time is right within a factor of a few.
SECONDS_PER_STEP, STEPS = 2e-8, 6_000
WITH_BOUND = 2.0  # times as long
# epsilon times the spacing up to which the lattice costs less (1 % at 0.25, docs/plane.md) than the simple mechanisms
# lose whose distance is said
FINE = 0.3
MAX_COMPARED = 4_000_000  # cells times outputs, for the distances


@dataclass(frozen=True, eq=False)
class RegionPlan:
    """What a promise means for a region.

    Parameters
    ----------
    promise
        What is promised to people, for any two points of the region.
    region
        The box and its lattice.
    n_outputs
        How many places may be reported.
    are_cells
        Whether these are the centres of the cells.
    n_bytes, seconds
        Memory at the peak and processor time of a solve, with the bound: rough.
    distance_at_most, distance_at_least
        As in `Plan`, for people at the centres of the cells, all alike; None where there are too many of them. The
        upper one is of simple mechanisms for these centres as records, so it is left out where the lattice is coarse:
        then no table over it may come as near.
    """

    promise: Promise
    region: Region
    n_outputs: int
    are_cells: bool
    n_bytes: float
    seconds: float
    distance_at_most: float | None
    distance_at_least: float | None

    @property
    def epsilon(self) -> float:
        """The budget of one report."""
        return self.promise.epsilon

    @property
    def spacing(self) -> float:
        """The longer side of a cell."""
        return max(float(side) for side in self.region.sides)

    @property
    def n_entries(self) -> int:
        """Nodes times outputs: the size of the table."""
        return self.region.shape[0] * self.region.shape[1] * self.n_outputs

    @property
    def is_feasible(self) -> bool:
        """Whether `solve_plane` takes it, and it is expected to fit into the memory of this machine."""
        fits = self.n_entries <= MAX_ENTRIES and self.n_bytes <= available_bytes()
        return fits and self.epsilon * self.spacing <= LARGEST_EXPONENT

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """Return the plan in plain words, the promise first."""
        metric, made = self.region.metric, self.region
        rows, columns = made.cells
        outputs = "the centres of the cells" if self.are_cells else "given"
        found = [
            self.promise.sentence,
            "It holds for any two points of the region so far apart; at twice the distance the factor is squared.",
            self.promise.budget,
            (
                f"lattice  {rows} x {columns} cells of at most {in_words(self.spacing, metric)} (epsilon x spacing "
                f"{self.epsilon * self.spacing:.2g}; a finer one loses less and takes longer)"
            ),
            f"outputs  {self.n_outputs:,} ({outputs})",
            self._solving,
        ]
        if self.distance_at_least is not None:
            least = f"at least {in_words(self.distance_at_least, metric)} (people everywhere alike)"
            most = "how much more a lattice as coarse as this costs, only solving tells;"
            if self.distance_at_most is not None:
                most = f"at most about {in_words(self.distance_at_most, metric)} on average,"
            found.append(f"distance to the truth  {most} {least}")
        return [*found, *self.choice]

    @property
    def _solving(self) -> str:
        if self.n_entries > MAX_ENTRIES:
            return f"solving  not possible: {self.n_entries:,} entries are more than {MAX_ENTRIES:,}"
        return (
            f"solving  about {self.n_bytes / GIGABYTE:.2g} GB and {duration(self.seconds)} of one processor with the "
            "bound (rough: right within a factor of a few)"
        )

    @property
    def choice(self) -> list[str]:
        """Which of three to take, in words."""
        found = [
            (
                "take     a region if people send coordinates: its promise has no borders between neighbours; records "
                "if what is secret is one of a list: they lose least, and every tool takes them"
            )
        ]
        if not self.is_feasible:
            found.append(
                f"TOO LARGE for this machine or for {MAX_ENTRIES:,} entries: fewer outputs, a coarser spacing (up to "
                f"{COARSEST:g} / epsilon), a smaller region; or planar Laplace noise with Bayes remap, if its float "
                "noise is acceptable."
            )
        return found

    def fields(self) -> dict[str, Any]:
        """Return all figures by name, for programs; distances are in the metric's unit."""
        return {
            **self.promise.fields(),
            "cells": self.region.cells,
            "spacing": self.spacing,
            "outputs": self.n_outputs,
            "entries": self.n_entries,
            "memory_gb": self.n_bytes / GIGABYTE,
            "seconds": self.seconds,
            "feasible": self.is_feasible,
            "distance_at_most": self.distance_at_most,
            "distance_at_least": self.distance_at_least,
            "choice": self.choice,
        }


def plan_region(
    box: Region,
    *,
    within: float | str,
    factor: float,
    reports: int | str = 1,
    outputs: ArrayLike | None = None,
    spacing: float | None = None,
) -> RegionPlan:
    """Return what a promise means for a region: budget, lattice, memory, time, and expected distance.

    Parameters
    ----------
    box
        The region; its own lattice is used if ``spacing`` is its own, and made anew otherwise.
    within, factor, reports
        The promise, as for `plan`.
    outputs
        Points that may be reported; the centres of the cells if left out.
    spacing
        The side of a cell at most. If left out, the lattice of ``box`` is taken.

    Examples
    --------
    >>> from metricdp.data import region
    >>> found = plan_region(region(41.88, 12.46, 41.907, 12.496, spacing=0.1), within="200m", factor=2)
    >>> round(found.epsilon, 2), found.region.cells, found.n_outputs, found.is_feasible
    (3.47, (31, 30), 930, True)
    """
    promise = Promise.of(within, factor, reports=reports, metric=box.metric)
    made = box if spacing is None else with_spacing(box, spacing)
    chosen = Outputs.of(made.inner if outputs is None else outputs, made.records, seed=0)
    entries = float(made.shape[0] * made.shape[1] * chosen.n)
    cells, most, least = made.inner.size, None, None
    if cells * chosen.n <= MAX_COMPARED:
        problem = Problem(
            made.records.select(made.inner),
            epsilon=promise.epsilon,
            eta=CONNECT,
            outputs=chosen.coordinates,
            metric=made.metric,
            loss="distance",
        )
        least = least_loss(problem)
        is_fine = promise.epsilon * max(float(side) for side in made.sides) <= FINE
        most = at_most(problem) if is_fine else None
    n_bytes = solve_bytes(made, promise.epsilon, chosen.n)
    seconds = WITH_BOUND * SECONDS_PER_STEP * STEPS * entries
    return RegionPlan(promise, made, chosen.n, outputs is None, n_bytes, seconds, most, least)
