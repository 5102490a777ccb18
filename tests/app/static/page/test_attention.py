"""app/static/: the attention view, in Chromium, shows the service's own weights, on screen, by keyboard and in
files."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest
from chromium import REFUSED, Visit
from playwright.sync_api import Browser, Page, Request, Route, expect
from shared_fixtures import listening

from tests.app.api.test_directions import save_directions

pytestmark = pytest.mark.browser

SENTENCE = "The children were playing in the garden."
OTHER = "The cat sleeps."
FORCED = "Les enfants jouaient dehors."
LONG = "My brother said that he would come to the house " * 2
ASKED = {"text": SENTENCE, "source": "en", "target": "fr"}
KINDS = ["cross", "encoder", "decoder"]
LINES, MAP = ".lines", ".map-body"


class Window:
    """A page, and its requests for attention. Everything else that it did is checked when it is closed."""

    def __init__(self, browser: Browser, url: str, shares_tab: bool = True, **options: Any) -> None:
        self.visit = Visit(browser, url, shares_tab)
        self.page = self.visit.new(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.asked: list[dict[str, Any]] = []
        self.page.on("request", self._read)
        self.page.goto(url)

    def _read(self, request: Request) -> None:
        if request.url.endswith("/attention"):
            self.asked.append(json.loads(request.post_data or ""))

    def translate(self, text: str = SENTENCE) -> Page:
        """The page with the view open and everything in it loaded."""
        self.page.fill("#source-text", text)
        expect(self.page.locator("#target-text")).not_to_be_empty()
        if not self.page.locator("#attention-panel[open]").count():
            self.page.click("#attention-panel summary")
        self.settle()
        return self.page

    def settle(self) -> None:
        self.page.wait_for_selector('#attention[aria-busy="false"] .thumb.ready')

    def __enter__(self) -> Window:
        return self

    def __exit__(self, *error: object) -> None:
        self.visit.end()


@pytest.fixture(scope="module")
def window(browser: Browser, shipped_url: str) -> Iterator[Window]:
    """A window with SENTENCE. Tests leave it translated and open, and select what they need."""
    with Window(browser, shipped_url, shares_tab=False) as window:
        window.translate()
        yield window


@pytest.fixture(scope="module")
def answer(shipped_url: str) -> Any:
    return httpx.post(f"{shipped_url}/attention", json=ASKED).json()


def choose(page: Page, kind: str, layer: int | None = None, head: int | None = None) -> None:
    page.click(f"#attention-view-{kind}")
    page.locator(".choose select").nth(0).select_option(index=0 if layer is None else layer + 1)
    if layer is not None:
        page.locator(".choose select").nth(1).select_option(index=0 if head is None else head + 1)


def matrix(answer: Any, kind: str, layer: int | None = None, head: int | None = None) -> list[list[float]]:
    """The weights of a head, or means of weights: [query][key]."""
    layers = answer["attention"][kind] if layer is None else [answer["attention"][kind][layer]]
    heads = [weights for of_layer in layers for weights in (of_layer if head is None else [of_layer[head]])]
    return [[sum(cell) / len(heads) for cell in zip(*rows, strict=True)] for rows in zip(*heads, strict=True)]


def spoken(token: dict[str, Any]) -> str:
    return str(token["piece"]).removeprefix("▁") or "▁"


def of_cell(page: Page) -> tuple[str, str, float, float]:
    """The texts about the cell under the pointer: query, key, weight, the row's sum."""
    said = page.inner_text(".map-said")
    found = re.fullmatch(r"“(.+)” → “(.+)”: ([-.\de]+)\. The row’s sum: ([.\d]+)", said)
    assert found, said
    return found[1], found[2], float(found[3]), float(found[4])


