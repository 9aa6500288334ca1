"""The problem to solve: records, metric, budget, outputs and loss, validated once."""

from metricdp.problem.loss import distance_loss, travel_loss
from metricdp.problem.losses import DistanceLosses, FunctionLosses, GivenLosses, Losses, TravelLosses
from metricdp.problem.outputs import Outputs
from metricdp.problem.plane import PlaneProblem
from metricdp.problem.problem import Problem

__all__ = [
    "DistanceLosses",
    "FunctionLosses",
    "GivenLosses",
    "Losses",
    "Outputs",
    "PlaneProblem",
    "Problem",
    "TravelLosses",
    "distance_loss",
    "travel_loss",
]
