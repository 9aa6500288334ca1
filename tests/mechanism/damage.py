"""Mechanism files taken apart and put together by hand, and sparse ones damaged in every way that a reader must see."""

from __future__ import annotations

import json
import struct

import numpy as np

import metricdp as mdp
from metricdp.mechanism.container import metadata_hash, tensor_hash
from metricdp.mechanism.sparse import SparseTable

TYPES = {"U64": "<u8", "I64": "<i8", "I32": "<i4", "F64": "<f8", "F32": "<f4"}
TOTAL = 1 << 63


def split(data):
    """The header of a file, and its tensors as bytes."""
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def join(header, body):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def unpacked(data):
    header, body = split(data)
    metadata = header.pop("__metadata__")
    return metadata, {
        name: np.frombuffer(body[slice(*entry["data_offsets"])], TYPES[entry["dtype"]]).reshape(entry["shape"]).copy()
        for name, entry in header.items()
    }


def packed(metadata, tensors, *, seal=True):
    """The bytes of a file, hashes put right unless told otherwise: an editor who knows the format."""
    if seal:
        metadata = {**metadata, "sha256": tensor_hash(tensors)}
        metadata["metadata_sha256"] = metadata_hash(metadata)
    names = {np.dtype(value): key for key, value in TYPES.items()}
    header, body = {"__metadata__": metadata}, b""
    for name, value in tensors.items():
        raw = value.tobytes()
        place = [len(body), len(body) + len(raw)]
        header[name] = {"dtype": names[value.dtype], "shape": list(value.shape), "data_offsets": place}
        body += raw
    return join(header, body)


def sparse(problem):
    """A sparse mechanism: probabilities fall by half the budget towards a background, rows have scales of their own.

    ``max(exp(-epsilon D / 2), floor)`` is private at half the budget, and its rows divided by their sums at the whole.
    """
    if problem.outputs.rows is None:
        far = problem.losses.whole()  # distances
    else:
        far = problem.graph.path_distances(np.arange(problem.records.n))[:, problem.outputs.rows]
    near = np.quantile(far[np.isfinite(far)], 0.6)
    floor = np.exp(-problem.epsilon * near / 2)
    taste = 1.0 + np.arange(problem.outputs.n) % 3 / 4  # of the outputs: exact in few bits
    wanted = np.maximum(np.exp(-problem.epsilon * far / 2), floor) * taste
    wanted *= 0.99 * 2.0**63 / wanted.sum(axis=1, keepdims=True)  # the rest goes where most is
    background = (taste * 2.0**20).astype(np.uint64)
    scale = np.floor((wanted / taste).min(axis=1) / 2.0**20).astype(np.uint64)
    local = np.where(far < near, wanted - scale[:, None] * background, 0.0).astype(np.uint64)
    best = np.where(far < near, far, np.inf).argmin(axis=1)
    for i, k in enumerate(best):
        local[i, k] = 0
        others = sum(int(v) for v in local[i]) + int(scale[i]) * sum(int(v) for v in background)
        local[i, k] = TOTAL - others
    rows, columns = np.nonzero(local)
    indptr = np.r_[0, np.cumsum(np.bincount(rows, minlength=len(local)))]
    parts = (indptr.astype(np.int64), columns.astype(np.int32), local[rows, columns], background, scale)
    return mdp.Mechanism.of(problem, SparseTable(*parts))


# edits of the content, sealed again; what the refusal says
def change(name, place, amount):
    def edit(_metadata, tensors):
        tensors[name][place] = int(tensors[name][place]) + amount

    return edit


def put(name, place, value):
    def edit(_metadata, tensors):
        tensors[name][place] = value

    return edit


def tensor(name, make):
    def edit(_metadata, tensors):
        tensors[name] = make(tensors)

    return edit


def word(**changes):
    def edit(metadata, _tensors):
        metadata |= changes
        for key in [key for key, value in metadata.items() if value is None]:
            del metadata[key]

    return edit


def without(*names):
    def edit(_metadata, tensors):
        for name in names:
            del tensors[name]

    return edit


