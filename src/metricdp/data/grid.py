"""The cells of a rectangular map."""

from __future__ import annotations

import numpy as np

from metricdp.data.records import Records
from metricdp.errors import Faults


def grid(rows: int = 20, columns: int = 25, *, cell: float = 1.0, n: int | None = None, seed: int = 0) -> Records:
    """Return the centres of the cells of a grid map; the default is the map of the paper (Section 4).

    The cell in row r and column c has its centre at ((r + 0.5) cell, (c + 0.5) cell).

    Parameters
    ----------
    rows, columns
        Size of the map in cells.
    cell
        Length of a cell's side in km.
    n
        Number of cells to draw, each equally likely; all of them if left out.
    seed
        Seed of the draw.

    Examples
    --------
    >>> records = grid(20, 25)
    >>> records.n, records.ids[82], records.coordinates[82].tolist()
    (500, 'r03c07', [3.5, 7.5])
    """
    faults = Faults("grid")
    for name, count in (("rows", rows), ("columns", columns)):
        faults.check(count >= 1, f"{name} must be at least 1, got {count}")
    faults.check(0 < cell < np.inf, f"cell must be a positive length in km, got {cell}")
    faults.raise_if_any()
    row, column = (index.ravel() for index in np.indices((rows, columns)))
    centres = (np.column_stack([row, column]) + 0.5) * cell
    digits = max(2, len(str(max(rows, columns) - 1)))
    ids = [f"r{r:0{digits}d}c{c:0{digits}d}" for r, c in zip(row, column, strict=True)]
    records = Records(centres, ids=ids, kind="vectors", name=f"grid {rows}x{columns}")
    return records if n is None else records.sample(n, seed=seed)
