"""Mechanisms for every point of a region: the exact check, drawing, files."""

from __future__ import annotations

import copy
import json
import math
import pickle
import sys
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from tests.mechanism.damage import packed, unpacked
from tests.mechanism.plane_exact import distribution, is_private

import metricdp as mdp
from metricdp.data.region import Region
from metricdp.errors import CertificationError, FileFormatError, InputError
from metricdp.mechanism import plane_certify
from metricdp.mechanism.container import metadata_hash
from metricdp.mechanism.plane import PlaneMechanism
from metricdp.mechanism.plane_certify import check_plane, exact_weights, is_nearly_flat
from metricdp.mechanism.plane_inequalities import check_region
from metricdp.problem.outputs import Outputs

TOTAL = 1 << 63


def whole_rows(Z):
    """Whole numbers in proportion to rows of floats, each row summing to 2^63."""
    Z = np.asarray(Z, dtype=float)
    table = np.floor(Z / Z.sum(axis=1, keepdims=True) * 2.0**63 * (1.0 - 2.0**-48)).astype(np.uint64)
    largest = table.argmax(axis=1)
    for row, k in enumerate(largest):
        table[row, k] += np.uint64(TOTAL - sum(int(v) for v in table[row]))
    return table


def decaying(region, outputs, rate):
    """Rows that fall by exp(-rate distance) with the planar distance to each output."""
    nodes = region.records.coordinates
    scale = np.array([float(side) for side in region.sides]) * region.cells / np.subtract(region.high, region.low)
    away = np.linalg.norm((nodes[:, None] - outputs[None]) * scale, axis=2)
    return whole_rows(np.exp(-rate * away))


ROME = mdp.data.region(41.88, 12.46, 41.898, 12.484, spacing=0.4)
PLACES = np.array([[41.885, 12.465], [41.895, 12.47], [41.89, 12.48], [41.881, 12.483]])


@pytest.fixture(scope="module")
def mechanism():
    table = decaying(ROME, PLACES, 0.45)
    return PlaneMechanism(table, ROME, Outputs.of(PLACES, ROME.records, seed=0), 1.0)


def test_the_check_agrees_with_fractions_on_random_tables():
    rng = np.random.default_rng(0)
    sides, seen = (Fraction(1, 3), Fraction(1, 2)), set()
    for _ in range(60):
        table = whole_rows(1.0 + rng.uniform(0.05, 0.6) * rng.random((5 * 4, 2)))
        check = check_plane(table, (5, 4), 0.5, sides)
        assert check.certified == is_private(table, (3, 2), 0.5, sides), check
        seen.add(check.certified)
    assert seen == {True, False}


def test_the_weights_are_rounded_up():
    for epsilon, side in ((1.0, Fraction(1, 3)), (math.pi, Fraction(2, 7))):
        w, _ = exact_weights(epsilon, (side, side))
        exact = 2**64 / (Fraction(epsilon) * side) ** 2
        assert exact <= w < exact + 1


