"""Evaluation: what a mechanism costs, what an adversary learns, and how it compares."""

from metricdp.evaluate.adversary import Attack, attack, posterior, wrong_prior
from metricdp.evaluate.at_places import at_places
from metricdp.evaluate.audit import MatrixAudit, audit
from metricdp.evaluate.compare import BASELINES, Comparison, Row, compare
from metricdp.evaluate.const_opt import const_opt
from metricdp.evaluate.estimates import Estimate, estimate
from metricdp.evaluate.guidance import guidance
from metricdp.evaluate.leakage import Leakage, Vulnerability, gain_within, leakage
from metricdp.evaluate.plan import Plan, plan
from metricdp.evaluate.plan_region import RegionPlan, plan_region
from metricdp.evaluate.problem_of_file import Rebuilt, rebuild
from metricdp.evaluate.remap import best_outputs, remap
from metricdp.evaluate.spanner import spanner, spanner_mechanism
from metricdp.evaluate.sweep import Point, Sweep, sweep
from metricdp.evaluate.tracker import Tracker, Trajectory, trajectory
from metricdp.evaluate.utility import Utility, utility, weighted_quantiles
from metricdp.evaluate.walks import street_walk
from metricdp.evaluate.word_noise import truncated_exponential

__all__ = [
    "BASELINES",
    "Attack",
    "Comparison",
    "Estimate",
    "Leakage",
    "MatrixAudit",
    "Plan",
    "Point",
    "Rebuilt",
    "RegionPlan",
    "Row",
    "Sweep",
    "Tracker",
    "Trajectory",
    "Utility",
    "Vulnerability",
    "at_places",
    "attack",
    "audit",
    "best_outputs",
    "compare",
    "const_opt",
    "estimate",
    "gain_within",
    "guidance",
    "leakage",
    "plan",
    "plan_region",
    "posterior",
    "rebuild",
    "remap",
    "spanner",
    "spanner_mechanism",
    "street_walk",
    "sweep",
    "trajectory",
    "truncated_exponential",
    "utility",
    "weighted_quantiles",
    "wrong_prior",
]
