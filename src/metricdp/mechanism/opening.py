"""`metricdp.load`: any mechanism file, of records or of a region."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metricdp.mechanism.files import load as load_records
from metricdp.mechanism.plane_files import is_plane_file, load_plane

if TYPE_CHECKING:
    from pathlib import Path


def load(path: str | Path, *, require: str | None = None) -> Any:
    """Read a mechanism file, check its sizes and hashes, and certify it again.

    Returns a `Mechanism`, or a `PlaneMechanism` if the file is of a region: the file decides. `metricdp.load_plane`
    and `metricdp.mechanism.files.load` take files of one kind only.

    Parameters
    ----------
    require
        Conditions beyond the file's claims, such as ``"epsilon<=10, eta>=0.5, metric=haversine, records=HASH"``:
        see `Guarantee.unmet` and `PlaneGuarantee.unmet`. A mechanism that does not meet it raises a CertificationError.
    """
    return load_plane(path, require=require) if is_plane_file(path) else load_records(path, require=require)
