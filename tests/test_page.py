"""The page at `/`, driven in Chromium against the service with the model that ships."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from chromium import REFUSED, Visit
from conftest import Service, listening, serving
from playwright.sync_api import Browser, Locator, Page, Route, expect

from app.keys import new_key

FOLDER = Path("app/static/page")
TEXT, FRENCH = "My house is red. The cat sleeps on the table.", "Ma maison est rouge. Le chat dort sur la table."
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
LIMIT = 200
"""Characters that the service with keys takes."""


@pytest.fixture
def visit(browser: Browser, shipped_url: str) -> Iterator[Visit]:
    """What was visited is checked at the end of each test."""
    visit = Visit(browser, shipped_url)
    yield visit
    visit.check()
    visit.close()


def type_in(page: Page, text: str) -> None:
    page.locator("#source-text").fill(text)


def translation(page: Page) -> Locator:
    return page.locator("#target-text")


def lit(page: Page) -> tuple[list[str], list[str]]:
    """The words that are lit: of the text, of the translation."""
    return page.locator("#mirror .lit").all_inner_texts(), page.locator("#target-text .lit").all_inner_texts()


def expect_lit(page: Page, source: str, target: str) -> None:
    expect(page.locator("#mirror .lit")).to_have_text([source])
    expect(page.locator("#target-text .lit")).to_have_text([target])


def refuse(route: Route, status: int, slug: str, detail: str, **headers: str) -> None:
    problem = {"type": f"urn:interlinear:error:{slug}", "title": slug, "status": status, "detail": detail}
    route.fulfill(status=status, headers=headers, content_type="application/problem+json", body=json.dumps(problem))


# The text and its translation


def test_what_is_typed_is_translated(visit: Visit) -> None:
    page = visit.page()
    page.locator("#source-text").press_sequentially("I am tired.", delay=20)
    expect(translation(page)).to_have_text("Je suis fatigué.")
    expect(page.locator("#time")).to_contain_text("ms")


def test_a_long_text_keeps_its_paragraphs(visit: Visit, shipped_url: str) -> None:
    text = "\n\n".join([f"{TEXT} He reads a book number {number}." for number in range(1, 13)])
    whole = httpx.post(f"{shipped_url}/translate", json={"text": text, "source": "en", "target": "fr"}).json()
    page = visit.page()
    type_in(page, text)
    expect(page.locator(".sentence")).to_have_count(36)
    expect(page.locator("#time")).to_contain_text("ms")
    assert translation(page).evaluate("element => element.textContent") == whole["translations"][0]["text"]


def test_a_request_that_is_overtaken_is_given_up(visit: Visit) -> None:
    page = visit.page()
    held: list[Route] = []
    given_up: list[str] = []
    page.on("requestfailed", lambda request: given_up.append(request.post_data or ""))

    def hold_the_first(route: Route) -> None:
        held.append(route) if "tired" in (route.request.post_data or "") else route.continue_()

    page.route("**/translate/stream", hold_the_first)
    with page.expect_request("**/translate/stream"):
        type_in(page, "I am tired.")
    type_in(page, "He reads a book.")
    expect(translation(page)).to_have_text("Il lit un livre.")
    assert len(held) == 1
    assert "tired" in given_up[0]


def test_what_is_taken_back_stays_linked(visit: Visit) -> None:
    page = visit.page()
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(FRENCH)
    page.locator("#source-text").press("End")
    page.keyboard.type("x")
    page.keyboard.press("Backspace")
    page.wait_for_timeout(600)
    page.locator(".word", has_text="maison").hover()
    expect_lit(page, "house", "maison")


def test_the_language_of_the_text_is_told(visit: Visit) -> None:
    page = visit.page()
    type_in(page, TEXT)
    expect(page.locator("#source-language option:checked")).to_have_text(re.compile(r"^English \(\d\d% sure\)$"))
    type_in(page, "Bonjour mon ami.")
    expect(page.locator("#notes")).to_contain_text("In French already")
    expect(page.locator("#source-language option:checked")).to_contain_text("French")


def test_clearing_empties_both_panes(visit: Visit) -> None:
    page = visit.page()
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(FRENCH)
    page.click("#clear")
    expect(translation(page)).to_be_empty()
    expect(page.locator("#source-text")).to_be_focused()
    expect(page.locator("#copy")).to_be_disabled()
    expect(page.locator("#clear")).to_be_hidden()


def test_swapping_puts_the_translation_in_the_place_of_the_text(visit: Visit) -> None:
    pairs = [{"code": a, "name": a, "targets": [b]} for a, b in (("en", "fr"), ("fr", "en"))]
    told: dict[str, Any] = {"text": TEXT, "source": "fr", "confidence": None, "warnings": [], "error": None}
    part = {"item": 0, "text": TEXT, "source": [0, len(FRENCH)], "score": -0.1}
    done = {"translations": [told], "model": "fr-en@0", "usage": {"source_tokens": 1, "target_tokens": 1}}
    events = f"event: part\ndata: {json.dumps(part)}\n\nevent: done\ndata: {json.dumps(done)}\n\n"

    def translate(route: Route) -> None:
        wanted = json.loads(route.request.post_data or "")
        if wanted["source"] == "en":
            route.continue_()
        else:
            assert wanted == {"text": FRENCH, "source": "fr", "target": "en"}
            route.fulfill(content_type="text/event-stream", body=events)

    page = visit.new()
    page.route("**/languages", lambda route: route.fulfill(json=pairs))
    page.route("**/translate/stream", translate)
    page.goto(f"{visit.url}/#en/fr/")
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(FRENCH)
    page.click("#swap")
    expect(page.locator("#source-text")).to_have_value(FRENCH)
    expect(translation(page)).to_have_text(TEXT)
    assert page.url.endswith("#fr/en")


def test_a_swap_that_is_not_served_says_why(visit: Visit) -> None:
    page = visit.page("/#en/fr/")
    expect(page.locator("#swap")).to_have_attribute("aria-disabled", "true")
    page.locator("#swap").click(force=True)
    expect(page.locator("#spoken")).to_contain_text("No model here translates from French into English")


def test_a_link_shows_its_translation_and_copies_as_it_came(visit: Visit) -> None:
    page = visit.page("/#en/fr/I%20am%20tired.")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    expect(page.locator("#source-language")).to_have_value("en")
    expect(translation(page)).to_have_text("Je suis fatigué.")
    page.click("#copy-link")
    expect(page.locator("#spoken")).to_have_text("Link copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"{visit.url}/#en/fr/I%20am%20tired."


def test_copying_is_confirmed_to_all(visit: Visit) -> None:
    page = visit.page()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(FRENCH)
    page.click("#copy")
    expect(page.locator("#copy")).to_have_text("Copied")
    expect(page.get_by_role("status").filter(has_text="Copied")).to_have_count(1)
    assert page.evaluate("navigator.clipboard.readText()") == FRENCH


def test_another_translation_takes_the_place_of_the_sentence(visit: Visit) -> None:
    page = visit.page()
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(FRENCH)
    page.locator(".word", has_text="chat").click()
    page.click("#show-others")
    other = page.locator("#others button").first
    expect(other).to_be_visible()
    words = other.inner_text()
    assert words != "Le chat dort sur la table."
    other.click()
    expect(translation(page)).to_have_text(f"Ma maison est rouge. {words}")
    expect(page.locator("#show-others")).to_be_focused()


# Words that belong together


def test_pointing_at_a_word_lights_its_counterpart(visit: Visit) -> None:
    page = visit.page()
    type_in(page, f"😀 {TEXT}")
    expect(translation(page)).to_have_text(f"😀 {FRENCH}")
    page.locator(".word", has_text="maison").hover()
    expect_lit(page, "house", "maison")
    page.locator("#copy").hover()
    assert lit(page) == ([], [])


def test_pointing_at_the_text_lights_the_translation(visit: Visit) -> None:
    page = visit.page()
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(FRENCH)
    box = page.evaluate("""() => {
        const range = document.createRange();
        const words = document.getElementById("mirror").firstChild;
        range.setStart(words, words.data.indexOf("sleeps"));
        range.setEnd(words, words.data.indexOf("sleeps") + 6);
        const { x, y, width, height } = range.getBoundingClientRect();
        return { x: x + width / 2, y: y + height / 2 };
    }""")
    page.mouse.move(box["x"], box["y"])
    expect_lit(page, "sleeps", "dort")


def test_the_caret_lights_the_translation(visit: Visit) -> None:
    page = visit.page()
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(FRENCH)
    at = TEXT.index("table") + 2
    page.locator("#source-text").evaluate("(area, at) => { area.focus(); area.setSelectionRange(at, at); }", at)
    expect_lit(page, "table", "table")


def test_a_tap_lights_and_stays(visit: Visit) -> None:
    page = visit.page(**PHONE)
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(FRENCH)
    page.locator(".word", has_text="maison").tap()
    expect_lit(page, "house", "maison")
    expect(page.locator("#mirror .lit-sentence").first).to_have_text("My ")


def test_arrow_keys_go_from_word_to_word_and_say_them(visit: Visit) -> None:
    page = visit.page()
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(FRENCH)
    translation(page).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#spoken")).to_have_text("maison, from house")
    expect_lit(page, "house", "maison")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#spoken")).to_have_text("Ma, from My")


# What can go wrong


def test_a_refusal_with_a_time_is_tried_again_once_by_itself(visit: Visit) -> None:
    visit.allowed = [REFUSED]
    page = visit.page()
    refusals = iter(range(2))

    def busy_twice(route: Route) -> None:
        if next(refusals, None) is None:
            route.continue_()
        else:
            refuse(route, 503, "overloaded", "The queue is full.", **{"Retry-After": "1"})

    page.route("**/translate/stream", busy_twice)
    type_in(page, "I am tired.")
    expect(page.get_by_role("alert")).to_have_text("The service is busy: The queue is full. Trying again in 1 s.")
    again = page.get_by_role("button", name="Try again")
    expect(again).to_be_visible()
    again.click()
    expect(translation(page)).to_have_text("Je suis fatigué.")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_problem_is_told_in_words(visit: Visit) -> None:
    visit.allowed = [REFUSED]
    page = visit.page()
    page.route("**/translate/stream", lambda route: refuse(route, 504, "deadline-passed", "Not finished in time."))
    type_in(page, "I am tired.")
    expect(page.get_by_role("alert")).to_contain_text("It took too long: Not finished in time.")
    expect(page.locator("#copy")).to_be_disabled()


def test_a_service_that_was_gone_is_found_again(visit: Visit) -> None:
    visit.allowed = [REFUSED]
    page = visit.page()
    type_in(page, "I am tired.")
    expect(translation(page)).to_have_text("Je suis fatigué.")
    page.context.set_offline(True)
    type_in(page, "He reads a book.")
    expect(page.get_by_role("alert")).to_contain_text("The service cannot be reached")
    page.context.set_offline(False)
    expect(translation(page)).to_have_text("Il lit un livre.")
    expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.parametrize("status", [502, 503])
def test_a_service_that_has_stopped_behind_a_proxy_is_waited_for(visit: Visit, status: int) -> None:
    visit.allowed = [REFUSED]
    page = visit.page()
    refusals = iter(range(1))

    def gone_once(route: Route) -> None:
        if next(refusals, None) is None:
            route.continue_()
        else:
            route.fulfill(status=status, content_type="text/html", body="<h1>nginx</h1>")

    page.route("**/translate/stream", gone_once)
    type_in(page, "I am tired.")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(translation(page)).to_have_text("Je suis fatigué.")


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Another service, where a key is wanted and LibreTranslate's API is at the root: its URL and a key."""
    key, line = new_key("page")
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text(line)
    settings = {"api_keys_file": file, "root_api": "libretranslate", "max_text_chars": LIMIT}
    with listening(Path("bundles"), **settings) as url:
        yield url, key


