"""Honest mechanism files, edited by somebody who knows the format and puts both hashes right again."""

from __future__ import annotations

import json
import math
from collections import Counter

import numpy as np
from tests.mechanism.damage import sparse
from tests.mechanism.independent import violation
from tests.mechanism.test_files import pack, unpack

import metricdp as mdp
from metricdp.mechanism.exact import ENCLOSURE_BITS, exp_enclosure
from metricdp.metric.distances import CoordinateMetric

TOTAL = 1 << 63
# Relative; how much longer than the true distance a stored one may be and still load. 0 demands that no file loads
# that violates its claim by any amount.
ROUNDING_OF_DISTANCES: dict[str, float] = {}


def honest_files(folder):
    """Small files of every metric, with and without losses, with outputs as rows and as points."""
    square = mdp.Records([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.3, 0.7]], kind="vectors")
    city = mdp.data.road("gothenburg", n=5, seed=3)
    line = np.abs(np.arange(5.0)[:, None] - np.arange(5.0))
    problems = {
        "euclidean": mdp.Problem(square, epsilon=2.0, eta=1.0, outputs=4),
        "euclidean points": mdp.Problem(square, epsilon=0.5, eta=np.inf, outputs=[[0.5, 0.5], [0.1, 0.9], [1.0, 0.2]]),
        "manhattan": mdp.Problem(square, epsilon=1.0, eta=1.3, outputs=5, metric="manhattan"),
        "haversine": mdp.Problem(city, epsilon=1.5, eta=4.0, outputs=4),
        "haversine points": mdp.Problem(
            city, epsilon=0.3, eta=9.0, outputs=[[57.7, 11.9], [57.6, 12.0]], loss="distance"
        ),
        "street": mdp.Problem(city, epsilon=1.0, eta=9.0, outputs=4, metric="street"),
        "matrix": mdp.Problem(np.arange(5.0), epsilon=1.0, eta=2.0, outputs=4, metric=line, loss=line[:, :4]),
    }
    found = []
    for name, problem in problems.items():
        path = folder / f"{name}.mdp"
        mdp.Mechanism.from_matrix(problem, closed(problem)).save(path)
        metadata, tensors = unpack(path)
        found.append((metadata, tensors))
        if "points" not in name:
            without = {key: value for key, value in tensors.items() if key != "losses"}
            found.append(({key: value for key, value in metadata.items() if key != "loss_name"}, without))
    return found + sparse_files(folder, square, city, line)


def sparse_files(folder, square, city, line):
    """The same kinds with sparse tables: with pairs and without, every record an output or not."""
    problems = (
        mdp.Problem(mdp.data.grid(2, 3), epsilon=1.0, eta=1.0, outputs=np.arange(6)),
        mdp.Problem(square, epsilon=2.0, eta=1.0, outputs=np.arange(5)),
        mdp.Problem(square, epsilon=1.0, eta=1.3, outputs=[4, 2, 0], metric="manhattan"),
        mdp.Problem(square, epsilon=0.5, eta=np.inf, outputs=[[0.5, 0.5], [0.1, 0.9], [1.0, 0.2]]),
        mdp.Problem(city, epsilon=1.5, eta=4.0, outputs=np.arange(5)),
        mdp.Problem(np.arange(5.0), epsilon=1.0, eta=2.0, outputs=np.arange(5), metric=line, loss=line),
    )
    found = []
    for problem in problems:
        sparse(problem).save(folder / "sparse.mdp")
        found.append(unpack(folder / "sparse.mdp"))
    return found


def closed(problem):
    """A private matrix at many of its limits: each output as likely as it can be for whom it costs least."""
    best = np.exp(-problem.loss / problem.loss.mean())
    reached = problem.graph.closure(best, problem.epsilon)
    return reached / reached.sum(axis=1, keepdims=True)


def ulps(value, steps):
    for _ in range(abs(steps)):
        value = np.nextafter(value, np.inf if steps > 0 else -np.inf)
    return float(value)


def nudged(rng, value):
    """A float a little or much different."""
    choices = (ulps(value, 1), ulps(value, -1), ulps(value, 3), value * (1 + 1e-12), value * (1 - 1e-12), value * 2.0)
    rest = (value / 2.0, 0.0, -0.0, -value, math.nan, math.inf, 5e-324, 1e308)
    return float((choices + choices + rest)[rng.integers(2 * len(choices) + len(rest))])


def somewhere(rng, array):
    return tuple(int(rng.integers(n)) for n in array.shape)


