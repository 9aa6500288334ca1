"""Distances between records and the graph of neighbouring records."""

from metricdp.metric.connecting import connecting_eta
from metricdp.metric.directions import DirectionMetric
from metricdp.metric.distances import CoordinateMetric, Metric
from metricdp.metric.given import FunctionMetric, MatrixMetric, StreetMetric, as_metric, metric_by_name
from metricdp.metric.graph import MdpGraph
from metricdp.metric.mahalanobis import MahalanobisMetric
from metricdp.metric.sparsify import prune_implied

__all__ = [
    "CoordinateMetric",
    "DirectionMetric",
    "FunctionMetric",
    "MahalanobisMetric",
    "MatrixMetric",
    "MdpGraph",
    "Metric",
    "StreetMetric",
    "as_metric",
    "connecting_eta",
    "metric_by_name",
    "prune_implied",
]
