"""The progress of reading: how much of a file or stream has been read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from metricdp.report.tables import LiveLine, print_line

if TYPE_CHECKING:
    from rich.console import Console

    from metricdp.data.readers.streams import TextSource

SECONDS_BETWEEN_LINES = 10.0  # of progress, when standard error is not a terminal


class Counting(LiveLine):
    """Shows the progress of reading: continuously on a terminal, elsewhere a line every ten seconds."""

    def __init__(self, console: Console, what: str) -> None:
        super().__init__(console, "reading")
        self.what = what
        self._start = self._last = time.monotonic()

    def __call__(self, source: TextSource | None, count: int) -> None:
        """Show one step."""
        now, fraction = time.monotonic(), None if source is None else source.fraction
        share = "" if fraction is None else f"{100 * fraction:5.1f} %  "
        line = f"{now - self._start:8.2f} s  {share}{count:,} {self.what}"
        if not self.update(line) and now - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            print_line(self.console, line)
