"""app/static/: the page shows a translated document's texts beside their translations, and writes what was changed
into it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import REFUSED, Visit
from playwright.sync_api import Page, expect

LETTER = b"<h1>The cat sleeps.</h1>\n<p>Press <b>the red button</b> now.</p>\n<p>I am tired.</p>\n"
PANEL = "#files .review"


@pytest.fixture
def page(kept_visit: Visit) -> Iterator[Page]:
    """A page that translates from English, without files; its only one is removed after the test."""
    [page] = kept_visit.pages
    page.select_option("#source-language", "en")
    yield page
    page.get_by_role("button", name="Remove").click()
    page.select_option("#source-language", "auto")


def review(page: Page, content: bytes = LETTER) -> None:
    page.set_input_files("#file", {"name": "letter.html", "mimeType": "text/html", "buffer": content})
    page.get_by_role("button", name="Review").click()
    expect(page.locator(PANEL)).to_be_visible()


def save(page: Page) -> str:
    """What the document is after a click on the button."""
    with page.expect_download() as download:
        page.get_by_role("button", name="Save with these translations").click()
    assert download.value.suggested_filename == "letter.fr.html"
    return Path(download.value.path()).read_text(encoding="utf-8")


def test_review_shows_each_text_beside_its_translation(page: Page) -> None:
    review(page)
    rows = page.locator(f"{PANEL} li")
    expect(rows).to_have_count(3)
    sources = rows.locator(".words:not([role])").all_text_contents()
    assert sorted(sources) == ["I am tired.", "Press 1⟨the red button⟩1 now.", "The cat sleeps."]
    doubtful = [row.get_attribute("class") == "to-check" for row in rows.all()]
    assert doubtful == sorted(doubtful, reverse=True)  # first what to check first
    expect(page.locator(f"{PANEL} p")).to_have_text(f"3 texts, {doubtful.count(True)} to check first.")
    for row in rows.all():
        expect(row.get_by_role("textbox")).not_to_be_empty()


def test_changed_translation_is_in_the_saved_document_with_its_tags_but_not_without_them(
    page: Page, kept_visit: Visit
) -> None:
    kept_visit.allowed = [REFUSED]
    review(page)
    row = page.locator(f"{PANEL} li", has_text="Press")
    field = row.get_by_role("textbox")
    before = field.text_content()
    field.fill("Rien")
    expect(row.locator(".fault")).to_have_text("Put each code back once, or undo.")
    page.get_by_role("button", name="Save with these translations").click()
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-invalid", "true")
    row.get_by_role("button", name="Undo").click()
    expect(field).to_have_text(before or "")
    expect(row.locator(".fault")).to_be_empty()
    unchanged = save(page)

    field.evaluate("field => field.firstChild.textContent = 'Voici : '")
    field.press("End")
    field.type(" <ok> & fini")
    changed = save(page)
    assert changed != unchanged
    assert changed.count("<b>") == 1
    assert "<p>Voici : " in changed
    assert "&lt;ok&gt; &amp; fini" in changed
    assert changed.splitlines()[0] == unchanged.splitlines()[0]

    page.route("**/translate/file", lambda route: route.fulfill(status=422, json={"title": "Alas", "detail": "No."}))
    page.get_by_role("button", name="Save with these translations").click()
    expect(page.locator(f"{PANEL} > .buttons .fault")).not_to_be_empty()


def test_review_closes_and_opens_with_its_changes(page: Page) -> None:
    review(page, b"<p>I am tired.</p>")
    field = page.locator(PANEL).get_by_role("textbox")
    field.fill("Je dors.")
    button = page.get_by_role("button", name="Review")
    expect(button).to_have_attribute("aria-expanded", "true")
    button.click()
    expect(page.locator(PANEL)).to_be_hidden()
    expect(button).to_have_attribute("aria-expanded", "false")
    button.click()
    expect(field).to_have_text("Je dors.")
    assert save(page) == "<p>Je dors.</p>"


def test_long_documents_are_shown_in_parts_and_in_the_language_of_the_interface(visit: Visit) -> None:
    page = visit.page("/#en/fr/")
    expect(page.locator("#target-language")).to_have_value("fr")
    page.locator("#interface").click()
    content = b"<p>I am tired.</p>" * 103
    page.set_input_files("#file", {"name": "letter.html", "mimeType": "text/html", "buffer": content})
    page.get_by_role("button", name="检查译文").click()
    expect(page.get_by_role("button", name="用这些译文保存")).to_be_visible()
    rows = page.locator(f"{PANEL} li")
    expect(rows).to_have_count(100)
    more = page.get_by_role("button", name=re.compile(r"\D3\D"))
    more.click()
    expect(rows).to_have_count(103)
    expect(more).to_be_hidden()
