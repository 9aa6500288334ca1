"""Checkpoints: what a run has learned, written after every iteration, so that it can go on after any kind of end.

A folder holds one safetensors file per iteration with the new cuts, and one with the incumbent and the bounds. Files
are written beside their place and moved into it, so each is there whole or not at all. There is no code inside.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from metricdp.errors import FileFormatError, InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

FORMAT = "metricdp-checkpoint-1"


@dataclass(frozen=True)
class State:
    """A run's best so far for one component."""

    iteration: int
    lower_bound: float
    upper_bound: float
    Z: NDArray[np.float64]


class Checkpoint:
    """A folder for one run of one problem.

    Parameters
    ----------
    folder
        Made if it does not exist.
    fingerprint
        Of the problem and the options: a checkpoint of another problem is refused.
    resume
        Whether to go on from what is there; otherwise what is there is replaced.
    """

    def __init__(self, folder: str | Path, fingerprint: str, *, resume: bool) -> None:
        self.folder = Path(folder)
        self.resume = resume
        head = self.folder / "run.json"
        if resume:
            self._check(head, fingerprint)
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for old in self.folder.iterdir():
                if re.fullmatch(r"component-\d+-(state|\d+)\.safetensors|run\.json", old.name):
                    old.unlink()
            write_whole(head, json.dumps({"format": FORMAT, "fingerprint": fingerprint}).encode())
        except OSError as error:
            raise InputError(f"cannot write the checkpoint folder {folder}: {error.strerror or error}") from None

    def _check(self, head: Path, fingerprint: str) -> None:
        try:
            found = json.loads(head.read_text(encoding="utf-8"))
        except OSError:
            raise InputError(f"there is no checkpoint in {self.folder}: start without --resume") from None
        except ValueError:
            raise FileFormatError(f"{head} is damaged: start without --resume") from None
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise FileFormatError(f"{head} is not a checkpoint of this version: start without --resume")
        if found.get("fingerprint") != fingerprint:
            raise InputError(
                f"the checkpoint in {self.folder} is of another problem or other options: use the same ones, "
                "another folder, or start without --resume"
            )

    def save(self, component: int, state: State, arrays: dict[str, NDArray[Any]], notes: list[dict[str, Any]]) -> None:
        """Write an iteration's new arrays (with notes on them) and the state, the state last."""
        metadata = {"notes": json.dumps(notes)}
        whole = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
        write_whole(self._path(component, f"{state.iteration:05d}"), save(whole, metadata=metadata))
        bounds = {"iteration": state.iteration, "lower": state.lower_bound.hex(), "upper": state.upper_bound.hex()}
        packed = save({"Z": np.ascontiguousarray(state.Z)}, metadata={"state": json.dumps(bounds)})
        write_whole(self._path(component, "state"), packed)

    def load(self, component: int) -> tuple[State, list[tuple[dict[str, NDArray[Any]], list[dict[str, Any]]]]] | None:
        """Give the state and all iterations' arrays and notes; None if the component has not been saved yet."""
        path = self._path(component, "state")
        if not self.resume or not path.exists():
            return None
        try:
            bounds = json.loads(_metadata(path)["state"])
            state = State(
                int(bounds["iteration"]),
                float.fromhex(bounds["lower"]),
                float.fromhex(bounds["upper"]),
                load_file(path)["Z"],
            )
            steps = []
            for number in range(state.iteration + 1):
                step = self._path(component, f"{number:05d}")
                steps.append((load_file(step), json.loads(_metadata(step)["notes"])))
        except (OSError, KeyError, ValueError, TypeError, SafetensorError) as error:
            raise FileFormatError(
                f"the checkpoint in {self.folder} is damaged ({error}): start without --resume"
            ) from None
        return state, steps

    def _path(self, component: int, part: str) -> Path:
        return self.folder / f"component-{component}-{part}.safetensors"


def fingerprint(*parts: object) -> str:
    """Give a SHA-256 of arrays and plain values."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        else:
            digest.update(repr(part).encode())
    return digest.hexdigest()


def write_whole(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)


def _metadata(path: Path) -> dict[str, str]:
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(min(length, 1 << 26)))
    found = header["__metadata__"]
    if not isinstance(found, dict):
        raise KeyError("__metadata__")
    return found