def hover_cell(page: Page, query: int, key: int, rows: int, columns: int) -> None:
    size = page.locator(MAP).bounding_box()
    assert size
    position = {"x": (key + 0.5) * size["width"] / columns, "y": (query + 0.5) * size["height"] / rows}
    page.locator(".map-cells").hover(position=position)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "layer", "head"), [("cross", None, None), ("cross", 1, 2), ("encoder", 5, None), ("decoder", 0, 3)]
)
def test_cells_weight_is_the_services(
    window: Window, answer: Any, kind: str, layer: int | None, head: int | None
) -> None:
    page, weights = window.page, matrix(answer, kind, layer, head)
    choose(page, kind, layer, head)
    queries = answer["source_tokens" if kind == "encoder" else "target_tokens"]
    keys = [{"piece": "<s>"}, *queries] if kind == "decoder" else answer["source_tokens"]
    for query, key in [(0, 0), (len(weights) - 1, len(weights[0]) - 1), (3, 2)]:
        hover_cell(page, query, key, len(weights), len(weights[0]))
        row, column, weight, total = of_cell(page)
        assert (row, column) == (spoken(queries[query]), spoken(keys[key]))
        assert weight == pytest.approx(weights[query][key], rel=1e-3)
        assert total == 1


# Of a copy: a canvas that is read often is one that the browser complains of.
PIXELS = """canvas => {
    const [width, height] = [Math.min(256, canvas.width), Math.min(256, canvas.height)];
    const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
    context.drawImage(canvas, 0, 0, width, height);
    const { data } = context.getImageData(0, 0, width, height);
    // All three colours together tell neighbouring places of the scale apart, where green alone may not.
    return Array.from({ length: width * height }, (_, at) => data[4 * at] + data[4 * at + 1] + data[4 * at + 2]);
}"""
PICTURES = f"""thumbs => thumbs.map(thumb => {{
    const canvas = thumb.querySelector("canvas");
    const lights = ({PIXELS})(canvas);
    return [thumb.ariaLabel, canvas.height, canvas.width, lights.indexOf(Math.min(...lights))];
}})"""


@pytest.mark.parametrize("kind", KINDS)
def test_every_layer_and_head_has_a_map_that_is_darkest_at_the_largest_weight(
    window: Window, answer: Any, kind: str
) -> None:
    choose(window.page, kind)
    shown = window.page.eval_on_selector_all(".thumb.ready", PICTURES)
    weights = answer["attention"][kind]
    layers, heads = range(len(weights)), range(len(weights[0]))
    places = [*((layer, head) for layer in layers for head in (None, *heads)), (None, None)]
    assert len(shown) == len(places)
    for (name, rows, columns, darkest), (layer, head) in zip(shown, places, strict=True):
        weights = matrix(answer, kind, layer, head)
        assert (rows, columns) == (len(weights), len(weights[0]))
        flat = [weight for row in weights for weight in row]
        # A picture has 256 colours: weights that it cannot tell apart are equals.
        assert flat[darkest] == pytest.approx(max(flat), abs=0.01), name
        numbers = [place + 1 for place in (layer, head) if place is not None]
        assert [int(number) for number in re.findall(r"\d+", name.split(",")[0])] == numbers


def test_head_with_a_clear_pattern_is_named_after_it(window: Window, answer: Any) -> None:
    choose(window.page, "encoder")
    named = 0
    for thumb in window.page.locator(".thumb").all():
        found = [int(number) - 1 for number in re.findall(r"\d+", (thumb.get_attribute("title") or "").split(",")[0])]
        weights = matrix(answer, "encoder", *found)
        last = len(weights) - 1
        places = {
            "before": [weights[row][row - 1] for row in range(1, last + 1)],
            "itself": [weights[row][row] for row in range(last + 1)],
            "after": [weights[row][row + 1] for row in range(last)],
            "the end": [weights[row][last] for row in range(last + 1)],
        }
        share, place = max((sum(values) / len(values), place) for place, values in places.items())
        label = thumb.get_attribute("aria-label") or ""
        assert ("often" in label) == (share >= 0.4)
        if share >= 0.4:
            named += 1
            assert place in label
            assert float(label.split(": ")[1].split()[0]) == pytest.approx(share, abs=0.0051)
    assert named


