"""What `load` and `load_plane` have in common: what a file that does not hold is told as, and the requirement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from metricdp.errors import CertificationError, FileFormatError, InputError, UnmetError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Certified(Protocol):
    """A mechanism of records or of a region."""

    @property
    def guarantee(self) -> Any: ...


M = TypeVar("M", bound=Certified)


def loaded(source: Path, read: Callable[[Path], M], require: str | None) -> M:
    """Return the mechanism that ``read`` makes of a file, which certifies it, if it meets the requirement."""
    try:
        mechanism = read(source)
    except CertificationError as error:
        raise CertificationError(f"{source} does not satisfy its claims: {error}") from None
    except FileFormatError:
        raise
    except InputError as error:
        raise FileFormatError(f"{source} is damaged: {error}") from None
    except (OSError, MemoryError) as error:
        raise FileFormatError(f"cannot read {source}: {error}") from None
    unmet = "" if require is None else mechanism.guarantee.unmet(require)
    if unmet:
        raise UnmetError(f"{source} does not meet the requirement: {unmet}")
    return mechanism
