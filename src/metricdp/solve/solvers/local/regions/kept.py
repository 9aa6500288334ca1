"""Checkpoints of regions: rows and multipliers of each, from which steps go on. Nothing that is read is trusted.

Whatever the numbers are, bounds are computed from the multipliers again and tables are checked: a changed file costs
time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.errors import InputError
from metricdp.solve.answers import array_of
from metricdp.solve.checkpoint import State, fingerprint
from metricdp.solve.solvers.local.regions import work

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.checkpoint import Checkpoint
    from metricdp.solve.solvers.local.regions.hold import Held
    from metricdp.solve.solvers.local.regions.plan import Plan

LARGEST = 1e30  # of rows and multipliers: float32 ends at 3e38
KEPT = "kept"  # the name of the state


def plan_fingerprint(plan: Plan, identity: object) -> str:
    """Return what identifies a plan: the problem, the regions and the options, the partitioner among them."""
    problem = plan.problem
    geometry, graph = problem.geometry, problem.graph
    arrays = geometry.record_points, geometry.output_points, graph.pairs, graph.distances, problem.prior
    return fingerprint("regions", problem.epsilon, plan.gap, plan.n_regions, identity, *arrays)


def save_regions(checkpoint: Checkpoint, held: Held, plan: Plan, bounds: tuple[float, float]) -> None:
    """Write what steps go on from, one region after the other."""
    held.ask(work.plain, lambda _: None, lambda *_: None, reads=["steps"], writes=KEPT)
    for region in range(plan.n_regions):
        state = held.fetch(KEPT, region, lambda *_: None)
        proof = {"Y": state["Y"], "theta": state["theta"], "radius": plan.radius}
        notes = {"steps": int(state["steps"]), "outputs": fingerprint(plan.outputs_of(region))}
        checkpoint.save_state(region, State(-1, *bounds, Z=state["Z"], proof=proof, notes=notes))


def saved_regions(checkpoint: Checkpoint, plan: Plan) -> tuple[Plan, list[dict[str, Any] | None]]:
    """Return the plan with the windows of a checkpoint, and what is known of each region; None where nothing is."""
    saved: list[dict[str, Any] | None] = []
    radius: NDArray[np.float64] | None = None
    for region in range(plan.n_regions):
        found = checkpoint.load(region)
        if found is None:
            saved.append(None)
            continue
        with found.state.checked():
            arrays = {**found.state.proof, "Z": found.state.arrays.get("Z")}
            steps, outputs = (found.state.notes.get(name) for name in ("steps", "outputs"))
            if not isinstance(steps, int) or not 0 <= steps < 1 << 40:
                raise InputError("steps must be a whole number of at least 0")
            own = array_of(arrays, "radius", np.float64, (plan.nodes.n,), low=0.0, high=LARGEST)
            values = {name: array_of(arrays, name, np.float32, (None,), high=LARGEST) for name in ("Z", "Y", "theta")}
        is_other = outputs != fingerprint(plan.outputs_of(region))  # a partitioner made other blocks elsewhere
        if is_other or (radius is not None and not np.array_equal(own, radius)):
            saved.append(None)  # or windows had just grown: this region begins again
            continue
        radius = own
        saved.append({**values, "steps": steps})
    return (plan if radius is None else plan.with_radius(radius)), saved
