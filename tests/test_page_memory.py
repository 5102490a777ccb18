"""The page corrects a sentence of the translation in its place, and the translation memory keeps the correction."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from chromium import REFUSED, Visit
from playwright.sync_api import Browser, Page, expect
from shared_fixtures import SHIPPED, listening
from the_page import FRENCH, TEXT, refuse, translation, type_in

CAT = "Le chat dort sur la table."
BETTER = "Le chat est endormi sur la table."
FIELD = ".correction textarea"


@pytest.fixture
def remembering(browser: Browser, tmp_path: Path) -> Iterator[Visit]:
    """Pages of a service of bundles/en-fr with an empty translation memory."""
    with listening(SHIPPED / "en-fr", translation_memory=str(tmp_path / "memory.sqlite")) as url:
        visit = Visit(browser, url)
        yield visit
        visit.check()
        visit.close()


def opened(visit: Visit) -> Page:
    """A page that shows FRENCH."""
    page = visit.page()
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(FRENCH)
    expect(page.locator("#correct")).to_be_enabled()
    return page


def correct_second_sentence(page: Page) -> None:
    page.locator(".sentence").nth(1).click()
    page.click("#correct")
    expect(page.locator(FIELD)).to_be_focused()
    expect(page.locator(FIELD)).to_have_value(CAT)


def test_a_correction_is_shown_and_used_from_the_next_request_on(remembering: Visit) -> None:
    page = opened(remembering)
    correct_second_sentence(page)
    page.fill(FIELD, BETTER)
    page.get_by_role("button", name="Remember this").click()
    corrected = FRENCH.replace(CAT, BETTER)
    expect(translation(page)).to_have_text(corrected)
    expect(page.locator("#spoken")).to_have_text(f"Remembered: {BETTER}")
    expect(page.locator("#correct")).to_be_focused()
    expect(page.locator("#notes")).to_be_empty()
    type_in(page, "The cat sleeps on the table.")
    expect(translation(page)).to_have_text(BETTER)
    expect(page.locator("#notes")).to_have_text("From the translation memory.")
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(corrected)
    expect(page.locator("#notes")).to_have_text("At least one sentence is from the translation memory.")


def test_a_remembered_sentence_can_be_corrected_again(remembering: Visit) -> None:
    pair = {"text": TEXT.split(". ")[0] + ".", "translation": "Ma demeure est rouge."}
    body = {"source": "en", "target": "fr", "pairs": [pair]}
    assert httpx.put(f"{remembering.url}/memory", json=body).status_code == 200
    page = remembering.page()
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(f"Ma demeure est rouge. {CAT}")
    page.click("#correct")
    expect(page.locator(FIELD)).to_have_value("Ma demeure est rouge.")
    page.fill(FIELD, "Rouge est ma maison.")
    page.keyboard.press("Control+Enter")
    expect(page.locator(FIELD)).to_have_count(0)
    query = {"source": "en", "target": "fr", "text": pair["text"]}
    found = httpx.get(f"{remembering.url}/memory/search", params=query).json()
    assert found["exact"] == "Rouge est ma maison."


def test_escape_cancels_and_arrow_keys_stay_in_the_field(remembering: Visit) -> None:
    page = opened(remembering)
    correct_second_sentence(page)
    page.keyboard.press("ArrowLeft")
    page.keyboard.type("!")
    expect(page.locator(FIELD)).to_have_value(f"{CAT[:-1]}!.")
    page.keyboard.press("Escape")
    expect(page.locator(FIELD)).to_have_count(0)
    expect(page.locator("#correct")).to_be_focused()
    expect(translation(page)).to_have_text(FRENCH)
    found = httpx.get(f"{remembering.url}/memory", params={"source": "en", "target": "fr"})
    assert CAT not in found.text


def test_a_refused_correction_stays_in_the_field(remembering: Visit) -> None:
    page = opened(remembering)
    remembering.allowed.append(REFUSED)
    page.route("**/memory", lambda route: refuse(route, 422, "invalid-fields", "The memory is full."))
    correct_second_sentence(page)
    page.fill(FIELD, BETTER)
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("alert").filter(has_text="The memory is full.")).to_be_visible()
    expect(page.locator(FIELD)).to_have_value(BETTER)
    page.unroute("**/memory")
    page.locator(FIELD).press("Control+Enter")
    expect(translation(page)).to_have_text(FRENCH.replace(CAT, BETTER))
    expect(page.get_by_role("alert").filter(has_text="full")).to_have_count(0)


def test_another_text_ends_a_correction(remembering: Visit) -> None:
    page = opened(remembering)
    correct_second_sentence(page)
    type_in(page, "I am tired.")
    expect(translation(page)).to_have_text("Je suis fatigué.")
    expect(page.locator(FIELD)).to_have_count(0)
    expect(page.locator("#correct")).to_have_attribute("aria-expanded", "false")


def test_without_a_memory_there_is_no_button(visit: Visit) -> None:
    page = visit.page()
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(FRENCH)
    expect(page.locator("#show-others")).to_be_enabled()
    expect(page.locator("#correct")).to_be_hidden()
