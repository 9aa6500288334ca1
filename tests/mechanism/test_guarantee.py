"""The guarantee: what is promised, pinned and refused, and no way around the certificate."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import os
import pickle
import types
from fractions import Fraction

import numpy as np
import pytest

import metricdp as mdp
from metricdp.mechanism.certify import TOTAL
from metricdp.mechanism.container import metadata_hash, tensor_hash


def made(records, *, epsilon=1.0, eta=1.5, outputs=3, **how):
    return mdp.exponential(mdp.Problem(records, epsilon=epsilon, eta=eta, outputs=outputs, **how))


@pytest.fixture
def grid():
    return made(mdp.data.grid(3, 3))


@pytest.fixture
def lonely():
    """Two neighbours, and a record far away."""
    return made(mdp.Records([[0.0, 0.0], [1.0, 0.0], [50.0, 50.0]], ids=["a", "b", "alone"], kind="vectors"))


class TestWhatIsPromised:
    def test_along_paths(self, grid):
        promise = grid.guarantee
        assert promise.bound(0, 0) == 0.0
        assert promise.bound(0, 8) == pytest.approx(2 * math.sqrt(2))
        ratio = np.abs(np.log(grid.probabilities[0] / grid.probabilities[8])).max()
        assert ratio <= promise.bound(0, 8)

    def test_the_bound_is_above_the_exact_path_by_its_rounding_only(self, grid):
        """A path of nine records has at most nine sums; four more roundings are left for the products."""
        step = Fraction(1, 2**52)
        for i, j, length in ((0, 1, 1), (8, 6, 2)):
            above = Fraction(grid.guarantee.bound(i, j)) / length - 1
            assert 13 * step <= above < 14 * step
        assert type(grid.guarantee.bound(0, 1)) is float

    def test_the_unit_is_that_of_the_metric(self, grid):
        assert grid.guarantee.unit == "unit of distance"
        assert made(mdp.Records([[57.0, 11.0], [57.001, 11.0]]), outputs=2).guarantee.unit == "km"
        assert "(euclidean, d in unit of distance)" in grid.guarantee.sentence

    def test_it_shows_its_sentence(self, grid):
        assert repr(grid.guarantee) == f"Guarantee({grid.guarantee.sentence!r})"

    def test_not_between_groups(self, lonely):
        assert lonely.guarantee.bound(0, 2) == math.inf
        assert lonely.guarantee.is_isolated.tolist() == [False, False, True]

    def test_in_one_sentence(self, grid, lonely):
        assert grid.guarantee.sentence.startswith("Any report is at most exp(1 d) times more likely")
        assert "not protected" not in grid.guarantee.sentence
        assert "1 records without any neighbour are not protected at all" in lonely.guarantee.sentence
        assert "2 groups that no path joins" in lonely.guarantee.sentence

    def test_what_is_not_protected_comes_first(self, lonely):
        assert lonely.certificate.lines()[0].startswith("NOT PROTECTED: 1 of 3 records")

    def test_the_scope_in_lines(self, grid, lonely):
        assert grid.guarantee.lines() == [
            "Scope: one component; every pair of records is protected at its path distance."
        ]
        assert lonely.guarantee.lines() == [
            "NOT PROTECTED: 1 of 3 records have no neighbour within 1.5; their reports may reveal them.",
            "Scope: 2 components; records in different components are not protected from one another.",
        ]

    def test_pairs_that_nobody_can_count_again_are_to_be_pinned(self, grid):
        records = mdp.data.grid(2, 2)
        stored = made(records, metric=np.linalg.norm(records.coordinates[:, None] - records.coordinates, axis=2))
        assert (grid.guarantee.is_recomputed, stored.guarantee.is_recomputed) == (True, False)
        pin = f"records={stored.guarantee.records_hash[:16]}"
        line = "The pairs are as stored: for the metric 'matrix' a missing pair cannot be detected. Pin them with"
        assert stored.guarantee.lines()[1:] == [f"{line} {pin}."]
        assert stored.guarantee.unmet(pin) == ""

    def test_for_points_is_kept_for_each_limit(self, grid):
        promise = grid.guarantee.for_points(1)
        assert promise is grid.guarantee.for_points(np.float64(1.0))
        assert type(promise.limit) is float
        assert grid.guarantee.for_points(np.int64(2)).limit == 2.0

    def test_nothing_protected_says_so_first(self):
        nothing = made(mdp.Records([[0.0, 0.0], [9.0, 0.0]], kind="vectors"), outputs=2)
        assert "NOTHING is protected" in nothing.certificate.lines()[0]
        assert nothing.guarantee.sentence.startswith("NOTHING is protected")


class TestTheHash:
    def test_same_records_same_hash(self, grid):
        assert made(mdp.data.grid(3, 3), epsilon=7.0, outputs=9).guarantee.records_hash == grid.guarantee.records_hash
        assert len(grid.guarantee.records_hash) == 64

    def test_each_part_counts(self, grid):
        base = mdp.data.grid(3, 3)
        moved = base.coordinates.copy()
        moved[0, 0] += 1e-9
        others = [
            made(mdp.Records(moved, ids=base.ids, kind="vectors")),
            made(mdp.Records(base.coordinates, ids=[f"x{i}" for i in range(9)], kind="vectors")),
            made(base, metric="manhattan"),
            made(base, eta=2.0),
        ]
        assert len({grid.guarantee.records_hash, *(one.guarantee.records_hash for one in others)}) == 5

    def test_it_is_written_down_how_to_compute_it(self, grid):
        import hashlib

        records, graph = grid.records, grid.graph
        text = "metricdp records\neuclidean\n" + json.dumps(list(records.ids)).replace(" ", "") + "\n"
        data = text.encode()
        for values, kind in ((records.coordinates, "<f8"), (graph.pairs, "<i4"), (graph.distances, "<f8")):
            data += f"{values.shape}\n".encode() + values.astype(kind).tobytes()
        assert hashlib.sha256(data).hexdigest() == grid.guarantee.records_hash


class TestRequirements:
    def test_met(self, grid):
        hashed = grid.guarantee.records_hash
        wanted = f"epsilon<=1, eta>=1.5, metric=euclidean, records={hashed[:16]}"
        assert grid.guarantee.unmet(wanted) == ""
        assert grid.guarantee.unmet(f"records={hashed}") == ""
        assert grid.guarantee.unmet("epsilon=1.0, eta=1.5") == ""

    @pytest.mark.parametrize(
        ("wanted", "part"),
        [
            ("epsilon<=0.999", "epsilon is 1.0, not <= 0.999"),
            ("eta>=1.6", "eta is 1.5, not >= 1.6"),
            ("epsilon=2", "epsilon is 1.0, not = 2"),
            ("metric=haversine", "the metric is euclidean, not haversine"),
            ("records=0123456789abcdef", "the records' hash is"),
            ("epsilon<=1, eta>=9", "eta is 1.5"),
        ],
    )
    def test_not_met(self, grid, wanted, part):
        assert part in grid.guarantee.unmet(wanted)

    @pytest.mark.parametrize(
        "wanted", ["", "epsilon", "epsilon>=1", "eta<=2", "budget<=1", "records=abc", "records=" + "z" * 16, "eta>=nan"]
    )
    def test_not_understood(self, grid, wanted):
        with pytest.raises(mdp.InputError):
            grid.guarantee.unmet(wanted)

    def test_fifteen_digits_of_the_hash_are_too_few(self, grid):
        with pytest.raises(mdp.InputError, match="at least the first 16 hexadecimal digits"):
            grid.guarantee.unmet(f"records={grid.guarantee.records_hash[:15]}")

    @pytest.mark.parametrize("wanted", ["epsilon<=much", "epsilon<=", "epsilon<=nan"])
    def test_what_is_no_number_is_told_how_to_write_one(self, grid, wanted):
        with pytest.raises(mdp.InputError, match=f"{wanted} needs a number, such as epsilon<=1.5"):
            grid.guarantee.unmet(wanted)

    def test_loading_takes_the_same(self, grid, tmp_path):
        grid.save(tmp_path / "a.mdp")
        assert mdp.load(tmp_path / "a.mdp", require="epsilon<=1, eta>=1.5").epsilon == 1.0
        with pytest.raises(mdp.CertificationError, match="does not meet the requirement: epsilon is 1.0"):
            mdp.load(tmp_path / "a.mdp", require="epsilon<=0.5")


class TestVerify:
    def test_nothing_protected_is_a_no(self, run, tmp_path):
        made(mdp.Records([[0.0, 0.0], [9.0, 0.0]], kind="vectors"), outputs=2).save(tmp_path / "a.mdp")
        code, out, err = run("verify", tmp_path / "a.mdp", "--json")
        assert code == 1
        assert json.loads(out)["tightest_epsilon"] is None
        assert "NOT PROTECTED" in err

    def test_one_pair_of_a_street_table_is_a_no(self, run, tmp_path):
        """A street table whose file was cut down to one pair: nobody can tell what was left out."""
        whole = mdp.exponential(
            mdp.Problem(mdp.data.road("gothenburg", n=12, seed=1), epsilon=1.0, eta=9.0, outputs=4, metric="street")
        )
        one = mdp.metric.MdpGraph(12, whole.graph.pairs[:1].copy(), whole.graph.distances[:1].copy())
        dataclasses.replace(whole, graph=one).save(tmp_path / "a.mdp")
        code, out, err = run("verify", tmp_path / "a.mdp", "--json")
        assert code == 1
        assert json.loads(out)["tightest_epsilon"] is None
        assert "it is unknown whether their pairs were left out" in err

    def test_requirements(self, run, grid, tmp_path):
        grid.save(tmp_path / "a.mdp")
        code, out, _ = run("verify", tmp_path / "a.mdp", "--require", "epsilon<=1, metric=euclidean")
        assert code == 0
        assert grid.guarantee.records_hash in out
        code, _, err = run("verify", tmp_path / "a.mdp", "--require", "epsilon<=0.5")
        assert code == 1
        assert "epsilon is 1.0, not <= 0.5" in err
        code, _, err = run("verify", tmp_path / "a.mdp", "--require", "privacy<=0.5")
        assert code == 2
        assert "cannot be parsed" in err


class TestRecordsWithoutNeighbours:
    @pytest.mark.parametrize("ids", ["alone", ["a", "alone"]])
    def test_are_refused(self, lonely, ids):
        with pytest.raises(mdp.InputError, match="without any neighbour.*larger eta") as caught:
            lonely.perturb(ids)
        assert "alone" not in str(caught.value)  # the message never tells the true record
        assert len(np.atleast_1d(lonely.perturb(ids, allow_unprotected=True))) == len(np.atleast_1d(ids))

    def test_rows_too(self, lonely):
        assert lonely.perturb_rows(np.array([0, 1])).shape == (2,)
        with pytest.raises(mdp.InputError, match="1 of 2 inputs"):
            lonely.perturb_rows(np.array([0, 2]))

    def test_on_the_command_line(self, run, lonely, tmp_path):
        lonely.save(tmp_path / "a.mdp")
        (tmp_path / "true.csv").write_text("id\na\nalone\n")
        for words in (["alone"], ["--input", "true.csv", "--output", "reports.csv"]):
            code, out, err = run("perturb", tmp_path / "a.mdp", *words)
            assert (code, out) == (2, "")
            assert "without any neighbour" in err
            assert not (tmp_path / "reports.csv").exists()
            code, _, _ = run("perturb", tmp_path / "a.mdp", *words, "--allow-unprotected")
            assert code == 0


class TestNoWayAround:
    def spoiled(self, mechanism):
        table = np.array(mechanism.table)
        table[0] = 0
        table[0, 0] = TOTAL
        return table

    def test_the_constructor_has_no_switch(self, grid):
        assert "has_known_graph" not in {field.name for field in dataclasses.fields(mdp.Mechanism)}
        with pytest.raises(TypeError):
            dataclasses.replace(grid, has_known_graph=True)

    def test_the_table_stays_as_it_was(self, grid):
        with pytest.raises(ValueError, match="WRITEABLE"):
            grid.table.setflags(write=True)
        with pytest.raises(ValueError, match="WRITEABLE"):
            grid._steps.setflags(write=True)

    def test_a_mask_hides_nothing(self, grid):
        table = self.spoiled(grid)
        masked = np.ma.array(table, mask=np.zeros(table.shape, dtype=bool))
        masked[0] = np.ma.masked
        with pytest.raises(mdp.InputError, match="masked"):
            dataclasses.replace(grid, table=masked)

    def test_saving_checks_again(self, grid, tmp_path):
        object.__setattr__(grid, "table", self.spoiled(grid))
        with pytest.raises(mdp.CertificationError):
            grid.save(tmp_path / "a.mdp")
        assert not (tmp_path / "a.mdp").exists()

    def test_a_metric_of_ones_own_cannot_leave_pairs_out(self):
        class Short(mdp.metric.CoordinateMetric):
            def pairs_within(self, records, eta):
                pairs, distances = super().pairs_within(records, eta)
                return pairs[:1], distances[:1]

        with pytest.raises((mdp.InputError, mdp.CertificationError), match="pairs"):
            made(mdp.data.grid(3, 3), metric=Short("euclidean"))

    def test_copies_are_certified_again(self, grid):
        for again in (copy.deepcopy(grid), pickle.loads(pickle.dumps(grid))):  # noqa: S301
            assert again.certificate.privacy.certified
            np.testing.assert_array_equal(again.table, grid.table)
            with pytest.raises(ValueError, match="WRITEABLE"):
                again.table.setflags(write=True)

    def test_another_table_over_the_same_records_is_certified(self, grid):
        assert grid.with_table(np.array(grid.table), solver="again").solver == "again"
        with pytest.raises(mdp.CertificationError):
            grid.with_table(self.spoiled(grid), solver="again")

    def test_numbers_that_change_later_change_nothing(self, grid):
        epsilon, eta = np.array(1.0), np.array(1.5)
        for change in ({"epsilon": epsilon}, {"eta": eta}):
            with pytest.raises(mdp.InputError, match="must be a number"):
                dataclasses.replace(grid, **change)
        made_of_whole = dataclasses.replace(grid, epsilon=np.float64(1.0), eta=np.float64(1.5))
        assert type(made_of_whole.epsilon) is float
        assert type(made_of_whole.eta) is float

    def test_nothing_that_the_promise_rests_on_can_be_written(self, lonely, grid):
        cells = grid.guarantee.for_points(0.5).cells
        matrix = grid.graph.adjacency
        arrays = [lonely.guarantee.is_isolated, cells.radii, cells.near, cells.half, cells.direction]
        for values in (*arrays, matrix.data, matrix.indices, matrix.indptr, grid.graph.labels):
            with pytest.raises(ValueError, match="WRITEABLE"):
                values.setflags(write=True)

    def test_look_alikes_are_refused(self, lonely):
        graph = types.SimpleNamespace(
            n=3,
            pairs=lonely.graph.pairs,
            distances=lonely.graph.distances,
            n_pairs=1,
            labels=np.zeros(3),
            n_components=1,
        )
        with pytest.raises(mdp.InputError, match="graph must be a MdpGraph, got SimpleNamespace"):
            dataclasses.replace(lonely, graph=graph)

        class Wide:
            dtype, shape = np.dtype(np.uint64), (3, 3)

            def __array__(self, dtype=None, copy=None):
                return np.repeat(np.array(lonely.table), 2, axis=1)

        with pytest.raises(mdp.InputError, match="uint64 of shape"):
            dataclasses.replace(lonely, table=Wide())

    @pytest.mark.parametrize("rows", [[0, 1, 99], [0, 1], [-1, 0, 1]])
    def test_outputs_must_be_records(self, grid, rows):
        outputs = dataclasses.replace(grid.outputs, rows=np.array(rows))
        with pytest.raises(mdp.InputError, match="outputs must be a row"):
            dataclasses.replace(grid, outputs=outputs)

    def test_a_memory_repeats_no_unprotected_answer_unasked(self, lonely, tmp_path):
        with mdp.memoize(lonely, tmp_path / "answers.db") as memory:
            assert memory.perturb("Ana", "alone", allow_unprotected=True)
            with pytest.raises(mdp.InputError, match="without any neighbour"):
                memory.perturb("Ana", "alone")

    @pytest.mark.parametrize(
        "rows", [[1.123456, 0.5], [[1.123456 + 0j, 0.5]], "1.123456", 1.123456, [["1.123456x", 2]]]
    )
    def test_the_estimator_shows_no_value(self, grid, rows):
        fitted = mdp.MetricPrivacy(mechanism=grid).fit([[0.0, 0.0]])
        with pytest.raises((mdp.InputError, TypeError)) as caught:
            fitted.transform(rows)
        assert "1.123456" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None

    def test_a_pipe_is_no_mechanism_file(self, tmp_path):
        os.mkfifo(tmp_path / "pipe.mdp")
        with pytest.raises(mdp.FileFormatError, match="is not a file"):
            mdp.load(tmp_path / "pipe.mdp")


class TestOpenDP:
    @pytest.fixture(autouse=True)
    def features(self):
        import opendp.prelude as dp

        dp.enable_features("contrib", "honest-but-curious")
        self.dp = dp

    def test_over_different_lists_nothing_is_composed(self):
        """Two lists with the same ids at other places: 0.3 + 0.3 is not what both cost together."""
        near = made(mdp.Records([[0.0], [1.0], [2.0]], ids="abc", kind="vectors"), outputs=2, epsilon=0.3)
        far = made(mdp.Records([[0.0], [1.4], [2.0]], ids="abc", kind="vectors"), outputs=2, epsilon=0.3)
        first, second = (mdp.extras.make_measurement(one) for one in (near, far))
        compose = self.dp.c.make_composition
        with pytest.raises(Exception, match="(?i)mismatch|domain|metric"):
            compose([first, second])
        assert compose([first, mdp.extras.make_measurement(near)]).map(1.0) == pytest.approx(0.6)

    def test_records_without_neighbours_are_no_members(self, lonely):
        measurement = mdp.extras.make_measurement(lonely)
        assert measurement.input_domain.member("a")
        assert not measurement.input_domain.member("alone")


def test_the_estimator_refuses_a_mechanism_that_does_not_protect_rows(lonely):
    with pytest.raises(mdp.InputError, match="not protected"):
        mdp.MetricPrivacy(mechanism=lonely).fit([[0.0, 0.0]])
    allowed = mdp.MetricPrivacy(mechanism=lonely, allow_unprotected=True, snap_limit=1.0).fit([[0.0, 0.0]])
    assert allowed.transform([[0.0, 0.1]]).shape == (1, 2)


def test_an_edited_file_with_fewer_pairs_is_refused(grid, tmp_path):
    from safetensors import safe_open
    from safetensors.numpy import save_file

    grid.save(tmp_path / "a.mdp")
    with safe_open(tmp_path / "a.mdp", framework="numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = dict(file.metadata())
    tensors["pairs"], tensors["distances"] = tensors["pairs"][1:].copy(), tensors["distances"][1:].copy()
    metadata["sha256"] = tensor_hash(tensors)
    metadata["metadata_sha256"] = metadata_hash(metadata)
    save_file(tensors, tmp_path / "b.mdp", metadata=metadata)
    with pytest.raises(mdp.CertificationError, match="pairs"):
        mdp.load(tmp_path / "b.mdp")


@pytest.mark.parametrize(("metric", "within", "budget"), [("haversine", "5 km", "2 per km"), ("euclidean", "5", "2")])
def test_certificates_give_units_where_the_metric_has_one(metric, within, budget):
    kind = "places" if metric == "haversine" else "vectors"
    records = mdp.Records([[0.0, 0.0], [0.01, 0.0], [0.02, 0.0], [9.0, 0.0]], kind=kind)
    mechanism = mdp.exponential(mdp.Problem(records, epsilon=2.0, eta=5.0, metric=metric))
    lines = [line for line in mechanism.certificate.lines() if " within " in line or "epsilon" in line]
    proof = next(line for line in lines if line.startswith("Private"))
    assert f"pairs within {within} ({metric}), 4 outputs, both ways, satisfies epsilon = {budget} exactly" in proof
    assert any(line.startswith("Tightest") and line.endswith(" per km.") == (metric == "haversine") for line in lines)
    assert any(f"no neighbour within {within};" in line for line in lines)
    assert f"along neighbours within {within} ({metric}, d in" in mechanism.guarantee.sentence
    point = mechanism.guarantee.for_points(0.25).sentence
    assert f"oints within {'0.25 km' if metric == 'haversine' else '0.25'} of " in point
