"""The instances that benchmarks run on."""

from __future__ import annotations

import os
from pathlib import Path

import metricdp as mdp

ROME = Path(os.environ.get("METRICDP_ROME", Path(__file__).resolve().parents[2] / "shared" / "data" / "rome"))


def rome_nodes() -> mdp.Records | None:
    """All 43,160 intersections of Rome where the data is at hand (METRICDP_ROME names its folder)."""
    return mdp.data.read_records(ROME / "nodes.csv.gz") if (ROME / "nodes.csv.gz").exists() else None


def rome_or_gothenburg(*, epsilon: float) -> tuple[str, mdp.Problem]:
    """The seed's instance, or 500 intersections of the shipped city with as many neighbours each."""
    nodes = rome_nodes()
    if nodes is None:
        records = mdp.data.road("gothenburg", n=500, seed=0)
        return "Gothenburg 500 x 100", mdp.Problem(records, epsilon=epsilon, eta=0.7, outputs=100)
    records = nodes.select(mdp.data.read_rows(ROME / "paper_records.csv"))
    outputs = mdp.data.read_rows(ROME / "paper_outputs.csv")
    return "Rome 500 x 100", mdp.Problem(records, epsilon=epsilon, eta=2.0, outputs=outputs)