def test_token_under_the_pointer_shows_what_it_attends_to_and_what_attends_to_it(window: Window, answer: Any) -> None:
    page, weights = window.page, matrix(answer, "cross", 1, 0)
    choose(page, "cross", 1, 0)
    expected = {"query": weights[1], "key": [row[1] for row in weights]}
    for side, other in (("query", "key"), ("key", "query")):
        page.locator(f'[data-side="{side}"] .token').nth(1).hover()
        shares = page.locator(f'[data-side="{other}"] .share').all_inner_texts()
        assert [int(share.rstrip("%") or 0) for share in shares] == [
            pytest.approx(100 * weight, abs=0.51) if weight >= 0.01 else 0 for weight in expected[side]
        ]
        assert page.locator(".lines-drawing path").count() == sum(weight >= 0.005 for weight in expected[side])
        best = max(range(len(expected[side])), key=expected[side].__getitem__)
        tokens = answer["source_tokens" if side == "query" else "target_tokens"]
        assert f": {spoken(tokens[best])} {expected[side][best]:.4f}" in page.inner_text(".lines-said")
    page.locator("#attention-panel h2").hover()
    assert "0.05" in page.inner_text(".lines-said")
    assert not page.locator(".token.active").count()


MIDDLES = """pieces => {
    const start = document.querySelector(".lines-drawing").getBoundingClientRect().left;
    return pieces.map(piece => piece.getBoundingClientRect()).map(box => (box.left + box.right) / 2 - start);
}"""


def test_without_a_pointer_lines_show_the_alignment(window: Window, answer: Any) -> None:
    page = window.page
    choose(page, "cross")
    drawn = page.eval_on_selector_all(
        ".lines-drawing path",
        """paths => paths.map(path => path.getAttribute("d").match(/[\\d.]+/g).map(Number))""",
    )
    middles = {
        side: page.eval_on_selector_all(f'[data-side="{side}"] .token .piece', MIDDLES) for side in ("key", "query")
    }
    nearest = [
        [
            min(range(len(middles["key"])), key=lambda key: abs(middles["key"][key] - line[0])),
            min(range(len(middles["query"])), key=lambda query: abs(middles["query"][query] - line[-2])),
        ]
        for line in drawn
    ]
    assert sorted(nearest) == sorted(answer["alignment"])


