"""What workers answer is not trusted, and the way to them can be encrypted."""

from __future__ import annotations

import functools
import shutil
import subprocess
from concurrent.futures import Executor, Future
from pathlib import Path

import numpy as np
import pytest

import metricdp as mdp
from metricdp.solve import executor as executors
from metricdp.solve.answers import array_of, number_of, pack, text_of, unpack
from metricdp.solve.executor import workers
from metricdp.solve.stop import Stop

METHODS = {
    "benders": {"options": mdp.BendersOptions(n_blocks=4, halo_cuts=False, max_iterations=4)},
    "columns": {"options": mdp.ColumnOptions(records_per_patch=5, max_rounds=4)},
    "first-order": {"options": mdp.FirstOrderOptions(max_iterations=300)},
}


@functools.cache
def town():
    return mdp.Problem(mdp.data.road("gothenburg", n=40, seed=0), epsilon=2.0, eta=3.5, outputs=6, seed=0)


@functools.cache
def optimum():
    return mdp.solve(town(), method="direct", gap=1e-9).loss


class Liar(Executor):
    """Does what it is asked for, and changes the answers."""

    def __init__(self, change):
        self.change = change

    def submit(self, function, /, *arguments, **named):
        future = Future()
        future.set_result(self.change(function(*arguments, **named)))
        return future


def changed(name, change):
    def lie(answer):
        return {**answer, name: change(answer[name])} if name in answer else answer

    return lie


def without_y(answer):
    return {name: value for name, value in answer.items() if name != "y"}


WRONG = {
    "no dictionary": lambda _: {"Z": "x"},
    "nothing": lambda _: {},
    "missing": without_y,
    "no number": changed("y", lambda y: np.full(y.shape, np.nan)),
    "endless": changed("y", lambda y: np.full(y.shape, np.inf)),
    "shape": changed("y", lambda y: y[:-1]),
    "type": changed("y", lambda y: y.astype(np.float32)),
    "objects": changed("y", lambda y: y.astype(object)),
    "no such rows": lambda answer: {
        name: value + 10**6 if name in ("rows", "tail") else value for name, value in answer.items()
    },
}
LIES = {
    "multipliers": changed("y", lambda y: 1e3 * y),
    "signs": changed("y", lambda y: -y),
    "no rows": lambda answer: {
        name: value[:0] if name in ("rows", "tail", "head", "output", "y") else value for name, value in answer.items()
    },
    "directions": lambda answer: (
        {**answer, "tail": answer["head"], "head": answer["tail"]} if "tail" in answer else answer
    ),
    "matrix": changed("Z", lambda Z: np.roll(Z, 1, axis=1)),
    "column": changed("column", lambda v: v[::-1].copy()),
    "feasible": changed("missed", lambda _: -1.0),
}


class TestAnswers:
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
    def test_wrong_ones_are_refused_and_the_tasks_done_here(self, method, change):
        """They used to end in an error of numpy, or in a bound that is not a number."""
        result = mdp.solve(town(), method=method, gap=1e-6, executor=Liar(change), **METHODS[method])
        honest = mdp.solve(town(), method=method, gap=1e-6, **METHODS[method])
        assert (result.lower_bound, result.loss) == pytest.approx((honest.lower_bound, honest.loss), rel=1e-9)
        troubles = [row["trouble"] for row in result.trace.rows if row["stage"] == "trouble"]
        assert any("a worker's answer was refused" in trouble for trouble in troubles)

    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("change", LIES.values(), ids=LIES)
    def test_lies_cost_utility_only(self, method, change):
        result = mdp.solve(town(), method=method, gap=1e-6, executor=Liar(change), **METHODS[method])
        assert result.mechanism.certificate.privacy.certified
        assert result.lower_bound <= optimum() * (1 + 1e-9)
        assert result.loss >= optimum() * (1 - 1e-9)


ANSWER = {"Z": np.eye(2), "rows": np.arange(3), "none": np.zeros((0, 4)), "missed": 0.25, "trouble": "none"}


