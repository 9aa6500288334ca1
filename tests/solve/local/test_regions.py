"""Regions with halos: the same promise, the same proof, and the same table wherever they are solved."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from tests.conftest import linprog_optimum, small_problem
from tests.solve.local.exact import fault, loss_of
from tests.solve.local.test_tables import contiguous

import metricdp as mdp
from metricdp.metric.simd import WIDTH
from metricdp.partition import PARTITIONERS
from metricdp.solve.division import Division
from metricdp.solve.executor import workers
from metricdp.solve.result import Trace
from metricdp.solve.solvers.local.loop import solve_windows
from metricdp.solve.solvers.local.method import Local, local_problem
from metricdp.solve.solvers.local.options import LocalOptions
from metricdp.solve.solvers.local.regions import on_dask
from metricdp.solve.solvers.local.regions.blocks import blocks_of_outputs
from metricdp.solve.solvers.local.regions.kept import saved_regions
from metricdp.solve.solvers.local.regions.loop import solve_regions
from metricdp.solve.solvers.local.regions.plan import Plan
from metricdp.solve.solvers.local.regions.sizes import own_bytes, region_bytes, regions_for
from metricdp.solve.stop import Stop


def by_regions(problem, n_regions, gap=0.05, *, trace=None, stop=None, options=None, **where):
    """Solve by regions, and check what must hold of every result."""
    options = LocalOptions(max_iterations=600) if options is None else options
    with workers(**where) as crew:
        plan = Plan(local_problem(problem), gap, options, n_regions)
        found = solve_regions(
            plan,
            problem.losses,
            stop=Stop(None) if stop is None else stop,
            trace=Trace() if trace is None else trace,
            workers=crew,
        )
    assert fault(found.table, problem.graph, problem.epsilon) == ""
    truth = loss_of(found.table, problem.loss, problem.records.prior)
    assert truth * (1.0 - 1e-12) <= found.loss <= truth * (1.0 + 1e-9) + 3e-9  # a few micrometres for places
    assert 0.0 <= found.lower_bound <= found.loss
    return found


def by_partitioner(problem, name, n_regions=4, gap=0.05, **options):
    """Solve by regions of a partitioner, and check what must hold of every result."""
    own = mdp.LocalOptions(regions=n_regions, partition=name, max_iterations=600)
    result = mdp.solve(problem, method="local", gap=gap, options=own, **options)
    assert result.mechanism.certificate.privacy.certified
    assert fault(result.mechanism.table, problem.graph, problem.epsilon) == ""
    return result


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a.parts, b.parts, strict=True))


@pytest.fixture(scope="module")
def town():
    """Intersections whose windows are much smaller than the town."""
    return contiguous(260, epsilon=25.0, eta=0.2)


@pytest.fixture(scope="module")
def reachable(town):
    """A loss that some private table of the town has: no bound may be above it."""
    return mdp.solve(town, method="local", gap=0.03).loss


@pytest.fixture(scope="module")
def found(town):
    """The town in five regions, one after the other."""
    return by_regions(town, 5)


def test_one_region_is_the_whole(town):
    options = LocalOptions(max_iterations=600)
    whole = solve_windows(local_problem(town), town.losses, gap=0.05, stop=Stop(None), trace=Trace(), options=options)
    one = by_regions(town, 1)
    assert (one.loss, one.lower_bound, one.steps) == (whole.loss, whole.lower_bound, whole.steps)
    assert same(one.table, whole.table)


def test_regions_reach_the_gap_of_the_whole(found, reachable):
    assert found.gap <= 0.05
    assert found.lower_bound <= reachable


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("dataset", ["road", "grid", "gaussian"])
def test_loss_and_bound_enclose_the_optimum(dataset, seed):
    made = small_problem(dataset, seed, n=30, outputs=30, exponent=6.0)
    problem = mdp.Problem(made.records, epsilon=made.epsilon, eta=made.eta, outputs=30, loss="distance")
    truth = linprog_optimum(problem)
    result = by_regions(problem, 3)
    assert result.lower_bound <= truth * (1.0 + 1e-9)
    assert result.loss >= truth * (1.0 - 1e-6)
    assert result.gap < 0.25  # scattered records: steps are slow, in one region as well


@pytest.mark.parametrize("halo", [0.0, 2.0, 20.0])
def test_any_halo_is_private_and_proved(town, reachable, halo):
    result = by_regions(town, 4, 0.2, options=LocalOptions(max_iterations=300, halo=halo))
    assert 0.7 * reachable <= result.lower_bound <= reachable


def test_copies_and_near_records_in_different_regions():
    places = contiguous(34, epsilon=25.0, eta=0.2).records.coordinates
    # some twice, some a few centimetres away in a chain
    chain = places[5] + np.outer(np.arange(1, 9), [2e-7, 0.0])
    points = np.concatenate((places, places[::7], chain))
    prior = np.random.default_rng(3).uniform(0.5, 1.5, len(points))
    problem = mdp.Problem(mdp.Records(points, prior=prior / prior.sum()), epsilon=25.0, eta=0.2, loss="distance")
    result = by_regions(problem, 4)
    rows = result.table.block()
    assert np.array_equal(rows[:34:7], rows[34 : 34 + len(places[::7])])
    assert np.array_equal(rows[-1], rows[-8])
    assert result.lower_bound <= linprog_optimum(problem) * (1.0 + 1e-9)


def test_other_points_as_outputs_and_several_components():
    left = contiguous(30, epsilon=25.0, eta=0.2).records.coordinates
    records = mdp.Records(np.concatenate((left, left + np.array([1.0, 0.0]))))
    outputs = records.coordinates[::3] + 1e-4
    problem = mdp.Problem(records, epsilon=25.0, eta=0.2, outputs=outputs, loss="distance")
    assert problem.graph.n_components > 1
    result = by_regions(problem, 3)
    assert result.lower_bound <= linprog_optimum(problem) * (1.0 + 1e-9)
    assert result.gap <= 0.05


@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
def test_other_metrics(metric):
    points = np.random.default_rng(5).uniform(0.0, 6.0, (40, 2))
    problem = mdp.Problem(mdp.Records(points, kind="vectors"), epsilon=4.0, eta=2.0, metric=metric, loss="distance")
    result = by_regions(problem, 3)
    assert result.lower_bound <= linprog_optimum(problem) * (1.0 + 1e-9)
    assert result.gap <= 0.05


@pytest.mark.parametrize("n_regions", [4, 8])
def test_places_that_are_farther_apart_than_the_halo(n_regions):
    problem = contiguous(200, epsilon=60.0, eta=0.15)
    assert by_regions(problem, n_regions, 0.05, options=LocalOptions()).gap <= 0.05


def test_uneven_priors():
    prior = np.random.default_rng(0).uniform(0.2, 1.0, 120)
    problem = contiguous(120, epsilon=60.0, eta=0.15, prior=prior / prior.sum())
    serial = by_regions(problem, 4, options=LocalOptions())
    assert serial.gap <= 0.05
    with ThreadPoolExecutor(2) as pool:
        assert same(by_regions(problem, 4, options=LocalOptions(), executor=pool).table, serial.table)


def test_outputs_far_from_everybody():
    rng = np.random.default_rng(1)
    outputs = np.concatenate((rng.random((12, 2)), 500.0 + 10.0 * rng.random((20, 2))))
    records = mdp.Records(rng.random((24, 2)), kind="vectors")
    problem = mdp.Problem(records, epsilon=5.0, eta=0.5, outputs=outputs, loss="distance")
    result = by_regions(problem, 4)
    assert result.lower_bound <= linprog_optimum(problem) * (1.0 + 1e-9)


def test_only_distances_of_points_are_divided():
    for problem in (
        contiguous(30, loss="travel", epsilon=25.0),
        mdp.Problem(mdp.Records([[0.0, 0.0], [0.0, 179.0], [40.0, 90.0]]), epsilon=1.0, eta=1e5, loss="distance"),
    ):
        with pytest.raises(ValueError, match="can be divided"):
            Plan(local_problem(problem), 0.05, LocalOptions(), 2)


class TestWhereItRuns:
    def test_threads(self, town, found):
        with ThreadPoolExecutor(2) as pool:
            assert same(by_regions(town, 5, executor=pool).table, found.table)

    def test_processes(self, town, found):
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            result = by_regions(town, 5, executor=pool)
        assert (result.loss, result.lower_bound) == (found.loss, found.lower_bound)
        assert same(result.table, found.table)

    def test_processes_that_die(self, town, found):
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            list(pool.map(time.sleep, [0.2] * 2))  # both are up
            victims = list(pool._processes)

            def kill(row):
                if row["stage"] == "windows":
                    os.kill(victims[0], signal.SIGKILL)

            assert same(by_regions(town, 5, trace=Trace(kill), executor=pool).table, found.table)


@pytest.fixture(scope="module", params=PARTITIONERS)
def divided(request, town):
    """The town in four regions of each partitioner, one after the other."""
    return by_partitioner(town, request.param)


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield pool


def plan_of(problem, name, n_regions, **options):
    """Return the regions of a partitioner, and the blocks that they were made from."""
    blocks = mdp.partition.make_partition(
        problem.records, problem.metric, problem.graph, method=name, n_blocks=n_regions
    ).block_of
    return Plan.by_blocks(local_problem(problem), 0.05, LocalOptions(**options), blocks), blocks


class TestPartitioners:
    def test_certified_and_proved_for_the_whole(self, divided, reachable):
        assert divided.status is mdp.Status.OPTIMAL
        assert 0.9 * reachable < divided.lower_bound <= reachable
        assert divided.partition.n_blocks == 4
        assert [row["regions"] for row in divided.trace.rows if row["stage"] == "windows"] == [4]

    def test_same_table_on_threads_and_processes(self, town, divided, processes):
        with ThreadPoolExecutor(2) as pool:
            on_threads = by_partitioner(town, divided.partition.name, executor=pool)
        on_processes = by_partitioner(town, divided.partition.name, executor=processes)
        for other in (on_threads, on_processes):
            assert (other.loss, other.lower_bound) == (divided.loss, divided.lower_bound)
            assert same(other.mechanism.table, divided.mechanism.table)

    def test_it_is_not_the_table_of_ranges(self, town, divided):
        ranges = by_partitioner(town, "kd")
        assert ranges.partition is None
        assert not same(ranges.mechanism.table, divided.mechanism.table)

    @pytest.mark.parametrize("name", PARTITIONERS)
    def test_one_region_is_the_whole(self, town, name):
        options = LocalOptions(max_iterations=600)
        whole = mdp.solve(town, method="local", gap=0.05, options=options)
        one = by_partitioner(town, name, 1)
        assert (one.loss, one.lower_bound, one.partition) == (whole.loss, whole.lower_bound, None)
        assert same(one.mechanism.table, whole.mechanism.table)
        plan, _ = plan_of(town, name, 1, max_iterations=600)
        with workers() as crew:
            found = solve_regions(plan, town.losses, stop=Stop(None), trace=Trace(), workers=crew)
        assert (found.loss, found.lower_bound) == (whole.loss, whole.lower_bound)
        assert same(found.table, whole.mechanism.table)

    @pytest.mark.parametrize("name", PARTITIONERS)
    @pytest.mark.parametrize("dataset", ["road", "gaussian"])
    def test_loss_and_bound_enclose_the_optimum(self, dataset, name):
        made = small_problem(dataset, 1, n=30, outputs=30, exponent=6.0)
        problem = mdp.Problem(made.records, epsilon=made.epsilon, eta=made.eta, outputs=30, loss="distance")
        truth = linprog_optimum(problem)
        result = by_partitioner(problem, name, 3)
        assert result.lower_bound <= truth * (1.0 + 1e-9)
        assert result.loss >= truth * (1.0 - 1e-6)
        assert result.gap < 0.25

    @pytest.mark.parametrize("name", PARTITIONERS)
    def test_regions_are_blocks_filled_up_to_whole_groups(self, town, name):
        plan, blocks = plan_of(town, name, 5)
        owned = [plan.outputs_of(region) for region in range(plan.n_regions)]
        assert sorted(np.concatenate(owned).tolist()) == list(range(town.n_outputs))
        assert all(len(outputs) % WIDTH == 0 for outputs in owned[:-1])
        names = [np.bincount(blocks[outputs]).argmax() for outputs in owned]
        assert names == list(range(5))
        foreign = sum(int((blocks[outputs] != name).sum()) for outputs, name in zip(owned, names, strict=True))
        assert foreign <= 4 * (WIDTH - 1)
        for other in (plan.with_radius(2.0 * plan.radius), plan.reaching(3.0)):
            assert all(np.array_equal(other.outputs_of(k), owned[k]) for k in range(5))

    @pytest.mark.parametrize("metric", ["haversine", "manhattan"])
    def test_other_points_are_in_the_block_of_the_nearest_record(self, metric):
        rng = np.random.default_rng(7)
        spread = 0.01 if metric == "haversine" else 3.0
        records = mdp.Records(
            [50.0, 10.0] + spread * rng.random((60, 2)), kind="places" if metric == "haversine" else "vectors"
        )
        outputs = [50.0, 10.0] + spread * rng.random((21, 2))
        epsilon, eta = (25.0, 0.4) if metric == "haversine" else (6.0, 1.5)
        problem = mdp.Problem(records, epsilon=epsilon, eta=eta, outputs=outputs, metric=metric, loss="distance")
        block_of = rng.integers(0, 3, 60)
        nearest = problem.metric.to_points(records, outputs).argmin(axis=0)
        assert np.array_equal(blocks_of_outputs(local_problem(problem), block_of), block_of[nearest])
        result = by_partitioner(problem, "k-m-rec", 2)
        assert result.lower_bound <= linprog_optimum(problem) * (1.0 + 1e-9)

    def test_chosen_records_as_outputs(self):
        rows = np.random.default_rng(2).permutation(120)[:50]
        problem = contiguous(120, epsilon=25.0, eta=0.2, outputs=rows)
        block_of = np.random.default_rng(3).integers(0, 4, 120)
        assert np.array_equal(blocks_of_outputs(local_problem(problem), block_of), block_of[rows])
        whole = mdp.solve(problem, method="local", gap=0.03)
        assert by_partitioner(problem, "metis", 3).lower_bound <= whole.loss

    def test_copies_of_records(self):
        places = contiguous(60, epsilon=25.0, eta=0.2).records.coordinates
        problem = mdp.Problem(
            mdp.Records(np.concatenate((places, places[::4]))), epsilon=25.0, eta=0.2, loss="distance"
        )
        result = by_partitioner(problem, "k-m-dv", 3)
        rows = result.mechanism.table.block()
        assert np.array_equal(rows[:60:4], rows[60:])

    def test_fewer_regions_than_blocks(self, town):
        """Blocks without outputs, and blocks whose few outputs filled up others, are no regions."""
        problem = contiguous(100, epsilon=25.0, eta=0.2, outputs=np.arange(0, 100, 4))
        plan = Plan.by_blocks(local_problem(problem), 0.05, LocalOptions(), np.arange(100))
        assert 1 < plan.n_regions <= 4
        assert sorted(np.concatenate([plan.outputs_of(k) for k in range(plan.n_regions)])) == list(range(25))
        assert by_partitioner(problem, "k-m-rec", 60).gap <= 0.05

    def test_no_time_for_blocks(self, town, monkeypatch):
        def slow(division, **_):
            division.stop.request_end()
            division.stop.check()

        monkeypatch.setattr(Division, "partition", slow)
        result = by_partitioner(town, "bsc")
        assert (result.is_interrupted, result.partition) == (True, None)


@pytest.fixture(scope="module")
def cluster():
    """A real cluster on this machine: a scheduler and two worker processes."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs="CRITICAL"
    ) as local:
        yield local


