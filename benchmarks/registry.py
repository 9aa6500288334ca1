"""The registry: instances x methods x sizes, in full and in a reduced form that takes minutes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from benchmarks.instances import DATASETS, LARGEST, ROME_CITY, ROME_SEED, Instance, rome_nodes
from benchmarks.methods import METHODS
from benchmarks.peers import PEERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Keep = Callable[[list[dict[str, Any]]], None]  # saves rows as they come: hours of work survive an interruption

GAPS = (0.01, 0.001, 0.0001)
CITY_ENTRIES = 1_000_000  # records times outputs: larger problems are whole cities
QIF_UP_TO = 1_000  # records times outputs: beyond it libqif's callbacks and dense rows take hours


@dataclass(frozen=True)
class Registry:
    """What a benchmark runs: every combination of these, small sizes first."""

    datasets: tuple[str, ...] = DATASETS
    sizes: tuple[int, ...] = (30, 100, 300, 500, 1_000, 2_000, 5_000)
    exponents: tuple[float, ...] = (0.2, 1.0, 4.0)
    ours: tuple[str, ...] = tuple(METHODS)
    peers: tuple[str, ...] = tuple(PEERS)
    gaps: tuple[float, ...] = GAPS
    n_outputs: int = 100
    repetitions: int = 3
    limit: float = 300.0
    rome: tuple[tuple[int, float], ...] = ()  # records and epsilon, where the data is at hand

    def instances(self, seed: int) -> Iterator[Instance]:
        """Return all instances; as many outputs as records where there are fewer records than outputs."""
        for n, exponent, dataset in itertools.product(self.sizes, self.exponents, self.datasets):
            if n <= LARGEST.get(dataset, n):
                yield Instance(dataset, n, min(n, self.n_outputs), exponent, seed)
        if rome_nodes() is not None:
            for n, epsilon in self.rome:
                yield Instance("rome", n, 100, epsilon)

    def ours_of(self, instance: Instance) -> tuple[str, ...]:
        """Return our methods for an instance: without those that form linear programs for a whole city."""
        is_city = instance.n * instance.n_outputs > CITY_ENTRIES
        return tuple(name for name in self.ours if not is_city or name in ("auto", "first-order"))

    def peers_of(self, instance: Instance) -> tuple[str, ...]:
        """Return the peers that can solve an instance of this size."""
        is_small = instance.n * instance.n_outputs <= QIF_UP_TO
        return tuple(name for name in self.peers if is_small or name != "libqif")


PEERS_FULL = Registry(
    ours=("auto", "direct", "columns", "first-order", "benders metis"),
    rome=((ROME_SEED, 5.0), (ROME_SEED, 2.0), (ROME_SEED, 0.5), (ROME_CITY, 10.0)),
)
PEERS_QUICK = replace(
    PEERS_FULL,
    datasets=("road",),
    sizes=(30, 100),
    exponents=(1.0, 4.0),
    ours=("auto", "direct"),
    limit=10.0,
    rome=(),
)
GROWTH_FULL = Registry(
    datasets=("road", "synthetic"),
    sizes=(100, 300, 500, 1_000, 2_000, 5_000),
    exponents=(1.0, 4.0),
    ours=("auto", "direct", "columns", "first-order", "benders metis"),
    peers=("HiGHS simplex", "HiGHS IPX", "OR-tools PDLP"),
    gaps=(0.01,),
)
GROWTH_QUICK = replace(
    GROWTH_FULL,
    datasets=("road",),
    sizes=(100, 300, 1_000),
    exponents=(4.0,),
    ours=("auto", "direct"),
    peers=("HiGHS IPX",),
    limit=15.0,
)
AUTO_FULL = Registry(sizes=(30, 100, 300, 500, 1_000), limit=120.0, rome=((ROME_SEED, 5.0), (ROME_SEED, 1.0)))
AUTO_QUICK = replace(AUTO_FULL, datasets=("grid", "text"), sizes=(100,), limit=20.0, gaps=GAPS[:1], rome=())
