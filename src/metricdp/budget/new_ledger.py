"""Ledgers that are made, or whose limit is changed, by the first charge: a run that charges nobody changes nothing."""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from metricdp.budget.ledger import Ledger
from metricdp.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta
    from fractions import Fraction

    from metricdp.mechanism.mechanism import Mechanism
    from metricdp.mechanism.plane import PlaneMechanism


class NewLedger(Ledger):
    """A ledger to charge, whose file is made when its limit has room for the first charge; then it is any ledger.

    Until then there is nothing to ask about: of what a `Ledger` has only `path`, `limit`, `window` and the charges.

    Parameters
    ----------
    path, limit, window, key
        As for a `Ledger`. Limit and window are checked at once, the key when the file is made.
    made
        Called when the file is there, before the first charge is written.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        limit: float | Fraction | None,
        window: timedelta | None = None,
        key: bytes | Path | None = None,
        made: Callable[[], None] = lambda: None,
    ) -> None:
        self._place, self._asked_limit, self._asked_window, self._asked_key = Path(path), limit, window, key
        self._made, self._is_made = made, False
        with tempfile.TemporaryDirectory() as folder:
            self._known_limit = self._rehearsed(folder).limit

    def __getattr__(self, name: str) -> NoReturn:
        if name == "_charges":
            raise InputError(f"the ledger {self.path} is made by its first charge: nobody has spent anything yet")
        raise AttributeError(name)

    @property
    def path(self) -> Path:
        """The file, made or not."""
        return self._place.resolve()

    @property
    def limit(self) -> Fraction | float:
        """The most that a holder may spend."""
        return super().limit if self._is_made else self._known_limit

    @property
    def window(self) -> timedelta | None:
        """The length of time over which the limit holds; None if it holds for ever."""
        return self._asked_window

    def _charge(
        self,
        reports_of: Mapping[str, int],
        epsilon: float,
        mechanism: Mechanism | PlaneMechanism | None = None,
        *,
        are_many: bool = False,
        granted: dict[str, int] | None = None,
    ) -> float:
        """Charge a ledger of no account first, whose errors are those of this one; make the file if that is granted."""
        if not self._is_made:
            with tempfile.TemporaryDirectory() as folder:
                tried: dict[str, int] | None = None if granted is None else {}
                asked = self._rehearsed(folder)._charge(  # noqa: SLF001  (of the same kind)
                    reports_of, epsilon, mechanism, are_many=are_many, granted=tried
                )
            if tried is not None and granted is not None and not any(tried.values()):
                granted |= tried
                return asked
            super().__init__(self._place, limit=self._asked_limit, window=self._asked_window, key=self._asked_key)
            self._is_made = True
            self._made()
        return super()._charge(reports_of, epsilon, mechanism, are_many=are_many, granted=granted)

    def _rehearsed(self, folder: str) -> Ledger:
        """Return a ledger with this limit and window that nobody has charged; its names are hidden by a random key."""
        key = secrets.token_bytes(32)
        return Ledger(Path(folder) / "rehearsal.db", limit=self._asked_limit, window=self._asked_window, key=key)


class ChangedLedger(Ledger):
    """A ledger that is there, whose limit is changed for everyone when somebody is charged.

    Parameters
    ----------
    path, window, key
        As for a `Ledger`.
    limit
        The new limit.
    changed
        Called when the limit has been changed.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        limit: float,
        window: timedelta | None = None,
        key: bytes | Path | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._next_limit: float | None = None
        super().__init__(path, window=window, key=key, must_exist=True)
        self._next_limit, self._changed = limit, changed

    @property
    def limit(self) -> Fraction | float:
        """The most that a holder may spend, when the next charge is made."""
        return super().limit if self._next_limit is None else self._next_limit

    def _charge(self, *given: Any, **options: Any) -> float:
        """Change the limit, then charge as any ledger does."""
        if self._next_limit is not None:
            self.change_limit(self._next_limit)
            self._next_limit = None
            self._changed()
        return super()._charge(*given, **options)