def test_keyboard_reaches_tabs_tokens_maps_and_cells(window: Window, answer: Any) -> None:
    page = window.page
    choose(page, "cross")
    page.focus("#attention-view-cross")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#attention-view-encoder")).to_be_focused()
    expect(page.locator("#attention-view-encoder")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowLeft")
    page.locator(".thumb[tabindex='0']").focus()
    for key in ("ArrowUp", "ArrowRight", "ArrowRight", "Enter"):  # from the mean of all: layer 2, its second head
        page.keyboard.press(key)
    expect(page.locator(".map-title")).to_have_text("layer 2 · head 2")
    expect(page.locator(".thumb[aria-pressed='true']")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(page.locator(MAP)).to_be_focused()
    for key in ("Home", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
    assert of_cell(page)[2] == pytest.approx(matrix(answer, "cross", 1, 1)[1][1], rel=1e-3)
    page.keyboard.press("Control+End")
    assert of_cell(page)[:2] == ("</s>", "</s>")
    page.locator("[data-side='query'] .token[tabindex='0']").focus()
    for key in ("Home", "ArrowRight"):
        page.keyboard.press(key)
    assert page.inner_text(".lines-said").startswith(f"“{spoken(answer['target_tokens'][1])}” attends to: ")
    page.keyboard.press("ArrowUp")
    row = matrix(answer, "cross", 1, 1)[1]
    expect(page.locator("[data-side='key'] .token").nth(row.index(max(row)))).to_be_focused()


def test_weights_are_also_a_table_for_screen_readers(window: Window, answer: Any) -> None:
    page, weights = window.page, matrix(answer, "decoder", 1, 1)
    choose(page, "decoder", 1, 1)
    page.get_by_text("Show as a table").click()
    cells = page.locator(".weights tbody td").all_inner_texts()
    assert cells == [f"{weight:.4f}" for row in weights for weight in row]
    page.get_by_text("Hide the table").click()
    expect(page.locator(".weights")).to_have_count(0)


def saved(page: Page, form: str) -> tuple[str, bytes]:
    with page.expect_download() as download:
        page.click(f'[data-format="{form}"]')
    return download.value.suggested_filename, Path(download.value.path()).read_bytes()


def test_saved_file_is_the_services_response(window: Window, shipped_url: str) -> None:
    for form, name in (("json", "attention-en-fr.json"), ("bertviz", "attention-en-fr.bertviz.json")):
        called, data = saved(window.page, form)
        assert called == name
        assert json.loads(data) == httpx.post(f"{shipped_url}/attention", json={**ASKED, "as": form}).json()
    name, drawn = saved(window.page, "svg")
    assert name == "attention-en-fr.svg"
    assert ElementTree.fromstring(drawn).tag.endswith("svg")


def test_images_are_saved_at_twice_their_size(window: Window) -> None:
    page = window.page
    choose(page, "cross", 1, 0)
    for form, figure in (("lines", LINES), ("map", ".map-figure")):
        name, data = saved(page, form)
        assert name == f"attention-en-fr-cross-layer-2-head-1-{form}.png"
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        size = page.locator(figure).bounding_box()
        assert size
        width, height = struct.unpack(">II", data[16:24])
        assert (width - 2 * size["width"], height - 2 * size["height"]) == pytest.approx((96, 152), abs=3)


def test_alternative_translation_can_be_examined_and_left(window: Window, shipped_url: str) -> None:
    page = window.page
    choose(page, "cross")
    translation = page.input_value(".forced input")
    page.fill(".forced input", FORCED)
    page.keyboard.press("Enter")
    expect(page.get_by_text("As translated", exact=True)).to_be_visible()
    window.settle()
    expected = httpx.post(f"{shipped_url}/attention", json={**ASKED, "target_text": FORCED}).json()
    pieces = page.locator("[data-side='query'] .piece").all_text_contents()
    assert pieces == [token["piece"] for token in expected["target_tokens"]]
    weights = matrix(expected, "cross")
    hover_cell(page, 2, 1, len(weights), len(weights[0]))
    assert of_cell(page)[2] == pytest.approx(weights[2][1], rel=1e-3)
    page.get_by_text("As translated", exact=True).click()
    expect(page.locator(".forced input")).to_have_value(translation)
    expect(page.get_by_text("As translated", exact=True)).to_be_hidden()


def test_services_error_for_a_long_text_is_shown_the_view_stays_and_focus_does(window: Window) -> None:
    window.visit.allowed.append(REFUSED)
    page = window.page
    page.fill(".forced input", "oui " * 300)
    page.keyboard.press("Enter")
    expect(page.locator(".attention-note")).to_contain_text("a sentence may have 256")
    expect(page.locator(LINES)).to_be_visible()
    page.fill(".forced input", FORCED)
    page.get_by_role("button", name="Look at this one").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="As translated")).to_be_focused()
    expect(page.locator(".attention-note")).to_be_hidden()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="As translated")).to_be_hidden()
    window.settle()
    window.visit.check()
    window.visit.complaints.clear()
    window.visit.allowed.clear()


def lower_limit(route: Route) -> None:
    """Has the page request layer by layer the weights of a text that is translated quickly."""
    response = route.fetch()
    limit = "MAX_WEIGHTS_PER_REQUEST = 200_000"
    assert limit in response.text()
    route.fulfill(response=response, body=response.text().replace(limit, "MAX_WEIGHTS_PER_REQUEST = 1_000"))