class TestPacked:
    def test_what_is_packed_comes_back(self):
        back = unpack(pack(ANSWER))
        assert set(back) == set(ANSWER)
        for name, value in ANSWER.items():
            assert np.array_equal(back[name], value)

    @pytest.mark.parametrize(
        "data",
        [None, {}, b"", b"x" * 100, np.zeros(3), pack(ANSWER)[:-1], pack({})[:9], pack(ANSWER).replace(b"{", b"[")],
    )
    def test_what_is_not_is_refused(self, data):
        with pytest.raises(mdp.InputError, match="an answer"):
            unpack(data)

    def test_checks_name_what_is_wrong(self):
        with pytest.raises(mdp.InputError, match="Z must be an array of int64, got float64"):
            array_of(ANSWER, "Z", np.int64, (2, 2))
        with pytest.raises(mdp.InputError, match=r"Z must have the shape \(None, 3\), got \(2, 2\)"):
            array_of(ANSWER, "Z", np.float64, (None, 3))
        with pytest.raises(mdp.InputError, match="rows must have finite values from 0 to 1"):
            array_of(ANSWER, "rows", np.int64, (3,), low=0, high=1)
        with pytest.raises(mdp.InputError, match="trouble must be a finite number"):
            number_of(ANSWER, "trouble")
        with pytest.raises(mdp.InputError, match="missed must be a text"):
            text_of(ANSWER, "missed")


class Evil:
    """Touches a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (Path(self.path),)


def answer_evil(path):
    return Evil(path)


def answer_plain(path):
    return {"text": path}


@pytest.fixture(scope="module")
def cluster():
    """A real cluster whose only worker is a thread of this process, at the other end of a real connection."""
    import distributed

    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        protocol="tcp",
        dashboard_address=":0",
        silence_logs="CRITICAL",
    ) as local:
        yield local


class TestDask:
    @pytest.mark.parametrize("is_polite", [True, False], ids=["asks how to write", "pickles anyway"])
    def test_no_object_is_unpickled(self, cluster, tmp_path, monkeypatch, is_polite):
        """The worker answers with an object that runs code: the client refuses it, and does the task itself."""
        from distributed.worker import Worker

        if not is_polite:
            get_data = Worker.get_data
            monkeypatch.setattr(
                Worker,
                "get_data",
                lambda worker, comm, keys, who=None, serializers=None: get_data(worker, comm, keys, who),
            )
        monkeypatch.setattr(executors, "_packed", lambda _, task: Evil(task))
        monkeypatch.setattr(executors, "PATIENCE_SECONDS", 1.0)
        path = str(tmp_path / "touched")
        with workers(cluster=cluster.scheduler_address) as crew:
            assert crew.run(answer_plain, [path], Stop()) == [{"text": path}]
            assert crew.n_lost == 1
        assert not Path(path).exists()

    def test_otherwise_it_would_be(self, cluster, tmp_path):
        """An ordinary client runs the code, so the test above tells something."""
        from distributed import Client

        path = tmp_path / "touched"
        with Client(cluster.scheduler_address, set_as_default=False) as client:
            client.submit(answer_evil, str(path), pure=False).result(timeout=60)
        assert path.exists()

    def test_a_failed_solver_is_told_in_words(self, cluster):
        def fail(task):
            from metricdp.errors import SolverError

            raise SolverError(f"no solution for {task}")

        with (
            workers(cluster=cluster.scheduler_address) as crew,
            pytest.raises(mdp.MetricDPError, match="no solution for 7"),
        ):
            crew.run(fail, [7], Stop())


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A certificate that signs itself, with its key, and one of somebody else."""
    if shutil.which("openssl") is None:
        pytest.skip("the program openssl is not here (apt install openssl)")
    made = []
    for name in ("ours", "theirs"):
        folder = tmp_path_factory.mktemp(name)
        words = "req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -keyout key.pem -out cert.pem"
        subprocess.run(["openssl", *words.split()], cwd=folder, check=True, capture_output=True)
        made.append((folder / "cert.pem", folder / "key.pem"))
    return made