def least_violation(table, row, k, other, shape, epsilon, sides):
    """The least amount that, moved from ``other`` to ``k`` in a row, breaks the inequality: by bisection."""

    def moved(amount):
        changed = table.copy()
        changed[row, k] += np.uint64(amount)
        changed[row, other] -= np.uint64(amount)
        return changed

    def passes(amount):
        return check_plane(moved(amount), shape, epsilon, sides).certified

    low, high = 0, int(table[row, other])
    assert not passes(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return moved(low), moved(high)


LATTICES = {
    "vectors": (mdp.data.region(0.0, 0.0, 2 / 3, 9 / 8, spacing=0.375, kind="vectors"), 0.7),
    "north": (mdp.data.region(69.6, 18.9, 69.62, 18.96, spacing=0.9), 0.31),
    "one cell": (mdp.data.region(-33.5, 151.0, -33.495, 151.01, spacing=5.0), 0.4),
}


def check_least_violations(name, n):
    rng = np.random.default_rng(1)
    region, epsilon = LATTICES[name]
    cells, shape, sides = region.cells, region.shape, region.sides
    outputs = region.low + np.array([[0.15, 0.2], [0.8, 0.8], [0.3, 0.6]]) * np.subtract(region.high, region.low)
    table = decaying(region, outputs, 0.3 * epsilon)
    assert is_private(table, cells, epsilon, sides)
    for _ in range(n):
        row, k, other = int(rng.integers(shape[0] * shape[1])), *(int(v) for v in rng.permutation(3)[:2])
        kept, broken = least_violation(table, row, k, other, shape, epsilon, sides)
        # fractions agree that it is the least
        assert is_private(kept, cells, epsilon, sides)
        assert not is_private(broken, cells, epsilon, sides)


@pytest.mark.parametrize("name", LATTICES)
def test_the_least_violating_change_is_rejected(name):
    check_least_violations(name, 10)


@pytest.mark.slow
@pytest.mark.parametrize("name", LATTICES)
def test_the_least_violating_change_is_rejected_at_1000_places(name):
    check_least_violations(name, 1000)


def test_a_table_that_is_private_between_nodes_only_is_rejected():
    square = mdp.data.region(0.0, 0.0, 6.0, 6.0, spacing=1.0, kind="vectors")
    # equal ratios along both axes: private for the edges of the lattice, not along the diagonal
    rows, columns = np.indices(square.shape)
    one = np.exp(-0.25 * (rows + columns)).ravel()
    table = whole_rows(np.column_stack([one, 9.0 - one]))
    epsilon = 0.2501  # a little more than the ratio along edges
    pairs = mdp.metric.as_metric("euclidean", square.records).pairs_within(square.records, 1.0)
    assert mdp.mechanism.check_privacy(table, *pairs, epsilon).certified
    check = check_plane(table, square.shape, epsilon, square.sides)
    assert not check.certified
    assert "coefficient" in check.fault
    with pytest.raises(CertificationError, match="not 0.2501-mDP over the region"):
        PlaneMechanism(table, square, Outputs.of(None, square.records.select([0, 1]), seed=0), epsilon)


def test_a_zero_beside_a_positive_weight_and_a_wrong_sum_are_rejected():
    table = np.full((16, 2), TOTAL // 2, dtype=np.uint64)
    table[::4], table[1::4] = (TOTAL, 0), (TOTAL, 0)
    sides = Fraction(1), Fraction(1)
    assert not check_plane(table, (4, 4), 50.0, sides).certified
    table[:] = TOTAL // 2
    table[5] = (TOTAL // 2, TOTAL // 2 - 1)
    check = check_plane(table, (4, 4), 50.0, sides)
    assert not check.certified
    assert "row 5" in check.fault
    assert math.isinf(check.tightest_epsilon)


@pytest.mark.parametrize("weights", ["bspline2", "triangles"])
@pytest.mark.parametrize("epsilon", [1e-300, 1e-170, 1e-20, 1e-15])
def test_flat_tables_need_no_whole_numbers_however_small_epsilon_is(weights, epsilon):
    region = mdp.data.region(0.0, 0.0, 9.0, 9.0, spacing=1.0, kind="vectors", weights=weights)
    table = np.full((region.n_nodes, 8), TOTAL // 8, dtype=np.uint64)
    check = check_region(table, region, epsilon)
    assert check.certified
    assert check.n_decided_exactly == 0
    # one unit, where that is too much or not
    table[40, 3] += np.uint64(1)
    table[40, 4] -= np.uint64(1)
    check = check_region(table, region, epsilon)
    assert check.certified == (epsilon == 1e-15)
    assert check.n_decided_exactly < 200


def test_hardly_different_values_are_cleared_only_where_fractions_agree():
    rng, seen = np.random.default_rng(6), set()
    weights = exact_weights(1e-10, (Fraction(1), Fraction(1)))
    for _ in range(200):
        table = (
            np.full((9, 2), TOTAL // 2) + rng.integers(0, 10 ** int(rng.integers(1, 12)), (9, 1)) * [1, -1]
        ).astype(np.uint64)
        flat = bool(is_nearly_flat(table[None, :, 0], weights)[0])
        seen.add(flat)
        if flat:
            assert is_private(table, (1, 1), 1e-10, (Fraction(1), Fraction(1)))
    assert seen == {True, False}


@pytest.mark.parametrize("weights", ["bspline2", "triangles"])
def test_whole_numbers_decide_many_inequalities_at_once(weights, monkeypatch):
    """Cells that are next to nothing wide, equal rows along them: floats clear none, and the first fault is named."""
    monkeypatch.setattr(plane_certify, "EXACT_AT_ONCE", 7)
    thin = Region((0.0, 0.0), (4.0, 3 * 2.0**-60), (4, 3), (0.0, 0.0), (4.0, 3 * 2.0**-60), "vectors", weights)
    rows = whole_rows(1.0 + 0.3 * np.random.default_rng(0).random((thin.shape[0], 3)))
    table = rows.repeat(thin.shape[1], axis=0)
    if weights == "triangles":  # every other row of nodes is moved by half a cell, so only equal rows have no slope
        table = rows[:1].repeat(thin.n_nodes, axis=0)
    check = check_region(table, thin, 4.0)
    assert check.certified
    assert weights == "triangles" or check.n_decided_exactly == check.n_compared
    broken = table.copy()
    broken[thin.shape[1] + 1] += np.array([100, -100 % 2**64, 0], dtype=np.uint64)
    found = check_region(broken, thin, 4.0)
    assert not found.certified
    assert found.fault.startswith("output 0 changes too fast")


def test_an_output_that_is_never_reported_is_private():
    table = np.zeros((16, 2), dtype=np.uint64)
    table[:, 0] = TOTAL
    check = check_plane(table, (4, 4), 1e-3, (Fraction(1), Fraction(1)))
    assert check.certified
    assert check.tightest_epsilon < 1e-9


def test_the_true_probabilities_are_those_of_floats(mechanism):
    points = np.random.default_rng(3).uniform(ROME.low, ROME.high, (20, 2))
    shares = mechanism.probabilities_at(points)
    for steps, share in zip(ROME.steps_of(points), shares, strict=True):
        exact = distribution(mechanism.table, ROME.cells, *(Fraction(int(v), 2**31) for v in steps))
        assert np.allclose(share, [v / 2**189 for v in exact], rtol=1e-12, atol=0)


def test_draws_follow_the_probabilities(mechanism):
    rng = np.random.default_rng(4)

    def bits(count):
        return rng.integers(0, TOTAL, size=count, dtype=np.uint64)

    n = 200_000
    for point in ([41.8801, 12.4601], [41.889, 12.4731], [41.898, 12.484]):
        drawn = mechanism.draw_points(np.tile(point, (n, 1)), bits=bits)
        shares = mechanism.probabilities_at([point])[0]
        seen = np.bincount(drawn, minlength=4) / n
        assert (np.abs(seen - shares) < 5.0 * np.sqrt(shares / n)).all()


def test_points_outside_are_refused_or_moved_to_the_border(mechanism):
    inside, near, far = [41.89, 12.47], [41.8981, 12.47], [43.0, 12.47]
    assert mechanism.perturb([inside]).shape == (1,)
    with pytest.raises(InputError, match="outside the region") as refusal:
        mechanism.perturb([inside, near])
    assert "41.8981" not in str(refusal.value)
    with pytest.raises(InputError, match="outside the region"):
        mechanism.perturb([far])
    assert mechanism.perturb([inside, near], outside="border").shape == (2,)
    with pytest.raises(InputError, match="larger margin"):
        mechanism.perturb([inside, far], outside="border")
    with pytest.raises(InputError, match="choose refuse or border"):
        mechanism.perturb([inside], outside="drop")
    moved = mechanism.probabilities_at([near])
    assert np.array_equal(moved, mechanism.probabilities_at([[41.898, 12.47]]))


def test_what_is_no_number_is_outside(mechanism):
    odd = np.array([[np.nan, 12.47], [41.89, np.inf], [-np.inf, 12.47]])
    assert ROME.is_outside(odd).all()
    assert ROME.is_beyond(odd).all()
    assert mechanism.draw_points(odd).shape == (3,)
    with pytest.raises(InputError, match="finite"):
        mechanism.perturb(odd)


def test_infinite_vectors_are_beyond_any_margin():
    square = mdp.data.region(0.0, 0.0, 1.0, 1.0, spacing=1.0, kind="vectors")
    odd = np.array([[np.inf, 0.5], [0.5, -np.inf], [np.nan, 0.5], [1e300, 0.5]])
    assert square.is_beyond(odd).tolist() == [True, True, True, False]
    assert square.is_outside(odd).all()


def work_of(action):
    """How many functions an action calls, in Python and in C, and what it says when it refuses."""
    calls, message = Counter(), ""

    def count(frame, event, argument):
        name = getattr(argument, "__qualname__", "") if event.startswith("c_") else frame.f_code.co_qualname
        calls[event, name] += 1

    sys.setprofile(count)
    try:
        action()
    except InputError as error:
        message = str(error)
    finally:
        sys.setprofile(None)
    return calls, message


def test_work_and_messages_do_not_depend_on_where_points_are(mechanism):
    inside, edge, near, far = ([[41.89, 12.47]], [[41.88, 12.46]], [[41.8981, 12.47]], [[-60.0, 170.0]])
    mechanism.perturb(inside)  # what is made once is made
    work, _ = work_of(lambda: mechanism.draw_points(np.array(inside)))
    for other in (edge, near, far):
        assert work_of(lambda other=other: mechanism.draw_points(np.array(other)))[0] == work
    work, said = work_of(lambda: mechanism.perturb(near))
    assert "outside the region" in said
    assert work_of(lambda: mechanism.perturb(far)) == (work, said)
    work, said = work_of(lambda: mechanism.perturb(inside, outside="border"))
    assert said == ""
    for other in (edge, near):
        assert work_of(lambda other=other: mechanism.perturb(other, outside="border")) == (work, said)
    # a refused point has been drawn for, as any other
    refused, accepted = work_of(lambda: mechanism.perturb(far))[0], work_of(lambda: mechanism.perturb(inside))[0]
    assert refused["call", "PlaneMechanism.draw_points"] == accepted["call", "PlaneMechanism.draw_points"] == 1
    assert refused["call", "system_bits"] == accepted["call", "system_bits"] == 3


def test_moving_to_the_border_keeps_the_promise(mechanism):
    rng = np.random.default_rng(5)
    points = rng.uniform(ROME.outer_low, ROME.outer_high, (200, 2))
    shares = np.log(mechanism.probabilities_at(points))
    away = mdp.metric.as_metric("haversine", ROME.records).between(points, points)
    assert (np.abs(shares[:, None] - shares[None]).max(axis=2) <= away * (1 + 1e-12) + 1e-9).all()


def test_the_promise_is_stated(mechanism):
    promise = mechanism.guarantee
    assert "any two points of the region, or of its margin if they are moved to the border" in promise.sentence
    for words in (promise.lines(), mechanism.certificate.lines()):
        text = "\n".join(words)
        outer = ", ".join(f"{v:.9g}" for v in (*ROME.outer_low, *ROME.outer_high))
        assert f"points from the box {outer} are moved to the border, each coordinate by itself" in text
        assert "Scope: every point of the box 41.88, 12.46, 41.898, 12.484 (6 x 5 cells" in text
        assert f"none is shorter by more than {100 * (ROME.stretch - 1):.2g} %" in text
        assert "nothing is taken off the budget" in text
        assert f"by at most {ROME.rounding:.2g} km. The promise is exact for rounded points" in text
    assert promise.rounding < 1e-9
    assert promise.bound(0.1) > 0.1
    assert "8 inequalities" not in str(mechanism.certificate)
    assert "satisfy epsilon = 1 per km exactly" in str(mechanism.certificate)
    assert promise.unmet("epsilon<=1, metric=haversine") == ""
    assert "epsilon is 1.0" in promise.unmet("epsilon<=0.5")
    assert "metric is haversine" in promise.unmet("metric=euclidean")
    with pytest.raises(InputError, match="not one for regions"):
        promise.unmet("eta>=3")
    with pytest.raises(InputError, match="zero or more"):
        promise.bound(-1.0)


def test_a_region_without_a_margin_says_that_points_outside_are_refused():
    box = mdp.data.region(41.88, 12.46, 41.89, 12.47, spacing=1.0, margin=0.0)
    promise = mdp.mechanism.PlaneGuarantee(1.0, box)
    assert "Border: points outside are refused; that they were is visible." in promise.lines()
    square = mdp.data.region(0.0, 0.0, 1.0, 1.0, spacing=1.0, kind="vectors")
    assert "points from anywhere are moved" in "\n".join(mdp.mechanism.PlaneGuarantee(1.0, square).lines())


def test_a_mechanism_is_certified_again_when_copied(mechanism):
    for twin in (copy.deepcopy(mechanism), pickle.loads(pickle.dumps(mechanism))):  # noqa: S301
        assert np.array_equal(twin.table, mechanism.table)
        assert twin.region == mechanism.region
    with pytest.raises(ValueError, match="read-only"):
        mechanism.table[0, 0] = 1


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"epsilon": -1.0}, "positive"),
        ({"table": np.zeros((2, 2), dtype=np.uint64)}, "uint64 of shape"),
        ({"optimality": mdp.mechanism.Optimality(1.0, 2.0)}, "lower bound <= loss"),
        ({"region": "here"}, "must be a Region"),
    ],
)
def test_claims_that_cannot_be_are_refused(mechanism, change, text):
    names = ("table", "region", "outputs", "epsilon", "optimality")
    with pytest.raises(InputError, match=text):
        PlaneMechanism(**({name: getattr(mechanism, name) for name in names} | change))


def test_files_are_certified_again(mechanism, tmp_path):
    path = tmp_path / "rome.mdp"
    mechanism.save(path)
    again = mdp.load_plane(path, require="epsilon<=1")
    assert np.array_equal(again.table, mechanism.table)
    assert again.region == mechanism.region
    assert np.array_equal(again.outputs.coordinates, PLACES)
    with pytest.raises(CertificationError, match="does not meet"):
        mdp.load_plane(path, require="epsilon<=0.5")
    assert np.array_equal(mdp.load(path).table, mechanism.table)
    assert mdp.mechanism.is_plane_file(path)


def test_nodes_as_outputs_are_kept_as_rows(tmp_path):
    square = mdp.data.region(0.0, 0.0, 2.0, 2.0, spacing=1.0, kind="vectors")
    outputs = Outputs.of(square.inner, square.records, seed=0)
    table = np.full((16, 4), TOTAL // 4, dtype=np.uint64)
    made = PlaneMechanism(table, square, outputs, 1.0, mdp.mechanism.Optimality(2.0, 1.0), "by hand")
    made.save(tmp_path / "square.mdp")
    again = mdp.load_plane(tmp_path / "square.mdp")
    assert np.array_equal(again.outputs.rows, square.inner)
    assert (again.optimality, again.solver) == (made.optimality, "by hand")
    assert "Claimed by the file" in str(again.certificate)


def test_names_of_outputs_are_kept(mechanism, tmp_path):
    names = ("00184", "00185", "Piazza \u2116 1", '"x",')
    path = tmp_path / "named.mdp"
    outputs = Outputs(PLACES, None, names)
    PlaneMechanism(mechanism.table, ROME, outputs, 1.0).save(path)
    again = mdp.load_plane(path)
    assert again.outputs.names == names
    assert again.outputs.ids(again.records) == names
    assert copy.deepcopy(again).outputs.names == names
    for wrong in (
        ["a", "b"],
        ["a", "b", "c", "c"],
        ["a", "b", "c", 4],
        {"a": 1},
        "abcd",
        ["", "b", "c", "d"],
        ["\ud800", "b", "c", "d"],
    ):
        edited(path, lambda metadata, wrong=wrong: metadata.update(output_names=json.dumps(wrong)))
        with pytest.raises(FileFormatError, match="damaged"):
            mdp.load_plane(path)


def edited(path, change):
    """Write a file with other metadata and a right hash of them."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    change(header["__metadata__"])
    header["__metadata__"]["metadata_sha256"] = metadata_hash(header["__metadata__"])
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"epsilon": (0.3).hex()}, CertificationError, "does not satisfy its claims"),
        ({"epsilon": "1.0"}, FileFormatError, "hexadecimal"),
        ({"cells": "[5, 4]"}, FileFormatError, "rows, its region"),
        ({"cells": "[5.0, 5]"}, FileFormatError, "cells each way"),
        ({"cells": "[100000, 100000]"}, FileFormatError, "cells each way"),
        ({"cells": f"[1{400 * '0'}, 4]"}, FileFormatError, "got more"),
        ({"low": json.dumps([(50.0).hex(), (12.46).hex()])}, FileFormatError, "low < high"),
        ({"high": json.dumps([(41.897).hex(), (12.482).hex()])}, CertificationError, "too fast"),
        ({"weights": "bspline3"}, FileFormatError, "this version knows"),
        ({"weights": "triangles"}, FileFormatError, "rows, its region"),
        ({"kind": "vectors"}, CertificationError, "too fast"),
        ({"more": "x"}, FileFormatError, "unknown"),
        ({"format": "metricdp-1"}, FileFormatError, "metricdp.load"),
    ],
)
def test_edited_files_are_refused(mechanism, tmp_path, change, error, text):
    path = tmp_path / "rome.mdp"
    # as tight as can be, so that a smaller box breaks the promise
    tight = mechanism.certificate.privacy.tightest_epsilon
    PlaneMechanism(mechanism.table, ROME, mechanism.outputs, tight).save(path)
    edited(path, lambda metadata: metadata.update(change))
    with pytest.raises(error, match=text):
        mdp.load_plane(path)


def test_a_changed_byte_is_found(mechanism, tmp_path):
    path = tmp_path / "rome.mdp"
    mechanism.save(path)
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match="hash"):
        mdp.load_plane(path)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("cells", '{"5": 1, "6": 2}'),
        ("cells", '["5", "6"]'),
        ("cells", "[null, 6]"),
        ("cells", '"56"'),
        ("low", '{"0x1.0000000000000p+0": 1, "0x1.8000000000000p+0": 2}'),
        ("epsilon", (1e-300).hex()),
        ("epsilon", (1e-140).hex()),
    ],
)
def test_metadata_of_other_kinds_are_refused_in_one_line(mechanism, tmp_path, key, text):
    path = tmp_path / "m.mdp"
    mechanism.save(path)
    metadata, tensors = unpacked(path.read_bytes())
    path.write_bytes(packed(metadata | {key: text}, tensors))
    with pytest.raises((FileFormatError, CertificationError)):
        mdp.load_plane(path)