def quick(seconds, is_over):
    """Work of a region that takes a given time."""
    time.sleep(seconds)
    return {}, {"slept": seconds}


def slow(seconds, is_over):
    """The same by another name."""
    return quick(seconds, is_over)


class TestOnDask:
    def test_same_table(self, town, found, cluster):
        result = by_regions(town, 5, cluster=cluster.scheduler_address)
        assert (result.loss, result.lower_bound) == (found.loss, found.lower_bound)
        assert same(result.table, found.table)

    def test_same_table_with_a_partitioner(self, town, divided, cluster):
        result = by_partitioner(town, divided.partition.name, cluster=cluster.scheduler_address)
        assert (result.loss, result.lower_bound) == (divided.loss, divided.lower_bound)
        assert same(result.mechanism.table, divided.mechanism.table)

    def test_other_work_may_take_longer_than_what_went_before(self, cluster, monkeypatch):
        """How long quick work took says nothing of steps: they are waited for, and nothing is done twice."""
        monkeypatch.setattr(on_dask, "LEAST_PATIENCE", 0.05)
        monkeypatch.setattr(on_dask, "PATIENCE_RATIO", 1.0)
        from distributed import Client

        with Client(cluster, set_as_default=False) as client:
            held = on_dask.OnDask(1, Stop(None), client)
            for work, seconds in ((quick, 0.0), (slow, 1.0)):
                assert held.ask(work, lambda _, s=seconds: s, lambda *_: None) == [{"slept": seconds}]
            assert held.n_lost == 0

    @pytest.mark.parametrize("stage", ["windows", "repair"])
    def test_a_worker_dies(self, town, found, cluster, stage):
        from distributed import Client

        with Client(cluster, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=120)
            victims = iter(client.run(os.getpid).values())

        def kill(row):
            if row["stage"] == stage:
                victim = next(victims, None)
                if victim is not None:
                    os.kill(victim, signal.SIGKILL)

        result = by_regions(town, 5, trace=Trace(kill), cluster=cluster.scheduler_address)
        assert same(result.table, found.table)

    @pytest.mark.slow
    def test_half_of_the_workers_die_at_random_moments(self, town, found, cluster):
        """Twenty runs, and in each one of the two workers is killed: twenty equal tables."""
        from distributed import Client

        rng = np.random.default_rng(11)
        begin = time.monotonic()
        by_regions(town, 5, cluster=cluster.scheduler_address)
        usual = time.monotonic() - begin
        for _ in range(20):
            with Client(cluster, set_as_default=False) as client:
                client.wait_for_workers(2, timeout=120)
                victim = int(rng.choice(list(client.run(os.getpid).values())))
            killer = threading.Timer(usual * rng.random(), os.kill, (victim, signal.SIGKILL))
            killer.start()
            result = by_regions(town, 5, cluster=cluster.scheduler_address)
            killer.cancel()
            assert result.gap <= 0.05
            assert same(result.table, found.table)

    def test_the_scheduler_goes(self, town):
        import distributed

        with distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs="CRITICAL"
        ) as local:

            def close(row):
                if row["stage"] == "windows":
                    local.close()

            result = by_regions(town, 5, trace=Trace(close), cluster=local.scheduler_address)
        assert result.gap > 0.05  # what was there when it went: private all the same


