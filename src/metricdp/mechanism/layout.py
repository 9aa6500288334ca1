"""What the formats of mechanism files hold: tensors, metadata, and how their shapes fit together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from metricdp.errors import FileFormatError
from metricdp.mechanism.container import Kinds, check_tensors, metadata_hash, read_tensors, short, tensor_hash

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    Shapes = dict[str, tuple[int, ...]]

DENSE, SPARSE = "metricdp-1", "metricdp-2"
OWN_BUDGETS = "+epsilons"  # after either: each record has an epsilon of its own
PLANE = "metricdp-3"  # of regions: `metricdp.mechanism.plane_files`
METADATA = (
    "format",
    "epsilon",
    "eta",
    "metric",
    "kind",
    "name",
    "ids",
    "solver",
    "created",
    "sha256",
    "metadata_sha256",
)
OPTIONAL_METADATA = ("loss", "lower_bound", "loss_name")


class Layout(NamedTuple):
    """One format: its tensors, its optional metadata, and whether their shapes fit together."""

    required: dict[str, Kinds]
    optional: dict[str, Kinds]
    optional_metadata: tuple[str, ...]
    fits: Callable[[Shapes], bool]


def _dense_fits(shapes: Shapes) -> bool:
    n, K = shapes["table"]
    return _parts_fit(shapes, n, K)


def _sparse_fits(shapes: Shapes) -> bool:
    (n,), (K,) = shapes["scale"], shapes["background"]
    return (
        shapes["indptr"] == (n + 1,)
        and shapes["columns"] == shapes["weights"]
        and ("outputs" in shapes or n == K)
        and ("pairs" in shapes) == ("distances" in shapes)
        and _parts_fit(shapes, n, K)
    )


def _parts_fit(shapes: Shapes, n: int, K: int) -> bool:
    """Return whether what both formats have fits ``n`` records and ``K`` outputs."""
    D = shapes["records"][1]
    return (
        n > 0
        and K > 0
        and D > 0
        and shapes["records"] == (n, D)
        and shapes["prior"] == (n,)
        and shapes.get("epsilons", (n,)) == (n,)
        and shapes.get("pairs", (0, 2)) == (*shapes.get("distances", (0,)), 2)
        and shapes.get("outputs", (K,)) in ((K,), (K, D))
        and shapes.get("losses", (n, K)) == (n, K)
        and ("travel" not in shapes or (shapes["travel"][0] == n and shapes["travel"][1] > 0))
    )


_RECORDS: dict[str, Kinds] = {"records": frozenset({("F64", 2)}), "prior": frozenset({("F64", 1)})}
_PAIRS: dict[str, Kinds] = {"pairs": frozenset({("I32", 2)}), "distances": frozenset({("F64", 1)})}
_OUTPUTS: dict[str, Kinds] = {"outputs": frozenset({("I32", 1), ("F64", 2)})}  # rows of the records, or other points
_LOSSES: dict[str, Kinds] = {
    "losses": frozenset({("F64", 2)})
}  # what each report costs each record: for evaluation, privacy needs none
LAYOUTS = {
    DENSE: Layout(
        required={"table": frozenset({("U64", 2)}), **_PAIRS, **_OUTPUTS, **_RECORDS},
        optional=_LOSSES,
        optional_metadata=OPTIONAL_METADATA,
        fits=_dense_fits,
    ),
    SPARSE: Layout(
        required={
            "indptr": frozenset({("I64", 1)}),
            "columns": frozenset({("I32", 1)}),
            "weights": frozenset({("U64", 1)}),
            "background": frozenset({("U64", 1)}),
            "scale": frozenset({("U64", 1)}),
            **_RECORDS,
        },
        optional={**_PAIRS, **_OUTPUTS, **_LOSSES, "travel": frozenset({("F64", 2)})},
        optional_metadata=(*OPTIONAL_METADATA, "loss_kind"),
        fits=_sparse_fits,
    ),
}
LAYOUTS |= {
    name + OWN_BUDGETS: one._replace(required={**one.required, "epsilons": frozenset({("F64", 1)})})
    for name, one in LAYOUTS.items()
}


def layout_of(source: Path, metadata: object) -> Layout:
    """Return the layout that ``metadata`` name; refuse formats, and metadata, that this version does not know."""
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise FileFormatError(f"{source} is not a mechanism file: it has no metadata")
    if metadata.get("format") == PLANE:
        raise FileFormatError(
            f"{source} is the mechanism of a region, not of records: load it with metricdp.load; the commands "
            "verify, perturb, evaluate, report and estimate take it as it is"
        )
    layout = LAYOUTS.get(metadata.get("format", ""))
    if layout is None:
        raise FileFormatError(
            f"{source} has format {short(repr(metadata.get('format')))}, this version reads {', '.join(LAYOUTS)}: "
            "use a matching metricdp"
        )
    missing = [key for key in METADATA if key not in metadata]
    unknown = sorted(set(metadata) - {*METADATA, *layout.optional_metadata})
    if missing or unknown:
        raise FileFormatError(f"{source} is damaged: metadata missing {missing}, unknown {short(unknown)}")
    return layout


def checked_tensors(
    source: Path, header: dict[str, Any], offset: int, metadata: dict[str, str], layout: Layout
) -> dict[str, NDArray[Any]]:
    """Return the tensors of a file: names, types, extents and shapes are checked before they are read, then hashes."""
    if metadata["metadata_sha256"] != metadata_hash(metadata):
        raise _changed(source)
    shapes = check_tensors(source, header, offset, layout.required, layout.optional)
    if not layout.fits(shapes):
        raise FileFormatError(f"{source} is damaged: the shapes of its tensors do not fit together: {short(shapes)}")
    tensors = read_tensors(source, header, offset)
    if metadata["sha256"] != tensor_hash(tensors):
        raise _changed(source)
    return tensors


def _changed(source: Path) -> FileFormatError:
    return FileFormatError(f"{source} was changed after it was written: its hash does not match")
