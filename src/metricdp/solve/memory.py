"""How much memory each method takes, counted in its arrays (bytes).

Every method has the problem, the last repair and the certificate (`metricdp.problem.memory_model`): 60 bytes per pair,
of which 40 are there when it begins, and 88 per entry (record and output), of which 16 are. In addition:

- ``first-order``: per entry, the costs, rows, anchors and reflected rows as float32 tiles, 16, and the best matrix
  while another one is repaired, 8; per edge and output, the multipliers and their anchors, 4 each. Edges are the pairs
  without short detours, and half as many again each of the first three times that violated pairs are brought in, at
  most all pairs. Tiles of outputs that nobody reports are never touched, so that weak privacy takes less than this.
- linear programs (``direct``, ``benders``, ``columns``, ``kernel``): HiGHS holds a program several times (as given,
  scaled, by rows and by columns, the factors of its basis): measured, 260 bytes per column of the program with its
  unit sum and 1,750 per mDP row. mDP rows come in as they are violated, and how many that will be nobody knows before:
  0.2 to 4 per entry were seen. One per entry is expected here, not more than there are. A program that outgrows the
  memory is given up before it does (`metricdp.solve.lp`), and the best mechanism so far is certified.
- ``benders``: the programs of blocks overlap with their surroundings.
- ``columns`` and ``kernel``: one program per output with all records, in which more rows come in, 8 per entry; kernels
  are n columns of up to n entries each, in the pool (12 bytes each, three times while it grows), and in one or two
  masters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from metricdp.metric.thin import sampled_edges
from metricdp.problem.memory_model import (
    BYTES_PER_ENTRY,
    CHECKED_FROM,
    ENTRIES_CHECKED_FROM,
    Sizes,
    available_bytes,
    refuse_if_too_large,
)
from metricdp.solve.dispatch import AT_ONCE
from metricdp.solve.firstorder import stretch_for
from metricdp.solve.firstorder.loop import EXTEND_AFTER, EXTEND_AGAIN, EXTEND_BY
from metricdp.solve.lp import COLUMN_BYTES, ROW_BYTES

if TYPE_CHECKING:
    from metricdp.problem.problem import Problem
    from metricdp.solve.firstorder import FirstOrderOptions

PAIR_SOLVING, PAIR_HELD = 60.0, 40.0  # while solving, and at its begin: with the adjacency, and factors or rates
ENTRY_HELD = 16.0  # losses and costs
MORE_KERNELS_BYTES = 10e6  # compiled code; most of it has been loaded to find the edges
ITERATION_PER_ENTRY = 24.0
LP_SOLVER_BYTES = 30e6  # the solver itself
MULTIPLIERS = 8.0
EXTENSIONS = 3  # that find as many violated pairs as they may; later ones find few
ROWS_PER_ENTRY, PRICING_ROWS_PER_ENTRY = 1.0, 8.0
OVERLAP = 2.0  # of the blocks of a decomposition with their surroundings
KERNEL_ENTRY, MASTER_ENTRY = 36.0, 60.0
LARGEST_CHOSEN_LP = 100_000  # entries: `auto` takes no linear program for more
PAIRS_CHECKED_FROM = 1_000_000


def shared_bytes(sizes: Sizes) -> float:
    """Return the bytes that every method takes: the problem, the last repair and the certificate."""
    return PAIR_SOLVING * sizes.n_pairs + BYTES_PER_ENTRY * sizes.entries


def first_order_bytes(sizes: Sizes, edges_per_pair: float = 1.0) -> float:
    """Return the bytes of the iterations in which ``edges_per_pair`` of the pairs take part."""
    multipliers = MULTIPLIERS * edges_per_pair * sizes.n_pairs * sizes.n_outputs
    return shared_bytes(sizes) + ITERATION_PER_ENTRY * sizes.entries + multipliers


def most_edges(edges: float, n_pairs: int, max_iterations: int) -> float:
    """Return how many pairs take part in the end when ``edges`` do at first: violated ones come in as steps double."""
    times = 0
    while times < EXTENSIONS and EXTEND_AFTER * EXTEND_AGAIN**times <= max_iterations:
        times += 1
    return min((1.0 + EXTEND_BY) ** times * edges, float(n_pairs))


def direct_bytes(sizes: Sizes) -> float:
    """Return the bytes of one linear program with a column per entry, and a flag per possible row."""
    all_rows = 2.0 * sizes.n_pairs * sizes.n_outputs
    return shared_bytes(sizes) + all_rows + lp_bytes(sizes.entries, expected_rows(sizes))


def benders_bytes(sizes: Sizes) -> float:
    """Return the bytes of the blocks' linear programs with their surroundings, and of the master."""
    return shared_bytes(sizes) + OVERLAP * lp_bytes(sizes.entries, expected_rows(sizes))


