"""app/static/: the page's choice of the model that translates, and its mark on sentences of a large one."""

from __future__ import annotations

from pathlib import Path

from chromium import Visit
from llm_stub import llm_stub
from playwright.sync_api import Browser, expect
from shared_fixtures import SHIPPED, listening
from the_page import translation, type_in

SENTENCES = {"The house is small.": "La petite maison est là.", "The street is quiet.": "Ah, la rue est calme."}


def test_the_large_model_can_be_chosen_and_its_sentences_are_marked(browser: Browser, tmp_path: Path) -> None:
    with (
        llm_stub() as stub,
        listening(SHIPPED / "en-fr", llm=stub.url, llm_model="stub-7b", llm_below=0) as url,
    ):
        stub.answer = lambda text, times: SENTENCES.get(text, 500)
        visit = Visit(browser, url)
        page = visit.page("/#en/fr/")
        type_in(page, "The house is small. I live here.")
        expect(translation(page)).to_contain_text("vis")
        expect(page.locator(".by-llm")).to_have_count(0)
        page.select_option("#engine", "llm")
        expect(translation(page)).to_contain_text("La petite maison est là.")
        expect(page.locator(".by-llm")).to_have_count(1)
        expect(page.locator("#notes")).to_contain_text("The underlined sentences are translated by stub-7b.")
        expect(page.locator("#notes")).not_to_contain_text("Check this sentence: “La petite")
        expect(page.locator("footer")).to_contain_text("may send sentences of it to a large model")
        page.screenshot(path=tmp_path / "page.png")
        page.click("#interface")
        expect(page.locator("#engine option:checked")).to_have_text("大模型")
        page.reload()
        expect(page.locator("#engine")).to_have_value("llm")
        expect(page.locator(".by-llm")).to_have_count(1)
        assert len(stub.asked) >= 2
        visit.end()


def test_without_a_large_model_and_a_memory_nothing_of_them_is_shown(kept_visit: Visit) -> None:
    [page] = kept_visit.pages
    type_in(page, "Hello.")
    expect(translation(page)).to_contain_text("onjour")
    expect(page.locator("#engine")).to_be_hidden()
    expect(page.locator("#show-others")).to_be_enabled()
    expect(page.locator("#correct")).to_be_hidden()
