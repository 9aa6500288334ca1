"""How much memory a problem takes, estimated before anything large is allocated, and how much is available.

A problem is its records and its pairs; of losses it holds how they are made (`metricdp.problem.losses`). The arrays of
a problem, and of the last step of methods that work on whole matrices, counted in the code (``P`` pairs, ``E`` entries:
records times outputs):

- per pair, held: pairs 8 and distances 8 bytes, the adjacency both ways 24; while it is made, the tree's answer 16,
  sorted copies 24, keys 16 and the adjacency's coordinates 32 more; while closing, factors 16. The most at one time is
  72 (`BYTES_PER_PAIR`): lists of the pairs and the adjacency with its coordinates.
- per entry, held: losses 8, costs 8 and the best matrix 8; in the last repair the raw matrix, its normalised copy, the
  closed matrix, whole numbers, the product that rounds them and the table, 8 each; the certificate has the table, the
  mechanism's copy and a float copy. The most at one time is 88 (`BYTES_PER_ENTRY`).

What a method needs is in `metricdp.solve.memory`. Pairs are estimated from a sample of records before the list of pairs
is made.
"""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from metricdp.data.records import Records
    from metricdp.metric.distances import Metric

BYTES_PER_PAIR = 72.0
BYTES_PER_ENTRY = 88.0
BYTES_PER_MADE_ENTRY = 16.0  # while a matrix is made: with its frozen copy
KERNELS_BYTES = 60e6  # compiled code that a solve loads
PROGRAM_BYTES = 195e6  # of a process that has solved a tiny problem: Python, libraries, compiled code; measured
SAMPLED_RECORDS = 100  # from which the number of pairs is estimated
RECORDS_CHECKED_FROM, ENTRIES_CHECKED_FROM = 2_000, 1_000_000  # smaller problems fit anywhere
GIGABYTE = 1e9
LEAST_KEPT_SHARE = 0.02  # of records or outputs: keeping fewer is not suggested


@dataclass(frozen=True)
class Sizes:
    """The sizes that memory grows with."""

    n_records: int
    n_outputs: int
    n_pairs: float

    @property
    def entries(self) -> float:
        """Records times outputs."""
        return float(self.n_records) * self.n_outputs

    def with_records(self, n: int) -> Sizes:
        """Return the sizes of a sample of ``n`` records: pairs fall with the square, outputs are not more."""
        share = n / self.n_records
        return Sizes(n, min(n, self.n_outputs), share * share * self.n_pairs)


def problem_bytes(sizes: Sizes) -> float:
    """Return the bytes of making a problem, whatever its number of outputs."""
    return BYTES_PER_PAIR * sizes.n_pairs


def check_memory(records: Records, metric: Metric, *, eta: float, n_outputs: int, limit: float | None) -> float | None:
    """Refuse a problem that would not fit into ``limit`` gigabytes, by default into the available memory.

    Return the bytes that it is expected to take; None if it is so small that nothing was checked.
    """
    if limit is not None and not limit > 0:
        raise InputError(f"memory_limit must be positive, got {limit}: give gigabytes such as 4")
    if limit is None and records.n < RECORDS_CHECKED_FROM:
        return None
    distances = _sampled(records, metric)
    sizes = Sizes(records.n, n_outputs, _pairs(distances, records.n, eta))

    def eta_for(pairs: float) -> float | None:
        place = int(pairs * 2.0 * len(distances) / (records.n * records.n))
        return float(distances[place - 1]) if place > 0 and np.isfinite(distances[place - 1]) else None

    return refuse_if_too_large(
        sizes, lambda s: KERNELS_BYTES + problem_bytes(s), eta=eta, limit=limit, eta_for=eta_for, is_estimate=True
    )


def matrix_fits(shape: tuple[int, int], *, limit: float | None) -> bool:
    """Return whether a matrix of losses fits into ``limit`` gigabytes, by default into the available memory."""
    entries = float(shape[0]) * shape[1]
    if limit is None and entries < ENTRIES_CHECKED_FROM:
        return True
    return held_bytes() + BYTES_PER_MADE_ENTRY * entries <= most_bytes(limit)


def check_matrix_memory(shape: tuple[int, int], *, limit: float | None) -> None:
    """Refuse to make a matrix of losses that would not fit."""
    if matrix_fits(shape, limit=limit):
        return
    n, K = shape
    needed = held_bytes() + BYTES_PER_MADE_ENTRY * float(n) * K
    raise InputError(
        f"a matrix of all losses of {n:,} records and {K:,} outputs would need about {needed / GIGABYTE:.1f} GB, "
        f"more than {_most_in_words(limit)}: take parts of it with losses.block(rows, outputs), fewer outputs, or a "
        "method that works on windows"
    )


def refuse_if_too_large(
    sizes: Sizes,
    more_bytes: Callable[[Sizes], float],
    *,
    eta: float,
    limit: float | None,
    eta_for: Callable[[float], float | None],
    method: str = "",
    others: Callable[[float], list[str]] = lambda _: [],
    is_estimate: bool = False,
) -> float:
    """Return the bytes at the peak; if they do not fit, raise an InputError that says what would.

    Parameters
    ----------
    sizes, more_bytes
        The sizes, and the bytes that they will take in addition to what this process holds now.
    eta, eta_for
        The neighbourhood, and the one that has a given number of pairs.
    limit
        Gigabytes; by default what is available.
    method, others
        The method, and the names of those that would fit into a number of bytes.
    is_estimate
        Whether the number of pairs is an estimate.
    """
    held, most = held_bytes(), most_bytes(limit)
    needed = held + more_bytes(sizes)
    if needed <= most:
        return needed
    room = most - held
    subject = f"the method {method!r}" if method else "the problem"
    about = "about " if is_estimate else ""
    raise InputError(
        f"{subject} would need about {needed / GIGABYTE:.1f} GB for {sizes.n_records:,} records, {sizes.n_outputs:,} "
        f"outputs and {about}{sizes.n_pairs:,.0f} pairs within eta = {eta:g}, more than "
        f"{_most_in_words(limit)}: {_what_fits(sizes, more_bytes, room, eta_for, others(room))}"
    )


