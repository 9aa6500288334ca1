"""Check that the pages of a built site load nothing from the network: ``python tools/check_docs.py build/docs``.

Links that a reader may follow are fine; scripts, styles, images, frames and fonts must be files of the site.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

LOADING = {
    "audio": "src",
    "embed": "src",
    "iframe": "src",
    "img": "src",
    "input": "src",
    "link": "href",
    "object": "data",
    "script": "src",
    "source": "src",
    "track": "src",
    "video": "src",
}
# of <link>: relations that fetch nothing
SILENT_RELATIONS = {"alternate", "author", "canonical", "help", "license", "next", "prev"}
FROM_NETWORK = re.compile(r"(?:https?:|wss?:|ftp:)?//", re.IGNORECASE)
IN_STYLES = re.compile(r"(?:url\(\s*|@import\s+)[\"']?((?:https?:)?//[^\"')\s]+)", re.IGNORECASE)


def main(folder: str) -> None:
    """Check all pages and styles of a folder; end with what they load from the network."""
    site = Path(folder)
    pages = sorted(site.rglob("*.html"))
    if not pages:
        sys.exit(f"there are no pages in {folder}: build the site first")
    found = [f"{file.relative_to(site)}: {address}" for file in pages for address in loaded_by(file.read_text("utf-8"))]
    for file in sorted(site.rglob("*.css")):
        found += [f"{file.relative_to(site)}: {address}" for address in IN_STYLES.findall(file.read_text("utf-8"))]
    if found:
        sys.exit("\n".join(["loaded from the network:", *found]))
    print(f"{len(pages)} pages load nothing from the network")


def loaded_by(page: str) -> list[str]:
    """Return the addresses on the network that a browser fetches when it shows the page."""
    reader = _Reader()
    reader.feed(page)
    return reader.addresses


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self._is_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._is_style = tag == "style"
        self.addresses += IN_STYLES.findall(given.get("style", ""))
        is_silent = tag == "link" and set(given.get("rel", "").lower().split()) <= SILENT_RELATIONS
        sources = [] if is_silent else [given.get(LOADING.get(tag, ""), "")]
        sources += [one.split()[0] for one in given.get("srcset", "").split(",") if one.strip()]
        self.addresses += [source for source in sources if FROM_NETWORK.match(source.strip())]

    def handle_endtag(self, tag: str) -> None:
        self._is_style = self._is_style and tag != "style"

    def handle_data(self, data: str) -> None:
        if self._is_style:
            self.addresses += IN_STYLES.findall(data)


if __name__ == "__main__":
    main(sys.argv[1])