def test_a_key_is_asked_for_and_kept_in_the_tab(browser: Browser, locked: tuple[str, str]) -> None:
    url, key = locked
    visit = Visit(browser, url)
    visit.allowed = [REFUSED]
    page = visit.page()
    type_in(page, "I am tired.")
    dialog = page.get_by_role("dialog", name="This service asks for a key")
    page.get_by_label("API key").fill("wrong")
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("The key that was sent is not one of its keys.")
    page.get_by_label("API key").fill(key)
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    expect(translation(page)).to_have_text("Je suis fatigué.")
    assert page.evaluate("[sessionStorage.getItem('interlinear.key'), localStorage.getItem('interlinear.key')]") == [
        key,
        None,
    ]
    # What is below "interlinear/" here is found there.
    assert {url.removeprefix(visit.url) for url in visit.requests} >= {"/interlinear/languages", "/interlinear/models"}
    visit.check()
    visit.close()


def test_without_a_key_it_is_said_and_can_be_given_later(browser: Browser, locked: tuple[str, str]) -> None:
    url, key = locked
    visit = Visit(browser, url)
    visit.allowed = [REFUSED]
    page = visit.page()
    type_in(page, "I am tired.")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("alert")).to_contain_text("A key is needed")
    page.get_by_role("button", name="Enter a key").click()
    page.get_by_label("API key").fill(key)
    page.get_by_label("Remember").check()
    page.get_by_role("button", name="Use this key").click()
    expect(translation(page)).to_have_text("Je suis fatigué.")
    assert page.evaluate("localStorage.getItem('interlinear.key')") == key
    visit.check()
    visit.close()


