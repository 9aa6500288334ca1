"""The plan of a solve by regions: which outputs each owns, and what it must see of the others.

Outputs in kd order are cut into ranges of equally many groups: halves of halves along the widest axis, so regions are
compact. Where a partitioner was asked for, outputs follow block by block and are cut between blocks (see `blocks`).
A region's own columns must be complete, so it sees every node that may report one of its outputs. Rows of these nodes
need other outputs, too: those within the *halo* around its own.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import cKDTree

from metricdp.metric.simd import WIDTH
from metricdp.solve.solvers.local.counts import table_reach_for
from metricdp.solve.solvers.local.problem import LocalProblem, nodes_within
from metricdp.solve.solvers.local.regions.blocks import divided_by
from metricdp.solve.solvers.local.regions.part import StepPart, TablePart, graph_among, plain_nodes
from metricdp.solve.solvers.local.repair import SHARED_ROW, put_together
from metricdp.solve.solvers.local.windows import radius_for

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from metricdp.solve.solvers.local.options import LocalOptions
    from metricdp.solve.solvers.local.problem import Nodes

ROUNDING = 1e-9  # relative: a node at the very rim is seen by the region, which decides
HALO = 6.0  # in units of 1 / epsilon


def can_be_divided(problem: LocalProblem) -> bool:
    """Return whether regions can be made: losses are distances that follow from points."""
    return problem.losses is None and problem.geometry.kind is not None


class Plan:
    """Regions of a problem; the parts are made when they are asked for."""

    def __init__(  # noqa: PLR0917
        self,
        problem: LocalProblem,
        gap: float,
        options: LocalOptions,
        n_regions: int,
        radius: NDArray[np.float64] | None = None,
        beyond: float = 0.0,
        cuts: NDArray[np.int64] | None = None,
    ) -> None:
        if not can_be_divided(problem):
            raise ValueError("only losses that are distances between points can be divided into regions")
        self.problem, self.gap, self.options = problem, gap, options
        order = problem.output_order
        self.n_groups = len(order) // WIDTH
        even = np.linspace(0, self.n_groups, min(n_regions, self.n_groups) + 1).round().astype(np.int64)
        self.cuts = even if cuts is None else cuts  # where each region's groups begin, and the number of groups
        self._points = np.ascontiguousarray(problem.geometry.output_points[order])
        self._given_radius = radius
        self.beyond = beyond  # of the table's windows beyond the usual, in units of 1 / epsilon

    @classmethod
    def by_blocks(cls, problem: LocalProblem, gap: float, options: LocalOptions, block_of: NDArray[np.int64]) -> Plan:
        """Return regions that are blocks of the records, as far as whole groups of outputs can be."""
        divided, cuts = divided_by(problem, block_of)
        return cls(divided, gap, options, len(cuts) - 1, cuts=cuts)

    def with_radius(self, radius: NDArray[np.float64]) -> Plan:
        """Return the same regions with larger windows."""
        other = Plan(self.problem, self.gap, self.options, self.n_regions, radius, self.beyond, self.cuts)
        other.nodes, other.table_nodes = self.nodes, self.table_nodes
        return other

    def reaching(self, beyond: float) -> Plan:
        """Return the same regions with a table whose windows reach so much farther than usual."""
        other = Plan(self.problem, self.gap, self.options, self.n_regions, self.radius, beyond, self.cuts)
        other.nodes, other.table_nodes = self.nodes, self.table_nodes
        return other

    def with_regions(self, n_regions: int) -> Plan:
        """Return a plan with another number of regions, of equally many groups."""
        other = Plan(self.problem, self.gap, self.options, n_regions, self.radius)
        other.nodes = self.nodes
        return other

    @property
    def n_regions(self) -> int:
        """Number of regions."""
        return len(self.cuts) - 1

    @property
    def halo(self) -> float:
        """How far around its own outputs a region sees others, in units of 1 / epsilon."""
        return HALO if self.options.halo is None else self.options.halo

    @cached_property
    def nodes(self) -> Nodes:
        """Nodes of the steps."""
        return nodes_within(self.problem, 0.0)

    @cached_property
    def table_nodes(self) -> Nodes:
        """Nodes of the table."""
        return nodes_within(self.problem, SHARED_ROW)

    @cached_property
    def radius(self) -> NDArray[np.float64]:
        """Of the windows of the steps."""
        given = self._given_radius
        return radius_for(self.nodes, self.options.reach_for(self.gap)) if given is None else given

    @cached_property
    def table_radius(self) -> NDArray[np.float64]:
        """Of the windows of the table."""
        return radius_for(self.table_nodes, table_reach_for(self.problem, self.gap, self.options) + self.beyond)

    @cached_property
    def _nearest(self) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
        """Each node's distance to its nearest output, the region that owns this one, and its group."""
        length, which = cKDTree(self._points).query(self._points_of(self.nodes), p=self.problem.geometry.norm)
        group = which // WIDTH
        return self.problem.geometry.distance_of(length), np.searchsorted(self.cuts, group, side="right") - 1, group

    @property
    def nearest(self) -> NDArray[np.float64]:
        """Each node's distance to its nearest output."""
        return self._nearest[0]

    @property
    def owner(self) -> NDArray[np.int64]:
        """The region that sets each node's price."""
        return self._nearest[1]

    @cached_property
    def owned(self) -> list[NDArray[np.int64]]:
        """The nodes whose prices each region sets."""
        return [np.flatnonzero(self.owner == region) for region in range(self.n_regions)]

    @cached_property
    def seen(self) -> list[NDArray[np.int64]]:
        """The nodes that each region steps on."""
        points, reach = self._points_of(self.nodes), self.problem.geometry.reach(self.radius)
        return [self._near(region, points, reach) for region in range(self.n_regions)]

    @cached_property
    def members(self) -> list[NDArray[np.int64]]:
        """The nodes of the table that each region sees: those of its windows, and their neighbours."""
        nodes = self.table_nodes
        points, reach = self._points_of(nodes), self.problem.geometry.reach(self.table_radius)
        pairs = nodes.graph.pairs
        members = []
        for region in range(self.n_regions):
            is_member = np.zeros(nodes.n, dtype=bool)
            is_member[self._near(region, points, reach)] = True
            touched = is_member[pairs[:, 0]] | is_member[pairs[:, 1]]
            is_member[pairs[touched].ravel()] = True  # a way out of the window leads over a neighbour
            members.append(np.flatnonzero(is_member))
        return members

    def outputs_of(self, region: int) -> NDArray[np.int64]:
        """Return the outputs that a region owns, in the order in which it works on them."""
        return self._outputs_of(np.arange(self.cuts[region], self.cuts[region + 1]))

    def _points_of(self, nodes: Nodes) -> NDArray[np.float64]:
        return np.ascontiguousarray(self.problem.geometry.record_points[nodes.first])

    def _core_points(self, region: int) -> NDArray[np.float64]:
        return self._points[self.cuts[region] * WIDTH : self.cuts[region + 1] * WIDTH]

    def _near(self, region: int, points: NDArray[np.float64], reach: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return which points are within their reach of the region's outputs."""
        core = self._core_points(region)
        low, high = core.min(axis=0), core.max(axis=0)
        farthest = float(reach.max()) * (1.0 + ROUNDING)
        around = np.flatnonzero(((points >= low - farthest) & (points <= high + farthest)).all(axis=1))
        away, _ = cKDTree(core).query(points[around], p=self.problem.geometry.norm)
        near = around[away <= reach[around] * (1.0 + ROUNDING)]
        if len(near):
            return near
        # outputs far from everybody: the nearest point stands for all
        return np.array([np.linalg.norm(points - core.mean(axis=0), axis=1).argmin()], dtype=np.int64)

    def step_part(self, region: int) -> StepPart:
        """Return what a region steps on."""
        nodes, geometry = self.nodes, self.problem.geometry
        who = self.seen[region]
        around = geometry.reach(np.full(len(self._points), self.halo / self.problem.epsilon))
        # every row needs a place to report nearby: where places are far apart the halo does not reach that of all
        nearest, owner, group = self._nearest
        groups = np.union1d(self._near(region, self._points, around) // WIDTH, group[who])
        first, last = np.searchsorted(groups, self.cuts[region : region + 2])
        problem = self._part_of(nodes, who, self._outputs_of(groups))
        return StepPart(
            nodes=plain_nodes(problem),
            who=who,
            radius=self.radius[who],
            nearest=nearest[who],
            core=range(int(first), int(last)),
            owned=np.flatnonzero(owner[who] == region),
            stretch=self.options.stretch_for(self.gap),
            gap=self.gap,
        )

    def table_part(self, region: int) -> TablePart:
        """Return what a region closes columns on."""
        nodes, steps = self.table_nodes, self.nodes
        who, outputs = self.members[region], self.outputs_of(region)
        place = np.full(nodes.n, -1, dtype=np.int64)
        place[who] = np.arange(len(who))
        in_steps = self.seen[region]
        target, share = put_together(steps, nodes)
        return TablePart(
            nodes=plain_nodes(self._part_of(nodes, who, outputs)),
            who=who,
            radius=self.table_radius[who],
            outputs=outputs,
            target=place[target[in_steps]],
            share=share[in_steps],
        )

    def _outputs_of(self, groups: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the outputs of some groups, in their order, without copies."""
        places = (groups[:, None] * WIDTH + np.arange(WIDTH)).ravel()
        return self.problem.output_order[places[places < self.problem.n_outputs]]

    def _part_of(self, nodes: Nodes, who: NDArray[np.int64], outputs: NDArray[np.int64]) -> LocalProblem:
        geometry = replace(
            self.problem.geometry,
            record_points=np.ascontiguousarray(self.problem.geometry.record_points[nodes.first[who]]),
            output_points=np.ascontiguousarray(self.problem.geometry.output_points[outputs]),
        )
        return LocalProblem(
            geometry=geometry,
            graph=graph_among(nodes.graph, who),
            epsilon=self.problem.epsilon,
            prior=nodes.weight[who],
            mean_weight=nodes.mean_weight,
            is_ordered=True,
        )
