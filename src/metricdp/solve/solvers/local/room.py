"""Memory for windows that grow: counted before they are made, since a run may be allowed less than they would take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from metricdp.metric.simd import WIDTH
from metricdp.problem.memory_model import GIGABYTE
from metricdp.solve.solvers.local.counts import (
    BYTES_PER_MULTIPLIER,
    STEP_BYTES_PER_ENTRY,
    TABLE_BYTES_PER_ENTRY,
    slots_within,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from metricdp.solve.solvers.local.network import Network

TEMPORARY_BYTES_PER_ENTRY = 12.0  # while rows and costs are made
COLUMN_BYTES_PER_ENTRY = (
    24.0  # of the table's windows: columns and the table so far, which a first repair leaves behind
)


def bytes_to_grow(network: Network, radius: NDArray[np.float64], table_entries: float, *, has_table: bool) -> float:
    """Return by how much this process will grow with windows of larger radii: now, or in the next repair."""
    slots = network.windows.n_slots
    edges_per_slot = network.edges.n / max(slots, 1)

    per_slot = WIDTH * (STEP_BYTES_PER_ENTRY + BYTES_PER_MULTIPLIER * edges_per_slot)
    wider = slots_within(network.nodes, radius)
    new, old = (per_slot + WIDTH * TEMPORARY_BYTES_PER_ENTRY) * wider, per_slot * slots
    per_entry = TABLE_BYTES_PER_ENTRY - (COLUMN_BYTES_PER_ENTRY if has_table else 0.0)
    # old windows are there until the new ones have taken over; the repair comes when they are gone
    return max(new, new - old + per_entry * table_entries)


def refusal(needed: float, room: float) -> str:
    """Return what is said when windows may not grow."""
    return (
        f"larger windows would take {needed / GIGABYTE:.2f} GB more, and {room / GIGABYTE:.2f} are left: the search "
        "goes on with those it has, and its gap may stay larger; more memory, a larger gap or fewer outputs help"
    )
