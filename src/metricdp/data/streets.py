"""A street network: intersections, the streets between them, and their lengths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from metricdp.errors import Faults

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class StreetNetwork:
    """Undirected streets between intersections.

    Parameters
    ----------
    coordinates
        Latitude and longitude of each intersection in degrees, shape (V, 2).
    edges
        The two intersections of each street, shape (E, 2).
    lengths
        Length of each street in km, shape (E,).
    """

    coordinates: NDArray[np.float64]
    edges: NDArray[np.int32]
    lengths: NDArray[np.float64]

    def __post_init__(self) -> None:
        n_nodes = len(self.coordinates)
        faults = Faults("street network")
        faults.check(
            self.edges.ndim == 2 and self.edges.shape[1:] == (2,),
            f"street edges must have two columns, got shape {self.edges.shape}",
        )
        faults.check(
            len(self.edges) == len(self.lengths),
            f"there are {len(self.edges)} streets but {len(self.lengths)} lengths: give one length per street",
        )
        if self.edges.size:
            low, high = int(self.edges.min()), int(self.edges.max())
            faults.check(
                low >= 0 and high < n_nodes,
                f"street edges name nodes {low} to {high}, but there are {n_nodes} nodes (rows 0 to {n_nodes - 1})",
            )
        bad = ~(np.isfinite(self.lengths) & (self.lengths >= 0))
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            faults.add(f"street lengths must be finite and not negative, got {self.lengths[row]} in street {row}")
        faults.raise_if_any()

    @property
    def n_nodes(self) -> int:
        """Number of intersections."""
        return len(self.coordinates)

    @property
    def n_edges(self) -> int:
        """Number of streets."""
        return len(self.edges)
