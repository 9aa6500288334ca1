"""Photograph the pages of docs/explorer.md: docs/images/explorer*.png.

Needs Playwright, Chromium and Pillow, and the two pages, made in the folder that is given:

    metricdp demo
    metricdp solve region:57.702,11.96,57.711,11.976 --within 200m --factor 4 --spacing 75m --gap 0.03 \
        -o region.mdp --trace region.jsonl
    metricdp report region.mdp --trace region.jsonl
    python tools/make_explorer_pictures.py FOLDER
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path
from typing import Any

import playwright.sync_api as playwright
from PIL import Image

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
RECORDS, REGION = "metricdp-demo.html", "region.html"
DESKTOP, PHONE = (1280, 900), (390, 844)
# picture: page, size, light or dark, and whether what a report reveals is shown
PICTURES = {
    "explorer": (RECORDS, DESKTOP, "light", False),
    "explorer-dark": (RECORDS, DESKTOP, "dark", True),
    "explorer-phone-light": (RECORDS, PHONE, "light", False),
    "explorer-phone": (RECORDS, PHONE, "dark", False),
    "explorer-region": (REGION, DESKTOP, "light", False),
    "explorer-region-phone": (REGION, PHONE, "dark", False),
}
COLOURS = 256


def photograph(browser: Any, page_file: Path, size: tuple[int, int], scheme: str, *, is_report: bool) -> bytes:
    """Return the first screen of a page as PNG."""
    width, height = size
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = context.new_page()
    page.goto(page_file.resolve().as_uri())
    page.wait_for_selector("html[data-ready=true]")
    if is_report:
        page.check("#view-report", force=True)
        page.focus("#map")
        page.keyboard.press("c")
        page.evaluate("document.activeElement.blur()")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    taken: bytes = page.screenshot()
    context.close()
    return taken


def main() -> None:
    """Take all pictures and save them with 256 colours: off by a few levels at most, and a third of the bytes."""
    folder = Path(sys.argv[1])
    with playwright.sync_playwright() as tools:
        chromium = tools.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, (page, size, scheme, is_report) in PICTURES.items():
            taken = photograph(chromium, folder / page, size, scheme, is_report=is_report)
            picture = Image.open(io.BytesIO(taken)).convert("RGB")
            few = picture.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE)
            few.save(IMAGES / f"{name}.png", optimize=True)
            print(f"{name}.png: {len(taken):,} bytes, {(IMAGES / f'{name}.png').stat().st_size:,} with few colours")
        chromium.close()


if __name__ == "__main__":
    main()