def move(table, row, k, amount):
    """Move weight to one output of a row from its largest other one."""
    others = [o for o in range(table.shape[1]) if o != k]
    donor = max(others, key=lambda o: int(table[row, o]))
    amount = max(-int(table[row, k]), min(amount, int(table[row, donor])))
    table[row, k] = (int(table[row, k]) + amount) % 2**64
    table[row, donor] = int(table[row, donor]) - amount


def edit_weight(rng, metadata, tensors):
    i, k = somewhere(rng, tensors["table"])
    tensors["table"][i, k] = (int(tensors["table"][i, k]) + int(rng.choice([-1, 1, 2**20]))) % 2**64


def edit_move(rng, metadata, tensors):
    table = tensors["table"]
    if table.shape[1] > 1:
        move(table, *somewhere(rng, table), int(rng.choice([-1, 1, 2**10, 2**40, -(2**40), 2**60, -(2**62)])))


def edit_to_the_limit(rng, metadata, tensors):
    """As much weight as the stored distance allows, to one unit; a distance that is too long then shows at once."""
    table, pairs = tensors["table"], tensors["pairs"]
    epsilon = float.fromhex(metadata["epsilon"])
    if not len(pairs) or table.shape[1] < 2 or not 0 < epsilon < 1e3:
        return
    for _ in range(int(rng.integers(1, 6))):
        p = int(rng.integers(len(pairs)))
        i, j = (int(v) for v in (pairs[p] if rng.random() < 0.5 else pairs[p][::-1]))
        k, distance = int(rng.integers(table.shape[1])), float(tensors["distances"][p])
        if max(i, j) < len(table) and min(i, j) >= 0 and 0 < distance < 40 / epsilon:
            limit = exp_enclosure(epsilon, distance) * int(table[j, k]) >> ENCLOSURE_BITS
            move(table, i, k, limit + int(rng.choice([0, 0, 0, 1, -1])) - int(table[i, k]))


def edit_long_and_to_the_limit(rng, metadata, tensors):
    """The strongest lie: a distance a hair too long, and the table at its limit."""
    d = tensors["distances"]
    if len(d):
        d *= 1.0 + float(rng.choice([2.0**-52, 2.0**-51, 1e-15, 1e-14, 1e-13, 1e-12]))
        for _ in range(10):
            edit_to_the_limit(rng, metadata, tensors)


def edit_pairs(rng, metadata, tensors):
    if not len(tensors.get("pairs", ())):
        tensors["pairs"], tensors["distances"] = np.array([[0, 1]], dtype="<i4"), np.array([float(rng.random())])
        return
    pairs, d = tensors["pairs"], tensors["distances"]
    p = int(rng.integers(len(pairs)))
    match rng.integers(6):
        case 0:
            tensors["pairs"], tensors["distances"] = np.delete(pairs, p, axis=0), np.delete(d, p)
        case 1:
            tensors["pairs"], tensors["distances"] = np.insert(pairs, p, pairs[p], axis=0), np.insert(d, p, d[p])
        case 2:
            order = rng.permutation(len(pairs))
            tensors["pairs"], tensors["distances"] = pairs[order].copy(), d[order].copy()
        case 3:
            pairs[p] = pairs[p][::-1].copy()
        case 4:
            pairs[p, rng.integers(2)] = rng.integers(-2, len(tensors["prior"]) + 2)
        case _:
            tensors["pairs"], tensors["distances"] = pairs[:0].copy(), d[:0].copy()


def edit_distance(rng, metadata, tensors):
    if len(tensors.get("distances", ())):
        p = int(rng.integers(len(tensors["distances"])))
        tensors["distances"][p] = nudged(rng, tensors["distances"][p])


def edit_budget(rng, metadata, tensors):
    key = str(rng.choice(["epsilon", "eta"]))
    metadata[key] = nudged(rng, float.fromhex(metadata[key])).hex()


def edit_eta_to_a_distance(rng, metadata, tensors):
    """Pairs at exactly eta, or one step beyond."""
    points = tensors["records"]
    if metadata["metric"] in CoordinateMetric.NAMES and len(points) > 1 and points.shape[1:] == (2,):
        i, j = rng.choice(len(points), 2, replace=False)
        with np.errstate(all="ignore"):
            far = float(CoordinateMetric(metadata["metric"]).elementwise(points[i], points[j]))
        metadata["eta"] = ulps(far, int(rng.integers(-1, 2))).hex()


def edit_record(rng, metadata, tensors):
    points = tensors["records"]
    if rng.random() < 0.3:
        a, b = rng.integers(len(points), size=2)
        points[[a, b]] = points[[b, a]]
    else:
        place = somewhere(rng, points)
        points[place] = nudged(rng, points[place])


