"""The data of the explorer page, as small as possible: plain values and packed arrays."""

from __future__ import annotations

import base64
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from metricdp.evaluate.guessing import background_share, most_likely, output_chances
from metricdp.mechanism.certify import TOTAL_BITS
from metricdp.mechanism.sparse import SparseTable
from metricdp.report.explorer_map import Frame, ground_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from metricdp.data.map_layers import MapFeature
    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.metric.graph import MdpGraph

LEAST_SHOWN_PROBABILITY = 1e-6  # entries of which neither the probability nor the posterior reaches this are left out
MAX_ENTRIES = 2_000_000  # of the table; more would make the page too large to share
ENTRIES_AT_ONCE = 4_000_000  # of the table that are looked at together
LOG_LEVELS = 65_534  # of a probability's logarithm, so that it is off by 0.04 % at most


def packed(values: NDArray[Any]) -> dict[str, str]:
    """Return an array as the page reads it: its type and its little-endian bytes in base64."""
    little = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"), copy=False)
    return {"type": values.dtype.name, "data": base64.b64encode(little.tobytes()).decode("ascii")}


def table_arrays(table: NDArray[np.uint64] | SparseTable, prior: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
    """Return the entries of the table that are worth showing, row by row; of a sparse table, among the stored ones.

    ``starts`` (N + 1) says where each row begins, ``columns`` names the outputs, and ``levels`` (1 to 65,535) are the
    logarithms of the probabilities: ``p = 2^(-63 (65535 - level) / 65534)``. An entry is kept if it matters to
    the person (its probability) or to the adversary (its posterior); the largest of each row always. ``least`` (1) is
    what neither of the two exceeds in an entry that is left out.
    """
    chances = output_chances(table, prior)
    least, n_ties = _least_importance(table, prior, chances)
    counts, columns, levels = [np.zeros(1, dtype=np.int64)], [], []
    for rows, places, outputs, probabilities in _entries(table):
        importance = _importance(probabilities, places, prior, chances[outputs])
        kept = (importance >= least) & (probabilities > 0.0)
        ties = np.flatnonzero(kept & (importance == least))
        kept[ties[n_ties:]] = False
        n_ties = max(0, n_ties - len(ties))
        counts.append(np.bincount(places[kept] - rows.start, minlength=rows.stop - rows.start))
        columns.append(outputs[kept].astype(np.uint16 if table.shape[1] <= 65_536 else np.uint32))
        logarithms = np.log2(probabilities[kept])
        levels.append((np.rint((1.0 + logarithms / TOTAL_BITS) * LOG_LEVELS) + 1).astype(np.uint16))
    return {
        "starts": np.cumsum(np.concatenate(counts)).astype(np.uint32),
        "columns": np.concatenate(columns),
        "levels": np.concatenate(levels),
        "least": np.array([least], dtype=np.float32),
    }


def _least_importance(
    table: NDArray[np.uint64] | SparseTable, prior: NDArray[np.float64], chances: NDArray[np.float64]
) -> tuple[float, int]:
    """Return the importance from which on entries are shown, and how many of exactly that: `MAX_ENTRIES` in all."""
    found = np.zeros(0)
    for _, places, outputs, probabilities in _entries(table):
        importance = _importance(probabilities, places, prior, chances[outputs])
        found = np.concatenate((found, importance[importance >= LEAST_SHOWN_PROBABILITY]))
        if found.size > MAX_ENTRIES:  # only the largest so far can be among the largest of all
            found = np.partition(found, found.size - MAX_ENTRIES)[-MAX_ENTRIES:]
    least = LEAST_SHOWN_PROBABILITY if found.size < MAX_ENTRIES else float(found.min())
    return least, int(np.count_nonzero(found == least))


def _importance(
    probabilities: NDArray[np.float64],
    places: NDArray[np.int64],
    prior: NDArray[np.float64],
    chances: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the larger of probability and posterior of each entry, and 2 for the most likely output of a record."""
    found = np.divide(prior[places] * probabilities, chances, out=np.zeros_like(probabilities), where=chances > 0)
    np.maximum(found, probabilities, out=found)
    starts = np.flatnonzero(np.diff(places, prepend=-1))
    if len(starts):
        top = np.repeat(np.maximum.reduceat(probabilities, starts), np.diff(np.append(starts, len(places))))
        largest = np.flatnonzero(probabilities == top)
        found[largest[np.diff(places[largest], prepend=-1) != 0]] = 2.0
    return found


def _entries(
    table: NDArray[np.uint64] | SparseTable,
) -> Iterator[tuple[slice, NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]]:
    """Yield rows of the table with their entries one after the other: row, output, and probability of each."""
    n, K = table.shape
    each = K if isinstance(table, np.ndarray) else max(1, table.longest)
    step = max(1, ENTRIES_AT_ONCE // each)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        numbers = np.arange(rows.start, rows.stop)
        if isinstance(table, np.ndarray):
            places, outputs = np.repeat(numbers, K), np.tile(np.arange(K), len(numbers))
            yield rows, places, outputs, table[rows].ravel() / 2.0**TOTAL_BITS
            continue
        ends = table.indptr[start : rows.stop + 1]
        places = np.repeat(numbers, np.diff(ends))
        outputs = table.columns[ends[0] : ends[-1]].astype(np.int64)
        weights = table.weights[ends[0] : ends[-1]] + table.scale[places] * table.background[outputs]
        yield rows, places, outputs, weights / 2.0**TOTAL_BITS


def adversary_figures(mechanism: Mechanism) -> dict[str, float]:
    """Return how often the best guess of the true record is right, before and after seeing the report.

    ``max_i p_i`` and ``sum_k max_i p_i z_ik``, for an adversary who knows the prior and the mechanism.
    """
    prior, table = mechanism.records.prior, mechanism.table
    if isinstance(table, SparseTable):
        after = math.fsum(most_likely(table, prior, prior).joint)
    else:
        after = float((mechanism.probabilities * prior[:, None]).max(axis=0).sum())
    return {"before": float(prior.max()), "after": after}


def shown_fields(mechanism: Mechanism, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Return how much of the table is on the page: entries, those that are not 0, and the share of all reports.

    ``is_all`` says whether an entry that is not on the page is 0.
    """
    table, prior = mechanism.table, mechanism.records.prior
    chances = 2.0 ** (-TOTAL_BITS * (LOG_LEVELS + 1.0 - arrays["levels"]) / LOG_LEVELS)
    by_row = np.add.reduceat(np.append(chances, 0.0), np.minimum(arrays["starts"][:-1], len(chances)))
    by_row[np.diff(arrays["starts"].astype(np.int64)) == 0] = 0.0
    of = table.n_stored if isinstance(table, SparseTable) else int(np.count_nonzero(table))
    return {
        "entries": len(chances),
        "of": of,
        "is_all": len(chances) == of and not (isinstance(table, SparseTable) and table.background.any()),
        "left_out": max(0.0, 1.0 - float(prior @ by_row)),
        "background": background_share(table, prior) if isinstance(table, SparseTable) else None,
    }


def nearest_neighbours(graph: MdpGraph) -> dict[str, NDArray[Any]]:
    """Return for each record the neighbour nearest to it at another place, itself if none, and how far that is."""
    near, distances = np.arange(graph.n, dtype=np.uint32), np.zeros(graph.n, dtype=np.float32)
    apart = graph.distances > 0
    pairs, lengths = graph.pairs[apart], graph.distances[apart]
    order = np.argsort(-lengths, kind="stable")  # of several assignments to one place the last one holds
    for one, other in ((0, 1), (1, 0)):
        found = np.full(graph.n, np.inf)
        candidate = near.copy()
        candidate[pairs[order, one]] = pairs[order, other]
        found[pairs[order, one]] = lengths[order]
        closer = found < np.where(distances > 0, distances, np.inf)
        near[closer], distances[closer] = candidate[closer], found[closer]
    return {"near": near, "near_distances": distances}


def mechanism_fields(mechanism: Mechanism, ground: Sequence[MapFeature]) -> dict[str, Any]:
    """Return all that the page shows of the records, the outputs and the table."""
    records, outputs, graph, table = mechanism.records, mechanism.outputs, mechanism.graph, mechanism.table
    arrays: dict[str, NDArray[Any]] = {
        "prior": records.prior.astype(np.float32),
        "component": graph.labels.astype(np.uint32),
        "neighbours": np.bincount(graph.pairs.ravel(), minlength=records.n).astype(np.uint32),
        "chance": output_chances(table, records.prior).astype(np.float32),
        **nearest_neighbours(graph),
        **table_arrays(table, records.prior),
    }
    fields: dict[str, Any] = {
        "name": records.name,
        "kind": records.kind,
        "metric": mechanism.metric,
        "unit": "km" if mechanism.metric in ("haversine", "street") else "",
        "epsilon": mechanism.epsilon,
        "epsilons": None if mechanism.epsilons is None else mechanism.epsilons.tolist(),
        "eta": mechanism.eta if math.isfinite(mechanism.eta) else None,
        "ids": records.ids,
        "outputs": outputs.ids(records),
        "output_rows": None if outputs.rows is None else outputs.rows.tolist(),
        "adversary": adversary_figures(mechanism),
        "shown": shown_fields(mechanism, arrays),
        "map": None,
    }
    if records.dimension == 2:
        frame = Frame.around(records)
        arrays["places"] = frame.place(records.coordinates).astype(np.float32)
        arrays["output_places"] = frame.place(outputs.coordinates).astype(np.float32)
        ground_arrays, ground_about = ground_fields(ground if records.kind == "places" else (), frame)
        arrays |= ground_arrays
        # a circle of radius eta is drawn where the metric is round
        is_round = mechanism.metric in ("haversine", "euclidean")
        unit = "km" if records.kind == "places" else ""
        fields["map"] = {"scale": frame.scale, "unit": unit, "is_round": is_round, **ground_about}
    return {**fields, "arrays": {name: packed(values) for name, values in arrays.items()}}
