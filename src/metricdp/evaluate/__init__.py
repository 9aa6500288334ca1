"""Evaluation: what a mechanism costs, what an adversary learns, and how it compares."""

from metricdp.evaluate.adversary import Attack, attack, posterior, wrong_prior
from metricdp.evaluate.compare import BASELINES, Comparison, Row, compare
from metricdp.evaluate.const_opt import const_opt
from metricdp.evaluate.estimates import Estimate, estimate
from metricdp.evaluate.guidance import guidance
from metricdp.evaluate.problem_of_file import Rebuilt, rebuild
from metricdp.evaluate.remap import best_outputs, remap
from metricdp.evaluate.spanner import spanner, spanner_mechanism
from metricdp.evaluate.tracker import Tracker, Trajectory, trajectory
from metricdp.evaluate.utility import Utility, utility, weighted_quantiles

__all__ = [
    "BASELINES",
    "Attack",
    "Comparison",
    "Estimate",
    "Rebuilt",
    "Row",
    "Tracker",
    "Trajectory",
    "Utility",
    "attack",
    "best_outputs",
    "compare",
    "const_opt",
    "estimate",
    "guidance",
    "posterior",
    "rebuild",
    "remap",
    "spanner",
    "spanner_mechanism",
    "trajectory",
    "utility",
    "weighted_quantiles",
    "wrong_prior",
]
