"""Groups of outputs whose probabilities are bounded from their counts.

The share of a district is seen in the reports of many outputs together. Limits of single outputs add up to something
much wider than one limit for all of them, so groups of every size are bounded: the branches of a tree over the outputs.
The tree depends on the mechanism and its prior only, never on the reports.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from metricdp.data.geodesy import EARTH_RADIUS_KM
from metricdp.statistics.channel import Channel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.mechanism.plane import PlaneMechanism

MAX_CELLS = 160  # ends of the tree: twice as many narrow intervals by a tenth, and take ten times as long


def output_groups(mechanism: Mechanism | PlaneMechanism) -> csr_array:
    """Return which outputs are in which group, ones of shape (K, J).

    The tree begins with all outputs. The branch that is reported most often by the mechanism's prior is cut in two,
    across its longest side and so that both parts are reported about equally often, until there are `MAX_CELLS`
    branches or every one is a single output. All parts are groups, J = 2 (cells - 1) of them; one group of all outputs
    if there is but one output.
    """
    points = _flat(mechanism)
    chances = Channel(mechanism.table).chances(mechanism.records.prior)
    everything = np.arange(mechanism.outputs.n)
    parts = _parts(points, chances, everything) or [everything]
    lengths = [len(part) for part in parts]
    columns = np.repeat(np.arange(len(parts)), lengths)
    shape = (len(everything), len(parts))
    return csr_array((np.ones(len(columns)), (np.concatenate(parts), columns)), shape=shape)


def _parts(
    points: NDArray[np.float64], chances: NDArray[np.float64], everything: NDArray[np.int64]
) -> list[NDArray[np.int64]]:
    parts: list[NDArray[np.int64]] = []
    branches, n_ends = [(0.0, 0, everything)], 0
    while branches and len(branches) + n_ends < MAX_CELLS:
        branch = heapq.heappop(branches)[2]
        if len(branch) == 1:
            n_ends += 1
            continue
        own = points[branch]
        order = branch[np.argsort(own[:, np.ptp(own, axis=0).argmax()], kind="stable")]
        reached = np.cumsum(chances[order])
        cut = min(max(1, int(np.searchsorted(reached, 0.5 * reached[-1]))), len(order) - 1)
        for part in (order[:cut], order[cut:]):
            parts.append(part)
            heapq.heappush(branches, (-float(chances[part].sum()), len(parts), part))
    return parts


def _flat(mechanism: Mechanism | PlaneMechanism) -> NDArray[np.float64]:
    """Return the outputs' coordinates; those of places in km."""
    points = mechanism.outputs.coordinates
    if mechanism.records.kind != "places":
        return points
    narrow = np.cos(np.radians(points[:, 0].mean()))
    return np.radians(points) * EARTH_RADIUS_KM * np.array([1.0, narrow])
