"""A batch job with Polars: perturb the places of a table, part by part, with progress.

``python perturb_table.py city.mdp trips.csv reports.csv --ledger budget.db --key budget.key``

The table has the columns person, lat and lon. Every part is charged to the ledger before it is drawn, all persons of
the part or none. The reports are written at the end, all or none: a run that failed has spent what it was charged.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

import polars as pl

import metricdp as mdp

ROWS_AT_ONCE = 50_000


def perturb_table(mechanism: mdp.Mechanism, ledger: mdp.Ledger, source: Path, target: Path, *, limit: float) -> int:
    """Write a report for each row of ``source``, in its order; return how many."""
    mechanism.guarantee.for_points(limit).check()
    table = pl.read_csv(source, columns=["person", "lat", "lon"], schema_overrides={"person": pl.String})
    parts, begin = [], time.monotonic()
    for start in range(0, table.height, ROWS_AT_ONCE):
        part = table.slice(start, ROWS_AT_ONCE)
        ledger.charge_many(mechanism, Counter(part["person"].to_list()))
        drawn = mechanism.perturb_points(part.select("lat", "lon").to_numpy(), limit=limit)
        places = mechanism.outputs.coordinates[drawn.outputs]
        columns = {"person": part["person"], "report": drawn.ids, "lat": places[:, 0], "lon": places[:, 1]}
        parts.append(pl.DataFrame(columns))
        done = start + part.height
        rate = done / (time.monotonic() - begin)
        print(f"{done:,} of {table.height:,} rows, {rate:,.0f} a second", file=sys.stderr)
    draft = target.with_name(f"{target.name}.draft")
    pl.concat(parts).write_csv(draft)
    draft.replace(target)
    return table.height


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Perturb the places of a table, charged to a ledger.")
    parser.add_argument("mechanism", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--key", type=Path, required=True)
    parser.add_argument("--limit", type=float, default=0.5, help="farthest distance to a record, in km")
    arguments = parser.parse_args()
    try:
        ledger = mdp.Ledger(arguments.ledger, key=arguments.key, must_exist=True)
        mechanism = mdp.load(arguments.mechanism)
        count = perturb_table(mechanism, ledger, arguments.source, arguments.target, limit=arguments.limit)
    except (mdp.MetricDPError, OSError, pl.exceptions.PolarsError) as error:
        # messages of other libraries may show the row that they could not read
        raise SystemExit(f"error: {error if isinstance(error, mdp.MetricDPError) else type(error).__name__}") from None
    print(f"{count:,} reports written to {arguments.target}")


if __name__ == "__main__":
    main()
