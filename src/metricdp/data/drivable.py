"""Which OpenStreetMap ways are streets that a car may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_WITH_LINKS = ("motorway", "trunk", "primary", "secondary", "tertiary")
DRIVABLE_HIGHWAYS = frozenset(
    [*_WITH_LINKS, *(f"{name}_link" for name in _WITH_LINKS), "unclassified", "residential", "living_street", "road"]
)
_CLOSED = frozenset({"no", "private"})


def is_drivable(tags: Mapping[str, str]) -> bool:
    """Return whether a way with these tags is a public street for cars.

    A street has one of the ``highway`` values in ``DRIVABLE_HIGHWAYS`` (service ways, tracks, foot and cycle ways are
    not among them), is no area, and is not closed by ``access``, ``vehicle``, ``motor_vehicle`` or ``motorcar`` being
    ``no`` or ``private``; the more specific key decides.

    Examples
    --------
    >>> is_drivable({"highway": "residential"}), is_drivable({"highway": "footway"})
    (True, False)
    >>> is_drivable({"highway": "residential", "access": "no", "motor_vehicle": "destination"})
    True
    """
    if tags.get("highway") not in DRIVABLE_HIGHWAYS or tags.get("area") == "yes":
        return False
    permission = "yes"
    for key in ("access", "vehicle", "motor_vehicle", "motorcar"):
        permission = tags.get(key) or permission
    return permission not in _CLOSED