def edit_ids(rng, metadata, tensors):
    ids = json.loads(metadata["ids"])
    if not isinstance(ids, list) or not ids:
        return
    match rng.integers(4):
        case 0:
            ids.reverse()
        case 1:
            ids[0] = ids[-1]
        case 2:
            ids.pop()
        case _:
            ids[0] = rng.choice([1, None, "", "=1+1"], size=1).tolist()[0]
    metadata["ids"] = json.dumps(ids)


def edit_name(rng, metadata, tensors):
    names = ["haversine", "euclidean", "manhattan", "street", "matrix", "function f", "Euclidean", ""]
    if rng.random() < 0.7:
        metadata["metric"] = str(rng.choice(names))
    else:
        metadata["kind"] = str(rng.choice(["places", "vectors", "planets"]))


def edit_outputs(rng, metadata, tensors):
    n = len(tensors["prior"])
    outputs = tensors.setdefault("outputs", rng.permutation(n).astype("<i4"))
    place = somewhere(rng, outputs)
    if outputs.dtype == np.dtype("<i4"):
        outputs[place] = rng.integers(-1, len(tensors["prior"]) + 1)
    else:
        outputs[place] = nudged(rng, outputs[place])
    if rng.random() < 0.2:
        tensors["outputs"] = outputs[::-1].copy()


def edit_shape(rng, metadata, tensors):
    name = str(rng.choice(sorted(tensors)))
    value = tensors[name]
    match rng.integers(5):
        case 0 if value.ndim == 2:
            tensors[name] = np.ascontiguousarray(value.T)
        case 1:
            tensors[name] = value[:-1].copy()
        case 2 if value.ndim == 2:
            tensors[name] = np.ascontiguousarray(value[:, :-1])
        case 3:
            tensors[name] = np.concatenate((value, value[:1]))
        case _:
            tensors[name] = value.reshape(-1).copy()


def edit_metadata(rng, metadata, tensors):
    if rng.random() < 0.5:
        metadata.pop(str(rng.choice(sorted(set(metadata) - {"ids", "epsilon", "eta", "metric"}))))
    else:
        metadata[str(rng.choice(["loss", "lower_bound", "note", "loss_name", "loss_kind"]))] = (1.0).hex()


def edit_prior(rng, metadata, tensors):
    prior = tensors["prior"]
    if rng.random() < 0.5:
        prior[rng.integers(len(prior))] = nudged(rng, 0.2)
    else:
        prior *= float(rng.choice([0.0, 2.0, 1e300, 1e-320]))


def edit_losses(rng, metadata, tensors):
    if "losses" in tensors and rng.random() < 0.7:
        place = somewhere(rng, tensors["losses"])
        tensors["losses"][place] = nudged(rng, tensors["losses"][place])
    else:
        shape = tensors["table"].shape if "table" in tensors else (len(tensors["prior"]), len(tensors["background"]))
        tensors["losses"] = np.ones(shape)


def own(tensors, row):
    """The places of a row's stored weights."""
    return slice(*(int(v) for v in tensors["indptr"][row : row + 2]))


def settle(tensors, row):
    """Put the sum of a row right at its largest stored weight, if that can be done."""
    weights = tensors["weights"][own(tensors, row)]
    if not len(weights) or row >= len(tensors["scale"]):  # an edit before this one may have cut it
        return
    rest = TOTAL - sum(map(int, weights)) - int(tensors["scale"][row]) * sum(map(int, tensors["background"]))
    most = int(weights.argmax())
    weights[most] = (int(weights[most]) + rest) % 2**64


def sparse_edit_weight(rng, metadata, tensors):
    place = somewhere(rng, tensors["weights"])
    amounts = [-1, 1, 2**20, -(2**40), 2**60, -int(tensors["weights"][place])]
    tensors["weights"][place] = (int(tensors["weights"][place]) + int(amounts[rng.integers(6)])) % 2**64
    if rng.random() < 0.7:
        settle(tensors, int(np.searchsorted(tensors["indptr"], place[0], side="right")) - 1)


def sparse_edit_background(rng, metadata, tensors):
    k = int(rng.integers(len(tensors["background"])))
    factor = float(rng.choice([0.0, 0.5, 0.999999, 1.000001, 1.5, 3.0]))
    tensors["background"][k] = int(int(tensors["background"][k]) * factor) + int(rng.choice([-1, 0, 1])) & (2**64 - 1)
    for row in range(len(tensors["scale"]) if rng.random() < 0.8 else 0):
        settle(tensors, row)


