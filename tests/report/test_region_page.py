"""The page of a region: what it holds, and in a real browser that any point can be chosen, by mouse and by keyboard."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import playwright.sync_api as playwright
import pytest

import metricdp as mdp
from metricdp.cli import main
from metricdp.data.map_layers import MapFeature
from metricdp.evaluate.at_places import at_places
from metricdp.report.explorer import SourceFile, compared_with
from metricdp.report.region_page import region_page, write_region_page

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ROOT = Path(__file__).resolve().parents[2]
EPSILON = 3.0


@pytest.fixture(scope="module")
def rome(tmp_path_factory):
    """A piece of Rome, its mechanism, and the page of its file."""
    folder = tmp_path_factory.mktemp("rome")
    region = mdp.data.region(41.887, 12.475, 41.896, 12.489, spacing=0.15)
    result = mdp.solve_plane(mdp.PlaneProblem(region, epsilon=EPSILON), max_steps=200)
    result.mechanism.save(folder / "rome.mdp")
    mechanism = mdp.load(folder / "rome.mdp")
    found = at_places(mechanism)
    street = MapFeature("street", (np.array([[41.888, 12.476], [41.895, 12.488]]),), "Via </script>")
    page = folder / "rome.html"
    write_region_page(
        page,
        mechanism,
        found=found,
        compared=compared_with(found.problem, ["exponential"]),
        layers=[street],
        file=SourceFile.of(folder / "rome.mdp"),
    )
    return mechanism, found, page


def payload_of(page: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="payload">(.*?)</script>', page, re.DOTALL)[1])


def test_the_page_holds_what_it_shows(rome):
    mechanism, found, path = rome
    payload = payload_of(path.read_text(encoding="utf-8"))
    assert payload["epsilon"] == EPSILON
    assert payload["region"]["cells"] == list(mechanism.region.cells)
    assert payload["region"]["outputs"] == mechanism.outputs.coordinates.tolist()
    assert payload["certificate"]["optimality"]["lower_bound"] == mechanism.certificate.optimality.lower_bound
    assert payload["loss"]["expected"] == pytest.approx(found.mechanism.loss)
    assert [one["name"] for one in payload["compared"]] == ["exponential"]
    assert payload["sampling"]["file"]
    assert "Via </script>" not in path.read_text(encoding="utf-8")


def test_the_page_carries_the_clients_own_code():
    copy = ROOT / "src" / "metricdp" / "report" / "page" / "metricdp.plane.classic.js"
    assert copy.read_bytes() == (ROOT / "clients" / "js" / "dist" / "metricdp.plane.classic.js").read_bytes()


def test_a_page_without_losses_says_so(rome):
    payload = payload_of(region_page(rome[0]))
    assert payload["loss"] is None
    assert payload["file"] is None
    assert payload["sampling"]["file"]


@pytest.fixture(scope="module")
def browser():
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    with playwright.sync_playwright() as tools:
        try:
            chromium = tools.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except playwright.Error as error:
            pytest.skip(f"no Chromium can be started (apt install chromium): {str(error).splitlines()[0]}")
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser):
    """Open a page; at the end there must have been no request and no complaint."""
    seen, contexts = [], []

    def open_page(path, *, scheme="light", size=(1280, 900)):
        width, height = size
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: seen.append(f"console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: seen.append(f"error: {error}"))
        own = path.as_uri()
        page.on("request", lambda request: None if request.url in (own, "data:,") else seen.append(request.url[:200]))
        page.goto(own)
        page.wait_for_selector("html[data-ready=true]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert seen == []


def chosen(page):
    return [float(value) for value in page.get_attribute("#stage", "data-point").split()]


def percent(p):
    return f"{100 * p:.1f} %" if p >= 0.1 else f"{100 * p:.2f} %"


def test_a_click_shows_the_distribution_at_that_very_point(visit, rome):
    mechanism, _, path = rome
    page = visit(path)
    asked = [41.89013, 12.47917]
    x, y = page.evaluate("(p) => window.metricdpExplorer.placeOf(p)", asked)
    page.click("#map", position={"x": x, "y": y})
    point = chosen(page)
    assert point == pytest.approx(asked, abs=2e-5)  # a pixel or two
    expected = mechanism.probabilities_at([point])[0]
    shown = np.array(page.evaluate("(p) => window.metricdpExplorer.chancesAt(p)", point))
    np.testing.assert_allclose(shown, expected, rtol=5e-4, atol=1e-6)
    best = int(expected.argmax())
    first = page.inner_text("#record-bars li >> nth=0")
    assert mechanism.outputs.ids(mechanism.records)[best] in first
    assert percent(expected[best]) in first
    away = mdp.data.geodesy.haversine_km(np.array(point), mechanism.outputs.coordinates)
    assert f"{1000 * expected @ away:.3g} m" in page.inner_text("#record-figures")


def test_keys_move_the_point_and_the_field_takes_one(visit, rome):
    page = visit(rome[2])
    before = chosen(page)
    page.focus("#map")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Shift+ArrowRight")
    after = chosen(page)
    assert after[0] > before[0]
    assert after[1] > before[1]
    assert after[0] - before[0] > 5 * (after[1] - before[1])  # 12 pixels and 1
    page.fill("#search", "41.8941, 12.4802")
    page.keyboard.press("Enter")
    assert chosen(page) == [41.8941, 12.4802]
    page.fill("#search", "nowhere")
    page.keyboard.press("Enter")
    assert chosen(page) == [41.8941, 12.4802]
    assert "two numbers" in page.inner_text("#record-kicker")


def test_a_point_outside_moves_to_the_border_and_says_so(visit, rome):
    page = visit(rome[2])
    page.fill("#search", "42.5, 12.48")
    page.keyboard.press("Enter")
    assert chosen(page) == [rome[0].region.high[0], 12.48]
    assert "border" in page.inner_text("#record-kicker")


def test_the_promise_is_told_at_a_distance_of_the_readers_choice(visit, rome):
    page = visit(rome[2])
    page.fill("#distance", "200")
    factor = np.exp(EPSILON * 0.2)
    assert f"{factor:.3g}" in page.inner_text("#promise")
    assert "200" in page.inner_text("#promise")
    said = page.inner_text("#around")
    measured, proved = (float(one) for one in re.findall(r"(?:factor|most) ([\d.]+\d)", said))
    assert 1.2 < measured <= proved * 1.005
    assert proved == pytest.approx(factor, rel=5e-3)
    assert "points of the region" in page.inner_text("#privacy")


def test_a_distance_that_no_two_points_have(visit, rome):
    page = visit(rome[2])
    page.fill("#distance", "5000")
    assert "No two points of the region are so far apart" in page.inner_text("#privacy")
    page.fill("#distance", "200")
    page.fill("#distance", "-5")
    assert "Write a distance of 0 or more" in page.inner_text("#promise")
    assert "200" in page.inner_text("#around")


def test_losses_have_their_unit(visit, rome):
    """The stand-in of people at all centres is the loss that the file states: both are lengths."""
    mechanism, _, path = rome
    best = mechanism.optimality
    said = visit(path).inner_text("#optimality")
    assert f"Its expected loss is {1000 * best.loss:.6g} m;" in said
    assert f"at least {1000 * best.lower_bound:.6g} m." in said


def test_all_outputs_are_possible_and_the_words_say_so(visit, rome):
    page = visit(rome[2])
    usual = int((rome[0].probabilities_at([chosen(page)])[0] >= 0.01).sum())
    words = page.inner_text("#record-words").replace("\u00a0", " ")
    assert f"{usual} places come in 1 % of all cases or more" in words
    assert "or more," not in words


@pytest.mark.parametrize("size", [(390, 844), (1280, 900)])
def test_no_button_covers_the_region(visit, rome, size):
    page = visit(rome[2], size=size)
    box, buttons = page.locator("#map").bounding_box(), page.locator("#zoom").bounding_box()
    x, _ = page.evaluate("(p) => window.metricdpExplorer.placeOf(p)", list(rome[0].region.high))
    assert box["x"] + x <= buttons["x"]


def test_a_region_of_the_shipped_city_has_its_streets(rome):
    inside = mdp.data.region(57.702, 11.960, 57.706, 11.968, spacing=0.15)
    mechanism = mdp.solve_plane(mdp.PlaneProblem(inside, epsilon=3.0), max_steps=20, bound=False).mechanism
    payload = payload_of(region_page(mechanism))
    assert payload["credit"] == "© OpenStreetMap contributors"
    assert len(payload["map"]["ground"]) > 20
    assert "ground" not in payload_of(region_page(rome[0]))["map"]


def test_reports_are_drawn_in_the_page(visit, rome):
    mechanism, _, path = rome
    page = visit(path)
    page.click("#draw")
    page.locator("#drawn", has_text="Drawn:").wait_for()
    names = set(mechanism.outputs.ids(mechanism.records))
    assert page.inner_text("#drawn b") in names
    page.click("#draw")
    page.locator("#drawn", has_text="2 reports drawn here").wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_all_of_it(visit, rome, scheme):
    page = visit(rome[2], scheme=scheme, size=(390, 844))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    before = page.evaluate("document.getElementById('map').toDataURL()")
    page.click("#theme")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.evaluate("document.getElementById('map').toDataURL()") != before
    assert page.locator("#draw").is_visible()


def test_vectors_have_a_page_too(visit, tmp_path):
    region = mdp.data.region(0.0, 0.0, 3.0, 2.0, spacing=0.5, kind="vectors")
    mechanism = mdp.solve_plane(mdp.PlaneProblem(region, epsilon=1.0), max_steps=50, bound=False).mechanism
    write_region_page(tmp_path / "page.html", mechanism)
    page = visit(tmp_path / "page.html")
    page.fill("#search", "1.25 0.5")
    page.keyboard.press("Enter")
    point = chosen(page)
    assert point == [1.25, 0.5]
    shown = np.array(page.evaluate("(p) => window.metricdpExplorer.chancesAt(p)", point))
    np.testing.assert_allclose(shown, mechanism.probabilities_at([point])[0], rtol=5e-4, atol=1e-6)
    assert "No proof of optimality" in page.inner_text("#optimality")


def test_the_command_writes_the_page_of_a_region(rome, monkeypatch, capsys):
    folder = rome[2].parent
    monkeypatch.setattr(
        "sys.argv", ["metricdp", "report", str(folder / "rome.mdp"), "-o", str(folder / "x.html"), "--json"]
    )
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    assert json.loads(capsys.readouterr().out)["file"] == str(folder / "x.html")
    payload = payload_of((folder / "x.html").read_text(encoding="utf-8"))
    assert payload["file"]["name"] == "rome.mdp"
    assert "planar-laplace-remapped" in [one["name"] for one in payload["compared"]]
