"""The page at `/`, driven in Chromium against the service with bundles/en-fr only: texts, words, errors, files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from chromium import REFUSED, Visit
from playwright.sync_api import Browser, Page, Route, expect
from shared_fixtures import SHIPPED, listening
from the_page import FRENCH, PHONE, TEXT, refuse, translation, type_in

from app.http.api_keys import new_key

pytestmark = pytest.mark.browser

LIMIT = 200
"""Characters that the service with keys takes."""


def lit(page: Page) -> tuple[list[str], list[str]]:
    """The highlighted words of the text and of the translation."""
    return page.locator("#mirror .lit").all_inner_texts(), page.locator("#target-text .lit").all_inner_texts()


def expect_lit(page: Page, source: str, target: str) -> None:
    expect(page.locator("#mirror .lit")).to_have_text([source])
    expect(page.locator("#target-text .lit")).to_have_text([target])


@pytest.fixture(scope="module")
def translated_page(browser: Browser, shipped_url: str) -> Iterator[Page]:
    """A page that shows TEXT and FRENCH after a character of two UTF-16 units, for tests that leave it so."""
    visit = Visit(browser, shipped_url, shares_tab=False)
    page = visit.page()
    type_in(page, f"😀 {TEXT}")
    expect(translation(page)).to_have_text(f"😀 {FRENCH}")
    yield page
    visit.end()


@pytest.fixture
def translated(translated_page: Page) -> Page:
    """That page, with nothing highlighted."""
    translated_page.locator("h1").hover()
    translated_page.locator("h1").click()
    expect(translated_page.locator(".lit")).to_have_count(0)
    return translated_page


# The text and its translation


def test_typed_text_is_translated_until_it_is_cleared(kept_visit: Visit) -> None:
    [page] = kept_visit.pages
    page.locator("#source-text").press_sequentially("I am tired.")
    expect(translation(page)).to_have_text("Je suis fatigué.")
    expect(page.locator("#time")).to_contain_text("ms")
    page.click("#clear")
    expect(translation(page)).to_be_empty()
    expect(page.locator("#source-text")).to_be_focused()
    expect(page.locator("#copy")).to_be_disabled()
    expect(page.locator("#clear")).to_be_hidden()


def test_a_long_text_keeps_its_paragraphs(kept_visit: Visit, shipped_url: str) -> None:
    text = "\n\n".join([f"I am tired. He reads a book number {number}." for number in range(1, 7)])
    whole = httpx.post(f"{shipped_url}/translate", json={"text": text, "source": "en", "target": "fr"}).json()
    [page] = kept_visit.pages
    type_in(page, text)
    expect(page.locator(".sentence")).to_have_count(12)
    expect(page.locator("#time")).to_contain_text("ms")
    assert translation(page).evaluate("element => element.textContent") == whole["translations"][0]["text"]


def test_outdated_request_is_cancelled(kept_visit: Visit) -> None:
    [page] = kept_visit.pages
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


def test_undone_changes_stay_linked(translated: Page) -> None:
    page = translated
    page.locator("#source-text").press("End")
    page.keyboard.type("x")
    page.keyboard.press("Backspace")
    page.wait_for_timeout(150)
    page.locator(".word", has_text="maison").hover()
    expect_lit(page, "house", "maison")


def test_the_detected_language_is_shown(kept_visit: Visit) -> None:
    [page] = kept_visit.pages
    type_in(page, TEXT)
    expect(page.locator("#source-language option:checked")).to_have_text(re.compile(r"^English \(\d\d% sure\)$"))
    type_in(page, "Bonjour mon ami.")
    expect(page.locator("#notes")).to_contain_text("In French already")
    expect(page.locator("#source-language option:checked")).to_contain_text("French")


def test_swapping_moves_the_translation_into_the_text(visit: Visit) -> None:
    pairs = [{"code": a, "name": a, "targets": [b]} for a, b in (("en", "fr"), ("fr", "en"))]
    told: dict[str, Any] = {"text": TEXT, "source": "fr", "confidence": None, "warnings": [], "error": None}
    part = {"item": 0, "text": TEXT, "source": [0, len(FRENCH)], "score": -0.1, "quality": None, "words": []}
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


def test_linked_text_is_translated_and_copied_and_its_swap_explains_why_it_is_unserved(visit: Visit) -> None:
    page = visit.page("/#en/fr/I%20am%20tired.")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    expect(page.locator("#source-language")).to_have_value("en")
    expect(translation(page)).to_have_text("Je suis fatigué.")
    page.click("#copy-link")
    expect(page.locator("#spoken")).to_have_text("Link copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"{visit.url}/#en/fr/I%20am%20tired."
    expect(page.locator("#swap")).to_have_attribute("aria-disabled", "true")
    page.locator("#swap").click(force=True)
    expect(page.locator("#spoken")).to_contain_text("No model here translates from French into English")
    page.clock.install()
    page.click("#copy")
    expect(page.locator("#copy")).to_have_text("Copied")
    expect(page.get_by_role("status").filter(has_text="Copied")).to_have_count(1)
    assert page.evaluate("navigator.clipboard.readText()") == "Je suis fatigué."


def test_chosen_alternative_replaces_the_sentence(kept_visit: Visit) -> None:
    [page] = kept_visit.pages
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
    page.click("#show-others")


# Words that belong together


def test_hovering_over_a_word_highlights_its_counterpart(translated: Page) -> None:
    page = translated
    page.locator(".word", has_text="maison").hover()
    expect_lit(page, "house", "maison")
    page.locator("#copy").hover()
    assert lit(page) == ([], [])


def test_hovering_over_the_text_highlights_the_translation(translated: Page) -> None:
    page = translated
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


def test_caret_highlights_the_translation(translated: Page) -> None:
    page = translated
    put = "area => { area.focus(); const at = area.value.indexOf('house') + 2; area.setSelectionRange(at, at); }"
    page.locator("#source-text").evaluate(put)
    expect_lit(page, "house", "maison")


def test_tap_on_a_phone_highlights_until_the_next_and_no_field_is_so_small_that_it_zooms_in(visit: Visit) -> None:
    page = visit.page(**PHONE)
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(FRENCH)
    page.locator(".word", has_text="maison").tap()
    expect_lit(page, "house", "maison")
    expect(page.locator("#mirror .lit-sentence").first).to_have_text("My ")
    page.locator("#attention-panel summary").tap()
    expect(page.locator(".choose select").first).to_be_visible()
    sizes = "fields => fields.map(field => [field.id, parseFloat(getComputedStyle(field).fontSize)])"
    found: list[tuple[str, float]] = page.locator("select, textarea, input:not([type=checkbox])").evaluate_all(sizes)
    assert {"source-language", "source-text", "key"} <= {name for name, _ in found}
    assert min(size for _, size in found) >= 16, found
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_arrow_keys_move_between_words_and_announce_them(translated: Page) -> None:
    page = translated
    translation(page).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#spoken")).to_have_text("maison, from house")
    expect_lit(page, "house", "maison")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#spoken")).to_have_text("Ma, from My")


# What can go wrong


def test_refusal_with_retry_after_is_retried_once_and_another_is_shown_in_words(visit: Visit) -> None:
    visit.allowed = [REFUSED]
    page = visit.page()
    page.clock.install()
    refusals = iter(range(2))

    def busy_twice(route: Route) -> None:
        if next(refusals, None) is None:
            route.continue_()
        else:
            refuse(route, 503, "overloaded", "The queue is full.", **{"Retry-After": "60"})

    page.route("**/translate/stream", busy_twice)
    type_in(page, "I am tired.")
    expect(page.get_by_role("alert")).to_have_text("The service is busy: The queue is full. Trying again in 60 s.")
    page.clock.fast_forward(60_000)
    again = page.get_by_role("button", name="Try again")
    expect(again).to_be_visible()
    again.click()
    expect(translation(page)).to_have_text("Je suis fatigué.")
    expect(page.get_by_role("alert")).to_have_count(0)
    page.route("**/translate/stream", lambda route: refuse(route, 504, "deadline-passed", "Not finished in time."))
    type_in(page, "He reads a book.")
    expect(page.get_by_role("alert")).to_contain_text("It took too long: Not finished in time.")
    expect(page.locator("#copy")).to_be_disabled()


def test_page_reconnects_to_a_service_that_was_down(kept_visit: Visit) -> None:
    kept_visit.allowed = [REFUSED]
    [page] = kept_visit.pages
    type_in(page, "I am tired.")
    expect(translation(page)).to_have_text("Je suis fatigué.")
    page.context.set_offline(True)
    type_in(page, "He reads a book.")
    expect(page.get_by_role("alert")).to_contain_text("The service cannot be reached")
    page.context.set_offline(False)
    expect(translation(page)).to_have_text("Il lit un livre.")
    expect(page.get_by_role("alert")).to_have_count(0)


def proxy_alone(status: int) -> Callable[[Route], None]:
    """What a proxy responds when the service behind it is down."""
    return lambda route: route.fulfill(status=status, content_type="text/html", body="<h1>nginx</h1>")


def test_page_waits_for_a_service_that_is_down_behind_a_proxy(kept_visit: Visit) -> None:
    kept_visit.allowed = [REFUSED]
    [page] = kept_visit.pages
    for status, text, french in (502, "I am tired.", "Je suis fatigué."), (503, "He reads a book.", "Il lit un livre."):
        page.route("**/translate/stream", proxy_alone(status), times=1)
        page.route("**/ready", proxy_alone(status))
        type_in(page, text)
        expect(page.get_by_role("alert")).to_be_visible()
        page.unroute("**/ready")
        expect(translation(page)).to_have_text(french)
        expect(page.get_by_role("alert")).to_have_count(0)


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A service that requires a key, with LibreTranslate's API at the root: its URL and a key."""
    key, line = new_key("page")
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text(line)
    settings = {"api_keys_file": file, "root_api": "libretranslate", "max_text_chars": LIMIT}
    with listening(SHIPPED / "en-fr", **settings) as url:
        yield url, key


