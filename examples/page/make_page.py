"""Put a mechanism file and the JavaScript package into one page: ``python make_page.py city.mdp -o page.html``.

The page works from disk and from any web server, and sends nothing.
"""

from __future__ import annotations

import argparse
import base64
from pathlib import Path

import metricdp as mdp

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "clients" / "js" / "dist" / "metricdp.classic.js"


def make_page(file: Path, page: Path, *, limit: float) -> None:
    """Write the page for a mechanism file of places, after checking that points within ``limit`` km are protected."""
    mechanism = mdp.load(file)
    mechanism.guarantee.for_points(limit).check()
    text = (HERE / "template.html").read_text(encoding="utf-8")
    parts = {
        "/*PACKAGE*/": PACKAGE.read_text(encoding="utf-8"),
        "/*FILE*/": base64.b64encode(file.read_bytes()).decode(),
        "/*LIMIT*/": f"{limit:g}",
    }
    for place, part in parts.items():
        text = text.replace(place, part)
    page.write_text(text, encoding="utf-8")


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