def test_too_long_a_text_is_not_sent(browser: Browser, locked: tuple[str, str]) -> None:
    visit = Visit(browser, locked[0])
    page = visit.page()
    type_in(page, "😀" * LIMIT + "a")
    expect(page.get_by_role("alert")).to_contain_text(f"{LIMIT + 1} characters; the service takes {LIMIT}")
    assert not [url for url in visit.requests if "translate/" in url]
    visit.check()
    visit.close()


# Files


def drop(page: Page, event: str, **files: str) -> None:
    page.evaluate(
        """([event, files]) => {
            const dataTransfer = new DataTransfer();
            for (const [name, text] of files) dataTransfer.items.add(new File([text], name));
            document.body.dispatchEvent(new DragEvent(event, { dataTransfer, bubbles: true, cancelable: true }));
        }""",
        [event, [[name.replace("_", "."), text] for name, text in files.items()]],
    )


def test_a_file_that_is_dropped_comes_back_translated(visit: Visit) -> None:
    page = visit.page("/#en/fr/")
    expect(page.locator("#target-language")).to_have_value("fr")
    drop(page, "dragover", letter_txt="I am tired.\n")
    expect(page.locator("#drop")).to_have_text("Drop the file to translate it into French")
    drop(page, "drop", letter_txt="I am tired.\n")
    expect(page.locator("#drop")).to_be_hidden()
    with page.expect_download() as download:
        page.get_by_role("link", name="Save letter.fr.txt").click()
    assert download.value.suggested_filename == "letter.fr.txt"
    assert Path(download.value.path()).read_text() == "Je suis fatigué.\n"


