"""The problem to solve: records, metric, budget, outputs and loss, validated once."""

from metricdp.problem.loss import distance_loss, travel_loss
from metricdp.problem.outputs import Outputs
from metricdp.problem.problem import Problem

__all__ = ["Outputs", "Problem", "distance_loss", "travel_loss"]
