"""A mechanism for every point of a region: an integer table over a lattice that has passed the exact check."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.data.frozen import frozen
from metricdp.data.region import Region
from metricdp.errors import CertificationError, Faults, InputError
from metricdp.mechanism.certificate import made_again
from metricdp.mechanism.exact import TOTAL_BITS
from metricdp.mechanism.guarantee import unmet_number
from metricdp.mechanism.plane_inequalities import check_region
from metricdp.mechanism.sample import cumulative, draw, system_bits
from metricdp.mechanism.snap import as_points
from metricdp.metric.units import per_unit, rounded_up, unit_of
from metricdp.problem.outputs import Outputs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

    from metricdp.data.records import Records
    from metricdp.mechanism.certificate import Optimality
    from metricdp.mechanism.plane_certify import PlaneCheck

OUTSIDE = ("refuse", "border")
REFUSED = (
    "at least one point is outside the region: nothing was reported; leave such points out, make a mechanism for a "
    'larger region, or have points outside moved to its "border", which the promise covers'
)
BEYOND = (
    "at least one point is farther outside the region than may be moved to its border: nothing was reported; leave "
    "such points out, or make the region with a larger margin"
)


@dataclass(frozen=True)
class PlaneGuarantee:
    """The promise for all points x and y of a region: ``Pr[report | x] <= exp(epsilon d(x, y)) Pr[report | y]``.

    d is the great-circle distance for places, else the straight one. Coordinates are rounded to steps of
    2^-31 of a cell first; the promise is exact for rounded points, and for others d is at most 2 `rounding` longer.
    """

    epsilon: float
    region: Region

    @property
    def metric(self) -> str:
        """The metric's name."""
        return self.region.metric

    @property
    def unit(self) -> str:
        """The unit of distances."""
        return unit_of(self.metric) or "unit of distance"

    @property
    def records_hash(self) -> str:
        """SHA-256 of the region, in hexadecimal: what a ledger notes beside a charge."""
        return self.region.hash

    @property
    def is_recomputed(self) -> bool:
        """Whether distances follow from coordinates alone: always."""
        return True

    @property
    def rounding(self) -> float:
        """How far rounding moves a point at most."""
        return self.region.rounding

    def bound(self, distance: float) -> float:
        """Return the largest logarithm of a ratio of two points' probabilities at this distance, rounded up."""
        if not (math.isfinite(distance) and distance >= 0):
            raise InputError(f"a distance must be a number, zero or more, got {distance}")
        return self.epsilon * (distance + 2.0 * self.rounding) * (1.0 + 1e-12)

    @property
    def sentence(self) -> str:
        """The promise in one sentence."""
        return (
            f"Any report is at most exp({rounded_up(self.epsilon)} d) times more likely from one than from the other "
            "of any two points of the region, or of its margin if they are moved to the border, at distance d "
            f"({self.metric}, d in {self.unit}), after coordinates are rounded by at most {self.rounding:.2g} "
            f"{self.unit}."
        )

    def lines(self) -> list[str]:
        """Return everything that belongs to the promise, in plain words: scope, border, projection and rounding."""
        region = self.region
        lines = [
            (
                f"Scope: every point of the box {_corners(region.low, region.high)} ({region.cells[0]} x "
                f"{region.cells[1]} cells of {float(region.sides[0]):.4g} x {float(region.sides[1]):.4g} {self.unit})."
            ),
            self._border(),
        ]
        if region.kind == "places":
            lines.append(
                f"Projection: no planar distance is longer than the great circle, and none is shorter by more than "
                f"{100 * (region.stretch - 1):.2g} %, which is privacy given away for nothing; nothing is taken off "
                "the budget."
            )
        lines.append(
            f"Rounding: coordinates are rounded to 2^-31 of a cell, by at most {self.rounding:.2g} {self.unit}. The "
            f"promise is exact for rounded points; for others d is at most {2 * self.rounding:.2g} {self.unit} longer."
        )
        return lines

    def _border(self) -> str:
        """Return what becomes of points outside."""
        region = self.region
        if (region.outer_low, region.outer_high) == (region.low, region.high):
            return "Border: points outside are refused; that they were is visible."
        is_unbounded = not np.isfinite((region.outer_low, region.outer_high)).any()
        reach = "anywhere" if is_unbounded else f"the box {_corners(region.outer_low, region.outer_high)}"
        return (
            "Border: points outside are refused, which is visible; or, where that is asked for, points from "
            f"{reach} are moved to the border, each coordinate by itself, and the promise holds for them with the "
            "distances of where they were."
        )

    def unmet(self, requirement: str) -> str:
        """Return why a requirement such as ``"epsilon<=10, metric=haversine"`` is not met; empty if it is met."""
        for clause in (part.strip() for part in requirement.split(",")):
            sign = next((sign for sign in ("<=", "=") if sign in clause), "")
            name, _, wanted = (part.strip() for part in clause.partition(sign or "="))
            fault = None
            if name == "epsilon" and sign:
                fault = unmet_number(name, sign, wanted, self.epsilon)
            elif (name, sign) == ("metric", "="):
                fault = "" if wanted == self.metric else f"the metric is {self.metric}, not {wanted}"
            if fault is None:
                raise InputError(
                    f"the requirement {clause!r} is not one for regions: use epsilon<=NUMBER or metric=NAME, with "
                    "commas between"
                )
            if fault:
                return fault
        return ""


