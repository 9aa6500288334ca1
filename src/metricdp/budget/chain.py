"""Links that bind every charge to all charges before it, and the newest link kept apart from them.

With a key, nobody without it can make, change, drop or reorder a charge unnoticed. Without one, a link is a plain hash:
it shows accidental damage, but anyone who wants to forge a ledger can compute all links again.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from typing import TYPE_CHECKING

from metricdp.budget.store import Hmac, LedgerError, between_forks
from metricdp.data.writing import lock
from metricdp.errors import FileFormatError

if TYPE_CHECKING:
    from pathlib import Path

# a byte that no UTF-8 text has, so that no holder's name has this key as its HMAC
CHAIN_LABEL = b"\xffmetricdp charges"
SLOT_BYTES = 256  # bytes for one link in the head file


class Chain:
    """Makes links: HMAC-SHA256 with a key that is derived from ``key``, or plain SHA-256 without one."""

    def __init__(self, key: bytes | None) -> None:
        self._digest = _sha256 if key is None else Hmac(hmac.digest(key, CHAIN_LABEL, "sha256")).digest

    def link(self, before: bytes, *fields: str | int) -> bytes:
        """Return the link of ``fields`` after the link ``before``."""
        return self._digest(before + as_json(fields).encode())

    def start(self, name: str) -> bytes:
        """Return the link before the first charge of the ledger ``name``."""
        return self.link(b"", "start", name)

    def seal(self, *fields: str | int) -> str:
        """Return the hexadecimal digits that show that ``fields`` are as they were written."""
        return self.link(b"", "seal", *fields).hex()


def _sha256(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()


# one encoder for all links: `json.dumps` makes checks on each call that plain texts and numbers do not need
as_json = json.JSONEncoder(check_circular=False).encode


class Head:
    """How many charges a ledger had when it was last used, and the newest link: in a small file beside the key.

    A ledger that was put back to an older copy has fewer charges than its head. One that was killed after a commit has
    more, and goes on from the head's link. Two slots are written in turn, so that a torn write leaves the one before.
    The file is not synchronised: after a power cut it may be some seconds behind.

    Parameters
    ----------
    path
        The head file, made by the first `write`.
    name
        Which ledger it belongs to.
    """

    def __init__(self, path: Path, chain: Chain, name: str) -> None:
        self.path, self._chain, self._name = path, chain, name

    def read(self) -> tuple[int, bytes] | None:
        """Return the number of charges and the link; None if there is no file, or none written yet."""
        try:
            with between_forks:
                data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LedgerError(f"{self.path} cannot be read ({error.strerror}): nothing was granted") from None
        return self._newest(data)[:2] if data else None

    def write(self, n_charges: int, link: bytes) -> None:
        """Write the newest link, unless the file already has a newer one."""
        try:
            with between_forks:
                handle = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
                with os.fdopen(handle, "r+b") as file:
                    lock(file)  # without locks (Windows) it may lag behind by a charge when two processes write
                    data = file.read()
                    newest, slot = self._newest(data)[::2] if data else (None, 1)
                    if newest is None or n_charges > newest:
                        file.seek(SLOT_BYTES * (1 - slot))
                        file.write(self._slot(n_charges, link))
        except OSError as error:
            raise LedgerError(
                f"{self.path} cannot be written ({error.strerror}): a charge may be recorded, but nothing was granted"
            ) from None

    def _slot(self, n_charges: int, link: bytes) -> bytes:
        fields = (self._name, n_charges, link.hex())
        return json.dumps([*fields, self._chain.seal("head", *fields)]).encode().ljust(SLOT_BYTES - 1) + b"\n"

    def _newest(self, data: bytes) -> tuple[int, bytes, int]:
        found = [
            (*content, slot) for slot in (0, 1) if (content := self._content(data[slot * SLOT_BYTES :][:SLOT_BYTES]))
        ]
        if not found:
            raise FileFormatError(
                f"{self.path} is damaged or not the head of this ledger: nothing was granted; put the newest copy "
                "back, or give every ledger with this key a name of its own"
            )
        return max(found)

    def _content(self, data: bytes) -> tuple[int, bytes] | None:
        try:
            name, n_charges, link, seal = json.loads(data)
            is_ours = name == self._name and hmac.compare_digest(seal, self._chain.seal("head", name, n_charges, link))
            return (n_charges, bytes.fromhex(link)) if is_ours else None
        except (ValueError, TypeError):
            return None
