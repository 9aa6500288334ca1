"""All cones of a region one by one, from the inequalities of the exact check."""

from __future__ import annotations

import numpy as np

from metricdp.solve.plane.cones import Cones


def all_cones(region):
    """Return nodes and factors: ``factors[c] @ z[nodes[c]]`` is (g, g', u) of cone c, as the solver scales them."""
    cones, found = Cones.of(region), region.lattice.inequalities(region.cells)
    scale = np.array([cones.side / cones.sides[0], cones.side / cones.sides[1], 1.0])
    return found.nodes, found.factors / 4.0 * scale[None, :, None]
