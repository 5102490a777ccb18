"""app/static/: the page corrects a sentence of the translation in its place, and the translation memory keeps the
correction. While one is typed, the page offers how it may go on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from chromium import REFUSED, Visit
from playwright.sync_api import Browser, Page, Request, Route, expect
from shared_fixtures import SHIPPED, listening
from the_page import FRENCH, PHONE, TEXT, refuse, translation, type_in

CAT = "Le chat dort sur la table."
SENTENCE = {"text": "The cat sleeps on the table.", "source": "en", "target": "fr"}
BETTER = "Le chat est endormi sur la table."
FIELD, OFFER = ".correction textarea", ".completion"


@pytest.fixture(scope="module")
def memory_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a service of bundles/en-fr with a translation memory."""
    path = tmp_path_factory.mktemp("memory") / "memory.sqlite"
    with listening(SHIPPED / "en-fr", translation_memory=str(path)) as url:
        yield url


@pytest.fixture
def remembering(browser: Browser, memory_url: str) -> Iterator[Visit]:
    """Pages of a service whose translation memory is empty."""
    visit = Visit(browser, memory_url)
    yield visit
    visit.end()
    assert httpx.delete(f"{memory_url}/memory", params={"source": "en", "target": "fr"}).status_code == 200


def opened(visit: Visit, **options: Any) -> Page:
    """A page that shows FRENCH."""
    page = visit.page(**options)
    type_in(page, TEXT)
    expect(translation(page)).to_have_text(FRENCH)
    expect(page.locator("#correct")).to_be_enabled()
    return page


@pytest.fixture(scope="module")
def kept_page(browser: Browser, memory_url: str) -> Iterator[Page]:
    visit = Visit(browser, memory_url, shares_tab=False)
    yield opened(visit)
    visit.end()


@pytest.fixture
def completing(kept_page: Page) -> Page:
    """A page that shows FRENCH, for tests that remember nothing; no sentence is being corrected."""
    if kept_page.locator(FIELD).count():
        kept_page.get_by_role("button", name="Cancel").click()
    expect(translation(kept_page)).to_have_text(FRENCH)
    return kept_page


def correct_second_sentence(page: Page) -> None:
    page.locator(".sentence").nth(1).click()
    page.click("#correct")
    expect(page.locator(FIELD)).to_be_focused()
    expect(page.locator(FIELD)).to_have_value(CAT)


def test_a_correction_is_shown_and_used_from_the_next_request_on_and_can_be_corrected_again(remembering: Visit) -> None:
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

    page.locator(".sentence").nth(1).click()
    page.click("#correct")
    expect(page.locator(FIELD)).to_have_value(BETTER)
    page.fill(FIELD, "La table porte un chat.")
    page.keyboard.press("Control+Enter")
    expect(page.locator(FIELD)).to_have_count(0)
    query = {"source": "en", "target": "fr", "text": SENTENCE["text"]}
    found = httpx.get(f"{remembering.url}/memory/search", params=query).json()
    assert found["exact"] == "La table porte un chat."


def test_escape_cancels_and_arrow_keys_stay_in_the_field(completing: Page, memory_url: str) -> None:
    page = completing
    correct_second_sentence(page)
    page.keyboard.press("ArrowLeft")
    page.keyboard.type("!")
    expect(page.locator(FIELD)).to_have_value(f"{CAT[:-1]}!.")
    page.keyboard.press("Escape")
    expect(page.locator(FIELD)).to_have_count(0)
    expect(page.locator("#correct")).to_be_focused()
    expect(translation(page)).to_have_text(FRENCH)
    found = httpx.get(f"{memory_url}/memory", params={"source": "en", "target": "fr"})
    assert CAT not in found.text


