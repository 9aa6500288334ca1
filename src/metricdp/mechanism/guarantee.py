"""What a mechanism promises, for which inputs, and where the promise ends: all functions that report consult it."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from metricdp.data.frozen import frozen
from metricdp.errors import InputError
from metricdp.mechanism.points import PointGuarantee
from metricdp.mechanism.scope import can_be_recomputed
from metricdp.metric.scaled import scaled_graph
from metricdp.metric.units import rounded_up, unit_of, with_unit
from metricdp.problem.budgets import budget_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.data.records import Records
    from metricdp.metric.graph import MdpGraph

NOT_PROTECTED = "NOT PROTECTED"  # the start of lines about what the promise leaves out
OWN_WITH_ALL = (
    "Own epsilons: all pairs are neighbours, so between any two records the smaller of their two epsilons holds."
)
OWN_WITH_NEIGHBOURS = (
    "Own epsilons: a record has the promise of its own epsilon against its neighbours. Beyond them the steps of a path "
    "add up, also those with larger epsilons; with eta = inf its own epsilon holds against all."
)
SUM_ROUNDING = 2.0**-52  # relative; the error of one float addition along a path


@dataclass(frozen=True, eq=False, repr=False)
class Guarantee:
    """The promise of a mechanism: ``Pr[report | i] <= exp(epsilon D_ij) Pr[report | j]`` for records i and j.

    D is the length of the shortest path of neighbours. Where records have epsilons of their own, the smaller one of two
    neighbours counts for each step of a path, and every record has the promise of its own epsilon against its
    neighbours. Beyond them steps add up, also those between records with larger epsilons; against all others it has
    the promise of its own only where all pairs are neighbours (`is_complete`). With the largest one for all steps the
    promise holds as well.

    Records that no path joins are not protected from one another, and a record without any neighbour is not protected
    at all. Nothing is promised between different lists of records. For points that are snapped to their nearest record,
    see `for_points`.

    Parameters
    ----------
    epsilon
        The budget per unit of distance; the largest one where records have their own.
    eta, metric
        Records within ``eta`` of one another in this metric are neighbours.
    records, graph
        The records, and their neighbour pairs with distances.
    """

    epsilon: float
    eta: float
    metric: str
    records: Records
    graph: MdpGraph
    epsilons: NDArray[np.float64] | None = None
    _for_points: dict[float, PointGuarantee] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Guarantee({self.sentence!r})"

    @property
    def unit(self) -> str:
        """The unit of distances: ``"km"``, or ``"unit of distance"`` where the metric has no unit of its own."""
        return unit_of(self.metric) or "unit of distance"

    @property
    def is_recomputed(self) -> bool:
        """Whether the list of pairs follows from the coordinates; otherwise a missing pair cannot be detected."""
        return can_be_recomputed(self.metric)

    @cached_property
    def is_isolated(self) -> NDArray[np.bool_]:
        """Whether each record has no neighbour: its report may reveal it completely."""
        labels = self.graph.labels
        return frozen(np.bincount(labels)[labels] == 1)

    @property
    def n_isolated(self) -> int:
        """Number of records without any neighbour."""
        return int(self.is_isolated.sum())

    @property
    def is_complete(self) -> bool:
        """Whether any two records are neighbours, so that no promise needs a path."""
        return self.graph.n_pairs == self.graph.n * (self.graph.n - 1) // 2

    @cached_property
    def records_hash(self) -> str:
        """SHA-256 of ids, coordinates, metric, pairs and distances: two mechanisms with the same hash protect the same.

        The bytes are ``metricdp records``, a line feed, the metric's name, a line feed, the ids as a JSON list (ASCII,
        no blanks), a line feed, then coordinates (little-endian doubles, row by row), pairs (little-endian 32-bit whole
        numbers) and distances (doubles), each with its shape before it, as in ``(3, 2)`` and a line feed.
        """
        ids = json.dumps(list(self.records.ids), separators=(",", ":"))
        digest = hashlib.sha256(f"metricdp records\n{self.metric}\n{ids}\n".encode())
        parts = ((self.records.coordinates, "<f8"), (self.graph.pairs, "<i4"), (self.graph.distances, "<f8"))
        for values, kind in parts:
            digest.update(f"{values.shape}\n".encode())
            digest.update(np.ascontiguousarray(values, dtype=kind).tobytes())
        return digest.hexdigest()

    def bound(self, i: int, j: int) -> float:
        """Return ``epsilon D_ij``, rounded up: the largest logarithm of a ratio of two records' probabilities.

        Infinite for records that no path joins. Where records have epsilons of their own, it is the least sum of
        ``min(epsilon_i, epsilon_j) d_ij`` along a path.
        """
        if i == j:
            return 0.0
        (distances,) = self._exponents.path_distances(np.array([i]))
        return (
            self.epsilon * float(distances[j]) * (1.0 + (self.graph.n + 4) * SUM_ROUNDING)
        )  # a path has at most n sums

    @cached_property
    def _exponents(self) -> MdpGraph:
        """The graph whose distances times the largest epsilon are not below what is promised for each pair."""
        return self.graph if self.epsilons is None else scaled_graph(self.graph, self.epsilons)

    @property
    def budgets(self) -> NDArray[np.float64]:
        """The epsilon of each record, shape (N,)."""
        return np.broadcast_to(self.epsilon, self.records.n) if self.epsilons is None else self.epsilons

    def for_points(self, limit: float) -> PointGuarantee:
        """Return the promise for points that are snapped to their nearest record, at most ``limit`` away."""
        if isinstance(limit, bool) or not isinstance(limit, (int, float, np.floating, np.integer)):
            raise InputError(f"the snap limit must be a number, got {type(limit).__name__}: give a distance")
        limit = float(limit)
        if limit not in self._for_points:
            self._for_points[limit] = PointGuarantee.of(
                self.records, self.graph, self.metric, epsilon=self.epsilon, eta=self.eta, limit=limit
            )
        return self._for_points[limit]

    def check_rows(self, rows: NDArray[np.int64]) -> None:
        """Refuse records that the promise does not cover: those without any neighbour."""
        count = int(self.is_isolated[rows].sum())
        if count:
            raise InputError(
                f"{count} of {len(rows)} inputs are records without any neighbour within "
                f"{with_unit(self.eta, self.metric)} ({self.metric}): their reports may reveal them, "
                "so nothing is reported; make a mechanism with a larger eta, or "
                "allow unprotected reports"
            )

    @property
    def sentence(self) -> str:
        """The promise in one sentence."""
        if self.graph.n_pairs == 0:
            return "NOTHING is protected: no record has a neighbour within eta; choose a larger eta."
        reach = with_unit(self.eta, self.metric)
        near = f"two of these {self.records.n:,} records at distance d along neighbours within {reach}"
        if self.is_complete and self.epsilons is not None:
            near = f"two of these {self.records.n:,} records at distance d"
        rest = []
        if self.graph.n_components > 1:
            rest.append(f"the {self.graph.n_components:,} groups that no path joins are not protected from one another")
        if self.n_isolated:
            rest.append(f"{self.n_isolated:,} records without any neighbour are not protected at all")
        but = f"; but {', and '.join(rest)}" if rest else ""
        if self.epsilons is not None:
            near += ", with e the smaller of their own epsilons" + ("" if self.is_complete else " at each step")
        own = "" if self.epsilons is None else f"; e from {budget_words(self.epsilon, self.epsilons)}"
        budget = rounded_up(self.epsilon) if self.epsilons is None else "e"
        return (
            f"Any report is at most exp({budget} d) times more likely from one than from the other of {near} "
            f"({self.metric}, d in {self.unit}{own}){but}."
        )

    def lines(self) -> list[str]:
        """Return the scope in plain words, what is not protected first."""
        graph, lines = self.graph, []
        if graph.n_pairs == 0:
            return ["No record has a neighbour within eta: NOTHING is protected. Choose a larger eta."]
        if self.n_isolated:
            lines.append(
                f"{NOT_PROTECTED}: {self.n_isolated:,} of {graph.n:,} records have no neighbour within "
                f"{with_unit(self.eta, self.metric)}; their reports may reveal them."
            )
        if graph.n_components > 1:
            lines.append(
                f"Scope: {graph.n_components:,} components; records in different components are not protected from "
                "one another."
            )
        else:
            lines.append("Scope: one component; every pair of records is protected at its path distance.")
        if self.epsilons is not None:
            lines.append(OWN_WITH_ALL if self.is_complete else OWN_WITH_NEIGHBOURS)
        if not self.is_recomputed:
            lines.append(
                f"The pairs are as stored: for the metric {self.metric!r} a missing pair cannot be detected. Pin them "
                f"with records={self.records_hash[:16]}."
            )
        return lines

    def unmet(self, requirement: str) -> str:
        """Return why a requirement such as ``"epsilon<=10, eta>=0.5, metric=haversine, records=HASH"`` is not met.

        Empty if it is met. ``records`` takes the hash or its first 16 or more digits; epsilon also the bare ``=``.
        Where records have epsilons of their own, ``epsilon`` is the largest of them.
        """
        for clause in requirement.split(","):
            fault = self._unmet_clause(clause.strip())
            if fault:
                return fault
        return ""

    def _unmet_clause(self, clause: str) -> str:
        sign = next((sign for sign in ("<=", ">=", "=") if sign in clause), "")
        name, _, wanted = (part.strip() for part in clause.partition(sign or "="))
        if (name, sign) in (("epsilon", "<="), ("epsilon", "="), ("eta", ">="), ("eta", "=")):
            return unmet_number(name, sign, wanted, self.epsilon if name == "epsilon" else self.eta)
        if (name, sign) == ("metric", "="):
            return "" if wanted == self.metric else f"the metric is {self.metric}, not {wanted}"
        if (name, sign) == ("records", "="):
            if len(wanted) < 16 or not set(wanted) <= set("0123456789abcdef"):
                raise InputError("records= needs at least the first 16 hexadecimal digits of the records' hash")
            is_same = self.records_hash.startswith(wanted)
            return "" if is_same else f"the records' hash is {self.records_hash}, not {wanted}"
        raise InputError(
            f"the requirement {clause!r} cannot be parsed: use epsilon<=NUMBER, eta>=NUMBER, metric=NAME or "
            "records=HASH, with commas between"
        )


def unmet_number(name: str, sign: str, wanted: str, found: float) -> str:
    """Return why the number ``found`` does not meet a requirement; empty if it does."""
    try:
        limit = float(wanted)
    except ValueError:
        limit = math.nan
    if math.isnan(limit):
        raise InputError(f"the requirement {name}{sign}{wanted} needs a number, such as {name}{sign}1.5")
    is_met = {"<=": found <= limit, ">=": found >= limit, "=": found == limit}[sign]
    return "" if is_met else f"{name} is {found!r}, not {sign} {wanted}"
