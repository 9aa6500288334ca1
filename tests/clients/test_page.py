"""The example page in headless Chromium, opened from disk: a click becomes a report, and nothing is sent."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import playwright.sync_api as playwright
import pytest

import metricdp as mdp

MAKE = Path(__file__).parents[2] / "examples" / "page" / "make_page.py"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def chromium():
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    with playwright.sync_playwright() as tools:
        try:
            browser = tools.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except playwright.Error as error:
            pytest.skip(f"no Chromium can be started (apt install chromium): {str(error).splitlines()[0]}")
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "city.mdp"
    places = mdp.data.road("gothenburg").nearest([57.7, 11.97], 80)
    mdp.exponential(mdp.Problem(places, epsilon=7.0, eta=1.0, outputs=30)).save(path)
    return path


def make(file, page, *options):
    return subprocess.run(
        [sys.executable, str(MAKE), str(file), "-o", str(page), *options], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def made_page(file):
    page_file = file.parent / "page.html"
    done = make(file, page_file, "--limit", "0.4")
    assert done.returncode == 0, done.stderr
    return page_file


@pytest.fixture
def opened(chromium, made_page, tmp_path):
    page_file = tmp_path / "page.html"
    shutil.copy(made_page, page_file)
    page = chromium.new_page(viewport={"width": 1000, "height": 900})
    seen = {"requests": [], "errors": []}
    page.on("request", lambda request: seen["requests"].append(request.url))
    page.on("pageerror", lambda error: seen["errors"].append(str(error)))
    page.on("console", lambda message: seen["errors"].append(message.text))
    page.goto(page_file.as_uri())
    yield page, seen, page_file
    page.close()


def spot_of(page, latitude, longitude):
    """Where a place is on the screen."""
    x, y = page.evaluate("([a, b]) => view.spot([a, b])", [latitude, longitude])
    box = page.locator("#map").bounding_box()
    return box["x"] + x / 1200 * box["width"], box["y"] + y / 760 * box["height"]


def test_a_click_is_reported_and_nothing_is_sent(opened, file):
    page, seen, page_file = opened
    mechanism = mdp.load(file)
    assert "80 places, certified in" in page.inner_text("#status")
    outputs = mechanism.outputs.ids(mechanism.records)
    for row in range(0, 80, 8):
        page.mouse.click(*spot_of(page, *mechanism.records.coordinates[row].tolist()))
        report = page.evaluate("window.reported")
        assert report["id"] == outputs[report["output"]]
        assert f"Reported: {report['id']}" in page.inner_text("#status")
        assert report["coordinates"] == mechanism.outputs.coordinates[report["output"]].tolist()
    assert seen == {"requests": [page_file.as_uri()], "errors": []}


def test_streets_are_inside_the_page_and_drawn(opened):
    page, seen, page_file = opened
    assert page.evaluate("STREETS.filter((line) => line.length > 1).length") > 50
    assert "OpenStreetMap" in page.inner_text("#credit")
    # somewhere along a street, away from all dots and the scale, there is a line and not the ground
    drawn = page.evaluate(
        """() => STREETS.flat().map((place) => view.spot(place)).filter(([x, y]) => {
          const rows = [...mechanism.ids.keys()];
          const spots = rows.map((row) => view.spot(mechanism.recordAt(row)));
          return x > 5 && x < 1195 && y > 5 && y < 600 && spots.every(([a, b]) => Math.hypot(a - x, b - y) > 8);
        }).map(([x, y]) => map.getContext("2d").getImageData(Math.round(x), Math.round(y), 1, 1).data[3])"""
    )
    assert len(drawn) > 10
    assert sum(alpha > 0 for alpha in drawn) > 0.9 * len(drawn)
    assert page.locator("#others").is_visible()  # 30 of 80 places are reports
    assert seen["requests"] == [page_file.as_uri()]


def test_a_click_far_from_every_record_is_refused(opened):
    page, _, _ = opened
    box = page.locator("#map").bounding_box()
    page.fill("#limit", "0.01")
    page.locator("#limit").dispatch_event("change")
    page.mouse.click(box["x"] + 3, box["y"] + 3)
    assert "farther from every record than the limit" in page.inner_text("#status")
    assert page.evaluate("window.reported") is None


def test_an_edited_file_is_refused_by_the_page(chromium, file, tmp_path):
    page_file = tmp_path / "page.html"
    make(file, page_file, "--limit", "0.4")
    text = page_file.read_text(encoding="utf-8")
    begin = text.index('const FILE = "') + 2000
    page_file.write_text(text[:begin] + ("A" if text[begin] != "A" else "B") + text[begin + 1 :], encoding="utf-8")
    page = chromium.new_page()
    page.goto(page_file.as_uri())
    assert "Nothing can be reported" in page.inner_text("#status")
    page.close()


def test_no_page_is_made_where_points_are_not_protected(tmp_path):
    apart = mdp.Records([[0.0, 0.0], [0.0, 0.001], [0.0, 0.01], [0.0, 0.011]])
    mdp.exponential(mdp.Problem(apart, epsilon=1.0, eta=0.5)).save(tmp_path / "apart.mdp")
    done = make(tmp_path / "apart.mdp", tmp_path / "page.html", "--limit", "2")
    assert done.returncode != 0
    assert "not protected" in done.stderr
    assert not (tmp_path / "page.html").exists()