def test_key_is_requested_and_kept_in_the_tab(browser: Browser, locked: tuple[str, str]) -> None:
    url, key = locked
    visit = Visit(browser, url)
    visit.allowed = [REFUSED]
    page = visit.page()
    type_in(page, "I am tired.")
    dialog = page.get_by_role("dialog", name="This service asks for a key")
    page.get_by_label("API key").fill("wrong")
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("The key that was sent is not valid.")
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
    visit.end()


def test_too_long_text_is_not_sent_and_a_missing_key_can_be_entered_later(
    browser: Browser, locked: tuple[str, str]
) -> None:
    url, key = locked
    visit = Visit(browser, url)
    visit.allowed = [REFUSED]
    page = visit.page()
    type_in(page, "😀" * LIMIT + "a")
    expect(page.get_by_role("alert")).to_contain_text(f"{LIMIT + 1} characters; the service accepts {LIMIT}")
    assert not [url for url in visit.requests if "/translate" in url and "/page/" not in url]
    type_in(page, "I am tired.")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("alert")).to_contain_text("A key is needed")
    page.get_by_role("button", name="Enter a key").click()
    page.get_by_label("API key").fill(key)
    page.get_by_label("Remember").check()
    page.get_by_role("button", name="Use this key").click()
    expect(translation(page)).to_have_text("Je suis fatigué.")
    assert page.evaluate("localStorage.getItem('interlinear.key')") == key
    visit.end()


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


