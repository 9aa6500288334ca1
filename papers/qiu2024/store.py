"""Finished work on disk: one JSON file per task, complete or absent, so that a run can continue where it ended."""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from metricdp import __version__
from metricdp.data.writing import write_whole

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = "metricdp-paper-1"


@dataclass(frozen=True)
class Task:
    """One piece of work: what to do and with what; the same task gives the same figures, times apart."""

    kind: str
    fields: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, kind: str, **fields: Any) -> Task:
        """Make a task from named fields, which must be plain JSON values."""
        return cls(kind, tuple(sorted(fields.items())))

    def __getitem__(self, name: str) -> Any:
        return dict(self.fields)[name]

    @property
    def title(self) -> str:
        """What is done, in a few words for the progress line."""
        own = dict(self.fields)
        names = [str(own[key]) for key in ("dataset", "method", "preset") if key in own]
        parts = [f"{label} {own[key]:g}" for key, label in LABELS.items() if key in own]
        return f"{self.kind}: {', '.join([*names, *parts])}"


LABELS = {"n": "N", "n_blocks": "M", "epsilon": "epsilon", "instance": "instance"}


class Store:
    """The finished tasks in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, task: Task) -> Path:
        """Return the file of a task: its name can be read, and its end stands for every field and the version."""
        own = json.dumps([FORMAT, __version__, task.kind, task.fields])
        readable = re.sub(r"[^a-z0-9.]+", "-", task.title.lower()).strip("-")
        return self.folder / f"{readable}-{hashlib.sha256(own.encode()).hexdigest()[:10]}.json"

    def load(self, task: Task) -> dict[str, Any] | None:
        """Return the results of a finished task; None if it has not been done, or its file cannot be used."""
        try:
            found = json.loads(self.path(task).read_bytes())
        except (OSError, ValueError):
            return None
        if not isinstance(found, dict) or found.get("format") != FORMAT or not isinstance(found.get("result"), dict):
            return None
        return found["result"] if found.get("task") == dict(task.fields) else None

    def save(self, task: Task, result: dict[str, Any]) -> None:
        """Write the results of a task."""
        self.folder.mkdir(exist_ok=True)
        whole = {
            "format": FORMAT,
            "version": __version__,
            "kind": task.kind,
            "task": dict(task.fields),
            "result": result,
        }
        write_whole(self.path(task), to_json(whole))


def to_json(value: Any) -> bytes:
    """Return JSON that any reader accepts: infinities and missing numbers become null."""
    return (json.dumps(_plain(value), indent=1, allow_nan=False) + "\n").encode()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
