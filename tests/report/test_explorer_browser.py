"""The page in a real browser: headless Chromium, opened from disk, used by mouse and by keyboard."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace

import numpy as np
import playwright.sync_api as playwright
import pytest
from scipy.stats import chi2

import metricdp as mdp
from metricdp.data.map_layers import MapFeature
from metricdp.report.explorer import SourceFile, compared_with, write_explorer

EVIL = "</script><img src=x onerror=alert(1)>"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
TRACE = [
    {"seconds": 1.0, "stage": "columns", "component": 0, "lower_bound": 0.2, "upper_bound": 0.9},
    {"seconds": 2.0, "stage": "columns", "component": 0, "lower_bound": 0.5, "upper_bound": 0.6},
    {"seconds": 3.0, "stage": "certified", "lower_bound": 0.5, "loss": 0.6},
]


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


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    """A small city, its mechanism, and the page of its file."""
    folder = tmp_path_factory.mktemp("city")
    problem = mdp.Problem(mdp.data.road("gothenburg", n=30, seed=2), epsilon=0.8, eta=20.0, outputs=8)
    result = mdp.solve(problem, method="direct")
    result.mechanism.save(folder / "city.mdp")
    source = SourceFile.of(folder / "city.mdp")
    page = folder / "city.html"
    compared = compared_with(problem)
    write_explorer(page, result.mechanism, problem=problem, compared=compared, trace=TRACE, file=source)
    return result, page, source


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """Words have no map; one of them is called like an attack."""
    vectors = mdp.data.words(n=60, seed=0)
    ids = [EVIL, *vectors.ids[1:]]
    records = mdp.Records(vectors.coordinates, ids=ids, prior=vectors.prior, kind="vectors", name=EVIL)
    problem = mdp.Problem(records, epsilon=0.4, eta=6.0, outputs=list(range(20)))
    mechanism = mdp.exponential(problem)
    page = tmp_path_factory.mktemp("words") / "words.html"
    write_explorer(page, mechanism, problem=problem, compared=[(EVIL, 1.0, False)])
    return mechanism, page


@pytest.fixture
def visit(browser):
    """Open a page; at the end there must have been no request, no complaint and no dialogue."""
    seen, contexts = [], []

    def open_page(path, *, scheme="light", size=(1280, 900), **options):
        width, height = size
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: seen.append(f"console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: seen.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (seen.append(f"dialogue: {dialog.message}"), dialog.dismiss()))
        own = path.as_uri()
        page.on("request", lambda request: None if request.url in (own, "data:,") else seen.append(request.url[:200]))
        page.goto(own)
        page.wait_for_selector("html[data-ready=true]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert seen == []


def pixels(page):
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page.evaluate("document.getElementById('map').toDataURL()")


def percent(p):
    """As the page writes probabilities between 0.01 % and 99.9 %."""
    return f"{100 * p:.1f} %" if p >= 0.1 else f"{100 * p:.2f} %"


def show_all(page):
    page.focus("#map")
    page.keyboard.press("0")


def click_record(page, row):
    x, y = page.evaluate("(i) => window.metricdpExplorer.placeOf(i)", row)
    page.click("#map", position={"x": x, "y": y})


def lonely_record(page, n):
    """Show all; return a record that no other is close to, so that a click cannot miss it, and not the chosen one."""
    show_all(page)
    places = np.array([page.evaluate("(i) => window.metricdpExplorer.placeOf(i)", i) for i in range(n)])
    away = np.linalg.norm(places[:, None] - places[None], axis=2) + 1e9 * np.eye(n)
    away[int(page.get_attribute("#stage", "data-record"))] = 0
    return int(away.min(axis=1).argmax())


def test_a_click_draws_the_records_distribution(visit, city):
    result, path, _ = city
    page = visit(path)
    before = pixels(page)
    row = lonely_record(page, 30)
    click_record(page, row)
    assert pixels(page) != before
    assert page.get_attribute("#stage", "data-record") == str(row)
    assert page.get_attribute("#stage", "data-view") == "record"
    assert page.inner_text("#record-name") == result.problem.records.ids[row]
    chances = result.mechanism.probabilities[row]
    likely = int(chances.argmax())
    first = page.inner_text("#record-bars li >> nth=0")
    assert result.problem.outputs.ids(result.problem.records)[likely] in first
    assert percent(chances[likely]) in first
    loss = (chances * result.problem.loss[row]).sum()
    assert (f"{loss:.4g} km" if loss >= 1 else f"{1000 * loss:.4g} m") in page.inner_text("#record-figures")
    assert result.problem.records.ids[row] in page.text_content("#live")


def test_the_slider_shows_the_posterior(visit, city):
    result, path, _ = city
    page = visit(path)
    before = pixels(page)
    joint = result.mechanism.probabilities * result.problem.records.prior[:, None]
    order = np.argsort(-joint.sum(axis=0), kind="stable")
    page.focus("#slider")
    page.keyboard.press("Home")
    assert page.get_attribute("#stage", "data-view") == "report"
    for output in order[:3]:
        posterior = joint[:, output] / joint[:, output].sum()
        guess = int(posterior.argmax())
        assert page.get_attribute("#stage", "data-output") == str(output)
        first = page.inner_text("#report-bars li >> nth=0")
        assert result.problem.records.ids[guess] in first
        assert percent(posterior[guess]) in first
        page.keyboard.press("ArrowRight")
    assert pixels(page) != before
    assert result.problem.outputs.ids(result.problem.records)[order[3]] in page.get_attribute(
        "#slider", "aria-valuetext"
    )


def test_the_search_finds_records(visit, city):
    result, path, _ = city
    page = visit(path)
    wanted = result.problem.records.ids[21]
    page.fill("#search", wanted.upper())
    assert page.get_attribute("#search", "aria-expanded") == "true"
    assert page.inner_text("#matches li >> nth=0").startswith(wanted)
    page.keyboard.press("Enter")
    assert page.get_attribute("#stage", "data-record") == "21"
    assert page.get_attribute("#search", "aria-expanded") == "false"
    page.fill("#search", "no such record")
    assert page.inner_text("#matches") == "No record has this in its name"
    page.keyboard.press("Enter")
    assert page.get_attribute("#stage", "data-record") == "21"


def test_the_keyboard_is_enough(visit, city):
    _, path, _ = city
    page = visit(path)
    reached = []
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id"))
    assert {"theme", "view-record", "map", "zoom-in", "slider", "search"} <= set(reached)
    page.focus("#map")
    start, drawn = page.get_attribute("#stage", "data-record"), pixels(page)
    visited = set()
    for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"):
        page.keyboard.press(key)
        visited.add(page.get_attribute("#stage", "data-record"))
    assert visited - {start}
    page.keyboard.press("0")
    pixels(page)
    assert page.get_attribute("#map", "data-drawn").endswith(" 1")
    page.keyboard.press("+")
    assert pixels(page) != drawn
    assert page.get_attribute("#map", "data-drawn").endswith(" 1.5")
    page.focus("#view-record")
    page.keyboard.press("ArrowRight")
    assert page.get_attribute("#stage", "data-view") == "report"


def test_every_control_has_a_name(visit, city):
    _, path, _ = city
    page = visit(path)
    nameless = page.evaluate("""() => [...document.querySelectorAll("button, input, select, [role=listbox], canvas")]
        .filter((e) => e.getClientRects().length)
        .filter((e) => !(e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.textContent.trim()
            || (e.labels && e.labels.length)))
        .map((e) => e.outerHTML.slice(0, 80))""")
    assert nameless == []
    assert page.get_attribute("#live", "aria-live") == "polite"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_follows_the_system_and_the_button(visit, city, scheme):
    _, path, _ = city
    page = visit(path, scheme=scheme)
    colour = "getComputedStyle(document.body).backgroundColor"
    first, drawn = page.evaluate(colour), pixels(page)
    assert page.get_attribute("html", "data-theme") == scheme
    page.click("#theme")
    assert page.get_attribute("html", "data-theme") == {"light": "dark", "dark": "light"}[scheme]
    assert page.evaluate(colour) != first
    assert pixels(page) != drawn


def test_certificates_comparison_bounds_and_hash_are_shown(visit, city):
    result, path, source = city
    page = visit(path)
    assert source.sha256 in page.inner_text("#file")
    privacy = page.inner_text("#privacy")
    assert "Private, proved exactly" in privacy
    assert f"{result.problem.graph.n_pairs:,} neighbour pairs" in privacy
    assert f"{result.lower_bound:.6g} km" in page.inner_text("#optimality")
    assert [name in page.inner_text("#comparison") for name in ("exponential", "uniform")] == [True, True]
    assert page.locator("#convergence path.lower").get_attribute("d").startswith("M")
    assert page.locator("#convergence tbody tr").count() == 2


@pytest.mark.parametrize(("factor", "words"), [(1.0, "and agrees"), (0.5, "NOT what the file states")])
def test_a_stated_loss_that_does_not_fit_is_said(visit, city, tmp_path, factor, words):
    result, _, _ = city
    best = result.mechanism.optimality
    stated = replace(result.mechanism, optimality=replace(best, loss=best.loss * factor, lower_bound=0.0))
    stated.save(tmp_path / "stated.mdp")
    write_explorer(tmp_path / "stated.html", mdp.load(tmp_path / "stated.mdp"), problem=result.problem)
    page = visit(tmp_path / "stated.html")
    assert words in page.inner_text("#optimality")


def test_words_have_lists_and_names_do_no_harm(visit, words):
    mechanism, path = words
    page = visit(path)
    assert page.is_hidden("#map")
    assert page.locator("img").count() == 0
    assert page.inner_text("h1") == EVIL
    assert EVIL in page.inner_text("#comparison")
    page.fill("#search", "<img")
    page.keyboard.press("Enter")
    assert page.inner_text("#record-name") == EVIL
    shares = np.sort(mechanism.probabilities[0])[::-1]
    assert percent(shares[0]) in page.inner_text("#reports .row >> nth=0")
    page.focus("#records")
    page.keyboard.press("ArrowDown")
    assert page.inner_text("#record-name") == mechanism.records.ids[1]
    page.locator("#reports .row", has_text=EVIL).click()
    assert page.get_attribute("#stage", "data-view") == "report"
    joint = mechanism.probabilities[:, 0] * mechanism.records.prior
    best = int(joint.argmax())
    top = page.inner_text("#records .row >> nth=0")
    assert mechanism.records.ids[best] in top
    assert percent(joint[best] / joint.sum()) in top


def zoom_of(page):
    pixels(page)
    return float(page.get_attribute("#map", "data-drawn").split()[-1])


def test_it_opens_on_a_record_and_its_likely_reports(visit, city):
    result, path, _ = city
    page = visit(path)
    row = int(page.get_attribute("#stage", "data-record"))
    assert zoom_of(page) > 1.0
    assert page.get_attribute("#stage", "data-output") == str(result.mechanism.probabilities[row].argmax())
    box = page.locator("#map").bounding_box()
    x, y = page.evaluate("(i) => window.metricdpExplorer.placeOf(i)", row)
    assert 0 < x < box["width"]
    assert 0 < y < box["height"]
    show_all(page)
    assert zoom_of(page) == 1.0


def test_a_record_brings_the_report_that_it_gives_most_often(visit, city):
    """By click, by arrow keys and by search; whatever report was looked at before."""
    result, path, _ = city
    likely = result.mechanism.probabilities.argmax(axis=1)
    page = visit(path)

    def belongs():
        return page.get_attribute("#stage", "data-output") == str(
            likely[int(page.get_attribute("#stage", "data-record"))]
        )

    page.focus("#slider")
    page.keyboard.press("End")
    row = lonely_record(page, 30)
    page.click("#view-record")
    click_record(page, row)
    assert page.get_attribute("#stage", "data-record") == str(row)
    assert belongs()
    for key in ("ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp"):
        page.keyboard.press(key)
        assert belongs()
    for name in result.problem.records.ids:
        page.fill("#search", name)
        page.keyboard.press("Enter")
        assert belongs()
        assert "0 %" not in page.inner_text("#report-words").split(",")[0].replace("\u00a0", " ").split(" in ")[1][:3]


def test_no_suspicion_is_ever_said_to_be_0_times(visit, tmp_path):
    """A record that never gives the report at hand: the page says so in words."""
    records = mdp.Records([[0.0, 0.0], [0.0, 1.0], [5.0, 0.0], [5.0, 1.0]], kind="vectors")
    problem = mdp.Problem(records, epsilon=0.1, eta=2.0, outputs=4)
    half = 2**62
    table = np.array([[half, half, 0, 0], [half, half, 0, 0], [0, 0, half, half], [0, 0, half, half]], dtype=np.uint64)
    mechanism = replace(mdp.exponential(problem), table=table)
    write_explorer(tmp_path / "page.html", mechanism, problem=problem)
    page = visit(tmp_path / "page.html")
    page.focus("#slider")
    said = []
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
        said.append(page.inner_text("#report-figures"))
    assert sum("practically ruled out" in text for text in said) == 2
    assert sum("→ 0 %" in text.replace("\u00a0", " ") for text in said) == 2  # the page holds every entry: this is 0
    assert not any("0 ×" in text or "0 times" in text for text in said)


def test_the_words_hold_the_distances_of_these_records(visit, city):
    result, path, _ = city
    page = visit(path)
    row, output = (int(page.get_attribute("#stage", f"data-{name}")) for name in ("record", "output"))
    graph, ids = result.problem.graph, result.problem.records.ids
    own = (graph.pairs == row).any(axis=1) & (graph.distances > 0)
    nearest = np.flatnonzero(own)[graph.distances[own].argmin()]
    away, other = graph.distances[nearest], int(graph.pairs[nearest].sum()) - row
    words = page.inner_text("#report-words").replace("\u00a0", " ")
    assert f"{ids[row]} sends {result.problem.outputs.ids(result.problem.records)[output]}" in words
    assert f"its nearest neighbour {ids[other]}" in words
    assert f"= {np.exp(0.8 * away):.3g}." in words
    page.fill(
        "#distance",
        str(1000 * np.log(4) / 0.8) if "metres" in page.inner_text("#privacy .ask") else str(np.log(4) / 0.8),
    )
    assert "at least a quarter as often" in page.inner_text("#promise")
    for wrong in ("-5", ""):
        page.fill("#distance", "1")
        page.fill("#distance", wrong)
        assert "Write a distance of 0 or more" in page.inner_text("#promise")
        assert page.is_hidden("#privacy .formula")
    for near, said in (("0", "at the same place send every report equally often"), ("1e-9", "less than 0.01 % more")):
        page.fill("#distance", near)
        assert said in page.inner_text("#promise").replace("\u00a0", " ")
    page.fill("#distance", "1e9")
    assert "too weak to matter" in page.inner_text("#promise")
    assert "Infinity" not in page.inner_text("#privacy")
    assert "No two records are so far apart" in page.inner_text("#privacy")


def test_all_reports_are_possible_and_the_words_say_so(visit, city):
    """A record is never said to give only the reports of 1 % and more."""
    result, path, _ = city
    page = visit(path)
    row = int(page.get_attribute("#stage", "data-record"))
    usual = int((result.mechanism.probabilities[row] >= 0.01).sum())
    words = page.inner_text("#record-words").replace("\u00a0", " ")
    assert f"{usual} places come in 1 % of all cases or more" in words
    assert "one of" not in words


def test_what_is_left_out_of_the_page_is_not_said_to_be_0(visit, tmp_path):
    """Two neighbours of which one gives a report less than once in a million: less than 0.01 %, and no factor."""
    records = mdp.Records([[0.0, 0.0], [0.0, 1.0]], ids=["a1", "b1"], kind="vectors")
    problem = mdp.Problem(records, epsilon=40.0, eta=2.0, outputs=2)
    rare = 2**63 // 10**8
    table = np.array([[2**63 - rare, rare], [rare, 2**63 - rare]], dtype=np.uint64)
    mechanism = replace(mdp.exponential(problem), table=table)
    write_explorer(tmp_path / "rare.html", mechanism, problem=problem)
    page = visit(tmp_path / "rare.html")
    find(page, "a1")
    words = page.inner_text("#report-words").replace("\u00a0", " ")
    assert "b1, at distance 1, in less than 0.01 %" in words
    assert "factor" not in words
    assert "too weak to matter" in words
    page.check("#view-report", force=True)
    page.focus("#slider")
    page.keyboard.press("End")
    find(page, "b1")
    page.check("#view-report", force=True)
    assert "0 %" not in re.findall(r"→ (.*)", page.inner_text("#report-figures"))


def test_zooming_in_keeps_the_chosen_record_in_sight_and_ends(visit, city):
    _, path, _ = city
    page = visit(path)
    show_all(page)
    for button in (False, True):
        show_all(page)
        for _ in range(25):
            if button:
                page.click("#zoom-in")
            else:
                page.keyboard.press("+")
        row = int(page.get_attribute("#stage", "data-record"))
        x, y = page.evaluate("(i) => window.metricdpExplorer.placeOf(i)", row)
        box = page.locator("#map").bounding_box()
        assert 0 <= x <= box["width"]
        assert 0 <= y <= box["height"]
        zoom = zoom_of(page)
        page.keyboard.press("+")
        assert zoom_of(page) == zoom
    places = [page.evaluate("(i) => window.metricdpExplorer.placeOf(i)", i) for i in range(30)]
    width = np.ptp(np.array(places)[:, 0])
    coordinates = mdp.data.road("gothenburg", n=30, seed=2).coordinates
    metres = np.ptp(coordinates[:, 1]) * 111_195 * np.cos(np.radians(57.7))
    assert metres / width == pytest.approx(0.2, rel=0.05)  # a pixel


def test_the_labels_of_the_bounds_are_beside_the_chart(visit, city):
    _, path, _ = city
    page = visit(path)
    key = page.inner_text("#convergence .key")
    assert [label in key for label in ("Expected loss in km", "upper bound", "lower bound")] == [True] * 3
    assert "component" not in page.inner_text("#convergence")
    assert "bound" not in page.text_content("#convergence svg")
    assert "certified loss 0.6 km" in page.inner_text("#convergence")


def test_a_part_of_the_bounds_is_called_a_group(visit, tmp_path):
    records = mdp.Records([[0.0, 0.0], [0.0, 1.0], [9.0, 0.0], [9.0, 1.0]], kind="vectors")
    mechanism = mdp.exponential(mdp.Problem(records, epsilon=1.0, eta=2.0))
    write_explorer(tmp_path / "page.html", mechanism, trace=TRACE)
    assert "Share of group 1 in the expected loss" in visit(tmp_path / "page.html").inner_text("#convergence .key")


def test_nothing_protected_comes_first_and_without_praise(visit, tmp_path):
    problem = mdp.Problem(mdp.data.road("gothenburg", n=5, seed=0), epsilon=5.0, eta=0.0001)
    result = mdp.solve(problem)
    write_explorer(
        tmp_path / "none.html", result.mechanism, problem=problem, compared=compared_with(problem, ["uniform"])
    )
    page = visit(tmp_path / "none.html")
    assert page.inner_text("#facts li >> nth=0") == "nothing is protected"
    assert page.locator("#facts .good").count() == 0
    assert "optimal" not in page.inner_text("#facts")
    assert "✓" not in page.inner_text("main")
    assert "Nearly optimal" not in page.inner_text("main")
    assert "certified" not in page.inner_text("#comparison")


def test_words_are_quoted_and_words_are_not_people(visit, words):
    mechanism, path = words
    page = visit(path)
    find(page, mechanism.records.ids[5])
    name = mechanism.records.ids[5]
    assert page.inner_text("#report-words").startswith(f"“{name}” sends “")
    assert "Somebody with this word" in page.inner_text("#record-words")
    privacy = page.inner_text("#privacy")
    assert "A word at distance" in privacy
    assert "Two words at a distance of" in privacy
    assert "Somebody" not in privacy
    lengths = mechanism.graph.distances
    assert np.isclose(lengths, float(page.input_value("#distance")), rtol=1e-3).any()  # one that there is


def test_the_legend_has_the_circle_only_while_it_is_in_sight(visit, tmp_path):
    problem = mdp.Problem(mdp.data.road("gothenburg", n=30, seed=2), epsilon=0.8, eta=3.0, outputs=8)
    write_explorer(tmp_path / "page.html", mdp.exponential(problem), problem=problem)
    page = visit(tmp_path / "page.html")
    show_all(page)
    pixels(page)
    assert "neighbours within" in page.inner_text("#legend")
    for _ in range(15):
        page.keyboard.press("+")
    pixels(page)
    assert "neighbours within" not in page.inner_text("#legend")


def test_little_room_is_left_empty(visit, city):
    """Beside the map, and in the cards below it."""
    _, path, _ = city
    page = visit(path)
    side, stage = (page.locator(name).bounding_box() for name in (".side", ".stage-card"))
    assert side["height"] - stage["height"] < 120
    unused = page.evaluate("""() => [...document.querySelectorAll(".proofs .card")].map((card) =>
        card.getBoundingClientRect().bottom - card.lastElementChild.getBoundingClientRect().bottom)""")
    assert max(unused) < 60


def test_a_tooltip_never_outlives_what_it_tells_of(visit, city):
    _, path, _ = city
    page = visit(path)
    row = lonely_record(page, 30)

    def hover():
        page.mouse.move(5, 5)
        x, y = page.evaluate("(i) => window.metricdpExplorer.placeOf(i)", row)
        page.hover("#map", position={"x": x, "y": y})
        assert page.is_visible("#tip")

    for key in ("ArrowRight", "+", "0"):
        hover()
        page.keyboard.press(key)
        assert page.is_hidden("#tip")
        show_all(page)
    hover()
    page.click("#theme")
    assert page.is_hidden("#tip")


def test_layers_of_the_user_are_drawn_and_fade_out(visit, city, tmp_path):
    """A lake around all records is blue at the chosen record's side of the map and gone at its far edge."""
    result, _, _ = city
    south, west = result.problem.records.coordinates.min(axis=0) - 0.3
    north, east = result.problem.records.coordinates.max(axis=0) + 0.3
    ring = np.array([[south, west], [south, east], [north, east], [north, west]])
    write_explorer(
        tmp_path / "lake.html",
        result.mechanism,
        problem=result.problem,
        layers=[
            MapFeature("water", (ring,), EVIL, is_area=True),
            MapFeature("place", (result.problem.records.coordinates[:1],), "Haga"),
        ],
    )
    page = visit(tmp_path / "lake.html", size=(1600, 700))
    show_all(page)
    pixels(page)
    blues = page.evaluate("""() => {
        const { width, height } = document.getElementById("map");
        const { data } = document.getElementById("map").getContext("2d").getImageData(0, 0, width, height);
        const at = (x, y) => [...data.slice(4 * (Math.round(y * height) * width + Math.round(x * width))).slice(0, 4)];
        return [[0.5, 0.30], [0.5, 0.36], [0.5, 0.42], [0.002, 0.002]].map(([x, y]) => at(x, y));
    }""")
    assert any(alpha > 200 and blue > red for red, _, blue, alpha in blues[:3])
    assert blues[3][3] < 30


