"""How much memory the first-order iterations take, and how many edges they may have: both are decided beforehand."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from metricdp.problem.memory_model import Sizes

EXTEND_AFTER, EXTEND_AGAIN = 400, 2.0  # steps before violated pairs are brought in, and the factor to the next time
EXTEND_BY = 0.5  # of the edges, at most
EXTENSIONS = 3  # by so much; then there are as many edges as there may be
FEWEST_MORE = 1_000  # violated pairs that may come in at a time in any case
PER_ENTRY = 24.0  # bytes: costs, rows, anchors and reflected rows in float32, and the best matrix in float64
PER_MULTIPLIER = 8.0  # bytes: itself and its anchor in float32
PER_EDGE = 150.0  # bytes: its ends, factors, steps and places (74), and the sorting of them (76)


POLISH_PER_ROW = (
    1_000.0  # bytes, at most, for each pair and output of the programs that are kept: 300 to 1,000 measured
)


def polish_bytes(n_pairs: float, n_outputs: int, polish_up_to: int) -> float:
    """Return the bytes of the linear programs that polish the lower bound, at most; 0 where there are none."""
    rows = n_pairs * n_outputs
    return POLISH_PER_ROW * rows if rows <= polish_up_to else 0.0


def most_edges(first: float, n_pairs: float, max_iterations: int) -> float:
    """Return how many pairs may take part in the end when ``first`` do to begin with: more come in as steps double."""
    edges, due = first, float(EXTEND_AFTER)
    for _ in range(EXTENSIONS):
        if due > max_iterations:
            break
        edges += max(EXTEND_BY * edges, FEWEST_MORE)
        due *= EXTEND_AGAIN
    return min(edges, float(n_pairs))


def iteration_bytes(sizes: Sizes, edges: float) -> float:
    """Return the bytes of the iterations, if everybody may report everything; far outputs may never be touched."""
    return PER_ENTRY * sizes.entries + edges * (PER_EDGE + PER_MULTIPLIER * sizes.n_outputs)
