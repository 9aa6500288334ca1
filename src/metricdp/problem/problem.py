"""The perturbation matrix optimisation problem (PMO, the paper's Section 2), validated once and then frozen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.data import as_records
from metricdp.data.frozen import FrozenArrays
from metricdp.errors import Faults, InputError
from metricdp.metric import (
    CoordinateMetric,
    DirectionMetric,
    FunctionMetric,
    MahalanobisMetric,
    MatrixMetric,
    Metric,
    StreetMetric,
    as_metric,
    connecting_eta,
)
from metricdp.metric.directions import COORDINATE_NAMES, coordinate_metric
from metricdp.metric.graph import MdpGraph
from metricdp.metric.recount import recount_fault, shortened
from metricdp.metric.scaled import scaled_graph
from metricdp.metric.units import as_distance
from metricdp.problem.budgets import as_budget, budget_words
from metricdp.problem.losses import as_losses
from metricdp.problem.memory_model import check_memory
from metricdp.problem.outputs import Outputs

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from metricdp.data.records import Kind, Records
    from metricdp.problem.losses import Losses, LossFunction

CONNECT = "connect"  # the eta that joins all records
OWN_METRICS = (CoordinateMetric, DirectionMetric, FunctionMetric, MahalanobisMetric, MatrixMetric, StreetMetric)


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Problem(FrozenArrays):
    """Minimise the expected loss over all epsilon-mDP mechanisms.

    Parameters
    ----------
    records
        The secret records: Records, an array, a DataFrame or a GeoDataFrame. An array of two columns that could be
        degrees needs a ``metric``, or ``Records(array, kind=...)``.
    epsilon
        Privacy budget per unit of distance, positive and finite; or one for each record: an array, or the name of a
        column of a DataFrame. Between two records the smaller one counts. They are public, and part of the mechanism.
    eta
        Records within this distance are neighbours and are protected from one another; may be infinite. A number in the
        metric's unit, a length such as ``"500m"``, or ``"connect"`` for the least one that joins all records.
    outputs
        A count or ``"spread:100"`` (so many records, well spread), ``"random:100"`` (drawn with ``seed``), row numbers,
        or a table of other points. By default every record is an output.
    loss
        ``"travel"``, ``"distance"``, a matrix of shape (N, K), or a function of the coordinates of some records (n, D)
        and some outputs (k, D) that returns their losses (n, k). By default travel for places, distance for vectors.
    metric
        ``"haversine"``, ``"euclidean"``, ``"manhattan"``, ``"street"``, ``"angular"`` (radians), ``"cosine"`` (1 - cos,
        no metric: see `DirectionMetric`), ``"mahalanobis"``, a matrix, or a function of two vectors.
    destinations
        For the travel loss: a count or row numbers.
    destination_prior
        For the travel loss: one weight for each of these row numbers, or, without ``destinations``, for each record.
    seed
        For drawing outputs (``random``) and destinations.
    memory_limit
        Gigabytes that solving may take; a problem with too many pairs is refused before they are made, and a method
        that would need more before it begins. By default what is available now (of the machine, of the container).
    """

    records: Records
    epsilon: float
    epsilons: NDArray[np.float64] | None
    eta: float
    metric: Metric
    outputs: Outputs
    losses: Losses
    graph: MdpGraph
    memory_limit: float | None

    def __init__(
        self,
        records: Any,
        *,
        epsilon: float | ArrayLike,
        eta: float | str,
        outputs: int | str | ArrayLike | None = None,
        loss: str | Losses | LossFunction | ArrayLike | None = None,
        metric: str | Metric | Callable[[Any, Any], float] | ArrayLike | None = None,
        destinations: int | ArrayLike | None = None,
        destination_prior: ArrayLike | None = None,
        seed: int = 0,
        memory_limit: float | None = None,
    ) -> None:
        faults = Faults("the problem")
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
            faults.add(f"seed must be a whole number, zero or more, got {seed!r}")
            seed = 0
        made = _collect(faults, lambda: as_records(records, kind=kind_measured_by(metric)))
        measure = _collect(faults, lambda: as_metric(metric, made)) if made is not None else None
        n = np.size(epsilon) if made is None else made.n
        budget, budgets = _collect(faults, lambda: as_budget(epsilon, records, n)) or (math.nan, None)
        reach = _reach(eta, made, measure, faults)
        chosen = (
            _collect(faults, lambda: Outputs.of(outputs, made, seed=int(seed), metric=measure))
            if made is not None
            else None
        )
        if made is not None and measure is not None and chosen is not None:
            _collect(faults, lambda: check_memory(made, measure, eta=reach, n_outputs=chosen.n, limit=memory_limit))
            losses = (
                None
                if faults.messages
                else _collect(
                    faults,
                    lambda: as_losses(
                        loss,
                        made,
                        chosen,
                        measure,
                        destinations=destinations,
                        destination_prior=destination_prior,
                        seed=int(seed),
                    ),
                )
            )
            # the graph is made last and only for sound input, since it may be large
            graph = None if faults.messages else _collect(faults, lambda: _graph(made, measure, reach))
        faults.raise_if_any()
        for key, value in {
            "records": made,
            "epsilon": budget,
            "epsilons": budgets,
            "eta": reach,
            "metric": measure,
            "outputs": chosen,
            "losses": losses,
            "graph": graph,
            "memory_limit": memory_limit,
        }.items():
            object.__setattr__(self, key, value)
        object.__setattr__(self, "_made_of", self._parts() if type(measure) in OWN_METRICS else None)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of copies and pickles, which does not include that the graph was made here."""
        return {key: value for key, value in self.__dict__.items() if key != "_made_of"}

    def _parts(self) -> tuple[object, ...]:
        return self.records, self.graph, self.metric, self.metric.name, self.eta

    @property
    def has_own_graph(self) -> bool:
        """Whether the library itself made the graph, for these very records, this metric of its own and this eta."""
        made_of = getattr(self, "_made_of", None)
        return made_of is not None and all(a is b for a, b in zip(made_of, self._parts(), strict=True))

    def __repr__(self) -> str:
        budget = budget_words(self.epsilon, self.epsilons)
        return (
            f"Problem({self.records.name!r}: {self.n_records} records x {self.n_outputs} outputs, epsilon {budget}, "
            f"eta {self.eta:g}, {self.metric.name}, {self.graph.n_pairs} pairs "
            f"in {self.graph.n_components} components, loss {self.loss_name})"
        )

    def _repr_html_(self) -> str:
        from metricdp.report.notebook import problem_html  # noqa: PLC0415

        return problem_html(self)

    @property
    def n_records(self) -> int:
        """Number of records, N."""
        return self.records.n

    @property
    def n_outputs(self) -> int:
        """Number of outputs, K."""
        return self.outputs.n

    @property
    def loss(self) -> NDArray[np.float64]:
        """All losses as a frozen matrix (N, K), made when it is first asked for; refused where it does not fit."""
        return self.losses.whole(memory_limit=self.memory_limit)

    @property
    def loss_name(self) -> str:
        """The loss's name: ``travel``, ``distance``, ``function``, or ``given`` for a matrix without a name."""
        return self.losses.name

    @property
    def has_costs(self) -> bool:
        """Whether the matrices of losses and costs have been made."""
        return "costs" in self.__dict__

    @cached_property
    def costs(self) -> NDArray[np.float64]:
        """The prior-weighted losses ``p_i c_ik``: the LP's objective, shape (N, K), made when it is first asked for."""
        return self.records.prior[:, None] * self.loss

    def with_epsilon(self, epsilon: float | ArrayLike) -> Problem:
        """Return the same problem with another budget; records, pairs and losses are shared, and not made again."""
        faults = Faults("the problem")
        found = _collect(faults, lambda: as_budget(epsilon, self.records, self.n_records))
        faults.raise_if_any()
        return self._with(epsilon=found[0], epsilons=found[1])

    @property
    def at_smallest_epsilon(self) -> Problem:
        """The same problem with the smallest of the records' epsilons for all: what it allows is allowed here."""
        return self if self.epsilons is None else self.with_epsilon(self.epsilons.min())

    @cached_property
    def at_one_epsilon(self) -> Problem:
        """A problem with one epsilon for the solvers, and distances scaled so that their products are this one's.

        They are rounded: its mechanisms are to be certified by this problem's own rule.
        """
        if self.epsilons is None:
            return self
        return self._with(epsilons=None, graph=scaled_graph(self.graph, self.epsilons))

    def _with(self, **changed: Any) -> Problem:
        made = object.__new__(type(self))
        kept = {key: value for key, value in self.__dict__.items() if key != "at_one_epsilon"}
        for key, value in (kept | changed).items():
            object.__setattr__(made, key, value)
        return made

    def expected_loss(self, Z: NDArray[np.float64]) -> float:
        """Return ``sum_i p_i sum_k c_ik z_ik`` of a float matrix, in the loss's unit."""
        return math.fsum((self.costs * Z).sum(axis=1))