def sparse_edit_scale(rng, metadata, tensors):
    row = int(rng.integers(len(tensors["scale"])))
    factor = float(rng.choice([0.0, 0.3, 0.7, 0.999999, 1.0, 1.000001, 1.4]))
    tensors["scale"][row] = max(0, int(int(tensors["scale"][row]) * factor) + int(rng.choice([-1, 0, 1])))
    if rng.random() < 0.8:
        settle(tensors, row)


def sparse_edit_to_the_limit(rng, metadata, tensors):
    """A scale as different as the distance to a neighbour allows, or one unit more."""
    epsilon, points = float.fromhex(metadata["epsilon"]), tensors["records"]
    if metadata["metric"] not in CoordinateMetric.NAMES or not 0 < epsilon < 10 or points.shape[1:] != (2,):
        return
    i, j = rng.choice(len(points), 2, replace=False)
    with np.errstate(all="ignore"):
        far = float(CoordinateMetric(metadata["metric"]).elementwise(points[i], points[j]))
    if 0 < far < 2 / epsilon:
        far = ulps(far, int(rng.integers(-8, 9)))
        limit = exp_enclosure(epsilon, far) * int(tensors["scale"][j]) >> ENCLOSURE_BITS
        tensors["scale"][i] = limit + int(rng.choice([0, 0, 1, 2**20]))
        settle(tensors, int(i))


def sparse_edit_columns(rng, metadata, tensors):
    place = somewhere(rng, tensors["columns"])
    tensors["columns"][place] += int(rng.choice([-1, 1, 2**30, -(2**31)]))


def sparse_edit_indptr(rng, metadata, tensors):
    """Rows that begin elsewhere: weights go to a neighbour in the file."""
    place = somewhere(rng, tensors["indptr"])
    tensors["indptr"][place] += int(rng.choice([-1, 1, 2**40, -(2**40)]))
    for row in range(len(tensors["scale"]) if rng.random() < 0.8 else 0):
        if 0 <= tensors["indptr"][row] <= tensors["indptr"][row + 1] <= len(tensors["weights"]):
            settle(tensors, row)


DENSE_EDITS = [edit_weight, edit_move, edit_to_the_limit, edit_long_and_to_the_limit]
SPARSE_EDITS = [value for name, value in sorted(globals().items()) if name.startswith("sparse_edit_")]
EDITS = SPARSE_EDITS + [value for name, value in sorted(globals().items()) if name.startswith("edit_")]


def edited_files(folder, count, *, seed=0, originals=None):
    """Yield ``count`` files that were edited and sealed again: the edits, the metadata, and the path."""
    rng = np.random.default_rng(seed)
    originals, path = honest_files(folder) if originals is None else originals, folder / "edited.mdp"
    for number in range(count):
        chosen = [EDITS[number % len(EDITS)]]
        chosen += [EDITS[rng.integers(len(EDITS))] for _ in range(int(rng.choice([0, 0, 1, 2])))]
        is_sparse = chosen[0] in SPARSE_EDITS or (chosen[0] not in DENSE_EDITS and rng.random() < 0.5)
        chosen = [edit for edit in chosen if edit not in (DENSE_EDITS if is_sparse else SPARSE_EDITS)]
        suitable = [one for one in originals if ("scale" in one[1]) == is_sparse]
        metadata, tensors = suitable[rng.integers(len(suitable))]
        metadata, tensors = dict(metadata), {name: value.copy() for name, value in tensors.items()}
        with np.errstate(all="ignore"):
            # shapes last: the others look for what they change
            for edit in sorted(chosen, key=lambda edit: edit is edit_shape):
                edit(rng, metadata, tensors)
        pack(path, metadata, tensors)
        yield [edit.__name__ for edit in chosen], metadata, path


def attack(folder, count, *, seed=0, rounding=ROUNDING_OF_DISTANCES):
    """Edit ``count`` files; the number loaded and refused by each kind of edit, and what is violated by which."""
    seen, found = Counter(), []
    for number, (names, metadata, path) in enumerate(edited_files(folder, count, seed=seed)):
        try:
            mechanism = mdp.load(path)
        except (mdp.FileFormatError, mdp.CertificationError):
            seen[names[0], "refused"] += 1
            continue
        seen[names[0], "loaded"] += 1
        claim = (float.fromhex(metadata["epsilon"]), float.fromhex(metadata["eta"]), metadata["metric"])
        if (mechanism.epsilon, mechanism.eta, mechanism.metric) != claim:
            found.append((number, names, "another claim than the file's"))
        fault = violation(mechanism, rounding=rounding.get(mechanism.metric, 0.0))
        if fault:
            found.append((number, names, fault))
    return seen, found