def swap_two(_metadata, tensors):
    for name in ("columns", "weights"):
        tensors[name][:2] = tensors[name][1::-1].copy()


def overflow(_metadata, tensors):
    """A scale that makes the sum come out right in 64 bits: 2^63 more than it should, twice."""
    tensors["background"][:] = 0
    tensors["background"][0] = 1 << 40
    tensors["scale"][0] = int(tensors["scale"][0]) + (1 << 24)
    rest = sum(int(w) for w in tensors["weights"][1 : tensors["indptr"][1]])
    tensors["weights"][0] = (TOTAL - rest - (int(tensors["scale"][0]) << 40)) % (1 << 64)


def three_halves(_metadata, tensors):
    """Three weights of 2^63 sum to 2^63 in 64 bits."""
    first = slice(0, 3)
    tensors["weights"][first] = TOTAL
    tensors["weights"][3 : tensors["indptr"][1]] = 1
    tensors["background"][:] = 0


def moved_weight(_metadata, tensors):
    """Half of the largest weight of a row goes to another output: the sum is right, the privacy is gone."""
    own = tensors["weights"][: tensors["indptr"][1]]
    give = int(own.argmax())
    take = int(own.argmin())
    half = int(own[give]) // 2
    own[give] = int(own[give]) - half
    own[take] = int(own[take]) + half


def smaller_scale(_metadata, tensors):
    """A row holds the background a third as often, and what is left over goes to its largest weight."""
    own = tensors["weights"][: tensors["indptr"][1]]
    less = 2 * int(tensors["scale"][0]) // 3
    tensors["scale"][0] = int(tensors["scale"][0]) - less
    own[int(own.argmax())] = int(own.max()) + less * sum(int(b) for b in tensors["background"])


def identity(_metadata, tensors):
    """Everybody reports the truth: private only where nobody has a neighbour."""
    n = len(tensors["scale"])
    tensors["indptr"] = np.arange(n + 1, dtype="<i8")
    tensors["columns"] = np.arange(n, dtype="<i4")
    tensors["weights"] = np.full(n, TOTAL, dtype="<u8")
    tensors["background"] = np.zeros(n, dtype="<u8")


def stored_pairs(keep):
    def edit(_metadata, tensors):
        tensors["pairs"] = np.array([[0, 1], [0, 3], [1, 2]], dtype="<i4")[:keep]
        tensors["distances"] = np.ones(keep)

    return edit


