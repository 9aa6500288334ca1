"""The exceptions of metricdp: each message names the fault and the remedy, but no secret unless asked to."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_SHOWN = 40  # characters of a value in a message
_is_shown = ContextVar("_is_shown", default=False)


@contextmanager
def show_values() -> Iterator[None]:
    """Show true values in the messages of errors within this context.

    Messages end up in logs, tickets and on other people's screens. So they name the row and the column of a true
    record, and show the record itself only here.
    """
    token = _is_shown.set(True)
    try:
        yield
    finally:
        _is_shown.reset(token)


def revealed(value: object) -> str:
    """Return a secret value for a message, in brackets after a space; nothing outside of `show_values`.

    Examples
    --------
    >>> f"line 2{revealed('home')} is wrong"
    'line 2 is wrong'
    >>> with show_values():
    ...     f"line 2{revealed('home')} is wrong"
    "line 2 ('home') is wrong"
    """
    if not _is_shown.get():
        return ""
    text = str(value)
    return f" ({text!r})" if len(text) <= LONGEST_SHOWN else f" ({text[:LONGEST_SHOWN] + '...'!r})"


class MetricDPError(Exception):
    """Base of every error that metricdp raises on purpose."""


class InputError(MetricDPError, ValueError):
    """The user's input cannot be used; the message says what was found and what to give instead."""


class MissingExtraError(MetricDPError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f'{purpose} needs the package {package}: install it with pip install "metricdp[{extra}]"')


class FileFormatError(InputError):
    """A file is damaged, of an unknown version, or not what it claims to be."""


class CertificationError(MetricDPError):
    """A table does not satisfy epsilon-mDP; no mechanism is released."""


class UnmetError(CertificationError):
    """A mechanism is as private as its file claims, but not what was required of it."""


class SolverError(MetricDPError):
    """The LP solver returned no usable solution."""


class OutOfRoomError(SolverError):
    """A linear program would outgrow the memory that it may take."""


class InfeasibleError(SolverError):
    """The linear program has no solution."""


class StoppedError(MetricDPError):
    """Work that is useless when incomplete was interrupted because it was time to stop."""


class Faults:
    """Gathers every fault of an input, so that they are reported together and once.

    Examples
    --------
    >>> faults = Faults("Problem")
    >>> faults.check(-1.0 > 0, "epsilon must be positive, got -1.0")
    >>> faults.raise_if_any()
    Traceback (most recent call last):
        ...
    metricdp.errors.InputError: epsilon must be positive, got -1.0
    """

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.messages: list[str] = []

    def add(self, message: str) -> None:
        """Add one fault."""
        self.messages.append(message)

    def check(self, holds: bool, message: str) -> None:
        """Add the fault unless ``holds``."""
        if not holds:
            self.add(message)

    def raise_if_any(self) -> None:
        """Raise one InputError with all faults noted so far."""
        if len(self.messages) == 1:
            raise InputError(self.messages[0])
        if self.messages:
            raise InputError(f"{self.subject} has {len(self.messages)} faults: " + "; ".join(self.messages))