def _what_fits(
    sizes: Sizes,
    more_bytes: Callable[[Sizes], float],
    room: float,
    eta_for: Callable[[float], float | None],
    others: list[str],
) -> str:
    """Return a phrase with the eta, the number of records or outputs, and the methods that would fit."""
    parts = []
    pairs = _largest(int(sizes.n_pairs), lambda count: more_bytes(replace(sizes, n_pairs=count)) <= room)
    reach = eta_for(pairs) if pairs else None
    if reach:
        parts.append(f"eta = {reach:.3g}")
    n = _largest(sizes.n_records, lambda count: more_bytes(sizes.with_records(count)) <= room)
    if n >= max(2, LEAST_KEPT_SHARE * sizes.n_records):
        parts.append(f"{n:,} of the records")
    K = _largest(sizes.n_outputs, lambda count: more_bytes(replace(sizes, n_outputs=count)) <= room)
    if max(2, LEAST_KEPT_SHARE * sizes.n_outputs) <= K:
        parts.append(f"{K:,} outputs")
    parts += [f"method {name!r}" for name in others]
    if not parts:
        return "no similar problem would fit; free memory, or raise the limit"
    return f"{', '.join(parts[:-1])} or {parts[-1]} would fit" if len(parts) > 1 else f"{parts[0]} would fit"


def most_bytes(limit: float | None) -> float:
    """Return the bytes that this process may hold: ``limit`` gigabytes, or what it holds and what is available."""
    return held_bytes() + available_bytes() if limit is None else limit * GIGABYTE


def _most_in_words(limit: float | None) -> str:
    return f"the {'available' if limit is None else 'limit of'} {most_bytes(limit) / GIGABYTE:.1f} GB"


def _largest(below: int, fits: Callable[[int], bool]) -> int:
    """Return the largest whole number under ``below`` that fits; 0 if none does."""
    low, high = 0, below
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def held_bytes() -> float:
    """Return the memory that this process holds now; 0 where the system does not report it."""
    return _statm()[1]


def available_bytes(root: Path = Path("/")) -> float:
    """Return how much more memory this process can take: of the machine, its control group and its address space."""
    room = [_machine(root), _control_group(root)]
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    if soft != resource.RLIM_INFINITY:
        room.append(soft - _statm()[0])
    return max(0.0, min(room))


def _statm() -> tuple[float, float]:
    """Return the bytes of this process's address space and those that it holds."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()
    except OSError:  # not reported on this system
        return 0.0, 0.0
    size = os.sysconf("SC_PAGE_SIZE")
    return float(pages[0]) * size, float(pages[1]) * size


def _machine(root: Path) -> float:
    """Return the machine's free memory, or all of its memory where the system does not report it."""
    try:
        lines = (root / "proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(1024.0 * float(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        pass
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):  # not reported on this system
        return float("inf")


def _control_group(root: Path) -> float:
    """Return the free memory of the control group (a container, a batch job) and those around it."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return float("inf")
    room = [float("inf")]
    for line in lines:
        _, kinds, name = line.split(":", 2)
        if kinds == "":
            top, most, used, cache = root / "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
        elif "memory" in kinds.split(","):
            top = root / "sys/fs/cgroup/memory"
            most, used, cache = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
        else:
            continue
        place = top / name.lstrip("/")
        for folder in (place, *place.parents):
            room.append(_left_in(folder, most, used, cache))
            if folder == top:
                break
    return min(room)


def _left_in(folder: Path, most: str, used: str, cache: str) -> float:
    """Return the free memory of one control group; its file cache counts as free."""
    try:
        limit = (folder / most).read_text(encoding="ascii").strip()
        taken = float((folder / used).read_text(encoding="ascii"))
        statistics = (folder / "memory.stat").read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return float("inf")
    if limit == "max":
        return float("inf")
    freed = next((float(line.split()[1]) for line in statistics if line.split()[0] == cache), 0.0)
    return float(limit) - taken + freed


def _sampled(records: Records, metric: Metric) -> NDArray[np.float64]:
    """Return all distances to evenly spread records, sorted, without those to themselves."""
    rows = np.unique(np.linspace(0, records.n - 1, SAMPLED_RECORDS).astype(np.int64))
    distances = np.array(metric.to_rows(records, rows), dtype=np.float64)
    distances[rows, np.arange(len(rows))] = np.inf
    return np.sort(distances.ravel())


def pairs_within(records: Records, metric: Metric, eta: float) -> float:
    """Return about how many pairs are within ``eta``, from a sample of records."""
    return _pairs(_sampled(records, metric), records.n, eta)


def _pairs(distances: NDArray[np.float64], n: int, eta: float) -> float:
    """Estimate the number of pairs within ``eta``."""
    return n * n / len(distances) * float(np.searchsorted(distances, eta, side="right")) / 2.0