def test_a_time_limit_leaves_time_for_the_table(town):
    """Steps end early enough for the repair: a limit costs the gap, and not the table."""
    result = by_regions(town, 5, 0.01, stop=Stop(8.0), options=LocalOptions())
    assert result.table.n_stored > 0
    assert result.lower_bound > 0.0


def test_asked_to_end(town):
    stop = Stop(None)

    def end(row):
        if row["stage"] == "windows":
            threading.Thread(target=stop.request_end).start()

    result = by_regions(town, 5, 1e-5, trace=Trace(end), stop=stop)
    assert result.table.n_stored == 0


class TestCheckpoint:
    def solve(self, town, folder, *, resume=False, gap=0.03, steps=100_000, regions=3, partition="kd"):
        options = LocalOptions(regions=regions, partition=partition, max_iterations=steps)
        return mdp.solve(town, method="local", gap=gap, options=options, checkpoint=folder, resume=resume)

    def test_goes_on(self, town, tmp_path):
        first = self.solve(town, tmp_path, steps=200)
        assert first.status is mdp.Status.LIMIT
        again = self.solve(town, tmp_path, resume=True)
        assert again.status is mdp.Status.OPTIMAL
        looks = [row["iteration"] for row in again.trace.rows if row["stage"] == "local"]
        assert looks[0] > 200
        # steps that were taken for nothing would come on top of those of a whole run
        assert again.iterations < self.solve(town, tmp_path / "anew").iterations + 100

    def test_other_losses_have_none(self, tmp_path):
        problem = contiguous(30, loss="travel", epsilon=25.0)
        with pytest.raises(mdp.InputError, match="leave checkpoint out, or take the loss 'distance'"):
            mdp.solve(problem, method="local", gap=0.05, checkpoint=tmp_path)

    def test_other_regions_are_another_run(self, town, tmp_path):
        self.solve(town, tmp_path, steps=40)
        with pytest.raises(mdp.InputError, match="without resume"):
            self.solve(town, tmp_path, resume=True, regions=4)

    def test_another_partitioner_is_another_run(self, town, tmp_path):
        self.solve(town, tmp_path, steps=40, partition="metis")
        for other in ("kd", "k-m-dv"):
            with pytest.raises(mdp.InputError, match="without resume"):
                self.solve(town, tmp_path, resume=True, partition=other)

    def test_other_blocks_begin_again(self, town, tmp_path, monkeypatch):
        """Another version of a partitioner may make other blocks: only regions of the same outputs go on."""
        saved, made = [], Division.partition

        def seen(*given):
            plan, found = saved_regions(*given)
            saved.append([one and one["steps"] for one in found])
            return plan, found

        def mirrored(division, **options):
            partition = made(division, **options)
            return mdp.partition.Partition(partition.graph, partition.block_of[::-1].copy(), "metis", "one-sided")

        monkeypatch.setattr("metricdp.solve.solvers.local.regions.loop.saved_regions", seen)
        self.solve(town, tmp_path, steps=40, partition="metis")
        self.solve(town, tmp_path, steps=60, partition="metis", resume=True)
        monkeypatch.setattr(Division, "partition", mirrored)
        result = self.solve(town, tmp_path, steps=60, partition="metis", resume=True)
        assert saved == [[None] * 3, [40] * 3, [None] * 3]
        assert result.mechanism.certificate.privacy.certified

    def test_lies_cost_time_and_nothing_else(self, town, tmp_path, reachable, monkeypatch):
        """Rows and multipliers that somebody made up, with the right seals."""
        rng = np.random.default_rng(0)

        def lying(state, _, __):
            wild = {name: rng.normal(0.0, 50.0, getattr(state, name).shape) for name in ("Z", "Y", "theta")}
            return {**{name: value.astype(np.float32) for name, value in wild.items()}, "steps": 40}, {}

        with monkeypatch.context() as patch:
            patch.setattr("metricdp.solve.solvers.local.regions.work.plain", lying)
            self.solve(town, tmp_path, steps=40)
        result = self.solve(town, tmp_path, resume=True, steps=60)
        assert result.mechanism.certificate.privacy.certified
        assert result.lower_bound <= reachable

    def test_a_damaged_file_is_refused(self, town, tmp_path):
        self.solve(town, tmp_path, steps=40)
        file = next(tmp_path.glob("component-1-state*"))
        data = bytearray(file.read_bytes())
        data[-5] ^= 1
        file.write_bytes(data)
        with pytest.raises(mdp.FileFormatError, match="start anew, without resume"):
            self.solve(town, tmp_path, resume=True)


