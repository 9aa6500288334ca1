"""Which lattice a region can have: its usual spacing, and whether its table fits into the memory of this machine."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, cast

from metricdp.data.region import EPSILON_SPACING, Region, region, region_around
from metricdp.errors import InputError
from metricdp.metric.units import in_words
from metricdp.problem.memory_model import GIGABYTE, available_bytes
from metricdp.problem.plane import MAX_ENTRIES
from metricdp.solve.plane.memory import REACHES, bytes_needed

if TYPE_CHECKING:
    from metricdp.data.records import Records
    from metricdp.problem.plane import PlaneProblem

PROGRAM_BYTES = 0.2 * GIGABYTE  # before a solve; the rest is the solver's own count
COARSEST = 0.5  # epsilon times the spacing that is chosen for a large region; beyond, the lattice costs much
SPACING_STEP = 0.05  # of epsilon times the spacing, from one that is tried to the next
NODES_PER_INNER = 9  # at most: for one cell with its ring
CORNER = 1e6  # parts of a degree, a tenth of a metre, to which corners are written
LIST = "take     records if what is secret is one of this list"


def lattice_around(records: Records, metric: str, epsilon: float, *, beyond: float) -> str | None:
    """Return whether a region around records, ``beyond`` larger on each side, has a lattice that fits, in words.

    It is None for what has no region: words, vectors of other than two dimensions, and metrics that are not a region's.
    """
    if records.kind not in {"places", "vectors"} or records.dimension != 2:
        return None
    try:
        box = region_around(records, beyond=beyond, spacing=COARSEST / epsilon)
        if box.metric != metric:
            return None
        made = with_spacing(box, usual_spacing(box, epsilon))
    except InputError as error:
        return f"{LIST}; there is no region around them for people who send coordinates: {error}"
    rows, columns = made.cells
    cells = f"{rows:,} x {columns:,} cells of at most {in_words(max(float(side) for side in made.sides), metric)}"
    needed = solve_bytes(made, epsilon) if is_small_enough(made) else math.inf
    if needed > available_bytes():
        most = f"{MAX_ENTRIES:,} entries" if math.isinf(needed) else "the memory of this machine"
        return (
            f"{LIST}; for people who send coordinates no lattice around these records fits: {cells}, with their "
            f"centres as outputs, are more than {most}. Plan a region of a part, or take planar Laplace noise with "
            "Bayes remap"
        )
    outer = [math.floor(value * CORNER) for value in box.low] + [math.ceil(value * CORNER) for value in box.high]
    corners = ",".join(f"{value / CORNER:.6f}" for value in outer)  # it contains the records
    how = f"plan region:{corners}" if box.kind == "places" else "plan metricdp.data.region_around(records, ...)"
    return (
        f"{LIST}; a region if people send coordinates: its promise is for all points, and a lattice around these "
        f"records fits, {cells} (about {needed / GIGABYTE:.2g} GB): {how}"
    )


def usual_spacing(box: Region, epsilon: float, *, n_outputs: int | None = None) -> float:
    """Return 0.25 / epsilon, or, where that would not be feasible, the finest spacing up to 0.5 / epsilon that is."""
    exponent = EPSILON_SPACING
    while exponent < COARSEST:
        made = with_spacing(box, exponent / epsilon)
        if is_small_enough(made, n_outputs) and solve_bytes(made, epsilon, n_outputs) <= available_bytes():
            break
        exponent += SPACING_STEP
    return min(exponent, COARSEST) / epsilon


def with_spacing(box: Region, spacing: float) -> Region:
    """Return the same box, with the same surroundings and another lattice."""
    made = region(*box.low, *box.high, spacing=spacing, kind=box.kind, weights=box.weights)
    return replace(box, cells=made.cells)


def is_small_enough(made: Region, n_outputs: int | None = None) -> bool:
    """Return whether nodes times outputs, the centres of the cells if left out, are no more than can be solved."""
    if made.n_nodes * (made.n_nodes // NODES_PER_INNER if n_outputs is None else n_outputs) > MAX_ENTRIES:
        return False  # without counting the nodes inside, which makes a list of them
    return made.n_nodes * (made.inner.size if n_outputs is None else n_outputs) <= MAX_ENTRIES


def solve_bytes(made: Region, epsilon: float, n_outputs: int | None = None) -> float:
    """Return the bytes of a process that solves with people at the centres of the cells, with the widest windows."""
    sizes = cast("PlaneProblem", _Sizes(made, epsilon, made.inner.size if n_outputs is None else n_outputs))
    needed = [PROGRAM_BYTES + bytes_needed(sizes, reach) for reach in REACHES]
    return next((n for n in needed if n <= available_bytes()), needed[-1])


class _Count(NamedTuple):
    n: int


class _Sizes(NamedTuple):
    """What the memory of a solve follows from, before there is a problem."""

    region: Region
    epsilon: float
    n_outputs: int

    @property
    def n_nodes(self) -> int:
        return self.region.n_nodes

    @property
    def places(self) -> _Count:
        return _Count(self.region.inner.size)
