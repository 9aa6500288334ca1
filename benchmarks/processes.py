"""Start a run in a process of its own, with a time limit, and measure the most memory that it held."""

from __future__ import annotations

import contextlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
START_UP_SECONDS = 90.0  # for imports, first calls and drawing the instance, which are not timed
POLL_SECONDS = 0.05  # between two looks at the process's memory


def held_mb(process: int | str = "self", *, field: str = "VmRSS") -> float:
    """Return the memory that a process holds, in MB.

    Linux keeps it in /proc; the resource usage that the system reports would count what the parent held before it
    started the process. Elsewhere the peak of this process is all there is.
    """
    status = Path(f"/proc/{process}/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
    lines = (line.split() for line in status.read_text().splitlines())
    return next((float(parts[1]) / 1e3 for parts in lines if parts and parts[0] == f"{field}:"), 0.0)


def peak_mb() -> float:
    """Return the most memory that this process has held since the peak was last reset, in MB."""
    return held_mb(field="VmHWM")


def forget_peak() -> None:
    """Reset the peak, where the system can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def run_task(task: dict[str, Any], *, limit: float) -> dict[str, Any]:
    """Run one task; a process that is not done in time is ended, and the answer says so."""
    with tempfile.TemporaryDirectory() as folder:
        names = ("task.json", "answer.json", "log.txt", "started")
        question, reply, log, started = (Path(folder) / name for name in names)
        question.write_text(json.dumps(task | {"started": str(started)}))
        with log.open("w") as output:
            process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "benchmarks.worker", str(question), str(reply)],
                cwd=ROOT,
                stdout=output,
                stderr=output,
            )
            is_late, memory = _wait(process, started, limit)
        if is_late:
            return {"late": limit, "peak_mb": memory}
        if not reply.exists():
            lines = log.read_text().strip().splitlines() or ["no message"]
            return {"failed": f"ended with code {process.returncode}: {lines[-1][:200]}", "peak_mb": memory}
        return json.loads(reply.read_text())


def _wait(process: subprocess.Popen, started: Path, limit: float) -> tuple[bool, float]:
    """Wait for the end: whether it came too late, and the most memory the process was seen to hold.

    The limit counts from when the solver begins, for peers as for ours.
    """
    deadline, memory, has_started = time.monotonic() + START_UP_SECONDS, 0.0, False
    while process.poll() is None:
        if not has_started and started.exists():
            deadline, has_started = time.monotonic() + limit, True
        with contextlib.suppress(OSError):
            memory = max(memory, held_mb(process.pid, field="VmHWM"))
        if time.monotonic() > deadline:
            process.kill()
            process.wait()
            return True, memory
        time.sleep(POLL_SECONDS)
    return False, memory