def columns_bytes(sizes: Sizes) -> float:
    """Return the bytes of one pricing program per output, the pool and two masters."""
    return kernel_bytes(sizes) + MASTER_ENTRY * float(sizes.n_records) ** 2


def kernel_bytes(sizes: Sizes) -> float:
    """Return the bytes of one pricing program per output, the kernels and one master."""
    kernels = (KERNEL_ENTRY + MASTER_ENTRY) * float(sizes.n_records) ** 2
    rows = expected_rows(sizes, PRICING_ROWS_PER_ENTRY)
    return shared_bytes(sizes) + lp_bytes(sizes.entries, rows) + kernels


def lp_bytes(columns: float, rows: float) -> float:
    """Return the bytes of a linear program in which each column has its unit sum, and rows have two entries."""
    return LP_SOLVER_BYTES + COLUMN_BYTES * columns + ROW_BYTES * rows


def expected_rows(sizes: Sizes, per_entry: float = ROWS_PER_ENTRY) -> float:
    """Return how many mDP rows are expected to come in; not more than there are."""
    return min(2.0 * sizes.n_pairs * sizes.n_outputs, per_entry * sizes.entries)


def auto_bytes(sizes: Sizes, edges_per_pair: float = 1.0) -> float:
    """Return the bytes of what `auto` may choose: first-order iterations, or a linear program that is not large."""
    if sizes.n_pairs * sizes.n_outputs > AT_ONCE:
        return first_order_bytes(sizes, edges_per_pair)
    share = min(1.0, LARGEST_CHOSEN_LP / sizes.entries)
    small = shared_bytes(sizes) + lp_bytes(share * sizes.entries, share * expected_rows(sizes))
    return max(first_order_bytes(sizes, edges_per_pair), small)


def method_bytes(method: str, sizes: Sizes, edges_per_pair: float = 1.0) -> float:
    """Return the bytes at the peak of a method, with the problem and without the program itself."""
    if method == "auto":
        return auto_bytes(sizes, edges_per_pair)
    if method == "first-order":
        return first_order_bytes(sizes, edges_per_pair)
    by_lp = {"direct": direct_bytes, "benders": benders_bytes, "columns": columns_bytes, "kernel": kernel_bytes}
    return by_lp[method](sizes)


def check_method_memory(
    problem: Problem, method: str, methods: tuple[str, ...], *, gap: float, first_order: FirstOrderOptions
) -> None:
    """Refuse a method that would not fit into the memory, with what would; small problems are not looked at."""
    n, K, P = problem.n_records, problem.n_outputs, problem.graph.n_pairs
    is_small = n < CHECKED_FROM and n * K < ENTRIES_CHECKED_FROM and P < PAIRS_CHECKED_FROM
    if problem.memory_limit is not None or not is_small:
        expected_peak(problem, method, methods, gap=gap, first_order=first_order)


def expected_peak(
    problem: Problem, method: str, methods: tuple[str, ...], *, gap: float, first_order: FirstOrderOptions
) -> float:
    """Return the bytes that this process will hold at the peak of a method; refuse one that would not fit."""
    graph = problem.graph
    sizes = Sizes(problem.n_records, problem.n_outputs, graph.n_pairs)
    edges = most_edges(sampled_edges(graph, stretch_for(gap, first_order)), graph.n_pairs, first_order.max_iterations)
    share = edges / max(graph.n_pairs, 1)

    there = PAIR_HELD * graph.n_pairs + ENTRY_HELD * problem.costs.size  # when this is asked, and held already

    def more_bytes(one: Sizes, name: str = method) -> float:
        return MORE_KERNELS_BYTES + max(method_bytes(name, one, share) - there, 0.0)

    def eta_for(pairs: float) -> float | None:
        return float(np.partition(graph.distances, int(pairs) - 1)[int(pairs) - 1]) if pairs >= 1 else None

    return refuse_if_too_large(
        sizes,
        more_bytes,
        eta=problem.eta,
        limit=problem.memory_limit,
        eta_for=eta_for,
        method=method,
        others=lambda room: [name for name in methods if name != method and more_bytes(sizes, name) <= room],
    )


def columns_fit(n_records: int, n_outputs: int, n_pairs: int) -> bool:
    """Say whether column generation fits into what is available: its kernels grow with the square of the records."""
    return columns_bytes(Sizes(n_records, n_outputs, n_pairs)) <= available_bytes()
