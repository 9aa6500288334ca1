"""Ours against peers: seconds and memory to a certified gap, each run in a process of its own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from benchmarks.methods import METHODS
from benchmarks.peers import ITERATIVE_PEERS, PEERS
from benchmarks.runs import run_instance
from benchmarks.tables import epsilon_cell, memory_cell, ratio_cell, shares_line, table, time_cell, times_cell

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.registry import Keep, Registry
    from benchmarks.runs import Outcome


def run(registry: Registry, *, seed: int, keep: Keep, profile: bool = False) -> dict[str, Any]:
    """Run every instance; return the rows and the tables."""
    outcomes: list[Outcome] = []
    for instance in registry.instances(seed):
        found = run_instance(
            instance,
            ours=registry.ours_of(instance),
            peers=registry.peers_of(instance),
            gaps=registry.gaps,
            limit=registry.limit,
            repetitions=registry.repetitions,
            profile=profile,
        )
        outcomes += found
        keep([outcome.as_dict() for outcome in found])
        print(instance.name)
        for outcome in found:
            print(f"  {outcome.method}, gap {100 * outcome.gap:g} %: {time_cell(outcome)}", flush=True)
    return {"rows": [outcome.as_dict() for outcome in outcomes], "markdown": markdown(outcomes)}


def summary(outcomes: list[Outcome]) -> str:
    """Return for each gap `auto`'s seconds and how many times as long the others took; memory; peers' privacy."""
    gaps = sorted({o.gap for o in outcomes}, reverse=True)
    parts = [
        f"### Times as long as `auto`, gap {100 * gap:g} %\n\n" + _grid(outcomes, gap, time_cell, times_cell)
        for gap in gaps
    ]
    memory = _grid(outcomes, gaps[0], memory_cell, lambda outcome, _: memory_cell(outcome))
    parts.append(f"### Memory, MB on top of the idle process, gap {100 * gaps[0]:g} %\n\n" + memory)
    parts.append("### What peers satisfied before repair\n\n" + _satisfied([o for o in outcomes if o.is_peer]))
    return "\n".join(parts)


def _grid(
    outcomes: list[Outcome],
    gap: float,
    own_cell: Callable[[Outcome], str],
    cell: Callable[[Outcome, Outcome], str],
) -> str:
    """Return a table of instances by methods, `auto` first; instances that `auto` did not solve are marked."""
    here = [o for o in outcomes if o.gap == gap]
    known = [name for name in (*METHODS, *PEERS) if name != "auto"]  # in the same order in every table
    found = [name for name in dict.fromkeys(o.method for o in here) if name != "auto"]
    names = sorted(found, key=lambda name: known.index(name) if name in known else len(known))
    rows = []
    for instance in dict.fromkeys(o.instance for o in here):
        of = {o.method: o for o in here if o.instance == instance}
        auto = of.get("auto")
        if auto is not None and auto.is_reached:
            rows.append((instance, own_cell(auto), *(cell(of[name], auto) if name in of else "-" for name in names)))
        elif auto is not None:
            rows.append((instance, time_cell(auto), *("-" for _ in names)))
    return table(("instance", "auto", *names), rows)


def _satisfied(peers: list[Outcome]) -> str:
    """Return for each peer: answers, those that satisfied epsilon, the worst finite excess, and those without any."""
    rows = []
    largest = max((o.gap for o in peers), default=0.0)
    peers = [o for o in peers if o.method in ITERATIVE_PEERS or o.gap == largest]  # one run stands for all gaps
    for name in dict.fromkeys(o.method for o in peers):
        ratios = [
            answer["epsilon_before_repair"] / answer["epsilon"]
            for o in peers
            if o.method == name and not o.fault
            for answer in o.answers
        ]
        over = [ratio - 1.0 for ratio in ratios if 1.0 < ratio < math.inf]
        rows.append(
            (
                name,
                str(len(ratios)),
                str(sum(ratio <= 1.0 for ratio in ratios)),
                f"{len(over)}" + (f", at most 1 + {max(over):.1e} times" if over else ""),
                str(sum(math.isinf(ratio) for ratio in ratios)),
            )
        )
    head = ("peer", "answers", "satisfied epsilon", "a larger epsilon", "none: 0 beside a positive probability")
    return table(head, rows)


def markdown(outcomes: list[Outcome]) -> str:
    """Return a summary; one table for each instance; then the shares of the stages and, on request, the functions."""
    ours = [o for o in outcomes if not o.is_peer]
    parts = [summary(outcomes)]
    for name in dict.fromkeys(o.instance for o in outcomes):
        here = sorted((o for o in outcomes if o.instance == name), key=lambda o: (-o.gap, o.is_peer))
        head = ("gap", "method", "seconds", "times our best", "MB on top", "epsilon before repair")
        cells = [
            (
                f"{100 * o.gap:g} %",
                o.method + (" *" if o.is_peer and _lacks_bound(o) else ""),
                time_cell(o),
                ratio_cell(o, ours),
                memory_cell(o),
                epsilon_cell(o),
            )
            for o in here
        ]
        parts.append(f"### {name}\n\n" + table(head, cells))
    if any(_lacks_bound(o) for o in outcomes if o.is_peer):
        parts.append(
            "An asterisk: this peer gives no multipliers, and its gap is by the best lower bound of the others.\n"
        )
    lines = [
        f"- {o.instance}, {o.method}, gap {100 * o.gap:g} %: {shares_line(o.answers[0]['shares'])}"
        for o in ours
        if not o.fault
    ]
    parts.append("### Time share of the stages\n\n" + "\n".join(lines) + "\n")
    for o in ours:
        functions = [] if o.fault else o.answers[0]["functions"]
        if functions:
            rows = [(f"{own:.3f}", str(calls), name) for own, calls, name in functions]
            parts.append(f"### Profile: {o.instance}, {o.method}\n\n" + table(("own seconds", "calls", "name"), rows))
    return "\n".join(parts)


def _lacks_bound(outcome: Outcome) -> bool:
    """Return whether the gap uses another program's lower bound, since the peer returns no multipliers."""
    return not outcome.fault and outcome.answers[0]["lower_bound"] is None
