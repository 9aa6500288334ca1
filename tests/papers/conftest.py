"""One small run of everything, shared by the tests of this folder."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from papers.qiu2024 import EXPERIMENTS, Scale, run_paper

SMALLEST = Scale(
    name="smallest",
    records=40,
    outputs=6,
    blocks=3,
    instances=2,
    epsilons=(2.0, 10.0),
    more_blocks=(3, 4),
    sizes=(40, 48),
    more_sizes=(60,),
    stronger=5.0,
    plain_limit=1.0,
    limit=20.0,
)


@pytest.fixture(scope="session")
def everything(tmp_path_factory):
    """All experiments at their smallest size: the folder, the files written, the lines told, and the JSON of each."""
    out = tmp_path_factory.mktemp("paper") / "results"
    lines: list[str] = []
    paths = run_paper("all", scale=SMALLEST, out=out, tell=lines.append)
    found = {name: json.loads((out / f"{name}.json").read_text(encoding="utf-8")) for name in EXPERIMENTS}
    return SimpleNamespace(out=out, paths=paths, lines=lines, found=found)


def results(found: dict, kind: str) -> list[tuple[dict, dict]]:
    """The tasks of a kind, with what they found, of one experiment or of all."""
    return [(entry["task"], entry["result"]) for entry in found["instances"] if entry["kind"] == kind]


@pytest.fixture
def places(tmp_path):
    """A folder like the paper's: 60 places on a winding line, the streets between them, the rows of one instance."""
    folder = tmp_path / "town"
    folder.mkdir()
    nodes = "".join(f"{i},{45 + 0.01 * (i % 10)},{9 + 0.01 * (i // 10)}\n" for i in range(60))
    (folder / "nodes.csv").write_text(f"id,lat,lon\n{nodes}", encoding="utf-8")
    streets = "".join(f"{i},{i + 1}\n" for i in range(59))
    (folder / "edges.csv").write_text(f"u,v\n{streets}", encoding="utf-8")
    (folder / "paper_records.csv").write_text("row\n" + "".join(f"{2 * i}\n" for i in range(20)), encoding="utf-8")
    (folder / "paper_outputs.csv").write_text("row\n0\n5\n10\n15\n", encoding="utf-8")
    return folder