def corners_of(name):
    """The corners of a name on the map, turned as it is written."""
    along = np.array([np.cos(name["angle"]), np.sin(name["angle"])])
    across = np.array([-along[1], along[0]])
    return np.array(
        [
            [name["x"], name["y"]] + a * name["wide"] / 2 * along + b * name["high"] / 2 * across
            for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))
        ]
    )


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
@pytest.mark.parametrize("view", ["#view-record", "#view-report"])
def test_names_are_whole_and_clear_of_what_the_map_is_about(visit, tmp_path, size, view):
    """No name is cut at the rim, covered by a disc, under a button, or across another name."""
    records = mdp.data.road("gothenburg").nearest([57.7069, 11.9685], 40)
    mechanism = mdp.exponential(mdp.Problem(records, epsilon=4.0, eta=2.0))
    write_explorer(tmp_path / "page.html", mechanism)
    page = visit(tmp_path / "page.html", size=size)
    page.check(view, force=True)
    n_names = 0
    for key in ("0", "c", "+"):
        page.focus("#map")
        page.keyboard.press(key)
        pixels(page)
        names = page.evaluate("window.metricdpExplorer.names()")
        n_names += len(names)
        box = page.locator("#map").bounding_box()
        truth = page.evaluate(
            "(i) => window.metricdpExplorer.placeOf(i)", int(page.get_attribute("#stage", "data-record"))
        )
        zoom = page.locator("#zoom").bounding_box()
        held = np.zeros((round(box["height"]) + 1, round(box["width"]) + 1), dtype=bool)
        for name in names:
            corners = corners_of(name)
            assert (corners >= 0).all()
            assert (corners <= [box["width"], box["height"]]).all()
            offset = np.array(truth) - [name["x"], name["y"]]
            along = abs(offset @ [np.cos(name["angle"]), np.sin(name["angle"])])
            across = abs(offset @ [-np.sin(name["angle"]), np.cos(name["angle"])])
            assert along > name["wide"] / 2 or across > name["high"] / 2
            low, high = corners.min(axis=0), corners.max(axis=0)
            assert high[0] < zoom["x"] - box["x"] or low[1] > zoom["y"] - box["y"] + zoom["height"]
            own = held[int(low[1]) : int(high[1]) + 1, int(low[0]) : int(high[0]) + 1]
            assert not own.any()
            own[:] = True
    assert n_names > 3


