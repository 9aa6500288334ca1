"""Checkpoints: the state of a run, written after every iteration, so that it can continue after any kind of end.

A folder holds one safetensors file per iteration with what is new, and one with the best matrix and the multipliers
that prove the best lower bound. Files are written beside their place and moved into it, so each is complete or not
there at all. They contain no code.

Nothing in a checkpoint is trusted. Each file carries a seal of its contents, its place and its run, which shows damage;
but a seal is a plain SHA-256 that anybody can compute. So no bound is ever read from a file: lower bounds are
computed again from the stored multipliers, by the formula that is valid for any multipliers on the problem's own rows
and losses, and upper bounds from the stored matrix if it is private. Wrong data costs time at most.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from metricdp.data.writing import replacing
from metricdp.errors import FileFormatError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from numpy.typing import NDArray

FORMAT = "metricdp-checkpoint-2"
HEAD, LOCK = "run.json", "run.lock"
PROOF = "proof-"  # before the names of the arrays that prove the lower bound
OLD_FILE = re.compile(r"component-\d+-(state|\d+)\.safetensors")


@dataclass(frozen=True)
class State:
    """A run's best so far for one component.

    ``proof`` are the multipliers behind the lower bound. The bounds are written for people who look into the file, and
    never read again.
    """

    iteration: int
    lower_bound: float
    upper_bound: float
    Z: NDArray[np.float64]
    proof: dict[str, NDArray[Any]] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Stored:
    """The contents of one file: named arrays, and notes. Use them within `checked`, which names the file in errors."""

    path: Path
    arrays: dict[str, NDArray[Any]]
    notes: Any

    @property
    def proof(self) -> dict[str, NDArray[Any]]:
        """The arrays that prove the lower bound."""
        return {name.removeprefix(PROOF): value for name, value in self.arrays.items() if name.startswith(PROOF)}

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Name the file in the error when its contents are refused in this block."""
        try:
            yield
        except FileFormatError:
            raise
        except InputError as error:
            raise FileFormatError(f"{self.path} cannot be used ({error}): start anew, without resume") from None


@dataclass(frozen=True)
class Saved:
    """The files of one component: its state, and one per iteration."""

    iteration: int
    state: Stored
    steps: list[Stored]


