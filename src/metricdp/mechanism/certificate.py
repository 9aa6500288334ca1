"""What is proved of a mechanism: its privacy, exactly, and how far from optimal it can be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from metricdp.mechanism.guarantee import NOT_PROTECTED
from metricdp.metric.units import per_unit, with_unit

if TYPE_CHECKING:
    from collections.abc import Callable

    from metricdp.mechanism.exact import PrivacyCheck
    from metricdp.mechanism.guarantee import Guarantee

FAR_FROM_OPTIMAL = 0.5  # a gap: larger ones are of runs that were cut off
M = TypeVar("M")  # a mechanism, of records or of a region


def relative_gap(loss: float, lower_bound: float) -> float:
    """Return ``(loss - lower_bound) / loss``; 0 when both are 0."""
    return 0.0 if loss <= lower_bound else (loss - lower_bound) / loss


@dataclass(frozen=True)
class Optimality:
    """A proof of how far from optimal a mechanism can be: its loss and a valid lower bound on any loss."""

    loss: float
    lower_bound: float

    @property
    def gap(self) -> float:
        """The relative gap ``(loss - lower_bound) / loss``."""
        return relative_gap(self.loss, self.lower_bound)


@dataclass(frozen=True)
class Certificate:
    """Both proofs that come with a mechanism, and their scope."""

    privacy: PrivacyCheck
    guarantee: Guarantee
    optimality: Optimality | None = None
    is_from_file: bool = False

    @property
    def eta(self) -> float:
        """The distance within which records are neighbours."""
        return self.guarantee.eta

    @property
    def metric(self) -> str:
        """The metric's name."""
        return self.guarantee.metric

    @property
    def n_components(self) -> int:
        """Number of groups of records that paths of neighbours join."""
        return self.guarantee.graph.n_components

    @property
    def n_isolated(self) -> int:
        """Number of records without any neighbour."""
        return self.guarantee.n_isolated

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """Return the certificate in plain words, a line each: what is not protected first."""
        check, scope = self.privacy, self.guarantee.lines()
        if check.n_pairs == 0:
            return [*scope, *self._optimal()]
        every = "" if self.guarantee.epsilons is None else " for every pair"
        proof = [
            (
                f"Private: every one of {check.n_pairs:,} neighbour pairs within {with_unit(self.eta, self.metric)} "
                f"({self.metric}), {check.n_outputs} outputs, both ways, satisfies {self._budget()} exactly "
                f"({check.n_decided_exactly:,} of {check.n_compared:,} comparisons needed integers)."
            ),
            f"Tightest epsilon that holds{every}: {per_unit(check.tightest_epsilon, self.metric, digits=9)}.",
        ]
        unprotected = [line for line in scope if line.startswith(NOT_PROTECTED)]
        rest = [line for line in scope if not line.startswith(NOT_PROTECTED)]
        return [*unprotected, *proof, *rest, *self._optimal()]

    def _budget(self) -> str:
        epsilons = self.guarantee.epsilons
        if epsilons is None:
            return f"epsilon = {per_unit(self.privacy.epsilon, self.metric)}"
        words = per_unit(self.privacy.epsilon, self.metric, own=epsilons)
        return f"the smaller of its two records' own epsilons ({words})"

    def _optimal(self) -> list[str]:
        best = self.optimality
        if best is None:
            return []
        if self.is_from_file:
            line = (
                f"Claimed by the file and not checked here: expected loss {best.loss:.6g}, lower bound "
                f"{best.lower_bound:.6g}, so optimal within {100 * best.gap:.3g} %."
            )
        else:
            near = "Optimal within" if best.gap <= FAR_FROM_OPTIMAL else "Not shown to be near optimal, gap"
            line = (
                f"{near} {100 * best.gap:.3g} %: expected loss {best.loss:.6g}, no mechanism with this budget can go "
                f"below {best.lower_bound:.6g}."
            )
        return [line]


def as_claimed(mechanism: M) -> M:
    """Mark what the certificate says of the loss as the claim of a file, and return the mechanism."""
    claimed = replace(mechanism.certificate, is_from_file=True)  # type: ignore[attr-defined]
    object.__setattr__(mechanism, "certificate", claimed)
    return mechanism


def made_again(kind: Callable[..., M], parts: tuple[Any, ...], is_from_file: bool) -> M:
    """Return a copy of a mechanism through its constructor, which certifies again; claims of a file remain claims."""
    made = kind(*parts)
    return as_claimed(made) if is_from_file else made
