"""What tests of windowed ledgers share: a clock that is set by hand, and the numbers of a day."""

import os
from datetime import timedelta

DAY = timedelta(hours=24)
DAY_NS = 24 * 60 * 60 * 10**9
NOON = 1_800_000_000 * 10**9
KEY = b"a key of 32 bytes for the tests."
HOLDERS = ("Ana", "Ben")
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108


class Clock:
    """A clock that stands still, and is set by hand."""

    def __init__(self):
        self.now = NOON

    def __call__(self):
        return self.now
