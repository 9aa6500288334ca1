"""The documentation as a site: complete on disk, its search included."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tools.check_docs import loaded_by, main

ROOT = Path(__file__).resolve().parents[1]
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.parametrize(
    ("page", "address"),
    [
        ('<script src="https://unpkg.com/iframe-worker/shim"></script>', "https://unpkg.com/iframe-worker/shim"),
        ("<link rel=stylesheet href=//fonts.example/a.css>", "//fonts.example/a.css"),
        ('<link rel="preconnect" href="https://fonts.example">', "https://fonts.example"),
        ('<img alt="" srcset="small.png 1x, http://a.example/b.png 2x">', "http://a.example/b.png"),
        ("<style>@import 'https://a.example/b.css';</style>", "https://a.example/b.css"),
        ('<p style="background: url(https://a.example/b.png)">', "https://a.example/b.png"),
    ],
)
def test_what_a_page_loads_from_the_network_is_found(page, address, tmp_path):
    assert loaded_by(page) == [address]
    (tmp_path / "index.html").write_text(page)
    with pytest.raises(SystemExit, match=r"index\.html: "):
        main(str(tmp_path))


def test_links_to_follow_and_files_of_the_site_are_no_fault(tmp_path, capsys):
    page = """<a href="https://example.org">there</a> <link rel="canonical" href="https://example.org/here.html">
    <script src="a/b.js"></script> <img src="data:image/png;base64,AA=="> <code>src="https://example.org"</code>"""
    assert loaded_by(page) == []
    (tmp_path / "index.html").write_text(page)
    main(str(tmp_path))
    assert capsys.readouterr().out == "1 pages load nothing from the network\n"
    (tmp_path / "all.css").write_text("@font-face { src: url(https://a.example/b.woff2) }")
    with pytest.raises(SystemExit, match=r"all\.css: https://a\.example/b\.woff2"):
        main(str(tmp_path))
    with pytest.raises(SystemExit, match="build the site first"):
        main(str(tmp_path / "empty"))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site: that of METRICDP_SITE, or built here where mkdocs is installed (`make docs`)."""
    if "METRICDP_SITE" in os.environ:
        return Path(os.environ["METRICDP_SITE"])
    if any(importlib.util.find_spec(name) is None for name in ("mkdocs", "material", "mkdocstrings")):
        pytest.skip("the documentation's tools are not installed: make docs")
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(target)]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    return target


def test_the_site_loads_nothing_from_the_network(site):
    main(str(site))


def test_the_search_works_from_disk(site):
    playwright = pytest.importorskip("playwright.sync_api")
    asked, complaints = [], []
    with playwright.sync_playwright() as started:
        try:
            browser = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        except playwright.Error as error:
            pytest.skip(f"no Chromium can be started (apt install chromium): {str(error).splitlines()[0]}")
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto((site / "index.html").as_uri())
        page.keyboard.press("/")
        page.keyboard.type("geojsonseq", delay=20)
        page.wait_for_selector(".md-search-result__item a")
        found = page.eval_on_selector_all(".md-search-result__item a", "links => links.map(link => link.href)")
        browser.close()
    assert any("applying.html" in link for link in found)
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:", "about:"))] == []
    assert complaints == []