def _corners(low: tuple[float, float], high: tuple[float, float]) -> str:
    return ", ".join(f"{value:.9g}" for value in (*low, *high))


@dataclass(frozen=True)
class PlaneCertificate:
    """What is proved of a region's mechanism."""

    privacy: PlaneCheck
    guarantee: PlaneGuarantee
    optimality: Optimality | None = None
    is_from_file: bool = False

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """Return the certificate in plain words, a line each."""
        check, promise = self.privacy, self.guarantee
        lines = [
            (
                f"Private: all points of the region ({promise.metric}), {check.n_outputs} outputs, satisfy epsilon = "
                f"{per_unit(check.epsilon, promise.metric)} exactly: {check.n_compared:,} inequalities "
                f"({check.n_coefficients:,} for each output, {promise.region.weights} as weights), "
                f"{check.n_decided_exactly:,} of them needed integers."
            ),
            f"Epsilon that these inequalities prove: {per_unit(check.tightest_epsilon, promise.metric, digits=9)}.",
            *promise.lines(),
        ]
        best = self.optimality
        if best is not None:
            start = "Claimed by the file and not checked here: e" if self.is_from_file else "E"
            lines.append(
                f"{start}xpected loss {best.loss:.6g}; no mechanism with this budget and these outputs can go below "
                f"{best.lower_bound:.6g}, so optimal within {100 * best.gap:.3g} %."
            )
        return lines