def _positive(value: Any, name: str, meaning: str, faults: Faults, *, infinite: bool = False) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        faults.add(f"{name} must be a number, got {value!r}: give {meaning}")
        return math.nan
    if math.isnan(number) or number <= 0 or (math.isinf(number) and not infinite):
        finite = "" if infinite else " and finite"
        faults.add(f"{name} must be positive{finite}, got {number!r}: give {meaning}")
    return number


def _reach(eta: float | str, records: Records | None, metric: Metric | None, faults: Faults) -> float:
    """Return eta as a number in the metric's unit."""
    if not isinstance(eta, str):
        return _positive(eta, "eta", "the distance within which records are neighbours", faults, infinite=True)
    if records is None or metric is None:
        return math.nan
    found = _collect(
        faults,
        lambda: connecting_eta(records, metric) if eta == CONNECT else as_distance(eta, metric.name, what="eta"),
    )
    return math.nan if found is None else float(found)


def _graph(records: Records, metric: Metric, eta: float) -> MdpGraph:
    """Build the graph; the pairs of a user's metric with a name of the library are checked."""
    if metric.name not in COORDINATE_NAMES:
        return MdpGraph.of(records, metric, eta)
    own = coordinate_metric(metric.name)
    if type(metric) in (CoordinateMetric, DirectionMetric):
        return MdpGraph.of(records, own, eta)
    graph = shortened(records, MdpGraph.of(records, metric, eta), own)
    fault = recount_fault(records, graph, eta, own)
    if fault:
        raise InputError(
            f"the pairs of {type(metric).__name__} are not those of the metric {own.name!r} that it is named after: "
            f"{fault}; use metric={own.name!r}, or a name that begins with 'function'"
        )
    return graph


def _collect(faults: Faults, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except InputError as error:
        faults.add(str(error))
        return None


def kind_measured_by(metric: object) -> Kind | None:
    """Return what an array must hold to be measured by ``metric``; None if no metric was named."""
    if metric is None:
        return None
    name = metric if isinstance(metric, str) else getattr(metric, "name", "")
    return "places" if name in ("haversine", "street") else "vectors"
