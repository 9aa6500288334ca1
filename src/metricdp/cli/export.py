"""`metricdp export`: a public part of a mechanism file, for devices."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from metricdp.cli.app import FileArgument, JsonOption, app, err, out, print_json
from metricdp.cli.checks import check_targets
from metricdp.data.regions import Region
from metricdp.data.writing import is_packed, write_whole
from metricdp.errors import InputError
from metricdp.mechanism.files import load
from metricdp.mechanism.mechanism import Mechanism
from metricdp.mechanism.part import part_of
from metricdp.report.tables import print_line


@app.command("export")
def export(
    file: FileArgument,
    target: Annotated[Path, typer.Option("-o", "--output", help="The file to write.")],
    region: Annotated[
        str | None,
        typer.Option(help="Only records in this region: SOUTH,WEST,NORTH,EAST in degrees, or a GeoJSON file."),
    ] = None,
    ids: Annotated[Path | None, typer.Option(help="Only the records that this text file names, one in a line.")] = None,
    merge_outputs: Annotated[
        bool, typer.Option("--merge-outputs", help="Replace outputs outside the region by the best ones inside it.")
    ] = False,
    keep_losses: Annotated[
        bool, typer.Option("--keep-losses", help="Keep the losses, which evaluation needs and devices do not.")
    ] = False,
    compress: Annotated[
        bool, typer.Option("--compress", help="Pack the file with gzip; .gz is added to its name.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a part of a mechanism file for devices, chosen without any secret and certified on its own."""
    if compress and not is_packed(target):
        target = target.with_name(f"{target.name}.gz")
    if not compress and is_packed(target):
        raise InputError(f"{target} is named like a packed file: add --compress, or leave .gz out")
    check_targets({"--output": target}, {"FILE.mdp": file, "--region": region, "--ids": ids})
    if region is not None and ids is not None:
        raise InputError("--region and --ids both choose records: give one of them")
    mechanism = load(file)
    rows = _rows(mechanism, region, ids)
    part = kept = part_of(mechanism, rows)
    if merge_outputs:
        part = part_of(mechanism, rows, merge_outputs=True)
    if part.graph.n_pairs == 0:
        raise InputError(
            "no record of the part has a neighbour in it, so nothing would be protected: choose a larger part"
        )
    sizes = _write(part, target, keep_losses=keep_losses)
    fields = _fields(mechanism, kept, part, target, sizes)
    if as_json:
        print_json(fields)
        return
    for line in _lines(fields):
        print_line(out, line)
    if part.guarantee.n_isolated > mechanism.guarantee.n_isolated:
        print_line(
            err,
            f"WARNING: {part.guarantee.n_isolated:,} records of the part have no neighbour in it; clients refuse to "
            "report them. Choose a region with a margin of eta around those that it is for.",
        )


def _rows(mechanism: Mechanism, region: str | None, ids: Path | None) -> NDArray[np.int64]:
    if region is not None:
        return Region.of(region).rows_of(mechanism.records)
    if ids is not None:
        return np.unique(mechanism.rows_of(_names(ids)))
    return np.arange(mechanism.records.n)


def _names(path: Path) -> list[str]:
    try:
        names = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError):
        raise InputError(f"cannot read {path}: give a text file with one record id in a line") from None
    if not names:
        raise InputError(f"{path} names no record: write one id in a line")
    return names


def _write(part: Mechanism, target: Path, *, keep_losses: bool) -> tuple[int, int]:
    """Write the part, after it has been read back and certified from its bytes; return both sizes in bytes."""
    lean = part if keep_losses else replace(part, losses=None, loss_name="given")
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "part.mdp"
        lean.save(draft)
        load(draft)
        data = draft.read_bytes()
    write_whole(target, data, may_pack=True)
    return len(data), target.stat().st_size


def _fields(whole: Mechanism, kept: Mechanism, part: Mechanism, target: Path, sizes: tuple[int, int]) -> dict[str, Any]:
    """Return what is printed; ``kept`` is the part with all outputs."""
    return {
        "file": str(target),
        "bytes": sizes[1],
        "bytes_unpacked": sizes[0],
        "records": part.records.n,
        "records_of_whole": whole.records.n,
        "outputs": part.outputs.n,
        "outputs_of_whole": whole.outputs.n,
        "pairs": part.graph.n_pairs,
        "components": part.graph.n_components,
        "components_of_whole": whole.graph.n_components,
        "isolated": part.guarantee.n_isolated,
        "epsilon": part.epsilon,
        "eta": part.eta,
        "loss": part.loss,
        "loss_with_all_outputs": kept.loss,
        "promise": part.guarantee.sentence,
    }


def _lines(fields: dict[str, Any]) -> list[str]:
    packed = "" if fields["bytes"] == fields["bytes_unpacked"] else f" ({fields['bytes_unpacked']:,} when unpacked)"
    groups, all_groups = fields["components"], fields["components_of_whole"]
    lines = [
        (
            f"{fields['records']:,} of {fields['records_of_whole']:,} records, {fields['outputs']:,} of "
            f"{fields['outputs_of_whole']:,} outputs, {fields['pairs']:,} pairs, certified on their own"
        ),
        f"{fields['bytes']:,} bytes{packed} written to {fields['file']}",
        f"Groups that no path joins: {groups:,} in the part, {all_groups:,} in the whole",
    ]
    if fields["loss"] is not None:
        is_merged = fields["outputs"] < fields["outputs_of_whole"]
        before = f"; with all outputs it is {fields['loss_with_all_outputs']:.6g}" if is_merged else ""
        lines.append(f"Expected loss of the part by its prior: {fields['loss']:.6g}{before}")
    lines.append(f"Promise: {fields['promise']}")
    lines.append(
        "Which part a person loads is visible and not protected: choose it without looking at where the person is."
    )
    return lines
