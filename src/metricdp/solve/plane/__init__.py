"""Mechanisms for every point of a region: conic first-order steps, repair, bounds."""

from metricdp.solve.plane.solve import PlaneResult, solve_plane

__all__ = ["PlaneResult", "solve_plane"]
