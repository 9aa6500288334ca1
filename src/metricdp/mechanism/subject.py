"""What a charge was for: the metric that gives epsilon its unit, and a hash of the records it was reported with."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

if TYPE_CHECKING:
    from metricdp.mechanism.mechanism import Mechanism

IN_KM = ("haversine", "street")
IN_UNITS_OF_COORDINATES = ("euclidean", "manhattan")

_subjects: WeakKeyDictionary[Mechanism, str] = WeakKeyDictionary()


def subject_of(mechanism: Mechanism) -> str:
    """Return the SHA-256 of what the mechanism protects: metric, ids, coordinates, pairs and their distances."""
    found = _subjects.get(mechanism)
    if found is None:
        records, graph = mechanism.records, mechanism.graph
        digest = hashlib.sha256()
        digest.update(json.dumps([mechanism.metric, records.ids, records.coordinates.shape, graph.n_pairs]).encode())
        digest.update(np.ascontiguousarray(records.coordinates, dtype="<f8").data)
        digest.update(np.ascontiguousarray(graph.pairs, dtype="<i8").data)
        digest.update(np.ascontiguousarray(graph.distances, dtype="<f8").data)
        found = _subjects[mechanism] = digest.hexdigest()
    return found


def currency_of(mechanism: Mechanism) -> str:
    """Return what epsilon is "per" in: amounts may be added only where this is the same.

    Distances in km are comparable over any list of places. Those of coordinates are, at best, in one space. A matrix or
    a function has a unit that only its maker knows, so it is comparable with itself and the same records only.
    """
    metric = mechanism.metric
    if metric in IN_KM:
        return f"{metric} (km)"
    if metric in IN_UNITS_OF_COORDINATES:
        return f"{metric} ({mechanism.records.dimension} coordinates)"
    return f"{metric} (of the records {subject_of(mechanism)[:16]})"
