"""Mechanisms for every point of a region: conic first-order steps, repair, bounds."""

from metricdp.solve.plane.solve import PlaneResult, solve_plane
from metricdp.solve.plane.triangles import solve_triangles

__all__ = ["PlaneResult", "solve_plane", "solve_triangles"]
