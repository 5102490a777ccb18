"""app/static/: the page when the service is slow, refuses or is gone: it shows nothing outdated, and loses nothing
typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chromium import REFUSED, Visit
from playwright.sync_api import Page, Route, expect
from the_page import FRENCH, PHONE, TEXT, refuse, translation, type_in

pytestmark = pytest.mark.browser

TIRED, FATIGUE = "I am tired.", "Je suis fatigué."
LETTER: Any = {"name": "letter.txt", "mimeType": "text/plain", "buffer": b"I am tired.\n"}
# A stream that never goes on after its first sentence, of whatever is asked for from now on.
HALF_A_STREAM = """(part) => {
    const usual = window.fetch;
    const body = () => new ReadableStream({
        start: (stream) => stream.enqueue(new TextEncoder().encode(`event: part\\ndata: ${part}\\n\\n`)),
    });
    window.fetch = async (to, options) =>
        String(to).endsWith("/stream") ? new Response(body()) : usual(to, options);
}"""
WRITE_DOWN_WHAT_IS_SAID = """() => {
    const spoken = document.getElementById("spoken");
    const area = document.getElementById("source-text");
    window.said = [];
    const write = () => spoken.textContent && said.push([spoken.textContent, area.value]);
    new MutationObserver(write).observe(spoken, { childList: true });
}"""
GO_ON_TYPING = """(afterText) => {
    const area = document.getElementById("source-text");
    const target = document.getElementById("target-text");
    let left = 10;
    const type = () => {
        area.value += " x";
        area.dispatchEvent(new InputEvent("input"));
        if (--left) setTimeout(type, 150);
    };
    const seen = new MutationObserver(() => {
        if (!target.textContent.includes(afterText)) return;
        seen.disconnect();
        type();
    });
    seen.observe(target, { childList: true, characterData: true, subtree: true });
}"""


def refuse_once(page: Page, pattern: str, status: int, slug: str, **headers: str) -> list[str]:
    """Refuses the first request for `pattern`. Returns the bodies of all requests, as they arrive."""
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.post_data or "")
        refuse(route, status, slug, "Not now.", **headers) if len(asked) == 1 else route.continue_()

    page.route(pattern, answer)
    return asked


def translated(visit: Visit, text: str = TEXT, french: str = FRENCH) -> Page:
    page = visit.pages[0] if visit.pages else visit.page()
    type_in(page, text)
    expect(translation(page)).to_have_text(french)
    expect(page.locator("#show-others")).to_be_enabled()
    return page


# Refused


def test_reason_for_missing_languages_stays_while_typing_and_a_key_with_invalid_characters_is_refused_at_once(
    visit: Visit,
) -> None:
    visit.allowed = [REFUSED]
    page = visit.new()
    refuse_once(page, "**/languages", 429, "too-many-requests")
    page.goto(visit.url)
    again = page.get_by_role("button", name="Try again")
    expect(again).to_be_visible()
    type_in(page, TIRED)
    page.wait_for_timeout(150)
    again.click()
    expect(translation(page)).to_have_text(FATIGUE)

    refuse_once(page, "**/translate/stream", 401, "not-authorised")
    type_in(page, TEXT)
    dialog = page.get_by_role("dialog", name="This service asks for a key")
    page.get_by_label("API key").fill("copied…")
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("The key that was sent is not valid.")
    page.get_by_label("API key").fill("another")
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    expect(translation(page)).to_have_text(FRENCH)


def test_failed_word_alignment_is_requested_again_and_clearing_a_refused_text_takes_effect_at_once(
    kept_visit: Visit,
) -> None:
    kept_visit.allowed = [REFUSED]
    page = translated(kept_visit)
    refuse_once(page, "**/translate", 503, "overloaded", **{"Retry-After": "1"})
    word = page.locator(".word", has_text="maison")
    word.hover()
    expect(page.get_by_role("alert")).to_contain_text("The service is busy")
    page.mouse.move(1, 1)
    word.hover()
    expect(page.locator("#mirror .lit")).to_have_text(["house"])
    expect(page.get_by_role("alert")).to_have_count(0)

    refuse_once(page, "**/translate/stream", 429, "too-many-requests", **{"Retry-After": "600"})
    type_in(page, TIRED)
    expect(page.get_by_role("alert")).to_contain_text("More requests than are allowed")
    page.click("#clear")
    expect(translation(page)).to_be_empty()
    expect(page.get_by_role("alert")).to_have_count(0)


# Gone


def test_file_is_retried_once_the_service_is_back_and_an_abandoned_one_does_not_delay_the_next(visit: Visit) -> None:
    visit.allowed = [REFUSED]
    page = visit.page("/#en/fr/")
    expect(page.locator("#target-language")).to_have_value("fr")
    page.route("**/translate/file", lambda route: route.abort(), times=1)
    page.set_input_files("#file", LETTER)
    with page.expect_download() as download:
        page.get_by_role("link", name="Save letter.fr.txt").click()
    assert Path(download.value.path()).read_text() == f"{FATIGUE}\n"

    refuse_once(page, "**/translate/file", 429, "too-many-requests", **{"Retry-After": "600"})
    letters: Any = [{**LETTER, "name": name} for name in ("first.txt", "second.txt")]
    page.set_input_files("#file", letters)
    first = page.get_by_role("listitem").filter(has_text="first.txt")
    expect(first).to_contain_text("More requests than are allowed")
    first.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("link", name="Save second.fr.txt")).to_be_visible()


def test_reload_keeps_the_text_typed_after_a_link_was_followed_and_a_view_that_failed_to_load_appears(
    visit: Visit,
) -> None:
    """The view cannot appear earlier: browsers remember that a module failed."""
    visit.allowed = [REFUSED, "TypeError: Failed to fetch"]
    page = visit.page("/#en/fr/I%20am%20tired.")
    expect(translation(page)).to_have_text(FATIGUE)
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(FRENCH)
    page.route("**/page/attention/view.js", lambda route: route.abort(), times=1)
    page.click("#attention-panel summary")
    expect(page.locator("#attention")).to_contain_text("Reload the page")
    page.reload()
    expect(page.locator("#source-text")).to_have_value(TEXT)
    expect(page.locator("#source-language")).to_have_value("en")
    expect(page.get_by_role("tab", name="Cross-attention")).to_be_visible()


# Too late


def test_loading_alternatives_replaces_those_of_another_sentence_and_an_incomplete_translation_is_not_copied(
    visit: Visit,
) -> None:
    page = translated(visit)
    page.click("#show-others")
    expect(page.locator("#others button").first).to_be_visible()
    page.route("**/translate", lambda route: None)
    page.locator(".word", has_text="chat").click()
    expect(page.locator("#others")).to_have_text("Looking for other translations…")
    expect(page.locator("#others button")).to_have_count(0)

    expect(page.locator("#copy")).to_be_enabled()
    part = {"item": 0, "text": FATIGUE, "source": [0, len(TIRED)], "score": -0.1, "quality": None, "words": []}
    page.evaluate(HALF_A_STREAM, json.dumps(part))
    type_in(page, f"{TIRED} He reads a book.")
    expect(page.locator(".sentence").first).to_have_text(FATIGUE)
    expect(page.locator("#copy")).to_be_disabled()


def test_results_for_outdated_text_are_not_announced(visit: Visit) -> None:
    page = visit.page()
    page.evaluate(WRITE_DOWN_WHAT_IS_SAID)
    page.evaluate(GO_ON_TYPING, FATIGUE)
    type_in(page, TIRED)
    typed = TIRED + 10 * " x"
    expect(page.locator("#spoken")).not_to_be_empty()
    assert {text for _, text in page.evaluate("said")} == {typed}


def test_page_notices_new_bundles(visit: Visit) -> None:
    """Their models may have fewer layers and heads than those served when the page was opened."""
    page = translated(visit)
    page.click("#attention-panel summary")
    page.wait_for_selector('#attention[aria-busy="false"] .thumb.ready')

    def models(route: Route) -> None:
        [model] = route.fetch().json()
        shape = {**model["architecture"], "encoder_layers": 1, "decoder_layers": 1, "num_heads": 1}
        route.fulfill(json=[{**model, "model": "en-fr@1", "architecture": shape}])

    def attention(route: Route) -> None:
        told = route.fetch().json()
        fewer = {kind: [heads[:1] for heads in layers[:1]] for kind, layers in told["attention"].items()}
        route.fulfill(json={**told, "model": "en-fr@1", "attention": fewer})

    page.route("**/models", models)
    page.route("**/attention", attention)
    type_in(page, TIRED)
    expect(page.locator(".grid thead th")).to_have_count(2)
    expect(page.locator("#attention")).to_have_attribute("aria-busy", "false")


# What is typed


def test_word_still_being_composed_on_a_phone_is_translated(visit: Visit) -> None:
    page = visit.page(**PHONE)
    keyboard = page.context.new_cdp_session(page)
    page.locator("#source-text").focus()
    for end in range(1, len(TIRED) + 1):
        place = {"selectionStart": end, "selectionEnd": end}
        keyboard.send("Input.imeSetComposition", {"text": TIRED[:end], **place})
    expect(translation(page)).to_have_text(FATIGUE)