class Checkpoint:
    """A folder for one run of one problem; no other run can use it until this one closes it or ends.

    Parameters
    ----------
    folder
        Made if it does not exist, for its owner only.
    fingerprint
        Of the problem and the options: a checkpoint of another problem is refused.
    resume
        Whether to continue from the folder's contents; otherwise they are replaced.
    warn
        Called once if the disk fails later: the run continues without a checkpoint, and earlier files are kept.
    """

    def __init__(
        self,
        folder: str | Path,
        fingerprint: str,
        *,
        resume: bool,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.folder, self.fingerprint, self.resume, self._warn = Path(folder), fingerprint, resume, warn
        self._has_failed = False
        if resume:
            self._check_head()
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _locked(self.folder)
        except OSError as error:
            raise InputError(f"cannot write the checkpoint folder {self.folder}: {error.strerror or error}") from None
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let other runs use the folder."""
        _open_locks.discard(self._lock)
        os.close(self._lock)

    def _begin(self) -> None:
        """Remove an old run unless this one continues it, and the partial files of a killed run."""
        if self.resume:
            self._check_head()  # again, now that the folder is locked
        try:
            if not self.resume:
                # the head first: the rest of the old run can then never be mistaken for a checkpoint
                (self.folder / HEAD).unlink(missing_ok=True)
                for old in list(self.folder.iterdir()):
                    if OLD_FILE.fullmatch(old.name):
                        old.unlink()
            head = {"format": FORMAT, "fingerprint": self.fingerprint}
            self._write_whole(self.folder / HEAD, json.dumps(head).encode())
        except (OSError, InputError) as error:
            raise InputError(f"cannot write the checkpoint folder {self.folder}: {error}") from None

    def _check_head(self) -> None:
        head = self.folder / HEAD
        if head.exists() and not head.is_file():
            raise FileFormatError(f"{head} is not a file: start anew, without resume")
        try:
            found = json.loads(head.read_text(encoding="utf-8"))
        except OSError:
            raise InputError(f"there is no checkpoint in {self.folder}: start anew, without resume") from None
        except (ValueError, RecursionError):
            raise FileFormatError(f"{head} is damaged: start anew, without resume") from None
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise FileFormatError(f"{head} is not a checkpoint of this version: start anew, without resume")
        if found.get("fingerprint") != self.fingerprint:
            raise InputError(
                f"the checkpoint in {self.folder} is of another problem or other options: use the same ones, "
                "another folder, or start anew, without resume"
            )

    def save(self, component: int, state: State, arrays: Mapping[str, NDArray[Any]], notes: Any) -> None:
        """Write an iteration's new arrays (with notes on them) and the state, the state last."""
        self._write(component, f"{state.iteration:05d}", arrays, notes)
        self.save_state(component, state)

    def save_state(self, component: int, state: State) -> None:
        """Write the best matrix, and the multipliers that prove the lower bound."""
        arrays = {"Z": state.Z, **{f"{PROOF}{name}": value for name, value in state.proof.items()}}
        bounds = {"lower": state.lower_bound.hex(), "upper": state.upper_bound.hex()}
        self._write(component, "state", arrays, {"iteration": state.iteration, **bounds, **state.notes})

    def load(self, component: int) -> Saved | None:
        """Return what was saved of a component, its state and all iterations; None if there is nothing yet."""
        if not self.resume or not self._path(component, "state").exists():
            return None
        state = self._read(component, "state")
        iteration = state.notes.get("iteration") if isinstance(state.notes, dict) else None
        if not isinstance(iteration, int) or iteration < -1:
            raise FileFormatError(f"{state.path} names no iteration: start anew, without resume")
        steps = [self._read(component, f"{number:05d}") for number in range(iteration + 1)]
        return Saved(iteration, state, steps)

    def _write(self, component: int, part: str, arrays: Mapping[str, NDArray[Any]], notes: Any) -> None:
        if self._has_failed:
            return  # an iteration is missing: later ones would be useless
        whole = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
        text = json.dumps(notes)
        metadata = {"notes": text, "seal": self._seal(component, part, whole, text)}
        try:
            self._write_whole(self._path(component, part), save(whole, metadata=metadata))
        except (OSError, InputError) as error:
            self._has_failed = True
            self._warn(f"the checkpoint could not be written ({error}); the run continues without it")

    @staticmethod
    def _write_whole(path: Path, data: bytes) -> None:
        if path.is_symlink():  # links in place of our files are not followed
            path.unlink()
        with replacing(path, is_private=True) as target:
            target.write(data)

    def _read(self, component: int, part: str) -> Stored:
        path = self._path(component, part)
        if path.exists() and not path.is_file():
            raise FileFormatError(f"{path} is not a file: start anew, without resume")
        try:
            with safe_open(path, framework="numpy") as file:
                metadata = file.metadata() or {}
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (it is no mapping)
        except (OSError, SafetensorError, TypeError, AttributeError, ValueError) as error:  # also a type numpy lacks
            raise FileFormatError(f"{path} is missing or damaged ({error}): start anew, without resume") from None
        text = metadata.get("notes", "")
        if metadata.get("seal") != self._seal(component, part, arrays, text):
            raise FileFormatError(f"{path} is damaged or of another run: start anew, without resume")
        try:
            return Stored(path, arrays, json.loads(text))
        except (ValueError, RecursionError):
            raise FileFormatError(f"{path} is damaged: start anew, without resume") from None

    def _seal(self, component: int, part: str, arrays: dict[str, NDArray[Any]], text: str) -> str:
        named = [item for name in sorted(arrays) for item in (name, arrays[name])]
        return fingerprint(self.fingerprint, component, part, text, *named)

    def _path(self, component: int, part: str) -> Path:
        return self.folder / f"component-{component}-{part}.safetensors"


def fingerprint(*parts: object) -> str:
    """Return a SHA-256 of arrays and plain values."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        else:
            digest.update(f"{part!r};".encode())
    return digest.hexdigest()


_open_locks: set[int] = set()


def _locked(folder: Path) -> int:
    """Lock a folder and return the lock's handle; the kernel releases it when the process ends."""
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise InputError(
            f"another run is using the checkpoint folder {folder}: choose another folder or wait until it has ended"
        ) from None
    except BaseException:
        os.close(handle)
        raise
    _open_locks.add(handle)
    return handle


def _let_go() -> None:
    """Close the locks in a forked process, which would hold them when the run itself is gone."""
    while _open_locks:
        os.close(_open_locks.pop())


os.register_at_fork(after_in_child=_let_go)