def test_no_card_is_empty(visit, city, words):
    for path in (city[1], words[1]):
        page = visit(path)
        for view in ("#view-record", "#view-report"):
            page.check(view, force=True)
            empty = page.evaluate("""() =>
                [...document.querySelectorAll(".card, .card h2, .card h3, .card p, .card li, .card dd")]
                .filter((e) => e.getClientRects().length && !e.textContent.trim() && !e.querySelector("canvas"))
                .map((e) => e.outerHTML.slice(0, 120))""")
            assert empty == []


def test_it_fits_a_phone(visit, city):
    _, path, _ = city
    page = visit(path, size=(390, 844), has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    row = lonely_record(page, 30)
    x, y = page.evaluate("(i) => window.metricdpExplorer.placeOf(i)", row)
    page.tap("#map", position={"x": x, "y": y})
    assert page.get_attribute("#stage", "data-record") == str(row)


def test_five_thousand_records_can_be_used(visit, tmp_path):
    problem = mdp.Problem(mdp.data.road("gothenburg", n=5000, seed=1), epsilon=5.0, eta=0.05, outputs=100)
    path = tmp_path / "large.html"
    size = write_explorer(path, mdp.exponential(problem), problem=problem)
    assert size < 15e6
    page = visit(path)
    before = pixels(page)
    page.fill("#search", problem.records.ids[4321])
    page.keyboard.press("Enter")
    assert page.get_attribute("#stage", "data-record") == "4321"
    assert pixels(page) != before


def drawn_in(page, times):
    """Press the button so many times; the outputs that came."""
    return page.evaluate(
        """(times) => Array.from({ length: times }, () => {
          document.getElementById("draw").click();
          return Number(document.getElementById("stage").dataset.output);
        })""",
        times,
    )


@pytest.mark.parametrize("size", [(1280, 900), (390, 844)])
def test_a_report_is_drawn_in_the_page(visit, city, size):
    """By mouse, then by keyboard, then many times: the probabilities are those of the file's table."""
    result, path, _ = city
    page = visit(path, size=size)
    row = int(page.get_attribute("#stage", "data-record"))
    assert page.is_hidden("#drawn")
    before = pixels(page)
    page.click("#draw")
    page.wait_for_selector("#drawn b")
    assert pixels(page) != before  # it is marked on the map
    assert "report that was drawn" in page.inner_text("#legend")
    names = result.problem.outputs.ids(result.problem.records)
    assert page.inner_text("#drawn b") == names[int(page.get_attribute("#stage", "data-output"))]
    assert page.get_attribute("#stage", "data-record") == str(row)
    assert "nothing was sent" in page.inner_text("#drawn")
    page.focus("#draw")
    for key in ("Enter", "Space"):
        page.keyboard.press(key)
    assert "3 reports drawn here" in page.inner_text("#drawn")
    assert page.evaluate("document.activeElement.id") == "draw"
    assert "Drawn: report" in page.text_content("#live")
    seen = np.bincount(drawn_in(page, 500), minlength=8)
    expected = 500 * result.mechanism.probabilities[row]
    assert not seen[expected == 0].any()
    positive = seen > 0
    g = 2 * (seen[positive] * np.log(seen[positive] / expected[positive])).sum()
    assert chi2.sf(g, (expected > 0).sum() - 1) > 1e-6  # by chance once in a million runs


def test_what_was_drawn_belongs_to_its_record(visit, city):
    _, path, _ = city
    page = visit(path)
    page.click("#draw")
    page.wait_for_selector("#drawn b")
    page.focus("#draw")
    page.keyboard.press("Enter")
    click_record(page, lonely_record(page, 30))
    assert page.is_hidden("#drawn")
    page.click("#draw")
    assert "nothing was sent" in page.inner_text("#drawn")  # the first of this record


def test_reports_are_drawn_without_a_map(visit, words):
    mechanism, path = words
    page = visit(path)
    row = int(page.get_attribute("#stage", "data-record"))
    page.click("#draw")
    page.wait_for_selector("#drawn b")
    assert set(drawn_in(page, 50)) <= set(np.flatnonzero(mechanism.table[row]).tolist())


def test_no_report_is_drawn_from_a_record_that_nothing_protects(visit, tmp_path):
    line = mdp.Records([[0.0, 0.0], [1.0, 0.0], [9.0, 0.0]], ids=["a", "b", "alone"], kind="vectors")
    problem = mdp.Problem(line, epsilon=1.0, eta=1.5, outputs=[0, 1, 2])
    write_explorer(tmp_path / "line.html", mdp.exponential(problem), problem=problem)
    page = visit(tmp_path / "line.html")
    page.fill("#search", "alone")
    page.keyboard.press("Enter")
    page.click("#draw")
    page.wait_for_selector("text=Nothing was drawn")
    assert "not protected" in page.inner_text("#drawn")
    assert page.locator("#drawn b").count() == 0


def test_a_page_that_cannot_draw_says_why(visit, tmp_path, monkeypatch):
    monkeypatch.setattr("metricdp.report.explorer.MOST_SAMPLED_BYTES", 10)
    write_explorer(tmp_path / "grid.html", mdp.exponential(mdp.Problem(mdp.data.grid(3, 3), epsilon=1.0, eta=1.0)))
    page = visit(tmp_path / "grid.html")
    assert page.locator("#draw").count() == 0
    assert "too large to be inside" in page.inner_text("#not-drawn")


def test_epsilons_of_the_records_own_are_promised_by_record(visit, tmp_path):
    own = [0.5, 2.0, 2.0]
    records = mdp.Records([[0.0, 0.0], [1.0, 0.0], [2.2, 0.0]], kind="vectors", ids=["first", "second", "third"])
    problem = mdp.Problem(records, epsilon=own, eta=1.2)
    write_explorer(tmp_path / "own.html", mdp.solve(problem).mechanism, problem=problem)
    page = visit(tmp_path / "own.html")
    assert "0.5 to 2" in page.locator("#facts").inner_text()
    assert "the smaller of their own, 0.5 to 2" in page.locator("#privacy").inner_text()
    page.locator("#distance").fill("1")
    for record, formula in ((0, "exp(0.5 × 1) = 1.649"), (2, "exp(2 × 1) = 7.389")):
        find(page, problem.records.ids[record])
        assert formula in page.locator("#privacy .formula").inner_text().replace("\u00a0", " ")
    page.locator("#distance").fill("2")  # beyond neighbours, steps with the larger epsilon add up
    find(page, problem.records.ids[0])
    assert "exp(2 × 2) = 54.6" in page.locator("#privacy .formula").inner_text().replace("\u00a0", " ")
    for record, proved in ((0, "exp(0.5 × 1) = 1.65"), (1, "exp(0.5 × 1) = 1.65"), (2, "exp(2 × 1.2) = 11")):
        find(page, problem.records.ids[record])
        assert proved in page.locator("#report-words").inner_text().replace("\u00a0", " ")


def find(page, name):
    page.fill("#search", name)
    page.press("#search", "Enter")


@pytest.mark.parametrize(
    ("epsilon", "said"), [(6.93148, "6.932"), (6.9351, "6.936"), (2.0, "2"), (0.1, "0.1"), (999.96, "1,000")]
)
def test_no_budget_is_said_smaller_than_it_is(visit, tmp_path, epsilon, said):
    problem = mdp.Problem(mdp.data.grid(2, 2), epsilon=epsilon, eta=1.0)
    write_explorer(tmp_path / "grid.html", mdp.exponential(problem))
    assert f"ε {said}" in visit(tmp_path / "grid.html").inner_text("#facts").replace("\u00a0", " ").splitlines()