def test_a_file_that_is_chosen_and_not_known_says_so(visit: Visit) -> None:
    visit.allowed = [REFUSED]
    page = visit.page("/#en/fr/")
    expect(page.locator("#target-language")).to_have_value("fr")
    page.set_input_files("#file", {"name": "picture.png", "mimeType": "image/png", "buffer": b"x"})
    line = page.get_by_role("listitem")
    expect(line).to_contain_text("This kind of file is not known")
    line.get_by_role("button", name="Remove").click()
    expect(line).to_have_count(0)


# Everybody's page


def test_a_browser_that_keeps_nothing_translates_all_the_same(visit: Visit) -> None:
    page = visit.new()
    for store in ("localStorage", "sessionStorage"):
        page.add_init_script(f"Object.defineProperty(window, '{store}', {{ get() {{ throw new Error('no'); }} }})")
    page.goto(visit.url)
    type_in(page, "I am tired.")
    expect(translation(page)).to_have_text("Je suis fatigué.")
    page.click("#interface")
    expect(page.locator("#copy")).to_have_text("复制")


def test_the_keyboard_reaches_everything_in_the_order_that_is_seen(visit: Visit) -> None:
    page = visit.page()
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(FRENCH)
    page.locator("h1").click()
    reached = []
    for _ in range(15):
        page.keyboard.press("Tab")
        reached.append(page.locator(":focus").evaluate("at => at.id || at.parentElement.id || at.className"))
    seen = ["quiet", "interface", "theme", "source-language", "swap", "target-language", "source-text", "choose-file"]
    seen += ["clear", "target-text", "copy", "show-others", "copy-link", "attention-panel", "model-panel"]
    assert reached[: len(seen)] == seen