BROKEN = "does not satisfy its claims"
EDITS = {
    "indptr does not begin with 0": (put("indptr", 0, 1), "must follow one another"),
    "indptr begins below 0": (put("indptr", 0, -1), "must follow one another"),
    "indptr descends": (put("indptr", 1, 10**6), "must follow one another"),
    "indptr ends before the last weight": (change("indptr", -1, -1), "must follow one another"),
    "indptr ends after the last weight": (change("indptr", -1, 1), "must follow one another"),
    "columns in another order": (swap_two, "ascending order"),
    "a column twice": (tensor("columns", lambda t: np.r_[t["columns"][1], t["columns"][1:]]), "ascending order"),
    "a column below 0": (put("columns", 0, -1), "does not exist"),
    "a column that does not exist": (put("columns", 5, 6), "does not exist"),
    "a weight of 0": (put("weights", 0, 0), "a weight of 0"),
    "a sum one too large": (change("weights", 0, 1), "sums to more than 2^63"),
    "a sum one too small": (change("weights", 0, -1), BROKEN),
    "a background one larger": (change("background", 0, 1), "sums to more than 2^63"),
    "a background one smaller": (change("background", 0, -1), BROKEN),
    "a scale one larger": (change("scale", 2, 1), "sums to more than 2^63"),
    "a scale one smaller": (change("scale", 2, -1), BROKEN),
    "a scale of 0": (put("scale", 3, 0), "is 0: give at least 1"),
    "a scale that overflows": (overflow, "sums to more than 2^63"),
    "weights that overflow": (three_halves, "sums to more than 2^63"),
    "a background that overflows": (tensor("background", lambda _: np.full(6, TOTAL, dtype="<u8")), "more than 2^63"),
    "moved weight": (moved_weight, BROKEN),
    "a third of the scale": (smaller_scale, BROKEN),
    "the truth for everybody": (identity, BROKEN),
    "half the epsilon": (word(epsilon=(0.5).hex()), BROKEN),
    "eta of 0": (word(eta=(0.0).hex()), "must be positive"),
    "no eta": (word(eta="nan"), "must be positive"),
    "a negative eta": (word(eta=(-1.0).hex()), "must be positive"),
    "an infinite epsilon": (word(epsilon="inf"), "positive and finite"),
    "epsilon in another notation": (word(epsilon="0x1p0"), "as float.hex writes it"),
    "a metric of places": (word(metric="haversine"), "needs latitude and longitude"),
    "an unknown metric": (word(metric="Euclidean", loss_kind=None), "holds no pairs"),
    "a metric without pairs": (word(metric="matrix", loss_kind=None), "holds no pairs"),
    "a street metric without pairs": (word(metric="street", loss_kind="absent"), "holds no pairs"),
    "records closer together": (tensor("records", lambda t: t["records"] / 2), BROKEN),
    "records in one place": (tensor("records", lambda t: t["records"] * 0), BROKEN),
    "a record that is nowhere": (put("records", (0, 0), np.nan), "must be finite"),
    "pairs without distances": (tensor("pairs", lambda _: np.zeros((0, 2), dtype="<i4")), "do not fit together"),
    "distances without pairs": (tensor("distances", lambda _: np.zeros(0)), "do not fit together"),
    "some of the pairs": (stored_pairs(3), "not among the protected pairs"),
    "none of the pairs": (stored_pairs(0), "not among the protected pairs"),
    "outputs twice": (tensor("outputs", lambda _: np.zeros(6, dtype="<i4")), "more than once"),
    "outputs that do not exist": (tensor("outputs", lambda _: np.arange(1, 7, dtype="<i4")), "does not exist"),
    "too few outputs": (tensor("outputs", lambda _: np.arange(5, dtype="<i4")), "do not fit together"),
    "too long a background": (tensor("background", lambda t: np.r_[t["background"], t["scale"][:1]]), "do not fit"),
    "too many scales": (tensor("scale", lambda t: np.r_[t["scale"], t["scale"][:1]]), "do not fit together"),
    "too short an indptr": (tensor("indptr", lambda t: t["indptr"][:-1].copy()), "do not fit together"),
    "a weight more": (tensor("weights", lambda t: np.r_[t["weights"], t["weights"][:1]]), "do not fit together"),
    "a column more": (tensor("columns", lambda t: np.r_[t["columns"], t["columns"][:1]]), "do not fit together"),
    "weights of another type": (tensor("weights", lambda t: t["weights"].astype("<i8")), "weights is I64"),
    "columns of another type": (tensor("columns", lambda t: t["columns"].astype("<i8")), "columns is I64"),
    "indptr of another type": (tensor("indptr", lambda t: t["indptr"].astype("<u8")), "indptr is U64"),
    "indptr in two rows": (tensor("indptr", lambda t: np.stack([t["indptr"]] * 2)), "indptr is I64"),
    "scale in a column": (tensor("scale", lambda t: t["scale"][:, None].copy()), "scale is U64"),
    "single precision": (tensor("prior", lambda t: t["prior"].astype("<f4")), "not described properly"),
    "a dense table as well": (tensor("table", lambda _: np.full((6, 6), TOTAL // 6, dtype="<u8")), "has the tensors"),
    "an unknown tensor": (tensor("more", lambda _: np.zeros(1)), "has the tensors"),
    "no scale": (without("scale"), "has the tensors"),
    "no indptr": (without("indptr"), "has the tensors"),
    "the name of the dense format": (word(format="metricdp-1"), "unknown ['loss_kind']"),
    "an unknown format": (word(format="metricdp-9"), "has format 'metricdp-9'"),
    "no format": (word(format=None), "has format None"),
    "unknown metadata": (word(more=""), "unknown ['more']"),
    "distances that are not known": (word(metric="street"), "are not known"),
    "an unknown kind of losses": (word(loss_kind="toll"), "are not known"),
    "losses that are not there": (word(loss_kind="given"), "those of others"),
    "ways that are not there": (word(loss_kind="travel"), "those of others"),
    "losses of another kind": (tensor("losses", lambda _: np.zeros((6, 6))), "those of others"),
    "ways of another kind": (tensor("travel", lambda _: np.zeros((6, 1))), "those of others"),
    "losses of another shape": (tensor("losses", lambda _: np.zeros((6, 5))), "do not fit together"),
    "ways of too few records": (tensor("travel", lambda _: np.zeros((5, 1))), "do not fit together"),
    "no ways at all": (tensor("travel", lambda _: np.zeros((6, 0))), "do not fit together"),
    "a name twice among the ids": (word(ids=json.dumps(["a"] * 6)), "must be unique"),
    "an impossible loss": (word(loss=(1.0).hex(), lower_bound=(2.0).hex()), "0 <= lower bound <= loss"),
    "half a bound": (word(loss=(1.0).hex()), "cannot be read"),
    "no prior": (tensor("prior", lambda t: t["prior"] * 0), "the prior is zero"),
}  # fmt: skip


def nobody_near(metadata, tensors):
    identity(metadata, tensors)
    metadata["eta"] = (0.5).hex()


# edits after which a file still holds what it claims
HARMLESS = {
    "a larger epsilon": word(epsilon=(2.0).hex()),
    "a larger eta": word(eta=(2.5).hex()),
    "an infinite eta": word(eta="inf"),
    "a metric that measures longer": word(metric="manhattan", eta=(3.0).hex()),
    "the truth where nobody is near": nobody_near,
    "records farther apart": tensor("records", lambda t: t["records"] * 1.5),
    "all of the pairs": lambda metadata, tensors: tensors.update(all_pairs()),
    "outputs that are written": tensor("outputs", lambda _: np.arange(6, dtype="<i4")),
    "outputs in another order": tensor("outputs", lambda _: np.arange(5, -1, -1, dtype="<i4")),
    "outputs that are points": tensor("outputs", lambda t: t["records"] + 0.5),
    "losses that are given": lambda metadata, tensors: (
        word(loss_kind="given")(metadata, tensors) or tensors.update(losses=np.ones((6, 6)))
    ),
    "ways to destinations": lambda metadata, tensors: (
        word(loss_kind="travel")(metadata, tensors) or tensors.update(travel=np.arange(12.0).reshape(6, 2))
    ),
    "no losses": word(loss_kind="absent"),
    "nothing about losses": word(loss_kind=None, loss_name=None),
    "a loss and a bound": word(loss=(2.0).hex(), lower_bound=(1.0).hex()),
    "names beyond ASCII": word(name='Göteborg "\\/\u2028😀\x7f\n', ids=json.dumps([*"aöü😀\x01", '"'])),
}


def all_pairs():
    graph = grid_problem().graph
    return {"pairs": graph.pairs.copy(), "distances": graph.distances.copy()}


# damage to the bytes of a file
def header_edit(edit):
    def damage(data):
        header, body = split(data)
        edit(header)
        return join(header, body)

    return damage


def entry(name, **changes):
    return header_edit(lambda header: header[name].update(changes))


def header_text(old, new):
    def damage(data):
        length = struct.unpack("<Q", data[:8])[0]
        return join(data[8 : 8 + length].replace(old, new, 1), data[8 + length :])

    return damage


def overlapping(header):
    """Two tensors of equal size in one place."""
    header["scale"]["data_offsets"] = header["background"]["data_offsets"]


def unsealed(data):
    metadata, tensors = unpacked(data)
    tensors["prior"][:2] += np.array([0.01, -0.01])
    return packed(metadata, tensors, seal=False)


RAW = {
    "nothing": (lambda _: b"", "cut short"),
    "seven bytes": (lambda data: data[:7], "cut short"),
    "cut in the header": (lambda data: data[:100], "cut short"),
    "cut in the tensors": (lambda data: data[:-1], "does not fit into the file"),
    "a byte more": (lambda data: data + b"\0", "belong to no tensor"),
    "a header without end": (lambda data: struct.pack("<Q", 2**62) + data[8:], "cut short"),
    "a header of 32 MB": (lambda data: struct.pack("<Q", 32_000_001) + data[8:], "cut short"),
    "another encoding": (lambda data: join(json.dumps(split(data)[0]).encode("utf-16"), split(data)[1]), "not a mech"),
    "brackets within brackets": (lambda data: join(b"[" * 100_000, split(data)[1]), "not a mechanism file"),
    "a list as header": (lambda data: join([], split(data)[1]), "not a table"),
    "no number": (header_text(b'"dtype"', b'"x":NaN,"dtype"'), "header cannot be read"),
    "a tensor twice": (header_text(b'"scale":', b'"scale":{},"scale":'), "twice"),
    "epsilon twice": (header_text(b'"epsilon":', b'"epsilon":"","epsilon":'), "twice"),
    "more about a tensor": (entry("scale", more=1), "scale is U64"),
    "less about a tensor": (header_edit(lambda header: header["scale"].pop("shape")), "not described properly"),
    "a size that is no whole number": (entry("scale", shape=[6.0]), "scale is U64"),
    "a size that is true": (entry("scale", shape=[True]), "scale is U64"),
    "a negative size": (entry("scale", shape=[-6]), "scale is U64"),
    "a size beyond memory": (entry("weights", shape=[10**15], data_offsets=[0, 8 * 10**15]), "does not fit into"),
    "a size beyond 64 bits": (entry("weights", shape=[2**61 + 1]), "does not fit into the file"),
    "tensors in one place": (header_edit(overlapping), "overlap or leave gaps"),
    "no metadata": (header_edit(lambda header: header.pop("__metadata__")), "has no metadata"),
    "metadata that are no text": (header_edit(lambda header: header["__metadata__"].update(eta=1.5)), "no metadata"),
    "changed metadata": (header_edit(lambda header: header["__metadata__"].update(solver="x")), "hash does not match"),
    "a changed tensor": (unsealed, "hash does not match"),
    "a changed bit": (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "hash does not match"),
}  # fmt: skip


def damaged(data):
    """Yield name, bytes and what a refusal says, for all damages of a sparse file of `grid_problem`."""
    for name, (edit, said) in EDITS.items():
        metadata, tensors = unpacked(data)
        edit(metadata, tensors)
        yield name, packed(metadata, tensors), said
    for name, (damage, said) in RAW.items():
        yield name, damage(data), said


def harmless(data):
    """Yield name and bytes for all harmless edits of the same file."""
    for name, edit in HARMLESS.items():
        metadata, tensors = unpacked(data)
        edit(metadata, tensors)
        yield name, packed(metadata, tensors)


def grid_problem():
    """Six records, each an output, neighbours at distance 1: nothing but the table needs storing."""
    return mdp.Problem(mdp.data.grid(2, 3), epsilon=1.0, eta=1.0, outputs=np.arange(6), loss="distance")


def problems():
    """Problems of every kind of metric, outputs and losses."""
    city = mdp.data.road("gothenburg", n=12, seed=3)
    corner = mdp.Records([[0.1, 0.2], [0.4, 0.6], [0.9, 0.3], [0.7, 0.7]], kind="vectors", prior=[1, 2, 3, 4])
    line = np.abs(np.arange(5.0)[:, None] - np.arange(5.0))
    return {
        "grid": grid_problem(),
        "travel": mdp.Problem(city, epsilon=0.7, eta=4.0, outputs=np.arange(12)),
        "travel by streets": mdp.Problem(city, epsilon=0.7, eta=6.0, outputs=np.arange(12), metric="street"),
        "rows": mdp.Problem(corner, epsilon=2.0, eta=np.inf, outputs=[3, 1, 0], metric="manhattan"),
        "points": mdp.Problem(corner, epsilon=2.0, eta=1.0, outputs=[[0.5, 0.5], [0.0, 1.0]]),
        "matrix": mdp.Problem(np.arange(5.0), epsilon=1.0, eta=2.0, outputs=np.arange(5), metric=line, loss=line),
    }