def test_weights_are_requested_only_when_shown(browser: Browser, shipped_url: str) -> None:
    with Window(browser, shipped_url) as window:
        page = window.page
        page.route("**/attention_loader.js", lower_limit)
        page.fill("#source-text", OTHER)
        expect(page.locator("#target-text")).not_to_be_empty()
        assert window.asked == []
        window.translate(SENTENCE)
        first = len(window.asked)
        assert {kind for asked in window.asked for kind in asked["kinds"]} == {"cross"}
        page.click("#attention-view-encoder")
        expect(page.locator(".thumb.ready")).to_have_count(6 * 7 + 1)
        page.click("#attention-view-cross")  # which is here already
        expect(page.locator(".thumb.ready")).to_have_count(2 * 7 + 1)
        assert {kind for asked in window.asked[first:] for kind in asked["kinds"]} == {"encoder"}
        assert len(window.asked[first:]) == 6  # a layer each


GROUND = f"""canvas => {{
    const lights = ({PIXELS})(canvas);
    return lights.reduce((total, light) => total + light, 0) / lights.length / 3;
}}"""


def test_phone_never_scrolls_sideways_shows_long_tokens_whole_and_maps_follow_the_theme(
    browser: Browser, shipped_url: str
) -> None:
    phone: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "device_scale_factor": 2}
    with Window(browser, shipped_url, **phone) as window:
        page = window.translate(LONG)
        page.locator("[data-side='query'] .token").nth(3).tap()
        expect(page.locator(".token.active.held")).to_have_count(1)
        page.click("#attention-view-encoder")
        window.settle()
        for width in (320, 390):
            page.set_viewport_size({"width": width, "height": 844})
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate("map => map.scrollWidth > map.clientWidth", page.query_selector(".map-scroll"))
        page.focus(MAP)
        page.keyboard.press("Control+End")
        cell, scroll = page.locator(".map-cell").bounding_box(), page.locator(".map-scroll").bounding_box()
        assert cell and scroll
        assert scroll["x"] < cell["x"] < cell["x"] + cell["width"] <= scroll["x"] + scroll["width"] + 1
        light = page.eval_on_selector(".map-cells", GROUND)
        page.emulate_media(color_scheme="dark")
        page.wait_for_selector('html[data-theme="dark"]')
        dark = page.eval_on_selector(".map-cells", GROUND)
        assert dark < 110 < light

        page.set_viewport_size({"width": 360, "height": 740})
        with_first_tokens(page, "▁Verantwortlichkeiten")
        page.fill("#source-text", SENTENCE)
        expect(page.locator(".down .token .rest").first).to_have_text("Verantwortlichkeiten")
        window.settle()
        room = page.locator(".lines-scroll").bounding_box()
        assert room
        tokens = page.locator(".down .token")
        for place in range(tokens.count()):
            box = tokens.nth(place).bounding_box()
            assert box
            assert room["x"] - 1 < box["x"] < box["x"] + box["width"] < room["x"] + room["width"] + 1


def with_first_tokens(page: Page, piece: str) -> None:
    """Makes each sentence and its translation begin with another token from now on."""

    def change(route: Route) -> None:
        told = route.fetch().json()
        for side in ("source_tokens", "target_tokens"):
            told[side][0]["piece"] = piece
        route.fulfill(json=told)

    page.route("**/attention", change)


def test_a_recurrent_decoder_has_no_tab_and_the_view_says_why(browser: Browser, shipped_url: str) -> None:
    def without_decoder(route: Route) -> None:
        told = route.fetch().json() | {"model": "en-fr@another"}
        told["attention"] |= {"decoder": []} if "decoder" in told["attention"] else {}
        route.fulfill(json=told)

    def recurrent(route: Route) -> None:
        [model, *_] = [each for each in route.fetch().json() if (each["source"], each["target"]) == ("en", "fr")]
        changed = {"model": "en-fr@another", "architecture": model["architecture"] | {"decoder": "ssru"}}
        route.fulfill(json=[model | changed])

    with Window(browser, shipped_url) as window:
        page = window.translate()
        choose(page, "decoder")
        page.route("**/attention", without_decoder)
        page.route("**/models", recurrent)
        window.translate(OTHER)
        tabs = page.locator(".attention [role=tab]:visible")
        expect(tabs).to_have_count(2)
        expect(page.locator("#attention-view-cross")).to_have_attribute("aria-selected", "true")
        expect(page.locator(".about")).to_contain_text("recurrent")
        page.focus("#attention-view-cross")
        page.keyboard.press("End")
        expect(page.locator("#attention-view-encoder")).to_have_attribute("aria-selected", "true")
        expect(page.locator(".about")).not_to_contain_text("recurrent")


