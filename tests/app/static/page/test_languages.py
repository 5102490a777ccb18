"""app/static/: the target language that the page starts with, when it changes by itself, and what the empty page
offers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from chromium import Visit
from playwright.sync_api import Page, Route, expect
from the_page import translation, type_in

pytestmark = pytest.mark.browser

ENGLISH, GERMAN = "My house is red.", "Mein Haus ist rot."


def stub(page: Page, pairs: dict[str, list[str]] | None = None) -> None:
    """Responds as a service of `pairs`: the text is English or German, and its translation names the target."""
    served = pairs or {"en": ["fr", "de"], "fr": ["en"], "de": ["en"]}
    languages = [{"code": code, "name": code, "targets": targets} for code, targets in served.items()]

    def translate(route: Route) -> None:
        asked: dict[str, Any] = json.loads(route.request.post_data or "")
        told = "de" if asked["text"] == GERMAN else "en"
        same = told == asked["target"]
        text = asked["text"] if same else f"[{asked['target']}]"
        item: dict[str, Any] = {"text": text, "source": told, "confidence": 0.97, "warnings": [], "error": None}
        part = {"item": 0, "text": text, "source": [0, len(asked["text"])], "score": -0.1, "quality": None, "words": []}
        done = {"translations": [item], "model": "m", "usage": {"source_tokens": 1, "target_tokens": 1}}
        route.fulfill(
            content_type="text/event-stream",
            body=f"event: part\ndata: {json.dumps(part)}\n\nevent: done\ndata: {json.dumps(done)}\n\n",
        )

    page.route("**/languages", lambda route: route.fulfill(json=languages))
    page.route("**/translate/stream", translate)


def opened(visit: Visit, locale: str, pairs: dict[str, list[str]] | None = None) -> Page:
    page = visit.new(locale=locale)
    stub(page, pairs)
    page.goto(f"{visit.url}/")
    return page


def expect_target(page: Page, code: str) -> None:
    expect(page.locator("#target-language")).to_have_value(code)


@pytest.mark.parametrize(("locale", "target"), [("de-AT", "de"), ("it-IT", "fr")])
def test_target_defaults_to_the_browsers_language_if_served(visit: Visit, locale: str, target: str) -> None:
    page = opened(visit, locale)
    expect_target(page, target)
    expect(page.locator("#source-language")).to_have_value("auto")


def test_text_in_the_target_language_changes_a_target_that_was_not_chosen_for_it(visit: Visit) -> None:
    page = opened(visit, "en-GB")
    expect_target(page, "en")
    type_in(page, ENGLISH)
    expect(translation(page)).to_have_text("[fr]")
    expect_target(page, "fr")
    page.select_option("#target-language", "en")
    expect(translation(page)).to_have_text(ENGLISH)
    expect_target(page, "en")


def test_text_with_no_other_target_keeps_it(visit: Visit) -> None:
    page = opened(visit, "en-GB", {"en": ["de"]})
    type_in(page, GERMAN)
    expect(translation(page)).to_have_text(GERMAN)
    expect_target(page, "de")


def test_empty_page_offers_examples_and_shows_their_attention_until_the_next_visit(visit: Visit) -> None:
    page = visit.page()  # the real service, from English into French
    example = page.get_by_role("button", name="Where is the train station?")
    expect(page.locator(".example")).to_have_count(1)
    example.click()
    expect(translation(page)).to_have_text("Où est la gare ?")
    expect(page.locator("#examples")).to_be_hidden()
    expect(page.locator("#attention-panel")).to_have_attribute("open", "")
    expect(page.locator("#attention svg, #attention canvas").first).to_be_visible()
    page.click("#clear")
    expect(example).to_be_visible()
    page.goto(f"{visit.url}/")
    expect(example).to_be_visible()
    expect(page.locator("#attention-panel")).not_to_have_attribute("open", "")


def test_examples_are_in_the_chosen_language_and_the_target_is_the_last_one_used(visit: Visit) -> None:
    page = opened(visit, "en-GB")
    expect(page.locator(".example")).to_have_text(["Où est la gare ?", "Wo ist der Bahnhof?"])
    page.select_option("#source-language", "en")
    expect(page.locator(".example")).to_have_text(["Where is the train station?"])
    page.select_option("#source-language", "auto")
    page.select_option("#target-language", "de")
    type_in(page, GERMAN)
    expect(translation(page)).to_have_text("[en]")
    type_in(page, ENGLISH)
    expect(translation(page)).to_have_text("[de]")