class TestFacade:
    def test_regions_are_an_option(self, town):
        result = mdp.solve(town, method="local", gap=0.05, options=LocalOptions(regions=3))
        assert result.status is mdp.Status.OPTIMAL
        assert any(row.get("regions") == 3 for row in result.trace.rows)

    def test_less_memory_makes_more_regions(self):
        problem = contiguous(3_000, epsilon=25.0, eta=0.1)
        counts = Local().counts(problem, 0.05)
        plan = Plan(local_problem(problem), 0.05, LocalOptions(), 1)
        least, most = own_bytes(plan.problem, counts), region_bytes(plan, counts)
        with workers() as crew:
            rooms = (counts.n_bytes, least + 0.5 * most, least + 0.2 * most, least)
            one, some, more, none = (regions_for(plan, counts, crew, min(room, counts.n_bytes)) for room in rooms)
        assert (one, none) == (1, 0)
        assert 1 < some < more
        with ThreadPoolExecutor(4) as pool, workers(executor=pool) as crew:
            assert regions_for(plan, counts, crew, 1e12) == 1  # regions of fewer than 2,000 records do not pay

    def test_other_losses_are_refused(self):
        problem = contiguous(40, loss="travel", epsilon=25.0)
        with pytest.raises(mdp.InputError, match="can be divided into regions.*take the loss 'distance'"):
            mdp.solve(problem, method="local", options=LocalOptions(regions=2))

    @pytest.mark.parametrize(
        "wrong", [{"regions": 0}, {"regions": True}, {"halo": -1.0}, {"reach": 0.0}, {"table_reach": -1.0}]
    )
    def test_wrong_options(self, wrong):
        with pytest.raises(mdp.InputError, match=next(iter(wrong))):
            LocalOptions(**wrong)

    def test_wrong_partitions(self):
        with pytest.raises(mdp.InputError, match="unknown partitioner 'magic': choose one of kd, k-m-dv, .*metis"):
            LocalOptions(partition="magic", regions=2)
        with pytest.raises(mdp.InputError, match="give regions, such as regions=4, or leave partition out"):
            LocalOptions(partition="metis")
        assert LocalOptions(partition="metis", regions=2).regions == 2
