"""app/static/: the page's wording: in the chosen language, about the selected sentence, and nothing twice."""

from __future__ import annotations

import json
import re

import pytest
from chromium import REFUSED, Visit
from playwright.sync_api import Page, Route, expect
from shared_fixtures import SHIPPED

pytestmark = pytest.mark.browser

TEXT, FRENCH = "I am tired. The cat sleeps on the table.", "Je suis fatigué. Le chat dort sur la table."
CHINESE = re.compile("[\u4e00-\u9fff]")


def translated(visit: Visit) -> Page:
    page = visit.page()
    page.locator("#source-text").fill(TEXT)
    expect(page.locator("#target-text")).to_have_text(FRENCH)
    return page


def test_changing_the_interface_language_changes_all_texts_and_no_choices(visit: Visit) -> None:
    page = translated(visit)
    page.locator("#show-others").click()
    page.locator("#attention-panel summary").click()
    page.get_by_role("tab", name="Decoder").click()
    page.get_by_role("combobox", name="Layer").select_option(label="2")
    expect(page.locator(".map-title")).to_have_text("layer 2 · mean of heads")
    page.locator("#interface").click()
    expect(page.locator(".map-title")).to_have_text("第 2 层 · 各头平均")
    expect(page.locator('[role="tab"][aria-selected="true"]')).to_contain_text("解码器")
    for place in "#others h3", "#time", "#attention-which":
        expect(page.locator(place)).to_have_text(CHINESE)


def test_attention_view_says_which_sentence_it_shows_and_nothing_covers_its_parts(visit: Visit) -> None:
    page = visit.page(viewport={"width": 1180, "height": 900})
    page.locator("#source-text").fill(TEXT)
    page.locator("#attention-panel summary").click()
    expect(page.locator("#attention-which")).to_contain_text("Sentence 1 of 2")
    expect_complete_focus_ring(page)

    title, button = page.locator(".map-title"), page.locator(".heading button")
    expect(button).to_be_visible()
    above, beside = title.bounding_box(), button.bounding_box()
    assert above is not None and beside is not None
    assert abs(above["y"] - beside["y"]) < above["height"] / 2

    page.locator("#target-text .sentence").nth(1).click()
    expect(page.locator("#attention-which")).to_contain_text("Sentence 2 of 2")
    page.locator("#source-text").fill("I am tired.")
    expect(page.locator("#attention-which")).to_be_hidden()


def expect_complete_focus_ring(page: Page) -> None:
    """The layers' names, which stay while the maps scroll, cover no part of it."""
    name = page.locator('.grid th[scope="row"]').last
    picture = page.locator('.thumb[aria-pressed="true"]')
    expect(picture).to_be_visible()
    shadow, box, ring = name.evaluate("at => getComputedStyle(at).boxShadow"), name.bounding_box(), 4
    right, _, _, spread = (float(size) for size in re.findall(r"(-?[\d.]+)px", shadow))
    at = picture.bounding_box()
    assert box is not None and at is not None
    assert box["x"] + box["width"] + right + spread <= at["x"] - ring


def test_text_field_has_focus_when_the_page_opens_except_on_a_phone(visit: Visit) -> None:
    page = visit.page()
    expect(page.locator("#source-text")).to_be_focused()
    page.keyboard.type("I am tired.")
    expect(page.locator("#target-text")).to_have_text("Je suis fatigué.")
    phone = visit.page(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    expect(phone.locator("#source-language")).to_be_enabled()
    expect(phone.locator("#source-text")).not_to_be_focused()


def test_detected_language_belongs_to_the_current_text_and_scores_are_rounded_as_on_the_model_card(
    visit: Visit,
) -> None:
    page = translated(visit)
    told = page.locator("#source-language option:checked")
    expect(told).to_have_text("English (99% sure)")
    page.locator("#model-panel summary").click()
    card = (SHIPPED / "en-fr" / "README.md").read_text(encoding="utf-8")
    figures, _, _ = card.partition("## Fine-tuned")  # which repeats those of the development set
    scores = re.findall(r"\| (?:BLEU|chrF) \| ([\d.]+) \|", figures)
    assert scores
    expect(page.locator("#model .tables table").first.locator("td:not(:nth-child(2))")).to_have_text(scores)
    visit.allowed.append(REFUSED)
    page.locator("#source-text").fill("你好，世界")
    expect(page.locator("#notes")).to_contain_text("No model here")
    expect(told).to_have_text("Detect language")


def test_copying_a_link_is_confirmed_and_the_time_of_the_next_retry_is_announced_once(visit: Visit) -> None:
    page = translated(visit)
    button = page.locator("#copy-link")
    sign = button.locator("use")
    expect(sign).to_have_attribute("href", "#icon-link")
    page.clock.install()
    button.click()
    expect(sign).to_have_attribute("href", "#icon-done")
    button.click()
    page.clock.fast_forward(3000)
    expect(sign).to_have_attribute("href", "#icon-link")

    visit.allowed.append(REFUSED)
    problem = {
        "type": "urn:interlinear:error:too-many-characters",
        "title": "Too many characters",
        "status": 429,
        "detail": "Over the limit of 3000/day characters. Retry after 60 s.",
    }

    def refuse(route: Route) -> None:
        headers = {"Retry-After": "60", "Content-Type": "application/problem+json"}
        route.fulfill(status=429, headers=headers, body=json.dumps(problem))

    page.route("**/translate/stream", refuse)
    page.locator("#source-text").fill("The cat sleeps.")
    words = "More text than is allowed: Over the limit of 3000/day characters. Trying again in 60 s."
    expect(page.locator("#notes")).to_have_text(words)
