"""Checkpoints: what a run has learned, written after every iteration, so that it can go on after any kind of end.

A folder holds one safetensors file per iteration with the new cuts, and one with the incumbent and the bounds. Files
are written beside their place and moved into it, so each is there whole or not at all, and each carries a seal of its
contents, its place and its run: a bound that was damaged on the way is never believed. There is no code inside.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from metricdp.errors import FileFormatError, InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

FORMAT = "metricdp-checkpoint-1"
HEAD = "run.json"


@dataclass(frozen=True)
class State:
    """A run's best so far for one component; ``feasible_since`` says from which iteration on blocks were feasible."""

    iteration: int
    lower_bound: float
    upper_bound: float
    Z: NDArray[np.float64]
    feasible_since: dict[int, int] = field(default_factory=dict)


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
        self.folder, self.fingerprint, self.resume = Path(folder), fingerprint, resume
        if resume:
            self._check_head()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not resume:
                self._clear()
            write_whole(self.folder / HEAD, json.dumps({"format": FORMAT, "fingerprint": fingerprint}).encode())
        except OSError as error:
            raise self._unwritable(error) from None

    def _check_head(self) -> None:
        head = self.folder / HEAD
        try:
            found = json.loads(head.read_text(encoding="utf-8"))
        except OSError:
            raise InputError(f"there is no checkpoint in {self.folder}: start without --resume") from None
        except (ValueError, RecursionError):
            raise FileFormatError(f"{head} is damaged: start without --resume") from None
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise FileFormatError(f"{head} is not a checkpoint of this version: start without --resume")
        if found.get("fingerprint") != self.fingerprint:
            raise InputError(
                f"the checkpoint in {self.folder} is of another problem or other options: use the same ones, "
                "another folder, or start without --resume"
            )

    def _clear(self) -> None:
        """Remove an old run, its head first: what is left of it can then never be taken for a checkpoint."""
        (self.folder / HEAD).unlink(missing_ok=True)
        for old in self.folder.iterdir():
            if re.fullmatch(r"component-\d+-(state|\d+)\.safetensors|\.(component-.*|run\.json)\.new", old.name):
                old.unlink()

    def save(self, component: int, state: State, arrays: dict[str, NDArray[Any]], notes: list[dict[str, Any]]) -> None:
        """Write an iteration's new arrays (with notes on them) and the state, the state last."""
        self._write(component, f"{state.iteration:05d}", arrays, notes)
        self.save_state(component, state)

    def save_state(self, component: int, state: State) -> None:
        """Write the bounds and the incumbent."""
        notes = {
            "iteration": state.iteration,
            "lower": state.lower_bound.hex(),
            "upper": state.upper_bound.hex(),
            "feasible_since": list(state.feasible_since.items()),
        }
        self._write(component, "state", {"Z": state.Z}, notes)

    def load(self, component: int) -> tuple[State, list[tuple[dict[str, NDArray[Any]], Any]]] | None:
        """Give the state and all iterations' arrays and notes; None if the component has not been saved yet."""
        if not self.resume or not self._path(component, "state").exists():
            return None
        arrays, notes = self._read(component, "state")
        state = State(
            notes["iteration"],
            float.fromhex(notes["lower"]),
            float.fromhex(notes["upper"]),
            arrays["Z"],
            dict(notes["feasible_since"]),
        )
        return state, [self._read(component, f"{number:05d}") for number in range(state.iteration + 1)]

    def _write(self, component: int, part: str, arrays: dict[str, NDArray[Any]], notes: Any) -> None:
        whole = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
        text = json.dumps(notes)
        metadata = {"notes": text, "seal": self._seal(component, part, whole, text)}
        try:
            write_whole(self._path(component, part), save(whole, metadata=metadata))
        except OSError as error:
            raise self._unwritable(error) from None

    def _read(self, component: int, part: str) -> tuple[dict[str, NDArray[Any]], Any]:
        path = self._path(component, part)
        try:
            with safe_open(path, framework="numpy") as file:
                metadata = file.metadata() or {}
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (it is no mapping)
        except (OSError, SafetensorError) as error:
            raise FileFormatError(f"{path} is missing or damaged ({error}): start without --resume") from None
        text = metadata.get("notes", "")
        if metadata.get("seal") != self._seal(component, part, arrays, text):
            raise FileFormatError(f"{path} is damaged or of another run: start without --resume")
        return arrays, json.loads(text)

    def _seal(self, component: int, part: str, arrays: dict[str, NDArray[Any]], text: str) -> str:
        named = [item for name in sorted(arrays) for item in (name, arrays[name])]
        return fingerprint(self.fingerprint, component, part, text, *named)

    def _path(self, component: int, part: str) -> Path:
        return self.folder / f"component-{component}-{part}.safetensors"

    def _unwritable(self, error: OSError) -> InputError:
        return InputError(f"cannot write the checkpoint folder {self.folder}: {error.strerror or error}")


def fingerprint(*parts: object) -> str:
    """Give a SHA-256 of arrays and plain values."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        else:
            digest.update(f"{part!r};".encode())
    return digest.hexdigest()


def write_whole(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)