def test_tokens_are_text_whatever_they_contain_and_do_not_reorder_their_neighbours(
    browser: Browser, shipped_url: str
) -> None:
    with Window(browser, shipped_url) as window:
        page = window.translate("The <b>cat</b> sleeps.")
        pieces = page.locator("[data-side='key'] .piece").all_text_contents()
        assert "<" in "".join(pieces)
        assert not page.locator("#attention b").count()

        with_first_tokens(page, "▁שלום")
        page.fill("#source-text", OTHER)
        expect(page.locator("[data-side='key'] .piece").first).to_contain_text("שלום")
        window.settle()
        page.locator(".map-cells").hover(position={"x": 5, "y": 5})
        isolated = "\u2068שלום\u2069"
        expect(page.locator(".map-said")).to_contain_text(f"“{isolated}” → “{isolated}”: 0")


def test_every_text_exists_in_both_languages(window: Window) -> None:
    english, chinese = window.page.evaluate(
        """async () => {
            const { english, chinese } = await import("./page/i18n/attention.js");
            const places = words => [...words.matchAll(/\\{\\w+\\}/g)].map(String).sort().join();
            const listed = words => Object.entries(words).map(([key, value]) => [key, places(value)]).sort();
            return [listed(english), listed(chinese)];
        }"""
    )
    assert english == chinese
    assert any(places for _, places in english)
    for words in ("交叉注意力", "Cross-attention"):
        window.page.click("#interface")
        expect(window.page.locator("#attention-view-cross .kind")).to_have_text(words)
        window.settle()


def test_view_in_a_language_that_was_left_sends_no_requests(browser: Browser, shipped_url: str) -> None:
    with Window(browser, shipped_url) as window:
        window.visit.allowed.append(REFUSED)
        page = window.page
        page.route("**/attention", lambda route: route.fulfill(status=500, body="{}"))
        page.fill("#source-text", SENTENCE)
        expect(page.locator("#target-text")).not_to_be_empty()
        page.click("#attention-panel summary")
        expect(page.locator(".attention-note.fault")).to_be_visible()  # what failed would be asked for again
        page.unroute("**/attention")
        page.click("#interface")
        window.settle()
        window.asked.clear()
        page.click("#attention-panel summary")
        page.click("#attention-panel summary")
        page.fill("#source-text", OTHER)
        expect(page.locator("[data-side='key']")).to_contain_text("cat")
        assert {asked["text"] for asked in window.asked} == {OTHER}


def test_model_of_several_directions_shows_every_head_and_its_own_start_token(browser: Browser, tmp_path: Path) -> None:
    targets = {"fr": {"target_prefix": ["fr"]}, "de": {"target_prefix": ["de"]}}
    save_directions(tmp_path / "several", {"en": ["en"]}, targets, bos_id=2)
    with listening(tmp_path) as url, Window(browser, url) as window:
        window.page.select_option("#target-language", "de")
        page = window.translate("The cat sleeps.")
        expect(page.locator(".thumb")).to_have_count(2 * (2 + 1) + 1)
        tokens = [token.strip() for token in page.locator(".symbol").all_inner_texts()]
        assert {"<to_en>", "<to_de>", "</s>"} <= set(tokens)
        page.click("#attention-view-decoder")
        assert page.locator(".lines button").first.inner_text() == "</s>"