def test_all_that_can_be_used_has_a_name(visit: Visit) -> None:
    page = visit.page()
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(FRENCH)
    page.click("#model-panel summary")
    expect(page.locator("#model dl")).to_be_visible()
    tree = page.locator("body").aria_snapshot()
    assert re.findall(r"- (?:button|link|combobox|textbox|region|checkbox)(?! \")[^\n]*", tree) == []
    for name in ('combobox "Translate from"', 'combobox "Translate into"', 'textbox "Text to translate"'):
        assert name in tree


def test_the_translation_is_spoken_when_typing_has_stopped(visit: Visit) -> None:
    page = visit.page()
    type_in(page, TEXT)
    expect(page.get_by_role("status").filter(has_text=FRENCH)).to_have_count(1)


@pytest.mark.parametrize("locale", ["en-GB", "zh-CN"])
def test_nothing_is_wider_than_the_window(visit: Visit, locale: str) -> None:
    page = visit.page(locale=locale)
    type_in(page, f"{TEXT} {'w' * 200}")
    expect(page.locator("#time")).not_to_be_empty()
    page.click("#show-others")
    page.click("#model-panel summary")
    expect(page.locator("#model table").first).to_be_visible()
    for width in (1280, 768, 390, 320):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_panes_do_not_move_when_something_is_said_in_them(visit: Visit) -> None:
    page = visit.page()
    expect(page.locator("#model-aside")).not_to_be_empty()
    before = page.locator("#model-panel").bounding_box()
    type_in(page, "Bonjour mon ami. " * 3)
    expect(page.locator("#notes .note").first).to_be_visible()
    assert page.locator("#model-panel").bounding_box() == before