def test_another_text_ends_a_correction_and_a_refused_one_stays_in_the_field(remembering: Visit) -> None:
    page = opened(remembering)
    correct_second_sentence(page)
    type_in(page, "I am tired.")
    expect(translation(page)).to_have_text("Je suis fatigué.")
    expect(page.locator(FIELD)).to_have_count(0)
    expect(page.locator("#correct")).to_have_attribute("aria-expanded", "false")

    type_in(page, TEXT)
    expect(translation(page)).to_have_text(FRENCH)
    expect(page.locator("#correct")).to_be_enabled()
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


def retype_second_sentence(page: Page, words: str) -> None:
    correct_second_sentence(page)
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(words)


def prefixes(page: Page) -> list[str]:
    """Those that the page sends from now on, in order."""
    sent: list[str] = []

    def note(request: Request) -> None:
        if request.method == "POST" and request.url.endswith("/translate"):
            sent.append(json.loads(request.post_data or "{}")["prefix"])

    page.on("request", note)
    return sent


def test_tab_takes_over_the_offered_words_and_can_be_undone(completing: Page, memory_url: str) -> None:
    page = completing
    retype_second_sentence(page, "Un ch")
    expect(page.locator(OFFER)).not_to_be_empty()
    offered = page.locator(OFFER).inner_text()
    body = {**SENTENCE, "prefix": "Un ch"}
    answer = httpx.post(f"{memory_url}/translate", json=body).json()["translations"][0]["text"]
    assert f"Un ch{offered}" == answer
    page.keyboard.press("Tab")
    expect(page.locator(FIELD)).to_have_value(answer)
    expect(page.locator(FIELD)).to_be_focused()
    expect(page.locator(OFFER)).to_be_empty()
    page.keyboard.press("Control+z")
    expect(page.locator(FIELD)).to_have_value("Un ch")
    page.keyboard.press("Tab")  # nothing is offered after an undo, so that this key has its usual meaning
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()


def test_words_typed_as_offered_need_no_request(completing: Page) -> None:
    page = completing
    sent = prefixes(page)
    retype_second_sentence(page, "Un ch")
    expect(page.locator(OFFER)).to_have_text(re.compile("^at "))
    whole = f"Un ch{page.locator(OFFER).inner_text()}"
    asked = list(sent)
    for typed in ("Un cha", "Un chat", "Un chat "):
        page.keyboard.type(typed[-1])
        assert page.locator(OFFER).text_content() == whole.removeprefix(typed)  # at once
    page.keyboard.insert_text("noir")
    expect(page.locator(OFFER)).not_to_be_empty()
    assert sent == [*asked, "Un chat noir"]
    assert asked[-1] == "Un ch"