@pytest.fixture(scope="module")
def encrypted(certificates):
    import distributed

    cert, key = (str(file) for file in certificates[0])
    roles = {
        f"tls_{role}_{kind}": file
        for role in ("scheduler", "worker", "client")
        for kind, file in (("cert", cert), ("key", key))
    }
    security = distributed.Security(require_encryption=True, tls_ca_file=cert, **roles)
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        protocol="tls",
        security=security,
        dashboard_address=":0",
        silence_logs="CRITICAL",
    ) as local:
        yield local.scheduler_address


class TestEncryption:
    def test_with_the_right_files(self, encrypted, certificates):
        cert, key = certificates[0]
        place = mdp.Cluster(encrypted, ca=cert, cert=cert, key=key)
        result = mdp.solve(town(), method="columns", gap=1e-3, cluster=place)
        assert result.status is mdp.Status.OPTIMAL
        assert not [row for row in result.trace.rows if row["stage"] == "trouble"]

    def test_with_the_files_of_somebody_else(self, encrypted, certificates, monkeypatch):
        monkeypatch.setattr(executors, "CONNECT_SECONDS", 1.0)
        cert, key = certificates[1]
        with pytest.raises(mdp.InputError, match="no Dask scheduler answers at 'tls://"):
            mdp.solve(town(), cluster=mdp.Cluster(encrypted, ca=cert, cert=cert, key=key))

    def test_without_files(self, encrypted, monkeypatch):
        with pytest.raises(mdp.InputError, match="requires encryption: give the files ca, cert and key"):
            mdp.solve(town(), cluster=encrypted)
        monkeypatch.setattr(executors, "CONNECT_SECONDS", 1.0)
        with pytest.raises(mdp.InputError, match="no Dask scheduler answers"):
            mdp.solve(town(), cluster=encrypted.replace("tls://", "tcp://"))

    def test_files_that_do_not_fit(self, certificates, tmp_path):
        cert, key = certificates[0]
        with pytest.raises(mdp.InputError, match="needs the files ca, cert and key: give ca and key too"):
            mdp.Cluster("tls://host:8786", cert=cert)
        with pytest.raises(mdp.InputError, match="there is no file"):
            mdp.Cluster("tls://host:8786", ca=tmp_path / "none.pem", cert=cert, key=key)
        with pytest.raises(mdp.InputError, match="would not be encrypted: use a tls:// address"):
            mdp.Cluster("tcp://host:8786", ca=cert, cert=cert, key=key)

    def test_a_file_that_is_no_certificate(self, encrypted, certificates, tmp_path):
        _, key = certificates[0]
        (tmp_path / "x.pem").write_text("not a certificate")
        place = mdp.Cluster(encrypted, ca=tmp_path / "x.pem", cert=tmp_path / "x.pem", key=key)
        with pytest.raises(mdp.InputError, match="no Dask scheduler answers"):
            mdp.solve(town(), cluster=place)

    def test_files_without_a_cluster(self, monkeypatch, capsys):
        from metricdp.cli import main

        words = "solve road:gothenburg --records 40 --outputs 6 --epsilon 2 --eta 3.5 --tls-ca x.pem"
        monkeypatch.setattr("sys.argv", ["metricdp", *words.split()])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 2
        assert "name it with --cluster" in capsys.readouterr().err

    def test_command_line(self, encrypted, certificates, monkeypatch, capsys):
        from metricdp.cli import main

        cert, key = (str(file) for file in certificates[0])
        words = "solve road:gothenburg --records 40 --outputs 6 --epsilon 2 --eta 3.5 --method columns --json --cluster"
        files = ["--tls-ca", cert, "--tls-cert", cert, "--tls-key", key]
        for given, code in ((files, 0), ([], 2), (files[:4], 2)):
            monkeypatch.setattr("sys.argv", ["metricdp", *words.split(), encrypted, *given])
            with pytest.raises(SystemExit) as end:
                main()
            assert end.value.code == code
            output = capsys.readouterr()
            assert "Traceback" not in output.err
            assert ("requires encryption" in output.err) == (not given)
