"""The example service under real clients: one ``kill -9``, nothing lost in the ledger, no true value in any log."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

import metricdp as mdp

SERVICE = Path(__file__).parents[2] / "examples" / "service"
N_CLIENTS = 8
PATIENCE = 120  # seconds

pytest.importorskip("fastapi", reason="the example service needs fastapi and uvicorn, which dev installs")
pytest.importorskip("uvicorn", reason="the example service needs fastapi and uvicorn, which dev installs")


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    path = tmp_path_factory.mktemp("service") / "city.mdp"
    records = mdp.data.grid(6, 6)
    # places some 1 km apart, so that all are joined
    places = mdp.Records(57.7 + records.coordinates * 0.009, ids=records.ids)
    mdp.exponential(mdp.Problem(places, epsilon=1.0, eta=2.0, outputs=12)).save(path)
    return path


class RefusedError(Exception):
    """An answer other than 200: its code, and its text."""


class Service:
    """The service in a process of its own, whose output goes to a file."""

    def __init__(self, folder, city, *, limit):
        self.folder = folder
        key, ledger = folder / "budget.key", folder / "budget.db"
        mdp.Ledger(ledger, limit=limit, key=key)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        names = {"METRICDP_FILE": city, "METRICDP_LEDGER": ledger, "METRICDP_KEY": key, "METRICDP_SNAP_LIMIT": "1.0"}
        self.environment = {**os.environ, **{name: str(value) for name, value in names.items()}}
        self.log = folder / "service.log"
        self.start()

    def start(self):
        command = [sys.executable, "-m", "uvicorn", "service:app", "--port", str(self.port), "--log-level", "trace"]
        with self.log.open("ab") as stream:
            self.process = subprocess.Popen(
                command, cwd=SERVICE, env=self.environment, stdout=stream, stderr=subprocess.STDOUT
            )
        for _ in range(600):
            if self.process.poll() is not None:
                pytest.fail(self.log.read_text())
            try:
                self.ask("/promise")
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)
            else:
                return
        pytest.fail("the service did not start")

    def ask(self, path, body=None, person=None):
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} | ({} if person is None else {"X-Person": person})
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("GET" if data is None else "POST", path, body=data, headers=headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise RefusedError(answer.status, text)
        return json.loads(text)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def service(city, tmp_path):
    found = Service(tmp_path, city, limit=1_000_000)
    yield found
    found.kill()


def hammer(service, seconds, kill_after):
    """Eight clients for so many seconds, one kill -9; the reports that each got, the latencies, and all true places."""
    end, got, places, latencies = time.monotonic() + seconds, Counter(), [], []
    unexpected = []

    def client(number):
        # on a busy machine the service takes its time to start again: everybody gets a report after all
        while time.monotonic() < end or (not got[f"person {number}"] and time.monotonic() < end + PATIENCE):
            latitude = 57.705 + 0.04 * secrets.randbelow(10**9) / 10**9
            longitude = 57.705 + 0.04 * secrets.randbelow(10**9) / 10**9
            places.append((repr(latitude), repr(longitude)))
            begin = time.monotonic()
            try:
                answer = service.ask("/report", {"latitude": latitude, "longitude": longitude}, f"person {number}")
            except RefusedError as error:
                unexpected.append(error.args)
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)  # while it is down; a report may have been charged and lost on the way
            else:
                assert set(answer) == {"id", "latitude", "longitude"}
                got[f"person {number}"] += 1
                latencies.append(time.monotonic() - begin)

    clients = [threading.Thread(target=client, args=(number,)) for number in range(N_CLIENTS)]
    for one in clients:
        one.start()
    time.sleep(kill_after)
    service.kill()
    service.start()
    for one in clients:
        one.join()
    return got, sorted(latencies), places, unexpected


def check_run(service, seconds, kill_after):
    got, latencies, places, unexpected = hammer(service, seconds, kill_after)
    assert not unexpected, unexpected[:3]
    assert len(got) == N_CLIENTS
    ledger = mdp.Ledger(service.folder / "budget.db", key=service.folder / "budget.key", must_exist=True)
    assert ledger.check() >= sum(got.values())
    for person, reports in got.items():
        spent = ledger.exactly_spent(person)
        assert spent >= reports, "a report that was made is not in the ledger"
        assert spent <= reports + 2, "more was charged than one request that the kill interrupted explains"
    written = b"".join(path.read_bytes() for path in service.folder.iterdir() if path.name != "budget.key")
    for latitude, longitude in places:
        assert latitude.encode() not in written
        assert longitude.encode() not in written
    for person in got:
        assert person.encode() not in written
    return got, latencies


def test_eight_clients_and_a_kill(service):
    check_run(service, seconds=4.0, kill_after=1.5)


@pytest.mark.slow
def test_eight_clients_for_half_a_minute_and_a_kill(service):
    got, latencies = check_run(service, seconds=30.0, kill_after=12.0)
    middle, late = (1000 * latencies[int(share * (len(latencies) - 1))] for share in (0.5, 0.99))
    sys.stderr.write(f"{sum(got.values())} reports, median {middle:.1f} ms, 99 % within {late:.1f} ms\n")
    assert sum(got.values()) > 100


def test_wrong_bodies_are_not_repeated(service):
    for body in (
        {"latitude": 91.2345, "longitude": 1.0},
        {"latitude": "57.987654"},
        b'{"latitude": 57.98',
        b"[57.987654]",
    ):
        with pytest.raises(RefusedError) as refused:
            service.ask("/report", body, "Ana")
        assert refused.value.args[0] == 422
        assert b"57.98" not in refused.value.args[1]
    with pytest.raises(RefusedError) as refused:
        service.ask("/report", {"latitude": 10.987654, "longitude": 10.0}, "Ana")
    assert refused.value.args[0] == 400
    assert service.ask("/budget", person="Ana")["spent"] == 1.0  # a refusal for a far point is visible, so it costs
    assert b"10.987654" not in service.log.read_bytes()


def test_a_spent_budget_is_an_answer(city, tmp_path):
    service = Service(tmp_path, city, limit=2)
    try:
        place = {"latitude": 57.72, "longitude": 57.72}
        for _ in range(2):
            service.ask("/report", place, "Ana")
        with pytest.raises(RefusedError) as refused:
            service.ask("/report", place, "Ana")
        assert refused.value.args[0] == 429
        assert service.ask("/budget", person="Ana") == {"spent": 2.0, "remaining": 0.0}
        assert service.ask("/report", place, "Ben")
    finally:
        service.kill()
