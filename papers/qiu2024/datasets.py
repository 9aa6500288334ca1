"""The paper's four datasets, drawn instance by instance."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metricdp.data import WORDS_ETA, gaussian, grid, read_records, read_rows, read_streets, road, words
from metricdp.data.readers.files import is_there
from metricdp.errors import InputError
from metricdp.problem import Problem

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.data import Records

POOL_SIZE = 2_000  # the paper draws words and vectors from so many
SYNTHETIC_SCALE = 4.0  # standard deviation; the paper does not say, its published code has 4
PUBLISHED_CELL_KM = 1.5  # km; the paper says 1 km, its published code has 1.5
REFERENCE_RECORDS = 500  # records at which the paper's eta is meant
ETA = {"grid": 2.0, "text": WORDS_ETA, "synthetic": 2.0}
GOTHENBURG_ETA, ROAD_ETA = 0.7, 2.0  # km: Gothenburg is smaller, 0.7 km gives as many neighbours as 2 km in Rome
# with fewer records eta grows, so that a record keeps about as many neighbours: the dimension in which it grows
DIMENSION = {"road": 2, "text": 9, "synthetic": 3}
ONE_DESTINATION = " with one destination"  # the loss of the published code; the paper says 100
NODES = ("nodes.csv.gz", "nodes.csv")
EDGES = ("edges.csv.gz", "edges.csv")


@dataclass
class Datasets:
    """Where instances come from.

    Parameters
    ----------
    data
        For the road network: None for the shipped city, a file of places, or a folder with ``nodes.csv[.gz]``
        (lat, lon), if wanted ``edges.csv[.gz]`` (streets), and ``paper_records.csv`` and ``paper_outputs.csv`` (rows
        of the first instance, as in the paper's own).
    """

    data: str | None = None
    road_name: str = field(init=False, default="gothenburg")
    _places: Records = field(init=False, repr=False)
    _first: tuple[NDArray[Any], NDArray[Any]] | None = field(init=False, default=None, repr=False)
    _made: dict[tuple[Any, ...], Problem] = field(init=False, default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.data is None:
            self._places = road("gothenburg")
            return
        path = Path(self.data)
        if not is_there(path):
            raise InputError(
                f"--data names {self.data}, which does not exist: give a file of places or a folder of them"
            )
        nodes = path if path.is_file() else _one_of(path, NODES)
        if nodes is None:
            raise InputError(
                f"--data names the folder {self.data}, which has no nodes.csv.gz or nodes.csv: put it there"
            )
        places = read_records(nodes)
        if places.kind != "places":
            raise InputError(f"--data names {nodes}, which holds no places: give columns lat and lon")
        edges = None if path.is_file() else _one_of(path, EDGES)
        if edges is not None:
            places = places.with_streets(read_streets(edges, places))
        self._places = places
        self.road_name = f"{path.resolve().name} {hashlib.sha256(nodes.read_bytes()).hexdigest()[:8]}"
        if path.is_dir() and is_there(path / "paper_records.csv") and is_there(path / "paper_outputs.csv"):
            self._first = (read_rows(path / "paper_records.csv"), read_rows(path / "paper_outputs.csv"))

    @property
    def road_title(self) -> str:
        """What the road network is called in texts."""
        return self.road_name.rsplit(" ", 1)[0]

    def eta(self, dataset: str, n: int) -> float:
        """Return the neighbour distance of a dataset with ``n`` records."""
        if dataset.startswith("grid"):
            return ETA["grid"]
        family = dataset.removesuffix(ONE_DESTINATION)
        at_reference = ETA.get(family, GOTHENBURG_ETA if self.data is None else ROAD_ETA)
        return at_reference * max(1.0, REFERENCE_RECORDS / n) ** (1.0 / DIMENSION[family])

    def largest(self, dataset: str) -> float:
        """Return how many records a dataset can have at most."""
        return {"road": float(self._places.n), "text": float(POOL_SIZE)}.get(dataset, math.inf)

    def problem(self, dataset: str, *, n: int, outputs: int, instance: int, epsilon: float) -> Problem:
        """Return one instance; ``instance`` is the seed of every draw."""
        key = (dataset, n, outputs, instance)
        if key not in self._made:
            self._made.clear()  # tasks come instance by instance
            self._made[key] = self._draw(dataset, n, outputs, instance, epsilon)
        drawn = self._made[key]
        if drawn.epsilon == epsilon:
            return drawn
        return Problem(drawn.records, epsilon=epsilon, eta=drawn.eta, outputs=drawn.outputs.rows, loss=drawn.loss)

    def _draw(self, dataset: str, n: int, outputs: int, instance: int, epsilon: float) -> Problem:
        eta = self.eta(dataset, n)
        chosen: Any = f"random:{outputs}"  # the paper draws them
        loss, destinations = "travel", 1 if dataset.endswith(ONE_DESTINATION) else None
        if dataset.startswith("road"):
            if self._first is not None and instance == 0 and (n, outputs) == (len(self._first[0]), len(self._first[1])):
                records, chosen = self._places.select(self._first[0]), self._first[1]
            else:
                records = self._places.sample(n, seed=instance)
        elif dataset.startswith("grid"):
            rows, columns = map_shape(n)
            records = grid(rows, columns, cell=PUBLISHED_CELL_KM if dataset.endswith("1.5") else 1.0)
        elif dataset == "text":
            records, loss = words(n=n, seed=instance), "distance"
        else:
            records, loss = gaussian(max(n, POOL_SIZE), scale=SYNTHETIC_SCALE).sample(n, seed=instance), "distance"
        return Problem(
            records, epsilon=epsilon, eta=eta, outputs=chosen, loss=loss, destinations=destinations, seed=instance
        )


def map_shape(n: int) -> tuple[int, int]:
    """Return the rows and columns of the grid map with ``n`` cells that is nearest to a square.

    Examples
    --------
    >>> map_shape(500), map_shape(100)
    ((20, 25), (10, 10))
    """
    rows = next(rows for rows in range(math.isqrt(n), 0, -1) if n % rows == 0)
    return rows, n // rows


def _one_of(folder: Path, names: tuple[str, ...]) -> Path | None:
    return next((folder / name for name in names if is_there(folder / name)), None)