def test_the_last_text_typed_is_completed_even_if_an_earlier_answer_is_late(completing: Page) -> None:
    page = completing
    held: list[Route] = []

    def hold_first(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    page.route("**/translate", hold_first)
    with page.expect_request("**/translate"):
        retype_second_sentence(page, "Un ch")
    with page.expect_event("requestfailed") as failed:  # which the page has aborted
        page.keyboard.insert_text("ien")
    assert failed.value.post_data_json == {**SENTENCE, "prefix": "Un ch"}
    expect(page.locator(OFFER)).not_to_be_empty()
    assert page.locator(".typed").inner_text().replace("\u200b", "").startswith("Un chien")
    page.unroute("**/translate")


def test_escape_hides_the_offer_and_a_second_one_cancels(completing: Page) -> None:
    page = completing
    retype_second_sentence(page, "Un ch")
    expect(page.locator(OFFER)).not_to_be_empty()
    page.keyboard.press("Escape")
    expect(page.locator(OFFER)).to_be_empty()
    expect(page.locator(FIELD)).to_have_value("Un ch")
    page.keyboard.press("Escape")
    expect(page.locator(FIELD)).to_have_count(0)
    expect(translation(page)).to_have_text(FRENCH)


def test_nothing_is_offered_within_the_text_or_after_a_deletion(remembering: Visit) -> None:
    page = opened(remembering)
    sent = prefixes(page)
    page.clock.install()
    correct_second_sentence(page)
    page.keyboard.press("ArrowLeft")
    page.keyboard.type(" basse")
    page.clock.run_for(10_000)
    page.keyboard.press("End")
    page.keyboard.press("Backspace")
    page.clock.run_for(10_000)
    assert sent == []
    expect(page.locator(OFFER)).to_be_empty()
    page.keyboard.type(" et la")
    page.clock.run_for(10_000)
    expect(page.locator(OFFER)).not_to_be_empty()
    assert sent == ["Le chat dort sur la table basse et la"]
    page.keyboard.press("Home")
    expect(page.locator(OFFER)).to_be_empty()


def test_a_sentence_that_cannot_be_completed_is_asked_for_once(remembering: Visit) -> None:
    remembering.allowed.append(REFUSED)
    page = remembering.page()
    type_in(page, "Send it to {name} today.")
    expect(translation(page)).to_contain_text("{name}")
    expect(page.locator("#correct")).to_be_enabled()
    sent = prefixes(page)
    page.click("#correct")
    page.keyboard.press("Control+a")
    with page.expect_response("**/translate") as refused:
        page.keyboard.insert_text("Envoy")
    assert refused.value.status == 422
    refused.value.finished()
    page.clock.install()
    page.keyboard.type("ez-le")
    page.clock.run_for(10_000)
    assert sent == ["Envoy"]
    expect(page.get_by_role("alert").filter(has_text=re.compile("."))).to_have_count(0)
    expect(page.locator(FIELD)).to_have_value("Envoyez-le")


def test_the_offer_is_announced_and_described_and_a_touch_takes_it_over(remembering: Visit) -> None:
    page = opened(remembering, locale="zh-CN", **PHONE)
    retype_second_sentence(page, "Un ch")
    expect(page.locator(OFFER)).not_to_be_empty()
    offered = page.locator(OFFER).inner_text()
    expect(page.locator("#spoken")).to_have_text(f"按 Tab 续写：{offered}")
    expect(page.locator("#spoken [lang=fr]")).to_have_text(offered)
    expect(page.locator(FIELD)).to_have_attribute("aria-autocomplete", "inline")
    expect(page.locator(FIELD)).to_have_accessible_description(re.compile("按 Tab 采用"))
    page.click("#interface")
    expect(page.locator(FIELD)).to_have_accessible_description(re.compile("Tab takes it over"))
    expect(page.get_by_role("button", name=offered)).to_have_attribute("title", "Take this over (Tab)")
    page.locator(OFFER).filter(has_text="at").tap()
    expect(page.locator(FIELD)).to_have_value(re.compile("^Un chat .*[.]$"))
    expect(page.locator(FIELD)).to_be_focused()


@pytest.mark.parametrize("width", [1280, 390])
def test_offered_words_stand_behind_those_typed(completing: Page, width: int) -> None:
    """The copy of the text, in which they are, has the lines of the field."""
    page = completing
    page.set_viewport_size({"width": width, "height": 844})
    retype_second_sentence(page, "Un chat, qui est très fatigué après une longue journée de travail, dort s")
    expect(page.locator(OFFER)).not_to_be_empty()
    field, copy = page.locator(FIELD).bounding_box(), page.locator(".typed").bounding_box()
    assert field == copy
    wanted = [
        "font",
        "letterSpacing",
        "lineHeight",
        "padding",
        "borderWidth",
        "whiteSpace",
        "overflowWrap",
        "wordBreak",
    ]
    styles = [
        page.locator(at).evaluate("(at, names) => names.map((name) => getComputedStyle(at)[name])", wanted)
        for at in (FIELD, ".typed")
    ]
    assert styles[0] == styles[1]
    before, after = page.locator(".typed > :first-child").bounding_box(), page.locator(OFFER).bounding_box()
    assert before is not None and after is not None
    assert after["y"] + after["height"] >= before["y"] + before["height"]
    assert page.locator(FIELD).evaluate("at => at.scrollHeight <= at.offsetHeight")
