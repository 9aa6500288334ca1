"""Put a mechanism file and the JavaScript package into one page: ``python make_page.py city.mdp -o page.html``.

The page works from disk and from any web server, and sends nothing. Streets are drawn where the records are of a
shipped city; they are inside the page like everything else.
"""

from __future__ import annotations

import argparse
import base64
import html
import json
from pathlib import Path

import numpy as np

import metricdp as mdp
from metricdp.report.explorer_map import ground_of

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "clients" / "js" / "dist" / "metricdp.classic.js"


def make_page(file: Path, page: Path, *, limit: float) -> None:
    """Write the page for a mechanism file of places, after checking that points within ``limit`` km are protected."""
    mechanism = mdp.load(file)
    mechanism.guarantee.for_points(limit).check()
    text = (HERE / "template.html").read_text(encoding="utf-8")
    lines, credit = streets_around(mechanism.records)
    parts = {
        "/*PACKAGE*/": PACKAGE.read_text(encoding="utf-8"),
        "/*FILE*/": base64.b64encode(file.read_bytes()).decode(),
        "/*LIMIT*/": f"{limit:g}",
        "/*STREETS*/": json.dumps(lines, separators=(",", ":")),
        "/*CREDIT*/": html.escape(credit or ""),
    }
    for place, part in parts.items():
        text = text.replace(place, part)
    page.write_text(text, encoding="utf-8")


def streets_around(records: mdp.Records) -> tuple[list[list[list[float]]], str | None]:
    """Return the streets near the records, each a list of latitudes and longitudes, and whom to name for them."""
    features, credit = ground_of(records, None)
    low, high = records.coordinates.min(axis=0), records.coordinates.max(axis=0)
    margin = (high - low).max()
    lines = [part for feature in features if not feature.is_area for part in feature.parts]
    near = [line for line in lines if np.all((line > low - margin) & (line < high + margin), axis=1).any()]
    return [np.round(line, 5).tolist() for line in near], credit


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Put a mechanism file and the package into one page.")
    parser.add_argument("file", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--limit", type=float, default=0.5, help="farthest distance to a record, in km")
    arguments = parser.parse_args()
    try:
        make_page(arguments.file, arguments.output, limit=arguments.limit)
    except mdp.MetricDPError as error:
        raise SystemExit(f"error: {error}") from None
    print(f"{arguments.output}: {arguments.output.stat().st_size:,} bytes; open it in a browser")


if __name__ == "__main__":
    main()
