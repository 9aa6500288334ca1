"""A mechanism as a scikit-learn transformer."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from metricdp.apply.frames import checked_index
from metricdp.apply.snapping import snap_points
from metricdp.data.people import repetition_warning
from metricdp.data.readers.frames import array_kind
from metricdp.data.records import Records
from metricdp.errors import InputError
from metricdp.mechanism.files import load
from metricdp.mechanism.mechanism import Mechanism
from metricdp.metric import connecting_eta
from metricdp.problem import Problem
from metricdp.problem.problem import kind_measured_by
from metricdp.solve import Status, solve

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

    from metricdp.data.records import Kind
    from metricdp.mechanism.snap import SnappedReports

# beginnings of scikit-learn's messages that name sizes and columns, and no values
HARMLESS_BEGINNINGS = (
    "Input ",
    "Found array with ",
    "X has ",
    "The feature names ",
    "Unable to ",
    "Expected ",
    "Feature names ",
)


class MetricPrivacy(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Replaces each row by the report of a certified epsilon-mDP mechanism.

    `fit` takes a **public list** of records and finds the best mechanism for it; `transform` snaps the true rows to
    their nearest records and returns the coordinates of the outputs drawn for them. Do not fit on the secrets
    themselves: the records and outputs are not hidden, so ``fit_transform`` of secret rows publishes them.

    With ``set_output(transform="pandas")`` scikit-learn puts the index of the input on the reports; one that visibly
    holds the true points is refused, but no check finds every copy: call ``reset_index(drop=True)`` first.

    Draws come from the operating system's randomness: there is no ``random_state``, two calls of `transform` differ,
    and each spends the budget again.

    Parameters
    ----------
    epsilon
        Privacy budget per unit of distance (per km for places).
    eta
        Records within this distance are neighbours. By default the least that joins all records, so that every pair is
        protected at its path distance.
    outputs
        How many of the records can be reported, well spread; all if there are fewer, and by default.
    kind
        ``"vectors"``, or ``"places"`` for columns of latitude and longitude in degrees. By default what the ``metric``
        measures, or vectors; but two columns that could be degrees are refused unless the kind is given.
    metric, loss
        As in `Problem`, by default what fits the kind. Rows can only be snapped to records by ``"euclidean"``,
        ``"manhattan"`` or ``"haversine"``.
    snap_limit
        Rows farther than this from every record are refused, all together; by default ``eta_``.
    allow_unprotected
        Accept a mechanism that does not protect rows close together from one another; without it, `fit` refuses it.
        ``mechanism_.guarantee.for_points(snap_limit_)`` says what is promised for rows.
    gap, time_limit, method
        As in `solve`. If the gap is not reached within ``time_limit`` seconds, the best mechanism so far is kept, as
        private as any, and a ConvergenceWarning says how far from optimal it can be.
    seed
        For drawing the destinations of the loss ``travel``; it does not affect the reports.
    mechanism
        A mechanism, or the path of its file, to be used in place of finding one: `fit` then only checks the columns,
        and the options above except ``snap_limit`` are not used.

    Attributes
    ----------
    mechanism_
        The certified mechanism; ``mechanism_.certificate`` says what it protects.
    eta_, snap_limit_
        The distances in force.
    n_features_in_
        Number of columns.

    Examples
    --------
    >>> import metricdp
    >>> public = metricdp.data.grid(3, 3).coordinates
    >>> privacy = MetricPrivacy(epsilon=2.0, kind="vectors").fit(public)
    >>> round(privacy.eta_, 6), privacy.mechanism_.certificate.n_components
    (1.0, 1)
    >>> privacy.transform([[0.6, 0.5], [2.5, 2.4]]).shape
    (2, 2)
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        eta: float | None = None,
        outputs: int | None = None,
        kind: Kind | None = None,
        metric: str | None = None,
        loss: str | None = None,
        snap_limit: float | None = None,
        allow_unprotected: bool = False,
        gap: float = 0.01,
        time_limit: float | None = 60.0,
        method: str = "auto",
        seed: int = 0,
        mechanism: Mechanism | str | Path | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.eta = eta
        self.outputs = outputs
        self.kind = kind
        self.metric = metric
        self.loss = loss
        self.snap_limit = snap_limit
        self.allow_unprotected = allow_unprotected
        self.gap = gap
        self.time_limit = time_limit
        self.method = method
        self.seed = seed
        self.mechanism = mechanism

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Find the best mechanism for the distinct rows of ``X``, a public list; how often each occurs is the prior."""
        n_least = 2 if self.mechanism is None else 1
        points = self._checked(X, ensure_min_samples=n_least)
        self.mechanism_ = self._solved(points) if self.mechanism is None else self._given()
        if self.mechanism_.records.dimension != points.shape[1]:
            raise InputError(
                f"the mechanism's records have {self.mechanism_.records.dimension} coordinates, got X with "
                f"{points.shape[1]} columns: give the same columns"
            )
        self.eta_ = self.mechanism_.eta
        self.snap_limit_ = self.eta_ if self.snap_limit is None else self.snap_limit
        promise = self.mechanism_.guarantee.for_points(self.snap_limit_)
        if not self.allow_unprotected:
            promise.check()
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the coordinates of the output drawn for each row."""
        reports = self.perturb(X)
        self._check_index(X)
        return self.mechanism_.outputs.coordinates[reports.outputs]

    def perturb(self, X: ArrayLike) -> SnappedReports:
        """Return the reports with their names and the snap distances, which are only for the holder of the secret."""
        check_is_fitted(self)
        points = self._checked(X, reset=False)
        return self.mechanism_.perturb_points(points, limit=self.snap_limit_, allow_unprotected=self.allow_unprotected)

    def _check_index(self, X: Any) -> None:
        """Refuse an index that visibly holds the true points if scikit-learn is to put it on the reports."""
        made = getattr(self, "_sklearn_output_config", {}).get("transform", get_config()["transform_output"])
        if made == "pandas" and hasattr(X, "iloc"):
            points = np.asarray(X, dtype=np.float64)
            rows, _ = snap_points(self.mechanism_, points)
            checked_index(self.mechanism_, X.index, list(X.columns), rows, points)

    def _checked(self, X: ArrayLike, **how: Any) -> NDArray[np.float64]:
        """Check rows by scikit-learn's rules; only those of its messages are passed on that show no value."""
        try:
            return np.asarray(validate_data(self, X, dtype=np.float64, **how))
        except ValueError as error:  # a TypeError names types, no values
            fault = str(error)
        if "Reshape your data" in fault:
            fault = "Expected 2D array. Reshape your data: one row for each point"
        elif fault.startswith("Complex data not supported"):
            fault = "Complex data not supported: give real numbers"
        elif not fault.startswith(HARMLESS_BEGINNINGS):
            fault = "X must hold numbers: correct or remove the others"
        raise InputError(fault)

    def _given(self) -> Mechanism:
        return self.mechanism if isinstance(self.mechanism, Mechanism) else load(str(self.mechanism))

    def _solved(self, points: NDArray[np.float64]) -> Mechanism:
        advice = repetition_warning(points)
        if advice is not None:
            warnings.warn(advice, UserWarning, stacklevel=3)
        distinct, counts = np.unique(points, axis=0, return_counts=True)
        kind = self.kind or kind_measured_by(self.metric) or array_kind(distinct)
        records = Records(distinct, prior=counts, kind=kind)
        if np.ndim(self.epsilon):
            raise InputError(
                "epsilon must be one number here, since equal rows become one record: for epsilons of the records' own "
                "solve a Problem, and give its mechanism"
            )
        problem = Problem(
            records,
            epsilon=self.epsilon,
            eta=self._reach(records),
            outputs=None if self.outputs is None else min(self.outputs, records.n),
            metric=self.metric,
            loss=self.loss,
            seed=self.seed,
        )
        result = solve(problem, gap=self.gap, time_limit=self.time_limit, method=self.method)
        if result.status is not Status.OPTIMAL:
            warnings.warn(
                f"the mechanism is private, but its loss may be {100 * result.gap:.3g} % from optimal: raise "
                f"time_limit (now {self.time_limit}) or gap, or lower eta (now {problem.eta:.6g}) or outputs",
                ConvergenceWarning,
                stacklevel=3,
            )
        return result.mechanism

    def _reach(self, records: Records) -> float:
        return connecting_eta(records, self.metric) if self.eta is None else self.eta

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.transformer_tags.preserves_dtype = ["float64"]
        return tags