def test_dropped_file_is_returned_translated_and_a_chosen_one_of_an_unknown_format_is_refused(visit: Visit) -> None:
    visit.allowed = [REFUSED]
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
    page.set_input_files("#file", {"name": "picture.png", "mimeType": "image/png", "buffer": b"x"})
    line = page.get_by_role("listitem").filter(has_text="picture.png")
    expect(line).to_contain_text("This file type is not supported")
    line.get_by_role("button", name="Remove").click()
    expect(line).to_have_count(0)


WARNED = f"I am tired.\n\n{'very ' * 40}old.\n"


def test_warnings_about_a_file_are_listed_with_their_locations_unless_the_report_is_missing(visit: Visit) -> None:
    visit.allowed = [REFUSED]
    page = visit.page("/#en/fr/")
    expect(page.locator("#target-language")).to_have_value("fr")
    page.route("**/translate/file/report/*", lambda route: route.fulfill(status=404, json={"title": "Gone"}), times=1)
    drop(page, "drop", unreported_txt=WARNED)
    file = page.locator("#files > li:not(.busy)")
    expect(file.get_by_role("status")).to_have_text("Translated; warnings: 1")
    expect(file.locator("details, .fault")).to_have_count(0)
    expect(file.get_by_role("link", name="Save unreported.fr.txt")).to_be_visible()
    expect_warning(page, "English", "List of warnings", "Line 3")
    page.locator("#interface").click()
    expect_warning(page, "Chinese", "提示列表", "第 3 行")


def expect_warning(page: Page, name: str, summary: str, line: str) -> None:
    """Drops WARNED under a name, and expects a list with the warning about it."""
    drop(page, "drop", **{f"{name}_txt": WARNED})
    file = page.locator("#files > li", has_text=name)
    expect(file.get_by_role("status")).to_have_text(re.compile("1"))
    listed = file.locator("details li")
    expect(listed).to_be_hidden()
    file.locator("summary").focus()
    expect(file.locator("summary")).to_have_text(summary)
    page.keyboard.press("Enter")
    expect(listed).to_have_count(1)
    expect(listed.locator("b")).to_have_text(line)
    expect(listed.locator("q")).to_contain_text("very very")
    expect(listed.locator('[lang="en"]')).to_have_text("Perhaps not translated: “very”.")