CONTRAST = """() => {
    const style = getComputedStyle(document.documentElement);
    const light = (name) => {
        const parts = style.getPropertyValue(`--${name}`).match(/\\w\\w/g).map((part) => parseInt(part, 16) / 255);
        const [r, g, b] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
    };
    const grounds = ["ground", "surface", "hover"];
    const pairs = ["ink", "ink-soft", "accent", "danger"].flatMap((ink) => grounds.map((ground) => [ink, ground]));
    pairs.push(["accent-ink", "accent"], ["ink", "lit"], ["ink", "lit-soft"]);
    const ratio = (one, other) => Math.max(one, other) / Math.min(one, other);
    return pairs.filter(([ink, ground]) => ratio(light(ink), light(ground)) < 4.5).map(String);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_colour_is_legible_on_every_ground(visit: Visit, scheme: Any) -> None:
    """WCAG 2.2, 1.4.3, level AA; the luminance is its own."""
    page = visit.page(color_scheme=scheme)
    assert page.locator("html").get_attribute("data-theme") == scheme
    assert page.evaluate(CONTRAST) == []


def test_light_or_dark_is_remembered(visit: Visit) -> None:
    page = visit.page(color_scheme="light")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    theme = page.locator("#theme")
    expect(theme).to_have_text("Auto")
    theme.click()
    theme.click()
    expect(theme).to_have_text("Dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.locator("#theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_those_who_want_no_motion_see_none(visit: Visit) -> None:
    page = visit.page(reduced_motion="reduce")
    assert page.evaluate("parseFloat(getComputedStyle(document.getElementById('copy')).transitionDuration)") <= 0.001


def test_chinese_is_spoken_to_chinese_browsers_and_kept(visit: Visit) -> None:
    page = visit.page(locale="zh-CN")
    expect(page.get_by_role("button", name="翻译文件")).to_be_visible()
    expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")
    expect(page.locator("#target-language option:checked")).to_have_text("法语")
    page.click("#interface")
    expect(page.get_by_role("button", name="Translate a file")).to_be_visible()
    page.reload()
    expect(page.get_by_role("button", name="Translate a file")).to_be_visible()


def test_both_languages_have_the_same_words_and_each_is_said() -> None:
    english, chinese = (
        re.findall(r'^  "?([\w.-]+)"?:\s+"', (FOLDER / f"{name}.js").read_text(), re.M)
        for name in ("english", "chinese")
    )
    assert english == chinese
    parts = [file.read_text() for file in FOLDER.glob("*.js") if file.stem not in ("english", "chinese")]
    said = {key for part in parts for key in re.findall(r'"([\w.-]+)"', part)}
    said |= set(re.findall(r'data-(?:text|label|title|hint)="([\w.-]+)"', (FOLDER / "index.html").read_text()))
    asked = {key for part in parts for key in re.findall(r'\btext\("([\w.-]+)"', part)}
    assert {key for key in asked if not key.startswith("attention.")} <= set(english)
    assert {key for key in english if not key.startswith(("theme.", "problem."))} <= said


# The model's panel


def test_the_panel_says_what_the_model_is(visit: Visit, shipped_url: str) -> None:
    [model] = httpx.get(f"{shipped_url}/models").json()
    page = visit.page()
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(FRENCH)
    page.click("#model-panel summary")
    panel = page.locator("#model")
    for said in (model["model"], model["licence"], "6 encoder and 2 decoder layers", "147,470", "tokens/s"):
        expect(panel).to_contain_text(said)
    expect(panel).to_contain_text(model["checksum"])
    expect(panel.locator("tbody").first.locator("tr")).to_have_count(
        len({figure["set"] for figure in model["metrics"]})
    )
    expect(panel.locator('[data-figure="last"]')).to_contain_text("tokens in")


def test_the_panel_is_of_the_languages_that_are_chosen(visit: Visit, shipped_url: str) -> None:
    [model] = httpx.get(f"{shipped_url}/models").json()
    other = {**model, "model": "en-de@0", "target": "de", "licence": "another"}
    page = visit.new()
    page.route("**/languages", lambda route: route.fulfill(json=[{"code": "en", "name": "", "targets": ["fr", "de"]}]))
    page.route("**/models", lambda route: route.fulfill(json=[model, other]))
    page.goto(visit.url)
    page.click("#model-panel summary")
    expect(page.locator("#model h3")).to_have_text("English to French")
    page.select_option("#target-language", "de")
    expect(page.locator("#model h3")).to_have_text("English to German")
    expect(page.locator("#model")).to_contain_text("another")


# How it is served


def test_below_the_path_of_a_proxy_it_finds_everything(visit: Visit) -> None:
    page = visit.new()
    inside = visit.url

    def strip(route: Route) -> None:
        route.fulfill(response=route.fetch(url=route.request.url.replace(f"{inside}/mt/", f"{inside}/")))

    page.context.route(f"{inside}/mt/**", strip)
    page.goto(f"{inside}/mt/")
    type_in(page, "I am tired.")
    expect(translation(page)).to_have_text("Je suis fatigué.")
    assert [url for url in visit.requests if not url.startswith((f"{inside}/mt/", "data:"))] == []


def test_every_file_of_the_page_is_under_the_policy(service: Service) -> None:
    for path in ["/", *(f"/page/{file.name}" for file in FOLDER.iterdir())]:
        answer = service.get(path)
        assert answer.status_code == 200, path
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        tag = answer.headers["etag"]
        assert service.request("GET", path, headers={"If-None-Match": tag}).status_code == 304
        assert service.request("HEAD", path).content == b""


def test_scripts_have_the_type_that_browsers_want(service: Service) -> None:
    assert service.get("/").headers["content-type"] == "text/html; charset=utf-8"
    assert service.get("/page/main.js").headers["content-type"] == "text/javascript; charset=utf-8"
    assert service.get("/page/page.css").headers["content-type"] == "text/css; charset=utf-8"


@pytest.mark.parametrize("path", ["../../main.py", "%2e%2e/%2e%2e/main.py", "nothing.js", "", "%00"])
def test_nothing_else_is_served(service: Service, path: str) -> None:
    assert service.get(f"/page/{path}").status_code == 404


def test_the_page_knows_where_its_api_is(bundle_folder: Path) -> None:
    with serving(bundle_folder, root_api="libretranslate", max_text_chars=7) as service:
        html = service.get("/").text
    assert '<meta name="interlinear-api" content="./interlinear/">' in html
    assert '<meta name="interlinear-max-characters" content="7">' in html
    assert "[[" not in html
