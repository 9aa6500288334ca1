"""Repeated runs of ours and of peers on one instance, in turn, each in its own process."""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.judge import judge, warm_up
from benchmarks.methods import METHODS
from benchmarks.peers import ITERATIVE_PEERS, TOLERANCE_PER_GAP
from benchmarks.processes import run_task
from metricdp.mechanism.mechanism import relative_gap

if TYPE_CHECKING:
    from benchmarks.instances import Instance
    from metricdp import Problem


MOST_ROWS, BYTES_PER_ROW = 2e8, 40  # of the whole linear program: two entries of 12 bytes, and its bounds
FINISH_SECONDS = 120.0  # beyond the limit: our methods keep it themselves, and then repair and certify


@dataclass
class Outcome:
    """All repetitions of one method on one instance for one gap."""

    instance: str
    method: str
    gap: float
    is_peer: bool
    answers: list[dict[str, Any]] = field(default_factory=list)
    best_bound: float | None = None

    @property
    def fault(self) -> str:
        """Why there is no answer; empty if there is one."""
        for answer in self.answers:
            if "missing" in answer:
                return f"not installed ({answer['missing']})"
            if "failed" in answer:
                return f"failed ({answer['failed']})"
            if "late" in answer:
                return f"not done in {answer['late']:g} s"
        return ""

    @property
    def certified_gap(self) -> float | None:
        """The worst gap of the repetitions; by the best lower bound of all where a peer gives none."""
        if self.fault:
            return None
        gaps = []
        for answer in self.answers:
            gap = answer["gap"]
            if gap is None and self.best_bound is not None:
                gap = relative_gap(answer["loss"], min(self.best_bound, answer["loss"]))
            gaps.append(1.0 if gap is None or not answer["is_certified"] else gap)
        return max(gaps)

    @property
    def is_cut_off(self) -> bool:
        """Whether the limit stopped one of our methods: it may be close enough by chance, but would have continued."""
        return any(answer.get("is_cut_off", False) for answer in self.answers)

    @property
    def is_reached(self) -> bool:
        return not self.is_cut_off and self.certified_gap is not None and self.certified_gap <= self.gap

    @property
    def seconds(self) -> list[float]:
        """Of a peer: with the repair and the certificate of its answer."""
        return [a["seconds"] + a.get("judge_seconds", 0.0) for a in self.answers if "seconds" in a]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def peak_mb(self) -> float | None:
        """The most memory above what the process held before it began."""
        peaks = [a["peak_mb"] - a["before_mb"] for a in self.answers if "before_mb" in a]
        return statistics.median(peaks) if peaks else None

    def as_dict(self) -> dict[str, Any]:
        """Everything, for the JSON file."""
        own = {k: v for k, v in vars(self).items() if k != "answers"}
        figures = {"fault": self.fault, "certified_gap": self.certified_gap, "is_reached": self.is_reached}
        more = {"seconds": self.seconds, "peak_mb": self.peak_mb, "answers": self.answers}
        return own | figures | more


def run_instance(
    instance: Instance,
    *,
    ours: tuple[str, ...],
    peers: tuple[str, ...],
    gaps: tuple[float, ...],
    limit: float,
    repetitions: int,
    profile: bool = False,
) -> list[Outcome]:
    """Run all methods in turn, ``repetitions`` times; a method that failed or was late once is not run again."""
    problem = instance.problem()
    warm_up()
    outcomes = [Outcome(instance.name, name, gap, is_peer=False) for name in ours for gap in gaps]
    for name in peers:
        wanted = gaps if name in ITERATIVE_PEERS else gaps[:1]  # one accuracy: one run stands for all gaps
        outcomes += [Outcome(instance.name, name, gap, is_peer=True) for gap in wanted]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        graph = problem.graph
        np.savez(
            place / "problem.npz",
            costs=problem.costs,
            pairs=graph.pairs,
            distances=graph.distances,
            epsilon=problem.epsilon,
        )
        for repetition in range(repetitions):
            for outcome in outcomes:
                if repetition and (outcome.fault or not outcome.is_reached):
                    continue
                if outcome.is_peer:
                    answer = _peer(outcome, place, problem, limit)
                else:
                    answer = _own(outcome, instance, limit, profile=profile and repetition == 0)
                outcome.answers.append(answer)
            _share_bound(outcomes)
    _credit_finer_runs(outcomes)
    return [*outcomes, *(_for_gap(o, gap) for o in outcomes if _stands_for_all(o) for gap in gaps[1:])]


def _share_bound(outcomes: list[Outcome]) -> None:
    """Store the best lower bound so far in all outcomes: some peers return none."""
    bounds = [a["lower_bound"] for o in outcomes for a in o.answers if a.get("lower_bound") is not None]
    for outcome in outcomes:
        outcome.best_bound = max(bounds, default=None)


def _credit_finer_runs(outcomes: list[Outcome]) -> None:
    """Use an iterative peer's run at a finer tolerance where it missed a gap that this run reached."""
    for outcome in outcomes:
        if outcome.is_peer and outcome.method in ITERATIVE_PEERS and not outcome.is_reached:
            finer = [
                Outcome(o.instance, o.method, outcome.gap, True, o.answers, o.best_bound)
                for o in outcomes
                if o.method == outcome.method and o.gap < outcome.gap
            ]
            reached = [o for o in finer if o.is_reached]
            if reached:
                outcome.answers = min(reached, key=lambda o: o.median).answers


def _stands_for_all(outcome: Outcome) -> bool:
    return outcome.is_peer and outcome.method not in ITERATIVE_PEERS


def _for_gap(outcome: Outcome, gap: float) -> Outcome:
    return Outcome(outcome.instance, outcome.method, gap, True, outcome.answers, outcome.best_bound)


def _own(outcome: Outcome, instance: Instance, limit: float, *, profile: bool) -> dict[str, Any]:
    if outcome.method not in METHODS:
        raise ValueError(f"unknown method {outcome.method!r}: choose one of {', '.join(METHODS)}")
    task = {"kind": "ours", "method": outcome.method, "instance": asdict(instance), "gap": outcome.gap}
    task |= {"limit": limit, "profile": profile}
    answer = run_task(task, limit=limit + FINISH_SECONDS)
    return answer | {"is_cut_off": answer.get("seconds", 0.0) >= limit}


def _peer(outcome: Outcome, place: Path, problem: Problem, limit: float) -> dict[str, Any]:
    rows = 2 * problem.graph.n_pairs * problem.n_outputs
    if rows > MOST_ROWS:
        return {"failed": f"{rows:.1e} rows, at least {rows * BYTES_PER_ROW / 1e9:.0f} GB: not tried"}
    matrix = place / "answer.npz"
    matrix.unlink(missing_ok=True)
    tolerance = outcome.gap * TOLERANCE_PER_GAP if outcome.method in ITERATIVE_PEERS else None
    task = {"kind": "peer", "method": outcome.method, "problem": str(place / "problem.npz")}
    answer = run_task(task | {"matrix": str(matrix), "tolerance": tolerance}, limit=limit)
    if "seconds" not in answer:
        return answer
    with np.load(matrix) as data:
        multipliers = data.get("multipliers")
        return answer | judge(data["Z"], multipliers, float(data["scale"]), problem)