@dataclass(frozen=True, eq=False, repr=False)
class PlaneMechanism:
    """A mechanism for all points of a region that has passed the exact check; a table that does not raises an error.

    At a point x a node of the lattice is drawn by its weight, which is smooth in x, then a report by that node's row.

    Parameters
    ----------
    table
        Integer weights, shape (nodes, K), rows summing to 2^63, nodes as in ``region.records``.
    region
        The box, its lattice and its projection.
    outputs
        What can be reported.
    epsilon
        The budget per unit of distance.
    optimality
        Its expected loss and a bound that holds for any mechanism with these outputs, where known.
    solver
        How it was made, for the record.
    """

    table: NDArray[np.uint64]
    region: Region
    outputs: Outputs
    epsilon: float
    optimality: Optimality | None = None
    solver: str = ""
    certificate: PlaneCertificate = field(init=False)

    def __post_init__(self) -> None:
        faults = Faults("the mechanism")
        for name, kind in (("region", Region), ("outputs", Outputs), ("solver", str)):
            value = getattr(self, name)
            faults.check(type(value) is kind, f"{name} must be a {kind.__name__}, got {type(value).__name__}")
        faults.raise_if_any()
        object.__setattr__(self, "table", frozen(self.table))
        object.__setattr__(self, "epsilon", float(self.epsilon))
        n = self.region.n_nodes
        faults.check(
            math.isfinite(self.epsilon) and self.epsilon > 0,
            f"epsilon must be positive and finite, got {self.epsilon!r}",
        )
        faults.check(
            self.table.dtype == np.uint64 and self.table.shape == (n, self.outputs.n),
            f"the table must be uint64 of shape ({n}, {self.outputs.n}), got {self.table.dtype} of {self.table.shape}",
        )
        best = self.optimality
        faults.check(
            best is None or (math.isfinite(best.loss) and 0.0 <= best.lower_bound <= best.loss),
            f"bounds must be finite with 0 <= lower bound <= loss, got {best}",
        )
        faults.raise_if_any()
        certificate = PlaneCertificate(self.recheck(), PlaneGuarantee(self.epsilon, self.region), self.optimality)
        object.__setattr__(self, "certificate", certificate)

    def recheck(self) -> PlaneCheck:
        """Run the exact check again; raise if the table does not pass it."""
        check = check_region(self.table, self.region, self.epsilon)
        if not check.certified:
            raise CertificationError(f"the table is not {self.epsilon:g}-mDP over the region: {check.fault}")
        return check

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and unpickle through the constructor, which certifies again; claims of a file remain claims."""
        parts = (self.table, self.region, self.outputs, self.epsilon, self.optimality, self.solver)
        return made_again, (PlaneMechanism, parts, self.certificate.is_from_file)

    def __repr__(self) -> str:
        rows, columns = self.region.cells
        return (
            f"PlaneMechanism({rows} x {columns} cells, {self.outputs.n} outputs, certified {self.epsilon:g}-mDP for "
            "all points of the region)"
        )

    @property
    def guarantee(self) -> PlaneGuarantee:
        """The promise and its limits."""
        return self.certificate.guarantee

    @property
    def metric(self) -> str:
        """The metric of the promise."""
        return self.region.metric

    @property
    def records(self) -> Records:
        """The nodes of the lattice."""
        return self.region.records

    @cached_property
    def _steps(self) -> NDArray[np.uint64]:
        return frozen(cumulative(self.table))

    def probabilities_at(self, points: ArrayLike) -> NDArray[np.float64]:
        """Return the distribution of the report at each point, shape (n, K), in floats: for checks and plots.

        Points outside the region count as moved to its border.
        """
        rows, weights = self.region.weights_at(as_points(points, self.records))
        shares = np.zeros((len(rows), self.outputs.n))
        for place in range(rows.shape[1]):
            shares += weights[:, place, None] * (self.table[rows[:, place]] / 2.0**TOTAL_BITS)
        return shares

    def perturb(self, points: ArrayLike, *, outside: str = "refuse") -> NDArray[np.int64]:
        """Draw the number of an output for each point, with exact weights and the operating system's randomness.

        The work and the message are the same wherever the points are; that something was refused is itself visible.
        Each report spends the budget again.

        Parameters
        ----------
        points
            Shape (n, 2): latitude and longitude, or the two coordinates of vectors.
        outside
            ``"refuse"`` everything if any point is outside the region, or move such points to its ``"border"``, as far
            as the region's margin reaches: no two points become farther apart by that, so the promise holds for them.
        """
        check_outside(outside)
        given = as_points(points, self.records)
        drawn = self.draw_points(given)
        if outside == "refuse" and self.region.is_outside(given).any():
            raise InputError(REFUSED)
        if self.region.is_beyond(given).any():
            raise InputError(BEYOND)
        return drawn

    def draw_points(
        self, points: NDArray[np.float64], *, bits: Callable[[int], NDArray[np.uint64]] = system_bits
    ) -> NDArray[np.int64]:
        """Draw for every point, those outside as if on the border: for callers that look at what is outside.

        The node is drawn by one 63-bit whole number each way (by one in all for triangles), the report by another.
        """
        nodes = self.region.lattice.draw(self.region.steps_of(points), self.region.cells, bits)
        return draw(self._steps, nodes, bits=bits)

    def save(self, path: str | Path) -> None:
        """Write the mechanism to a ``.mdp`` file, completely or not at all."""
        from metricdp.mechanism.plane_files import save_plane  # noqa: PLC0415  (it imports this module to load)

        save_plane(self, path)


def check_outside(outside: str) -> None:
    """Refuse a policy that is not known."""
    if outside not in OUTSIDE:
        raise InputError(f"unknown policy {outside!r} for points outside the region: choose {' or '.join(OUTSIDE)}")


AT_PLACES = "metricdp.evaluate.at_places, which makes one of records of it"


def check_of_records(mechanism: Any, instead: str) -> None:
    """Refuse the mechanism of a region where records are named, listed, or points are snapped to them."""
    if isinstance(mechanism, PlaneMechanism):
        raise InputError(f"this mechanism is of a region, not of records: use {instead}")


def check_of_region(mechanism: Any, instead: str) -> None:
    """Refuse the mechanism of records where points of a region are drawn for."""
    if not isinstance(mechanism, PlaneMechanism):
        raise InputError(f"this is not the mechanism of a region but a {type(mechanism).__name__}: use {instead}")
